"""One server for every question a cluster API asks from outside, answered by plain Python functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhooks.app import create_app
    from webhooks.decisions import (
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
    from webhooks.decorators import authenticating, authorizing, image_policy, mutating, validating
    from webhooks.fields import field, items
    from webhooks.loading import ready
    from webhooks.patching import pointer
    from webhooks.pods import Container, Image
    from webhooks.policy import Policy
    from webhooks.quantities import parse_quantity
    from webhooks.references import ImageReference
    from webhooks.violations import introduced
    from webhooks.wire.admission import AdmissionReview
    from webhooks.wire.authentication import TokenReview
    from webhooks.wire.authorization import AccessReview
    from webhooks.wire.images import ImageReview
    from webhooks.wire.users import User

__version__ = "0.1.0"

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
    "create_app",
    "field",
    "image_policy",
    "introduced",
    "items",
    "mutating",
    "parse_quantity",
    "pointer",
    "ready",
    "validating",
]

_HOMES = {
    "webhooks.app": ("create_app",),
    "webhooks.decisions": (
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
    "webhooks.decorators": ("authenticating", "authorizing", "image_policy", "mutating", "validating"),
    "webhooks.fields": ("field", "items"),
    "webhooks.loading": ("ready",),
    "webhooks.patching": ("pointer",),
    "webhooks.pods": ("Container", "Image"),
    "webhooks.policy": ("Policy",),
    "webhooks.quantities": ("parse_quantity",),
    "webhooks.references": ("ImageReference",),
    "webhooks.violations": ("introduced",),
    "webhooks.wire.admission": ("AdmissionReview",),
    "webhooks.wire.authentication": ("TokenReview",),
    "webhooks.wire.authorization": ("AccessReview",),
    "webhooks.wire.images": ("ImageReview",),
    "webhooks.wire.users": ("User",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for then: help, completion and other projects' tests, which load our plugin, do without."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
