"""All that is written, by files: objects with what their reader should know of them, and what API servers read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from webhooks.kube.yaml_writer import written
from webhooks.manifests import validation, webhook_configurations
from webhooks.manifests.apiserver_config import AUTHORITY, CALLBACKS, CERTIFICATE, KEY, TOKEN, ApiServer
from webhooks.manifests.conditions import NOT_STARTING
from webhooks.manifests.deployment import Workload
from webhooks.manifests.server_files import Sources
from webhooks.manifests.target import METADATA_NAMES, PARTS, SYSTEM, Target
from webhooks.manifests.webhook_configurations import AdmissionKind, Json
from webhooks.policy.model import AnyPolicy, Kind
from webhooks.settings import Settings

API_SERVER = "apiserver"  # the folder of what is no object


@dataclass(frozen=True)
class Document:
    """An object, and what is said of it above it."""

    object: Json
    about: str = ""

    def __str__(self) -> str:
        lines = [
            f"# {line}" for paragraph in self.about.split("\n") for line in wrap(paragraph, 118, break_on_hyphens=False)
        ]
        return "".join(f"{line}\n" for line in lines) + written(self.object)


@dataclass(frozen=True)
class File:
    """A file.

    Attributes:
        path: below the folder that all are written to.
        documents: the objects in it; or the text, where it holds none.
    """

    path: str
    documents: tuple[Document, ...] | str

    @property
    def objects(self) -> list[Json]:
        """The objects of the cluster in it."""
        is_cluster = not isinstance(self.documents, str) and not self.path.startswith(API_SERVER)
        return [each.object for each in self.documents] if is_cluster else []  # type: ignore[union-attr]

    def __str__(self) -> str:
        if isinstance(self.documents, str):
            return self.documents
        return "---\n".join(map(str, self.documents))


def files(
    settings: Settings, policies: Sequence[AnyPolicy], sources: Sources, target: Target, parts: Iterable[str] = PARTS
) -> list[File]:
    """The files for a cluster.

    Args:
        settings: of the server.
        policies: which it answers by.
        sources: its files.
        target: the cluster.
        parts: which of `PARTS` are wanted.

    Raises:
        ConfigurationError: with every reason for which they must not be written.
    """
    asking = entries(policies, target)
    wanted = set(parts)
    flagged = policies if "api-server" in wanted else [policy for policy in policies if policy.kind in _KINDS]
    validation.check(asking, flagged, target)
    registered = [
        _registration(kind, [each for each in asking if each.kind == kind], target)
        for kind in _KINDS
        if any(each.kind == kind for each in asking)
    ]
    found: list[File] = []
    if "server" in wanted and target.by == "service":
        found += _server(Workload(settings, sources, target))
    if "webhook-configurations" in wanted and registered and not target.static:
        found.append(File("3-registrations.yaml", tuple(registered)))
    if "api-server" in wanted:
        found += _api_server(ApiServer(settings, policies, target), registered if target.static else [])
    return found


_KINDS: tuple[AdmissionKind, ...] = ("mutating", "validating")


def entries(policies: Sequence[AnyPolicy], target: Target) -> list[webhook_configurations.Webhook]:
    """The webhooks of all registrations."""
    return [each for kind in _KINDS for each in webhook_configurations.webhooks(kind, policies, target)]


def _registration(kind: AdmissionKind, entries: Sequence[webhook_configurations.Webhook], target: Target) -> Document:
    about = [
        f"What the {kind} policies want: {', '.join(each.policy.name for entry in entries for each in entry.wanted)}."
    ]
    if target.exempt:
        own = ", and so does the server" if target.namespace in target.exempt and target.by == "service" else ""
        about.append(f"Not in {', '.join(target.exempt)}: a cluster starts from there{own}.")
    about += [line for entry in entries for line in entry.narrowed(target)]
    if target.version < METADATA_NAMES:
        about.append(f"Before {METADATA_NAMES} not every API server labels namespaces with their names:")
        about += [f"kubectl label namespace {name} kubernetes.io/metadata.name={name}" for name in SYSTEM]
    if any(each.name == NOT_STARTING for entry in entries for each in entry.conditions(target)):
        whose = f" (with service accounts of {', '.join(target.exempted)})" if target.exempted else ""
        about.append(f"Nor what the cluster's own components{whose} write before any pod can run, such as nodes.")
    if target.ca_bundle is None:
        about.append("Nobody is trusted yet: whoever keeps the certificates fills caBundle in.")
    return Document(webhook_configurations.registration(kind, entries, target), "\n".join(about))


def _server(workload: Workload) -> Iterator[File]:
    yield File("1-namespace.yaml", (Document(workload.namespace()),))
    name = workload.name
    managed = workload.settings.sync_ca_bundle is not None
    command = (
        f"kubectl -n {workload.target.namespace} create secret generic {name}-tls \\\n"
        "  --from-file=tls.crt=certs/tls.pem --from-file=tls.key=certs/tls-key.pem --from-file=ca.crt=certs/ca.pem"
    )
    documents = [
        Document(workload.service_account(), "" if managed else "It may do nothing, and its pods get no token.")
    ]
    documents += [
        Document(each, "Its own registrations alone, to keep caBundle in step.") for each in workload.rights()
    ]
    documents += [Document(each) for each in workload.config_maps()]
    documents += [
        Document(workload.service()),
        Document(workload.disruption_budget()),
        Document(
            workload.network_policy(),
            "Reviews from anywhere: the API server is no pod that one could choose. Metrics for Prometheus alone. "
            + (f"It calls others, for {', '.join(workload.calls)}." if workload.calls else "It calls nobody."),
        ),
        Document(
            workload.deployment(),
            f"The Secret {name}-tls holds its certificate and key:\n{command}"
            + "".join(f"\nThe Secret {name}-tokens holds {path.split('/')[-1]}." for path in workload.sources.secret),
        ),
    ]
    yield File("2-server.yaml", tuple(documents))


def _api_server(api_server: ApiServer, registered: Sequence[Document]) -> Iterator[File]:
    def file(name: str, object_: Json, about: str) -> File:
        return File(f"{API_SERVER}/{name}", (Document(object_, about),))

    flags = api_server.flags()
    if not flags:
        return
    yield File(f"{API_SERVER}/flags", "".join(f"{flag}\n" for flag in flags))
    bundle = api_server.target.ca_bundle
    if bundle is not None:
        yield File(f"{API_SERVER}/{AUTHORITY}", bundle.decode())
    for kind in api_server.kinds:
        yield file(CALLBACKS[kind][0], api_server.kubeconfig(kind), f"{_ABOUT[kind]}{_proof(api_server)}")
    if api_server.has_authorization_file:
        yield file("authorization.yaml", api_server.authorization(), "Who decides, in this order.")
    if api_server.has_plugins:
        yield file("admission.yaml", api_server.admission(), "The plugins that ask.")
    callers = api_server.callers() if api_server.asks_admission else None
    if callers is not None:
        yield file("callers.yaml", callers, f"As whom admission is called, by host.{_proof(api_server)}")
    for document in registered:
        kind = "mutating" if document.object["kind"].startswith("Mutating") else "validating"
        yield File(f"{API_SERVER}/{kind}/webhooks.yaml", (document,))


_ABOUT: dict[Kind, str] = {
    "authorizing": "Who is asked about access.",
    "authenticating": "Who is asked about tokens.",
    "image_policy": "Who is asked about images.",
}


def _proof(api_server: ApiServer) -> str:
    told = []
    if api_server.settings.client_ca is not None:
        told.append(f"{CERTIFICATE} and {KEY} are to be put beside this: webhooks certs issue --client apiserver")
    if api_server.settings.token_file is not None or api_server.settings.oidc_issuer is not None:
        told.append(f"{TOKEN} is to be put beside this, with the token alone in it")
    return "".join(f"\n{each}." for each in told)
