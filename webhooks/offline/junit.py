"""Reports in the XML format of JUnit, which CI servers display."""

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree

from webhooks.offline.evaluation import ReportItem, ReviewResult
from webhooks.offline.sources import Problem, format_location

_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(items: Sequence[ReportItem]) -> str:
    """Render a test suite for each file, and a test case for each object: a denial is a failure, a problem an error."""
    root = ElementTree.Element("testsuites", {"name": "webhooks review", **_count_attributes(items)})
    for file, items_of_file in groupby(items, key=_get_file):
        cases = list(items_of_file)
        suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(file), **_count_attributes(cases)})
        for item in cases:
            if isinstance(item, Problem):
                _add_problem(suite, item)
            else:
                _add_result(suite, item)
    ElementTree.indent(root)
    document = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True).decode()
    return f"{document}\n"


def _get_file(item: ReportItem) -> str:
    return item.file if isinstance(item, Problem) else item.manifest.file


def _count_attributes(items: Sequence[ReportItem]) -> dict[str, str]:
    errors = sum(isinstance(item, Problem) for item in items)
    failures = sum(isinstance(item, ReviewResult) and bool(item.denials) for item in items)
    return {"tests": str(len(items)), "failures": str(failures), "errors": str(errors), "time": "0"}


def _add_problem(suite: ElementTree.Element, problem: Problem) -> None:
    case = _add_case(suite, f"line {problem.line}", problem.file, problem.line)
    _add_text(case, "error", str(problem), message=_clean(problem.message), type="unreadable")


def _add_result(suite: ElementTree.Element, result: ReviewResult) -> None:
    file, line = result.manifest.file, result.manifest.line
    case = _add_case(suite, f"{result.kind} {result.name}", file, line)
    denials = list(map(str, result.denials))
    if denials:
        text = "\n".join([format_location(file, line), *denials])
        _add_text(case, "failure", text, message=_clean("; ".join(denials)), type="denied")
    notes = "\n".join(f"{type_}: {message}" for type_, message in result.notes)
    if notes:
        _add_text(case, "system-out", notes)


def _add_case(suite: ElementTree.Element, name: str, file: str, line: int) -> ElementTree.Element:
    attributes = {"name": f"{name} ({format_location(file, line)})", "classname": file}
    cleaned = {key: _clean(value) for key, value in attributes.items()}
    return ElementTree.SubElement(suite, "testcase", {**cleaned, "time": "0"})


def _add_text(case: ElementTree.Element, tag: str, text: str, **attributes: str) -> None:
    ElementTree.SubElement(case, tag, attributes).text = _clean(text)


def _clean(text: str) -> str:
    """Replace the characters that XML does not allow."""
    return _NOT_XML.sub("\ufffd", text)
