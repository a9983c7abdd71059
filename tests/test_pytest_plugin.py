"""The pytest plugin, as it is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from .support.servers import SECONDS

pytest_plugins = ["pytester"]

POLICY = """
from webhooks import AdmissionReview, Allow, Decision, Deny, validating


@validating("pods")
def labels(review: AdmissionReview) -> Decision:
    return Allow() if "owner" in review.labels else Deny("no owner")
"""

CASES = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: PolicyCases
cases:
  - name: with an owner
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: jane}}}
    expect: allowed
  - name: without one
    object: {apiVersion: v1, kind: Pod, metadata: {name: web}}
    expect: {outcome: denied, message: no owner}
"""

TEST = """
from webhooks.testing import admission, assert_denied, pod

def test_labels(server):
    assert_denied(server("labels.py").review(admission("CREATE", pod())), "no owner")
    assert_denied(server("labels.py", "library:required_labels").review(admission("CREATE", pod())), "is missing")
"""


def write_files(pytester: pytest.Pytester, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = pytester.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_the_fixture(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"subfolder/labels.py": POLICY, "subfolder/test_labels.py": TEST})
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_project_has_its_own_server(pytester: pytest.Pytester) -> None:
    own = "import pytest\n@pytest.fixture\ndef server(): return 'own'"
    write_files(pytester, {"conftest.py": own, "test_it.py": "def test_it(server): assert server == 'own'"})
    pytester.runpytest().assert_outcomes(passed=1)


CONFIGURATION = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
policies:
  - {use: labels.py, mode: warn}
"""


def test_the_fixture_takes_a_configuration(pytester: pytest.Pytester) -> None:
    test = TEST.replace('"labels.py").review', '"webhooks.yaml").review').replace("labels.py", "webhooks.yaml")
    write_files(
        pytester,
        {"subfolder/labels.py": POLICY, "subfolder/webhooks.yaml": CONFIGURATION, "subfolder/test_labels.py": test},
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*expected: denied", "*actual: allowed", "*- labels: no owner"])


def test_a_missing_file_is_shown_without_the_frames_of_this_package(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"test_it.py": "def test_it(server):\n    server('lables.py')\n"})
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*LoadError: *lables.py: no such file or folder*"])
    assert "loader.py" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_an_exception_of_a_policy_file_is_shown(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"test_it.py": "def test_it(server):\n    server('labels.py')\n", "labels.py": "1 / 0"})
    pytester.runpytest().stdout.fnmatch_lines(["*labels.py:1: ZeroDivisionError*"])


def test_cases_of_a_configuration_need_no_policy_file(pytester: pytest.Pytester) -> None:
    cases = CASES.replace("cases:", "configuration: policies/webhooks.yaml\ncases:")
    warned = cases.replace("{outcome: denied, message: no owner}", "{outcome: allowed, warnings: ['labels: no owner']}")
    write_files(
        pytester, {"policies/labels.py": POLICY, "policies/webhooks.yaml": CONFIGURATION, "all_cases.yaml": warned}
    )
    pytester.runpytest().assert_outcomes(passed=2)


@pytest.mark.parametrize("path", ["labels_cases.yaml", "cases/labels.yaml"])
def test_cases_are_tests(path: str, pytester: pytest.Pytester) -> None:
    write_files(pytester, {"labels.py": POLICY, path: CASES})
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{path}::with an owner PASSED*", f"{path}::without one PASSED*"])
    pytester.runpytest(f"{path}::without one").assert_outcomes(passed=1)
    pytester.runpytest("-k", "with and not without").assert_outcomes(passed=1, deselected=1)


def test_a_failed_case_shows_its_location(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"labels.py": POLICY, "labels_cases.yaml": CASES.replace("no owner", "no name")})
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["labels_cases.yaml:7: without one", "-message: no name", "+message: no owner"])
    assert "Traceback" not in result.stdout.str()


def test_a_policy_that_raises_shows_its_error(pytester: pytest.Pytester) -> None:
    policy = POLICY.replace("return Allow()", "return review.object['spec'] and Allow()")
    write_files(pytester, {"labels.py": policy, "labels_cases.yaml": CASES})
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["*labels: raised KeyError: 'spec'", "*labels.py*line 7*"])


def test_an_invalid_file(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"labels.py": POLICY, "labels_cases.yaml": CASES.replace("object", "objekt")})
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "labels_cases.yaml:5:5: cases*.objekt: Forbidden: unknown field; did you mean object?",
            "labels_cases.yaml:8:5: *",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"labels_cases.yaml": CASES},
            "labels_cases.yaml:1:1: *there is no policy file of that name in this folder or its parent*",
        ),
        ({"labels_cases.yaml": "cases: []", "labels.py": POLICY}, "*apiVersion: Required value*"),
        ({"labels_cases.yaml": CASES, "labels.py": "1 / 0"}, "*labels.py:1: ZeroDivisionError*"),
    ],
)
def test_invalid_files_are_not_ignored(files: dict[str, str], message: str, pytester: pytest.Pytester) -> None:
    write_files(pytester, files)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_files_of_other_programs_are_ignored(pytester: pytest.Pytester) -> None:
    others = {
        "labels_cases.yaml": "[broken",
        "labels.py": "1 / 0",
        "cases/a.yaml": "cases: []",
        "cases/b.yaml": "\xff",
        "b.py": "import webhooks_of_others",
        "pods.yaml": CASES,
    }
    write_files(pytester, others)
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_names_of_files_can_be_configured(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"labels.py": POLICY, "labels.cases": CASES, "labels_cases.yaml": CASES})
    pytester.makeini("[pytest]\nwebhooks_cases = labels.cases")
    pytester.runpytest("-v").assert_outcomes(passed=2)
    pytester.makeini("[pytest]\nwebhooks_cases =")
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_plugin_can_be_turned_off(pytester: pytest.Pytester) -> None:
    write_files(pytester, {"labels.py": POLICY, "labels_cases.yaml": CASES})
    assert pytester.runpytest("-p", "no:webhooks").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_pytest_starts_without_imports(tmp_path: Path) -> None:
    """Projects that do not use the package must not pay for its imports."""
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] == 'webhooks'}\n"
        "    assert ours == {'webhooks', 'webhooks._lazy', 'webhooks._version', 'webhooks.pytest_plugin'}\n"
        "    assert not {'pydantic', 'msgspec', 'fastapi', 'yaml', 'prometheus_client'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stdout
