"""The table for people."""

from webhooks.offline.evaluation import Message
from webhooks.offline.table import render_table

from ..support.reports import report_items, review_result


def plain(text: str, *, fg: str | None = None, bold: bool | None = None) -> str:
    return text


def tagged(text: str, *, fg: str | None = None, bold: bool | None = None) -> str:
    return f"<{fg or 'bold'}>{text}</>"


def test_rows_and_diffs() -> None:
    assert render_table(report_items(), plain).splitlines() == [
        "PLACE     KIND  NAME         VERDICT  POLICY   REASON",
        "a.yaml:1  Pod   default/web  allowed",
        "                             warning  owner    deprecated",
        "                             audit    audited  no <owner>",
        "                             exempt   later    moving",
        "a.yaml:5  Pod   default/web  changed  team",
        "    @@ -3,4 +3,6 @@",
        "     metadata:",
        "       name: web",
        "    +  labels:",
        "    +    team: a",
        "     spec:",
        "       containers:",
        "a.yaml:9  Pod   default/web  denied   owner    no \\x1b[31mowner",
        "                             denied   -        malformed review: x",
        "3 reviewed: 1 allowed, 1 changed, 1 denied, 1 could not be read",
    ]


def test_verdicts_and_changes_are_styled() -> None:
    lines = render_table(report_items(), tagged).splitlines()
    assert lines[0].startswith("<bold>PLACE ")
    assert "<green>allowed</>" in lines[1]
    assert "    <green>+  labels:</>" in lines
    assert "<red>denied </>  owner    no \\x1b[31mowner" in lines[-3]


def test_an_object_that_no_policy_matches() -> None:
    [_, row, _] = render_table([review_result(policies=[])], plain).splitlines()
    assert row.endswith("allowed          no policy matches it")
    exempt = review_result(policies=[], exemptions=[Message("owner", "moving")])
    [_, row, *_] = render_table([exempt], plain).splitlines()
    assert row.endswith("allowed")
