"""The objects that run the server."""

from typing import Any

import kubernetes_validate
import pytest

from webhooks.errors import ConfigurationError
from webhooks.manifests.deployment import Workload
from webhooks.manifests.server_files import ServerFiles
from webhooks.manifests.target import Target, Version
from webhooks.settings import Settings

Json = dict[str, Any]
FILES = ServerFiles(
    {"webhooks.yaml": "configuration", "client-ca.crt": "PEM"},
    {"policies/mine.py": "policy"},
    ["tokens/tokens.csv"],
    ["--config=/etc/webhooks/webhooks.yaml"],
)
TARGET = Target(image="webhooks:1")


def workload(files: ServerFiles = FILES, target: Target = TARGET, **settings: Any) -> Workload:
    return Workload.from_settings(Settings(**settings), files, target)


def objects(built: Workload) -> list[Json]:
    return [
        built.namespace(),
        built.service_account(),
        *built.rbac(),
        *built.config_maps(),
        built.service(),
        built.disruption_budget(),
        built.network_policy(),
        built.deployment(),
    ]


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("settings", [{}, {"sync_ca_bundle": "webhooks", "tracing": True}])
def test_all_objects_are_valid(version: str, settings: Json) -> None:
    major, minor = version.split(".")
    target = Target(image="webhooks:1", version=Version(int(major), int(minor)))
    for object_ in objects(workload(target=target, **settings)):
        kubernetes_validate.validate(object_, version, strict=True)


def test_cluster_scoped_objects_have_no_namespace() -> None:
    by_kind = {object_["kind"]: object_ for object_ in objects(workload(sync_ca_bundle="mine"))}
    for kind in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
        assert "namespace" not in by_kind[kind]["metadata"]
    assert by_kind["Service"]["metadata"]["namespace"] == "webhooks"


def test_arguments() -> None:
    assert workload(sync_ca_bundle="mine").arguments() == [
        "serve",
        "--config=/etc/webhooks/webhooks.yaml",
        "--sync-ca-bundle=mine",
        "--host=0.0.0.0",
        "--port=8443",
        "--ops-port=8080",
        "--tls-cert=/etc/webhooks/tls/tls.crt",
        "--tls-key=/etc/webhooks/tls/tls.key",
    ]


def test_files_have_their_paths_in_one_volume() -> None:
    volume = workload().deployment()["spec"]["template"]["spec"]["volumes"][0]
    sources = [next(iter(source.values())) for source in volume["projected"]["sources"]]
    assert [(source["name"], [item["path"] for item in source["items"]]) for source in sources] == [
        ("webhooks-configuration", ["client-ca.crt", "webhooks.yaml"]),
        ("webhooks-policies", ["policies/mine.py"]),
        ("webhooks-tls", ["tls/tls.crt", "tls/tls.key"]),
        ("webhooks-tokens", ["tokens/tokens.csv"]),
    ]
    data = {config_map["metadata"]["name"]: config_map["data"] for config_map in workload().config_maps()}
    keys = {source["name"]: {item["key"] for item in source["items"]} for source in sources}
    assert {name: set(contents) for name, contents in data.items()}.items() <= keys.items()


def test_permissions_belong_to_the_synchronization_of_ca_bundles() -> None:
    without, with_sync = workload(), workload(sync_ca_bundle="mine")
    assert (without.rbac(), len(with_sync.rbac())) == ([], 2)
    [rule] = with_sync.rbac()[0]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["mine"], ["get", "patch"])
    pods = [built.deployment()["spec"]["template"]["spec"] for built in (without, with_sync)]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [False, True]


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({}, ()),
        ({"oidc_issuer": "https://issuer", "tracing": True}, ("--oidc-issuer", "--tracing")),
        ({"sync_ca_bundle": "webhooks"}, ("--sync-ca-bundle",)),
    ],
)
def test_outgoing_connections_belong_to_features(settings: Json, features: tuple[str, ...]) -> None:
    built = workload(**settings)
    assert built.outbound_features == features
    assert built.network_policy()["spec"]["egress"] == ([{}] if features else [])


def test_pods_have_time_to_terminate() -> None:
    pod = workload(shutdown_delay=20.0, grace=50.0).deployment()["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 75


def test_changed_files_replace_pods() -> None:
    def annotations(built: Workload) -> Json:
        result: Json = built.deployment()["spec"]["template"]["metadata"]["annotations"]
        return result

    assert annotations(workload()) == annotations(workload())
    assert annotations(workload()) != annotations(workload(ServerFiles(policies={"policies/mine.py": "other"})))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"policies/a.b": "", "policies/a/b": ""}, "not unique or not valid as keys of a ConfigMap"),
        ({"policies/ä.py": ""}, "not unique or not valid as keys of a ConfigMap"),
        ({"policies/big.py": "#" * 1024 * 1024}, "ConfigMap webhooks-policies are larger than 1 MiB"),
    ],
)
def test_files_that_do_not_fit_into_a_config_map(files: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        workload(ServerFiles(policies=files)).config_maps()
