"""The wheel: what it brings along, and that it works where it is unpacked."""

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


def test_nothing_but_the_package_is_in_it(wheel: zipfile.ZipFile) -> None:
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert top == {"webhooks", f"cluster_webhooks-{__version__}.dist-info"}
    suffixes = {Path(name).suffix for name in wheel.namelist() if name.startswith("webhooks/")}
    assert suffixes <= {".md", ".py", ".tmpl", ".typed"}  # the README of the bundled policies
    names = {Path(name).name for name in wheel.namelist()}
    assert not any(name.startswith(("test_", "conftest")) for name in names)


def test_the_whole_package_is_in_it(wheel: zipfile.ZipFile) -> None:
    expected = {f"webhooks/{name}" for suffix in ("py", "tmpl") for name in relative("webhooks", f"*.{suffix}")}
    assert expected <= set(wheel.namelist())
    assert "webhooks/py.typed" in wheel.namelist()


def test_the_bundled_policies_are_in_it(wheel: zipfile.ZipFile) -> None:
    inside = {
        name.removeprefix("webhooks/library/") for name in wheel.namelist() if name.startswith("webhooks/library/")
    }
    assert inside == relative("policies", "*.py") | {"README.md"}
    assert "required_labels.py" in inside


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
    """With its own bundled policies, beside a user's folders of the names that a checkout has."""
    wheel.extractall(tmp_path / "installed")
    for name in ("policies", "certs", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError")
    code = (
        "import webhooks, webhooks.policy.loader as loading; print(webhooks.__file__);"
        "names = sorted(loading.bundled_files()); print(names);"
        "print(len(loading.load(f'library:{name}' for name in names)));"
        "import webhooks.cli.policy_docs as docs; print(len(docs.load_all()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    where, names, count, described = ended.stdout.splitlines() or pytest.fail(ended.stderr)
    assert where == str(tmp_path / "installed" / "webhooks" / "__init__.py")
    ready = sorted(Path(name).stem for name in relative("policies", "*.py"))
    assert names == str(ready)
    assert int(count) >= len(ready)
    assert int(described) == len(ready)
