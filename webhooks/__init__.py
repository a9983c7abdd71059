"""One server for every question a cluster API asks from outside, answered by plain Python functions."""

from typing import TYPE_CHECKING, Any

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
from webhooks.fields import field, items
from webhooks.loading import ready
from webhooks.patching import pointer
from webhooks.pods import Container, Image
from webhooks.policy import Policy, authenticating, authorizing, image_policy, mutating, validating
from webhooks.quantities import parse_quantity
from webhooks.references import ImageReference
from webhooks.violations import introduced
from webhooks.wire.admission import AdmissionReview
from webhooks.wire.authentication import TokenReview
from webhooks.wire.authorization import AccessReview
from webhooks.wire.images import ImageReview
from webhooks.wire.users import User

if TYPE_CHECKING:
    from webhooks.app import create_app

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


def __getattr__(name: str) -> Any:
    """Import the application when it is asked for: policies and the command line's help can do without."""
    if name == "create_app":
        from webhooks.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
