"""The tree of errors.

WebhooksError
├── ConfigurationError     a user's mistake, found before the server answers: shown a line each, exit code 2
│   ├── LoadError          a policy file that does not load, with its file and line
│   └── ClusterError       a cluster that cannot be asked: there is no way to it, no answer, or no right
├── MalformedReview        a body that is no acceptable review, with the code its sender gets
├── PatchError             JSON Patch operations that are malformed or do not apply
├── PolicyFailure          a policy raised, returned what it must not, or overran its deadline
│   └── PolicyTimeout
└── Overloaded             a review for which there was no turn in time
"""

# What a Status calls the codes, as the API conventions do.
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
    """The root: everything this package raises on purpose."""


class ConfigurationError(WebhooksError):
    """A mistake in what the operator or the author of a policy wrote."""


class LoadError(ConfigurationError):
    """A policy file that does not load.

    Attributes:
        path: the file (or folder, or name) that was asked for.
        line: the line in that file, where one is known.
    """

    def __init__(self, message: str, *, path: str, line: int | None = None) -> None:
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}")
        self.path = path
        self.line = line


class ClusterError(ConfigurationError):
    """A cluster that cannot be asked.

    Attributes:
        code: the HTTP code of its answer; 0 where there was none.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class MalformedReview(WebhooksError):
    """A body that cannot be answered as the review it should be.

    Attributes:
        code: the HTTP code of the answer: 400 for a malformed body, 413 and 422 for one beyond the limits.
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class PatchError(WebhooksError):
    """JSON Patch operations that are malformed, beyond the limits, or do not apply (RFC 6902)."""


class PolicyFailure(WebhooksError):
    """A policy raised, returned what it must not return, or ran past its deadline.

    The message is for the log alone: a caller is told no more than the policy's name.
    """


class PolicyTimeout(PolicyFailure):
    """A policy that had not answered by its deadline."""


class Overloaded(WebhooksError):
    """There are more reviews than policies can be asked about in time."""
