"""Objects that the tests create."""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

IMAGE = "registry.example.com/app:1"
ALLOWED = {"owner": "shop"}

# Namespaces and the values of their label `webhooks`, which selects the webhooks that are called for them.
NAMESPACES = {"shop": "all", "vault": "all", "legacy": "v1beta1", "reinvoked": "one-by-one"}


def make_object(api_version: str, kind: str, name: str, namespace: str | None = "shop", **fields: Any) -> Json:
    """Return an object. `labels` and `annotations` are added to its metadata, other fields to the object."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    for key in ("labels", "annotations"):
        if key in fields:
            metadata[key] = fields.pop(key)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def config_map(name: str, namespace: str = "shop", **fields: Any) -> Json:
    return make_object("v1", "ConfigMap", name, namespace, **fields)


def pod_spec(image: str = IMAGE) -> Json:
    return {"containers": [{"name": "app", "image": image}]}


def pod(name: str, namespace: str = "shop", *, image: str = IMAGE, **fields: Any) -> Json:
    return make_object("v1", "Pod", name, namespace, spec=pod_spec(image), **fields)


def deployment(name: str, *, labels: Mapping[str, str] = ALLOWED, replicas: int = 1) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return make_object("apps/v1", "Deployment", name, labels=dict(labels), spec=spec)


def cron_job(name: str, *, image: str = IMAGE) -> Json:
    template = {"spec": {"template": {"spec": pod_spec(image) | {"restartPolicy": "Never"}}}}
    return make_object("batch/v1beta1", "CronJob", name, spec={"schedule": "0 0 * * *", "jobTemplate": template})


WIDGETS = make_object(
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


def object_list(items: Iterable[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def namespaces() -> list[Json]:
    return [
        make_object("v1", "Namespace", name, None, labels={"webhooks": label}) for name, label in NAMESPACES.items()
    ]


def rbac_objects() -> list[Json]:
    """Return the RBAC objects: Alice, Carol and Jane (by her group) have all rights to common resources, Bob none."""
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]}
    subjects = [("User", "alice"), ("User", "carol"), ("Group", "developers")]
    return [
        make_object(f"{group}/v1", "ClusterRole", "editor", None, rules=[rule]),
        make_object(
            f"{group}/v1",
            "ClusterRoleBinding",
            "editors",
            None,
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "editor"},
            subjects=[{"apiGroup": group, "kind": kind, "name": name} for kind, name in subjects],
        ),
    ]


def webhook_configurations(url: str, ca: str) -> list[Json]:
    """Return the webhook configurations of the main server; `ca` is its CA in base64."""
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    both = ["v1", "v1beta1"]

    def webhook(name: str, path: str, label: str | None, *, versions: list[str] = both, **fields: Any) -> Json:
        """Return a webhook for namespaces with a label, or for cluster-scoped objects if the label is None."""
        selector = {"namespaceSelector": {"matchLabels": {"webhooks": label}}} if label else {}
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{url}{path}", "caBundle": ca},
            "rules": [everything | {"scope": "Namespaced" if label else "Cluster"}],
            **selector,
            "admissionReviewVersions": versions,
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            **fields,
        }

    def configuration(kind: str, *webhooks: Json) -> Json:
        version = "admissionregistration.k8s.io/v1"
        return make_object(version, f"{kind}WebhookConfiguration", "e2e", None, webhooks=webhooks)

    reinvoked = {"reinvocationPolicy": "IfNeeded"}
    return [
        configuration(
            "Mutating",
            webhook("mutate", "/admission/mutate", "all", **reinvoked),
            webhook("mutate-v1beta1", "/admission/mutate", "v1beta1", versions=["v1beta1"], **reinvoked),
            webhook("pull-always", "/admission/mutate/pull_always", "one-by-one", **reinvoked),
            webhook("sidecar", "/admission/mutate/sidecar", "one-by-one", **reinvoked),
        ),
        configuration(
            "Validating",
            webhook("validate", "/admission/validate", "all"),
            webhook("validate-v1beta1", "/admission/validate", "v1beta1", versions=["v1beta1"]),
            webhook("kept", "/admission/validate/kept", "one-by-one"),
            webhook("cluster-wide", "/admission/validate", None, objectSelector={"matchLabels": {"judged": "yes"}}),
        ),
    ]
