"""Manifests in files: valid ones are read, invalid ones are reported with their location."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhooks.offline import sources
from webhooks.offline.sources import Manifest, Problem, parse_manifests, read_manifests, total_size

POD = "apiVersion: v1\nkind: Pod\n"
JSON_POD = '{"apiVersion": "v1", "kind": "Pod"}'
NO_TOKEN = "not YAML: while scanning for the next token: found character that cannot start any token"
NO_QUOTE = "not YAML: while scanning a quoted scalar: found unexpected end of stream"
LIST = '{"apiVersion": "v1", "kind": "List", "items": [...]}'
EMPTY = "! the file is empty"


def parse(text: str | bytes) -> list[tuple[int, str]]:
    """Return the line and the kind of each document; "!" and the message for a problem."""
    content = text if isinstance(text, bytes) else text.encode()
    return [
        (item.line, item.tree["kind"] if isinstance(item, Manifest) else f"! {item.message}")
        for item in parse_manifests(content, "f")
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
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- {apiVersion: v1, kind: Node}\n",
            [(4, "Pod"), (6, "Node")],
        ),
        ("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {}\n", [(4, "Pod")]),
        ("apiVersion: v1\nkind: List\nitems: []\n", [(1, EMPTY)]),
        ("apiVersion: v1\nkind: List\nitems:\n- 1\n", [(4, "! must be an object, not a number")]),
        (LIST.replace("...", LIST.replace("...", JSON_POD)), [(1, "Pod")]),
        ("apiVersion: v1\nkind: AllowList\nspec: {}\n", [(1, "AllowList")]),
    ],
)
def test_lists(text: str, expected: Any) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, EMPTY)]),
        ("\n# only a comment\n---\n", [(1, EMPTY)]),
        (f"{POD}---\n@\n---\n{POD}", [(1, "Pod"), (4, f"! {NO_TOKEN}"), (6, "Pod")]),
        (f"{POD}---\n\n'\n---\n{POD}", [(1, "Pod"), (6, f"! {NO_QUOTE}"), (7, "Pod")]),
        (f"{{{{ if .Values.pod }}}}\n---\n{POD}", [(1, "! a key must be a string"), (3, "Pod")]),
        (f"{POD}kind: Job\n---\n{POD}", [(3, "! duplicate key 'kind'"), (5, "Pod")]),
        (f"kind: Pod\n---\n{POD}", [(1, "! an object without apiVersion"), (3, "Pod")]),
        (f"apiVersion: v1\n---\n{POD}", [(1, "! an object without kind"), (3, "Pod")]),
        ("kind: 1\napiVersion: v1", [(1, "! kind: must be a string that is not empty")]),
        ("kind: ''\napiVersion: v1", [(1, "! kind: must be a string that is not empty")]),
        (f"{POD}metadata: []", [(1, "! metadata: must be an object")]),
        (f"{POD}metadata: {{name: 5}}", [(1, "! metadata.name: must be a string")]),
        ("- 1", [(1, "! must be an object, not a list")]),
        ("hello", [(1, "! must be an object, not a string")]),
        (b"\x7fELF\x00\x80", [(1, "! binary, or not UTF-8: the byte 0x80")]),
        (b"a\x00b", [(1, "! not text: control characters are not allowed")]),
        (b"---\na: \xff\n---\n" + POD.encode(), [(2, "! binary, or not UTF-8: the byte 0xff"), (4, "Pod")]),
        (f'{JSON_POD}\n{{"a":\n,}}\n{JSON_POD}\n', [(1, "Pod"), (3, "! not JSON: Expecting value"), (4, "Pod")]),
        ('{"kind": "Pod", "kind": "Job"}', [(1, "! duplicate key 'kind'")]),
        ('{"a": NaN}', [(1, "! NaN is not a JSON value")]),
        ('{"a": ' * 100_000, [(1, "! nested too deeply")]),
    ],
)
def test_invalid_documents(text: str | bytes, expected: Any) -> None:
    assert parse(text) == expected


def test_folders(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".hidden.yaml", "sub/e.yaml", ".git/f.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(JSON_POD)
    names = [Path(manifest.file).name for manifest in read_manifests([str(tmp_path)])]
    assert names == ["a.yml", "b.yaml", "c.json", "e.yaml"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert [manifest.file for manifest in read_manifests(["-"])] == ["<stdin>"]


def test_missing_files_do_not_hide_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pod.yaml").write_text(POD)
    names = ("no.yaml", "empty", "pod.yaml")
    missing, empty, pod = read_manifests([str(tmp_path / name) for name in names])
    assert str(missing) == f"{tmp_path}/no.yaml: cannot be read: No such file or directory"
    assert str(empty) == f"{tmp_path}/empty: this folder contains no manifests (.yaml, .yml, .json)"
    assert isinstance(pod, Manifest)


def test_a_file_may_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_SIZE", 10)
    assert list(parse_manifests(b" " * 11, "f")) == [Problem("f", 0, "larger than 10 bytes")]


def test_progress_adds_up_to_the_size(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}---\n{POD}---\nbroken: [\n")
    sizes: list[int] = []
    list(read_manifests([str(tmp_path)], sizes.append))
    assert len(sizes) == 3
    assert sum(sizes) == total_size([str(tmp_path)])


PIECES = [
    *(POD.encode(), JSON_POD.encode(), b"---\n", b"...\n", b"%YAML 1.1\n", b"\n", b"{", b"}", b"[", b"- ", b": ", b"'"),
    *(b"&a ", b"*a", b"<<: ", b"? ", b"!!int ", b"|", b"\t", b"\xff", b"\x00", b"\xed\xa0\x80", b"\xc2\x85"),
]


@pytest.mark.parametrize("line_break", ["\x85", "\u2028", "\r", "\n", "\r\n"])
def test_lines_are_counted_as_in_editors(line_break: str) -> None:
    content = f"# a{line_break}# b{line_break}{line_break}a: [{line_break}".encode()
    [problem] = parse_manifests(content, "f")
    assert problem.line == content.count(b"\n") + 1


@given(st.lists(st.sampled_from(PIECES)).map(b"".join))
@example(b"%YAML 1.1\n\xc2\x85\xc2\x85")
def test_any_content_gives_results_with_lines(content: bytes) -> None:
    items = list(parse_manifests(content, "f"))
    assert items
    assert all(1 <= item.line <= content.count(b"\n") + 2 for item in items)
