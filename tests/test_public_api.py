"""Tests of the public interface: the names, the price of importing them, and that documents use nothing else."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from .support.servers import SECONDS

ROOT = Path(__file__).parents[1]
PUBLIC = {
    "webhooks": """
        AccessReview AdmissionReview Allow Authenticated ConfigurationError Container Decision Deny Identity Image
        ImageReference ImageReview MalformedReview Mutation NoOpinion Opinion Patch Policy Replace TokenReview
        Unauthenticated User WORKLOADS WebhooksError authenticating authorizing bundled create_app deny_new field
        image_policy introduced items load mutating parse_quantity pointer validating
    """,
    "webhooks.auth": "Authenticator OidcIssuer TokenFile",
    "webhooks.plugins": "Document FieldError Model PluginContext duration field_error load one_of",
    "webhooks.settings": "Limits Settings",
    "webhooks.testing": """
        Result Server access admission assert_allowed assert_denied assert_no_opinion assert_patched images pod token
    """,
}
LAZY = ("webhooks", "webhooks.auth", "webhooks.plugins")
HEAVY = {"fastapi", "httptools", "joserfc", "msgspec", "orjson", "pydantic", "uvicorn", "yaml"}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    found = import_module(module)
    names = PUBLIC[module].split()
    assert set(getattr(found, "__all__", names)) == set(names)
    assert [name for name in names if not hasattr(found, name)] == []
    assert [name for name in names if not (getattr(found, name).__doc__ or "").strip()] == []


@pytest.mark.parametrize("module", LAZY)
def test_type_checkers_see_the_same_names(module: str) -> None:
    """Lazy names are listed twice: imported under TYPE_CHECKING, and in the table."""
    found = import_module(module)
    assert found.__file__
    [checked] = [node for node in ast.parse(Path(found.__file__).read_bytes()).body if isinstance(node, ast.If)]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names if alias.asname}
    aliases = [node for node in checked.body if isinstance(node, ast.Assign)]
    for node in aliases:
        assert isinstance(node.targets[0], ast.Name)
        assert isinstance(node.value, ast.Name)
        [home] = [each.module for each in imports if any(alias.name == node.value.id for alias in each.names)]
        names[node.targets[0].id] = (home, node.value.id)
    assert names.keys() == set(found.__all__)
    for name, (home, attribute) in names.items():
        assert home is not None
        assert getattr(found, name) is getattr(import_module(home), attribute)


@pytest.mark.parametrize("module", LAZY)
def test_imports_are_cheap(module: str) -> None:
    code = f"import sys, {module}; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def python_files() -> Iterator[Path]:
    yield from (ROOT / "policies").rglob("*.py")
    yield from (ROOT / "deploy").rglob("*.py")


def documents() -> Iterator[Path]:
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    yield from (ROOT / "docs").rglob("*.md")
    yield from (path for path in (ROOT / "deploy").rglob("*") if path.suffix in (".md", ".yaml", ".json"))


def code_blocks(path: Path) -> list[str]:
    """The Python code in a document, also in blocks that are indented or begin with a prompt."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", sorted(python_files()), ids=lambda path: path.stem)
def test_policies_use_public_names_only(path: Path) -> None:
    assert private_names(path.read_text()) == []


@pytest.mark.parametrize("path", sorted(documents()), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_documents_use_public_names_only(path: Path) -> None:
    assert [name for code in code_blocks(path) for name in private_names(code)] == []
    imported = re.findall(r"(?:\bfrom|\bimport)\s+(webhooks(?:\.\w+)+)", path.read_text())
    assert [module for module in imported if module not in PUBLIC] == []


def private_names(code: str) -> list[str]:
    """The imports of this package in a Python file that are not public."""
    private = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if alias.name.partition(".")[0] == "webhooks"]
            private += [module for module in modules if module not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "webhooks":
            known = PUBLIC.get(node.module or "", "").split()
            private += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known]
    return private
