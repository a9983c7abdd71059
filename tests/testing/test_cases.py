"""Files of cases: what they may hold, what is wrong with others, and what cases come to."""

import textwrap
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError
from webhooks.testing import cases

POLICY = """\
from webhooks import *


@validating("pods", operations=["*"])
def labels(review: AdmissionReview, *, label: str = "owner", most: int = 3) -> Decision:
    if review.user.username == "root" or "ops" in review.groups:
        return Allow(warnings=[f"{review.operation} by root"])
    return Allow() if label in review.labels else Deny(f"no {label}")


@mutating("pods")
def team(review: AdmissionReview, *, most: int = 3) -> Mutation:
    if review.namespace != "shop":
        return Allow()
    return Patch([{"op": "add", "path": "/metadata/labels", "value": {"owner": "shop"}}])
"""

AUTHORIZING = """\
from webhooks import *


@authorizing("pods")
def access(review: AccessReview, *, most: int) -> Opinion:
    return {1: Allow(reason="one"), 2: Deny("two"), 3: NoOpinion(reason="three")}[most]
"""

HEAD = "apiVersion: webhooks.svc.io/v1alpha1\nkind: PolicyCases\ncases:\n"

WEB = "{apiVersion: v1, kind: Pod, metadata: {name: web}}"
OWNED = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: jane}}}"
SHOP = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}"
SHOP_OWNED = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {owner: shop}}}"
PATCH = "[{op: add, path: /metadata/labels, value: {owner: shop}}]"
REVIEW = "{spec: {user: jane, resourceAttributes: {verb: get, resource: pods}}}"


def read(folder: Path, text: str, policy: str = POLICY) -> list[cases.Placed]:
    (folder / "labels.py").write_text(policy)
    (folder / "labels_cases.yaml").write_text(text)
    return cases.read(folder / "labels_cases.yaml", folder / "labels.py")


CONFIGURATION = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
policies:
  - use: labels.py:labels
    parameters: {label: team}
    mode: warn
    exemptions: [{namespaces: [old], reason: being moved}]
  - {use: labels.py:labels, name: most, mode: audit}
"""


def configured(folder: Path, text: str, configuration: str = CONFIGURATION) -> list[cases.Placed]:
    (folder / "labels.py").write_text(POLICY)
    (folder / "webhooks.yaml").write_text(configuration)
    below = folder / "cases"
    below.mkdir()
    (below / "all.yaml").write_text(text.replace("cases:", "configuration: ../webhooks.yaml\ncases:"))
    return cases.read(below / "all.yaml", None)


def case(*lines: str) -> str:
    return f"{HEAD}  - name: it\n" + textwrap.indent("\n".join(lines), "    ")


HOLDING = {
    "allowed": (f"object: {OWNED}", "expect: allowed"),
    "allowed, in full": (f"object: {OWNED}", "expect: {outcome: allowed, warnings: []}"),
    "denied": (f"object: {WEB}", "expect: denied"),
    "denied, in full": (
        f"object: {WEB}",
        "expect: {outcome: denied, message: no own, code: 403, reason: Forbidden, warnings: [], audit: {}}",
    ),
    "patched": (f"object: {SHOP}", "expect: patched"),
    "patched, in full": (f"object: {SHOP}", f"expect: {{outcome: patched, object: {SHOP_OWNED}, patch: {PATCH}}}"),
    "parameters": (
        f"object: {OWNED}",
        "parameters: {label: team, most: 4}",
        "expect: {outcome: denied, message: team}",
    ),
    "parameters as configurations spell them": (
        f"object: {OWNED}",
        "parameters: {Label: team, m_ost: 4}",
        "expect: {outcome: denied, message: team}",
    ),
    "on creation": (f"object: {WEB}", "user: root", "expect: {outcome: allowed, warnings: [CREATE by root]}"),
    "on update": (
        f"object: {WEB}",
        f"old: {OWNED}",
        "user: root",
        "expect: {outcome: allowed, warnings: [UPDATE by root]}",
    ),
    "on deletion": (f"old: {WEB}", "groups: [ops]", "expect: {outcome: allowed, warnings: [DELETE by root]}"),
    "on something": (
        f"object: {WEB}",
        "operation: CONNECT",
        "user: root",
        "expect: {outcome: allowed, warnings: [CONNECT by root]}",
    ),
    "a whole review": (
        "request:",
        "  request:",
        '    uid: "1"',
        "    operation: CREATE",
        '    kind: {group: "", version: v1, kind: Pod}',
        '    resource: {group: "", version: v1, resource: pods}',
        f"    object: {WEB}",
        "expect: denied",
    ),
    "what is null is not set": (f"object: {OWNED}", "old: null", "request: null", "expect: allowed"),
}


@pytest.mark.parametrize("lines", HOLDING.values(), ids=HOLDING)
def test_cases_that_hold(lines: tuple[str, ...], tmp_path: Path) -> None:
    [placed] = read(tmp_path, case(*lines))
    placed.run()
    assert (placed.case.name, placed.line, placed.file.resolve()) == ("it", 4, tmp_path / "labels_cases.yaml")


@pytest.mark.parametrize(
    ("most", "expect"),
    [
        (1, "{outcome: allowed, message: one}"),
        (2, "{outcome: denied, message: two}"),
        (3, "{outcome: no opinion, message: three}"),
    ],
)
def test_other_kinds(most: int, expect: str, tmp_path: Path) -> None:
    lines = (f"request: {REVIEW}", f"parameters: {{most: {most}}}", f"expect: {expect}")
    [placed] = read(tmp_path, case(*lines), AUTHORIZING)
    placed.run()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((f"object: {WEB}", "expect: allowed"), "-outcome: allowed\n+outcome: denied\n\ngot: denied\n  code: 403"),
        ((f"object: {OWNED}", "expect: denied"), "-outcome: denied\n+outcome: allowed\n\ngot: allowed"),
        ((f"object: {SHOP}", "expect: allowed"), "-outcome: allowed\n+outcome: patched"),
        ((f"object: {OWNED}", "expect: patched"), "-outcome: patched\n+outcome: allowed"),
        ((f"object: {WEB}", "expect: {outcome: denied, message: no name}"), "-message: no name\n+message: no owner\n"),
        ((f"object: {WEB}", "expect: {outcome: denied, code: 422}"), "-code: 422\n+code: 403\n"),
        ((f"object: {WEB}", "expect: {outcome: denied, reason: Invalid}"), "-reason: Invalid\n+reason: Forbidden\n"),
        ((f"object: {OWNED}", "expect: {outcome: allowed, audit: {a: b}}"), "-audit:\n-  a: b\n+audit: {}\n"),
        ((f"object: {WEB}", "user: root", "expect: {outcome: allowed, warnings: []}"), "+- CREATE by root"),
        (
            (f"object: {SHOP}", f"expect: {{outcome: patched, object: {SHOP}}}"),
            "   metadata:\n+    labels:\n+      owner: shop\n     name: web\n",
        ),
        ((f"object: {SHOP}", "expect: {outcome: patched, patch: [{op: remove}]}"), "-- op: remove\n+- op: add\n"),
        ((f"object: {OWNED.replace('Pod', 'Service')}", "expect: denied"), "no policy was asked"),
    ],
)
def test_cases_that_do_not_hold(lines: tuple[str, ...], says: str, tmp_path: Path) -> None:
    [placed] = read(tmp_path, case(*lines))
    with pytest.raises(AssertionError) as raised:
        placed.run()
    assert says in str(raised.value)


GOOD = (f"object: {WEB}", "expect: denied")

WRONG = {
    "nothing": ("", ["there is nothing in it"]),
    "a list": ("- a", ["1:1: Invalid value: a list: must be a mapping"]),
    "no head": (
        "cases:\n  - {name: a, object: {}, expect: denied}",
        ["1:1: apiVersion: Required value", "1:1: kind: Required value"],
    ),
    "another head": (
        "apiVersion: webhooks.svc.io/v1\nkind: Pod\ncases: []",
        ['1:13: apiVersion: Unsupported value: "webhooks.svc.io/v1"', "2:7: kind: Unsupported", "3:8: cases: Required"],
    ),
    "unknown fields": (
        case(f"objekt: {WEB}", *GOOD, "expct: denied") + "\ncase: []",
        [
            "5:5: cases[0].objekt: Forbidden: unknown field; did you mean object?",
            "8:5: cases[0].expct: Forbidden: unknown field; did you mean expect?",
            "9:1: case: Forbidden: unknown field; did you mean cases?",
        ],
    ),
    "keys twice": (case(*GOOD, "expect: denied"), ["7:5: cases[0].expect: Duplicate value"]),
    "an unknown outcome": (
        case(f"object: {WEB}", "expect: refused"),
        ['6:13: cases[0].expect: Unsupported value: "refused": supported values: "allowed", "denied", "patched"'],
    ),
    "an outcome of another type": (case(f"object: {WEB}", "expect: [denied]"), ["6:13: cases[0].expect: Invalid"]),
    "what does not go together": (
        case(f"object: {WEB}", "expect: {outcome: allowed, code: 200, reason: Invalid, patch: [], object: {}}"),
        [
            "cases[0].expect.reason: Forbidden: does not go with allowed",
            "cases[0].expect.code: Forbidden: does not go with allowed",
            "cases[0].expect.patch: Forbidden: does not go with allowed",
            "cases[0].expect.object: Forbidden: does not go with allowed",
        ],
    ),
    "what does not go with a denial": (
        case(f"object: {WEB}", "expect: {outcome: denied, object: {}, patch: [], user: {}}"),
        [
            "cases[0].expect.object: Forbidden: does not go with denied",
            "cases[0].expect.patch: Forbidden: does not go with denied",
            "cases[0].expect.user: Forbidden: does not go with denied",
        ],
    ),
    "nothing to ask": (case("expect: denied"), ["4:5: cases[0]: Required value: an object, an old one, or a request"]),
    "a request with more": (
        case("request: {}", f"object: {WEB}", "user: jane", "expect: denied"),
        ["4:5: cases[0]: Forbidden: a request is a whole review, which holds what object, user would say"],
    ),
    "a request of an unknown kind": (
        case("request: {kind: Pod}", "expect: denied"),
        ['5:21: cases[0].request.kind: Unsupported value: "Pod": supported values: "AdmissionReview", '],
    ),
    "a name twice": (
        f"{HEAD}  - {{name: it, object: {WEB}, expect: denied}}\n  - {{name: it, object: {WEB}, expect: denied}}",
        ['5:12: cases[1].name: Duplicate value: "it"'],
    ),
    "parameters": (
        case(*GOOD, "parameters: {labels: a, most: many}"),
        [
            "7:18: cases[0].parameters.labels: Forbidden: no policy has it",
            "7:35: cases[0].parameters.most: Invalid value: \"many\": policy 'labels': Expected `int`",
        ],
    ),
    "a configuration that is none": (
        HEAD.replace("cases", "configuration: [webhooks.yaml]\ncases") + "  []",
        ["3:16: configuration: Invalid value: a list: must be a string", "5:3: cases: Required value"],
    ),
    "a configuration that is missing": (
        case(*GOOD).replace("cases", "configuration: webhooks.yml\ncases", 1),
        ['3:16: configuration: Invalid value: "webhooks.yml": no such file'],
    ),
}


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str, says: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, text)
    lines = str(raised.value).splitlines()
    assert all(line.partition(":")[0].endswith("labels_cases.yaml") for line in lines)
    for each in says:
        assert any(each in line for line in lines), f"{each} in\n{raised.value}"


def test_parameters_that_must_be_set(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"4:5: cases\[0\]: Required value: policy 'access': required parameter 'most'"
    ):
        read(tmp_path, case(f"request: {REVIEW}", "expect: denied"), AUTHORIZING)


def test_a_parameter_that_is_wrong_is_not_missing_too(tmp_path: Path) -> None:
    text = case(f"request: {REVIEW}", "parameters: {most: many}", "expect: denied")
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, text, AUTHORIZING)
    assert len(str(raised.value).splitlines()) == 1


def test_requests_that_could_be_several_things(tmp_path: Path) -> None:
    both = POLICY + AUTHORIZING.replace("most: int", "most: int = 2")
    text = case(f"request: {REVIEW}", "expect: denied")
    with pytest.raises(ConfigurationError, match=r"request\.kind: Required value: one of AdmissionReview, SubjectAcc"):
        read(tmp_path, text, both)
    [placed] = read(tmp_path, text.replace("{spec", "{kind: SubjectAccessReview, spec"), both)
    placed.run()


def test_a_policy_that_does_not_load(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"labels\.py:1: ZeroDivisionError"):
        read(tmp_path, case(*GOOD), "1 / 0")


@pytest.mark.parametrize(
    "lines",
    [
        (
            f"object: {WEB}",
            "expect: {outcome: allowed, warnings: ['labels: no team'], audit: {most.denied: no owner}}",
        ),
        (f"object: {OWNED}", "expect: {outcome: allowed, warnings: ['labels: no team'], audit: {}}"),
        (f"object: {OWNED}", "parameters: {label: owner}", "expect: {outcome: allowed, warnings: [], audit: {}}"),
        (
            f"object: {OWNED.replace('name: web', 'name: web, namespace: old')}",
            "expect: {outcome: allowed, warnings: [], audit: {labels.exempted: being moved}}",
        ),
        (f"request: {{request: {{uid: '1', operation: CREATE, object: {OWNED}}}}}", "expect: denied"),
    ],
)
def test_cases_of_a_configuration(lines: tuple[str, ...], tmp_path: Path) -> None:
    [placed] = configured(tmp_path, case(*lines))
    placed.run()


def test_a_case_that_forgets_the_mode(tmp_path: Path) -> None:
    [placed] = configured(tmp_path, case(f"object: {WEB}", "expect: denied"))
    with pytest.raises(AssertionError, match=r"-outcome: denied\n\+outcome: allowed\n\ngot: allowed\n  warnings:"):
        placed.run()


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        (
            CONFIGURATION.replace("mode: warn", "mode: warned"),
            r"webhooks.yaml:6:11: policies\[0\].mode: Unsupported value",
        ),
        (CONFIGURATION.replace("label:", "lable:"), r"webhooks.yaml:5:18: .*lable: Forbidden: .*did you mean label\?"),
        (
            CONFIGURATION.partition("policies:")[0],
            r'all.yaml:3:16: configuration: Invalid value: ".*": no policies are in',
        ),
        (CONFIGURATION.replace("labels.py:labels", "other.py"), r"webhooks.yaml:4:10: .*other.py: no such file"),
    ],
)
def test_a_configuration_that_is_wrong(configuration: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=says):
        configured(tmp_path, case(*GOOD), configuration)


def test_cases_about_nothing(tmp_path: Path) -> None:
    (tmp_path / "some_cases.yaml").write_text(case(*GOOD))
    with pytest.raises(ConfigurationError, match=r"1:1: configuration: Required value: the policy is to stand beside"):
        cases.read(tmp_path / "some_cases.yaml", None)


def test_parameters_of_policies_in_processes_of_their_own(tmp_path: Path) -> None:
    policy = POLICY.replace('operations=["*"]', 'operations=["*"], isolation=True')
    lines = (f"object: {OWNED}", "parameters: {label: team}", "expect: {outcome: denied, message: no team}")
    [placed] = read(tmp_path, case(*lines), policy)
    placed.run()
