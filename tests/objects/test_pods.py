from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.objects.image_references import ImageReference
from webhooks.objects.pods import Container, find_containers, find_image_volumes, find_pod_spec

Object = dict[str, Any]

POINTERS = {
    ("v1", "Pod"): "/spec",
    ("v1", "ReplicationController"): "/spec/template/spec",
    ("v1", "PodTemplate"): "/template/spec",
    ("apps/v1", "Deployment"): "/spec/template/spec",
    ("extensions/v1beta1", "Deployment"): "/spec/template/spec",
    ("apps/v1", "ReplicaSet"): "/spec/template/spec",
    ("apps/v1", "StatefulSet"): "/spec/template/spec",
    ("apps/v1", "DaemonSet"): "/spec/template/spec",
    ("batch/v1", "Job"): "/spec/template/spec",
    ("batch/v1", "CronJob"): "/spec/jobTemplate/spec/template/spec",
    ("argoproj.io/v1alpha1", "Rollout"): "/spec/template/spec",
    ("example.org/v1", "Job"): "/spec/jobTemplate/spec/template/spec",
    ("example.org/v1", "Pod"): "/template/spec",
    ("example.org/v1", "Thing"): "/spec",
    (None, None): "/spec/template/spec",
}


def nested(pointer: str, inner: Any) -> Any:
    for key in reversed(pointer.split("/")[1:]):
        inner = {key: inner}
    return inner


def with_pod(api_version: Any, kind: Any, pointer: str, spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, **nested(pointer, spec)}


def pod(**spec: Any) -> Object:
    return with_pod("v1", "Pod", "/spec", spec)


@pytest.mark.parametrize(("group_kind", "pointer"), POINTERS.items())
def test_the_pod_spec_of_every_kind(group_kind: tuple[Any, Any], pointer: str) -> None:
    spec = {
        "ephemeralContainers": [{"name": "debug", "image": "busybox"}],
        "initContainers": [{"name": "init", "image": "gcr.io/init"}],
        "containers": [{"name": "app", "image": "nginx"}, {"name": "side", "image": "proxy:1"}],
    }
    obj = with_pod(*group_kind, pointer, spec)
    assert find_pod_spec(obj) == (spec, pointer)
    assert find_pod_spec(obj)[0] is spec
    containers = find_containers(obj)
    assert [(container.name, container.image, container.pointer) for container in containers] == [
        ("app", "nginx", f"{pointer}/containers/0"),
        ("side", "proxy:1", f"{pointer}/containers/1"),
        ("init", "gcr.io/init", f"{pointer}/initContainers/0"),
        ("debug", "busybox", f"{pointer}/ephemeralContainers/0"),
    ]
    for container in containers:
        assert container.spec is spec[container.kind][int(container.pointer.rpartition("/")[2])]


def test_the_object_of_the_old_ephemeral_containers_subresource() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "EphemeralContainers",
        "ephemeralContainers": [{"name": "d", "image": "b"}],
    }
    [container] = find_containers(obj)
    assert (container.kind, container.pointer) == ("ephemeralContainers", "/ephemeralContainers/0")
    assert find_pod_spec(obj) == (obj, "")


@pytest.mark.parametrize(
    ("obj", "pointer"),
    [
        ({}, ""),
        ({"kind": "ConfigMap", "apiVersion": "v1", "data": {"spec": "x"}}, ""),
        ({"kind": "Service", "apiVersion": "v1", "spec": {"ports": []}}, ""),
        ({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 1}}, ""),
        ({"kind": "Thing", "apiVersion": "example.org/v1", "spec": {"containers": 3}}, ""),
        ({"kind": "Thing", "apiVersion": "example.org/v1", "spec": None, "template": []}, ""),
        ({"kind": ["Pod"], "spec": {"template": "x"}}, ""),
        ({"kind": "Pod"}, "/spec"),
        ({"kind": "Deployment", "spec": {"replicas": 1}}, "/spec/template/spec"),
    ],
)
def test_objects_without_a_pod(obj: Object, pointer: str) -> None:
    assert find_pod_spec(obj) == (None, pointer)
    assert find_containers(obj) == []


@pytest.mark.parametrize("lists", [{}, {"containers": None}, {"containers": [], "initContainers": None}])
def test_absent_and_null_lists_are_empty(lists: Object) -> None:
    assert find_containers(pod(**lists)) == []


@pytest.mark.parametrize(
    ("obj", "pointer"),
    [
        (pod(containers={"name": "a"}), "/spec/containers"),
        (pod(containers="nginx"), "/spec/containers"),
        (pod(containers=[], initContainers=0), "/spec/initContainers"),
        (pod(containers=[], ephemeralContainers=False), "/spec/ephemeralContainers"),
        (pod(containers=[{}, None]), "/spec/containers/1"),
        (pod(containers=[["nginx"]]), "/spec/containers/0"),
        (with_pod("v1", "Pod", "/spec", None), "/spec"),
        (with_pod("v1", "Pod", "/spec", [{"containers": []}]), "/spec"),
        (with_pod("apps/v1", "Deployment", "/spec/template", None), "/spec/template"),
        (with_pod("apps/v1", "Deployment", "/spec/template/spec", "x"), "/spec/template/spec"),
        (with_pod("batch/v1", "CronJob", "/spec/jobTemplate", []), "/spec/jobTemplate"),
        (
            with_pod("example.org/v1", "Thing", "/spec/template/spec", {"containers": [1]}),
            "/spec/template/spec/containers/0",
        ),
        ({"kind": "EphemeralContainers", "ephemeralContainers": {}}, "/ephemeralContainers"),
    ],
)
def test_a_malformed_object_that_could_hide_a_container(obj: Object, pointer: str) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        find_containers(obj)
    assert str(error.value).partition(": ")[0] == pointer


@pytest.mark.parametrize("value", [None, 3, [], {"a": "b"}])
def test_a_name_or_image_that_is_not_a_string_is_empty(value: Any) -> None:
    spec = {"name": value, "image": value}
    [container] = find_containers(pod(containers=[spec]))
    assert (container.name, container.image, container.spec) == ("", "", spec)
    with pytest.raises(ValueError, match=r"^/spec/containers/0/image: "):
        _ = container.reference


def test_the_reference_of_an_image() -> None:
    [container] = find_containers(pod(containers=[{"image": "nginx:1"}]))
    assert container.reference == ImageReference("docker.io", "library/nginx", "1")


def test_an_image_is_of_patterns() -> None:
    patterns = ["nginx:1", "gcr.io/team/*"]
    images = ["nginx:1", "gcr.io/team/a", "gcr.io/teams/a", ""]
    containers = find_containers(pod(containers=[{"image": image} for image in images]))
    assert [container.is_of(patterns) for container in containers] == [True, True, False, False]
    assert not any(container.is_of([]) for container in containers)


def test_the_description_of_a_container() -> None:
    one = [{"name": "web"}]
    containers = find_containers(pod(containers=one, initContainers=one, ephemeralContainers=one))
    assert list(map(str, containers)) == ["container web", "init container web", "ephemeral container web"]


@pytest.mark.parametrize(("group_kind", "pointer"), POINTERS.items())
def test_image_volumes(group_kind: tuple[Any, Any], pointer: str) -> None:
    volumes = [
        {"name": "data", "emptyDir": {}},
        {"name": "model", "image": {"reference": "gcr.io/model:1"}},
        {"name": "none", "image": None},
        {"name": None, "image": {"reference": 5}},
    ]
    images = find_image_volumes(with_pod(*group_kind, pointer, {"containers": [], "volumes": volumes}))
    assert [(str(image), image.image, image.kind, image.pointer) for image in images] == [
        ("volume model", "gcr.io/model:1", "volumes", f"{pointer}/volumes/1"),
        ("volume ", "", "volumes", f"{pointer}/volumes/3"),
    ]
    assert images[0].reference == ImageReference("gcr.io", "model", "1")
    with pytest.raises(ValueError, match=f"^{pointer}/volumes/3/image: "):
        _ = images[1].reference


@pytest.mark.parametrize(
    ("volumes", "pointer"),
    [
        ({"image": {}}, "/spec/volumes"),
        ("x", "/spec/volumes"),
        ([None], "/spec/volumes/0"),
        ([{}, ["image"]], "/spec/volumes/1"),
        ([{"image": "a"}], "/spec/volumes/0/image"),
        ([{"image": []}], "/spec/volumes/0/image"),
    ],
)
def test_a_malformed_object_that_could_hide_a_volume(volumes: Any, pointer: str) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        find_image_volumes(pod(volumes=volumes))
    assert str(error.value).partition(": ")[0] == pointer


class Copying(dict[str, Any]):
    """A dict that copies its parts when they are read, like the object of a mutating policy."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if type(value) is dict:
            value = Copying(value)
        elif type(value) is list:
            value = [Copying(item) for item in value]
        self[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        return self[key]


@pytest.mark.parametrize(("group_kind", "pointer"), POINTERS.items())
def test_changing_a_container_changes_a_lazily_copied_object(group_kind: tuple[Any, Any], pointer: str) -> None:
    stored = with_pod(*group_kind, pointer, {"containers": [{"image": "nginx"}]})
    obj = Copying(stored)
    [container] = find_containers(obj)
    container.spec["image"] = "changed"
    assert obj == with_pod(*group_kind, pointer, {"containers": [{"image": "changed"}]})
    assert stored == with_pod(*group_kind, pointer, {"containers": [{"image": "nginx"}]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["spec", "template", "jobTemplate", "containers", "initContainers", "image"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["spec", "template", "ephemeralContainers"]), json_values, max_size=3),
    st.sampled_from(sorted({str(kind) for _, kind in POINTERS} | {"EphemeralContainers", "Other"})),
)
def test_every_container_is_at_its_pointer_or_the_object_is_rejected(obj: Object, kind: str) -> None:
    obj = {**obj, "kind": kind}
    containers: list[Container] = []
    try:
        containers = find_containers(obj)
    except ValueError as error:
        message = str(error)
    else:
        message = "/"
    assert message.startswith("/")
    for container in containers:
        at: Any = obj
        for key in container.pointer.split("/")[1:]:
            at = at[int(key)] if isinstance(at, list) else at[key]
        assert at is container.spec
