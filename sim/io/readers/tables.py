"""What formats that are tables have in common: names of columns, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.files import FileError, number, numbers, quoted
from sim.io.readers.base import UNITS, Row
from sim.io.recording import RecordingError

MISSING = ("", "nan", "NaN", "NAN", "NA", "null")
FRAME_NAMES = ("frame", "frame#", "frames", "fnum", "frame_idx", "frame_number", "frame number", "frame_index")
_COORDINATE = re.compile(r"(?:(.+?)\s*[._ :])?([xyzXYZ])\s*(?:[\[(]\s*(\w+)\s*[\])]|_(\w+))?")
_TIME = re.compile(r"(time|t|timestamp)\s*(?:[\[(_ ]\s*(s|sec|seconds|ms|milliseconds|us)\s*[\])]?)?", re.IGNORECASE)
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6}


@dataclass(frozen=True)
class Coordinate:
    """What the name of a column says: of which marker ("": none) which axis, 0 to 2, in which unit ("": none)."""

    label: str
    axis: int
    unit: str


def coordinate(name: str) -> Coordinate | None:
    """Of `tip.x`, `tip_X`, `tip x [mm]`, `tip_x_mm`, `x`; None for the name of another column."""
    found = _COORDINATE.fullmatch(name)
    if found is None or (found[4] and found[4].lower() not in UNITS):
        return None
    return Coordinate(found[1] or "", "xyz".index(found[2].lower()), found[3] or found[4] or "")


def time_factor(name: str, line: int) -> float | None:
    """Seconds in the unit of a column of times; None for another column.  Raises RecordingError: it names no unit."""
    found = _TIME.fullmatch(name)
    if found is None:
        return None
    if found[2]:
        return _SECONDS[found[2].lower()]
    if found[1].lower() == "time":
        return 1.0
    raise RecordingError(
        f"line {line}: the column {quoted(name)} names no unit", "call it `time`, in seconds, or `time [ms]`"
    )


def is_frame(name: str) -> bool:
    """Whether a column has the numbers of the frames."""
    return name.lower() in FRAME_NAMES


def values_of(rows: Sequence[Row], width: int, columns: Sequence[int], names: Sequence[str]) -> np.ndarray:
    """Numbers (rows, columns) of some columns, NaN where a cell is empty; rows have `width` cells.

    Raises RecordingError, with line and column.
    """
    out = np.empty((len(rows), len(columns)))
    for k, (line, row) in enumerate(rows):
        if len(row) != width:
            raise RecordingError(f"line {line}: {len(row)} cells, the header has {width}")
        words = [row[c] for c in columns]
        gaps = [word in MISSING for word in words]
        try:
            out[k] = numbers(["0" if gap else word for gap, word in zip(gaps, words, strict=True)])
        except FileError:
            for word, gap, c in zip(words, gaps, columns, strict=True):
                if not gap:
                    _checked(word, line, names[c])
        out[k, gaps] = np.nan
    return out


def _checked(word: str, line: int, column: str) -> None:
    try:
        number(word)
    except FileError as error:
        raise RecordingError(
            f"line {line}: {error.what}, under {quoted(column)}", "leave the cell empty where a marker was not seen"
        ) from None


def one_unit(units: Sequence[str], line: int) -> str:
    """The unit that all columns of lengths name, "" if none does.  Raises RecordingError where they differ."""
    named = sorted(set(units))
    if len(named) > 1:
        shown = " and ".join(f"`{unit}`" if unit else "none" for unit in named[:3])
        raise RecordingError(f"line {line}: the columns name different units: {shown}", "write all in one unit")
    return named[0] if named else ""


def named_few(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names, for a message."""
    shown = ", ".join(quoted(name) for name in names[:most])
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")
