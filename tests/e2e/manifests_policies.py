"""The policies of the tests of generated manifests: a denial, a default and a warning, and the other kinds."""

from webhooks import (
    AccessReview,
    AdmissionReview,
    Allow,
    Authenticated,
    Deny,
    ImageReview,
    NoOpinion,
    Replace,
    TokenReview,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)


@mutating("core/configmaps", operations=["CREATE"], names=["reviewed-*"])
def defaults(review: AdmissionReview):
    config_map = review.object
    config_map.setdefault("data", {})["default"] = "yes"
    return Replace(config_map)


@validating("core/configmaps", names=["reviewed-*"])
def owned(review: AdmissionReview):
    if "owner" not in review.labels:
        return Deny("missing labels: owner")
    return Allow(warnings=["owners are reviewed every year"])


@authorizing("core/secrets", namespaces=["vault"], on_error="deny")
def sealed(access: AccessReview):
    return Deny("the vault is sealed")


@authenticating
def known(review: TokenReview):
    return Authenticated("jane", groups=["system:masters"]) if review.token == "janes-token" else NoOpinion()


@image_policy
def own_registry(review: ImageReview):
    foreign = [image for image in review.images if not image.startswith("registry.example.com/")]
    return Deny(f"not from our registry: {', '.join(foreign)}") if foreign else Allow()
