"""Pods keep to one of the Pod Security Standards, in their version of Kubernetes 1.37.

``baseline`` rules out the known ways from a container to its node; ``restricted`` asks for a hardened pod besides. The
rules are those that the API server's own admission has for the latest version, with what depends on the pod: of pods
for Windows (``spec.os.name``) no seccomp profile, dropped capabilities or ``allowPrivilegeEscalation`` is asked, and
pods with users of their own (``hostUsers: false``) may run as root, and under ``baseline`` unmask ``/proc``.

Three things differ from that admission. It only warns of templates of pods, in workloads, as pods may still be changed
before they are made: here they are denied too, unless ``workloads`` says otherwise. It looks at the whole pod again
whenever an image changes: here an update that leaves a violation as it was may pass, and one that brings another may
not. And the level is this policy's parameter and no namespace's label: run it twice, each for its own namespaces.

Parameters:
    level: ``privileged`` (everything is allowed), ``baseline`` or ``restricted``.
    exemptions: who is let pass, as the API server's own admission is told it: a mapping with ``namespaces``,
        ``usernames`` and ``runtimeClasses``, or some of them, each a list of names. Pods are made by the users that
        controllers have: to let a person pass lets nothing pass that is made of the person's workloads.
    workloads: ``deny``, or ``warn`` to let templates of pods pass with a warning, so that only pods are denied.

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

from webhooks import AdmissionReview, Allow, Container, Decision, Deny, field, introduced, items, validating

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
    """Names that the standards do not hold for."""

    namespaces: Collection[str]
    usernames: Collection[str]
    runtimeClasses: Collection[str]


class Pod(NamedTuple):
    """A pod, or a template of pods."""

    annotations: dict[str, Any]
    spec: dict[str, Any]
    containers: list[Container]
    restricted: bool

    @property
    def bearers(self) -> list[tuple[str, dict[str, Any]]]:
        """All that may have a security context, and what to call it."""
        return [("pod", self.spec), *((f"container {each.name}", each.spec) for each in self.containers)]

    @property
    def windows(self) -> bool:
        """Whether it is for nodes with Windows."""
        return field(self.spec, "os.name", str) == "windows"

    @property
    def own_users(self) -> bool:
        """Whether its root is nobody on the node."""
        return field(self.spec, "hostUsers", bool) is False


@validating(
    "pods",
    "pods/ephemeralcontainers",
    "replicationcontrollers",
    "podtemplates",
    "apps/*",
    "batch/*",
    operations=["CREATE", "UPDATE"],
)
def pod_security_standards(
    review: AdmissionReview,
    *,
    level: Literal["privileged", "baseline", "restricted"] = "baseline",
    exemptions: Exemptions | None = None,
    workloads: Literal["deny", "warn"] = "deny",
) -> Decision:
    """Deny pods, and what they are made of, that do not keep to the standard."""
    exempt = exemptions or {}
    if level == "privileged" or review.namespace in exempt.get("namespaces", ()):
        return Allow()
    if review.user.username in exempt.get("usernames", ()):
        return Allow()
    found = introduced(review, lambda each: _violations(each, level == "restricted", exempt.get("runtimeClasses", ())))
    if not found:
        return Allow()
    if workloads == "warn" and review.resource.resource != "pods":
        return Allow(warnings=[f"not {level}: {violation}" for violation in found])
    return Deny(f"not {level} by the Pod Security Standards: {'; '.join(found)}")


def _violations(review: AdmissionReview, restricted: bool, runtime_classes: Collection[str]) -> Iterator[str]:
    bearer = review.pod()
    spec = field(bearer, "spec", dict)
    if spec is None or field(spec, "runtimeClassName", str) in runtime_classes:
        return
    annotations = field(bearer, "metadata.annotations", dict) or {}
    pod = Pod(annotations, spec, review.containers(), restricted)
    for check in (*BASELINE, *RESTRICTED) if restricted else BASELINE:
        yield from check(pod)


def _host_process(pod: Pod) -> Iterator[str]:
    for where, bearer in pod.bearers:
        if field(bearer, "securityContext.windowsOptions.hostProcess", bool):
            yield f"{where}: securityContext.windowsOptions.hostProcess must not be true"


def _host_namespaces(pod: Pod) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if field(pod.spec, name, bool):
            yield f"{name} must not be true"


def _privileged(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        if field(container.spec, "securityContext.privileged", bool):
            yield f"container {container.name}: securityContext.privileged must not be true"


def _added_capabilities(pod: Pod) -> Iterator[str]:
    allowed = ("NET_BIND_SERVICE",) if pod.restricted and not pod.windows else CAPABILITIES
    for container in pod.containers:
        for name in items(container.spec, "securityContext.capabilities.add", str):
            if name not in allowed:
                yield f"container {container.name}: securityContext.capabilities.add must not have {name}"


def _host_paths(pod: Pod) -> Iterator[str]:
    for volume in items(pod.spec, "volumes", dict):
        if field(volume, "hostPath", dict) is not None:
            path = field(volume, "hostPath.path", str)
            yield f"volume {field(volume, 'name', str)}: hostPath {path} must be another type of volume"


def _host_ports(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        for port in items(container.spec, "ports", dict):
            if field(port, "hostPort", int):
                yield f"container {container.name}: ports.hostPort must be left out, not {port['hostPort']}"


def _hosts_of_handlers(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        for handler in HANDLERS:
            for action in ("httpGet", "tcpSocket"):
                host = field(container.spec, f"{handler}.{action}.host", str)
                if host:
                    yield f"container {container.name}: {handler}.{action}.host must be left out, not {host}"


def _app_armor(pod: Pod) -> Iterator[str]:
    yield from _wrong_profiles(pod, "appArmorProfile")
    for key, profile in pod.annotations.items():
        allowed = profile in ("", "runtime/default") or str(profile).startswith("localhost/")
        if key.startswith(APP_ARMOR_ANNOTATION) and not allowed:
            yield f"annotation {key} must be runtime/default or localhost/..., not {profile}"


def _selinux(pod: Pod) -> Iterator[str]:
    for where, bearer in pod.bearers:
        where = f"{where}: securityContext.seLinuxOptions"
        for part, allowed in (("type", SELINUX_TYPES), ("user", ()), ("role", ())):
            value = field(bearer, f"securityContext.seLinuxOptions.{part}", str)
            if value and value not in allowed:
                yield f"{where}.{part} must be {' or '.join(allowed) or 'left out'}, not {value}"


def _proc_mount(pod: Pod) -> Iterator[str]:
    if pod.own_users and not pod.restricted:
        return
    for container in pod.containers:
        mount = field(container.spec, "securityContext.procMount", str)
        if mount not in (None, "Default"):
            yield f"container {container.name}: securityContext.procMount must be Default, not {mount}"


def _seccomp(pod: Pod) -> Iterator[str]:
    yield from _wrong_profiles(pod, "seccompProfile")


def _sysctls(pod: Pod) -> Iterator[str]:
    for sysctl in items(pod.spec, "securityContext.sysctls", dict):
        name = field(sysctl, "name", str)
        if name not in SYSCTLS:
            yield f"securityContext.sysctls must not have {name}"


def _volume_types(pod: Pod) -> Iterator[str]:
    for volume in items(pod.spec, "volumes", dict):
        types = [key for key, value in volume.items() if key != "name" and value is not None]
        if not types or set(types) - {*VOLUMES, "hostPath"}:
            yield f"volume {field(volume, 'name', str)}: {', '.join(types) or 'no type'} must be {' or '.join(VOLUMES)}"


def _privilege_escalation(pod: Pod) -> Iterator[str]:
    for container in [] if pod.windows else pod.containers:
        if field(container.spec, "securityContext.allowPrivilegeEscalation", bool) is not False:
            yield f"container {container.name}: securityContext.allowPrivilegeEscalation must be false"


def _non_root(pod: Pod) -> Iterator[str]:
    if pod.own_users:
        return
    of_pod = field(pod.spec, "securityContext.runAsNonRoot", bool)
    for where, bearer in pod.bearers:
        own = field(bearer, "securityContext.runAsNonRoot", bool)
        if own is False or (own is None and not of_pod and where != "pod"):
            yield f"{where}: securityContext.runAsNonRoot must be true"
        if field(bearer, "securityContext.runAsUser", int) == 0:
            yield f"{where}: securityContext.runAsUser must not be 0"


def _seccomp_required(pod: Pod) -> Iterator[str]:
    if pod.windows or field(pod.spec, "securityContext.seccompProfile", dict) is not None:
        return
    for container in pod.containers:
        if field(container.spec, "securityContext.seccompProfile", dict) is None:
            yield f"container {container.name}: securityContext.seccompProfile.type must be {' or '.join(PROFILES)}"


def _dropped_capabilities(pod: Pod) -> Iterator[str]:
    for container in [] if pod.windows else pod.containers:
        if "ALL" not in items(container.spec, "securityContext.capabilities.drop", str):
            yield f"container {container.name}: securityContext.capabilities.drop must have ALL"


def _wrong_profiles(pod: Pod, name: str) -> Iterator[str]:
    for where, bearer in pod.bearers:
        if field(bearer, f"securityContext.{name}", dict) is not None:
            type_ = field(bearer, f"securityContext.{name}.type", str)
            if type_ not in PROFILES:
                yield f"{where}: securityContext.{name}.type must be {' or '.join(PROFILES)}, not {type_}"


BASELINE = (
    _host_process,
    _host_namespaces,
    _privileged,
    _added_capabilities,
    _host_paths,
    _host_ports,
    _hosts_of_handlers,
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
