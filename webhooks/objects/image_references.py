"""References to container images, such as ``nginx`` or ``registry.example.com/team/app:1.2``."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

_DEFAULT_REGISTRY = "docker.io"
_LEGACY_REGISTRY = "index.docker.io"
_LONGEST_REGISTRY = 259  # a DNS name and a port
_LONGEST_REPOSITORY = 255

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_BEGINNING = re.compile(r"[a-z0-9._/-]*(?::[a-zA-Z0-9_.-]*)?(?:@[a-z0-9:]*)?")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image, with everything written out that container tools would add.

    ``str()`` gives the full form, which parses back to an equal reference.

    Attributes:
        registry: the registry's host as it was written, with its port where one is given: ``docker.io``,
            ``localhost:5000``, ``[::1]:5000``.
        repository: the path inside the registry, such as ``library/nginx``.
        tag: ``latest`` where neither tag nor digest was given; None where only a digest was.
        digest: algorithm and hexadecimal digits, such as ``sha256:...``. Beside a tag, it is what is pulled.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference as container tools do.

        The grammar and the defaults are those of the distribution project's ``reference`` module
        (``ParseNormalizedNamed`` and ``TagNameOnly``). The part before the first slash is a registry only if
        it holds a dot, a colon or an upper-case letter, or is ``localhost``; everything else lives at
        ``docker.io``, under ``library/`` if it is a single name.

        Args:
            text: the reference, as a container's ``image`` gives it.

        Raises:
            ValueError: for a text that is no reference; the message says what is wrong with it.
        """
        if _IDENTIFIER.fullmatch(text):
            raise _error(text, "64 hexadecimal digits are an image's identifier and not a name")
        registry, remainder = _split(text)
        name, at, digest = remainder.partition("@")
        repository, colon, tag = name.partition(":")
        if registry == _DEFAULT_REGISTRY and repository and "/" not in repository:
            repository = f"library/{repository}"
        _check_registry(text, registry)
        _check_repository(text, repository)
        if colon and not _TAG.fullmatch(tag):
            raise _error(text, "the tag is not 1 to 128 letters, digits, '_', '.' and '-'")
        if at and not _DIGEST.fullmatch(digest):
            raise _error(text, "the digest is not sha256, sha384 or sha512 with as many hexadecimal digits")
        return cls(registry, repository, tag if colon else None if at else "latest", digest if at else None)

    def within(self, prefix: str) -> bool:
        """Whether the image is inside a registry, a part of one, or is of one repository.

        Only whole components count: ``gcr.io/team`` holds ``gcr.io/team/app`` and neither
        ``gcr.io/teams/app`` nor anything of ``gcr.io.example.org``. Registries compare without regard to
        case, and with their ports: ``gcr.io:443`` is not inside ``gcr.io``.

        Args:
            prefix: ``gcr.io``, ``gcr.io/team`` or ``gcr.io/team/app``, a final slash allowed. The first
                component is a registry by the rule of `parse`, even when it stands alone; else the prefix is
                a path at ``docker.io``, taken as it is: ``bitnami`` holds what that account publishes, and
                the official image is ``library/nginx``, never ``nginx``.

        Raises:
            ValueError: for a prefix that could match nothing: empty, malformed, or with a tag, digest or
                wildcard.
        """
        registry, repository = _prefix(prefix)
        if self.registry.lower() != registry:
            return False
        return not repository or f"{self.repository}/".startswith(f"{repository}/")

    def matches(self, pattern: str) -> bool:
        """Whether this is the image that a pattern names, or one of those that it begins.

        A pattern is written out in full as a reference is. So its registry is always whole: ``gcr.io*`` is the
        beginning of names at ``docker.io`` and holds nothing of ``gcr.io.example.org``.

        Args:
            pattern: a reference, or with a final ``*`` the beginning of some: ``gcr.io/team/*`` is all that is there,
                ``gcr.io/team/app*`` also ``gcr.io/team/app-2``, and ``*`` alone every image.

        Raises:
            ValueError: for a pattern that could match nothing.
        """
        if pattern == "*":
            return True
        registry, name, whole = _pattern(pattern)
        if self.registry.lower() != registry:
            return False
        full = str(self).removeprefix(f"{self.registry}/")
        return full == name if whole else full.startswith(name)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.registry}/{self.repository}{tag}{digest}"


def _split(text: str) -> tuple[str, str]:
    first, slash, rest = text.partition("/")
    if not slash or not _is_registry(first):
        return _DEFAULT_REGISTRY, text
    return _DEFAULT_REGISTRY if first == _LEGACY_REGISTRY else first, rest


def _is_registry(component: str) -> bool:
    return "." in component or ":" in component or component == "localhost" or component != component.lower()


@lru_cache(maxsize=256)
def _prefix(text: str) -> tuple[str, str]:
    """Registry, in lower case, and repository path of a prefix; the path is empty for a whole registry."""
    path = text.removesuffix("/")
    if not path:
        raise ValueError("an empty prefix of image references would hold every image or none")
    first, slash, rest = path.partition("/")
    registry, repository = (first, rest) if _is_registry(first) else (_DEFAULT_REGISTRY, path)
    _check_registry(text, registry)
    if repository or slash:
        _check_repository(text, repository)
    registry = registry.lower()
    return _DEFAULT_REGISTRY if registry == _LEGACY_REGISTRY else registry, repository


@lru_cache(maxsize=1024)
def _pattern(text: str) -> tuple[str, str, bool]:
    """Registry, in lower case, the rest of a pattern, and whether that is all of a name."""
    if not text.endswith("*"):
        reference = ImageReference.parse(text)
        return reference.registry.lower(), str(reference).removeprefix(f"{reference.registry}/"), True
    registry, name = _split(text[:-1])
    _check_registry(text, registry)
    if not _BEGINNING.fullmatch(name):
        raise _error(text, "before the '*' it must be the beginning of a repository, tag or digest")
    if registry == _DEFAULT_REGISTRY and name and "/" not in name:
        name = f"library/{name}"
    return registry.lower(), name, False


def _check_registry(text: str, registry: str) -> None:
    if len(registry) > _LONGEST_REGISTRY or not _REGISTRY.fullmatch(registry):
        raise _error(text, "the part before the first '/' is not a host with an optional port")


def _check_repository(text: str, repository: str) -> None:
    if not repository:
        raise _error(text, "the repository's name is missing")
    if len(repository) > _LONGEST_REPOSITORY:
        raise _error(text, f"the repository's name is longer than {_LONGEST_REPOSITORY} characters")
    if repository != repository.lower():
        raise _error(text, "the repository's name must be lower-case")
    if not _REPOSITORY.fullmatch(repository):
        raise _error(text, "the repository must be letters and digits joined by '.', '_', '__', '-', '/'")


def _error(text: str, reason: str) -> ValueError:
    shown = text if len(text) <= 300 else f"{text[:300]}..."
    return ValueError(f"invalid image reference {shown!r}: {reason}")
