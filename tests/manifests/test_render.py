"""The manifest files and their comments."""

from typing import Any

import pytest
import yaml

from webhooks import NoOpinion, TokenReview, authenticating
from webhooks.errors import ConfigurationError
from webhooks.manifests.render import CommentedObject, ManifestFile, render_files
from webhooks.manifests.server_files import ServerFiles
from webhooks.manifests.target import Part, Target, Version
from webhooks.policy.model import Policy
from webhooks.settings import Settings

from ..support.manifest_policies import admission_policy

PODS = admission_policy("pods")
LOCALHOST = Target(reached_by="localhost", url="https://127.0.0.1:8443")


@authenticating
def tokens(review: TokenReview) -> NoOpinion:
    return NoOpinion()


def render(
    *policies: Policy[Any, Any], target: Target | None = None, parts: tuple[Part, ...] | None = None, **settings: Any
) -> dict[str, ManifestFile]:
    target = target or Target(ca_bundle=b"PEM", image="webhooks:1")
    options: Any = {} if parts is None else {"parts": parts}
    files = render_files(Settings(**settings), policies, ServerFiles(), target, **options)
    return {file.path: file for file in files}


def comment_of(file: ManifestFile) -> str:
    """Return the comments of a file with each paragraph on one line."""
    return " ".join(line.removeprefix("# ") for line in str(file).splitlines() if line.startswith("# "))


def test_files_by_target() -> None:
    assert list(render(PODS)) == ["1-namespace.yaml", "2-server.yaml", "3-webhook-configurations.yaml"]
    assert list(render(PODS, target=LOCALHOST)) == ["3-webhook-configurations.yaml"]
    assert list(render(tokens, target=LOCALHOST)) == ["apiserver/flags", "apiserver/authenticate.yaml"]
    static = Target(reached_by="localhost", url=LOCALHOST.url, static=True, ca_bundle=b"PEM")
    assert list(render(PODS, target=static)) == [
        "apiserver/flags",
        "apiserver/ca.pem",
        "apiserver/admission.yaml",
        "apiserver/validating/webhooks.yaml",
    ]


@pytest.mark.parametrize(
    ("parts", "files"),
    [
        (("server",), ["1-namespace.yaml", "2-server.yaml"]),
        (("webhook-configurations",), ["3-webhook-configurations.yaml"]),
        (("api-server",), []),
    ],
)
def test_files_by_part(parts: tuple[Part, ...], files: list[str]) -> None:
    assert list(render(PODS, parts=parts)) == files


def test_only_objects_of_the_cluster_are_compared() -> None:
    files = render(PODS, tokens, target=LOCALHOST)
    assert [object_["kind"] for object_ in files["3-webhook-configurations.yaml"].objects] == [
        "ValidatingWebhookConfiguration"
    ]
    assert files["apiserver/flags"].objects == files["apiserver/authenticate.yaml"].objects == []


def test_unsafe_manifests_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="never starts"):
        render(admission_policy(), target=Target(version=Version(1, 27)))


def test_policies_that_need_flags_are_only_checked_with_the_files_of_the_api_server() -> None:
    assert render(PODS, tokens, parts=("webhook-configurations",))
    with pytest.raises(ConfigurationError, match="give --url"):
        render(PODS, tokens)


def test_comments_are_wrapped() -> None:
    document = CommentedObject({"a": 1}, f"{'word ' * 30}\nsecond")
    lines = str(document).splitlines()
    assert all(len(line) <= 120 for line in lines)
    assert lines[-2:] == ["# second", "a: 1"]
    assert yaml.safe_load(str(document)) == {"a": 1}


def test_comments_of_webhook_configurations() -> None:
    target = Target(exempt_namespaces=("calico-system",))
    everything = admission_policy(namespaces=["kube-system", "a"]).with_name("everything")
    comment = comment_of(render(everything, target=target)["3-webhook-configurations.yaml"])
    assert "Calls the validating policies: everything." in comment
    assert (
        "Exempt namespaces: calico-system, kube-node-lease, kube-public, kube-system, webhooks. "
        "They run what a cluster needs to start, and the server itself."
    ) in comment
    assert "Policy 'everything' is not called for namespaces that are exempt: kube-system." in comment
    assert "Components of the cluster, and service accounts of calico-system, are exempt" in comment
    assert "caBundle is not set here" in comment


def test_comments_for_old_clusters() -> None:
    target = Target(version=Version(1, 21), ca_bundle=b"PEM")
    comment = comment_of(render(PODS, target=target)["3-webhook-configurations.yaml"])
    assert "kubectl label namespace kube-system kubernetes.io/metadata.name=kube-system" in comment


@pytest.mark.parametrize(
    ("settings", "comments"),
    [
        ({}, ["It has no permissions", "No outgoing connections are allowed."]),
        (
            {"sync_ca_bundle": "webhooks"},
            ["Access to its own webhook configurations only", "Outgoing connections are allowed for --sync-ca-bundle."],
        ),
    ],
)
def test_comments_of_the_server(settings: dict[str, Any], comments: list[str]) -> None:
    comment = comment_of(render(PODS, **settings)["2-server.yaml"])
    assert [text for text in comments if text not in comment] == []


def test_comments_of_credentials() -> None:
    files = render(tokens, target=LOCALHOST, client_ca="ca.pem", oidc_issuer="https://issuer")
    comment = comment_of(files["apiserver/authenticate.yaml"])
    assert "Copy apiserver.pem and apiserver-key.pem into this folder." in comment
    assert "Copy the token into this folder, as token" in comment
