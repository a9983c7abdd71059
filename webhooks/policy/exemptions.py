"""Exemptions: reviews that the operator excludes from a policy, with a reason and optionally an expiry."""

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
    """Reviews that are exempt from a policy. All conditions must hold.

    Attributes:
        reason: the reason, for the audit log.
        namespaces: the namespace of the object.
        names: the name of the object.
        users: the name of the user who makes the request.
        images: image patterns, see `ImageReference.matches`. The object must have images, and each must match one.
        expires: the time of the expiry in seconds since 1970; None for never.
    """

    reason: str
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    users: Globs = EVERYTHING
    images: tuple[str, ...] = ()
    expires: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the exemption has expired."""
        return self.expires is not None and self.expires <= time.time()

    @property
    def expiry(self) -> str:
        """The time of the expiry in UTC as text; empty for never."""
        return "" if self.expires is None else datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def expiry_notice(self) -> str:
        """The warning for an exemption that has expired."""
        return f"an exemption expired {self.expiry} ({self.reason})"

    def covers(self, review: AdmissionReview | AccessReview | ImageReview) -> bool:
        """Check whether a review meets all conditions. If one of its fields cannot be read, it does not."""
        try:
            return (
                (self.namespaces is EVERYTHING or self.namespaces.match(review.namespace))
                and (self.names is EVERYTHING or self._matches_name(review))
                and (self.users is EVERYTHING or self.users.match(_get_username(review)))
                and (not self.images or self._covers_images(_get_images(review)))
            )
        except (MalformedReview, ValueError):
            return False

    def _matches_name(self, review: Any) -> bool:
        """Check the object's name. If the server will generate it, every name it may generate must match."""
        prefix = getattr(review, "generate_name", "")
        if not prefix:
            return self.names.match(review.name)
        patterns = (text[:-1] for text in self.names.texts or () if text.endswith("*") and not is_pattern(text[:-1]))
        return any(prefix.startswith(pattern) for pattern in patterns)

    def _covers_images(self, images: Sequence[ImageReference]) -> bool:
        return bool(images) and all(any(map(image.matches, self.images)) for image in images)


def _get_username(review: Any) -> str:
    return review.user.username if isinstance(review, AdmissionReview) else str(review.user)


def _get_images(review: Any) -> Sequence[ImageReference]:
    return review.references if isinstance(review, ImageReview) else [image.reference for image in review.images()]
