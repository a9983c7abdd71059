"""The files of deploy/sidecar agree with each other, with the server and with their page."""

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


def registrations() -> list[Json]:
    return list(yaml.safe_load_all((SIDECAR / "webhook-configurations.yaml").read_text()))


def flags() -> dict[str, str]:
    """Those of the API server."""
    [container] = content("manifests/kube-apiserver.yaml")["spec"]["containers"]
    return dict(word.removeprefix("--").split("=", 1) for word in container["command"][1:])


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_what_the_cluster_knows(version: str) -> None:
    pods = [content(f"manifests/{name}.yaml") for name in ("kube-apiserver", "webhooks")]
    for each in [*pods, *registrations()]:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_image_is_of_this_version() -> None:
    assert content("manifests/webhooks.yaml")["spec"]["containers"][0]["image"] == f"cluster-webhooks:{__version__}"


def test_the_configuration_is_right() -> None:
    read = configured.read(SIDECAR / "webhooks" / "webhooks.yaml")
    policies = load_checked(read)
    assert {each.kind for each in policies} == {"mutating", "validating", "authorizing", "image_policy"}
    assert read.settings.host == "127.0.0.1"


def test_whatever_is_named_is_there() -> None:
    made = {"certs/ca.pem", "certs/tokens.csv", "token"}  # by the commands of the page
    named: set[str] = set()
    for file in SIDECAR.rglob("*.yaml"):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        named |= set(re.findall(rf"{HOME}/([\w./-]*\w)", "\n".join(lines)))
    assert named - {"certs"} <= made | {file.name for file in (SIDECAR / "webhooks").iterdir()}
    assert {
        "authorize.yaml",
        "authenticate.yaml",
        "images.yaml",
        "admission-kubeconfig.yaml",
        "admission.yaml",
    } <= named


def test_all_ask_where_the_server_answers() -> None:
    settings = configured.read(SIDECAR / "webhooks" / "webhooks.yaml").settings
    url = f"https://{settings.host}:{settings.port}"
    for name in ("authorize", "authenticate", "images"):
        [cluster] = content(f"webhooks/{name}.yaml")["clusters"]
        assert cluster["cluster"]["server"] == f"{url}/{name}"
    [user] = content("webhooks/admission-kubeconfig.yaml")["users"]
    assert user["name"] == url.removeprefix("https://")
    asked = [webhook["clientConfig"]["url"] for each in registrations() for webhook in each["webhooks"]]
    assert asked == [f"{url}/admission/mutate", f"{url}/admission/validate"]


def test_what_a_control_plane_consists_of_is_exempt_everywhere() -> None:
    for registration in registrations():
        for webhook in registration["webhooks"]:
            [expression] = webhook["namespaceSelector"]["matchExpressions"]
            assert (expression["operator"], expression["values"]) == ("NotIn", SYSTEM)
            assert {rule["scope"] for rule in webhook["rules"]} == {"Namespaced"}
    [images] = [each for each in content("webhooks/webhooks.yaml")["policies"] if "registries" in each["use"]]
    assert images["match"]["excludeNamespaces"] == SYSTEM


def test_both_ways_of_authorization_are_in_one_order() -> None:
    assert flags()["authorization-mode"] == "Node,Webhook,RBAC"
    authorizers = content("webhooks/authorization.yaml")["authorizers"]
    assert [each["type"] for each in authorizers] == ["Node", "Webhook", "RBAC"]
    assert authorizers[1]["webhook"]["connectionInfo"]["kubeConfigFile"] == flags()["authorization-webhook-config-file"]


def test_kubeadm_is_told_the_same() -> None:
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs" / "guides" / "sidecar.md").read_text(), re.MULTILINE | re.DOTALL
    )
    [told] = [each["apiServer"] for each in map(yaml.safe_load, blocks) if each["kind"] == "ClusterConfiguration"]
    given = {each["name"]: each["value"] for each in told["extraArgs"]}
    assert given.items() <= flags().items()
    ours = ("authorization", "authentication-token-webhook", "enable-admission", "admission-control")
    assert {name for name in flags() if name.startswith(ours)} == given.keys()
    spec = content("manifests/kube-apiserver.yaml")["spec"]
    assert [each["mountPath"] for each in told["extraVolumes"]] == [
        spec["containers"][0]["volumeMounts"][0]["mountPath"]
    ]
