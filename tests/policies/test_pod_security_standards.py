from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import (
    LISTS,
    RESOURCES,
    check_all_kinds,
    check_containers,
    check_shapes,
    container,
    decide_on_pod,
    make_object,
    message,
    pod_spec,
    review_of,
    with_context,
)

[pod_security_standards] = load(["library:pod_security_standards"])

baseline = pod_security_standards.bind(level="baseline")
restricted = pod_security_standards.bind(level="restricted")

ABSENT: Any = ...  # the field is absent
OF_ALL = (
    "spec.securityContext",
    "spec.containers[*].securityContext",
    "spec.initContainers[*].securityContext",
    "spec.ephemeralContainers[*].securityContext",
)
OF_CONTAINERS = ("spec.containers[*]", "spec.initContainers[*]", "spec.ephemeralContainers[*]")
CONTEXTS = OF_ALL[1:]
Values = tuple[Any, ...]


def within(places: tuple[str, ...], *fields: str) -> list[str]:
    return [f"{place}.{field}" for place in places for field in fields]


DEFAULT_CAPABILITIES = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
]
# By the first version of the standard that allows them.
SAFE_SYSCTLS = [
    "kernel.shm_rmid_forced",  # 1.0
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",  # 1.27
    "net.ipv4.tcp_keepalive_time",  # 1.29
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",  # 1.32
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",  # 1.37
    "net.ipv4.tcp_notsent_lowat",
]
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
HOSTS = [f"{handler}.{action}.host" for handler in HANDLERS for action in ("httpGet", "tcpSocket")]
ALLOWED_VOLUMES = "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret"
OTHER_VOLUMES = (
    "hostPath gcePersistentDisk awsElasticBlockStore gitRepo nfs iscsi glusterfs rbd flexVolume cinder cephfs flocker "
    "fc azureFile vsphereVolume quobyte azureDisk portworxVolume scaleIO storageos photonPersistentDisk somethingNew"
)
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"

# The tables in the documentation: fields, allowed values, and other values.
BASELINE: dict[str, tuple[list[str], Values, Values]] = {
    "HostProcess": (within(OF_ALL, "windowsOptions.hostProcess"), (ABSENT, None, False), (True,)),
    "Host namespaces": (["spec.hostNetwork", "spec.hostPID", "spec.hostIPC"], (ABSENT, None, False), (True,)),
    "Privileged containers": (within(CONTEXTS, "privileged"), (ABSENT, None, False), (True,)),
    "Capabilities": (
        within(CONTEXTS, "capabilities.add"),
        (ABSENT, None, [], DEFAULT_CAPABILITIES),
        (["NET_RAW"], ["ALL"], ["CHOWN", "SYS_ADMIN"], ["chown"], ["CAP_CHOWN"]),
    ),
    "HostPath volumes": (["spec.volumes[*].hostPath"], (ABSENT, None), ({"path": "/etc"}, {})),
    "Host ports": (within(OF_CONTAINERS, "ports[*].hostPort"), (ABSENT, None, 0), (80, 65535, -1)),
    "Host probes and lifecycle hooks": (
        within(OF_CONTAINERS, *HOSTS),
        (ABSENT, None, ""),
        ("127.0.0.1", "localhost", "example.com"),
    ),
    "AppArmor": (
        within(OF_ALL, "appArmorProfile.type"),
        ("RuntimeDefault", "Localhost"),
        (ABSENT, None, "", "Unconfined", "runtimedefault", "New"),
    ),
    "AppArmor, absent": (within(OF_ALL, "appArmorProfile"), (ABSENT, None), ({},)),
    "SELinux type": (
        within(OF_ALL, "seLinuxOptions.type"),
        (ABSENT, None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"),
        ("spc_t", "unconfined_t", "Container_t"),
    ),
    "SELinux user and role": (
        within(OF_ALL, "seLinuxOptions.user", "seLinuxOptions.role"),
        (ABSENT, None, ""),
        ("system_u", "container_t"),
    ),
    "SELinux level": (within(OF_ALL, "seLinuxOptions.level"), (ABSENT, "s0:c1,c2"), ()),
    "/proc mount type": (
        within(CONTEXTS, "procMount"),
        (ABSENT, None, "Default"),
        ("Unmasked", "default", ""),
    ),
    "Seccomp": (
        within(OF_ALL, "seccompProfile.type"),
        ("RuntimeDefault", "Localhost"),
        (ABSENT, None, "", "Unconfined", "runtime/default", "OCI"),
    ),
    "Sysctls": (
        ["spec.securityContext.sysctls[*].name"],
        tuple(SAFE_SYSCTLS),
        (ABSENT, "kernel.msgmax", "kernel/shm_rmid_forced", "net.ipv4.*", ""),
    ),
    "Sysctls, absent": (["spec.securityContext.sysctls"], (ABSENT, None, []), ()),
}
RESTRICTED: dict[str, tuple[list[str], Values, Values]] = {
    "Privilege escalation": (within(CONTEXTS, "allowPrivilegeEscalation"), (False,), (ABSENT, None, True)),
    "Running as non-root": (within(CONTEXTS, "runAsNonRoot"), (ABSENT, None, True), (False,)),
    "Running as non-root, the pod": (["spec.securityContext.runAsNonRoot"], (True,), (ABSENT, None, False)),
    "Running as non-root user": (within(OF_ALL, "runAsUser"), (ABSENT, None, 1, 1000), (0,)),
    "Seccomp": (within(CONTEXTS, "seccompProfile"), (ABSENT, None, {"type": "Localhost"}), ({"type": "Unconfined"},)),
    "Seccomp, the pod": (
        ["spec.securityContext.seccompProfile"],
        ({"type": "RuntimeDefault"}, {"type": "Localhost"}),
        (ABSENT, None, {"type": "Unconfined"}, {}),
    ),
    "Capabilities, dropped": (
        within(CONTEXTS, "capabilities.drop"),
        (["ALL"], ["CHOWN", "ALL"]),
        (ABSENT, None, [], ["all"], ["CHOWN"], ["*"], DEFAULT_CAPABILITIES),
    ),
    "Capabilities, added": (
        within(CONTEXTS, "capabilities.add"),
        (ABSENT, None, [], ["NET_BIND_SERVICE"]),
        (["CHOWN"], ["NET_BIND_SERVICE", "KILL"], ["ALL"], ["net_bind_service"]),
    ),
    "Volume types": (
        ["spec.volumes[*]"],
        tuple({"name": "v", type_: {}} for type_ in ALLOWED_VOLUMES.split()),
        (
            *({"name": "v", type_: {}} for type_ in OTHER_VOLUMES.split()),
            {"name": "v"},
            {"name": "v", "emptyDir": None},
            {"name": "v", "emptyDir": {}, "nfs": {}},
        ),
    ),
}

HARDENED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
OF_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def hardened(*others: Json, **spec: Any) -> Json:
    """Return a pod that meets the restricted standard, with a container in each list."""
    lists = {list_: [with_context(list_, **HARDENED), *others] for list_ in LISTS}
    return {**lists, "securityContext": OF_POD, "volumes": [{"name": "v", "secret": {}}], **spec}


def plain() -> Json:
    return {list_: [container(list_)] for list_ in LISTS}


def put(tree: Any, path: str, value: Any) -> Any:
    """Return a copy with a value at a path; ``[*]`` is the last item of a list, which is created if it is empty."""
    name, _, rest = path.partition(".")
    name, is_list, _ = name.partition("[")
    inner = tree.get(name)
    if is_list:
        items = list(inner or [{"name": "v"}])
        items[-1] = put(items[-1], rest, value) if rest else value
        return {**tree, name: items}
    if rest:
        return {**tree, name: put(inner or {}, rest, value)}
    if value is ABSENT:
        return {key: item for key, item in {**tree, name: None}.items() if key != name}
    return {**tree, name: value}


def cases(table: dict[str, tuple[list[str], Values, Values]]) -> list[Any]:
    return [
        pytest.param(field, good, bad, id=f"{control}: {field}")
        for control, (fields, good, bad) in table.items()
        for field in fields
    ]


def denied(policy: Any, field: str, value: Any, pod: Json) -> str | None:
    return message(policy, put({"spec": pod}, field, value)["spec"])


@pytest.mark.parametrize(("field", "good", "bad"), cases(BASELINE))
def test_the_baseline_standard(field: str, good: Values, bad: Values) -> None:
    for value in good:
        assert denied(baseline, field, value, plain()) is None, value
    for value in bad:
        problem = denied(baseline, field, value, plain())
        assert problem is not None, value
        assert problem.startswith("violates the baseline Pod Security Standard: ")
        assert ";" not in problem
        assert denied(restricted, field, value, hardened()), value
        assert denied(pod_security_standards.bind(level="privileged"), field, value, plain()) is None


@pytest.mark.parametrize(("field", "good", "bad"), cases(RESTRICTED))
def test_the_restricted_standard(field: str, good: Values, bad: Values) -> None:
    for value in good:
        assert denied(restricted, field, value, hardened()) is None, value
        assert denied(baseline, field, value, hardened()) is None, value
    for value in bad:
        problem = denied(restricted, field, value, hardened())
        assert problem is not None, value
        assert problem.startswith("violates the restricted Pod Security Standard: ")


@pytest.mark.parametrize(("field", "good", "bad"), cases(BASELINE))
def test_the_restricted_standard_differs_in_its_own_rules_and_capabilities(
    field: str, good: Values, bad: Values
) -> None:
    for value in good:
        is_added = field.endswith("capabilities.add") and value is DEFAULT_CAPABILITIES
        assert (denied(restricted, field, value, hardened()) is None) is not is_added, value


def test_a_plain_pod_is_baseline_and_a_hardened_pod_is_restricted() -> None:
    for kind in RESOURCES:
        assert message(pod_security_standards, pod_spec(), kind) is None
        assert message(restricted, hardened(), kind) is None
    assert message(restricted, pod_spec()) == (
        "violates the restricted Pod Security Standard: "
        "container app: securityContext.allowPrivilegeEscalation must be false; "
        "container app: securityContext.runAsNonRoot must be true; "
        "container app: securityContext.seccompProfile.type must be RuntimeDefault or Localhost; "
        "container app: securityContext.capabilities.drop must have ALL"
    )


# Fields, their values, and the violations.
MESSAGES: list[tuple[str, Any, str]] = [
    ("spec.volumes[*].hostPath", {"path": "/etc"}, "volume v: hostPath /etc must be another type of volume"),
    (
        "spec.volumes[*]",
        {"name": "v"},
        f"volume v: type must be {' or '.join(ALLOWED_VOLUMES.split())}, not absent",
    ),
    (
        "spec.securityContext.seLinuxOptions.type",
        "spc_t",
        "pod: securityContext.seLinuxOptions.type must be container_t or container_init_t or container_kvm_t or "
        "container_engine_t, not spc_t",
    ),
    (
        "spec.initContainers[*].securityContext.seLinuxOptions.role",
        "r",
        "init container initContainers: securityContext.seLinuxOptions.role must be absent, not r",
    ),
    (
        "spec.ephemeralContainers[*].livenessProbe.httpGet.host",
        "h",
        "ephemeral container ephemeralContainers: livenessProbe.httpGet.host must be absent, not h",
    ),
    ("spec.securityContext.sysctls[*].name", "kernel.sem", "securityContext.sysctls must not have kernel.sem"),
]


@pytest.mark.parametrize(("field", "value", "problem"), MESSAGES)
def test_messages(field: str, value: Any, problem: str) -> None:
    assert denied(restricted, field, value, hardened()) == f"violates the restricted Pod Security Standard: {problem}"


# The value of the pod, that of the container, and where the violations are.
NON_ROOT: list[tuple[Any, Any, list[str]]] = [
    (None, None, ["container app"]),
    (None, True, []),
    (None, False, ["container app"]),
    (True, None, []),
    (True, True, []),
    (True, False, ["container app"]),
    (False, True, ["pod"]),
    (False, None, ["pod", "container app"]),
    (False, False, ["pod", "container app"]),
]


@pytest.mark.parametrize(("pod_value", "container_value", "wrong"), NON_ROOT, ids=repr)
def test_the_container_takes_precedence_for_run_as_non_root(
    pod_value: Any, container_value: Any, wrong: list[str]
) -> None:
    spec = pod_spec(
        with_context(**HARDENED, runAsNonRoot=container_value), securityContext={**OF_POD, "runAsNonRoot": pod_value}
    )
    problem = "; ".join(f"{where}: securityContext.runAsNonRoot must be true" for where in wrong)
    assert message(restricted, spec) == (
        f"violates the restricted Pod Security Standard: {problem}" if problem else None
    )


DEFAULT, UNCONFINED = {"type": "RuntimeDefault"}, {"type": "Unconfined"}
MUST = "securityContext.seccompProfile.type must be RuntimeDefault or Localhost"
SECCOMP: list[tuple[Any, Any, list[str], list[str]]] = [
    (None, None, [], [f"container app: {MUST}"]),
    (None, DEFAULT, [], []),
    (DEFAULT, None, [], []),
    (DEFAULT, UNCONFINED, [f"container app: {MUST}, not Unconfined"], [f"container app: {MUST}, not Unconfined"]),
    (UNCONFINED, DEFAULT, [f"pod: {MUST}, not Unconfined"], [f"pod: {MUST}, not Unconfined"]),
    (UNCONFINED, None, [f"pod: {MUST}, not Unconfined"], [f"pod: {MUST}, not Unconfined"]),
]


@pytest.mark.parametrize(("pod_value", "container_value", "at_least", "at_most"), SECCOMP, ids=repr)
def test_the_container_takes_precedence_for_seccomp(
    pod_value: Any, container_value: Any, at_least: list[str], at_most: list[str]
) -> None:
    spec = pod_spec(
        with_context(**HARDENED, seccompProfile=container_value),
        securityContext={**OF_POD, "seccompProfile": pod_value},
    )
    for level, wrong in (("baseline", at_least), ("restricted", at_most)):
        problem = f"violates the {level} Pod Security Standard: {'; '.join(wrong)}" if wrong else None
        assert message(pod_security_standards.bind(level=level), spec) == problem


@pytest.mark.parametrize("profile", ["runtime/default", "localhost/web", "localhost/", ""])
def test_app_armor_annotations_that_are_allowed(profile: str) -> None:
    for kind in RESOURCES:
        assert message(baseline, pod_spec(), kind, annotations={f"{APP_ARMOR}app": profile}) is None


@pytest.mark.parametrize("profile", ["unconfined", "localhost", "Runtime/default", "RuntimeDefault"])
def test_app_armor_annotations_that_are_denied(profile: str) -> None:
    for kind in RESOURCES:
        for level in (baseline, restricted):
            for name in ("app", "another", ""):
                assert message(level, hardened(), kind, annotations={APP_ARMOR + name: profile})
        others = {"container.apparmor.security.beta.kubernetes.ioapp": profile, "app": profile}
        assert message(baseline, pod_spec(), kind, annotations=others) is None


def test_seccomp_annotations_are_ignored() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert message(restricted, hardened(), annotations=annotations) is None
    assert message(restricted, hardened(securityContext={"runAsNonRoot": True}), annotations=annotations)


# Pods for Windows and pods in a user namespace have fewer rules.
WINDOWS, OWN_USERS = {"os": {"name": "windows"}}, {"hostUsers": False}
RELAXED: list[tuple[str, str, Any, Json, bool]] = [
    ("restricted", "spec.containers[*].securityContext.allowPrivilegeEscalation", ABSENT, WINDOWS, True),
    ("restricted", "spec.containers[*].securityContext.capabilities.drop", ABSENT, WINDOWS, True),
    ("restricted", "spec.containers[*].securityContext.capabilities.add", ["CHOWN"], WINDOWS, True),
    ("restricted", "spec.containers[*].securityContext.capabilities.add", ["SYS_ADMIN"], WINDOWS, False),
    ("restricted", "spec.securityContext.seccompProfile", ABSENT, WINDOWS, True),
    ("restricted", "spec.securityContext.runAsNonRoot", ABSENT, WINDOWS, False),
    ("restricted", "spec.containers[*].securityContext.runAsUser", 0, WINDOWS, False),
    ("restricted", "spec.containers[*].securityContext.windowsOptions.hostProcess", True, WINDOWS, False),
    ("restricted", "spec.volumes[*].hostPath", {"path": "C:"}, WINDOWS, False),
    ("baseline", "spec.containers[*].securityContext.privileged", True, WINDOWS, False),
    ("baseline", "spec.containers[*].securityContext.capabilities.add", ["SYS_ADMIN"], WINDOWS, False),
    ("baseline", "spec.containers[*].securityContext.procMount", "Unmasked", WINDOWS, False),
    ("restricted", "spec.securityContext.runAsNonRoot", ABSENT, OWN_USERS, True),
    ("restricted", "spec.securityContext.runAsNonRoot", False, OWN_USERS, True),
    ("restricted", "spec.containers[*].securityContext.runAsNonRoot", False, OWN_USERS, True),
    ("restricted", "spec.containers[*].securityContext.runAsUser", 0, OWN_USERS, True),
    ("restricted", "spec.securityContext.runAsUser", 0, OWN_USERS, True),
    ("baseline", "spec.containers[*].securityContext.procMount", "Unmasked", OWN_USERS, True),
    ("restricted", "spec.containers[*].securityContext.procMount", "Unmasked", OWN_USERS, False),
    ("restricted", "spec.containers[*].securityContext.allowPrivilegeEscalation", ABSENT, OWN_USERS, False),
    ("restricted", "spec.containers[*].securityContext.capabilities.drop", ABSENT, OWN_USERS, False),
    ("baseline", "spec.containers[*].securityContext.capabilities.add", ["SYS_ADMIN"], OWN_USERS, False),
    ("baseline", "spec.containers[*].securityContext.privileged", True, OWN_USERS, False),
]


@pytest.mark.parametrize(("level", "field", "value", "pod", "good"), RELAXED, ids=repr)
def test_rules_that_depend_on_the_pod(level: str, field: str, value: Any, pod: Json, good: bool) -> None:
    policy = pod_security_standards.bind(level=level)
    assert denied(policy, field, value, hardened())
    assert (denied(policy, field, value, hardened(**pod)) is None) is good
    for other in ({"os": {"name": "linux"}}, {"os": {"name": "Windows"}}, {"os": None}, {"hostUsers": True}):
        assert denied(policy, field, value, hardened(**other)), other


HOST = pod_spec(hostNetwork=True)
EXEMPTIONS: list[tuple[Json | None, Json, Json, bool]] = [
    (None, HOST, {}, False),
    ({}, HOST, {}, False),
    ({"namespaces": ["team-a"]}, HOST, {}, True),
    ({"namespaces": ["team"]}, HOST, {}, False),
    ({"namespaces": ["team-*"]}, HOST, {}, False),
    ({"namespaces": ["TEAM-A"]}, HOST, {}, False),
    ({"namespaces": ["kube-system", "team-a"]}, HOST, {}, True),
    ({"usernames": ["jane"]}, HOST, {}, True),
    ({"usernames": ["janet", "dev"]}, HOST, {}, False),
    ({"usernames": ["jane"]}, HOST, {"userInfo": {"username": "john", "groups": ["jane"]}}, False),
    ({"usernames": ["jane"]}, HOST, {"userInfo": {}}, False),
    ({"runtimeClasses": ["kata"]}, {**HOST, "runtimeClassName": "kata"}, {}, True),
    ({"runtimeClasses": ["kata"]}, {**HOST, "runtimeClassName": "runc"}, {}, False),
    ({"runtimeClasses": ["kata"]}, {**HOST, "runtimeClassName": None}, {}, False),
    ({"runtimeClasses": ["kata"]}, HOST, {}, False),
    ({"namespaces": ["x"], "usernames": ["y"], "runtimeClasses": ["z"]}, HOST, {}, False),
    ({"namespaces": ["x"], "usernames": ["jane"], "runtimeClasses": ["z"]}, HOST, {}, True),
]


@pytest.mark.parametrize(("exemptions", "spec", "request_", "good"), EXEMPTIONS, ids=repr)
def test_exemptions(exemptions: Json | None, spec: Json, request_: Json, good: bool) -> None:
    policy = pod_security_standards.bind(exemptions=exemptions)
    for kind in RESOURCES:
        assert (message(policy, spec, kind, **request_) is None) is good, kind


def test_removing_an_exempt_runtime_class_is_denied() -> None:
    policy = pod_security_standards.bind(exemptions={"runtimeClasses": ["kata"]})
    assert message(policy, HOST, "Deployment", old={**HOST, "runtimeClassName": "kata"})


@pytest.mark.parametrize("kind", RESOURCES)
def test_workloads_may_only_be_warned_about(kind: str) -> None:
    policy = pod_security_standards.bind(workloads="warn")
    outcome = policy(review_of(kind, pod_spec(hostNetwork=True, hostPID=True)))
    if kind == "Pod":
        assert isinstance(outcome, Deny)
    else:
        warnings = [
            "violates the baseline Pod Security Standard: hostNetwork must not be true",
            "violates the baseline Pod Security Standard: hostPID must not be true",
        ]
        assert outcome == Allow(warnings=warnings)
    assert policy(review_of(kind, pod_spec())) == Allow()


def test_all_objects_and_containers() -> None:
    check_all_kinds(baseline, pod_spec(), HOST)
    check_all_kinds(baseline, pod_spec(), pod_spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]))
    check_all_kinds(restricted, hardened(), pod_spec())
    check_containers(baseline, container(), with_context(privileged=True))
    check_containers(restricted, with_context(**HARDENED), container(), securityContext=OF_POD)


# For each control, two values that are both denied.
OTHERS: list[tuple[str, Any, Any]] = [
    ("spec.volumes[*].hostPath", {"path": "/etc"}, {"path": "/"}),
    ("spec.volumes[*]", {"name": "v", "nfs": {}}, {"name": "v", "rbd": {}}),
    ("spec.containers[*].ports[*].hostPort", 80, 81),
    ("spec.containers[*].securityContext.capabilities.add", ["NET_RAW"], ["SYS_ADMIN"]),
    ("spec.containers[*].livenessProbe.httpGet.host", "a", "b"),
    ("spec.containers[*].securityContext.seLinuxOptions.type", "a_t", "b_t"),
    ("spec.securityContext.seLinuxOptions.user", "a", "b"),
    ("spec.securityContext.sysctls[*].name", "a", "b"),
    ("spec.securityContext.seccompProfile.type", "Unconfined", "Other"),
    ("spec.securityContext.appArmorProfile.type", "Unconfined", "Other"),
    ("spec.containers[*].securityContext.procMount", "Unmasked", "Other"),
]


@pytest.mark.parametrize(("field", "value", "other"), OTHERS, ids=repr)
def test_an_update_must_not_add_another_violation(field: str, value: Any, other: Any) -> None:
    old, new = (put({"spec": hardened()}, field, item)["spec"] for item in (value, other))
    assert message(restricted, old, "Deployment", old=old) is None
    assert message(restricted, new, "Deployment", old=old)


def test_existing_violations_are_allowed() -> None:
    old = make_object("Pod", HOST)
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}, "finalizers": []}}
    assert baseline(review_of("Pod", HOST, operation="UPDATE", obj=new, old=HOST)) == Allow()


SHAPED = {
    **hardened(),
    "containers": [
        with_context(**HARDENED, seccompProfile=DEFAULT, appArmorProfile=DEFAULT, seLinuxOptions={}, windowsOptions={})
    ],
}
# Fields for wrong values, and the values that are allowed.
SHAPES: list[tuple[str, list[Any]]] = [
    ("containers/0", []),
    ("containers/0/securityContext", []),
    ("containers/0/securityContext/capabilities", []),
    ("containers/0/securityContext/capabilities/drop", []),
    ("containers/0/securityContext/capabilities/add", [[]]),
    ("containers/0/securityContext/allowPrivilegeEscalation", [False]),
    ("containers/0/securityContext/runAsNonRoot", [True]),
    ("containers/0/securityContext/runAsUser", [7]),
    ("containers/0/securityContext/privileged", [False]),
    ("containers/0/securityContext/procMount", []),
    ("containers/0/securityContext/seccompProfile", []),
    ("containers/0/securityContext/seccompProfile/type", []),
    ("containers/0/securityContext/appArmorProfile", []),
    ("containers/0/securityContext/seLinuxOptions", [{}, {"x": "y"}]),
    ("containers/0/securityContext/seLinuxOptions/type", [""]),
    ("containers/0/securityContext/windowsOptions", [{}, {"x": "y"}]),
    ("containers/0/securityContext/windowsOptions/hostProcess", [False]),
    ("containers/0/ports", [[]]),
    ("containers/0/livenessProbe", [{}, {"x": "y"}]),
    ("containers/0/lifecycle", [{}, {"x": "y"}]),
    ("securityContext", []),
    ("securityContext/sysctls", [[]]),
    ("volumes", [[]]),
    ("volumes/0", []),
    ("hostNetwork", [False]),
    ("hostUsers", [True, False]),
    ("os", [{}, {"x": "y"}]),
    ("runtimeClassName", ["", "x"]),
]


@pytest.mark.parametrize(("path", "good"), SHAPES, ids=repr)
def test_malformed_objects_are_denied(path: str, good: list[Any]) -> None:
    assert message(restricted, SHAPED) is None
    check_shapes(restricted, SHAPED, path, *good)


def test_an_annotation_that_is_not_a_string_is_denied() -> None:
    assert isinstance(decide_on_pod(baseline, pod_spec(), annotations={f"{APP_ARMOR}app": 5}), Deny)


def test_only_exact_names_match() -> None:
    known = pod_security_standards.function.__globals__
    assert sorted(known["CAPABILITIES"]) == sorted(DEFAULT_CAPABILITIES)
    assert sorted(known["SYSCTLS"]) == sorted(SAFE_SYSCTLS)
    assert sorted(known["VOLUMES"]) == sorted(ALLOWED_VOLUMES.split())


@pytest.mark.parametrize(
    "parameters",
    [
        {"level": "Baseline"},
        {"level": ""},
        {"level": None},
        {"workloads": "audit"},
        {"exemptions": []},
        {"exemptions": {"namespaces": "kube-system"}},
        {"exemptions": {"usernames": [5]}},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Any) -> None:
    with pytest.raises(ConfigurationError):
        pod_security_standards.bind(**parameters)
