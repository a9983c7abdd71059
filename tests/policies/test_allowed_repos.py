from typing import Any

import pytest

from webhooks import Allow, Decision, Deny
from webhooks.errors import ConfigurationError
from webhooks.loading import load

from ..builders import Json, admission_review, decide, pod

[allowed_repos] = load(["library:allowed_repos"])

DIGEST = f"sha256:{'a' * 64}"

# Places, the images from them, and images that only look so.
PLACES: list[tuple[list[str], list[str], list[str]]] = [
    (
        ["registry.example.com"],
        [
            "registry.example.com/web",
            "registry.example.com/web:1.2",
            "registry.example.com/team/web",
            f"registry.example.com/web@{DIGEST}",
            f"registry.example.com/web:1@{DIGEST}",
        ],
        [
            "nginx",
            "registry.example.com.evil.org/web",
            "registry.example.comx/web",
            "registry.example.com:5000/web",
            "evil.org/registry.example.com/web",
            "xregistry.example.com/web",
            "sub.registry.example.com/web",
            "registry.example.com",
            "registry.example.com@evil.org/web",
            "registry.example.com/../web",
            "registry.example.com//web",
            "https://registry.example.com/web",
            " registry.example.com/web",
            "registry.example.com/web ",
            "registry.example.com/web\n",
            "registry.example.com/WEB",
            "registry.example.com/web:",
            "registry.example.com/web@sha256:abc",
            "",
        ],
    ),
    (
        ["registry.example.com/team"],
        ["registry.example.com/team/web", "registry.example.com/team/deep/web", "registry.example.com/team:1"],
        ["registry.example.com/teamster/web", "registry.example.com/web", "registry.example.com/other/team/web"],
    ),
    (
        ["docker.io/library"],
        ["nginx", "docker.io/nginx", "docker.io/library/nginx:1"],
        ["bitnami/nginx", "library.io/nginx"],
    ),
    (["docker.io/bitnami"], ["bitnami/nginx", "index.docker.io/bitnami/nginx"], ["nginx", "bitnamix/nginx"]),
    (["localhost:5000"], ["localhost:5000/web"], ["localhost/web", "localhost:50000/web"]),
    (["a.example.com", "b.example.com"], ["a.example.com/x", "b.example.com/x"], ["c.example.com/x"]),
    ([], [], ["nginx", "registry.k8s.io/pause"]),
]


def judged(obj: Json, repos: list[str], **request: Any) -> Decision:
    policy = allowed_repos.bind(repos=repos)
    review = admission_review(obj=obj, **request)
    assert policy.match.wants_kind(review)
    outcome = decide(review, policy).outcome
    assert isinstance(outcome, Allow | Deny)
    return outcome


def of_image(image: Any) -> Json:
    return pod(containers=[{"name": "app", "image": image}])


@pytest.mark.parametrize(("repos", "good", "bad"), PLACES, ids=lambda value: ",".join(value)[:30])
def test_images_come_from_known_places(repos: list[str], good: list[str], bad: list[str]) -> None:
    for image in good:
        assert isinstance(judged(of_image(image), repos), Allow), image
    for image in bad:
        outcome = judged(of_image(image), repos)
        assert isinstance(outcome, Deny), image
        assert (outcome.code, outcome.message) == (403, f"images from outside {', '.join(repos)}: app ({image})")


GOOD, BAD = {"name": "good", "image": "good.io/a"}, {"name": "bad", "image": "bad.io/a"}
KINDS = ("containers", "initContainers", "ephemeralContainers")


def bearing(kind: str, spec: Json) -> Json:
    """An object of the kind with this pod in it."""
    template = {"metadata": {}, "spec": spec}
    inner = {"Pod": spec, "CronJob": {"jobTemplate": {"spec": {"template": template}}}}.get(
        kind, {"template": template}
    )
    group = (
        "batch/"
        if kind in ("Job", "CronJob")
        else ""
        if kind in ("Pod", "PodTemplate", "ReplicationController")
        else "apps/"
    )
    rest = {"template": template} if kind == "PodTemplate" else {"spec": inner}
    return {"apiVersion": f"{group}v1", "kind": kind, "metadata": {"name": "web"}, **rest}


@pytest.mark.parametrize("list_", KINDS)
@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("Pod", "v1/pods"),
        ("PodTemplate", "v1/podtemplates"),
        ("ReplicationController", "v1/replicationcontrollers"),
        ("Deployment", "apps/v1/deployments"),
        ("ReplicaSet", "apps/v1/replicasets"),
        ("StatefulSet", "apps/v1/statefulsets"),
        ("DaemonSet", "apps/v1/daemonsets"),
        ("Job", "batch/v1/jobs"),
        ("CronJob", "batch/v1/cronjobs"),
    ],
)
def test_no_container_is_overlooked(kind: str, resource: str, list_: str) -> None:
    good = bearing(kind, {each: [GOOD] for each in KINDS})
    bad = bearing(kind, {**{each: [GOOD] for each in KINDS}, list_: [GOOD, BAD]})
    assert isinstance(judged(good, ["good.io"], resource=resource), Allow)
    assert judged(bad, ["good.io"], resource=resource) == judged(of_bad(), ["good.io"])
    update = {"resource": resource, "operation": "UPDATE", "old": good}
    assert isinstance(judged(bad, ["good.io"], **update), Deny)


def of_bad() -> Json:
    return pod(containers=[BAD])


@pytest.mark.parametrize(
    "obj",
    [
        pod(ephemeralContainers=[BAD]),
        {"apiVersion": "v1", "kind": "EphemeralContainers", "metadata": {}, "ephemeralContainers": [BAD]},
    ],
    ids=["as now", "as of old"],
)
def test_containers_put_into_running_pods_count_too(obj: Json) -> None:
    outcome = judged(obj, ["good.io", "registry.k8s.io"], operation="UPDATE", subResource="ephemeralcontainers")
    assert isinstance(outcome, Deny)


def test_all_strange_containers_are_named() -> None:
    obj = pod(containers=[BAD, GOOD, {"name": "none"}], initContainers=[{"image": "x"}])
    outcome = judged(obj, ["good.io"])
    assert isinstance(outcome, Deny)
    assert outcome.message == "images from outside good.io: bad (bad.io/a), none (),  (x)"


@pytest.mark.parametrize("image", [None, 5, ["good.io/a"], {"name": "good.io/a"}], ids=repr)
def test_an_image_that_is_no_text_comes_from_nowhere(image: Any) -> None:
    assert isinstance(judged(of_image(image), ["good.io"]), Deny)


@pytest.mark.parametrize(
    "spec",
    [{"containers": {"a": BAD}}, {"containers": ["bad"]}, {"containers": [None]}, {"initContainers": "bad"}],
    ids=repr,
)
def test_where_a_container_could_hide_is_denied(spec: Json) -> None:
    outcome = judged(pod(**spec), ["good.io", "registry.k8s.io"])
    assert isinstance(outcome, Deny)
    assert outcome.code == 500


@pytest.mark.parametrize("repo", ["", "*", "good.io/*", "good.io:x/", "good.io/a:1", "https://good.io"])
def test_a_place_that_is_none_denies(repo: str) -> None:
    assert isinstance(judged(of_image("good.io/a"), [repo]), Deny)


def test_the_registry_of_the_cluster_is_known_unless_told_otherwise() -> None:
    assert isinstance(decide(admission_review(obj=pod()), allowed_repos).outcome, Allow)
    assert isinstance(decide(admission_review(obj=of_image("nginx")), allowed_repos).outcome, Deny)


@pytest.mark.parametrize("repos", ["good.io", [5], None, {"good.io": True}], ids=repr)
def test_its_parameters_are_checked(repos: Any) -> None:
    with pytest.raises(ConfigurationError):
        allowed_repos.bind(repos=repos)
