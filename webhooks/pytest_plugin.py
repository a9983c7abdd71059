"""What pytest loads of us, in every project where we are installed: nothing is imported before it is used."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from webhooks.testing import Server
    from webhooks.testing.cases import BoundCase

_PATTERNS = ("*_cases.yaml", "cases/*.yaml")
_HEADED = re.compile(rb"webhooks\.svc\.io/")
_IMPORTING = re.compile(rb"^(from|import) webhooks\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The names of files of cases are for the project to choose."""
    parser.addini("webhooks_cases", "patterns of files of policies' cases (YAML)", type="args", default=_PATTERNS)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Server]]":
    """Makes servers without sockets: ``server("labels.py").review(...)``; paths begin at the test's own folder.

    What they ask is policies, their files, or a configuration of them: ``server("webhooks.yaml")``.
    """
    from webhooks.testing import Server

    with ExitStack() as stack:
        yield lambda *policies: stack.enter_context(Server(*policies, folder=request.path.parent))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "CasesFile | None":
    """Take files of cases: they are named as ours are, and say that they are ours or stand beside a policy."""
    if not any(file_path.match(pattern) for pattern in parent.config.getini("webhooks_cases")):
        return None
    policy = _policy(file_path)
    ours = _HEADED.search(file_path.read_bytes()) or (policy and _IMPORTING.search(policy.read_bytes()))
    return CasesFile.from_parent(parent, path=file_path, policy=policy) if ours else None


def _policy(file: Path) -> Path | None:
    """The policy file that cases are about: beside them, or in the folder above."""
    name = f"{file.stem.removesuffix('_cases')}.py"
    return next((folder / name for folder in (file.parent, file.parent.parent) if (folder / name).is_file()), None)


class CasesFile(pytest.File):
    """A file of cases."""

    def __init__(self, *, policy: Path | None, **options: Any) -> None:
        super().__init__(**options)
        self._policy = policy

    def collect(self) -> "Iterator[CaseItem]":
        """Read the cases."""
        from webhooks.errors import ConfigurationError
        from webhooks.testing import cases

        try:
            found = cases.load_cases(self.path, self._policy)
        except ConfigurationError as error:
            raise self.CollectError(str(error)) from None
        for each in found:
            yield CaseItem.from_parent(self, name=each.case.name, placed=each)


class CaseItem(pytest.Item):
    """A case, as a test."""

    def __init__(self, *, placed: "BoundCase", **options: Any) -> None:
        super().__init__(**options)
        self._placed = placed

    def runtest(self) -> None:
        """Answer the review, and compare."""
        self._placed.run()

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands."""
        return self.path, self._placed.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What became of the review instead, and where that was told."""
        if excinfo.errisinstance(AssertionError):
            return f"{self._placed.file}:{self._placed.line}: {self.name}\n\n{excinfo.value}"
        return super().repr_failure(excinfo, style)
