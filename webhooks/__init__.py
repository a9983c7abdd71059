"""Serves Kubernetes admission, authorization, token and image reviews with policies that are plain Python functions."""

from typing import TYPE_CHECKING

from webhooks._lazy import lazy_exports
from webhooks._version import __version__ as __version__

if TYPE_CHECKING:
    from webhooks.app.asgi import create_app as create_app
    from webhooks.errors import ConfigurationError as ConfigurationError
    from webhooks.errors import MalformedReview as MalformedReview
    from webhooks.errors import WebhooksError as WebhooksError
    from webhooks.kube.quantities import parse_quantity as parse_quantity
    from webhooks.objects.fields import field as field
    from webhooks.objects.fields import items as items
    from webhooks.objects.image_references import ImageReference as ImageReference
    from webhooks.objects.json_pointer import pointer as pointer
    from webhooks.objects.pods import Container as Container
    from webhooks.objects.pods import Image as Image
    from webhooks.policy.decorators import WORKLOADS as WORKLOADS
    from webhooks.policy.decorators import authenticating as authenticating
    from webhooks.policy.decorators import authorizing as authorizing
    from webhooks.policy.decorators import image_policy as image_policy
    from webhooks.policy.decorators import mutating as mutating
    from webhooks.policy.decorators import validating as validating
    from webhooks.policy.loader import bundled as bundled
    from webhooks.policy.loader import load_file
    from webhooks.policy.model import Policy as Policy
    from webhooks.reviews.admission import AdmissionReview as AdmissionReview
    from webhooks.reviews.admission import deny_new as deny_new
    from webhooks.reviews.admission import introduced as introduced
    from webhooks.reviews.authentication import TokenReview as TokenReview
    from webhooks.reviews.authorization import AccessReview as AccessReview
    from webhooks.reviews.images import ImageReview as ImageReview
    from webhooks.reviews.outcomes import Allow as Allow
    from webhooks.reviews.outcomes import Authenticated as Authenticated
    from webhooks.reviews.outcomes import Decision as Decision
    from webhooks.reviews.outcomes import Deny as Deny
    from webhooks.reviews.outcomes import Identity as Identity
    from webhooks.reviews.outcomes import Mutation as Mutation
    from webhooks.reviews.outcomes import NoOpinion as NoOpinion
    from webhooks.reviews.outcomes import Opinion as Opinion
    from webhooks.reviews.outcomes import Patch as Patch
    from webhooks.reviews.outcomes import Replace as Replace
    from webhooks.reviews.outcomes import Unauthenticated as Unauthenticated
    from webhooks.reviews.user import User as User

    load = load_file
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        globals(),
        {
            "AccessReview": "webhooks.reviews.authorization",
            "AdmissionReview": "webhooks.reviews.admission",
            "Allow": "webhooks.reviews.outcomes",
            "Authenticated": "webhooks.reviews.outcomes",
            "ConfigurationError": "webhooks.errors",
            "Container": "webhooks.objects.pods",
            "Decision": "webhooks.reviews.outcomes",
            "Deny": "webhooks.reviews.outcomes",
            "Identity": "webhooks.reviews.outcomes",
            "Image": "webhooks.objects.pods",
            "ImageReference": "webhooks.objects.image_references",
            "ImageReview": "webhooks.reviews.images",
            "MalformedReview": "webhooks.errors",
            "Mutation": "webhooks.reviews.outcomes",
            "NoOpinion": "webhooks.reviews.outcomes",
            "Opinion": "webhooks.reviews.outcomes",
            "Patch": "webhooks.reviews.outcomes",
            "Policy": "webhooks.policy.model",
            "Replace": "webhooks.reviews.outcomes",
            "TokenReview": "webhooks.reviews.authentication",
            "Unauthenticated": "webhooks.reviews.outcomes",
            "User": "webhooks.reviews.user",
            "WORKLOADS": "webhooks.policy.decorators",
            "WebhooksError": "webhooks.errors",
            "authenticating": "webhooks.policy.decorators",
            "authorizing": "webhooks.policy.decorators",
            "bundled": "webhooks.policy.loader",
            "create_app": "webhooks.app.asgi",
            "deny_new": "webhooks.reviews.admission",
            "field": "webhooks.objects.fields",
            "image_policy": "webhooks.policy.decorators",
            "introduced": "webhooks.reviews.admission",
            "items": "webhooks.objects.fields",
            "load": "webhooks.policy.loader:load_file",
            "mutating": "webhooks.policy.decorators",
            "parse_quantity": "webhooks.kube.quantities",
            "pointer": "webhooks.objects.json_pointer",
            "validating": "webhooks.policy.decorators",
        },
    )
