"""The one error of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SHOWN = 60
"""Characters of a file that a message shows."""


class FileError(ValueError):
    """A file, or something in it, that cannot be used: `what` is wrong, where in the file, `hint` what to do instead.

    The reader that asked for it adds the name of the file.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}\n  {hint}" if hint else what)


@contextmanager
def within(place: str, hint: str = "") -> Iterator[None]:
    """Errors inside the block get a place (`line 3`) in front, and a hint where they have none."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{place}: {error.what}", error.hint or hint) from None


def quoted(text: str) -> str:
    """A piece of a file for a message: short, on one line, and nothing that a terminal would obey."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: SHOWN + 1])
    return f"`{shown[:SHOWN]}...`" if len(text) > SHOWN or len(shown) > SHOWN else f"`{shown}`"
