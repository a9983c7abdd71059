"""Reports in the format of JUnit."""

from xml.etree import ElementTree

from webhooks.offline.evaluation import Message
from webhooks.offline.junit import render_junit

from ..support.reports import report_items, review_result


def test_the_structure() -> None:
    root = ElementTree.fromstring(render_junit(report_items()).encode())
    assert root.attrib == {"name": "webhooks review", "tests": "4", "failures": "1", "errors": "1", "time": "0"}
    first, second = root
    assert (first.tag, first.get("name"), first.get("tests"), first.get("failures")) == (
        "testsuite",
        "a.yaml",
        "3",
        "1",
    )
    assert (second.get("name"), second.get("errors")) == ("b.yaml", "1")
    assert [(case.get("name"), [child.tag for child in case]) for case in root.iter("testcase")] == [
        ("Pod default/web (a.yaml:1)", ["system-out"]),
        ("Pod default/web (a.yaml:5)", []),
        ("Pod default/web (a.yaml:9)", ["failure"]),
        ("line 3 (b.yaml:3)", ["error"]),
    ]


def test_messages() -> None:
    root = ElementTree.fromstring(render_junit(report_items()).encode())
    [notes] = [element.text for element in root.iter("system-out")]
    assert notes == "warning: owner: deprecated\naudit: audited: no <owner>\nexempt: later: moving"
    [failure], [error] = root.iter("failure"), root.iter("error")
    assert failure.get("message") == "owner: no \ufffd[31mowner; malformed review: x"
    assert failure.text == "a.yaml:9\nowner: no \ufffd[31mowner\nmalformed review: x"
    assert (error.get("message"), error.text) == ("not YAML: x & y", "b.yaml:3: not YAML: x & y")


def test_characters_that_xml_does_not_allow() -> None:
    characters = "\x00\x1b\ud800\ufffe"
    result = review_result(file=f"{characters}.yaml", denials=[Message(characters, f"{characters}<&>\"'\n")])
    root = ElementTree.fromstring(render_junit([result]).encode())
    [failure] = root.iter("failure")
    assert failure.get("message") == "\ufffd\ufffd\ufffd\ufffd: \ufffd\ufffd\ufffd\ufffd<&>\"'\n"
