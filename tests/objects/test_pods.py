from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.objects.image_references import ImageReference
from webhooks.objects.pods import Container, find_containers, find_image_volumes, find_pod_spec

Object = dict[str, Any]

PLACES = {
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


def bearing(api_version: Any, kind: Any, pointer: str, spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, **nested(pointer, spec)}


def pod(**spec: Any) -> Object:
    return bearing("v1", "Pod", "/spec", spec)


@pytest.mark.parametrize(("group_kind", "pointer"), PLACES.items())
def test_every_kind_has_its_place(group_kind: tuple[Any, Any], pointer: str) -> None:
    spec = {
        "ephemeralContainers": [{"name": "debug", "image": "busybox"}],
        "initContainers": [{"name": "init", "image": "gcr.io/init"}],
        "containers": [{"name": "app", "image": "nginx"}, {"name": "side", "image": "proxy:1"}],
    }
    obj = bearing(*group_kind, pointer, spec)
    assert find_pod_spec(obj) == (spec, pointer)
    assert find_pod_spec(obj)[0] is spec
    found = find_containers(obj)
    assert [(one.name, one.image, one.pointer) for one in found] == [
        ("app", "nginx", f"{pointer}/containers/0"),
        ("side", "proxy:1", f"{pointer}/containers/1"),
        ("init", "gcr.io/init", f"{pointer}/initContainers/0"),
        ("debug", "busybox", f"{pointer}/ephemeralContainers/0"),
    ]
    for one in found:
        assert one.spec is spec[one.kind][int(one.pointer.rpartition("/")[2])]


def test_the_object_of_the_old_ephemeral_containers_subresource() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "EphemeralContainers",
        "ephemeralContainers": [{"name": "d", "image": "b"}],
    }
    [found] = find_containers(obj)
    assert (found.kind, found.pointer) == ("ephemeralContainers", "/ephemeralContainers/0")
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
        (bearing("v1", "Pod", "/spec", None), "/spec"),
        (bearing("v1", "Pod", "/spec", [{"containers": []}]), "/spec"),
        (bearing("apps/v1", "Deployment", "/spec/template", None), "/spec/template"),
        (bearing("apps/v1", "Deployment", "/spec/template/spec", "x"), "/spec/template/spec"),
        (bearing("batch/v1", "CronJob", "/spec/jobTemplate", []), "/spec/jobTemplate"),
        (
            bearing("example.org/v1", "Thing", "/spec/template/spec", {"containers": [1]}),
            "/spec/template/spec/containers/0",
        ),
        ({"kind": "EphemeralContainers", "ephemeralContainers": {}}, "/ephemeralContainers"),
    ],
)
def test_where_a_container_could_hide_the_pointer_is_named(obj: Object, pointer: str) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        find_containers(obj)
    assert str(error.value).partition(": ")[0] == pointer


@pytest.mark.parametrize("value", [None, 3, [], {"a": "b"}])
def test_name_and_image_that_are_no_strings_read_as_empty(value: Any) -> None:
    spec = {"name": value, "image": value}
    [found] = find_containers(pod(containers=[spec]))
    assert (found.name, found.image, found.spec) == ("", "", spec)
    with pytest.raises(ValueError, match=r"^/spec/containers/0/image: "):
        _ = found.reference


def test_the_reference() -> None:
    [found] = find_containers(pod(containers=[{"image": "nginx:1"}]))
    assert found.reference == ImageReference("docker.io", "library/nginx", "1")


def test_its_images() -> None:
    patterns = ["nginx:1", "gcr.io/team/*"]
    images = ["nginx:1", "gcr.io/team/a", "gcr.io/teams/a", ""]
    found = find_containers(pod(containers=[{"image": image} for image in images]))
    assert [one.is_of(patterns) for one in found] == [True, True, False, False]
    assert not any(one.is_of([]) for one in found)


def test_what_it_is_called() -> None:
    one = [{"name": "web"}]
    found = find_containers(pod(containers=one, initContainers=one, ephemeralContainers=one))
    assert list(map(str, found)) == ["container web", "init container web", "ephemeral container web"]


@pytest.mark.parametrize(("group_kind", "pointer"), PLACES.items())
def test_volumes_that_are_filled_from_images(group_kind: tuple[Any, Any], pointer: str) -> None:
    volumes = [
        {"name": "data", "emptyDir": {}},
        {"name": "model", "image": {"reference": "gcr.io/model:1"}},
        {"name": "none", "image": None},
        {"name": None, "image": {"reference": 5}},
    ]
    found = find_image_volumes(bearing(*group_kind, pointer, {"containers": [], "volumes": volumes}))
    assert [(str(one), one.image, one.kind, one.pointer) for one in found] == [
        ("volume model", "gcr.io/model:1", "volumes", f"{pointer}/volumes/1"),
        ("volume ", "", "volumes", f"{pointer}/volumes/3"),
    ]
    assert found[0].reference == ImageReference("gcr.io", "model", "1")
    with pytest.raises(ValueError, match=f"^{pointer}/volumes/3/image: "):
        _ = found[1].reference


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
def test_where_a_volume_could_hide_the_pointer_is_named(volumes: Any, pointer: str) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        find_image_volumes(pod(volumes=volumes))
    assert str(error.value).partition(": ")[0] == pointer


class Copying(dict[str, Any]):
    """A dict whose parts become the reader's own when they are read, as a mutating policy gets it."""

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


@pytest.mark.parametrize(("group_kind", "pointer"), PLACES.items())
def test_changing_a_container_changes_a_lazily_copied_object(group_kind: tuple[Any, Any], pointer: str) -> None:
    stored = bearing(*group_kind, pointer, {"containers": [{"image": "nginx"}]})
    obj = Copying(stored)
    [found] = find_containers(obj)
    found.spec["image"] = "changed"
    assert obj == bearing(*group_kind, pointer, {"containers": [{"image": "changed"}]})
    assert stored == bearing(*group_kind, pointer, {"containers": [{"image": "nginx"}]})


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
    st.sampled_from(sorted({str(kind) for _, kind in PLACES} | {"EphemeralContainers", "Other"})),
)
def test_every_container_is_at_its_pointer_or_the_object_is_refused(obj: Object, kind: str) -> None:
    obj = {**obj, "kind": kind}
    found: list[Container] = []
    try:
        found = find_containers(obj)
    except ValueError as error:
        refused = str(error)
    else:
        refused = "/"
    assert refused.startswith("/")
    for container in found:
        at: Any = obj
        for key in container.pointer.split("/")[1:]:
            at = at[int(key)] if isinstance(at, list) else at[key]
        assert at is container.spec
