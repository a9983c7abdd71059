"""Differences between manifests and a folder or a cluster."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.manifests.deployment import Workload
from webhooks.manifests.drift import api_path, compare_cluster, compare_folder, compare_objects
from webhooks.manifests.render import CommentedObject, ManifestFile
from webhooks.manifests.server_files import ServerFiles
from webhooks.manifests.target import Target
from webhooks.manifests.webhook_configurations import build_configuration, build_webhooks
from webhooks.settings import Settings

from ..support.manifest_policies import admission_policy

Json = dict[str, Any]
WORKLOAD = Workload.from_settings(Settings(sync_ca_bundle=None), ServerFiles(), Target(image="webhooks:1"))


def differences(expected: Json, change: Callable[[Json], object]) -> list[str]:
    actual = copy.deepcopy(expected)
    change(actual)
    return list(compare_objects(expected, actual))


def _pod(deployment: Json) -> Json:
    pod: Json = deployment["spec"]["template"]["spec"]
    return pod


def _container(deployment: Json) -> Json:
    container: Json = _pod(deployment)["containers"][0]
    return container


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda object_: _pod(object_).pop("automountServiceAccountToken"),
            "automountServiceAccountToken: expected false, but is not set",
        ),
        (
            lambda object_: _container(object_)["securityContext"].pop("allowPrivilegeEscalation"),
            "allowPrivilegeEscalation: expected false, but is not set",
        ),
        (
            lambda object_: _container(object_)["securityContext"].update(privileged=True),
            "privileged: not expected: true",
        ),
        (lambda object_: _container(object_)["securityContext"].update(runAsUser=0), "runAsUser: not expected: 0"),
        (
            lambda object_: _pod(object_)["securityContext"].update(supplementalGroups=[0]),
            "supplementalGroups: not expected: [0]",
        ),
        (lambda object_: _container(object_).update(command=["sh"]), 'command: not expected: ["sh"]'),
        (lambda object_: _container(object_).update(env=[{"name": "A", "value": "b"}]), "env: "),
        (lambda object_: _container(object_).update(envFrom=[{"secretRef": {"name": "a"}}]), "envFrom: "),
        (lambda object_: _pod(object_).update(hostNetwork=True), "hostNetwork: not expected: true"),
        (lambda object_: _pod(object_).update(hostPID=True), "hostPID: not expected: true"),
        (lambda object_: _pod(object_).update(hostIPC=True), "hostIPC: not expected: true"),
        (lambda object_: _pod(object_).update(initContainers=[{"name": "a"}]), "initContainers: "),
    ],
)
def test_deployments(change: Callable[[Json], object], message: str) -> None:
    [line] = differences(WORKLOAD.deployment(), change)
    assert message in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda object_: object_["spec"]["selector"].update(tier="front"), "spec.selector.tier"),
        (lambda object_: object_["spec"].update(selector={"app": "other"}), "spec.selector"),
        (lambda object_: object_["spec"].update(type="NodePort"), 'spec.type: expected "ClusterIP", but is "NodePort"'),
        (lambda object_: object_["spec"].update(externalIPs=["10.0.0.1"]), "spec.externalIPs"),
    ],
)
def test_services(change: Callable[[Json], object], message: str) -> None:
    assert message in "\n".join(differences(WORKLOAD.service(), change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda object_: object_["spec"]["ingress"][0].update({"from": [{"podSelector": {}}]}), "ingress[0].from"),
        (lambda object_: object_["spec"]["ingress"][1]["from"][0].pop("namespaceSelector"), "ingress[1].from"),
        (
            lambda object_: object_["spec"]["podSelector"]["matchLabels"].update(tier="front"),
            "podSelector.matchLabels.tier",
        ),
        (lambda object_: object_["spec"]["podSelector"].update(matchExpressions=[{}]), "podSelector.matchExpressions"),
        (lambda object_: object_["spec"].update(egress=[{}]), "spec.egress"),
    ],
)
def test_network_policies(change: Callable[[Json], object], message: str) -> None:
    [line] = differences(WORKLOAD.network_policy(), change)
    assert message in line


def test_added_permissions() -> None:
    role = Workload.from_settings(Settings(sync_ca_bundle="webhooks"), ServerFiles(), Target()).rbac()[0]
    [line] = differences(role, lambda object_: object_["rules"][0].update(nonResourceURLs=["*"]))
    assert "rules[0].nonResourceURLs" in line


def test_fields_that_api_servers_add_or_omit() -> None:
    assert (
        differences(WORKLOAD.service(), lambda object_: object_["spec"].update(type="ClusterIP", clusterIP="10.0.0.1"))
        == []
    )
    assert differences(WORKLOAD.network_policy(), lambda object_: object_["spec"].pop("egress")) == []
    assert (
        differences(WORKLOAD.deployment(), lambda object_: _container(object_).update(imagePullPolicy="Always", env=[]))
        == []
    )


POLICIES = [admission_policy("pods").with_name("one"), admission_policy("services").with_name("two")]
TARGET = Target(per_policy=True)
CONFIGURATION = build_configuration("validating", build_webhooks("validating", POLICIES, TARGET), TARGET)
ONE = "webhooks[one.validate.webhooks.svc.io]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda webhooks: webhooks[0].update(failurePolicy="Ignore"),
            f'{ONE}.failurePolicy: expected "Fail", but is "Ig',
        ),
        (lambda webhooks: webhooks.pop(0), f"{ONE}: missing"),
        (lambda webhooks: webhooks.append({"name": "other"}), "webhooks[other]: not expected"),
        (lambda webhooks: webhooks.reverse(), f"webhooks: not in the expected order: {ONE[9:-1]}, two.validate"),
    ],
)
def test_webhooks(change: Callable[[list[Json]], object], message: str) -> None:
    [line] = differences(CONFIGURATION, lambda configuration: change(configuration["webhooks"]))
    assert line.startswith(message)


def test_defaults_and_ca_bundles_of_webhooks_are_no_difference() -> None:
    def complete(configuration: Json) -> None:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = "UEVN"
            webhook |= {"objectSelector": {}, "matchConditions": []}
            del webhook["matchPolicy"]

    assert differences(CONFIGURATION, complete) == []


def test_long_values_are_shortened() -> None:
    [line] = differences(WORKLOAD.service_account(), lambda object_: object_.update(kind="x" * 500))
    assert len(line) < 200
    assert line.endswith("...")


class FakeCluster:
    """A cluster with some objects, by their paths."""

    def __init__(self, *objects: Json) -> None:
        self.objects = {api_path(object_): object_ for object_ in objects}

    def get(self, path: str) -> Any:
        collection, query, _ = path.partition("?")
        if not query:
            return self.objects.get(path)
        return {"items": [value for key, value in self.objects.items() if key.rpartition("/")[0] == collection]}


FILES = [ManifestFile("3-webhook-configurations.yaml", (CommentedObject(CONFIGURATION),))]


def test_a_cluster_in_sync() -> None:
    assert list(compare_cluster(FakeCluster(CONFIGURATION), FILES)) == []


def test_missing_and_foreign_objects() -> None:
    name = "ValidatingWebhookConfiguration webhooks"
    assert list(compare_cluster(FakeCluster(), FILES)) == [f"{name}: missing"]
    foreign = copy.deepcopy(CONFIGURATION)
    foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "others"
    [line] = compare_cluster(FakeCluster(foreign), FILES)
    assert line.startswith(f"{name}: belongs to another program")


def test_webhook_configurations_that_are_not_written_any_more() -> None:
    obsolete = copy.deepcopy(CONFIGURATION)
    obsolete["kind"] = "MutatingWebhookConfiguration"
    lines = list(compare_cluster(FakeCluster(CONFIGURATION, obsolete), FILES))
    assert lines == ["MutatingWebhookConfiguration webhooks: not expected, but labelled as belonging to this server"]


def test_paths_of_the_api() -> None:
    assert api_path(WORKLOAD.namespace()) == "/api/v1/namespaces/webhooks"
    assert api_path(WORKLOAD.deployment()) == "/apis/apps/v1/namespaces/webhooks/deployments/webhooks"


def test_folders(tmp_path: Path) -> None:
    [file] = FILES
    path = tmp_path / file.path
    assert list(compare_folder(tmp_path, FILES)) == [f"{path}: missing"]
    path.write_text(str(file))
    assert list(compare_folder(tmp_path, FILES)) == []
    path.write_text(str(file).replace("Fail", "Ignore"))
    lines = list(compare_folder(tmp_path, FILES))
    assert lines[:2] == [f"--- {path}", f"+++ {path} (expected)"]
    assert "-  failurePolicy: Ignore" in lines
    path.write_text(str(file))
    (tmp_path / "other.yml").touch()
    (tmp_path / "notes.txt").touch()
    assert list(compare_folder(tmp_path, FILES)) == [f"{tmp_path}/other.yml: not expected"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILES[0].path).write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        list(compare_folder(tmp_path, FILES))
