"""The kinds of policies, and the review protocol that each kind decides."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from webhooks.reviews import admission_codec, authentication, authorization, images
from webhooks.reviews.codec import Codec

Kind: TypeAlias = Literal["mutating", "validating", "authorizing", "authenticating", "image_policy"]

CODECS: Mapping[Kind, Codec[Any, Any]] = {
    "mutating": admission_codec.CODEC,
    "validating": admission_codec.CODEC,
    "authorizing": authorization.CODEC,
    "authenticating": authentication.CODEC,
    "image_policy": images.CODEC,
}
