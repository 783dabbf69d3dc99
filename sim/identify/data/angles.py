"""Recordings of angles over time, as encoders give them: a csv file with a column of times and one for each angle."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.files import FileError, number, quoted, read_text
from sim.io import RecordingError
from sim.io.recording import SAME_TIME, between_frames


@dataclass(frozen=True, eq=False)
class AngleTarget:
    """How an angle was seen, sampled at the frames of the experiment.

    values: (frames,) [rad], counting whole turns; NaN where it was not seen.  noise: standard deviation [rad].
    start: at t = 0, NaN if not seen then.
    """

    values: np.ndarray
    noise: float
    start: float = np.nan

    @property
    def seen(self) -> np.ndarray:
        """(frames,) bool."""
        return np.isfinite(self.values)


def read_angles(path: Path, unit: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (n,) [s] and angles by column (n,) [rad], whole turns counted, of a csv file `time, <name>, ...`.

    unit: of the file, in rad.  An angle is NaN where its cell is empty.  Raises RecordingError that names the file.
    """
    try:
        reader = csv.reader(io.StringIO(read_text(path)), strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
        if len(rows) < 2 or rows[0][1][0] != "time" or len(set(rows[0][1])) < max(2, len(rows[0][1])):
            found = quoted(", ".join(rows[0][1])) if rows else "missing"
            raise RecordingError(f"the header is {found}", "expected `time, <name>, ...` and a row for each moment")
        header = rows[0][1]
        table = np.array([_row(line, row, header) for line, row in rows[1:]])
    except csv.Error as error:
        raise RecordingError(f"{path}: the file is not a text in csv form ({error})") from error
    except (RecordingError, FileError) as error:
        raise RecordingError(f"{path}: {error.what}", error.hint) from error
    times = table[:, 0]
    if not np.all(np.diff(times) > 0):  # a missing one, too
        line = rows[1 + int(np.argmin(np.append(True, np.diff(times) > 0)))][0]
        raise RecordingError(f"{path}: line {line}: the time does not come after the one before it")
    return times, {name: _unwrapped(unit * table[:, 1 + k]) for k, name in enumerate(header[1:])}


def _row(line: int, row: list[str], header: list[str]) -> list[float]:
    if len(row) != len(header):
        raise RecordingError(f"line {line}: {len(row)} cells, the header has {len(header)}")
    try:
        return [np.nan if cell.lower() in ("", "nan") else number(cell) for cell in row]
    except FileError as error:
        raise RecordingError(f"line {line}: {error.what}", "leave the cell empty where nothing was seen") from None


def _unwrapped(angles: np.ndarray) -> np.ndarray:
    """Without jumps of a turn, whether the file counts them or not."""
    out, seen = angles.copy(), np.isfinite(angles)
    out[seen] = np.unwrap(angles[seen])
    return out


def sample_angles(
    times: np.ndarray, angles: Mapping[str, np.ndarray], column: str, at: np.ndarray, noise: float
) -> AngleTarget:
    """A column at the times of an experiment's frames, between its own by the cubic through four; NaN beside what was
    not seen.

    Raises RecordingError where the recording is shorter than the experiment, by more than one of its intervals.
    """
    interval = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    if at[-1] > times[-1] + interval * (1 + SAME_TIME):
        raise RecordingError(
            f"the recording ends at {times[-1]:g} s, the experiment needs {at[-1]:g} s", "shorten `time.duration`"
        )
    wanted, slack = np.append(0.0, at), SAME_TIME * interval
    values = between_frames(times, angles[column][:, None, None], wanted)[:, 0, 0]
    values[(wanted < times[0] - slack) | (wanted > times[-1] + slack)] = np.nan
    if not np.isfinite(values[1:]).any():
        raise RecordingError(f"`{column}` is seen at no frame of the experiment", "check `start`")
    return AngleTarget(values[1:], noise, float(values[0]))
