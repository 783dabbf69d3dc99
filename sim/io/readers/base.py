"""What a format of recordings is, and what a reader finds in a file, before units and axes are ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sim.files import quoted, read_text
from sim.io.recording import RecordingError

Row = tuple[int, list[str]]
"""The number of a line, and its cells."""

UNITS = {
    "m": 1.0, "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0, "dm": 0.1,
    "cm": 0.01, "centimeter": 0.01, "centimeters": 0.01, "centimetres": 0.01,
    "mm": 0.001, "millimeter": 0.001, "millimeters": 0.001, "millimetres": 0.001,
    "um": 1e-6, "in": 0.0254, "inch": 0.0254, "inches": 0.0254, "ft": 0.3048, "feet": 0.3048,
}  # fmt: skip
"""Units of length as files name them, in metres."""


@dataclass(frozen=True, eq=False)
class Raw:
    """A recording as its file has it.

    positions: (frames, markers, 3), in the unit and along the axes of the file, NaN where not seen; labels: (markers,).
    time: (frames,) [s]; else numbers: (frames,) of the frames, which take a rate [Hz]: `rate`, where the file says it.
    unit: as the file names it, `mm`; up: its axis that points up, `z` or `-y`; "": it does not say.
    ours: it is in metres and along our axes, because the format is ours and says so.
    notes: what was left out, or should be known.
    """

    positions: np.ndarray
    labels: tuple[str, ...]
    time: np.ndarray | None = None
    numbers: np.ndarray | None = None
    rate: float | None = None
    time_name: str = "time"
    unit: str = ""
    up: str = ""
    ours: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A file that is read.  key: the array of an archive."""

    path: Path
    key: str | None = None

    @cached_property
    def text(self) -> str:
        """Its text.  Raises FileError."""
        return read_text(self.path)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of a csv file that are not empty, their cells without blanks around them.  Raises RecordingError."""
        if self.key is not None:
            raise RecordingError("a csv file holds one recording and has no keys", "leave `key` out")
        reader = csv.reader(io.StringIO(self.text), strict=True)
        try:
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
        except csv.Error as error:
            raise RecordingError(f"line {reader.line_num}: the file is not a text in csv form ({error})") from error
        rows = [row for row in rows if any(row[1])]
        if not rows:
            raise RecordingError(
                "the file is empty", "expected a header `time, <marker>.x, <marker>.y, <marker>.z, ...`"
            )
        return rows

    def no_key(self) -> None:
        """An error where a key was given.  Raises RecordingError."""
        if self.key is not None:
            raise RecordingError(f"a {self.path.suffix} file holds one recording and has no keys", "leave `key` out")


@dataclass(frozen=True)
class RecordingFormat:
    """A format that recordings are read from.

    name: for people.  suffixes: of its files; those with the same are told apart by `fits`, the first that does, or has
    none, is taken.  extra: the extra of our package that it needs.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Source], Raw]
    fits: Callable[[Source], bool] | None = None
    extra: str = ""


def unit_of(word: str, where: str) -> float:
    """Metres in a unit that a file names.  Raises RecordingError, with what names it."""
    try:
        return UNITS[word.strip().lower()]
    except KeyError:
        raise RecordingError(f"{where} {quoted(word)}, which is no known unit of length", SAY_UNIT) from None


SAY_UNIT = "say the unit of its lengths: `unit: mm` in a scene, `--unit mm` on the command line"
SAY_UP = (
    "say which of its axes points up: `up: z` (or y, x, -y, ...) in a scene, `--up z` on the command line; or all of"
    " them by `axes`"
)
