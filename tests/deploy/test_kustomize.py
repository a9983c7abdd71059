"""The manifests that people apply: well-formed, hardened, and about the server as it is."""

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
def test_every_object_is_what_the_cluster_knows(objects: list[Json], version: str) -> None:
    for each in objects:
        if each["apiVersion"] != CERT_MANAGER:
            kubernetes_validate.validate(each, version, strict=True)


def test_all_is_in_our_namespace(objects: list[Json]) -> None:
    cluster_wide = ("Namespace", "ClusterRole", "ClusterRoleBinding")
    assert {each["metadata"].get("namespace") for each in objects if each["kind"] not in cluster_wide} == {"webhooks"}


def test_pods_keep_to_the_restricted_standard(objects: list[Json]) -> None:
    """By the bundled policy for it, as our namespace asks for it by its label."""
    standard = bundled("pod_security_standards")
    workloads = [each for each in objects if each["kind"] == "Deployment"]
    assert workloads
    for each in workloads:
        assert standard(admission("CREATE", each), level="restricted") == Allow()
    namespace = find_object(objects, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_containers_write_nowhere_and_take_no_more_than_they_may(objects: list[Json]) -> None:
    for pod in pods(objects):
        assert pod["enableServiceLinks"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_only_who_needs_a_token_has_one() -> None:
    for folder in FOLDERS:
        rendered = render(KUSTOMIZE / folder)
        granted = [each for each in rendered if each["kind"] == "ClusterRole"]
        assert find_object(rendered, "ServiceAccount")["automountServiceAccountToken"] is False
        for pod in pods(rendered):
            ours = pod["containers"][0]["name"] == "webhooks"
            assert pod["automountServiceAccountToken"] is (ours and folder.endswith("self-managed"))
        assert bool(granted) is folder.endswith("self-managed")
        for role in granted:
            [rule] = role["rules"]
            assert rule["resourceNames"] == ["webhooks"]
            assert set(rule["verbs"]) == {"get", "patch"}


def test_replicas_are_replaced_one_after_the_other(objects: list[Json]) -> None:
    deployment = find_object(objects, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = deployment["template"]["spec"]
    settings = Settings()
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_delay + settings.grace
    labels = deployment["template"]["metadata"]["labels"]
    for chosen in (
        deployment["selector"],
        *(each["labelSelector"] for each in pod["topologySpreadConstraints"]),
        find_object(objects, "PodDisruptionBudget")["spec"]["selector"],
        find_object(objects, "NetworkPolicy")["spec"]["podSelector"],
        {"matchLabels": find_object(objects, "Service")["spec"]["selector"]},
    ):
        assert chosen["matchLabels"].items() <= labels.items()


def test_ports_are_those_of_the_server(objects: list[Json]) -> None:
    [container] = find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        "reviews": Settings.port,
        "ops": Settings.ops_port,
    }
    probes = [container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert [(each["path"], each["port"]) for each in probes] == [
        ("/readyz", "ops"),
        ("/readyz", "ops"),
        ("/livez", "ops"),
    ]


def test_images_are_of_this_version(objects: list[Json]) -> None:
    images = {each["image"] for pod in pods(objects) for each in containers(pod)}
    assert images - {"redis:7"} == {f"cluster-webhooks:{__version__}"}
    page = (KUSTOMIZE.parents[1] / "docs" / "guides" / "install.md").read_text()
    assert set(re.findall(r"(?:cluster-webhooks:|newTag: )([\d.]+\d)", page)) == {__version__}


def test_options_are_those_of_the_server(objects: list[Json]) -> None:
    """An option that is misspelt would be found by nobody until a cluster starts it."""
    known = {option for parameter in main.commands["serve"].params for option in parameter.opts}
    [container] = find_object(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    command, *options = container["args"]
    assert command == "serve"
    assert {option.partition("=")[0] for option in options} <= known


def test_configurations_are_right(objects: list[Json], tmp_path: Path) -> None:
    """By what `webhooks check` goes by."""
    configuration = written(find_object(objects, "ConfigMap", "webhooks-configuration"), tmp_path)
    written(find_object(objects, "ConfigMap", "webhooks-policies"), tmp_path / "policies")
    read = file.read(configuration / "webhooks.yaml")
    policies = load_checked(read)
    assert {each.mode for each in policies} == {"warn"}
    assert "owner" in {each.name for each in policies}


def written(config_map: Json, folder: Path) -> Path:
    """Where its files lie, as they would in a pod."""
    folder.mkdir(exist_ok=True)
    for name, text in config_map["data"].items():
        (folder / name).write_text(text)
    return folder


REGISTRATIONS = {
    f"{kind.lower()}.yaml": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "webhooks"},
        "webhooks": [],
    }
    for kind in ("Mutating", "Validating")
}


def test_cert_manager_fills_in_registrations(tmp_path: Path) -> None:
    objects = render_with_components(tmp_path, "cert-manager", resources=REGISTRATIONS)
    injected = {"cert-manager.io/inject-ca-from": "webhooks/webhooks"}
    for registration in REGISTRATIONS.values():
        assert find_object(objects, registration["kind"])["metadata"]["annotations"] == injected
    certificate = find_object(objects, "Certificate")
    assert certificate["spec"]["secretName"] == "webhooks-tls"
    assert "webhooks.webhooks.svc" in certificate["spec"]["dnsNames"]


@pytest.mark.parametrize("with_redis", [("self-managed", "redis"), ("redis", "self-managed")])
def test_components_go_together_in_any_order(with_redis: tuple[str, str], tmp_path: Path) -> None:
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
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert "/etc/webhooks/redis" in mounted
    assert "/etc/webhooks/tls" not in mounted


@pytest.mark.parametrize("generated", ["webhooks-configuration", "webhooks-policies"])
def test_what_pods_read_is_named_by_its_content(generated: str, objects: list[Json]) -> None:
    """So that a change is a rollout."""
    name = find_object(objects, "ConfigMap", generated)["metadata"]["name"]
    assert name != generated
    volumes = find_object(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert name in [each["configMap"]["name"] for each in volumes if "configMap" in each]
