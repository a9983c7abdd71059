import pytest

from webhooks.policy.model import OUTCOMES
from webhooks.reviews.kinds import CODECS, Kind


def test_each_kind_of_policy_has_a_codec() -> None:
    assert CODECS.keys() == OUTCOMES.keys()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("mutating", "AdmissionReview"),
        ("validating", "AdmissionReview"),
        ("authorizing", "SubjectAccessReview"),
        ("authenticating", "TokenReview"),
        ("image_policy", "ImageReview"),
    ],
)
def test_the_codec_is_that_of_the_protocol(kind: Kind, name: str) -> None:
    assert CODECS[kind].kind == name
