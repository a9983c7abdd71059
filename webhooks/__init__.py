"""One server for every question a cluster API asks from outside, answered by plain Python functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from webhooks._version import __version__ as __version__

if TYPE_CHECKING:
    from webhooks.app.asgi import create_app
    from webhooks.kube.quantities import parse_quantity
    from webhooks.objects.fields import field, items
    from webhooks.objects.image_references import ImageReference
    from webhooks.objects.json_patch import pointer
    from webhooks.objects.pods import Container, Image
    from webhooks.policy.decorators import authenticating, authorizing, image_policy, mutating, validating
    from webhooks.policy.loader import bundled
    from webhooks.policy.model import Policy
    from webhooks.reviews.admission import AdmissionReview, deny_new, introduced
    from webhooks.reviews.authentication import TokenReview
    from webhooks.reviews.authorization import AccessReview
    from webhooks.reviews.images import ImageReview
    from webhooks.reviews.outcomes import (
        Allow,
        Authenticated,
        Decision,
        Deny,
        Identity,
        Mutation,
        NoOpinion,
        Opinion,
        Patch,
        Replace,
        Unauthenticated,
    )
    from webhooks.reviews.user import User

__all__ = [
    "AccessReview",
    "AdmissionReview",
    "Allow",
    "Authenticated",
    "Container",
    "Decision",
    "Deny",
    "Identity",
    "Image",
    "ImageReference",
    "ImageReview",
    "Mutation",
    "NoOpinion",
    "Opinion",
    "Patch",
    "Policy",
    "Replace",
    "TokenReview",
    "Unauthenticated",
    "User",
    "authenticating",
    "authorizing",
    "bundled",
    "create_app",
    "deny_new",
    "field",
    "image_policy",
    "introduced",
    "items",
    "mutating",
    "parse_quantity",
    "pointer",
    "validating",
]

_HOMES = {
    "webhooks.app.asgi": ("create_app",),
    "webhooks.reviews.outcomes": (
        "Allow",
        "Authenticated",
        "Decision",
        "Deny",
        "Identity",
        "Mutation",
        "NoOpinion",
        "Opinion",
        "Patch",
        "Replace",
        "Unauthenticated",
    ),
    "webhooks.policy.decorators": ("authenticating", "authorizing", "image_policy", "mutating", "validating"),
    "webhooks.objects.fields": ("field", "items"),
    "webhooks.policy.loader": ("bundled",),
    "webhooks.objects.json_patch": ("pointer",),
    "webhooks.objects.pods": ("Container", "Image"),
    "webhooks.policy.model": ("Policy",),
    "webhooks.kube.quantities": ("parse_quantity",),
    "webhooks.objects.image_references": ("ImageReference",),
    "webhooks.reviews.admission": ("AdmissionReview", "deny_new", "introduced"),
    "webhooks.reviews.authentication": ("TokenReview",),
    "webhooks.reviews.authorization": ("AccessReview",),
    "webhooks.reviews.images": ("ImageReview",),
    "webhooks.reviews.user": ("User",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for then: help, completion and other projects' tests, which load our plugin, do without."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
