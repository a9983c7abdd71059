"""What somebody has changed in a cluster is told, if it changes what runs or who reaches it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from webhooks.manifests import drift
from webhooks.manifests.deployment import Workload
from webhooks.manifests.server_files import Sources
from webhooks.manifests.target import Target
from webhooks.settings import Settings

Json = dict[str, Any]
WORKLOAD = Workload(Settings(sync_ca_bundle=None), Sources(), Target(image="webhooks:1"))


def lines(wanted: Json, change: Callable[[Json], object]) -> list[str]:
    there = copy.deepcopy(wanted)
    change(there)
    return list(drift.different(wanted, there))


def _pod(there: Json) -> Json:
    return there["spec"]["template"]["spec"]


def _container(there: Json) -> Json:
    return _pod(there)["containers"][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda it: _pod(it).pop("automountServiceAccountToken"), "automountServiceAccountToken: nothing is there"),
        (lambda it: _container(it)["securityContext"].pop("allowPrivilegeEscalation"), "nothing is there, false would"),
        (lambda it: _container(it)["securityContext"].update(privileged=True), "privileged: true is there"),
        (lambda it: _container(it)["securityContext"].update(runAsUser=0), "runAsUser: 0 is there"),
        (lambda it: _pod(it)["securityContext"].update(supplementalGroups=[0]), "supplementalGroups: [0] is there"),
        (lambda it: _container(it).update(command=["sh"]), 'command: ["sh"] is there, and would not be written'),
        (lambda it: _container(it).update(env=[{"name": "A", "value": "b"}]), "env: "),
        (lambda it: _container(it).update(envFrom=[{"secretRef": {"name": "a"}}]), "envFrom: "),
        (lambda it: _pod(it).update(hostNetwork=True), "hostNetwork: true is there, and would not be written"),
        (lambda it: _pod(it).update(hostPID=True), "hostPID: true"),
        (lambda it: _pod(it).update(hostIPC=True), "hostIPC: true"),
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
        (lambda it: it["spec"].update(type="NodePort"), 'spec.type: "NodePort" is there, "ClusterIP" would be'),
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
    role = Workload(Settings(sync_ca_bundle="webhooks"), Sources(), Target()).rights()[0]
    [line] = lines(role, lambda it: it["rules"][0].update(nonResourceURLs=["*"]))
    assert "rules[0].nonResourceURLs" in line


def test_what_api_servers_add_or_leave_out_is_no_difference() -> None:
    assert lines(WORKLOAD.service(), lambda it: it["spec"].update(type="ClusterIP", clusterIP="10.0.0.1")) == []
    assert lines(WORKLOAD.network_policy(), lambda it: it["spec"].pop("egress")) == []
    assert lines(WORKLOAD.deployment(), lambda it: _container(it).update(imagePullPolicy="Always", env=[])) == []
