import sys
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError, LoadError
from webhooks.policy import loader
from webhooks.policy.loader import bundled_files, load, load_file

POLICY = """
from webhooks import Allow, validating

@validating("pods")
def {name}(review):
    return Allow()
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(*sources: object) -> list[str]:
    return [policy.name for policy in load(map(str, sources))]


def test_policies_of_a_file_keep_their_order(tmp_path: Path) -> None:
    text = POLICY.format(name="second") + POLICY.format(name="first")
    assert names(write(tmp_path, {"a.py": text}) / "a.py") == ["second", "first"]


def test_files_of_a_folder_are_loaded_in_order_of_their_names(tmp_path: Path) -> None:
    files = {f"{name}.py": POLICY.format(name=name) for name in "cab"}
    ignored = ("test_x.py", "conftest.py", "_helper.py", "__init__.py", "notes.txt", "deeper/d.py", "e.pyc")
    write(tmp_path, files | dict.fromkeys(ignored, "raise RuntimeError('not to be loaded')"))
    assert names(tmp_path) == ["a", "b", "c"]
    assert names(tmp_path / "b.py", tmp_path / "c.py") == ["b", "c"]


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"policies/a.py": POLICY.format(name="a")})
    monkeypatch.chdir(tmp_path)
    assert names("policies") == names("policies/a.py") == names("./policies/../policies/a.py") == ["a"]
    monkeypatch.chdir(tmp_path / "policies")
    assert names(".") == names("a.py") == ["a"]


def test_a_path_may_have_spaces_and_other_characters(tmp_path: Path) -> None:
    assert names(write(tmp_path / "my policies \u00e9", {"a b-c.d.py": POLICY.format(name="a")}) / "a b-c.d.py") == [
        "a"
    ]


def test_a_path_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, {"data/a.py": POLICY.format(name="a")})
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "b.py").symlink_to(tmp_path / "data" / "a.py")
    assert names(tmp_path / "link") == names(tmp_path / "b.py") == ["a"]


def test_the_bundled_policies_are_found_by_name() -> None:
    assert {"allowed_repos", "default_seccomp", "protect_namespaces", "required_labels"} <= set(bundled_files())
    assert names(*(f"library:{name}" for name in bundled_files())) == list(bundled_files())


def test_an_installed_package_contains_the_bundled_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"library/only.py": POLICY.format(name="only")})
    monkeypatch.setattr(loader.resources, "files", lambda package: tmp_path)
    assert list(bundled_files()) == ["only"]
    assert names("library:only") == ["only"]


def test_only_policies_in_public_variables_are_loaded(tmp_path: Path) -> None:
    text = """
from webhooks import Allow, validating
from webhooks.policy.model import Policy

def helper(review):
    return Allow()

def make():
    return validating("pods")(helper).with_name("made")

first = validating("pods")(helper)
alias = first
_kept = validating("pods")(helper).with_name("kept")
"""
    assert names(write(tmp_path, {"a.py": text}) / "a.py") == ["helper"]


@pytest.mark.parametrize(
    "lost",
    [
        'several = [validating("pods", name="lost")(check)]',
        'class Holder:\n    inside = validating("pods", name="lost")(check)',
        'made = validating("pods", name="lost")(check)\nmade = validating("pods", name="kept")(check)',
        'kept = validating("pods", name="kept")(check)\nkept.with_name("lost")',
    ],
)
def test_a_policy_in_no_variable_is_an_error(lost: str, tmp_path: Path) -> None:
    text = f"""
from webhooks import Allow, validating

def check(review):
    return Allow()

{lost}
"""
    file = write(tmp_path, {"a.py": text}) / "a.py"
    with pytest.raises(LoadError, match=r"a\.py:\d+: policy 'lost' is not in a variable of this file"):
        load([str(file)])


def test_a_factory_makes_policies_of_the_file_that_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = """
from webhooks import Allow, validating

def make(name):
    @validating("pods", name=name)
    def made(review):
        return Allow()
    return made
"""
    write(
        tmp_path,
        {"imports/factory_of_policies.py": factory, "a.py": "import factory_of_policies as f\none = f.make('one')"},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "imports"))
    assert names(tmp_path / "a.py") == ["one"]


def test_imported_policies_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
from imported_policies import theirs, other
theirs = theirs
bound = other.bind(most=5).with_name("bound")
"""
    theirs = """
from webhooks import Allow, validating

@validating("pods")
def theirs(review):
    return Allow()

@validating("pods")
def other(review, *, most: int):
    return Allow()
"""
    write(tmp_path, {"imports/imported_policies.py": theirs, "a.py": text})
    monkeypatch.syspath_prepend(str(tmp_path / "imports"))
    [policy] = load([str(tmp_path / "a.py")])
    assert (policy.name, policy.parameters) == ("bound", {"most": 5})
    assert str(policy.origin) == f"{tmp_path / 'a.py'}:4"


def test_files_of_the_same_name_do_not_conflict(tmp_path: Path) -> None:
    files = {f"{name}/labels.py": POLICY.format(name=name) + f"WHO = '{name}'\n" for name in "ab"}
    write(tmp_path, files)
    before = set(sys.modules)
    registry = load([str(tmp_path / "a"), str(tmp_path / "b")])
    assert [policy.function.__globals__["WHO"] for policy in registry] == ["a", "b"]
    assert "labels" not in set(sys.modules) - before


def test_a_file_is_in_sys_modules_while_it_is_executed(tmp_path: Path) -> None:
    text = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
from typing import NamedTuple
from webhooks import Allow, validating

@dataclass
class Limit:
    most: int

pickle.loads(pickle.dumps(Limit(1)))

@validating("pods")
def limited(review, *, limit: Limit = Limit(5)):
    return Allow()

bound = limited.bind(limit={"most": 2}).with_name("bound")
"""
    limited, bound = load([str(write(tmp_path, {"a.py": text}) / "a.py")])
    assert limited.parameters == {}
    assert bound.parameters["limit"].most == 2


# Files with an error in the line that ends in "HERE".
HEAD = "from webhooks import Allow, Deny, authenticating, authorizing, image_policy, mutating, validating\n"


def decorated(decorator: str, parameters: str = "review") -> str:
    return f"{HEAD}\n{decorator}  # HERE\ndef policy({parameters}):\n    return Allow()\n"


def called(call: str, parameters: str = "review", name: str = "policy") -> str:
    return (
        f'{HEAD}@validating("pods")\ndef policy({parameters}):\n    return Allow()\n\n{name} = policy{call}  # HERE\n'
    )


BROKEN: dict[str, tuple[str, str]] = {
    "a syntax error": (f"{HEAD}\ndef broken(:  # HERE\n", "not valid Python: "),
    "a syntax error in the first line": ("return  # HERE\n", "not valid Python: "),
    "a bad indentation": (f"{HEAD}if True:\npass  # HERE\n", "not valid Python: "),
    "raising": (f"{HEAD}\n\n1 / 0  # HERE\n", "ZeroDivisionError: division by zero"),
    "raising deeper": (f"{HEAD}def helper():\n    return {{}}['a']  # HERE\nhelper()\n", "KeyError: 'a'"),
    "raising elsewhere": (f"{HEAD}import json\njson.loads('{{')  # HERE\n", "JSONDecodeError: "),
    "raising in several lines": (f"{HEAD}raise ValueError('a\\nb')  # HERE\n", "ValueError: a b"),
    "leaving": (f"{HEAD}import sys\nsys.exit(0)  # HERE\n", "SystemExit: 0"),
    "a module that is missing": (f"{HEAD}import no_such_module  # HERE\n", "ModuleNotFoundError: "),
    "a name that is missing": ("from webhooks import no_such_name  # HERE\n", "ImportError: "),
    "no resources": (decorated("@validating()"), "resources are required"),
    "no parentheses": (decorated("@validating"), "resources are required"),
    "no parentheses, mutating": (decorated("@mutating"), "resources are required"),
    "no parentheses, authorizing": (decorated("@authorizing"), "resources are required"),
    "a bad resource": (decorated('@mutating("Pods")'), "'Pods' is not a resource"),
    "a list of resources": (decorated('@mutating(["pods"])'), "resources are required"),
    "a bad operation": (decorated('@validating("pods", operations=["create"])'), "operations must be"),
    "a bad selector": (decorated('@validating("pods", labels={"a": 5})'), ""),
    "an unknown option": (
        decorated('@validating("pods", operation=["CREATE"])'),
        "TypeError: validating() got an unexpected keyword argument 'operation'; did you mean operations?",
    ),
    "a bad timeout": (decorated("@authenticating(timeout=99)"), "policy 'policy': timeout must be"),
    "a bad on_error": (decorated('@image_policy(on_error="no")'), "policy 'policy': on_error must be"),
    "a bad signature": (decorated('@authorizing("pods")', "review, most"), "policy 'policy' must take the review"),
    "two decorators": (
        f'{HEAD}@validating("pods")  # HERE\n@mutating("pods")\ndef policy(review):\n    return Allow()\n',
        "policy 'policy' has two decorators",
    ),
    "a bad name": (called('.with_name("a b")'), "invalid policy name 'a b'"),
    "a parameter of the wrong type": (
        called('.bind(most="5")', "review, *, most: int"),
        "policy 'policy', parameter 'most': must be an integer",
    ),
    "an unknown parameter": (
        called(".bind(more=5)", "review, *, most: int"),
        "policy 'policy' has no parameter 'more'; its parameters: most",
    ),
    "a parameter that is not set": (
        decorated('@validating("pods")', "review, *, most: int"),
        "policy 'policy': required parameter 'most' is not set",
    ),
    "a parameter that is still not set": (
        called(".bind(least=1)", "review, *, least: int, most: int"),
        "policy 'policy': required parameter 'most' is not set",
    ),
    "a default of the wrong type": (
        decorated('@validating("pods")', "review, *, most: int = None"),
        "policy 'policy', parameter 'most': must be an integer, not null",
    ),
    "a type that is not there": (
        "from __future__ import annotations\n" + decorated('@validating("pods")', "review, *, most: Nowhere = 1"),
        "policy 'policy', parameter 'most': ",
    ),
    "a type that cannot be checked": (
        decorated('@validating("pods")', "review, *, most: list[int] | tuple[int, ...] = ()"),
        "policy 'policy', parameter 'most': ",
    ),
    "another policy of the same name": (
        called('.with_name("policy")', name="other"),
        "two policies are named 'policy', the other is at ",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, {"broken.py": text}) / "broken.py"
    before = set(sys.modules)
    line = next(number for number, text_line in enumerate(text.split("\n"), start=1) if text_line.endswith("HERE"))
    for source in (path, tmp_path):
        with pytest.raises(ConfigurationError) as caught:
            load([str(source)])
        assert str(caught.value).startswith(f"{path}:{line}: {message}")
        assert "\n" not in str(caught.value)
        if isinstance(caught.value, LoadError):
            assert (caught.value.path, caught.value.line) == (str(path), line)
            assert not {name for name in set(sys.modules) - before if "broken" in name}


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"# \xe9\nx = 1\n", b"# -*- coding: nonsense -*-\n", b"x = '\0'\n"], ids=repr
)
def test_an_error_names_a_file_that_is_not_text(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(content)
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    assert str(caught.value).startswith(str(path))
    assert caught.value.path == str(path)


def test_an_error_in_an_imported_file_names_the_line_of_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"imports/broken_helper.py": "def broken(:\n", "a.py": f"{HEAD}\nimport broken_helper\n"})
    monkeypatch.syspath_prepend(str(tmp_path / "imports"))
    with pytest.raises(LoadError, match="SyntaxError") as caught:
        load([str(tmp_path / "a.py")])
    assert caught.value.line == 3


@pytest.mark.parametrize("text", ["", "x = 1\n", "import webhooks\n", "from webhooks import validating\n"])
def test_a_file_without_policies_is_an_error(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, {"empty.py": text}) / "empty.py"
    with pytest.raises(LoadError, match="no policies in this file") as caught:
        load([str(path)])
    assert (caught.value.path, caught.value.line) == (str(path), None)


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"test_a.py": "", "b.txt": ""})
    with pytest.raises(LoadError, match="no policy files") as caught:
        load([str(tmp_path)])
    assert caught.value.path == str(tmp_path)


@pytest.mark.parametrize(
    "source", ["missing.py", "missing/", "", "library:missing", "library:", "library:../policies/x"]
)
def test_a_missing_source_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError) as caught:
        load([source])
    assert str(caught.value).startswith(f"{source}: no ")
    if source.startswith("library:"):
        assert str(caught.value).endswith("no bundled policy of that name: `webhooks library` lists them")


def test_an_error_suggests_a_similar_name() -> None:
    with pytest.raises(LoadError, match=r"did you mean required_labels\? `webhooks library` lists"):
        load(["library:required_lables"])


def test_a_file_that_is_not_python_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, {"policy.yaml": "a: b\n"}) / "policy.yaml"
    with pytest.raises(LoadError, match=r"not a Python file \(\*.py\)"):
        load([str(path)])


def test_an_error_has_the_places_of_both_policies_of_one_name(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": POLICY.format(name="same"), "b.py": "\n" + POLICY.format(name="same")})
    with pytest.raises(ConfigurationError) as caught:
        load([str(tmp_path)])
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'b.py'}:5: two policies are named 'same'")
    assert f"the other is at {tmp_path / 'a.py'}:4" in message


def test_a_file_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.py": POLICY.format(name="a")}) / "a.py"
    with pytest.raises(ConfigurationError, match="two policies are named 'a'"):
        load([str(path), str(tmp_path)])


def test_an_interrupt_is_not_an_error_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.py": "raise KeyboardInterrupt\n"}) / "a.py"
    with pytest.raises(KeyboardInterrupt):
        load([str(path)])


def test_a_file_is_compiled_each_time(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.py": POLICY.format(name="a")}) / "a.py"
    [first] = load_file(path)
    path.write_text(POLICY.format(name="changed"))
    [second] = load_file(path)
    assert (first.name, second.name) == ("a", "changed")
