"""The policies of a server, and which of them match a review."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from webhooks.errors import ConfigurationError
from webhooks.policy.model import AnyPolicy, Policy
from webhooks.reviews.kinds import Kind

_MAX_KEY = 1024  # characters of a cache key; clients control part of it
_MAX_ENTRIES = 4096  # more kinds of request than a cluster has; a client that invents some must not fill the memory


class Registry:
    """The policies of a server in the order in which they run. Their names are unique.

    Raises:
        ConfigurationError: two policies have the same name, or a parameter is not set or has the wrong type.
    """

    def __init__(self, policies: Iterable[AnyPolicy]) -> None:
        self._by_name: dict[str, AnyPolicy] = {}
        for policy in policies:
            self._add(policy)
        self._candidates: dict[tuple[Kind, Hashable], tuple[tuple[AnyPolicy, ...], bool]] = {}

    def _add(self, policy: AnyPolicy) -> None:
        if not isinstance(policy, Policy):
            raise ConfigurationError(f"expected a policy, not a {type(policy).__name__}: decorate a function")
        other = self._by_name.setdefault(policy.name, policy)
        if other is not policy:
            raise ConfigurationError(
                f"{policy.origin}: two policies are named {policy.name!r}, the other is at {other.origin}; "
                'rename one of them: .with_name("...")'
            )
        try:
            policy.check_parameters()
        except ConfigurationError as error:
            raise ConfigurationError(f"{policy.origin}: {error}") from None

    def __iter__(self) -> Iterator[AnyPolicy]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def select(self, kind: Kind, review: Any) -> Sequence[AnyPolicy]:
        """Return the policies of a kind that match a review, in order.

        Of mutating policies, return those that match its resource: an earlier policy may change the object so that a
        later one matches.

        Raises:
            MalformedReview: a field that a condition needs cannot be read.
        """
        key = kind, review.match_key
        candidates, are_unconditional = self._candidates.get(key) or self._find_candidates(key, review)
        if are_unconditional or kind == "mutating":
            return candidates
        return [policy for policy in candidates if policy.matches(review)]

    def _find_candidates(self, key: tuple[Kind, Hashable], review: Any) -> tuple[tuple[AnyPolicy, ...], bool]:
        if len(self._candidates) >= _MAX_ENTRIES:
            self._candidates.clear()
        policies = tuple(policy for policy in self if policy.kind == key[0] and policy.matches_resource(review))
        candidates = policies, all(policy.is_unconditional for policy in policies)
        if len(repr(key)) <= _MAX_KEY:
            self._candidates[key] = candidates
        return candidates
