"""The folder of development certificates: its README names every file, and none can be committed."""

import fnmatch
from pathlib import Path

from click.testing import CliRunner

from webhooks.cli.main import main

ROOT = Path(__file__).parents[2]


def test_every_file_is_ignored_and_documented(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["certs", "issue", "localhost", "--client", "NAME", "--certs-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    names = {file.name for file in tmp_path.iterdir()} - {".lock"}
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    readme = (ROOT / "certs" / "README.md").read_text()
    assert len(names) >= 6
    for name in names:
        assert any(fnmatch.fnmatch(f"/certs/{name}", pattern) for pattern in ignored), name
        assert f"`{name}`" in readme, name


def test_the_readme_is_the_only_file_in_the_repository() -> None:
    assert [file.name for file in (ROOT / "certs").iterdir() if file.suffix != ".pem" and file.name != ".lock"] == [
        "README.md"
    ]
