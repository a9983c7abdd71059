"""Each kind of policies has a codec."""

from typing import get_args

from webhooks.policy.model import OUTCOMES
from webhooks.reviews.kinds import CODECS, Kind


def test_every_kind_has_a_codec_and_outcomes() -> None:
    assert set(CODECS) == set(OUTCOMES) == set(get_args(Kind))


def test_both_kinds_of_admission_policies_have_the_same_codec() -> None:
    assert CODECS["mutating"] is CODECS["validating"]
    assert len(set(CODECS.values())) == 4
