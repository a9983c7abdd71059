"""The exceptions of this package, and the parts of messages that many modules share.

WebhooksError
├── ConfigurationError     a mistake of the user, found before the server answers: one line each, exit code 2
│   ├── LoadError          a policy file that cannot be loaded, with its file and line
│   └── ClusterError       a request to a cluster failed: no address, no response, or no permission
├── MalformedReview        a review that is rejected, with the HTTP code of the response
├── PatchError             a JSON Patch that is malformed or cannot be applied
├── PolicyFailure          a policy raised an exception, returned an invalid value, or missed its deadline
│   └── PolicyTimeout
└── Overloaded             no slot became free for a review in time
"""

import os

# The reasons in a Status for HTTP codes, from the Kubernetes API conventions.
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    431: "RequestHeaderFieldsTooLarge",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class WebhooksError(Exception):
    """Base class of all exceptions that this package raises on purpose."""


class ConfigurationError(WebhooksError):
    """A mistake of the operator or of the author of a policy."""


class LoadError(ConfigurationError):
    """A policy file that cannot be loaded.

    Attributes:
        path: the path or name that was requested.
        line: the line in that file, if known.
    """

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}")
        self.path = path
        self.line = line


class ClusterError(ConfigurationError):
    """A request to a cluster that failed.

    Attributes:
        code: the HTTP code of the response; 0 if there was no response.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class MalformedReview(WebhooksError):
    """A request body that is not a valid review.

    Attributes:
        code: the HTTP code of the response: 400 for a malformed body, 413 or 422 for a body beyond the limits.
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class PatchError(WebhooksError):
    """A JSON Patch (RFC 6902) that is malformed, exceeds the limits, or cannot be applied."""


class PolicyFailure(WebhooksError):
    """A policy raised an exception, returned an invalid value, or missed its deadline.

    The message is only for the log: a client gets no more than the name of the policy.
    """


class PolicyTimeout(PolicyFailure):
    """A policy that did not return before its deadline."""


class Overloaded(WebhooksError):
    """More reviews wait for policies than can be answered in time."""


def printable(text: str) -> str:
    r"""Return a text on one line that is safe to print on a terminal.

    Characters that are not printable (control characters, line separators, lone surrogates ...) become the escape
    sequences of a Python string: a line feed becomes ``\n``.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def reason_for(error: BaseException) -> str:
    """Describe an exception on one line; of an OSError only the reason, without the path and the number."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return printable(reason.strip()) or type(error).__name__


def unreadable(path: os.PathLike[str] | str, error: Exception, remedy: str = "") -> ConfigurationError:
    """Return the exception for a file that cannot be read."""
    return _file_error(path, "cannot be read", error, remedy)


def unwritable(path: os.PathLike[str] | str, error: Exception, remedy: str = "") -> ConfigurationError:
    """Return the exception for a file that cannot be written."""
    return _file_error(path, "cannot be written", error, remedy)


def _file_error(path: os.PathLike[str] | str, problem: str, error: Exception, remedy: str) -> ConfigurationError:
    message = f"{printable(os.fspath(path))}: {problem}: {reason_for(error)}"
    return ConfigurationError(f"{message}: {remedy}" if remedy else message)


def missing_extra(feature: str, extra: str, error: ImportError) -> ConfigurationError:
    """Return the exception for a module that an extra of this package installs.

    Args:
        feature: what requires the module, such as an option.
        extra: the name of the extra.
        error: the error of the import.
    """
    return ConfigurationError(
        f"{feature} requires the module {error.name}: install the extra {extra}: pip install "
        f"'cluster-webhooks[{extra}]', or '.[{extra}]' in a clone"
    )
