"""The files and flags of API servers."""

from typing import Any

import pytest

from webhooks import (
    AccessReview,
    Allow,
    Deny,
    ImageReview,
    NoOpinion,
    TokenReview,
    authenticating,
    authorizing,
    image_policy,
)
from webhooks.manifests.apiserver_config import ApiServerConfig
from webhooks.manifests.target import Target, Version
from webhooks.settings import Settings

from ..support.manifest_policies import admission_policy

TARGET = Target(reached_by="localhost", url="https://127.0.0.1:8443", ca_bundle=b"PEM")
FOLDER = "/etc/kubernetes/webhooks"


@authorizing("core/secrets", verbs=["get", "list"], namespaces=["vault"], timeout=2)
def access(review: AccessReview) -> Deny:
    return Deny("sealed")


@authenticating
def tokens(review: TokenReview) -> NoOpinion:
    return NoOpinion()


@image_policy
def registry(review: ImageReview) -> Allow:
    return Allow()


def config(*policies: Any, target: Target = TARGET, **credentials: bool) -> ApiServerConfig:
    return ApiServerConfig(policies, target, **credentials)


def test_flags_for_each_kind_of_policy() -> None:
    assert config(access, tokens, registry).flags() == [
        f"--authorization-config={FOLDER}/authorization.yaml",
        "--authentication-token-webhook-version=v1",
        f"--authentication-token-webhook-config-file={FOLDER}/authenticate.yaml",
        f"--admission-control-config-file={FOLDER}/admission.yaml",
        "--enable-admission-plugins=ImagePolicyWebhook",
    ]
    assert config(admission_policy()).flags() == []


def test_webhook_configurations_in_files() -> None:
    target = Target(reached_by="localhost", url=TARGET.url, static=True)
    static = config(admission_policy(), target=target)
    assert static.flags()[-1] == "--feature-gates=ManifestBasedAdmissionControlConfig=true"
    [plugin] = static.admission_configuration()["plugins"]
    assert plugin["name"] == "ValidatingAdmissionWebhook"
    assert plugin["configuration"]["staticManifestsDir"] == f"{FOLDER}/validating"


@pytest.mark.parametrize(
    ("version", "api_version"),
    [(Version(1, 29), None), (Version(1, 31), "v1beta1"), (Version(1, 32), "v1")],
    ids=str,
)
def test_authorization_in_versions_of_kubernetes(version: Version, api_version: str | None) -> None:
    target = Target(reached_by="localhost", url=TARGET.url, version=version)
    built = config(access, target=target)
    assert built.has_authorization_configuration is (api_version is not None)
    if api_version is None:
        assert "--authorization-mode=Node,Webhook,RBAC" in built.flags()
    else:
        assert built.authorization_configuration()["apiVersion"] == f"apiserver.config.k8s.io/{api_version}"


def test_authorization() -> None:
    authorizers = config(access).authorization_configuration()["authorizers"]
    assert [authorizer["type"] for authorizer in authorizers] == ["Node", "Webhook", "RBAC"]
    webhook = authorizers[1]["webhook"]
    assert (webhook["failurePolicy"], webhook["timeout"]) == ("Deny", "10s")
    assert webhook["connectionInfo"]["kubeConfigFile"] == f"{FOLDER}/authorize.yaml"
    assert webhook["matchConditions"][1]["expression"] == (
        "has(request.resourceAttributes) && request.resourceAttributes.group == '' && "
        "request.resourceAttributes.resource == 'secrets' && request.resourceAttributes.subresource == '' && "
        "(request.resourceAttributes.verb in ['get', 'list']) && (request.resourceAttributes.namespace == 'vault')"
    )
    lenient = Target(reached_by="localhost", url=TARGET.url, failure_policy="Ignore", timeout=3)
    webhook = config(access, target=lenient).authorization_configuration()["authorizers"][1]["webhook"]
    assert (webhook["failurePolicy"], webhook["timeout"]) == ("NoOpinion", "3s")


@pytest.mark.parametrize(("failure_policy", "default_allow"), [("Fail", False), ("Ignore", True)])
def test_image_policies(failure_policy: Any, default_allow: bool) -> None:
    target = Target(reached_by="localhost", url=TARGET.url, failure_policy=failure_policy)
    [plugin] = config(registry, target=target).admission_configuration()["plugins"]
    assert plugin["configuration"]["imagePolicy"]["defaultAllow"] is default_allow


def test_kubeconfigs_without_credentials() -> None:
    kubeconfig = config(tokens).kubeconfig("authenticating")
    [cluster] = kubeconfig["clusters"]
    assert cluster["cluster"] == {
        "server": "https://127.0.0.1:8443/authenticate",
        "certificate-authority": f"{FOLDER}/ca.pem",
    }
    assert "users" not in kubeconfig
    assert "user" not in kubeconfig["contexts"][0]["context"]
    assert config(admission_policy()).admission_kubeconfig() is None


@pytest.mark.parametrize(
    ("credentials", "user"),
    [
        (
            {"has_client_certificate": True},
            {"client-certificate": f"{FOLDER}/apiserver.pem", "client-key": f"{FOLDER}/apiserver-key.pem"},
        ),
        ({"has_token": True}, {"tokenFile": f"{FOLDER}/token"}),
    ],
)
def test_credentials(credentials: dict[str, bool], user: dict[str, str]) -> None:
    built = config(tokens, admission_policy(), **credentials)
    assert built.kubeconfig("authenticating")["users"] == [{"name": "apiserver", "user": user}]
    assert built.admission_kubeconfig() == {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "127.0.0.1:8443", "user": user}],
    }
    [plugin] = built.admission_configuration()["plugins"]
    assert plugin["configuration"]["kubeConfigFile"] == f"{FOLDER}/admission-kubeconfig.yaml"


def test_the_user_for_a_service_is_its_host() -> None:
    kubeconfig = config(admission_policy(), target=Target(), has_token=True).admission_kubeconfig()
    assert kubeconfig is not None
    assert kubeconfig["users"][0]["name"] == "webhooks.webhooks.svc"


@pytest.mark.parametrize(
    ("settings", "certificate", "token"),
    [
        (Settings(), False, False),
        (Settings(client_ca="ca.pem"), True, False),  # type: ignore[arg-type]
        (Settings(token_file="tokens.csv"), False, True),  # type: ignore[arg-type]
        (Settings(oidc_issuer="https://issuer"), False, True),
    ],
)
def test_credentials_that_the_server_requires(settings: Settings, certificate: bool, token: bool) -> None:
    built = ApiServerConfig.from_settings(settings, [tokens], TARGET)
    assert (built.has_client_certificate, built.has_token) == (certificate, token)
