"""What a policy wants, put together from all that narrows it: as a registration has to say it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Requirement
from webhooks.kube.resource_rules import Rule, both
from webhooks.policy.matching import AdmissionMatch
from webhooks.policy.model import AnyPolicy


@dataclass(frozen=True)
class PolicyScope:
    """The reviews that a policy wants.

    Attributes:
        policy: the policy.
        rules: the resources, of which one fits.
        operations: some of CREATE, UPDATE, DELETE and CONNECT.
        namespaces: globs, of which each fits; likewise the others.
        labels: what one of the objects meets.
    """

    policy: AnyPolicy
    rules: tuple[Rule, ...]
    operations: frozenset[str]
    namespaces: tuple[Globs, ...]
    names: tuple[Globs, ...]
    users: tuple[Globs, ...]
    groups: tuple[Globs, ...]
    labels: tuple[Requirement, ...]

    @classmethod
    def of(cls, policy: AnyPolicy) -> "PolicyScope":
        """Those of a policy for admission."""
        matches = list(_matches(policy))
        labels = [match.labels.requirements for match in matches if match.labels.requirements]
        return cls(
            policy,
            tuple(_shared([match.rules for match in matches])),
            frozenset.intersection(*(match.operations for match in matches)),
            _narrowing(match.namespaces for match in matches),
            _narrowing(match.names for match in matches),
            _narrowing(match.users for match in matches),
            _narrowing(match.groups for match in matches),
            # Each selector may be met by another one of the two objects, and a registration has room for one.
            labels[0] if labels else (),
        )


def _matches(policy: AnyPolicy) -> Iterator[AdmissionMatch]:
    """What the author and the operator have to say; both have to hold."""
    assert isinstance(policy.match, AdmissionMatch)
    yield policy.match
    if policy.operator_match is not None:
        assert isinstance(policy.operator_match, AdmissionMatch)
        yield policy.operator_match


def _narrowing(globs: Iterator[Globs]) -> tuple[Globs, ...]:
    return tuple(each for each in globs if each is not EVERYTHING)


def _shared(alternatives: Sequence[Sequence[Rule]]) -> Iterator[Rule]:
    """The rules that hold where one of each does."""
    for rules in product(*alternatives):
        shared = rules[0]
        for rule in rules[1:]:
            narrower = both(shared, rule)
            if narrower is None:
                break
            shared = narrower
        else:
            yield shared
