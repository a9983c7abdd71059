"""The policies of a server: unique names, and for each review the policies that want it."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from webhooks.errors import ConfigurationError
from webhooks.policy.model import AnyPolicy, Kind, Policy

_MAX_KEY = 1024  # characters of what is remembered; callers choose some of it
_MAX_KNOWN = 4096  # more kinds of request than a cluster serves; beyond it somebody makes them up


class Registry:
    """A set of policies with unique names, in the order in which they run.

    Raises:
        ConfigurationError: two policies share a name, or one has a parameter that is not set or of the wrong type.
    """

    def __init__(self, policies: Iterable[AnyPolicy]) -> None:
        self._by_name: dict[str, AnyPolicy] = {}
        for policy in policies:
            self._add(policy)
        self._known: dict[tuple[Kind, Hashable], tuple[tuple[AnyPolicy, ...], bool]] = {}

    def _add(self, policy: AnyPolicy) -> None:
        if not isinstance(policy, Policy):
            raise ConfigurationError(f"not a policy but a {type(policy).__name__}: decorate a function to make one")
        other = self._by_name.setdefault(policy.name, policy)
        if other is not policy:
            raise ConfigurationError(
                f"{policy.origin}: two policies are named {policy.name!r}, the other is at {other.origin}; "
                'give one of them a name of its own: .with_name("...")'
            )
        try:
            policy.check_parameters()
        except ConfigurationError as error:
            raise ConfigurationError(f"{policy.origin}: {error}") from None

    def __iter__(self) -> Any:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def select(self, kind: Kind, review: Any) -> Sequence[AnyPolicy]:
        """The policies of a kind that want a review, in order; of mutating ones, those that may come to want it.

        Raises:
            MalformedReview: what a policy's match has to ask cannot be read.
        """
        key = kind, review.match_key
        candidates, unconditional = self._known.get(key) or self._remember(key, review)
        if unconditional or kind == "mutating":
            return candidates
        return [policy for policy in candidates if policy.matches(review)]

    def _remember(self, key: tuple[Kind, Hashable], review: Any) -> tuple[tuple[AnyPolicy, ...], bool]:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        candidates = tuple(policy for policy in self if policy.kind == key[0] and policy.matches_resource(review))
        found = candidates, all(policy.is_unconditional for policy in candidates)
        if len(repr(key)) <= _MAX_KEY:
            self._known[key] = found
        return found
