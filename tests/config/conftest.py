"""Fixtures for tests of configuration files."""

from pathlib import Path

import pytest

from ..support.configurations import POLICIES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of policies, for a configuration file."""
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path
