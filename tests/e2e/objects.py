"""The objects that the tests and the harness hand to kubectl."""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

IMAGE = "registry.example.com/app:1"
ALLOWED = {"owner": "shop"}

# Namespaces, and the registrations that see what happens in them (their label `webhooks`).
NAMESPACES = {"shop": "all", "vault": "all", "legacy": "v1beta1", "reinvoked": "one-by-one"}


def thing(api_version: str, kind: str, name: str, namespace: str | None = "shop", **fields: Any) -> Json:
    """Any object; `labels` and `annotations` go into its metadata, the rest beside it."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    for key in ("labels", "annotations"):
        if key in fields:
            metadata[key] = fields.pop(key)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def config_map(name: str, namespace: str = "shop", **fields: Any) -> Json:
    return thing("v1", "ConfigMap", name, namespace, **fields)


def pod_spec(image: str = IMAGE) -> Json:
    return {"containers": [{"name": "app", "image": image}]}


def pod(name: str, namespace: str = "shop", *, image: str = IMAGE, **fields: Any) -> Json:
    return thing("v1", "Pod", name, namespace, spec=pod_spec(image), **fields)


def deployment(name: str, *, labels: Mapping[str, str] = ALLOWED, replicas: int = 1) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return thing("apps/v1", "Deployment", name, labels=dict(labels), spec=spec)


def cron_job(name: str, *, image: str = IMAGE) -> Json:
    template = {"spec": {"template": {"spec": pod_spec(image) | {"restartPolicy": "Never"}}}}
    return thing("batch/v1beta1", "CronJob", name, spec={"schedule": "0 0 * * *", "jobTemplate": template})


WIDGETS = thing(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "widgets.e2e.example.com",
    None,
    spec={
        "group": "e2e.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
)


def everything(items: Iterable[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def namespaces() -> list[Json]:
    return [thing("v1", "Namespace", name, None, labels={"webhooks": by}) for name, by in NAMESPACES.items()]


def rights() -> list[Json]:
    """Alice, carol and jane (by her group) may do anything with the everyday resources; bob nothing."""
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]}
    subjects = [("User", "alice"), ("User", "carol"), ("Group", "developers")]
    return [
        thing(f"{group}/v1", "ClusterRole", "editor", None, rules=[rule]),
        thing(
            f"{group}/v1",
            "ClusterRoleBinding",
            "editors",
            None,
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "editor"},
            subjects=[{"apiGroup": group, "kind": kind, "name": name} for kind, name in subjects],
        ),
    ]


def registrations(url: str, authority: str) -> list[Json]:
    """Our server's; `authority` is its CA in base64."""
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    both = ["v1", "v1beta1"]

    def webhook(name: str, path: str, seen: str | None, *, versions: list[str] = both, **fields: Any) -> Json:
        """For all that happens in the namespaces of that label; None: for objects outside of namespaces."""
        namespaced = {"namespaceSelector": {"matchLabels": {"webhooks": seen}}} if seen else {}
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{url}{path}", "caBundle": authority},
            "rules": [everything | {"scope": "Namespaced" if seen else "Cluster"}],
            **namespaced,
            "admissionReviewVersions": versions,
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            **fields,
        }

    def configuration(kind: str, *webhooks: Json) -> Json:
        version = "admissionregistration.k8s.io/v1"
        return thing(version, f"{kind}WebhookConfiguration", "e2e", None, webhooks=webhooks)

    again = {"reinvocationPolicy": "IfNeeded"}
    return [
        configuration(
            "Mutating",
            webhook("mutate", "/admission/mutate", "all", **again),
            webhook("mutate-v1beta1", "/admission/mutate", "v1beta1", versions=["v1beta1"], **again),
            webhook("pull-always", "/admission/mutate/pull_always", "one-by-one", **again),
            webhook("sidecar", "/admission/mutate/sidecar", "one-by-one", **again),
        ),
        configuration(
            "Validating",
            webhook("validate", "/admission/validate", "all"),
            webhook("validate-v1beta1", "/admission/validate", "v1beta1", versions=["v1beta1"]),
            webhook("kept", "/admission/validate/kept", "one-by-one"),
            webhook("cluster-wide", "/admission/validate", None, objectSelector={"matchLabels": {"judged": "yes"}}),
        ),
    ]
