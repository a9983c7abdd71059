"""Exemptions: what a policy's operator has it not asked about, for a reason and perhaps for a time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from webhooks.errors import MalformedReview
from webhooks.kube.globs import EVERYTHING, Globs, is_pattern
from webhooks.objects.image_references import ImageReference
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview


@dataclass(frozen=True, slots=True)
class Exemption:
    """Some reviews: those that fit all of what is given.

    Attributes:
        reason: why, for the audit record.
        namespaces: of the object.
        names: of the object.
        users: who ask.
        images: patterns as `ImageReference.matches` takes them; one must fit each image of the object, which has some.
        expires: when it ends, in seconds since 1970; None for never.
    """

    reason: str
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    users: Globs = EVERYTHING
    images: tuple[str, ...] = ()
    expires: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether it has ended."""
        return self.expires is not None and self.expires <= time.time()

    @property
    def expiry(self) -> str:
        """When it ends, as people write it."""
        return "" if self.expires is None else datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def expiry_notice(self) -> str:
        """What people are told of it once it has ended."""
        return f"an exemption ended {self.expiry} ({self.reason})"

    def covers(self, review: AdmissionReview | AccessReview | ImageReview) -> bool:
        """Whether the review is one of those. One that cannot be read is none of them."""
        try:
            return (
                (self.namespaces is EVERYTHING or self.namespaces.match(review.namespace))
                and (self.names is EVERYTHING or self._matches_name(review))
                and (self.users is EVERYTHING or self.users.match(_user(review)))
                and (not self.images or self._covers_images(_images(review)))
            )
        except (MalformedReview, ValueError):
            return False

    def _matches_name(self, review: Any) -> bool:
        """Whether the object's name fits; where the server is still to make one, whether whatever it makes will."""
        begun = getattr(review, "generate_name", "")
        if not begun:
            return self.names.match(review.name)
        beginnings = (text[:-1] for text in self.names.texts or () if text.endswith("*") and not is_pattern(text[:-1]))
        return any(begun.startswith(beginning) for beginning in beginnings)

    def _covers_images(self, images: Sequence[ImageReference]) -> bool:
        return bool(images) and all(any(map(image.matches, self.images)) for image in images)


def _user(review: Any) -> str:
    return review.user.username if isinstance(review, AdmissionReview) else str(review.user)


def _images(review: Any) -> Sequence[ImageReference]:
    return review.references if isinstance(review, ImageReview) else [image.reference for image in review.images()]
