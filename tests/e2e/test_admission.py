"""Admission for users of kubectl: defaults, denials, warnings and audit annotations."""

import json

import pytest

from .cluster import Cluster
from .kubectl import Json, Kubectl
from .objects import config_map, cron_job, deployment, make_object, pod

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# A float cannot represent it exactly.
BIG = 9007199254740993


def test_a_pod_gets_its_defaults(admin: Kubectl) -> None:
    admin.create(pod("web", labels={"app": "web"}))
    stored = admin.get("pod", "web")
    assert stored["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert stored["metadata"]["labels"] == {"app": "web", "team": "shop"}


def test_a_pod_without_labels_gets_its_label(admin: Kubectl) -> None:
    admin.create(pod("bare"))
    assert admin.get("pod", "bare")["metadata"]["labels"] == {"team": "shop"}


def test_a_default_does_not_replace_a_value(admin: Kubectl) -> None:
    body = pod("chosen")
    body["spec"]["securityContext"] = {"seccompProfile": {"type": "Unconfined"}, "runAsUser": 1000}
    admin.create(body)
    assert admin.get("pod", "chosen")["spec"]["securityContext"] == body["spec"]["securityContext"]


def test_applying_twice_changes_nothing_the_second_time(admin: Kubectl) -> None:
    body = pod("applied")
    assert "created" in admin("apply", "-f", "-", body=body).out
    assert "unchanged" in admin("apply", "-f", "-", body=body).out


def test_server_side_apply_gets_the_defaults(admin: Kubectl) -> None:
    admin("apply", "--server-side", "-f", "-", body=pod("server-side"))
    assert admin.get("pod", "server-side")["metadata"]["labels"] == {"team": "shop"}


def test_dry_run_shows_the_defaults_and_stores_nothing(admin: Kubectl) -> None:
    shown = admin.create(pod("dry"), "--dry-run=server", "-o", "json").json()
    assert shown["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert shown["metadata"]["labels"] == {"team": "shop"}
    assert "not found" in admin.error("get", "pod", "dry")


def test_policies_see_dry_runs(admin: Kubectl) -> None:
    greeted = config_map("greeted", labels={"greet": "me"})
    assert "Warning: dry run: True" in admin.create(greeted, "--dry-run=server").err
    assert "Warning: dry run: False" in admin.create(greeted).err


def test_a_dry_run_is_denied(admin: Kubectl) -> None:
    assert "missing labels: owner" in admin.create_error(deployment("dry", labels={}), "--dry-run=server")


def test_a_deployment_without_owner_is_denied(admin: Kubectl) -> None:
    error = admin.create_error(deployment("unowned", labels={}))
    assert 'admission webhook "validate.example.com" denied the request' in error
    assert "missing labels: owner" in error
    assert "not found" in admin.error("get", "deployment", "unowned")


def test_a_warning_is_shown(admin: Kubectl) -> None:
    assert "Warning: labels become immutable in v2" in admin.create(deployment("warned")).err


def test_a_patch_is_allowed_or_denied(admin: Kubectl) -> None:
    admin.create(deployment("patched"))
    patch = json.dumps({"metadata": {"labels": {"owner": None}}})
    assert "missing labels: owner" in admin.error("patch", "deployment", "patched", "-p", patch)
    admin("patch", "deployment", "patched", "-p", json.dumps({"spec": {"minReadySeconds": 5}}))
    stored = admin.get("deployment", "patched")
    assert stored["metadata"]["labels"] == {"owner": "shop"}
    assert stored["spec"]["minReadySeconds"] == 5


def test_a_label_change_is_allowed_or_denied(admin: Kubectl) -> None:
    admin.create(deployment("labelled"))
    change = ("label", "--overwrite", "deployment", "labelled")
    assert "the owner stays shop, it does not become bank" in admin.error(*change, "owner=bank")
    assert "missing labels: owner" in admin.error(*change, "owner-")
    admin(*change, "tier=gold")
    assert admin.get("deployment", "labelled")["metadata"]["labels"] == {"owner": "shop", "tier": "gold"}


def test_scaling_is_allowed_or_denied(admin: Kubectl) -> None:
    admin.create(deployment("scaled"))
    error = admin.error("scale", "deployment", "scaled", "--replicas=50")
    assert "50 replicas of scaled: the maximum is 10" in error
    admin("scale", "deployment", "scaled", "--replicas=10")
    assert admin.get("deployment", "scaled")["spec"]["replicas"] == 10


def test_a_deletion_is_decided_by_the_stored_object(admin: Kubectl) -> None:
    admin.create(config_map("precious", labels={"keep": "true"}, data={"b": "2", "a": "1"}))
    assert "precious is kept, it holds a, b" in admin.error("delete", "configmap", "precious")
    admin("label", "configmap", "precious", "keep-")
    admin("delete", "configmap", "precious")
    assert "not found" in admin.error("get", "configmap", "precious")


def test_a_deletion_of_many_stops_at_the_kept_one(admin: Kubectl) -> None:
    admin.create(config_map("many-1", labels={"many": "yes", "keep": "true"}, data={"a": "1"}))
    admin.create(config_map("many-2", labels={"many": "yes"}))
    assert "many-1 is kept" in admin.error("delete", "configmap", "-l", "many=yes")
    assert admin("get", "configmap", "-l", "many=yes", "-o", "name").out.split() == ["configmap/many-1"]


def test_a_shell_is_denied(admin: Kubectl) -> None:
    admin.create(pod("shelled"))
    assert "no shell in shop/shelled: sh" in admin.error("exec", "shelled", "--", "sh")


def test_another_command_is_passed_to_the_node(admin: Kubectl) -> None:
    admin.create(pod("executed"))
    assert "does not have a host assigned" in admin.error("exec", "executed", "--", "ls")


def test_an_ephemeral_container_is_allowed_or_denied(admin: Kubectl) -> None:
    admin.create(pod("debugged"))
    path = "/api/v1/namespaces/shop/pods/debugged/ephemeralcontainers"
    replace = ("replace", f"--raw={path}", "-f", "-")

    def debugger(image: str) -> Json:
        # This release does not default ephemeral containers.
        defaults = {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"}
        containers = [{"name": "debugger", "image": image} | defaults]
        return make_object("v1", "EphemeralContainers", "debugged", ephemeralContainers=containers)

    error = admin.error(*replace, body=debugger("registry.example.com/nmap:1"))
    assert "no debugger: registry.example.com/nmap:1" in error
    admin(*replace, body=debugger("registry.example.com/debugger:1"))
    images = [one["image"] for one in admin.get("pod", "debugged")["spec"]["ephemeralContainers"]]
    assert images == ["registry.example.com/debugger:1"]


def test_a_cron_job_gets_its_default(admin: Kubectl) -> None:
    admin.create(cron_job("nightly"))
    assert admin.get("cronjob", "nightly")["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_containers_of_a_cron_job_are_seen(admin: Kubectl) -> None:
    error = admin.create_error(cron_job("untagged", image="registry.example.com/app"))
    assert "no tag: app (/spec/jobTemplate/spec/template/spec/containers/0)" in error


def test_big_integers_of_a_custom_resource_survive(admin: Kubectl) -> None:
    spec = {"serial": BIG, "nested": [{"least": -(2**63), "most": 2**63 - 1}], "ratio": 0.1}
    admin.create(make_object("e2e.example.com/v1", "Widget", "big", spec=spec))
    assert admin.get("widget", "big")["spec"] == spec | {"next": BIG + 2}
    admin("patch", "widget", "big", "--type=merge", "-p", json.dumps({"spec": {"serial": BIG + 1}}))
    assert admin.get("widget", "big")["spec"] == spec | {"serial": BIG + 1, "next": BIG + 3}


def test_annotations_of_an_approval_are_audited(admin: Kubectl, cluster: Cluster) -> None:
    admin.create(deployment("audited"))
    annotations = cluster.await_audit_event("create", "deployments", "audited")["annotations"]
    assert annotations["validate.example.com/checked"] == "yes"


def test_annotations_of_a_denial_are_audited(admin: Kubectl, cluster: Cluster) -> None:
    admin.create_error(deployment("audited-denial", labels={}))
    event = cluster.await_audit_event("create", "deployments", "audited-denial")
    assert event["annotations"]["validate.example.com/missing"] == "owner"
    assert event["responseStatus"]["code"] == 403


def test_mutations_are_audited(admin: Kubectl, cluster: Cluster) -> None:
    admin.create(pod("audited-mutation"))
    annotations = cluster.await_audit_event("create", "pods", "audited-mutation")["annotations"]
    mutation = json.loads(annotations["mutation.webhook.admission.k8s.io/round_0_index_0"])
    assert mutation == {"configuration": "e2e", "webhook": "mutate.example.com", "mutated": True}


def test_an_object_that_no_policy_matches_is_not_changed(admin: Kubectl) -> None:
    assert admin.create(config_map("plain", data={"a": "1"})).err == ""
    assert admin.get("configmap", "plain")["data"] == {"a": "1"}


def test_an_object_without_a_name_is_matched_by_its_generate_name(admin: Kubectl) -> None:
    body = config_map("temp-")
    body["metadata"]["generateName"] = body["metadata"].pop("name")
    error = admin.create_error(body)
    assert "Error from server (Conflict)" in error
    assert 'admission webhook "mutate.example.com" denied the request: nothing called temp- here' in error


def test_cluster_scoped_objects_are_reviewed(admin: Kubectl) -> None:
    error = admin.create_error(make_object("v1", "Namespace", "mine", None, labels={"judged": "yes"}))
    assert "mine is no team's" in error
    admin.create(make_object("v1", "Namespace", "team-mine", None, labels={"judged": "yes"}))


def test_v1beta1_webhook_configurations_are_served(admin: Kubectl) -> None:
    admin.create(pod("old", "legacy"))
    stored = admin.get("pod", "old", "-n", "legacy")
    assert stored["metadata"]["labels"] == {"team": "legacy"}
    assert stored["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    admin.create(config_map("old", "legacy", labels={"keep": "true"}, data={"a": "1"}))
    error = admin.error("delete", "configmap", "old", "-n", "legacy")
    assert 'admission webhook "validate-v1beta1.example.com" denied the request' in error
    assert "old is kept, it holds a" in error


def test_a_policy_can_have_its_own_webhook(admin: Kubectl) -> None:
    """Only `kept` is called here, not the two policies that would deny this."""
    labels = {"keep": "true", "policy": "two"}
    admin.create(config_map("by-itself", "reinvoked", labels=labels, data={"a": "1"}))
    error = admin.error("delete", "configmap", "by-itself", "-n", "reinvoked")
    assert 'admission webhook "kept.example.com" denied the request: by-itself is kept, it holds a' in error


def test_reinvocation_completes_a_later_mutation_once(admin: Kubectl, cluster: Cluster) -> None:
    """The sidecar is added after `pull_always`, so that one is reinvoked; nothing is added twice."""
    admin.create(pod("again", "reinvoked"))
    containers = admin.get("pod", "again", "-n", "reinvoked")["spec"]["containers"]
    assert {one["name"]: one["imagePullPolicy"] for one in containers} == {"app": "Always", "proxy": "Always"}
    assert len(containers) == 2
    assert _mutated(cluster, "again") == {
        "round_0_index_2": ("pull-always.example.com", True),
        "round_0_index_3": ("sidecar.example.com", True),
        "round_1_index_2": ("pull-always.example.com", True),
        "round_1_index_3": ("sidecar.example.com", False),
    }


def _mutated(cluster: Cluster, name: str) -> dict[str, tuple[str, bool]]:
    """Return for each call of a mutating webhook its name, and whether it changed the pod."""
    prefix = "mutation.webhook.admission.k8s.io/"
    annotations = cluster.await_audit_event("create", "pods", name)["annotations"]
    mutations = {key.removeprefix(prefix): json.loads(annotations[key]) for key in annotations if prefix in key}
    return {key: (value["webhook"], value["mutated"]) for key, value in mutations.items()}
