"""The policies of the main webhook server."""

import asyncio
from collections.abc import Collection

from webhooks import (
    AccessReview,
    AdmissionReview,
    Allow,
    Authenticated,
    Deny,
    ImageReview,
    NoOpinion,
    Patch,
    Replace,
    TokenReview,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)

# Admission: policies for common commands.


@mutating("pods", operations=["CREATE"])
def seccomp(review: AdmissionReview):
    pod = review.object
    pod["spec"].setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
    return Replace(pod)


@mutating("pods", operations=["CREATE"])
def team_label(review: AdmissionReview):
    if not review.labels:
        return Patch([{"op": "add", "path": "/metadata/labels", "value": {"team": review.namespace}}])
    return Patch([{"op": "add", "path": "/metadata/labels/team", "value": review.namespace}])


@mutating("batch/cronjobs", operations=["CREATE"])
def no_overlap(review: AdmissionReview):
    cron_job = review.object
    cron_job["spec"]["concurrencyPolicy"] = "Forbid"
    return Replace(cron_job)


@validating("batch/cronjobs")
def tagged_images(review: AdmissionReview):
    untagged = [f"{one.name} ({one.pointer})" for one in review.containers() if ":" not in one.image]
    return Deny(f"no tag: {', '.join(untagged)}") if untagged else Allow()


@mutating("e2e.example.com/widgets")
def next_serial(review: AdmissionReview):
    widget = review.object
    widget["spec"]["next"] = widget["spec"]["serial"] + 2
    return Replace(widget)


@validating("apps/deployments")
def required_labels(review: AdmissionReview, *, labels: Collection[str] = ("owner",)):
    missing = sorted(set(labels) - set(review.labels))
    if missing:
        return Deny(f"missing labels: {', '.join(missing)}", audit={"missing": ",".join(missing)})
    return Allow(warnings=["labels become immutable in v2"], audit={"checked": "yes"})


@validating("apps/deployments", operations=["UPDATE"])
def fixed_owner(review: AdmissionReview):
    before = review.old_object["metadata"].get("labels", {}).get("owner")
    after = review.labels.get("owner", before)
    return Allow() if before == after else Deny(f"the owner stays {before}, it does not become {after}")


@validating("*/scale", operations=["UPDATE"])
def few_replicas(review: AdmissionReview, *, maximum: int = 10):
    replicas = review.object["spec"].get("replicas", 0)
    return Allow() if replicas <= maximum else Deny(f"{replicas} replicas of {review.name}: the maximum is {maximum}")


@validating("configmaps", operations=["DELETE"], labels={"keep": "true"})
def kept(review: AdmissionReview):
    return Deny(f"{review.name} is kept, it holds {', '.join(sorted(review.target['data']))}")


@validating("pods/exec", operations=["CONNECT"])
def no_shell(review: AdmissionReview):
    command = " ".join(review.object["command"])
    return Deny(f"no shell in {review.namespace}/{review.name}: {command}") if command == "sh" else Allow()


@validating("pods/ephemeralcontainers", operations=["UPDATE"])
def known_debuggers(review: AdmissionReview):
    unknown = [one.image for one in review.containers() if not one.image.endswith("/debugger:1")]
    return Deny(f"no debugger: {', '.join(unknown)}") if unknown else Allow()


@validating("configmaps", operations=["CREATE"], labels={"greet": "me"})
def greeting(review: AdmissionReview):
    user = review.user
    groups = ", ".join(sorted(user.groups))
    extra = ", ".join(f"{key}={'+'.join(values)}" for key, values in sorted(user.extra.items()))
    hello = f"hello {user.username} ({user.uid}) of {groups}; {extra}"
    return Allow(warnings=[hello, f"dry run: {review.dry_run}"])


@mutating("configmaps", operations=["CREATE"], names=["temp-*"])
def nothing_temporary(review: AdmissionReview):
    return Deny(f"nothing called {review.name} here", reason="Conflict", code=409)


@validating("namespaces", labels={"judged": "yes"})
def team_namespaces(review: AdmissionReview):
    return Allow() if review.name.startswith("team-") else Deny(f"{review.name} is no team's")


# Admission: policies that fail, and several that match.


@validating("configmaps", operations=["CREATE"], labels={"policy": "raises"})
def raises(review: AdmissionReview):
    raise RuntimeError("cannot log in with password hunter2")


@validating("configmaps", operations=["CREATE"], labels={"policy": "raises-openly"}, on_error="allow")
def raises_openly(review: AdmissionReview):
    raise RuntimeError("cannot log in with password hunter2")


@validating("configmaps", operations=["CREATE"], labels={"policy": "forgets"})
def forgets(review: AdmissionReview):
    """Return nothing, which is not a permission."""


@validating("configmaps", operations=["CREATE"], labels={"policy": "dawdles"}, timeout=0.2)
async def dawdles(review: AdmissionReview):
    await asyncio.sleep(60)
    return Allow()


@validating("configmaps", operations=["CREATE"], labels={"policy": "two"})
def first_of_two(review: AdmissionReview):
    return Deny("denied by the first")


@validating("configmaps", operations=["CREATE"], labels={"policy": "two"})
def second_of_two(review: AdmissionReview):
    return Deny("denied by the second")


# Admission: mutations with their own webhooks, which are reinvoked after another mutation.


@mutating("pods", operations=["CREATE"], namespaces=["reinvoked"])
def pull_always(review: AdmissionReview):
    return Patch(
        [{"op": "replace", "path": f"{one.pointer}/imagePullPolicy", "value": "Always"} for one in review.containers()]
    )


@mutating("pods", operations=["CREATE"], namespaces=["reinvoked"])
def sidecar(review: AdmissionReview):
    pod = review.object
    if all(one.name != "proxy" for one in review.containers()):
        image = "registry.example.com/proxy:1"
        pod["spec"]["containers"].append({"name": "proxy", "image": image, "imagePullPolicy": "Never"})
    return Replace(pod)


# Admission: these deny as soon as the API server calls both webhooks.


@mutating("configmaps", operations=["CREATE"], names=["are-you-registered"])
def registered_first(review: AdmissionReview):
    return Patch([{"op": "add", "path": "/data", "value": {"mutated": "yes"}}])


@validating("configmaps", operations=["CREATE"], names=["are-you-registered"])
def registered_second(review: AdmissionReview):
    return Deny("both are registered") if "data" in review.object else Allow()


# The other kinds of review.


@authorizing("namespaces", verbs=["delete"])
def keep_namespaces(access: AccessReview):
    return NoOpinion() if "admins" in access.groups else Deny("namespaces are kept")


@authorizing("secrets", namespaces=["vault"])
def sealed(access: AccessReview):
    return Deny("the vault is sealed")


@authorizing("configmaps", verbs=["get", "list"], users=["bob"])
def readers(access: AccessReview):
    return Allow(reason="bob reads")


@authorizing(paths=["/metrics"], verbs=["get"], users=["bob"])
def scraper(access: AccessReview):
    return Allow()


@authenticating
def tokens(review: TokenReview):
    if review.token == "janes-token":
        return Authenticated("jane", uid="42", groups=["developers"], extra={"team": ["blue", "green"]})
    if review.token == "revoked-token":
        return Unauthenticated("the token was revoked")
    return NoOpinion()


@image_policy
def own_registry(review: ImageReview):
    if review.annotations.get("e2e.image-policy.k8s.io/ticket") == "1234":
        return Allow(audit={"ticket": "1234"})
    foreign = [image for image in review.images if not image.startswith("registry.example.com/")]
    return Deny(f"not from our registry in {review.namespace}: {', '.join(foreign)}") if foreign else Allow()
