"""The contents of the wheel, and its use from where it is unpacked."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from webhooks import __version__

from ..support.servers import SECONDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=4 * SECONDS)
    [file] = folder.iterdir()
    assert file.name == f"cluster_webhooks-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(file) as opened:
        yield opened


def relative(folder: str, pattern: str) -> set[str]:
    return {str(file.relative_to(ROOT / folder)) for file in (ROOT / folder).rglob(pattern)}


def test_it_contains_only_the_package(wheel: zipfile.ZipFile) -> None:
    top_level = {name.partition("/")[0] for name in wheel.namelist()}
    assert top_level == {"webhooks", f"cluster_webhooks-{__version__}.dist-info"}
    suffixes = {Path(name).suffix for name in wheel.namelist() if name.startswith("webhooks/")}
    assert suffixes <= {".md", ".py", ".tmpl", ".typed"}  # the README of the bundled policies
    names = {Path(name).name for name in wheel.namelist()}
    assert not any(name.startswith(("test_", "conftest")) for name in names)


def test_it_contains_all_modules(wheel: zipfile.ZipFile) -> None:
    expected = {f"webhooks/{name}" for suffix in ("py", "tmpl") for name in relative("webhooks", f"*.{suffix}")}
    assert expected <= set(wheel.namelist())
    assert "webhooks/py.typed" in wheel.namelist()


def test_it_contains_the_bundled_policies(wheel: zipfile.ZipFile) -> None:
    files = {
        name.removeprefix("webhooks/library/") for name in wheel.namelist() if name.startswith("webhooks/library/")
    }
    assert files == relative("policies", "*.py") | {"README.md"}
    assert "required_labels.py" in files


def test_its_metadata(wheel: zipfile.ZipFile) -> None:
    folder = f"cluster_webhooks-{__version__}.dist-info"
    metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == (
        "cluster-webhooks",
        __version__,
        ">=3.11",
    )
    assert metadata["License-Expression"] == "Apache-2.0"
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    entry_points = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "webhooks = webhooks.cli.main:main" in entry_points
    assert "[pytest11]\nwebhooks = webhooks.pytest_plugin\n" in entry_points


def test_it_works_where_it_is_unpacked(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """It uses its own bundled policies, although the user has folders with the names of a checkout."""
    wheel.extractall(tmp_path / "installed")
    for name in ("policies", "certs", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError")
    code = (
        "import webhooks, webhooks.policy.loader as loading; print(webhooks.__file__);"
        "names = sorted(loading.bundled_files()); print(names);"
        "print(len(loading.load(f'library:{name}' for name in names)));"
        "import webhooks.policy.docstrings as docs; print(len(docs.load_all()))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    path, names, count, documented = process.stdout.splitlines() or pytest.fail(process.stderr)
    assert path == str(tmp_path / "installed" / "webhooks" / "__init__.py")
    bundled = sorted(Path(name).stem for name in relative("policies", "*.py"))
    assert names == str(bundled)
    assert int(count) >= len(bundled)
    assert int(documented) == len(bundled)
