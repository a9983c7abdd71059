"""Requires pods to meet one of the Pod Security Standards, as of Kubernetes 1.37.

``baseline`` denies known privilege escalations; ``restricted`` also requires hardening. The rules are those of the
built-in admission plugin for the latest version, including their exceptions: pods for Windows (``spec.os.name``) need
no seccomp profile, dropped capabilities or ``allowPrivilegeEscalation``, and pods in a user namespace (``hostUsers:
false``) may run as root, and with ``baseline`` use an unmasked ``/proc``.

The policy differs from the plugin in three ways. The plugin only warns about workloads: here they are denied, unless
``workloads`` is ``warn``. The plugin checks the whole pod again if an image changes: here an update is denied only if
it adds a violation. And the level is a parameter, not a label of the namespace: configure the policy once per level,
each for its namespaces.

Parameters:
    level: ``privileged`` (allows everything), ``baseline`` or ``restricted``.
    exemptions: exemptions as in the configuration of the plugin: a mapping with ``namespaces``, ``usernames`` and
        ``runtimeClasses``, each a list of names. Pods of workloads are created by controllers, so the exemption of a
        user does not apply to them.
    workloads: ``deny``, or ``warn`` to allow violations in workloads with a warning and deny only pods.

Allowed, with ``level="restricted"``::

    spec:
      containers:
        - name: web
          image: web
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}

Denied::

    spec: {hostNetwork: true, containers: [{name: web, image: web, securityContext: {privileged: true}}]}
"""

from collections.abc import Collection, Iterator
from typing import Any, Literal, NamedTuple, TypedDict

from webhooks import WORKLOADS, AdmissionReview, Allow, Container, Decision, Deny, field, introduced, items, validating

CAPABILITIES = (
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
)
SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROFILES = ("RuntimeDefault", "Localhost")
APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")


class Exemptions(TypedDict, total=False):
    """The names that are exempt."""

    namespaces: Collection[str]
    usernames: Collection[str]
    runtimeClasses: Collection[str]


class Pod(NamedTuple):
    """A pod or pod template."""

    annotations: dict[str, Any]
    spec: dict[str, Any]
    containers: list[Container]
    is_restricted: bool

    @property
    def specs(self) -> list[tuple[str, dict[str, Any]]]:
        """The specs of the pod and its containers, which may have a security context, with their names."""
        return [("pod", self.spec), *((str(container), container.spec) for container in self.containers)]

    @property
    def is_windows(self) -> bool:
        """Whether the pod is for Windows nodes."""
        return field(self.spec, "os.name", str) == "windows"

    @property
    def has_user_namespace(self) -> bool:
        """Whether root in the pod is another user on the node."""
        return field(self.spec, "hostUsers", bool) is False


@validating("pods", "pods/ephemeralcontainers", *WORKLOADS, operations=["CREATE", "UPDATE"])
def pod_security_standards(
    review: AdmissionReview,
    *,
    level: Literal["privileged", "baseline", "restricted"] = "baseline",
    exemptions: Exemptions | None = None,
    workloads: Literal["deny", "warn"] = "deny",
) -> Decision:
    """Deny pods and workloads that do not meet the standard."""
    exempt = exemptions or {}
    if level == "privileged" or review.namespace in exempt.get("namespaces", ()):
        return Allow()
    if review.user.username in exempt.get("usernames", ()):
        return Allow()
    violations = introduced(review, _violations, level == "restricted", exempt.get("runtimeClasses", ()))
    if not violations:
        return Allow()
    if workloads == "warn" and review.resource.resource != "pods":
        return Allow(warnings=[f"violates the {level} Pod Security Standard: {violation}" for violation in violations])
    return Deny(f"violates the {level} Pod Security Standard: {'; '.join(violations)}")


def _violations(review: AdmissionReview, is_restricted: bool, runtime_classes: Collection[str]) -> Iterator[str]:
    template = review.pod()
    spec = field(template, "spec", dict)
    if spec is None or field(spec, "runtimeClassName", str) in runtime_classes:
        return
    annotations = field(template, "metadata.annotations", dict) or {}
    pod = Pod(annotations, spec, review.containers(), is_restricted)
    for check in (*BASELINE, *RESTRICTED) if is_restricted else BASELINE:
        yield from check(pod)


def _host_process(pod: Pod) -> Iterator[str]:
    for where, spec in pod.specs:
        if field(spec, "securityContext.windowsOptions.hostProcess", bool):
            yield f"{where}: securityContext.windowsOptions.hostProcess must not be true"


def _host_namespaces(pod: Pod) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if field(pod.spec, name, bool):
            yield f"{name} must not be true"


def _privileged(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        if field(container.spec, "securityContext.privileged", bool):
            yield f"{container}: securityContext.privileged must not be true"


def _added_capabilities(pod: Pod) -> Iterator[str]:
    allowed = ("NET_BIND_SERVICE",) if pod.is_restricted and not pod.is_windows else CAPABILITIES
    for container in pod.containers:
        for name in items(container.spec, "securityContext.capabilities.add", str):
            if name not in allowed:
                yield f"{container}: securityContext.capabilities.add must not have {name}"


def _host_paths(pod: Pod) -> Iterator[str]:
    for volume in items(pod.spec, "volumes", dict):
        if field(volume, "hostPath", dict) is not None:
            path = field(volume, "hostPath.path", str)
            yield f"volume {field(volume, 'name', str)}: hostPath {path} must be another type of volume"


def _host_ports(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        for port in items(container.spec, "ports", dict):
            if field(port, "hostPort", int):
                yield f"{container}: ports.hostPort must be absent, not {port['hostPort']}"


def _probe_hosts(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        for handler in HANDLERS:
            for action in ("httpGet", "tcpSocket"):
                host = field(container.spec, f"{handler}.{action}.host", str)
                if host:
                    yield f"{container}: {handler}.{action}.host must be absent, not {host}"


def _app_armor(pod: Pod) -> Iterator[str]:
    yield from _profile_violations(pod, "appArmorProfile")
    for key, profile in pod.annotations.items():
        allowed = profile in ("", "runtime/default") or str(profile).startswith("localhost/")
        if key.startswith(APP_ARMOR_ANNOTATION) and not allowed:
            yield f"annotation {key} must be runtime/default or localhost/..., not {profile}"


def _selinux(pod: Pod) -> Iterator[str]:
    for where, spec in pod.specs:
        where = f"{where}: securityContext.seLinuxOptions"
        for part, allowed in (("type", SELINUX_TYPES), ("user", ()), ("role", ())):
            value = field(spec, f"securityContext.seLinuxOptions.{part}", str)
            if value and value not in allowed:
                yield f"{where}.{part} must be {' or '.join(allowed) or 'absent'}, not {value}"


def _proc_mount(pod: Pod) -> Iterator[str]:
    if pod.has_user_namespace and not pod.is_restricted:
        return
    for container in pod.containers:
        mount = field(container.spec, "securityContext.procMount", str)
        if mount not in (None, "Default"):
            yield f"{container}: securityContext.procMount must be Default, not {mount}"


def _seccomp(pod: Pod) -> Iterator[str]:
    yield from _profile_violations(pod, "seccompProfile")


def _sysctls(pod: Pod) -> Iterator[str]:
    for sysctl in items(pod.spec, "securityContext.sysctls", dict):
        name = field(sysctl, "name", str)
        if name not in SYSCTLS:
            yield f"securityContext.sysctls must not have {name}"


def _volume_types(pod: Pod) -> Iterator[str]:
    for volume in items(pod.spec, "volumes", dict):
        types = [key for key, value in volume.items() if key != "name" and value is not None]
        if not types or set(types) - {*VOLUMES, "hostPath"}:
            expected = f"must be {' or '.join(VOLUMES)}, not {', '.join(types) or 'absent'}"
            yield f"volume {field(volume, 'name', str)}: type {expected}"


def _privilege_escalation(pod: Pod) -> Iterator[str]:
    for container in [] if pod.is_windows else pod.containers:
        if field(container.spec, "securityContext.allowPrivilegeEscalation", bool) is not False:
            yield f"{container}: securityContext.allowPrivilegeEscalation must be false"


def _non_root(pod: Pod) -> Iterator[str]:
    if pod.has_user_namespace:
        return
    pod_value = field(pod.spec, "securityContext.runAsNonRoot", bool)
    for where, spec in pod.specs:
        value = field(spec, "securityContext.runAsNonRoot", bool)
        if value is False or (value is None and not pod_value and where != "pod"):
            yield f"{where}: securityContext.runAsNonRoot must be true"
        if field(spec, "securityContext.runAsUser", int) == 0:
            yield f"{where}: securityContext.runAsUser must not be 0"


def _seccomp_required(pod: Pod) -> Iterator[str]:
    if pod.is_windows or field(pod.spec, "securityContext.seccompProfile", dict) is not None:
        return
    for container in pod.containers:
        if field(container.spec, "securityContext.seccompProfile", dict) is None:
            yield f"{container}: securityContext.seccompProfile.type must be {' or '.join(PROFILES)}"


def _dropped_capabilities(pod: Pod) -> Iterator[str]:
    for container in [] if pod.is_windows else pod.containers:
        if "ALL" not in items(container.spec, "securityContext.capabilities.drop", str):
            yield f"{container}: securityContext.capabilities.drop must have ALL"


def _profile_violations(pod: Pod, name: str) -> Iterator[str]:
    for where, spec in pod.specs:
        if field(spec, f"securityContext.{name}", dict) is not None:
            type_ = field(spec, f"securityContext.{name}.type", str)
            if type_ not in PROFILES:
                yield f"{where}: securityContext.{name}.type must be {' or '.join(PROFILES)}, not {type_}"


BASELINE = (
    _host_process,
    _host_namespaces,
    _privileged,
    _added_capabilities,
    _host_paths,
    _host_ports,
    _probe_hosts,
    _app_armor,
    _selinux,
    _proc_mount,
    _seccomp,
    _sysctls,
)
RESTRICTED = (
    _volume_types,
    _privilege_escalation,
    _non_root,
    _seccomp_required,
    _dropped_capabilities,
)
