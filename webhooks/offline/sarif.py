"""The formats that other tools take: JUnit's XML, which CI servers show, and SARIF 2.1.0, which code hosts show."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from webhooks._version import __version__
from webhooks.offline.evaluation import Message, ReviewResult
from webhooks.offline.sources import Problem, place

_Outcomes = Sequence[ReviewResult | Problem]

_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def junit(found: _Outcomes) -> str:
    """A suite for each file, a case for each object: denials are failures, what could not be read is an error."""
    suites = [(file, list(cases)) for file, cases in groupby(found, key=_file)]
    text = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="webhooks review" {_numbers(found)}>']
    for file, cases in suites:
        text.append(f"  <testsuite name={_attribute(file)} {_numbers(cases)}>")
        for each in cases:
            text += _case(each)
        text.append("  </testsuite>")
    return "\n".join([*text, "</testsuites>", ""])


def _file(of: ReviewResult | Problem) -> str:
    return of.file if isinstance(of, Problem) else of.manifest.file


def _numbers(cases: _Outcomes) -> str:
    errors = sum(isinstance(each, Problem) for each in cases)
    failures = sum(isinstance(each, ReviewResult) and bool(each.denials) for each in cases)
    return f'tests="{len(cases)}" failures="{failures}" errors="{errors}" time="0"'


def _case(of: ReviewResult | Problem) -> list[str]:
    if isinstance(of, Problem):
        inside = [f'      <error message={_attribute(of.what)} type="unreadable">{_content(str(of))}</error>']
        name, file, line = f"line {of.line}", of.file, of.line
    else:
        inside = [*_failure(of), *_output(of)]
        name, file, line = f"{of.kind} {of.name}", of.manifest.file, of.manifest.line
    head = f'    <testcase name={_attribute(f"{name} ({place(file, line)})")} classname={_attribute(file)} time="0"'
    return [f"{head}>", *inside, "    </testcase>"] if inside else [f"{head}/>"]


def _failure(of: ReviewResult) -> list[str]:
    if not of.denials:
        return []
    head = f'      <failure message={_attribute("; ".join(map(str, of.denials)))} type="denied">'
    where = place(of.manifest.file, of.manifest.line)
    return [head + _content("\n".join([where, *map(str, of.denials)])) + "</failure>"]


def _output(of: ReviewResult) -> list[str]:
    text = "\n".join(f"{word}: {each}" for word, each in of.asides)
    return [f"      <system-out>{_content(text)}</system-out>"] if text else []


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", text))


def _content(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))


def sarif(found: _Outcomes) -> str:
    """A result for all that policies and operators said, a notification for each file that could not be read."""
    remarks = [
        (each, word, remark)
        for each in found
        if isinstance(each, ReviewResult)
        for word, remark in [*(("denied", denial) for denial in each.denials), *each.asides]
    ]
    rules = sorted({remark.policy for _, _, remark in remarks if remark.policy})
    problems = [each for each in found if isinstance(each, Problem)]
    run = {
        "tool": {"driver": {"name": "webhooks", "version": __version__, "rules": [{"id": rule} for rule in rules]}},
        "invocations": [
            {
                "executionSuccessful": not problems,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": each.what}, "locations": [_location(each.file, each.line)]}
                    for each in problems
                ],
            }
        ],
        "results": [_result(each, word, remark, rules) for each, word, remark in remarks],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


_LEVELS: Mapping[str, Mapping[str, str]] = {
    "denied": {"level": "error"},
    "warning": {"level": "warning"},
    "audit": {"level": "note"},
    "exempt": {"level": "none", "kind": "notApplicable"},
}


def _result(of: ReviewResult, word: str, remark: Message, rules: Sequence[str]) -> Mapping[str, Any]:
    location = _location(of.manifest.file, of.manifest.line)
    location["logicalLocations"] = [{"fullyQualifiedName": f"{of.kind} {of.name}", "kind": "resource"}]
    rule = {"ruleId": remark.policy, "ruleIndex": rules.index(remark.policy)} if remark.policy else {}
    message = {"text": f"{of.kind} {of.name}: {remark.text}"}
    return {**rule, **_LEVELS[word], "message": message, "locations": [location]}


def _location(file: str, line: int) -> dict[str, Any]:
    region = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": {"uri": quote(file)}, **region}}
