"""Reading and writing recordings.  Written are two formats, both plain data; `readers` has those that are read too.

* **npz**: `<key>` (frames, markers, 3); times from `<key>_time` (frames,) [s], else from a rate [Hz], given or stored
  as `<key>_rate` or `rate`; names from `<key>_labels` or `labels` (markers,), optional.
* **csv**: header `time, <marker>.x, <marker>.y, <marker>.z, ...`, one row per frame, an empty cell = not seen.

NaN means that a marker was not seen in that frame.  A unit, and which axis points up, are as the file says; where it
does not, they have to be told.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.files import FileError, read_bytes
from sim.io.readers import SAY_UNIT, SAY_UP, SUFFIXES, UNITS, Raw, Source, find_format, unit_of
from sim.io.recording import SAME_TIME, Origin, Recording, RecordingError
from sim.io.run_folder import npz_bytes, write_atomically

FARTHEST = 1e9
"""A coordinate [m] at most: what is further away is no measurement."""


def load_recording(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    rate: float | None = None,
    unit: float | None = None,
    start: float | str | Mapping[str, int] | None = None,
    duration: float | None = None,
    axes: Sequence[str] | None = None,
    up: str | None = None,
    world_up: str | None = "y",
    mirror: bool = False,
    markers: Sequence[int | str] | None = None,
    marker_count: int | None = None,
    before: float = 0.0,
) -> Recording:
    """Load a recording of any of the formats that are read; every complaint is a `RecordingError` that names the file.

    Args:
        path: the file: .npz, .csv (wide, long, Motive, DeepLabCut, Anipose, SLEAP), .trc or .c3d.
        key: the array of an `.npz`; may be left out if just one array has the shape (frames, markers, 3).
        rate: frames per second [Hz], where the file has no times.
        unit: metres per unit of the file: 0.001 for millimetres.  None: as the file says; sim's own are in metres.
        start: what becomes t = 0: a time [s] of the file's own clock, or `"frame 71"`, or `{"frame": 71}`.  None: the
            clock of the file counts (its first frame need not be at 0: a run may record after its first step).
        duration: how long the recording is needed from t = 0 on [s]; later frames are dropped, too few are an error.
        axes: the file's axes that become our x, y, z, such as `["z", "-y", "x"]`; must be a rotation unless `mirror`.
        up: which of its axes points up, such as `z`, instead of `axes`.  None: as the file says; sim's own have ours.
        world_up: our axis that points up, to which `up` is turned; None: none of them does.
        markers: which markers, by column or label; None takes all.
        marker_count: how many markers there have to be after `markers`; another number is an error.
        before: how long before `start` [s] frames are kept, at negative times, as far as there are any.
    """
    path = Path(path)
    source = Source(path, key)
    try:
        kind = find_format(source)
        if kind is None:
            read_bytes(path)  # says so where there is no such file
            raise RecordingError(
                f"unknown kind of recording `{path.suffix}`", f"recordings are {', '.join(SUFFIXES)} files"
            )
        raw = kind.read(source)
        time = _times(raw, rate)
        notes = list(raw.notes)
        size, unit_from = _unit(raw, unit, notes)
        taken, axes_from = _axes(raw, axes, up, world_up, notes)
        turn = _axes_matrix(taken, mirror)
        recording = Recording(raw.positions, time, raw.labels)
        if markers is not None:
            recording = recording.select(markers)
        if marker_count is not None and recording.marker_count != marker_count:
            raise RecordingError(
                f"the recording has {recording.marker_count} markers, the scene compares {marker_count}",
                "choose the columns that belong to the scene's markers with `markers: {name: [columns]}`",
            )
        with np.errstate(over="ignore"):
            positions = recording.positions * size
        _check_near(positions)
        if tuple(taken) != ("x", "y", "z"):
            positions = positions @ turn.T
        recording = Recording(positions, recording.time, recording.labels)
        if start is not None:
            recording = recording.from_time(moment(recording, start), before)
        if duration is not None:
            recording = _first(recording, duration)
    except (RecordingError, FileError) as error:
        raise RecordingError(f"{path}: {error.what}", error.hint) from error
    origin = Origin(kind.name, size, unit_from, tuple(taken), axes_from, tuple(notes))
    return replace(recording, origin=origin)


def write_recording(path: str | os.PathLike[str], /, **recordings: Recording) -> Path:
    """Write recordings under their names, atomically: `write_recording("take.npz", fabric=recording)`.

    An `.npz` holds any number of recordings (`<key>`, `<key>_time`, `<key>_labels`), a `.csv` exactly one.
    Positions and times are read back bit for bit.
    """
    path = Path(path)
    if not recordings:
        raise ValueError("nothing to write: name at least one recording, as in write_recording(path, fabric=recording)")
    if path.suffix.lower() == ".csv":
        if len(recordings) != 1:
            raise ValueError(f"a csv file holds one recording, not {len(recordings)}; write an .npz")
        return write_atomically(path, _csv_text(next(iter(recordings.values()))))
    arrays: dict[str, Any] = {}
    for key, recording in recordings.items():
        arrays[key] = recording.positions
        arrays[f"{key}_time"] = recording.time
        arrays[f"{key}_labels"] = np.array(recording.labels, dtype=str)
    return write_atomically(path, npz_bytes(arrays))


def _times(raw: Raw, rate: float | None) -> np.ndarray:
    """Times [s] of the frames: those stored, else frame / rate, the rate that was given before the stored one."""
    frames, stored, name = len(raw.positions), raw.time, raw.time_name
    if stored is not None:
        if stored.shape == (frames,) and rate is not None and frames > 1:
            with np.errstate(all="ignore"):
                measured = 1.0 / np.median(np.diff(stored.astype(np.float64)))
            if not abs(measured / rate - 1.0) < 0.01:
                raise RecordingError(
                    f"`rate` is {rate:g} Hz, but `{name}` in the file says {measured:.4g} Hz", "leave `rate` out"
                )
        return stored
    rate = raw.rate if rate is None else rate
    if rate is None:
        raise RecordingError(
            f"the file has no times (`{name}`) and no rate",
            "say how fast it was recorded: `rate: 100 Hz` in a scene, `--rate 100` on the command line",
        )
    if not 0 < rate < math.inf or not math.isfinite(frames / rate):
        raise RecordingError(f"the rate is {rate:g} Hz, expected a positive number")
    numbers = np.arange(frames) if raw.numbers is None else raw.numbers
    return (numbers - numbers[0]) / rate if frames else numbers / rate


def _unit(raw: Raw, unit: float | None, notes: list[str]) -> tuple[float, str]:
    """Metres per unit of the file, and who says so."""
    if unit is not None:
        if raw.unit and not math.isclose(UNITS.get(raw.unit.lower(), unit), unit):
            notes.append(f"the file says that its unit is {raw.unit}; it is read as told, {unit:g} m")
        return unit, "as told"
    if raw.unit:
        return unit_of(raw.unit, "the unit in the file is"), f"the file says {raw.unit}"
    if not raw.ours:
        raise RecordingError("the file names no unit of its lengths", SAY_UNIT)
    return 1.0, "this format is in metres, unless told"


def _axes(
    raw: Raw, axes: Sequence[str] | None, up: str | None, world_up: str | None, notes: list[str]
) -> tuple[Sequence[str], str]:
    """The axes of the file that become our x, y, z, and who says so."""
    if axes is not None:
        if up is not None:
            raise RecordingError("both `axes` and `up` are given", "`axes` says all that `up` does: leave one out")
        return axes, "as told"
    said = raw.up if up is None else up
    if not said:
        if not raw.ours:
            raise RecordingError("the file does not say which of its axes points up", SAY_UP)
        return ("x", "y", "z"), "this format has our axes, unless told"
    if world_up is None:
        raise RecordingError("gravity points along none of our axes, and `up` says nothing", "give `axes` instead")
    if up is not None and raw.up and up != raw.up:
        notes.append(f"the file says that its {raw.up} points up; it is read as told, {up}")
    return turned_up(said, world_up), "as told" if up is not None else f"the file says that its {said} points up"


def turned_up(up: str, world_up: str = "y") -> tuple[str, ...]:
    """The file's axes that become our x, y, z where its axis `up` becomes our `world_up`: at most a quarter turn about
    one of the others, half a turn where they are opposite."""
    file, world = (_axes_matrix(_UPRIGHT[name], False) for name in (up, world_up))
    matrix = world.T @ file
    return tuple(("-" if row.min() < 0 else "") + "xyz"[int(np.argmax(np.abs(row)))] for row in matrix)


_UPRIGHT = {
    "y": ("x", "y", "z"), "z": ("x", "z", "-y"), "x": ("-y", "x", "z"),
    "-y": ("x", "-y", "-z"), "-z": ("x", "-z", "y"), "-x": ("y", "-x", "z"),
}  # fmt: skip
"""Which axis points up -> the axes that become x, y, z, with y up."""


def _csv_text(recording: Recording) -> str:
    """The csv form, with as many digits as a float64 needs to come back unchanged."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["time", *(f"{label}.{axis}" for label in recording.labels for axis in "xyz")])
    for time, points in zip(recording.time, recording.positions, strict=True):
        cells = ["" if np.isnan(value) else repr(float(value)) for value in points.ravel()]
        writer.writerow([repr(float(time)), *cells])
    return buffer.getvalue()


def _check_near(positions: np.ndarray) -> None:
    """Some systems write an enormous number for a marker that was not seen."""
    far = np.argwhere((np.abs(positions) > FARTHEST).any(axis=2))
    if len(far):
        frame, marker = far[0]
        raise RecordingError(
            f"marker {marker} is more than {FARTHEST:g} m away in frame {frame}",
            "write NaN where a marker was not seen; or is it the `unit`?",
        )


def _axes_matrix(axes: Sequence[str], mirror: bool) -> np.ndarray:
    """The signed permutation (3, 3) that takes positions of the file to ours."""
    matrix = np.zeros((3, 3))
    names = [str(axis) for axis in axes]
    if sorted(name.lstrip("+-") for name in names) != ["x", "y", "z"]:
        raise RecordingError(
            f"axes {names}: expected each of x, y, z once, with or without a minus", "for instance [z, -y, x]"
        )
    for row, name in enumerate(names):
        matrix[row, "xyz".index(name[-1])] = -1.0 if name.startswith("-") else 1.0
    if np.linalg.det(matrix) < 0 and not mirror:
        raise RecordingError(
            f"axes {names} turn the recording into its mirror image",
            "flip one sign, or say `mirror: true` if that is meant",
        )
    return matrix


def moment(recording: Recording, start: float | str | Mapping[str, int]) -> float:
    """The time [s] of `start`: a time already, or a frame.  Raises RecordingError."""
    if isinstance(start, Mapping):
        start = f"frame {start.get('frame')}"
    if not isinstance(start, str):
        return float(start)
    word, _, number = start.strip().partition(" ")
    if word != "frame" or not number.strip().isdigit():
        raise RecordingError(
            f"start is `{start}`, expected a time in seconds or a frame", "for instance `start: frame 71`"
        )
    if int(number) >= recording.frame_count:
        raise RecordingError(
            f"start is frame {int(number)}, but the recording has {recording.frame_count} frames", "frames count from 0"
        )
    return float(recording.time[int(number)])


def _first(recording: Recording, duration: float) -> Recording:
    """The frames up to `duration` [s], with the one after it, so that the end can be interpolated."""
    if recording.time[-1] + recording.interval * (1 + SAME_TIME) < duration:
        raise RecordingError(
            f"the recording lasts {recording.time[-1]:g} s from its start, the experiment {duration:g} s",
            "shorten `time.duration`, or start the recording earlier",
        )
    end = int(np.searchsorted(recording.time, duration - SAME_TIME * recording.interval)) + 1
    return Recording(recording.positions[:end], recording.time[:end], recording.labels)
