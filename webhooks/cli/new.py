"""A new policy, to be begun with: the policy itself, cases beside it, a test and a configuration, which all hold."""

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from webhooks.errors import ConfigurationError
from webhooks.reviews.kinds import Kind

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NOT_SERVED = ("test_", "conftest")  # what a folder's loading passes over
_CONFIGURATION = "webhooks.yaml"


@dataclass(frozen=True, slots=True)
class _Template:
    """The texts of a kind, in which NAME stands for the policy's name."""

    policy: str
    cases: str
    test: str
    entry: str


@dataclass(frozen=True, slots=True)
class Created:
    """A new policy.

    Attributes:
        files: those that were written.
        configuration: the configuration beside them.
        entry: what is to be added to its policies by hand, where it was there already; else empty.
    """

    files: Sequence[Path]
    configuration: Path
    entry: str


def write(name: str, kind: Kind, folder: Path) -> Created:
    """Write the files of a new policy, and a configuration that uses it if there is none yet.

    Args:
        name: the policy's name, and its files'.
        kind: the kind of policy.
        folder: where to; it is made if there is none.

    Raises:
        ConfigurationError: it is no name for one; some of the files are there already, and none is written; or they
            cannot be written.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name.startswith(_NOT_SERVED):
        raise ConfigurationError(
            f"{name!r} is no name for a new policy: small letters, digits and '_', beginning with a letter, "
            "no word of Python's, and not with test_ or conftest"
        )
    template = _TEMPLATES[kind]
    texts = {
        f"{name}.py": template.policy,
        f"{name}_cases.yaml": _CASES + template.cases,
        f"test_{name}.py": template.test,
    }
    files = {folder / file: text.replace("NAME", name) for file, text in texts.items()}
    configuration, entry = folder / _CONFIGURATION, template.entry.replace("NAME", name)
    there = [str(file) for file in files if file.exists()]
    if there:
        raise ConfigurationError(f"nothing is overwritten, and these are there already: {', '.join(there)}")
    if find_spec(name) is not None:
        raise ConfigurationError(f"there is a module named {name!r}, which tests in that folder could not import")
    begun = configuration.exists()
    if not begun:
        files[configuration] = _HEAD + entry
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be written: {error.strerror}") from None
    return Created(list(files), configuration, entry if begun else "")


_HEAD = """\
# The policies here, and what their operator says of them. In this folder:
#   webhooks check webhooks.yaml             says what is wrong with it
#   webhooks serve --config webhooks.yaml    serves them
# Editors know the fields by a schema, if it is there: see webhooks schema --help.
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
policies:
"""

_CASES = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: PolicyCases
cases:
"""

_TEMPLATES: Mapping[Kind, _Template] = {
    "validating": _Template(
        '''\
"""Pods say who owns them. (Say here what the policy sees to, and why.)"""

from webhooks import AdmissionReview, Allow, Decision, Deny, validating


@validating("pods", operations=["CREATE", "UPDATE"])
def NAME(review: AdmissionReview, *, label: str = "owner") -> Decision:
    """Deny pods without the label."""
    if label not in review.labels:
        return Deny(f"pod {review.name} has no label {label!r}")
    return Allow()
''',
        """\
  - name: a pod with an owner
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: team-a}}}
    expect: allowed

  - name: a pod without one
    object: {apiVersion: v1, kind: Pod, metadata: {name: web}}
    expect: {outcome: denied, message: has no label 'owner', code: 403}

  - name: another label
    parameters: {label: team}
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: team-a}}}
    expect: {outcome: denied, message: has no label 'team'}
""",
        '''\
"""What the cases beside the policy are too short for."""

from webhooks.testing import admission, assert_allowed, assert_denied, pod


def test_the_label_may_not_be_taken_away(server):
    before, after = pod(labels={"owner": "team-a"}), pod()
    result = server("NAME.py").review(admission("UPDATE", after, old_object=before))
    assert_denied(result, "has no label 'owner'", code=403)


def test_pods_may_be_deleted_without_it(server):
    assert_allowed(server("NAME.py").review(admission("DELETE", old_object=pod())))
''',
        """\
  - use: NAME.py
    parameters: {label: owner}
    mode: enforce # or warn, or audit: what a denial comes to
""",
    ),
    "mutating": _Template(
        '''\
"""Pods say which team they belong to, if need be by their namespace. (Say here what the policy sees to, and why.)"""

from webhooks import AdmissionReview, Allow, Mutation, Replace, mutating


@mutating("pods", operations=["CREATE"])
def NAME(review: AdmissionReview, *, label: str = "team") -> Mutation:
    """Give pods without the label one."""
    if label in review.labels:
        return Allow()
    pod = review.object
    pod["metadata"]["labels"] = {**review.labels, label: review.namespace}
    return Replace(pod)
''',
        """\
  - name: a pod with a team
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {team: a}}}
    expect: allowed

  - name: a pod without one
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
    expect:
      outcome: patched
      object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {team: shop}}}

  - name: another label
    parameters: {label: owner}
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {team: a}}}
    expect:
      outcome: patched
      patch: [{op: add, path: /metadata/labels/owner, value: shop}]
""",
        '''\
"""What the cases beside the policy are too short for."""

from webhooks.testing import admission, assert_allowed, assert_patched, pod


def test_done_twice_is_as_done_once(server):
    policies = server("NAME.py")
    once = policies.review(admission("CREATE", pod(namespace="shop")))
    assert_patched(once, pod(namespace="shop", labels={"team": "shop"}))
    assert_allowed(policies.review(admission("CREATE", once.object)))
''',
        """\
  - use: NAME.py
    parameters: {label: team}
""",
    ),
    "authorizing": _Template(
        '''\
"""Secrets are read by their names, not listed. (Say here what the policy sees to, and why.)"""

from collections.abc import Sequence

from webhooks import AccessReview, Deny, NoOpinion, Opinion, authorizing


@authorizing("core/secrets", verbs=["list", "watch"])
def NAME(access: AccessReview, *, except_groups: Sequence[str] = ("system:masters",)) -> Opinion:
    """Deny listing secrets; whether they may be read is for others to say."""
    if set(except_groups) & set(access.groups):
        return NoOpinion()
    return Deny(f"{access.user} may not {access.verb} secrets: they are read by name")
''',
        """\
  - name: secrets are not listed
    request:
      spec: {user: jane, groups: [dev], resourceAttributes: {verb: list, version: v1, resource: secrets}}
    expect: {outcome: denied, message: they are read by name}

  - name: one that is read
    request:
      spec: {user: jane, groups: [dev], resourceAttributes: {verb: get, version: v1, resource: secrets, name: key}}
    expect: no opinion

  - name: another group that may
    parameters: {except_groups: [dev]}
    request:
      spec: {user: jane, groups: [dev], resourceAttributes: {verb: list, version: v1, resource: secrets}}
    expect: no opinion
""",
        '''\
"""What the cases beside the policy are too short for."""

import pytest

from webhooks.testing import access, assert_denied, assert_no_opinion


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_secrets_are_listed_nowhere(server, namespace):
    assert_denied(server("NAME.py").review(access("list", "secrets", namespace=namespace)), "read by name")


def test_other_resources_are_for_others_to_decide(server):
    assert_no_opinion(server("NAME.py").review(access("list", "configmaps")))
''',
        """\
  - use: NAME.py
    parameters: {exceptGroups: ["system:masters"]}
""",
    ),
    "authenticating": _Template(
        '''\
"""Robots have signed tokens, ``robot.signature``. (Say here what the policy sees to, and why.)

This is no more than a beginning: these tokens never expire, and the key is to come from a safe place.
"""

import hmac

from webhooks import Authenticated, Identity, NoOpinion, TokenReview, Unauthenticated, authenticating


@authenticating
def NAME(review: TokenReview, *, key: str = "") -> Identity:
    """Know robots by their signature; without a key, and of tokens of another form, others may know more."""
    robot, dot, signature = review.token.partition(".")
    if not key or not dot:
        return NoOpinion()
    wanted = hmac.digest(key.encode(), robot.encode(), "sha256").hex()
    if not hmac.compare_digest(wanted.encode(), signature.encode()):
        return Unauthenticated("the signature is wrong")
    return Authenticated(f"robot:{robot}", groups=["robots"])
''',
        """\
  - name: a robot
    parameters: {key: secret-1}
    request: {spec: {token: sweeper.SIGNATURE}}
    expect:
      outcome: allowed
      user: {username: "robot:sweeper", groups: [robots]}

  - name: a robot with the signature of another
    parameters: {key: secret-1}
    request: {spec: {token: carrier.SIGNATURE}}
    expect: {outcome: denied, message: the signature is wrong}

  - name: a token of another form
    parameters: {key: secret-1}
    request: {spec: {token: secret-1}}
    expect: no opinion
""".replace("SIGNATURE", "b4fc5ce07a7b74cdcb896b6d394fd0ba629ac77faa8d35820f4a9b6f9e1e2f42"),
        '''\
"""What the cases beside the policy are too short for."""

import pytest

from webhooks.testing import assert_no_opinion, token


@pytest.mark.parametrize("text", ["sweeper", "sweeper.", ".", "\\u00e9.1"])
def test_without_a_key_nobody_is_known(server, text):
    assert_no_opinion(server("NAME.py").review(token(text)))
''',
        """\
  - use: NAME.py # without its key it knows nobody
""",
    ),
    "image_policy": _Template(
        '''\
"""Pods run images from known registries. (Say here what the policy sees to, and why.)"""

from collections.abc import Sequence

from webhooks import Allow, Decision, Deny, ImageReview, image_policy


@image_policy
def NAME(review: ImageReview, *, registries: Sequence[str] = ("registry.k8s.io",)) -> Decision:
    """Deny pods with an image from elsewhere."""
    for reference in review.references:
        if not any(reference.within(registry) for registry in registries):
            return Deny(f"{reference} is from outside {', '.join(registries)}")
    return Allow()
''',
        """\
  - name: an image from there
    request: {spec: {namespace: shop, containers: [{image: "registry.k8s.io/pause:3.10"}]}}
    expect: allowed

  - name: one of two from elsewhere
    request: {spec: {namespace: shop, containers: [{image: "registry.k8s.io/pause:3.10"}, {image: nginx}]}}
    expect: {outcome: denied, message: is from outside registry.k8s.io}

  - name: another registry
    parameters: {registries: [docker.io/library]}
    request: {spec: {namespace: shop, containers: [{image: nginx}]}}
    expect: allowed
""",
        '''\
"""What the cases beside the policy are too short for."""

import pytest

from webhooks.testing import assert_denied, images


@pytest.mark.parametrize("image", ["registry.k8s.io.example.com/pause", "example.com/registry.k8s.io/pause"])
def test_names_that_look_alike_are_other_names(server, image):
    assert_denied(server("NAME.py").review(images(image)), "is from outside")
''',
        """\
  - use: NAME.py
    parameters: {registries: [registry.k8s.io]}
    mode: enforce # or audit: what a denial comes to
""",
    ),
}
