"""The manifest files: the objects for a cluster with comments for their readers, and the files of an API server."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from webhooks.kube.yaml_writer import to_yaml
from webhooks.manifests.apiserver_config import (
    ADMISSION_KUBECONFIG,
    CA_FILE,
    CALLBACKS,
    CERTIFICATE_FILE,
    KEY_FILE,
    TOKEN_FILE,
    ApiServerConfig,
)
from webhooks.manifests.conditions import NOT_STARTUP
from webhooks.manifests.deployment import Workload
from webhooks.manifests.server_files import ServerFiles
from webhooks.manifests.target import NAMESPACE_NAME_LABEL, PARTS, SYSTEM_NAMESPACES, Part, Target
from webhooks.manifests.validation import validate
from webhooks.manifests.webhook_configurations import (
    ADMISSION_KINDS,
    AdmissionKind,
    Json,
    Webhook,
    build_configuration,
    build_webhooks,
)
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import Kind
from webhooks.settings import Settings

API_SERVER_FOLDER = "apiserver"  # for the files that are not objects of the cluster
_COMMENT_WIDTH = 118


@dataclass(frozen=True)
class CommentedObject:
    """An object with a comment above it."""

    object: Json
    comment: str = ""

    def __str__(self) -> str:
        paragraphs = self.comment.split("\n")
        lines = [line for text in paragraphs for line in wrap(text, _COMMENT_WIDTH, break_on_hyphens=False)]
        return "".join(f"# {line}\n" for line in lines) + to_yaml(self.object)


@dataclass(frozen=True)
class ManifestFile:
    """A file.

    Attributes:
        path: the path, relative to the output folder.
        content: the objects in the file; or its text, if it is not YAML.
    """

    path: str
    content: tuple[CommentedObject, ...] | str

    @property
    def objects(self) -> list[Json]:
        """The objects of the cluster in this file."""
        if isinstance(self.content, str) or self.path.startswith(f"{API_SERVER_FOLDER}/"):
            return []
        return [document.object for document in self.content]

    def __str__(self) -> str:
        return self.content if isinstance(self.content, str) else "---\n".join(map(str, self.content))


def render_files(
    settings: Settings,
    policies: Sequence[AnyPolicy],
    server_files: ServerFiles,
    target: Target,
    parts: Collection[Part] = PARTS,
) -> list[ManifestFile]:
    """Render the files for a cluster.

    Args:
        settings: the settings of the server.
        policies: its policies.
        server_files: its files.
        target: the cluster.
        parts: the parts to render.

    Raises:
        ConfigurationError: with all reasons why these manifests would be unsafe or invalid.
    """
    has_api_server = "api-server" in parts
    webhooks = admission_webhooks(policies, target)
    validate(webhooks, [policy for policy in policies if has_api_server or policy.kind in ADMISSION_KINDS], target)
    configurations = []
    for kind in ADMISSION_KINDS:
        webhooks_of_kind = [webhook for webhook in webhooks if webhook.kind == kind]
        if webhooks_of_kind:
            configurations.append(_render_configuration(kind, webhooks_of_kind, target))
    files: list[ManifestFile] = []
    if "server" in parts and target.reached_by == "service":
        files += _render_server(Workload.from_settings(settings, server_files, target))
    if "webhook-configurations" in parts and configurations and not target.static:
        files.append(ManifestFile("3-webhook-configurations.yaml", tuple(configurations)))
    if has_api_server:
        api_server = ApiServerConfig.from_settings(settings, policies, target)
        files += _render_api_server(api_server, configurations if target.static else [])
    return files


def admission_webhooks(policies: Sequence[AnyPolicy], target: Target) -> list[Webhook]:
    """Return the webhooks of all webhook configurations."""
    return [webhook for kind in ADMISSION_KINDS for webhook in build_webhooks(kind, policies, target)]


def _render_configuration(kind: AdmissionKind, webhooks: Sequence[Webhook], target: Target) -> CommentedObject:
    names = [scope.policy.name for webhook in webhooks for scope in webhook.scopes]
    comments = [f"Calls the {kind} policies: {', '.join(names)}."]
    exempt = target.all_exempt_namespaces
    if exempt:
        server = ", and the server itself" if target.namespace in exempt and target.reached_by == "service" else ""
        comments.append(f"Exempt namespaces: {', '.join(exempt)}. They run what a cluster needs to start{server}.")
    comments += [note for webhook in webhooks for note in webhook.exemption_notes(target)]
    if target.version < NAMESPACE_NAME_LABEL:
        comments.append(
            f"Before {NAMESPACE_NAME_LABEL}, namespaces do not always have their names as labels. Add them:"
        )
        comments += [f"kubectl label namespace {name} kubernetes.io/metadata.name={name}" for name in SYSTEM_NAMESPACES]
    conditions = [condition.name for webhook in webhooks for condition in webhook.match_conditions(target)]
    if NOT_STARTUP in conditions:
        namespaces = ", ".join(target.exempt_namespaces)
        accounts = f", and service accounts of {namespaces}," if namespaces else ""
        comments.append(
            f"Components of the cluster{accounts} are exempt where they write before any pod can run, such as nodes."
        )
    if target.ca_bundle is None:
        comments.append("caBundle is not set here: cert-manager, or serve --sync-ca-bundle, must set it.")
    return CommentedObject(build_configuration(kind, webhooks, target), "\n".join(comments))


def _render_server(workload: Workload) -> Iterator[ManifestFile]:
    yield ManifestFile("1-namespace.yaml", (CommentedObject(workload.namespace()),))
    name = workload.name
    permissions = "" if workload.sync_ca_bundle is not None else "It has no permissions, and its pods get no token."
    features = ", ".join(workload.outbound_features)
    egress = f"Outgoing connections are allowed for {features}." if features else "No outgoing connections are allowed."
    create_secret = (
        f"kubectl -n {workload.target.namespace} create secret generic {name}-tls \\\n"
        "  --from-file=tls.crt=certs/tls.pem --from-file=tls.key=certs/tls-key.pem --from-file=ca.crt=certs/ca.pem"
    )
    secrets = [f"The Secret {name}-tls contains the certificate and its key. Create it:\n{create_secret}"]
    secrets += [f"The Secret {name}-tokens contains {path.split('/')[-1]}." for path in workload.files.secrets]
    documents = [
        CommentedObject(workload.service_account(), permissions),
        *(
            CommentedObject(permission, "Access to its own webhook configurations only, to keep caBundle in sync.")
            for permission in workload.rbac()
        ),
        *map(CommentedObject, workload.config_maps()),
        CommentedObject(workload.service()),
        CommentedObject(workload.disruption_budget()),
        CommentedObject(
            workload.network_policy(),
            "Reviews may come from any address: the API server is not a pod, so no selector matches it. "
            f"Only Prometheus may read metrics. {egress}",
        ),
        CommentedObject(workload.deployment(), "\n".join(secrets)),
    ]
    yield ManifestFile("2-server.yaml", tuple(documents))


def _render_api_server(
    api_server: ApiServerConfig, configurations: Sequence[CommentedObject]
) -> Iterator[ManifestFile]:
    def render(name: str, object_: Json, comment: str) -> ManifestFile:
        return ManifestFile(f"{API_SERVER_FOLDER}/{name}", (CommentedObject(object_, comment),))

    flags = api_server.flags()
    if not flags:
        return
    yield ManifestFile(f"{API_SERVER_FOLDER}/flags", "".join(f"{flag}\n" for flag in flags))
    bundle = api_server.target.ca_bundle
    if bundle is not None:
        yield ManifestFile(f"{API_SERVER_FOLDER}/{CA_FILE}", bundle.decode())
    credentials = _describe_credentials(api_server)
    for kind in api_server.kinds:
        yield render(CALLBACKS[kind][0], api_server.kubeconfig(kind), f"{_KUBECONFIG_COMMENTS[kind]}{credentials}")
    if api_server.has_authorization_configuration:
        comment = "The authorizers, in the order in which the API server calls them."
        yield render("authorization.yaml", api_server.authorization_configuration(), comment)
    if api_server.has_admission_configuration:
        comment = "The admission plugins that call webhooks."
        yield render("admission.yaml", api_server.admission_configuration(), comment)
    kubeconfig = api_server.admission_kubeconfig() if api_server.configures_admission else None
    if kubeconfig is not None:
        comment = f"The credentials for admission webhooks. The name of the user is their host.{credentials}"
        yield render(ADMISSION_KUBECONFIG, kubeconfig, comment)
    for document in configurations:
        kind = "mutating" if document.object["kind"].startswith("Mutating") else "validating"
        yield ManifestFile(f"{API_SERVER_FOLDER}/{kind}/webhooks.yaml", (document,))


_KUBECONFIG_COMMENTS: dict[Kind, str] = {
    "authorizing": "The webhook for authorization.",
    "authenticating": "The webhook for authentication.",
    "image_policy": "The webhook for image policies.",
}


def _describe_credentials(api_server: ApiServerConfig) -> str:
    """Describe the files that the operator must add, each on a line of its own."""
    text = ""
    if api_server.has_client_certificate:
        text += (
            f"\nCopy {CERTIFICATE_FILE} and {KEY_FILE} into this folder. Create them with: "
            "webhooks certs issue --client apiserver"
        )
    if api_server.has_token:
        text += f"\nCopy the token into this folder, as {TOKEN_FILE}, a file with nothing else in it."
    return text
