"""From files to policies: a file, a folder of files, or ``library:NAME`` for one of the bundled policies."""

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import resources
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import current_thread, main_thread
from types import CodeType, ModuleType

from webhooks.errors import ConfigurationError, LoadError
from webhooks.policy.model import AnyPolicy, Policy, collect_policies
from webhooks.policy.registry import Registry

LIBRARY = "library:"
_SHOWN = 64  # characters of a name that no file can have
_OBJECT = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_IN_FILE = re.compile(r"(?P<file>.*\.py):(?P<name>[A-Za-z0-9_.-]+)")


def load(sources: Iterable[str]) -> Registry:
    """Load policies.

    Args:
        sources: paths of files and folders, and names of bundled policies.

    Raises:
        ConfigurationError: something does not load, or does not fit together; `LoadError` names the file and line.
    """
    return Registry(policy for source in sources for file in _files(source) for policy in load_file(file))


def find(use: str, folder: Path) -> list[AnyPolicy]:
    """The policies that a configuration names.

    Args:
        use: a file or folder, ``FILE.py:POLICY``, ``library:NAME`` or ``package.module:NAME``.
        folder: where paths begin.

    Raises:
        ConfigurationError: something does not load, or there is no such policy.
    """
    try:
        return _find(use, folder)
    except OSError as error:  # a name that no file can have
        raise LoadError(error.strerror or str(error), path=use[:_SHOWN]) from None


def _find(use: str, folder: Path) -> list[AnyPolicy]:
    in_file, in_module = _IN_FILE.fullmatch(use), _OBJECT.fullmatch(use)
    if in_file:
        return [_chosen(load_file(_file(in_file["file"], folder)), in_file["name"], in_file["file"])]
    if in_module and not use.startswith(LIBRARY):
        return [_imported(in_module["module"], in_module["name"])]
    source = use if use.startswith(LIBRARY) else str(folder / use)
    return [policy for file in _files(source) for policy in load_file(file)]


def watched_paths(use: str, folder: Path) -> list[Path]:
    """The files and folders whose contents decide what `find` finds: those that are likely to change."""
    if use.startswith(LIBRARY) or (_OBJECT.fullmatch(use) and not _IN_FILE.fullmatch(use)):
        return []
    in_file = _IN_FILE.fullmatch(use)
    return [(folder / (in_file["file"] if in_file else use)).absolute()]


def policy_files(place: Path) -> list[Path]:
    """The policy files at a place: it, or those that it holds; none where there is nothing."""
    return _folder(place) if place.is_dir() else [place]


def bundled_files() -> dict[str, Path]:
    """The bundled policies, by name: in an installed package beside us, in a checkout in its own folder."""
    here = Path(str(resources.files("webhooks")))
    folder = here / "library" if (here / "library").is_dir() else here.parent / "policies"
    return {file.stem: file for file in _folder(folder)}


def bundled_file(name: str) -> Path:
    """The file of one of the bundled policies.

    Raises:
        LoadError: there is no bundled policy of that name.
    """
    files = bundled_files()
    if name not in files:
        near = get_close_matches(name, files, n=1)
        hint = f"perhaps {near[0]} is meant; " if near else ""
        raise LoadError(f"no bundled policy of that name; {hint}webhooks library lists them", path=f"{LIBRARY}{name}")
    return files[name]


def bundled(name: str) -> AnyPolicy:
    """One of the bundled policies, for a policy file that sets its parameters with `bind`.

    Raises:
        LoadError: there is no bundled policy of that name.
    """
    [policy] = load_file(bundled_file(name))
    return policy


def load_file(path: Path) -> list[AnyPolicy]:
    """The policies that a file makes at its top level, under names without a leading underscore, in order.

    Raises:
        LoadError: the file cannot be read, raises, or holds no policy.
    """
    with collect_policies() as created:
        module = _execute(path)
    own = [policy for policy in created if policy.origin.module_file == str(path)]
    named = {id(each): name for name, each in vars(module).items() if isinstance(each, Policy)}
    for policy in own:
        if id(policy) not in named and not any(other.derived_from is policy for other in created):
            raise LoadError(
                f"no name of this file holds the policy {policy.name!r}: give it one, beginning with _ if it is not "
                "to be served",
                path=policy.origin.path,
                line=policy.origin.line,
            )
    served = [policy for policy in own if not named.get(id(policy), "_").startswith("_")]
    if not served:
        raise LoadError(
            "no policies in this file: decorate a function, as with @validating(...); imported ones are not served",
            path=str(path),
        )
    return served


def _file(name: str, folder: Path) -> Path:
    path = (folder / name).absolute()
    if not path.is_file():
        raise LoadError("no such file", path=name)
    return path


def _chosen(policies: list[AnyPolicy], name: str, file: str) -> AnyPolicy:
    for policy in policies:
        if policy.name == name:
            return policy
    raise LoadError(f"no policy {name} in it; it has {', '.join(policy.name for policy in policies)}", path=file)


def _imported(module: str, name: str) -> AnyPolicy:
    """A policy of a package that is installed beside us."""
    place = f"{module}:{name}"
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise LoadError(f"there is no module {error.name}: is it installed beside webhooks?", path=place) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise LoadError(f"the module cannot be imported: {what}", path=place) from error
    if not isinstance(found, Policy):
        what = "nothing of that name" if found is None else f"a {type(found).__name__}"
        raise LoadError(f"{what}, and no policy: decorate a function to make one", path=place)
    return found


def _files(source: str) -> Iterator[Path]:
    if source.startswith(LIBRARY):
        yield bundled_file(source.removeprefix(LIBRARY))
        return
    path = Path(source).absolute()
    if path.is_dir():
        files = list(_folder(path))
        if not files:
            raise LoadError("no policy files (*.py) in this folder", path=source)
        yield from files
    elif path.is_file():
        yield path
    else:
        raise LoadError("no such file or folder", path=source)


def _folder(folder: Path) -> list[Path]:
    """A folder's policy files, in order of their names; tests and files that begin with an underscore are none."""
    files = sorted(file for file in folder.glob("*.py") if file.is_file())
    return [file for file in files if not file.name.startswith((".", "_", "test_", "conftest"))]


def _execute(path: Path) -> ModuleType:
    # A name of its own for each file: users have files called `labels`, and modules of that name.
    name = f"webhooks_policies_{path.stem}_{abs(hash(path)):x}"
    if path.suffix != ".py" or not path.is_file():
        raise LoadError("not a Python file (*.py)", path=str(path))
    loader = _Source(name, str(path))
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
            raise  # it is the user's own
        raise _load_error(path, error) from error
    return module


class _Source(SourceFileLoader):
    """Compiles a file whenever it is loaded: what is kept compiled beside it is told from it by whole seconds alone."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The code of the file as it is now."""
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)


def _load_error(path: Path, error: BaseException) -> LoadError:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return LoadError(f"not Python: {error.msg}", path=str(path), line=error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)
    what = str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
    return LoadError(" ".join(what.split()), path=str(path), line=line)
