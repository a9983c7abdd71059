"""The files of deploy/sidecar are consistent with each other, with the server and with their page."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from webhooks import __version__
from webhooks.config import file as configured
from webhooks.plugins.loader import load_checked

from ..support.builders import Json

ROOT = Path(__file__).parents[2]
SIDECAR = ROOT / "deploy" / "sidecar"
HOME = "/etc/kubernetes/webhooks"
VERSIONS = ("1.29", kubernetes_validate.latest_version())
SYSTEM = ["kube-node-lease", "kube-public", "kube-system"]


def content(file: str) -> Any:
    return yaml.safe_load((SIDECAR / file).read_text())


def webhook_configurations() -> list[Json]:
    return list(yaml.safe_load_all((SIDECAR / "webhook-configurations.yaml").read_text()))


def flags() -> dict[str, str]:
    """Return the flags of the API server."""
    [container] = content("manifests/kube-apiserver.yaml")["spec"]["containers"]
    return dict(word.removeprefix("--").split("=", 1) for word in container["command"][1:])


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(version: str) -> None:
    pods = [content(f"manifests/{name}.yaml") for name in ("kube-apiserver", "webhooks")]
    for obj in [*pods, *webhook_configurations()]:
        kubernetes_validate.validate(obj, version, strict=True)


def test_the_image_is_of_this_version() -> None:
    assert content("manifests/webhooks.yaml")["spec"]["containers"][0]["image"] == f"cluster-webhooks:{__version__}"


def test_the_configuration_is_valid() -> None:
    config = configured.read(SIDECAR / "webhooks" / "webhooks.yaml")
    policies = load_checked(config)
    assert {policy.kind for policy in policies} == {"mutating", "validating", "authorizing", "image_policy"}
    assert config.settings.host == "127.0.0.1"


def test_all_referenced_files_exist() -> None:
    generated = {"certs/ca.pem", "certs/tokens.csv", "token"}  # by the commands of the page
    referenced: set[str] = set()
    for file in SIDECAR.rglob("*.yaml"):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        referenced |= set(re.findall(rf"{HOME}/([\w./-]*\w)", "\n".join(lines)))
    assert referenced - {"certs"} <= generated | {file.name for file in (SIDECAR / "webhooks").iterdir()}
    assert {
        "authorize.yaml",
        "authenticate.yaml",
        "images.yaml",
        "admission-kubeconfig.yaml",
        "admission.yaml",
    } <= referenced


def test_all_urls_are_those_of_the_server() -> None:
    settings = configured.read(SIDECAR / "webhooks" / "webhooks.yaml").settings
    url = f"https://{settings.host}:{settings.port}"
    for name in ("authorize", "authenticate", "images"):
        [cluster] = content(f"webhooks/{name}.yaml")["clusters"]
        assert cluster["cluster"]["server"] == f"{url}/{name}"
    [user] = content("webhooks/admission-kubeconfig.yaml")["users"]
    assert user["name"] == url.removeprefix("https://")
    urls = [webhook["clientConfig"]["url"] for item in webhook_configurations() for webhook in item["webhooks"]]
    assert urls == [f"{url}/admission/mutate", f"{url}/admission/validate"]


def test_the_namespaces_of_the_control_plane_are_exempt() -> None:
    for configuration in webhook_configurations():
        for webhook in configuration["webhooks"]:
            [expression] = webhook["namespaceSelector"]["matchExpressions"]
            assert (expression["operator"], expression["values"]) == ("NotIn", SYSTEM)
            assert {rule["scope"] for rule in webhook["rules"]} == {"Namespaced"}
    [images] = [policy for policy in content("webhooks/webhooks.yaml")["policies"] if "registries" in policy["use"]]
    assert images["match"]["excludeNamespaces"] == SYSTEM


def test_both_authorization_configurations_have_the_same_order() -> None:
    assert flags()["authorization-mode"] == "Node,Webhook,RBAC"
    authorizers = content("webhooks/authorization.yaml")["authorizers"]
    assert [authorizer["type"] for authorizer in authorizers] == ["Node", "Webhook", "RBAC"]
    assert authorizers[1]["webhook"]["connectionInfo"]["kubeConfigFile"] == flags()["authorization-webhook-config-file"]


def test_the_configuration_of_kubeadm_is_consistent() -> None:
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs" / "guides" / "sidecar.md").read_text(), re.MULTILINE | re.DOTALL
    )
    documents = map(yaml.safe_load, blocks)
    [api_server] = [document["apiServer"] for document in documents if document["kind"] == "ClusterConfiguration"]
    arguments = {argument["name"]: argument["value"] for argument in api_server["extraArgs"]}
    assert arguments.items() <= flags().items()
    ours = ("authorization", "authentication-token-webhook", "enable-admission", "admission-control")
    assert {name for name in flags() if name.startswith(ours)} == arguments.keys()
    spec = content("manifests/kube-apiserver.yaml")["spec"]
    assert [volume["mountPath"] for volume in api_server["extraVolumes"]] == [
        spec["containers"][0]["volumeMounts"][0]["mountPath"]
    ]
