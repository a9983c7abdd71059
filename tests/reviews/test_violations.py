from collections.abc import Iterator

from webhooks import AdmissionReview, introduced

from ..support.builders import admission_review, pod


def bad_labels(review: AdmissionReview) -> Iterator[str]:
    return (f"label {name} is bad" for name, value in review.labels.items() if value == "bad")


def test_what_a_new_object_has_is_new() -> None:
    assert introduced(admission_review("CREATE", pod(labels={"a": "bad", "b": "ok"})), bad_labels) == ["label a is bad"]


def test_what_an_update_leaves_as_it_was_is_not_new() -> None:
    old = pod(labels={"a": "bad", "b": "ok"})
    assert introduced(admission_review("UPDATE", old, old=old), bad_labels) == []
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad", "b": "bad"}), old=old), bad_labels) == [
        "label b is bad"
    ]


def test_an_update_that_repairs_brings_nothing() -> None:
    assert introduced(admission_review("UPDATE", pod(), old=pod(labels={"a": "bad"})), bad_labels) == []


def test_nothing_is_brought_by_deleting() -> None:
    assert introduced(admission_review("DELETE", old=pod(labels={"a": "bad"})), bad_labels) == []


def test_an_update_whose_old_object_is_not_told_brings_all() -> None:
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad"})), bad_labels) == ["label a is bad"]
