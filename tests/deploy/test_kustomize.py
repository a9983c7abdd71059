"""The kustomizations are valid, hardened and consistent with the server."""

import re
from pathlib import Path

import kubernetes_validate
import pytest

from webhooks import Allow, __version__, bundled
from webhooks.cli.main import main
from webhooks.config import file
from webhooks.plugins.loader import load_checked
from webhooks.settings import Settings
from webhooks.testing import admission

from ..support.builders import Json
from ..support.kustomize import FOLDERS, KUSTOMIZE, containers, find_object, pods, render, render_with_components

VERSIONS = (
    "1.29",
    kubernetes_validate.latest_version(),
)
CERT_MANAGER = "cert-manager.io/v1"


@pytest.fixture(params=FOLDERS)
def objects(request: pytest.FixtureRequest) -> list[Json]:
    return render(KUSTOMIZE / request.param)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_objects_are_valid(objects: list[Json], version: str) -> None:
    for obj in objects:
        if obj["apiVersion"] != CERT_MANAGER:
            kubernetes_validate.validate(obj, version, strict=True)


def test_all_objects_are_in_the_namespace(objects: list[Json]) -> None:
    cluster_wide = ("Namespace", "ClusterRole", "ClusterRoleBinding")
    assert {obj["metadata"].get("namespace") for obj in objects if obj["kind"] not in cluster_wide} == {"webhooks"}


def test_pods_meet_the_restricted_standard(objects: list[Json]) -> None:
    """The bundled policy allows them; the label of the namespace enforces it."""
    standard = bundled("pod_security_standards")
    deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
    assert deployments
    for deployment in deployments:
        assert standard(admission("CREATE", deployment), level="restricted") == Allow()
    namespace = find_object(objects, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_containers_are_read_only_with_limits(objects: list[Json]) -> None:
    for pod in pods(objects):
        assert pod["enableServiceLinks"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_only_self_managed_pods_have_a_token() -> None:
    for folder in FOLDERS:
        rendered = render(KUSTOMIZE / folder)
        roles = [obj for obj in rendered if obj["kind"] == "ClusterRole"]
        assert find_object(rendered, "ServiceAccount")["automountServiceAccountToken"] is False
        for pod in pods(rendered):
            ours = pod["containers"][0]["name"] == "webhooks"
            assert pod["automountServiceAccountToken"] is (ours and folder.endswith("self-managed"))
        assert bool(roles) is folder.endswith("self-managed")
        for role in roles:
            [rule] = role["rules"]
            assert rule["resourceNames"] == ["webhooks"]
            assert set(rule["verbs"]) == {"get", "patch"}


def test_replicas_are_replaced_one_by_one(objects: list[Json]) -> None:
    deployment = find_object(objects, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = deployment["template"]["spec"]
    settings = Settings()
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_delay + settings.grace
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"],
        *(constraint["labelSelector"] for constraint in pod["topologySpreadConstraints"]),
        find_object(objects, "PodDisruptionBudget")["spec"]["selector"],
        find_object(objects, "NetworkPolicy")["spec"]["podSelector"],
        {"matchLabels": find_object(objects, "Service")["spec"]["selector"]},
    ):
        assert selector["matchLabels"].items() <= labels.items()


def test_ports_are_those_of_the_server(objects: list[Json]) -> None:
    [container] = find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "reviews": Settings.port,
        "ops": Settings.ops_port,
    }
    probes = [container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert [(probe["path"], probe["port"]) for probe in probes] == [
        ("/readyz", "ops"),
        ("/readyz", "ops"),
        ("/livez", "ops"),
    ]


def test_images_are_of_this_version(objects: list[Json]) -> None:
    images = {container["image"] for pod in pods(objects) for container in containers(pod)}
    assert images - {"redis:7"} == {f"cluster-webhooks:{__version__}"}
    page = (KUSTOMIZE.parents[1] / "docs" / "guides" / "install.md").read_text()
    assert set(re.findall(r"(?:cluster-webhooks:|newTag: )([\d.]+\d)", page)) == {__version__}


def test_options_are_those_of_the_server(objects: list[Json]) -> None:
    """Otherwise a typo would only be found in a cluster."""
    known = {option for parameter in main.commands["serve"].params for option in parameter.opts}
    [container] = find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    command, *options = container["args"]
    assert command == "serve"
    assert {option.partition("=")[0] for option in options} <= known


def test_configurations_are_valid(objects: list[Json], tmp_path: Path) -> None:
    """As `webhooks check` validates them."""
    configuration = write_files(find_object(objects, "ConfigMap", "webhooks-configuration"), tmp_path)
    write_files(find_object(objects, "ConfigMap", "webhooks-policies"), tmp_path / "policies")
    read = file.read(configuration / "webhooks.yaml")
    policies = load_checked(read)
    assert {policy.mode for policy in policies} == {"warn"}
    assert "owner" in {policy.name for policy in policies}


def write_files(config_map: Json, folder: Path) -> Path:
    """Write the files of a ConfigMap into a folder, and return it."""
    folder.mkdir(exist_ok=True)
    for name, text in config_map["data"].items():
        (folder / name).write_text(text)
    return folder


WEBHOOK_CONFIGURATIONS = {
    f"{kind.lower()}.yaml": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "webhooks"},
        "webhooks": [],
    }
    for kind in ("Mutating", "Validating")
}


def test_cert_manager_injects_the_ca_bundle(tmp_path: Path) -> None:
    objects = render_with_components(tmp_path, "cert-manager", resources=WEBHOOK_CONFIGURATIONS)
    injected = {"cert-manager.io/inject-ca-from": "webhooks/webhooks"}
    for configuration in WEBHOOK_CONFIGURATIONS.values():
        assert find_object(objects, configuration["kind"])["metadata"]["annotations"] == injected
    certificate = find_object(objects, "Certificate")
    assert certificate["spec"]["secretName"] == "webhooks-tls"
    assert "webhooks.webhooks.svc" in certificate["spec"]["dnsNames"]


@pytest.mark.parametrize("with_redis", [("self-managed", "redis"), ("redis", "self-managed")])
def test_components_can_be_combined_in_any_order(with_redis: tuple[str, str], tmp_path: Path) -> None:
    [container] = find_object(render_with_components(tmp_path, *with_redis), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"] == [
        "serve",
        "--config=/etc/webhooks/webhooks.yaml",
        "--certs-dir=/var/lib/webhooks/certs",
        "--sync-ca-bundle=webhooks",
        "--admission-config=/etc/webhooks/admission.yaml",
    ]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "/etc/webhooks/redis" in mounted
    assert "/etc/webhooks/tls" not in mounted


@pytest.mark.parametrize("generated", ["webhooks-configuration", "webhooks-policies"])
def test_names_of_config_maps_contain_a_digest(generated: str, objects: list[Json]) -> None:
    """A change then starts a rollout."""
    name = find_object(objects, "ConfigMap", generated)["metadata"]["name"]
    assert name != generated
    volumes = find_object(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert name in [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
