"""Manifests out of files: what can be read is, and what cannot is named with its place."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhooks.offline import sources
from webhooks.offline.sources import Manifest, Problem, parse, read

POD = "apiVersion: v1\nkind: Pod\n"
JSON_POD = '{"apiVersion": "v1", "kind": "Pod"}'
NO_TOKEN = "not YAML: while scanning for the next token: found character that cannot start any token"
NO_QUOTE = "not YAML: while scanning a quoted scalar: found unexpected end of stream"
LIST = '{"apiVersion": "v1", "kind": "List", "items": [...]}'


def found(text: str | bytes) -> list[tuple[int, str]]:
    """Of each document its line, and its kind or what is wrong with it."""
    raw = text if isinstance(text, bytes) else text.encode()
    return [
        (each.line, each.tree["kind"] if isinstance(each, Manifest) else f"! {each.what}") for each in parse(raw, "f")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD, [(1, "Pod")]),
        (f"\ufeff{POD}", [(1, "Pod")]),
        (f"# about\n\n{POD}", [(3, "Pod")]),
        (f"---\n---\n{POD}---\n---\n", [(3, "Pod")]),
        (f"--- # one\n{POD}---\n{POD}", [(2, "Pod"), (5, "Pod")]),
        (f"{POD}...\n---\n{POD}", [(1, "Pod"), (5, "Pod")]),
        (f"%YAML 1.1\n---\n{POD}...\n%YAML 1.1\n---\n{POD}", [(3, "Pod"), (8, "Pod")]),
        (f"{POD}---\n{POD}".replace("\n", "\r\n"), [(1, "Pod"), (4, "Pod")]),
        (f"{POD}data: |\n  ---\n  text\n", [(1, "Pod")]),
        ("{apiVersion: v1, kind: Pod}", [(1, "Pod")]),
        (JSON_POD, [(1, "Pod")]),
        (f"---\n{JSON_POD}\n---\n{POD}", [(2, "Pod"), (4, "Pod")]),
        (f"{JSON_POD}{JSON_POD}\n\n{JSON_POD}\n", [(1, "Pod"), (1, "Pod"), (3, "Pod")]),
        (json.dumps(json.loads(JSON_POD), indent=4) + "\n" + JSON_POD, [(1, "Pod"), (5, "Pod")]),
    ],
)
def test_documents(text: str, expected: Any) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- {apiVersion: v1, kind: Node}\n",
            [(4, "Pod"), (6, "Node")],
        ),
        ("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {}\n", [(4, "Pod")]),
        ("apiVersion: v1\nkind: List\nitems: []\n", []),
        ("apiVersion: v1\nkind: List\nitems:\n- 1\n", [(4, "! not an object but a number")]),
        (LIST.replace("...", LIST.replace("...", JSON_POD)), [(1, "Pod")]),
        ("apiVersion: v1\nkind: AllowList\nspec: {}\n", [(1, "AllowList")]),
    ],
)
def test_lists(text: str, expected: Any) -> None:
    assert [each for each in found(text) if each[1] != "! there is nothing in it"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, "! there is nothing in it")]),
        ("\n# only words\n---\n", [(1, "! there is nothing in it")]),
        (f"{POD}---\n@\n---\n{POD}", [(1, "Pod"), (4, f"! {NO_TOKEN}"), (6, "Pod")]),
        (f"{POD}---\n\n'\n---\n{POD}", [(1, "Pod"), (6, f"! {NO_QUOTE}"), (7, "Pod")]),
        (f"{{{{ if .Values.pod }}}}\n---\n{POD}", [(1, "! a key must be a text"), (3, "Pod")]),
        (f"{POD}kind: Job\n---\n{POD}", [(3, "! the key 'kind' is there twice"), (5, "Pod")]),
        (f"kind: Pod\n---\n{POD}", [(1, "! an object without apiVersion"), (3, "Pod")]),
        (f"apiVersion: v1\n---\n{POD}", [(1, "! an object without kind"), (3, "Pod")]),
        ("kind: 1\napiVersion: v1", [(1, "! kind is not a text")]),
        ("kind: ''\napiVersion: v1", [(1, "! kind is not a text")]),
        (f"{POD}metadata: []", [(1, "! metadata is not an object")]),
        (f"{POD}metadata: {{name: 5}}", [(1, "! metadata.name is not a text")]),
        ("- 1", [(1, "! not an object but a list")]),
        ("hello", [(1, "! not an object but a text")]),
        (b"\x7fELF\x00\x80", [(1, "! binary, or not UTF-8: the byte 0x80")]),
        (b"a\x00b", [(1, "! not text: control characters are not allowed")]),
        (b"---\na: \xff\n---\n" + POD.encode(), [(2, "! binary, or not UTF-8: the byte 0xff"), (4, "Pod")]),
        (f'{JSON_POD}\n{{"a":\n,}}\n{JSON_POD}\n', [(1, "Pod"), (3, "! not JSON: Expecting value"), (4, "Pod")]),
        ('{"kind": "Pod", "kind": "Job"}', [(1, "! the key 'kind' is there twice")]),
        ('{"a": NaN}', [(1, "! NaN is not a JSON value")]),
        ('{"a": ' * 100_000, [(1, "! nested too deep")]),
    ],
)
def test_bad_input(text: str | bytes, expected: Any) -> None:
    assert found(text) == expected


def test_folders(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".hidden.yaml", "sub/e.yaml", ".git/f.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(JSON_POD)
    files = [Path(each.file).name for each in read([str(tmp_path)])]
    assert files == ["a.yml", "b.yaml", "c.json", "e.yaml"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert [each.file for each in read(["-"])] == ["<stdin>"]


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pod.yaml").write_text(POD)
    missing, empty, pod = read([str(tmp_path / "no.yaml"), str(tmp_path / "empty"), str(tmp_path / "pod.yaml")])
    assert str(missing) == f"{tmp_path}/no.yaml: cannot be read: No such file or directory"
    assert str(empty) == f"{tmp_path}/empty: no manifests (.yaml, .yml, .json) in this folder"
    assert isinstance(pod, Manifest)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_SIZE", 10)
    assert list(parse(b" " * 11, "f")) == [Problem("f", 0, "more than 10 bytes")]


def test_progress_adds_up(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}---\n{POD}---\nbroken: [\n")
    told: list[int] = []
    list(read([str(tmp_path)], told.append))
    assert len(told) == 3
    assert sum(told) == sources.size([str(tmp_path)])


PIECES = [
    *(POD.encode(), JSON_POD.encode(), b"---\n", b"...\n", b"%YAML 1.1\n", b"\n", b"{", b"}", b"[", b"- ", b": ", b"'"),
    *(b"&a ", b"*a", b"<<: ", b"? ", b"!!int ", b"|", b"\t", b"\xff", b"\x00", b"\xed\xa0\x80", b"\xc2\x85"),
]


@pytest.mark.parametrize("ends", ["\x85", "\u2028", "\r", "\n", "\r\n"])
def test_lines_are_counted_as_editors_do(ends: str) -> None:
    raw = f"# a{ends}# b{ends}{ends}a: [{ends}".encode()
    [found] = parse(raw, "f")
    assert found.line == raw.count(b"\n") + 1


@given(st.lists(st.sampled_from(PIECES)).map(b"".join))
@example(b"%YAML 1.1\n\xc2\x85\xc2\x85")
def test_whatever_comes_in(raw: bytes) -> None:
    """Nothing is raised, something is said, and where."""
    told = list(parse(raw, "f"))
    assert told
    assert all(1 <= each.line <= raw.count(b"\n") + 2 for each in told)
