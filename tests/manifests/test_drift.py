"""What somebody has changed in a cluster is told, if it changes what runs or who reaches it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from webhooks.manifests import drift
from webhooks.manifests.deployment import Workload
from webhooks.manifests.server_files import ServerFiles
from webhooks.manifests.target import Target
from webhooks.settings import Settings

Json = dict[str, Any]
WORKLOAD = Workload.from_settings(Settings(sync_ca_bundle=None), ServerFiles(), Target(image="webhooks:1"))


def lines(wanted: Json, change: Callable[[Json], object]) -> list[str]:
    there = copy.deepcopy(wanted)
    change(there)
    return list(drift.compare_objects(wanted, there))


def _pod(there: Json) -> Json:
    return there["spec"]["template"]["spec"]


def _container(there: Json) -> Json:
    return _pod(there)["containers"][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda it: _pod(it).pop("automountServiceAccountToken"),
            "automountServiceAccountToken: expected false, but is not set",
        ),
        (
            lambda it: _container(it)["securityContext"].pop("allowPrivilegeEscalation"),
            "allowPrivilegeEscalation: expected false, but is not set",
        ),
        (lambda it: _container(it)["securityContext"].update(privileged=True), "privileged: not expected: true"),
        (lambda it: _container(it)["securityContext"].update(runAsUser=0), "runAsUser: not expected: 0"),
        (
            lambda it: _pod(it)["securityContext"].update(supplementalGroups=[0]),
            "supplementalGroups: not expected: [0]",
        ),
        (lambda it: _container(it).update(command=["sh"]), 'command: not expected: ["sh"]'),
        (lambda it: _container(it).update(env=[{"name": "A", "value": "b"}]), "env: "),
        (lambda it: _container(it).update(envFrom=[{"secretRef": {"name": "a"}}]), "envFrom: "),
        (lambda it: _pod(it).update(hostNetwork=True), "hostNetwork: not expected: true"),
        (lambda it: _pod(it).update(hostPID=True), "hostPID: not expected: true"),
        (lambda it: _pod(it).update(hostIPC=True), "hostIPC: not expected: true"),
        (lambda it: _pod(it).update(initContainers=[{"name": "a"}]), "initContainers: "),
    ],
)
def test_of_a_deployment(change: Callable[[Json], object], says: str) -> None:
    [line] = lines(WORKLOAD.deployment(), change)
    assert says in line


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda it: it["spec"]["selector"].update(tier="front"), "spec.selector.tier"),
        (lambda it: it["spec"].update(selector={"app": "other"}), "spec.selector"),
        (lambda it: it["spec"].update(type="NodePort"), 'spec.type: expected "ClusterIP", but is "NodePort"'),
        (lambda it: it["spec"].update(externalIPs=["10.0.0.1"]), "spec.externalIPs"),
    ],
)
def test_of_a_service(change: Callable[[Json], object], says: str) -> None:
    assert says in "\n".join(lines(WORKLOAD.service(), change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda it: it["spec"]["ingress"][0].update({"from": [{"podSelector": {}}]}), "ingress[0].from"),
        (lambda it: it["spec"]["ingress"][1]["from"][0].pop("namespaceSelector"), "ingress[1].from"),
        (lambda it: it["spec"]["podSelector"]["matchLabels"].update(tier="front"), "podSelector.matchLabels.tier"),
        (lambda it: it["spec"]["podSelector"].update(matchExpressions=[{}]), "podSelector.matchExpressions"),
        (lambda it: it["spec"].update(egress=[{}]), "spec.egress"),
    ],
)
def test_of_a_network_policy(change: Callable[[Json], object], says: str) -> None:
    [line] = lines(WORKLOAD.network_policy(), change)
    assert says in line


def test_rights_that_somebody_added() -> None:
    role = Workload.from_settings(Settings(sync_ca_bundle="webhooks"), ServerFiles(), Target()).rbac()[0]
    [line] = lines(role, lambda it: it["rules"][0].update(nonResourceURLs=["*"]))
    assert "rules[0].nonResourceURLs" in line


def test_what_api_servers_add_or_leave_out_is_no_difference() -> None:
    assert lines(WORKLOAD.service(), lambda it: it["spec"].update(type="ClusterIP", clusterIP="10.0.0.1")) == []
    assert lines(WORKLOAD.network_policy(), lambda it: it["spec"].pop("egress")) == []
    assert lines(WORKLOAD.deployment(), lambda it: _container(it).update(imagePullPolicy="Always", env=[])) == []
