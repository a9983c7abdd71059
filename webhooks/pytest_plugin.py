"""The pytest plugin: the fixture ``server``, and test cases in YAML.

pytest loads this module in each project where the package is installed, so it imports other modules only when they are
used.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from webhooks.testing import Server
    from webhooks.testing.cases import BoundCase
    from webhooks.testing.server import Source

_PATTERNS = ("*_cases.yaml", "cases/*.yaml")
_API_GROUP = re.compile(rb"webhooks\.svc\.io/")
_IMPORT = re.compile(rb"^(from|import) webhooks\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting for the names of files with cases."""
    parser.addini("webhooks_cases", "patterns of files with test cases for policies (YAML)", "args", _PATTERNS)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Server]]":
    """Create servers without sockets: ``server("labels.py").review(...)``.

    The arguments are policies, policy files, or a configuration file: ``server("webhooks.yaml")``. Relative paths start
    from the folder of the test.
    """
    from webhooks.errors import ConfigurationError
    from webhooks.testing import Server

    with ExitStack() as stack:

        def create_server(*policies: "Source") -> Server:
            __tracebackhide__ = True
            try:
                return stack.enter_context(Server(*policies, folder=request.path.parent))
            except ConfigurationError as error:  # the message has the location; frames of this package would hide it
                raise error.with_traceback(None) from error.__cause__

        yield create_server


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "CasesFile | None":
    """Collect a file of cases.

    Other programs may use the same file names, so the file must contain our API group, or belong to a policy file.
    """
    if not any(file_path.match(pattern) for pattern in parent.config.getini("webhooks_cases")):
        return None
    policy_file = _find_policy_file(file_path)
    is_ours = _API_GROUP.search(file_path.read_bytes()) or (policy_file and _IMPORT.search(policy_file.read_bytes()))
    return CasesFile.from_parent(parent, path=file_path, policy_file=policy_file) if is_ours else None


def _find_policy_file(file: Path) -> Path | None:
    """Return the policy file of a file of cases, in the same folder or the folder above."""
    name = f"{file.stem.removesuffix('_cases')}.py"
    return next((folder / name for folder in (file.parent, file.parent.parent) if (folder / name).is_file()), None)


class CasesFile(pytest.File):
    """A file of cases."""

    def __init__(self, *, policy_file: Path | None, **options: Any) -> None:
        super().__init__(**options)
        self._policy_file = policy_file

    def collect(self) -> "Iterator[CaseItem]":
        """Load the cases."""
        from webhooks.errors import ConfigurationError
        from webhooks.testing.cases import load_cases

        try:
            cases = load_cases(self.path, self._policy_file)
        except ConfigurationError as error:
            raise self.CollectError(str(error)) from None
        for bound_case in cases:
            yield CaseItem.from_parent(self, name=bound_case.case.name, bound_case=bound_case)


class CaseItem(pytest.Item):
    """A case as a test."""

    def __init__(self, *, bound_case: "BoundCase", **options: Any) -> None:
        super().__init__(**options)
        self._bound_case = bound_case

    def runtest(self) -> None:
        """Run the case."""
        self._bound_case.run()

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the location of the case."""
        return self.path, self._bound_case.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the location of the case, and the differences between the results."""
        if excinfo.errisinstance(AssertionError):
            return f"{self._bound_case.file}:{self._bound_case.line}: {self.name}\n\n{excinfo.value}"
        return super().repr_failure(excinfo, style)
