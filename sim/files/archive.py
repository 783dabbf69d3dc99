"""NumPy's files: .npy, and .npz archives of them.  Read by hand, because `numpy.load` believes what a header announces.

A header is plain text; what it says is compared with the bytes that are there before an array is made.  Python objects
(pickles) are never read: they can run code.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sim.files.content import read_bytes
from sim.files.errors import FileError, quoted, within

MOST_ENTRIES = 10_000
FREE_EXPANSION, EXPANSION = 2**26, 100
"""An archive unpacks to at most 64 MiB and 100 times its size: measured motion shrinks to 1/2, a bomb to 1/1000."""

_LONGEST_HEADER = 10_000
_MAGIC = b"\x93NUMPY"
_VALUE = r"'(?:descr|fortran_order|shape)'\s*:\s*(?:'[^']*'|True|False|\([0-9L,\s]*\))"
_HEADER = re.compile(rf"\{{\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*,?\s*\}}\s*")
_FIELDS = {
    "descr": re.compile(r"'descr'\s*:\s*'([^']*)'"),
    "fortran_order": re.compile(r"'fortran_order'\s*:\s*(True|False)"),
    "shape": re.compile(r"'shape'\s*:\s*\(([0-9L,\s]*)\)"),
}
_TYPE = re.compile(r"[<>|=]?(?:(b1|[iu][1248]|f2|f4|f8|f16|c8|c16|c32)|([SU])([0-9]{1,9}))")
_DAMAGED = "write the file again, with sim's write_recording or numpy.savez"
# What `zipfile` raises for archives that are cut, changed, encrypted or packed in ways it does not know.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    IndexError,
    struct.error,
)


@dataclass(frozen=True)
class ArrayHeader:
    """What the head of a .npy says.  size: bytes of the values; offset: where they begin."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran_order: bool
    size: int
    offset: int


class Archive:
    """The arrays of a .npz, by name.  Raises FileError for what is none, when made and when an array is asked for."""

    def __init__(self, content: bytes) -> None:
        if not content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            raise FileError(f"the file is no .npz archive: {_looks_like(content)}", _DAMAGED)
        self._size = len(content)
        self._unpacked = 0
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _ZIP_ERRORS as error:
            raise FileError(f"the file is damaged, it is no whole .npz archive ({_said(error)})", _DAMAGED) from error
        entries = self._zip.infolist()
        if len(entries) > MOST_ENTRIES:
            raise FileError(
                f"the archive has {len(entries):,} entries, more than the {MOST_ENTRIES:,} that are read", _DAMAGED
            )
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in self._entries:
                raise FileError(f"the archive is damaged: it has two arrays {quoted(name)}", _DAMAGED)
            if entry.filename.endswith(".npy"):
                self._entries[name] = entry

    @property
    def names(self) -> list[str]:
        """The arrays of the archive, in its order."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> np.ndarray:
        """An array of numbers or texts; KeyError where there is none of the name."""
        header = self.header(name)
        entry = self._entries[name]
        self._unpacked += entry.file_size
        if self._unpacked > FREE_EXPANSION + EXPANSION * self._size:
            raise FileError(
                f"array {quoted(name)} unpacks to {entry.file_size:,} bytes, in a file of {self._size:,}: that is no"
                " recording",
                "store it uncompressed (numpy.savez) if it is meant",
            )
        return _array(self._read(entry, entry.file_size), header)

    def header(self, name: str) -> ArrayHeader:
        """Shape and type of an array, without reading it; KeyError where there is none of the name."""
        entry = self._entries[name]
        if entry.flag_bits & 1:
            raise FileError(f"array {quoted(name)} is encrypted", "write the archive without a password")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(f"array {quoted(name)} is packed by a method that NumPy does not use", _DAMAGED)
        content = self._read(entry, _LONGEST_HEADER)
        with within(f"array {quoted(name)}"):
            return read_header(content, entry.file_size)

    def _read(self, entry: zipfile.ZipInfo, most: int) -> bytes:
        try:
            with self._zip.open(entry) as file:
                return _up_to(file, most)
        except _ZIP_ERRORS as error:
            raise FileError(
                f"array {quoted(entry.filename.removesuffix('.npy'))} is damaged ({_said(error)})", _DAMAGED
            ) from error


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file.  Raises FileError."""
    content = read_bytes(path)
    if not content.startswith(_MAGIC):
        raise FileError(f"the file is no .npy array: {_looks_like(content)}", "write it by numpy.save")
    return _array(content, read_header(content, len(content)))


def read_header(content: bytes, length: int) -> ArrayHeader:
    """The head of a .npy, of which `content` is the beginning and `length` the number of bytes in all.

    Raises FileError where it is none, announces what is not read, or other than the number of bytes that are there.
    """
    if not content.startswith(_MAGIC) or len(content) < 12 or content[6] not in (1, 2, 3):
        raise FileError("the array is damaged: it does not begin like a .npy", _DAMAGED)
    start = 10 if content[6] == 1 else 12
    offset = start + int.from_bytes(content[8:start], "little")
    # Runs of blanks pad a header, and would be tried at every place between two parts of the pattern.
    text = " ".join(content[start:offset].decode("utf-8", errors="replace").split())
    fields = {key: pattern.findall(text) for key, pattern in _FIELDS.items()}
    if offset > min(len(content), _LONGEST_HEADER):
        raise FileError("the array is damaged: its header does not end", _DAMAGED)
    if "'descr'" in text and not fields["descr"]:
        raise FileError("the array holds records", "store plain arrays of numbers")
    if _HEADER.fullmatch(text) is None or any(len(found) != 1 for found in fields.values()):
        raise FileError(f"the array is damaged: its header is {quoted(text)}", _DAMAGED)
    dtype = _dtype(fields["descr"][0])
    shape = _shape(fields["shape"][0])
    size = math.prod(shape) * dtype.itemsize
    if size != length - offset:
        raise FileError(
            f"the array announces the shape {_short(shape)}, {size:,} bytes, and has {length - offset:,}", _DAMAGED
        )
    return ArrayHeader(shape, dtype, fields["fortran_order"][0] == "True", size, offset)


def _dtype(text: str) -> np.dtype:
    if text.lstrip("<>|=").startswith("O"):
        raise FileError(
            "the array holds pickled Python objects, which are never read: they can run code",
            "store plain numeric arrays",
        )
    found = _TYPE.fullmatch(text)
    if found is None or found[3] == "0" * len(found[3] or " "):
        raise FileError(
            f"the array has values of the type {quoted(text)}, which is not read", "store plain numeric arrays"
        )
    try:
        return np.dtype(text)
    except TypeError:  # a long double that this machine does not have
        raise FileError(
            f"the array has values of the type {quoted(text)}, which this machine does not know", "store float64"
        ) from None


def _shape(text: str) -> tuple[int, ...]:
    words = [word.strip().removesuffix("L") for word in text.split(",")]
    if words[-1] == "":
        words.pop()
    if len(words) > 32 or not all(word.isdigit() and len(word) < 20 for word in words):
        raise FileError(f"the array is damaged: its shape is {quoted(text)}", _DAMAGED)
    return tuple(int(word) for word in words)


def _array(content: bytes, header: ArrayHeader) -> np.ndarray:
    values = np.frombuffer(content, header.dtype, offset=header.offset)
    if header.dtype.kind == "b" and (np.frombuffer(content, np.uint8, offset=header.offset) > 1).any():
        raise FileError("the array is damaged: a truth value that is neither 0 nor 1", _DAMAGED)
    if (
        header.dtype.kind == "U"
        and (
            np.frombuffer(content, header.dtype.byteorder.replace("=", "") + "u4", offset=header.offset) > 0x10FFFF
        ).any()
    ):
        raise FileError("the array is damaged: a character that does not exist", _DAMAGED)
    return np.array(values.reshape(header.shape, order="F" if header.fortran_order else "C"))


def _up_to(file: IO[bytes], most: int) -> bytes:
    """The first bytes of an entry; where those are all of it, read to its end, so that its checksum is compared."""
    content = file.read(most)
    if len(content) < most:
        return content
    file.read(1)
    return content


def _short(shape: Sequence[int]) -> str:
    text = f"({', '.join(str(n) for n in shape[:6])}{', ...' if len(shape) > 6 else ''})"
    return text if len(text) < 90 else f"{text[:86]}...)"


def _said(error: Exception) -> str:
    """What the library says, which may quote kilobytes of the file."""
    return quoted(str(error)).strip("`")


def _looks_like(content: bytes) -> str:
    """What a file is that is not what its name says."""
    if content.startswith(_MAGIC):
        return "it is a single array (.npy)"
    if content.startswith(b"PK"):
        return "it is a zip archive"
    if content.startswith(b"\x80") and content[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "it is a pickle, and pickled Python objects are never read: they can run code"
    head = content[:200]
    if b"\0" not in head and sum(byte < 32 and byte not in b"\t\r\n" for byte in head) == 0:
        return f"it is a text that begins with {quoted(head.decode('utf-8', errors='replace').splitlines()[0])}"
    return "it begins with other bytes"
