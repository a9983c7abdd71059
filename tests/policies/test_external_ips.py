from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import decide
from .other_objects import check_requests, check_shapes, message, review_for, service

[external_ips] = load(["library:external_ips"])

ALLOWED = ["203.0.113.7", "2001:db8::1"]
EXPECTED = "must have only 203.0.113.7, 2001:db8::1"


@pytest.mark.parametrize(
    "addresses",
    [None, [], ["203.0.113.7"], ["2001:db8::1"], ["2001:DB8:0:0:0:0:0:1"], ["2001:0db8::0001", "203.0.113.7"]],
    ids=repr,
)
def test_allowed_addresses(addresses: Any) -> None:
    assert message(external_ips.bind(allowed_ips=ALLOWED), service(externalIPs=addresses)) is None
    assert message(external_ips.bind(allowed_ips=ALLOWED), service()) is None


@pytest.mark.parametrize(
    "address",
    ["203.0.113.8", "2001:db8::2", "::ffff:203.0.113.7", "203.0.113.07", "203.0.113.7/32", "203.0.113.7 ", "web", ""],
)
def test_other_addresses_are_denied(address: str) -> None:
    policy = external_ips.bind(allowed_ips=ALLOWED)
    assert (
        message(policy, service(externalIPs=["203.0.113.7", address])) == f"spec.externalIPs {EXPECTED}, not {address}"
    )


def test_no_address_is_allowed_by_default() -> None:
    both = service(externalIPs=["1.2.3.4", "::1"])
    problem = "spec.externalIPs must be empty, not 1.2.3.4; spec.externalIPs must be empty, not ::1"
    assert message(external_ips, both) == problem
    assert message(external_ips, both, service(externalIPs=["1.2.3.4"])) == "spec.externalIPs must be empty, not ::1"


def test_requests() -> None:
    check_requests(external_ips, service(), service(externalIPs=["1.2.3.4"]))
    check_shapes(external_ips, service(), "spec", "externalIPs", allowed=([],))
    check_shapes(external_ips, service(), "spec", allowed=({}, {"x": "y"}))


@pytest.mark.parametrize("address", ["203.0.113.0/24", "web", ""])
def test_invalid_parameters_deny_everything(address: str) -> None:
    policy = external_ips.bind(allowed_ips=[address])
    assert isinstance(decide(review_for(service(externalIPs=["203.0.113.7"])), policy).outcome, Deny)


@pytest.mark.parametrize("value", ["203.0.113.7", None, [5]], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        external_ips.bind(allowed_ips=value)
