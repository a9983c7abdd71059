"""Files of cases: their content, errors in them, and the results of cases."""

import textwrap
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError
from webhooks.testing import cases

POLICY = """\
from webhooks import *


@validating("pods", operations=["*"])
def labels(review: AdmissionReview, *, label: str = "owner", most: int = 3) -> Decision:
    if review.user.username == "root" or "ops" in review.groups:
        return Allow(warnings=[f"{review.operation} by root"])
    return Allow() if label in review.labels else Deny(f"no {label}")


@mutating("pods")
def team(review: AdmissionReview, *, most: int = 3) -> Mutation:
    if review.namespace != "shop":
        return Allow()
    return Patch([{"op": "add", "path": "/metadata/labels", "value": {"owner": "shop"}}])
"""

AUTHORIZING = """\
from webhooks import *


@authorizing("pods")
def access(review: AccessReview, *, most: int) -> Opinion:
    return {1: Allow(reason="one"), 2: Deny("two"), 3: NoOpinion(reason="three")}[most]
"""

HEADER = "apiVersion: webhooks.svc.io/v1alpha1\nkind: PolicyCases\ncases:\n"

WEB = "{apiVersion: v1, kind: Pod, metadata: {name: web}}"
OWNED = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: jane}}}"
SHOP = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}"
SHOP_OWNED = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {owner: shop}}}"
PATCH = "[{op: add, path: /metadata/labels, value: {owner: shop}}]"
REVIEW = "{spec: {user: jane, resourceAttributes: {verb: get, resource: pods}}}"


def load(folder: Path, text: str, policy: str = POLICY) -> list[cases.BoundCase]:
    (folder / "labels.py").write_text(policy)
    (folder / "labels_cases.yaml").write_text(text)
    return cases.load_cases(folder / "labels_cases.yaml", folder / "labels.py")


CONFIGURATION = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
policies:
  - use: labels.py:labels
    parameters: {label: team}
    mode: warn
    exemptions: [{namespaces: [old], reason: being moved}]
  - {use: labels.py:labels, name: most, mode: audit}
"""


def load_configuration(folder: Path, text: str, configuration: str = CONFIGURATION) -> list[cases.BoundCase]:
    (folder / "labels.py").write_text(POLICY)
    (folder / "webhooks.yaml").write_text(configuration)
    subfolder = folder / "cases"
    subfolder.mkdir()
    (subfolder / "all.yaml").write_text(text.replace("cases:", "configuration: ../webhooks.yaml\ncases:"))
    return cases.load_cases(subfolder / "all.yaml", None)


def case(*lines: str) -> str:
    return f"{HEADER}  - name: it\n" + textwrap.indent("\n".join(lines), "    ")


PASSING = {
    "allowed": (f"object: {OWNED}", "expect: allowed"),
    "allowed, in full": (f"object: {OWNED}", "expect: {outcome: allowed, warnings: []}"),
    "denied": (f"object: {WEB}", "expect: denied"),
    "denied, in full": (
        f"object: {WEB}",
        "expect: {outcome: denied, message: no own, code: 403, reason: Forbidden, warnings: [], audit: {}}",
    ),
    "patched": (f"object: {SHOP}", "expect: patched"),
    "patched, in full": (f"object: {SHOP}", f"expect: {{outcome: patched, object: {SHOP_OWNED}, patch: {PATCH}}}"),
    "parameters": (
        f"object: {OWNED}",
        "parameters: {label: team, most: 4}",
        "expect: {outcome: denied, message: team}",
    ),
    "parameters in the spelling of configurations": (
        f"object: {OWNED}",
        "parameters: {Label: team, m_ost: 4}",
        "expect: {outcome: denied, message: team}",
    ),
    "on creation": (f"object: {WEB}", "user: root", "expect: {outcome: allowed, warnings: [CREATE by root]}"),
    "on update": (
        f"object: {WEB}",
        f"old: {OWNED}",
        "user: root",
        "expect: {outcome: allowed, warnings: [UPDATE by root]}",
    ),
    "on deletion": (f"old: {WEB}", "groups: [ops]", "expect: {outcome: allowed, warnings: [DELETE by root]}"),
    "on connection": (
        f"object: {WEB}",
        "operation: CONNECT",
        "user: root",
        "expect: {outcome: allowed, warnings: [CONNECT by root]}",
    ),
    "a complete review": (
        "request:",
        "  request:",
        '    uid: "1"',
        "    operation: CREATE",
        '    kind: {group: "", version: v1, kind: Pod}',
        '    resource: {group: "", version: v1, resource: pods}',
        f"    object: {WEB}",
        "expect: denied",
    ),
    "null values are not set": (f"object: {OWNED}", "old: null", "request: null", "expect: allowed"),
}


@pytest.mark.parametrize("lines", PASSING.values(), ids=PASSING)
def test_cases_that_pass(lines: tuple[str, ...], tmp_path: Path) -> None:
    [bound_case] = load(tmp_path, case(*lines))
    bound_case.run()
    assert (bound_case.case.name, bound_case.line, bound_case.file.resolve()) == (
        "it",
        4,
        tmp_path / "labels_cases.yaml",
    )


@pytest.mark.parametrize(
    ("most", "expect"),
    [
        (1, "{outcome: allowed, message: one}"),
        (2, "{outcome: denied, message: two}"),
        (3, "{outcome: no opinion, message: three}"),
    ],
)
def test_other_kinds(most: int, expect: str, tmp_path: Path) -> None:
    lines = (f"request: {REVIEW}", f"parameters: {{most: {most}}}", f"expect: {expect}")
    [bound_case] = load(tmp_path, case(*lines), AUTHORIZING)
    bound_case.run()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((f"object: {WEB}", "expect: allowed"), "-outcome: allowed\n+outcome: denied\n\nactual: denied\n  code: 403"),
        ((f"object: {OWNED}", "expect: denied"), "-outcome: denied\n+outcome: allowed\n\nactual: allowed"),
        ((f"object: {SHOP}", "expect: allowed"), "-outcome: allowed\n+outcome: patched"),
        ((f"object: {OWNED}", "expect: patched"), "-outcome: patched\n+outcome: allowed"),
        ((f"object: {WEB}", "expect: {outcome: denied, message: no name}"), "-message: no name\n+message: no owner\n"),
        ((f"object: {WEB}", "expect: {outcome: denied, code: 422}"), "-code: 422\n+code: 403\n"),
        ((f"object: {WEB}", "expect: {outcome: denied, reason: Invalid}"), "-reason: Invalid\n+reason: Forbidden\n"),
        ((f"object: {OWNED}", "expect: {outcome: allowed, audit: {a: b}}"), "-audit:\n-  a: b\n+audit: {}\n"),
        ((f"object: {WEB}", "user: root", "expect: {outcome: allowed, warnings: []}"), "+- CREATE by root"),
        (
            (f"object: {SHOP}", f"expect: {{outcome: patched, object: {SHOP}}}"),
            "   metadata:\n+    labels:\n+      owner: shop\n     name: web\n",
        ),
        ((f"object: {SHOP}", "expect: {outcome: patched, patch: [{op: remove}]}"), "-- op: remove\n+- op: add\n"),
        ((f"object: {OWNED.replace('Pod', 'Service')}", "expect: denied"), "no policy matched"),
    ],
)
def test_cases_that_fail(lines: tuple[str, ...], message: str, tmp_path: Path) -> None:
    [bound_case] = load(tmp_path, case(*lines))
    with pytest.raises(AssertionError) as raised:
        bound_case.run()
    assert message in str(raised.value)


GOOD = (f"object: {WEB}", "expect: denied")

INVALID = {
    "nothing": ("", ["the file is empty"]),
    "a list": ("- a", ["1:1: Invalid value: a list: must be a mapping"]),
    "no apiVersion and kind": (
        "cases:\n  - {name: a, object: {}, expect: denied}",
        [
            '1:1: apiVersion: Required value: must be "webhooks.svc.io/v1alpha1"',
            '1:1: kind: Required value: must be "PolicyCases"',
        ],
    ),
    "another apiVersion and kind": (
        "apiVersion: webhooks.svc.io/v1\nkind: Pod\ncases: []",
        ['1:13: apiVersion: Unsupported value: "webhooks.svc.io/v1"', "2:7: kind: Unsupported", "3:8: cases: Required"],
    ),
    "unknown fields": (
        case(f"objekt: {WEB}", *GOOD, "expct: denied") + "\ncase: []",
        [
            "5:5: cases[0].objekt: Forbidden: unknown field; did you mean object?",
            "8:5: cases[0].expct: Forbidden: unknown field; did you mean expect?",
            "9:1: case: Forbidden: unknown field; did you mean cases?",
        ],
    ),
    "duplicate keys": (case(*GOOD, "expect: denied"), ["7:5: cases[0].expect: Duplicate value"]),
    "an unknown outcome": (
        case(f"object: {WEB}", "expect: refused"),
        ['6:13: cases[0].expect: Unsupported value: "refused": supported values: "allowed", "denied", "patched"'],
    ),
    "an outcome of another type": (case(f"object: {WEB}", "expect: [denied]"), ["6:13: cases[0].expect: Invalid"]),
    "fields that do not match the outcome": (
        case(f"object: {WEB}", "expect: {outcome: allowed, code: 200, reason: Invalid, patch: [], object: {}}"),
        [
            "cases[0].expect.reason: Forbidden: cannot be combined with the outcome allowed",
            "cases[0].expect.code: Forbidden: cannot be combined with the outcome allowed",
            "cases[0].expect.patch: Forbidden: cannot be combined with the outcome allowed",
            "cases[0].expect.object: Forbidden: cannot be combined with the outcome allowed",
        ],
    ),
    "fields that do not match a denial": (
        case(f"object: {WEB}", "expect: {outcome: denied, object: {}, patch: [], user: {}}"),
        [
            "cases[0].expect.object: Forbidden: cannot be combined with the outcome denied",
            "cases[0].expect.patch: Forbidden: cannot be combined with the outcome denied",
            "cases[0].expect.user: Forbidden: cannot be combined with the outcome denied",
        ],
    ),
    "neither an object nor a request": (
        case("expect: denied"),
        ["4:5: cases[0]: Required value: one of object, old and request"],
    ),
    "a request with other fields": (
        case("request: {}", f"object: {WEB}", "user: jane", "expect: denied"),
        ["4:5: cases[0]: Forbidden: request is a complete review: cannot be combined with object, user"],
    ),
    "a request of an unknown kind": (
        case("request: {kind: Pod}", "expect: denied"),
        ['5:21: cases[0].request.kind: Unsupported value: "Pod": supported values: "AdmissionReview", '],
    ),
    "duplicate names": (
        f"{HEADER}  - {{name: it, object: {WEB}, expect: denied}}\n  - {{name: it, object: {WEB}, expect: denied}}",
        ['5:12: cases[1].name: Duplicate value: "it"'],
    ),
    "parameters": (
        case(*GOOD, "parameters: {labels: a, most: many}"),
        [
            "7:18: cases[0].parameters.labels: Forbidden: no policy has this parameter",
            "7:35: cases[0].parameters.most: Invalid value: \"many\": policy 'labels': must be an integer",
        ],
    ),
    "a configuration of another type": (
        HEADER.replace("cases", "configuration: [webhooks.yaml]\ncases") + "  []",
        ["3:16: configuration: Invalid value: a list: must be a string", "5:3: cases: Required value"],
    ),
    "a missing configuration": (
        case(*GOOD).replace("cases", "configuration: webhooks.yml\ncases", 1),
        ['3:16: configuration: Invalid value: "webhooks.yml": no such file'],
    ),
}


@pytest.mark.parametrize(("text", "messages"), INVALID.values(), ids=INVALID)
def test_errors_have_locations(text: str, messages: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, text)
    lines = str(raised.value).splitlines()
    assert all(line.partition(":")[0].endswith("labels_cases.yaml") for line in lines)
    for message in messages:
        assert any(message in line for line in lines), f"{message} in\n{raised.value}"


def test_required_parameters(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"4:5: cases\[0\]: Required value: policy 'access': required parameter 'most'"
    ):
        load(tmp_path, case(f"request: {REVIEW}", "expect: denied"), AUTHORIZING)


def test_an_invalid_parameter_is_not_also_missing(tmp_path: Path) -> None:
    text = case(f"request: {REVIEW}", "parameters: {most: many}", "expect: denied")
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, text, AUTHORIZING)
    assert len(str(raised.value).splitlines()) == 1


def test_requests_without_a_kind(tmp_path: Path) -> None:
    both = POLICY + AUTHORIZING.replace("most: int", "most: int = 2")
    text = case(f"request: {REVIEW}", "expect: denied")
    with pytest.raises(ConfigurationError, match=r"request\.kind: Required value: one of AdmissionReview, SubjectAcc"):
        load(tmp_path, text, both)
    [bound_case] = load(tmp_path, text.replace("{spec", "{kind: SubjectAccessReview, spec"), both)
    bound_case.run()


def test_a_policy_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"labels\.py:1: ZeroDivisionError"):
        load(tmp_path, case(*GOOD), "1 / 0")


@pytest.mark.parametrize(
    "lines",
    [
        (
            f"object: {WEB}",
            "expect: {outcome: allowed, warnings: ['labels: no team'], audit: {most.denied: no owner}}",
        ),
        (f"object: {OWNED}", "expect: {outcome: allowed, warnings: ['labels: no team'], audit: {}}"),
        (f"object: {OWNED}", "parameters: {label: owner}", "expect: {outcome: allowed, warnings: [], audit: {}}"),
        (
            f"object: {OWNED.replace('name: web', 'name: web, namespace: old')}",
            "expect: {outcome: allowed, warnings: [], audit: {labels.exempted: being moved}}",
        ),
        (f"request: {{request: {{uid: '1', operation: CREATE, object: {OWNED}}}}}", "expect: denied"),
    ],
)
def test_cases_of_a_configuration(lines: tuple[str, ...], tmp_path: Path) -> None:
    [bound_case] = load_configuration(tmp_path, case(*lines))
    bound_case.run()


def test_a_case_that_ignores_the_mode(tmp_path: Path) -> None:
    [bound_case] = load_configuration(tmp_path, case(f"object: {WEB}", "expect: denied"))
    with pytest.raises(AssertionError, match=r"-outcome: denied\n\+outcome: allowed\n\nactual: allowed\n  warnings:"):
        bound_case.run()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            CONFIGURATION.replace("mode: warn", "mode: warned"),
            r"webhooks.yaml:6:11: policies\[0\].mode: Unsupported value",
        ),
        (CONFIGURATION.replace("label:", "lable:"), r"webhooks.yaml:5:18: .*lable: Forbidden: .*did you mean label\?"),
        (
            CONFIGURATION.partition("policies:")[0],
            r'all.yaml:3:16: configuration: Invalid value: ".*": contains no policies',
        ),
        (CONFIGURATION.replace("labels.py:labels", "other.py"), r"webhooks.yaml:4:10: .*other.py: no such file"),
    ],
)
def test_invalid_configurations(configuration: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_configuration(tmp_path, case(*GOOD), configuration)


def test_cases_without_policies(tmp_path: Path) -> None:
    (tmp_path / "some_cases.yaml").write_text(case(*GOOD))
    with pytest.raises(
        ConfigurationError, match=r"1:1: configuration: Required value: there is no policy file of that name"
    ):
        cases.load_cases(tmp_path / "some_cases.yaml", None)


def test_parameters_of_isolated_policies(tmp_path: Path) -> None:
    policy = POLICY.replace('operations=["*"]', 'operations=["*"], isolation=True')
    lines = (f"object: {OWNED}", "parameters: {label: team}", "expect: {outcome: denied, message: no team}")
    [bound_case] = load(tmp_path, case(*lines), policy)
    bound_case.run()
