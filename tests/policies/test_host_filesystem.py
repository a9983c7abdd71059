from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import (
    LISTS,
    RESOURCES,
    check_all_kinds,
    check_shapes,
    container,
    message,
    pod_spec,
)

[host_filesystem] = load(["library:host_filesystem"])

READ_ONLY = host_filesystem.bind(allowed_host_paths=[{"pathPrefix": "/logs", "readOnly": True}])
PREFIXES = {"containers": "", "initContainers": "init ", "ephemeralContainers": "ephemeral "}
WRITABLE = "container app: volumeMounts of files (hostPath /logs) must be readOnly: true"

# Prefixes, paths in them, and other paths.
PATHS: list[tuple[list[str], list[str], list[str]]] = [
    ([], [], ["/", "/var", "", "var"]),
    (
        ["/var/log"],
        ["/var/log", "/var/log/", "/var/log/web", "//var//log//web", "/var/./log", "/var/log/...", "var/log"],
        [
            "/",
            "",
            "/var",
            "/var/logs",
            "/var/log.d",
            "/etc/var/log",
            "/VAR/log",
            "/var/log/../../etc",
            "/var/log/..",
            "/var/x/../log",
            "/var/log/x\\..\\..\\etc",
            "/var\\log",
            "/var/log\n",
        ],
    ),
    (["/var/log/"], ["/var/log", "/var/log/web"], ["/var/logs"]),
    (["/"], ["/", "/etc", "/var/log"], ["/..", "/var/.."]),
    ([""], [], ["", "/", "/etc"]),
    (["/a", "/b/c"], ["/a/x", "/b/c"], ["/b", "/c"]),
    (["/a/../b"], [], ["/b", "/a/../b"]),
]


def mounting(path: Any, *containers: Json) -> Json:
    return pod_spec(*containers, volumes=[{"name": "files", "hostPath": {"path": path, "type": ""}}])


def writing(list_: str = "containers", **mount: Any) -> Json:
    mounts = [{"name": "files", "mountPath": "/files", **mount}]
    return {**mounting("/logs"), list_: [container(volumeMounts=mounts)]}


@pytest.mark.parametrize(("prefixes", "inside", "outside"), PATHS, ids=repr)
def test_paths_are_compared(prefixes: list[str], inside: list[str], outside: list[str]) -> None:
    policy = host_filesystem.bind(allowed_host_paths=[{"pathPrefix": prefix} for prefix in prefixes])
    for path in inside:
        assert message(policy, mounting(path)) is None, path
    expected = f"in {' or '.join(prefixes)}" if prefixes else "another type of volume"
    for path in outside:
        assert message(policy, mounting(path)) == f"volume files: hostPath {path} must be {expected}", path


@pytest.mark.parametrize(
    "volumes",
    [None, [], [{"name": "a", "emptyDir": {}}], [{"name": "a", "hostPath": None}], [{"name": "a", "secret": {}}]],
    ids=repr,
)
def test_other_volumes_are_allowed(volumes: Any) -> None:
    assert message(host_filesystem, pod_spec(volumes=volumes)) is None


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ({"readOnly": True}, None),
        ({"name": "others"}, None),
        ({}, WRITABLE),
        ({"readOnly": False}, WRITABLE),
        ({"readOnly": None}, WRITABLE),
        ({"recursiveReadOnly": "Enabled"}, WRITABLE),
    ],
    ids=repr,
)
def test_read_only_paths_are_mounted_read_only(list_: str, mount: Json, problem: str | None) -> None:
    for kind in RESOURCES:
        assert message(READ_ONLY, writing(list_, **mount), kind) == (problem and PREFIXES[list_] + problem)
    assert message(host_filesystem.bind(allowed_host_paths=[{"pathPrefix": "/logs"}]), writing(list_, **mount)) is None


def test_all_mounts_are_checked() -> None:
    mounts = [{"name": "files", "readOnly": True}, {"name": "files", "mountPath": "/x"}]
    spec = mounting("/logs", container("a", volumeMounts=mounts[:1]), container("b", volumeMounts=mounts))
    assert message(READ_ONLY, spec) == "container b: volumeMounts of files (hostPath /logs) must be readOnly: true"


def test_a_writable_directory_in_a_read_only_one() -> None:
    policy = host_filesystem.bind(
        allowed_host_paths=[{"pathPrefix": "/", "readOnly": True}, {"pathPrefix": "/logs", "readOnly": False}]
    )
    assert message(policy, writing()) is None
    problem = message(policy, {**writing(), "volumes": [{"name": "files", "hostPath": {"path": "/etc"}}]})
    assert problem == "container app: volumeMounts of files (hostPath /etc) must be readOnly: true"


def test_a_missing_path_is_denied() -> None:
    assert message(host_filesystem, pod_spec(volumes=[{"hostPath": {}}])) == (
        "volume : hostPath  must be another type of volume"
    )


def test_all_objects() -> None:
    check_all_kinds(host_filesystem, pod_spec(), mounting("/etc"))
    check_all_kinds(READ_ONLY, writing(readOnly=True), writing())


def test_an_update_must_not_add_another_path_or_another_writer() -> None:
    assert message(host_filesystem, mounting("/etc"), "Deployment", old=mounting("/var")) is not None
    debugged = {**writing(), "ephemeralContainers": [{**writing()["containers"][0], "name": "debug"}]}
    request = {"operation": "UPDATE", "subResource": "ephemeralcontainers"}
    problem = message(READ_ONLY, debugged, old=writing(), **request)
    assert problem == "ephemeral container debug: volumeMounts of files (hostPath /logs) must be readOnly: true"


def test_malformed_objects_are_denied() -> None:
    check_shapes(READ_ONLY, mounting("/etc"), "volumes", [])
    check_shapes(READ_ONLY, mounting("/etc"), "volumes/0", {}, {"x": "y"})
    check_shapes(READ_ONLY, mounting("/etc"), "volumes/0/hostPath")
    check_shapes(READ_ONLY, mounting("/etc"), "volumes/0/hostPath/path")
    check_shapes(READ_ONLY, writing(readOnly=True), "containers/0/volumeMounts", [])
    check_shapes(READ_ONLY, writing(readOnly=True), "containers/0/volumeMounts/0", {}, {"x": "y"})
    check_shapes(READ_ONLY, writing(readOnly=True), "containers/0/volumeMounts/0/readOnly", True)


@pytest.mark.parametrize("value", ["/var", ["/var"], [{}], [{"pathPrefix": 5}], [{"pathPrefix": "/", "readOnly": 1}]])
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        host_filesystem.bind(allowed_host_paths=value)
