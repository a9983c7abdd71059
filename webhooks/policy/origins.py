"""Where policies are written, so that messages can send their authors there."""

import sys
from dataclasses import dataclass
from types import FrameType

# What lies between an author and `Origin.of_author`.
_BETWEEN = frozenset(("webhooks.policy.decorators", "webhooks.policy.origins", "webhooks.policy.model"))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a policy was written: a file and a line in it.

    Attributes:
        path: the file.
        line: in it.
        home: the file whose execution made it, perhaps another.
        name: the policy's name there.
    """

    path: str
    line: int
    home: str
    name: str

    @classmethod
    def of_author(cls, name: str) -> "Origin":
        """Where the author stands who called us for a policy of a name: the nearest place outside of our modules."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
            frame = frame.f_back
        assert frame is not None
        home: FrameType | None = frame
        while home is not None and home.f_code.co_name != "<module>":
            home = home.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno, (home or frame).f_code.co_filename, name)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"
