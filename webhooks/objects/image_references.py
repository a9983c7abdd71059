"""Parses references to container images, such as ``nginx`` or ``registry.example.com/team/app:1.2``."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

_DEFAULT_REGISTRY = "docker.io"
_LEGACY_REGISTRY = "index.docker.io"
_MAX_REGISTRY = 259  # characters: a DNS name and a port
_MAX_REPOSITORY = 255  # characters

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_NAME_PREFIX = re.compile(r"[a-z0-9._/-]*(?::[a-zA-Z0-9_.-]*)?(?:@[a-z0-9:]*)?")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A reference to an image, with the defaults of container tools filled in.

    ``str()`` returns the full form, which parses to an equal reference.

    Attributes:
        registry: the host of the registry, with the port if there is one: ``docker.io``, ``localhost:5000``,
            ``[::1]:5000``. Upper-case letters are kept.
        repository: the path in the registry, such as ``library/nginx``.
        tag: the tag; ``latest`` if the reference has neither tag nor digest; None if it has only a digest.
        digest: the algorithm and the hexadecimal digits, such as ``sha256:...``. If there is also a tag, the digest
            decides which image is pulled.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a reference as container tools do.

        The grammar and the defaults are those of the ``reference`` package of the distribution project
        (``ParseNormalizedNamed`` and ``TagNameOnly``). The part before the first slash is a registry only if it is
        ``localhost`` or contains a dot, a colon or an upper-case letter. Otherwise the registry is ``docker.io``, and
        a single name is a repository in ``library/``.

        Args:
            text: the reference, as in the ``image`` of a container.

        Raises:
            ValueError: the text is not a valid reference.
        """
        if _IDENTIFIER.fullmatch(text):
            raise _error(text, "64 hexadecimal digits are the ID of an image, not a name")
        registry, remainder = _split_registry(text)
        name, at, digest = remainder.partition("@")
        repository, colon, tag = name.partition(":")
        if registry == _DEFAULT_REGISTRY and repository and "/" not in repository:
            repository = f"library/{repository}"
        _check_registry(text, registry)
        _check_repository(text, repository)
        if colon and not _TAG.fullmatch(tag):
            raise _error(
                text, "the tag must be 1 to 128 letters, digits, '_', '.' and '-', and must not start with '.' or '-'"
            )
        if at and not _DIGEST.fullmatch(digest):
            raise _error(text, "the digest must be sha256, sha384 or sha512 with 64, 96 or 128 hexadecimal digits")
        return cls(registry, repository, tag if colon else None if at else "latest", digest if at else None)

    def within(self, prefix: str) -> bool:
        """Check whether the image is in a registry, a path of a registry, or a repository.

        Only complete components match: ``gcr.io/team`` matches ``gcr.io/team/app``, but not ``gcr.io/teams/app`` or an
        image of ``gcr.io.example.org``. Registries are compared without regard to case, but with their ports:
        ``gcr.io`` does not match an image of ``gcr.io:443``.

        Args:
            prefix: such as ``gcr.io``, ``gcr.io/team`` or ``gcr.io/team/app``; a slash at the end is ignored. The first
                component is a registry by the rule of `parse`, also if it is the only one. Otherwise the prefix is a
                path in ``docker.io``, without a default: ``bitnami`` matches the images of that account, and the
                official image of nginx is ``library/nginx``, not ``nginx``.

        Raises:
            ValueError: the prefix cannot match any image: it is empty, malformed, or has a tag, digest or wildcard.
        """
        registry, repository = _parse_prefix(prefix)
        if self.registry.lower() != registry:
            return False
        return not repository or f"{self.repository}/".startswith(f"{repository}/")

    def matches(self, pattern: str) -> bool:
        """Check whether the image matches a pattern: a reference, or a prefix of references followed by ``*``.

        The defaults of references apply to patterns too, so the registry of a pattern is always complete: ``gcr.io*``
        is a prefix of names in ``docker.io`` and does not match an image of ``gcr.io.example.org``.

        Args:
            pattern: ``gcr.io/team/*`` matches all images in that path, ``gcr.io/team/app*`` also matches
                ``gcr.io/team/app-2``, and ``*`` matches every image.

        Raises:
            ValueError: the pattern cannot match any image.
        """
        if pattern == "*":
            return True
        registry, name, is_exact = _parse_pattern(pattern)
        if self.registry.lower() != registry:
            return False
        full_name = str(self).removeprefix(f"{self.registry}/")
        return full_name == name if is_exact else full_name.startswith(name)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.registry}/{self.repository}{tag}{digest}"


def _split_registry(text: str) -> tuple[str, str]:
    first, slash, rest = text.partition("/")
    if not slash or not _is_registry(first):
        return _DEFAULT_REGISTRY, text
    return _DEFAULT_REGISTRY if first == _LEGACY_REGISTRY else first, rest


def _is_registry(component: str) -> bool:
    return "." in component or ":" in component or component == "localhost" or component != component.lower()


@lru_cache(maxsize=256)
def _parse_prefix(text: str) -> tuple[str, str]:
    """Return the registry, in lower case, and the repository path of a prefix; an empty path for a registry alone."""
    path = text.removesuffix("/")
    if not path:
        raise ValueError("the prefix of image references is empty")
    first, slash, rest = path.partition("/")
    registry, repository = (first, rest) if _is_registry(first) else (_DEFAULT_REGISTRY, path)
    _check_registry(text, registry)
    if repository or slash:
        _check_repository(text, repository)
    registry = registry.lower()
    return _DEFAULT_REGISTRY if registry == _LEGACY_REGISTRY else registry, repository


@lru_cache(maxsize=1024)
def _parse_pattern(text: str) -> tuple[str, str, bool]:
    """Return the registry, in lower case, and the rest of a pattern, and whether it is an exact name."""
    if not text.endswith("*"):
        reference = ImageReference.parse(text)
        return reference.registry.lower(), str(reference).removeprefix(f"{reference.registry}/"), True
    registry, name = _split_registry(text[:-1])
    _check_registry(text, registry)
    if not _NAME_PREFIX.fullmatch(name):
        raise _error(text, "the part before '*' must be a prefix of a repository, tag or digest")
    if registry == _DEFAULT_REGISTRY and name and "/" not in name:
        name = f"library/{name}"
    return registry.lower(), name, False


def _check_registry(text: str, registry: str) -> None:
    if len(registry) > _MAX_REGISTRY or not _REGISTRY.fullmatch(registry):
        raise _error(text, "the part before the first '/' must be a host with an optional port")


def _check_repository(text: str, repository: str) -> None:
    if not repository:
        raise _error(text, "the repository is missing")
    if len(repository) > _MAX_REPOSITORY:
        raise _error(text, f"the repository is longer than {_MAX_REPOSITORY} characters")
    if repository != repository.lower():
        raise _error(text, "the repository must be in lower case")
    if not _REPOSITORY.fullmatch(repository):
        raise _error(text, "the repository must consist of letters and digits, separated by '.', '_', '__', '-' or '/'")


def _error(text: str, reason: str) -> ValueError:
    excerpt = text if len(text) <= 300 else f"{text[:300]}..."
    return ValueError(f"invalid image reference {excerpt!r}: {reason}")
