"""Tests of documents: places, errors, parts and models."""

from pathlib import Path
from typing import Any

import pytest

from webhooks.config import strict_yaml
from webhooks.config.document import Document, Place, locate
from webhooks.config.validation import FieldError, Model
from webhooks.errors import ConfigurationError


def parse(text: str) -> Document:
    return strict_yaml.parse(text.encode(), Path("limits.yaml"))


PLACES = """\
# A comment with é.
apiVersion: v1
limits:
- type: Server
  qps: 5
- {type: "é", burst:   7}
-
  - a
last:
"""


@pytest.mark.parametrize(
    ("path", "place", "key_place"),
    [
        ((), (2, 1), (2, 1)),
        (("apiVersion",), (2, 13), (2, 1)),
        (("limits",), (4, 1), (3, 1)),
        (("limits", 0), (4, 3), (4, 3)),
        (("limits", 0, "type"), (4, 9), (4, 3)),
        (("limits", 0, "qps"), (5, 8), (5, 3)),
        (("limits", 0, "burst"), (4, 3), (4, 3)),
        (("limits", 1), (6, 3), (6, 3)),
        (("limits", 1, "burst"), (6, 24), (6, 15)),
        (("limits", 2, 0), (8, 5), (8, 5)),
        (("limits", 3), (4, 1), (4, 1)),
        (("limits", 3, "qps", 1), (4, 1), (4, 1)),
        (("nothing", "here"), (2, 1), (2, 1)),
    ],
)
def test_places(path: tuple[str | int, ...], place: Any, key_place: Any) -> None:
    document = parse(PLACES)
    assert (document.place(path), document.key_place(path)) == (place, key_place)
    if document.find_place(path) is not None:
        assert document.find_place(path) == place


def test_the_place_of_an_absent_value() -> None:
    document = parse(PLACES)
    assert document.find_place(("limits", 0, "qps")) == (5, 8)
    assert document.find_place(("limits", 1, "qps")) is None
    assert document.find_place(("nothing", "here")) is None


def test_errors_are_in_the_order_of_their_places() -> None:
    document = parse(PLACES)
    error = document.error(
        [
            FieldError(("limits", 1, "burst"), "Invalid value", "must be even", "7"),
            FieldError(("limits", 0, "burst"), "Required value"),
            FieldError(("apiVersion",), "Forbidden", "unknown field"),
        ]
    )
    assert str(error).splitlines() == [
        "limits.yaml:2:1: apiVersion: Forbidden: unknown field",
        "limits.yaml:4:3: limits[0].burst: Required value",
        "limits.yaml:6:24: limits[1].burst: Invalid value: 7: must be even",
    ]


class Point(Model):
    x: int
    y: int = 0


def test_a_part_keeps_its_places_and_shows_the_full_path() -> None:
    part = parse("points:\n- x: 1\n- x: true\n").part("points", 1)
    assert part.tree == {"x": True}
    with pytest.raises(ConfigurationError) as raised:
        part.read(Point)
    assert str(raised.value) == "limits.yaml:3:6: points[1].x: Invalid value: true: must be an integer"
    assert part.part("x").tree is True


@pytest.mark.parametrize("text", ["points:\n  - z: 1", "points:\n  - point:"])
def test_an_absent_part_is_empty(text: str) -> None:
    part = parse(text).part("points", 0, "point")
    assert part.tree == {}
    with pytest.raises(ConfigurationError, match=r"^limits\.yaml:2:\d+: points\[0\]\.point\.x: Required value$"):
        part.read(Point)


def test_a_document_as_a_model() -> None:
    assert parse("{x: 1, y: 2}").read(Point) == Point(x=1, y=2)


def test_duplicate_keys_are_reported_with_other_errors() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse("y: 1\nx: no\ny: 2\nz: 3\n").read(Point)
    assert str(raised.value).splitlines() == [
        'limits.yaml:2:4: x: Invalid value: "no": must be an integer',
        'limits.yaml:3:1: y: Duplicate value: "y": the key is in line 1 already',
        "limits.yaml:4:1: z: Forbidden: unknown field",
    ]
    with pytest.raises(ConfigurationError, match=r"limits\.yaml:1:8: x: Duplicate value"):
        parse("{x: 1, x: 1}").read(Point)


def test_locations() -> None:
    assert locate(Path("a.yaml"), "invalid") == "a.yaml: invalid"
    assert locate(Path("a\n.yaml"), "invalid", Place(2, 3)) == "a\\n.yaml:2:3: invalid"
