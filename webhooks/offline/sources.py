"""Reads manifests from files, folders and standard input. A document that is invalid does not hide the others."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from webhooks.errors import reason_for
from webhooks.kube.yaml_reader import YamlDocument, YamlError
from webhooks.objects.strict_json import first_duplicate

STDIN = "-"
MAX_FILE_SIZE = 256 * 1024 * 1024  # bytes
_SUFFIXES = (".yaml", ".yml", ".json")

# The end of a document, at the start of a line, even if the document before it is invalid.
_DOCUMENT_END = re.compile(rb"^(?:---(?=[ \t\r\n]|\Z)|\.\.\.[ \t\r]*(?:\n|\Z))", re.MULTILINE)
_PROLOGUE = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n|%[^\n]*\n)*")
# Line breaks that YAML 1.1 counts and editors do not, and all line breaks of YAML 1.1.
_YAML_ONLY_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
_YAML_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_JSON_START = re.compile(r'(?:---[ \t]*(?:#[^\n]*)?\r?\n)?\s*(?=\{\s*["}])')
_NEXT_JSON = re.compile(r"^\{", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_TYPE_NAMES = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A document that is an object.

    Attributes:
        file: the path of the file; ``<stdin>`` for standard input.
        line: the first line of the document.
        tree: the object.
    """

    file: str
    line: int
    tree: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or document that cannot be read or reviewed.

    Attributes:
        file: the path of the file; ``<stdin>`` for standard input.
        line: the line; 0 if the problem concerns the whole file.
        message: the problem.
    """

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{format_location(self.file, self.line)}: {self.message}"


def format_location(file: str, line: int) -> str:
    """Format a location as ``file:line``; without the line if it is 0."""
    return f"{file}:{line}" if line else file


def total_size(sources: Iterable[str]) -> int:
    """Return the size of all regular files in bytes."""
    return sum(os.path.getsize(file) for source in sources for file in _list_files(source) if os.path.isfile(file))


def read_manifests(
    sources: Iterable[str], on_progress: Callable[[int], object] = lambda _: None
) -> Iterator[Manifest | Problem]:
    """Read manifests in order. The items of a list are manifests of their own.

    Args:
        sources: files, folders (with all files below them), and ``-`` for standard input.
        on_progress: called with the size of each document in bytes.
    """
    for source in sources:
        files = _list_files(source)
        if not files:
            yield Problem(source, 0, f"this folder contains no manifests ({', '.join(_SUFFIXES)})")
        for file in files:
            try:
                content = _read_bytes(file)
            except (OSError, ValueError) as error:
                yield Problem(file, 0, f"cannot be read: {reason_for(error)}")
            else:
                yield from parse_manifests(content, "<stdin>" if file == STDIN else file, on_progress)


def parse_manifests(
    content: bytes, file: str, on_progress: Callable[[int], object] = lambda _: None
) -> Iterator[Manifest | Problem]:
    """Parse the content of a file. See `read_manifests`."""
    if len(content) > MAX_FILE_SIZE:
        yield Problem(file, 0, f"larger than {MAX_FILE_SIZE} bytes")
        return
    line, is_empty = 1, True
    for chunk in _split_documents(content.removeprefix(b"\xef\xbb\xbf")):
        for item in _parse_chunk(chunk, file, line):
            is_empty = False
            yield item
        line += chunk.count(b"\n")
        on_progress(len(chunk))
    if is_empty:
        yield Problem(file, 1, "the file is empty")


def _list_files(source: str) -> list[str]:
    """Return the manifests in a folder, sorted, without hidden ones; or the source itself if it is not a folder."""
    if source == STDIN or not os.path.isdir(source):
        return [source]
    paths = []
    for folder, subfolders, files in os.walk(source):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        visible = (os.path.join(folder, name) for name in sorted(files) if not name.startswith("."))
        paths += [path for path in visible if path.endswith(_SUFFIXES) and os.path.isfile(path)]
    return paths


def _read_bytes(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_FILE_SIZE + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MAX_FILE_SIZE + 1)


def _split_documents(content: bytes) -> Iterator[bytes]:
    start = 0
    for match in _DOCUMENT_END.finditer(content):
        is_separator = match[0] == b"---"
        end = match.start() if is_separator else match.end()
        if is_separator and _PROLOGUE.fullmatch(content, start, end):
            continue  # comments and directives belong to the next document
        yield content[start:end]
        start = end
    yield content[start:]


def _parse_chunk(chunk: bytes, file: str, line: int) -> Iterator[Manifest | Problem]:
    """Parse a YAML document, or several JSON documents."""
    try:
        text = chunk.decode()
    except UnicodeDecodeError as error:
        message = f"binary, or not UTF-8: the byte 0x{chunk[error.start]:02x}"
        yield Problem(file, line + chunk.count(b"\n", 0, error.start), message)
        return
    json_start = _JSON_START.match(text)
    if json_start:
        yield from _parse_json(text, json_start.end(), file, line)
        return
    try:
        tree = YamlDocument(text)
    except YamlError as error:
        yield Problem(file, line + _editor_line(text, error.line), error.reason)
    else:
        if tree.value is not None:
            item_lines = [line + _editor_line(text, item) for item in tree.item_lines("items")]
            yield from _expand_list(tree.value, file, line + _editor_line(text, tree.line), item_lines)


def _editor_line(text: str, yaml_line: int) -> int:
    """Convert a line number of YAML 1.1 to that of editors, which know fewer line breaks."""
    if not _YAML_ONLY_BREAK.search(text):
        return yaml_line
    starts = [0, *(match.end() for match in _YAML_BREAK.finditer(text))]
    return text.count("\n", 0, starts[min(yaml_line, len(starts) - 1)])


def _parse_json(text: str, start: int, file: str, line: int) -> Iterator[Manifest | Problem]:
    """Parse JSON documents that follow each other."""
    current_line, counted = line, 0
    while start < len(text):
        current_line, counted = current_line + text.count("\n", counted, start), start
        try:
            tree, start = _json_decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            yield _json_problem(error, file, current_line, counted)
            next_document = _NEXT_JSON.search(text, start + 1)
            start = next_document.start() if next_document else len(text)
        else:
            yield from _expand_list(tree, file, current_line, [])
        start = _SPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere


def _json_problem(error: Exception, file: str, line: int, start: int) -> Problem:
    if isinstance(error, json.JSONDecodeError):
        return Problem(file, line + error.doc.count("\n", start, error.pos), f"not JSON: {error.msg}")
    return Problem(file, line, "nested too deeply" if isinstance(error, RecursionError) else str(error))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"duplicate key {first_duplicate(pairs)[:64]!r}")
    return members


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_json_decoder = json.JSONDecoder(object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)


def _expand_list(tree: Any, file: str, line: int, item_lines: list[int]) -> Iterator[Manifest | Problem]:
    """Yield a document, or the items of a document that is a list."""
    if not isinstance(tree, dict):
        yield Problem(file, line, f"must be an object, not {_TYPE_NAMES.get(type(tree), 'a number')}")
        return
    error = _find_type_error(tree)
    if error:
        yield Problem(file, line, error)
        return
    kind, items = tree["kind"], tree.get("items")
    if not kind.endswith("List") or not isinstance(items, list):
        yield Manifest(file, line, tree)
        return
    for number, item in enumerate(items):
        item_line = item_lines[number] if number < len(item_lines) else line
        if kind != "List" and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": tree["apiVersion"], "kind": kind.removesuffix("List"), **item}
        yield from _expand_list(item, file, item_line, [])


def _find_type_error(tree: dict[str, Any]) -> str:
    """Describe the first error in the fields that identify an object; empty if they are valid."""
    for field in ("apiVersion", "kind"):
        if field not in tree:
            return f"an object without {field}"
        if not isinstance(tree[field], str) or not tree[field]:
            return f"{field}: must be a string that is not empty"
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict | None):
        return "metadata: must be an object"
    for field in ("name", "namespace", "generateName"):
        if not isinstance((metadata or {}).get(field), str | None):
            return f"metadata.{field}: must be a string"
    return ""
