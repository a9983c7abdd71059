"""Loads policies from files, folders, installed modules, and the bundled policies (``library:NAME``)."""

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import resources
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import current_thread, main_thread
from types import CodeType, ModuleType

from webhooks.errors import ConfigurationError, LoadError
from webhooks.policy import decorators
from webhooks.policy.model import AnyPolicy, Policy, collect_policies
from webhooks.policy.registry import Registry

LIBRARY = "library:"
_MAX_SHOWN = 64  # characters of an invalid file name in a message
_IN_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_UNKNOWN_OPTION = re.compile(r"(?P<function>\w+)\(\) got an unexpected keyword argument '(?P<option>\w+)'")
_IN_FILE = re.compile(r"(?P<file>.*\.py):(?P<name>[A-Za-z0-9_.-]+)")


def load(sources: Iterable[str]) -> Registry:
    """Load all policies of some sources.

    Args:
        sources: paths of files and folders, and ``library:NAME`` for bundled policies.

    Raises:
        ConfigurationError: a source cannot be loaded (a `LoadError` with file and line), or policies contradict each
            other.
    """
    return Registry(policy for source in sources for policy in _load_source(source))


def find(use: str, folder: Path) -> list[AnyPolicy]:
    """Load the policies of an entry in a configuration file.

    Args:
        use: a file or folder, ``FILE.py:POLICY``, ``library:NAME`` or ``package.module:NAME``.
        folder: the folder to which paths are relative.

    Raises:
        ConfigurationError: a file or module cannot be loaded, or lacks the policy.
    """
    in_file, in_module = _IN_FILE.fullmatch(use), _IN_MODULE.fullmatch(use)
    try:
        if in_file:
            return [_find_in_file(in_file["file"], in_file["name"], folder)]
        if in_module and not use.startswith(LIBRARY):
            return [_import_policy(in_module["module"], in_module["name"])]
        return _load_source(use if use.startswith(LIBRARY) else str(folder / use))
    except OSError as error:  # not a valid file name
        raise LoadError(error.strerror or str(error), path=use[:_MAX_SHOWN]) from None


def watched_paths(use: str, folder: Path) -> list[Path]:
    """Return the file or folder that `find` reads and that may change while a server runs, if there is one."""
    if use.startswith(LIBRARY) or (_IN_MODULE.fullmatch(use) and not _IN_FILE.fullmatch(use)):
        return []
    in_file = _IN_FILE.fullmatch(use)
    return [(folder / (in_file["file"] if in_file else use)).absolute()]


def policy_files(path: Path) -> list[Path]:
    """Return the policy files of a folder in order of their names, or the path itself if it is not a folder.

    Tests, and files whose names start with ``_`` or ``.``, are not policy files.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.glob("*.py") if file.is_file())
    return [file for file in files if not file.name.startswith((".", "_", "test_", "conftest"))]


def bundled_files() -> dict[str, Path]:
    """Return the files of the bundled policies by name.

    They are in the package if it is installed from a wheel, and in ``policies`` next to it in a checkout.
    """
    package = Path(str(resources.files("webhooks")))
    folder = package / "library" if (package / "library").is_dir() else package.parent / "policies"
    return {file.stem: file for file in policy_files(folder)}


def bundled_file(name: str) -> Path:
    """Return the file of a bundled policy.

    Raises:
        LoadError: no bundled policy has that name.
    """
    files = bundled_files()
    if name not in files:
        similar = get_close_matches(name, files, n=1)
        hint = f"did you mean {similar[0]}? " if similar else ""
        raise LoadError(f"no bundled policy of that name: {hint}`webhooks library` lists them", path=f"{LIBRARY}{name}")
    return files[name]


def describe_origin(policy: AnyPolicy) -> str:
    """Return the place where a policy is defined, for messages: FILE:LINE, or ``library:NAME``."""
    names = {str(path): name for name, path in bundled_files().items()}
    name = names.get(policy.origin.path)
    return str(policy.origin) if name is None else f"{LIBRARY}{name}"


def bundled(name: str) -> AnyPolicy:
    """Return a bundled policy, for a policy file that sets its parameters with `bind`.

    Raises:
        LoadError: no bundled policy has that name.
    """
    [policy] = load_file(bundled_file(name))
    return policy


def load_file(path: Path) -> list[AnyPolicy]:
    """Load the policies that a file defines, in order: those in variables without a leading underscore.

    Raises:
        LoadError: the file cannot be read, raises an exception, defines no policy, or defines one in no variable.
    """
    with collect_policies() as created:
        module = _execute(path)
    defined = [policy for policy in created if policy.origin.module_file == str(path)]
    variables = {id(value): name for name, value in vars(module).items() if isinstance(value, Policy)}
    for policy in defined:
        if id(policy) not in variables and not any(other.derived_from is policy for other in created):
            raise LoadError(
                f"policy {policy.name!r} is not in a variable of this file: assign it to one, whose name starts with _ "
                "if it is not to be served",
                path=policy.origin.path,
                line=policy.origin.line,
            )
    served = [policy for policy in defined if not variables.get(id(policy), "_").startswith("_")]
    if not served:
        raise LoadError(
            "no policies in this file: decorate a function, for example with @validating(...); imported policies do "
            "not count",
            path=str(path),
        )
    return served


def _load_source(source: str) -> list[AnyPolicy]:
    return [policy for file in _source_files(source) for policy in load_file(file)]


def _source_files(source: str) -> list[Path]:
    if source.startswith(LIBRARY):
        return [bundled_file(source.removeprefix(LIBRARY))]
    path = Path(source).absolute()
    if not (path.is_dir() or path.is_file()):
        raise LoadError("no such file or folder", path=source)
    files = policy_files(path)
    if not files:
        raise LoadError("no policy files (*.py) in this folder", path=source)
    return files


def _find_in_file(file: str, name: str, folder: Path) -> AnyPolicy:
    path = (folder / file).absolute()
    if not path.is_file():
        raise LoadError("no such file", path=file)
    policies = {policy.name: policy for policy in load_file(path)}
    if name not in policies:
        raise LoadError(f"no policy {name} in this file; its policies: {', '.join(policies)}", path=file)
    return policies[name]


def _import_policy(module: str, name: str) -> AnyPolicy:
    """Import a policy from an installed package."""
    place = f"{module}:{name}"
    try:
        value = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise LoadError(f"no module {error.name}: install its package in this environment", path=place) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise LoadError(f"the module cannot be imported: {message}", path=place) from error
    if value is None:
        raise LoadError(f"the module has no policy {name}", path=place)
    if not isinstance(value, Policy):
        raise LoadError(f"expected a policy, not a {type(value).__name__}: decorate a function", path=place)
    return value


def _execute(path: Path) -> ModuleType:
    # The module name is unique, because the name of a file may be that of a module, or of a file in another folder.
    name = f"webhooks_policies_{path.stem}_{abs(hash(path)):x}"
    if path.suffix != ".py" or not path.is_file():
        raise LoadError("not a Python file (*.py)", path=str(path))
    loader = _UncachedLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise  # the user pressed Ctrl-C
        raise _load_error(path, error) from error
    return module


class _UncachedLoader(SourceFileLoader):
    """Compiles a file each time: the compiled copy on disk is only recognized as old if the second differs."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Compile the file as it is now."""
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)


def _load_error(path: Path, error: BaseException) -> LoadError:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return LoadError(f"not valid Python: {error.msg}", path=str(path), line=error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)
    message = str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
    return LoadError(" ".join(message.split()) + _suggest_option(error), path=str(path), line=line)


def _suggest_option(error: BaseException) -> str:
    """Suggest an option of a decorator whose name is similar to that of an unknown one."""
    call = _UNKNOWN_OPTION.fullmatch(str(error)) if isinstance(error, TypeError) else None
    decorator = None if call is None else getattr(decorators, call["function"], None)
    if call is None or decorator is None:
        return ""
    similar = get_close_matches(call["option"], inspect.signature(decorator).parameters, n=1)
    return f"; did you mean {similar[0]}?" if similar else ""
