"""The content of a file, as bytes or as text: of regular files only, and of those up to a size."""

from __future__ import annotations

import difflib
import stat
from pathlib import Path

from sim.files.errors import FileError

LARGEST_FILE = 2**33
"""Bytes of a file at most (8 GiB): what is larger would not fit into memory beside what is made of it."""

LARGEST_TEXT = 2**30
"""Bytes of a text at most (1 GiB): as Python objects it takes many times as much."""

_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The content of a file.  Raises FileError: not there, a folder, a pipe or device, unreadable, empty, too large."""
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise FileError("cannot read the file: it is a folder", "name the file in it")
        if not stat.S_ISREG(about.st_mode):  # a pipe waits for ever, a device may have no end
            raise FileError("cannot read the file: it is a pipe or a device", "name a regular file")
        with open(path, "rb") as file:
            # A read of so many bytes allocates them first: what the file has, and one more for a file that grows.
            content = file.read(about.st_size + 1) if about.st_size <= largest else b""
    except FileNotFoundError:
        raise FileError("there is no such file", near(path)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read the file: {getattr(error, 'strerror', None) or error}") from error
    if max(about.st_size, len(content)) > largest:
        raise FileError(
            f"the file has {max(about.st_size, len(content)):,} bytes, more than the {largest:,} that are read",
            "split it, or keep only what is needed",
        )
    if not content:
        raise FileError("the file is empty", "write it again")
    return content


def near(path: Path) -> str:
    """A hint for a file that is not there: `did you mean`, or that its folder is missing."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    close = difflib.get_close_matches(
        path.name, [other.name for other in path.parent.iterdir() if other != path], n=1, cutoff=0.5
    )
    return f"did you mean `{close[0]}`?" if close else "check the name"


def read_text(path: Path, largest: int = LARGEST_TEXT, lenient: bool = False) -> str:
    """The text of a UTF-8 file, its lines ended by "\\n" alone.  Raises FileError, also for what is no text.

    lenient: bytes that are no UTF-8 become U+FFFD; for formats whose comments are in any encoding.
    """
    return text_of(read_bytes(path, largest), lenient)


def text_of(content: bytes, lenient: bool = False) -> str:
    """As `read_text`, of bytes."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            raise FileError(f"the file is {name} text, expected UTF-8", "save it as UTF-8")
    nul = content.find(b"\0")
    if nul >= 0:
        raise FileError(
            f"line {_line(content, nul)}: a byte of zero: the file is no text, or one in UTF-16",
            "save it as UTF-8 text",
        )
    try:
        text = content.decode("utf-8-sig", errors="replace" if lenient else "strict")
    except UnicodeDecodeError as error:
        raise FileError(
            f"line {_line(content, error.start)}: byte 0x{content[error.start]:02x} is not UTF-8 text",
            "save it as UTF-8",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1
