"""Manifests out of files, folders and standard input: what can be read is, whatever stands before it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from webhooks.kube.yaml_reader import Tree, Unreadable
from webhooks.objects.strict_json import first_duplicate

STDIN = "-"
MAX_SIZE = 256 * 1024 * 1024  # bytes of one file
_SUFFIXES = (".yaml", ".yml", ".json")

# What ends a document, at the beginning of a line, whatever is broken before it.
_END = re.compile(rb"^(?:---(?=[ \t\r\n]|\Z)|\.\.\.[ \t\r]*(?:\n|\Z))", re.MULTILINE)
_YAML_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_PROLOGUE = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n|%[^\n]*\n)*")
_JSON = re.compile(r'(?:---[ \t]*(?:#[^\n]*)?\r?\n)?\s*(?=\{\s*["}])')
_NEXT_JSON = re.compile(r"^\{", re.MULTILINE)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A document.

    Attributes:
        file: where it stands; ``<stdin>`` for standard input.
        line: the line there on which it begins.
        tree: its value, an object.
    """

    file: str
    line: int
    tree: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read or reviewed, and why.

    Attributes:
        line: 0 where no line is to blame.
    """

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{place(self.file, self.line)}: {self.what}"


Found: TypeAlias = Manifest | Problem


def place(file: str, line: int) -> str:
    """A place, as people and editors read it."""
    return f"{file}:{line}" if line else file


def size(sources: Iterable[str]) -> int:
    """The bytes that there are to read, of files whose size can be told."""
    return sum(os.path.getsize(file) for source in sources for file in _files(source) if os.path.isfile(file))


def read(sources: Iterable[str], advance: Callable[[int], object] = lambda _: None) -> Iterator[Found]:
    """Read manifests, in order; those in a list each for itself.

    Args:
        sources: files, folders with all that is in them, and ``-`` for standard input.
        advance: told of each document how many bytes it took.
    """
    for source in sources:
        files = _files(source)
        if not files:
            yield Problem(source, 0, f"no manifests ({', '.join(_SUFFIXES)}) in this folder")
        for file in files:
            try:
                raw = _raw(file)
            except (OSError, ValueError) as error:
                reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
                yield Problem(file, 0, f"cannot be read: {reason}")
            else:
                yield from parse(raw, "<stdin>" if file == STDIN else file, advance)


def parse(raw: bytes, file: str, advance: Callable[[int], object] = lambda _: None) -> Iterator[Found]:
    """Read what was in a file; see `read`."""
    if len(raw) > MAX_SIZE:
        yield Problem(file, 0, f"more than {MAX_SIZE} bytes")
        return
    line, empty = 1, True
    for chunk in _chunks(raw.removeprefix(b"\xef\xbb\xbf")):
        for found in _documents(chunk, file, line):
            empty = False
            yield found
        line += chunk.count(b"\n")
        advance(len(chunk))
    if empty:
        yield Problem(file, 1, "there is nothing in it")


def _files(source: str) -> list[str]:
    if source == STDIN or not os.path.isdir(source):
        return [source]
    found = []
    for folder, inside, files in os.walk(source):
        inside[:] = sorted(each for each in inside if not each.startswith("."))
        paths = (os.path.join(folder, each) for each in sorted(files) if not each.startswith("."))
        found += [path for path in paths if path.endswith(_SUFFIXES) and os.path.isfile(path)]
    return found


def _raw(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_SIZE + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MAX_SIZE + 1)


def _chunks(raw: bytes) -> Iterator[bytes]:
    start = 0
    for end in _END.finditer(raw):
        cut = end.start() if end[0] == b"---" else end.end()
        if end[0] == b"---" and _PROLOGUE.fullmatch(raw, start, cut):
            continue  # comments and directives belong to what follows
        yield raw[start:cut]
        start = cut
    yield raw[start:]


def _documents(chunk: bytes, file: str, line: int) -> Iterator[Found]:
    try:
        text = chunk.decode()
    except UnicodeDecodeError as error:
        what = f"binary, or not UTF-8: the byte 0x{chunk[error.start]:02x}"
        yield Problem(file, line + chunk.count(b"\n", 0, error.start), what)
        return
    json_begins = _JSON.match(text)
    if json_begins:
        yield from _json_documents(text, json_begins.end(), file, line)
        return
    try:
        tree = Tree(text)
    except Unreadable as unreadable:
        yield Problem(file, line + _counted(text, unreadable.line), unreadable.what)
    else:
        if tree.value is not None:
            lines = [line + _counted(text, each) for each in tree.lines_of("items")]
            yield from _expanded(tree.value, file, line + _counted(text, tree.line), lines)


def _counted(text: str, line: int) -> int:
    """A line of YAML as editors count it, to which fewer characters end a line."""
    if not _YAML_BREAK.search(text):
        return line
    begins = [0, *(each.end() for each in _BREAK.finditer(text))]
    return text.count("\n", 0, begins[min(line, len(begins) - 1)])


def _json_documents(text: str, start: int, file: str, line: int) -> Iterator[Found]:
    """JSON documents, one after another."""
    here, counted = line, 0
    while start < len(text):
        here, counted = here + text.count("\n", counted, start), start
        try:
            tree, start = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            yield _json_problem(error, file, here, counted)
            following = _NEXT_JSON.search(text, start + 1)
            start = following.start() if following else len(text)
        else:
            yield from _expanded(tree, file, here, [])
        start = _SPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere


def _json_problem(error: Exception, file: str, line: int, start: int) -> Problem:
    if isinstance(error, json.JSONDecodeError):
        return Problem(file, line + error.doc.count("\n", start, error.pos), f"not JSON: {error.msg}")
    return Problem(file, line, "nested too deep" if isinstance(error, RecursionError) else str(error))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"the key {first_duplicate(pairs)[:64]!r} is there twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _expanded(tree: Any, file: str, line: int, lines: list[int]) -> Iterator[Found]:
    """A document, or of a list those in it."""
    if not isinstance(tree, dict):
        yield Problem(file, line, f"not an object but {_TYPES.get(type(tree), 'a number')}")
        return
    problem = _misshapen(tree)
    if problem:
        yield Problem(file, line, problem)
        return
    kind, items = tree["kind"], tree.get("items")
    if not kind.endswith("List") or not isinstance(items, list):
        yield Manifest(file, line, tree)
        return
    for number, item in enumerate(items):
        where = lines[number] if number < len(lines) else line
        if kind != "List" and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": tree["apiVersion"], "kind": kind.removesuffix("List"), **item}
        yield from _expanded(item, file, where, [])


_TYPES = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}


def _misshapen(tree: dict[str, Any]) -> str:
    """What is wrong with the fields that tell what an object is."""
    for field in ("apiVersion", "kind"):
        if field not in tree:
            return f"an object without {field}"
        if not isinstance(tree[field], str) or not tree[field]:
            return f"{field} is not a text"
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict | None):
        return "metadata is not an object"
    for field in ("name", "namespace", "generateName"):
        if not isinstance((metadata or {}).get(field), str | None):
            return f"metadata.{field} is not a text"
    return ""
