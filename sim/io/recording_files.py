"""Reading and writing recordings.  Two formats, both plain data: arrays of Python objects are never unpickled.

* **npz**: `<key>` (frames, markers, 3); times from `<key>_time` (frames,) [s], else from a rate [Hz], given or stored
  as `<key>_rate` or `rate`; names from `<key>_labels` or `labels` (markers,), optional.
* **csv**: header `time, <marker>.x, <marker>.y, <marker>.z, ...`, one row per frame, an empty cell = not seen.

NaN means that a marker was not seen in that frame.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.files import Archive, FileError, number, quoted, read_bytes, read_text
from sim.io.recording import SAME_TIME, Recording, RecordingError, suggest
from sim.io.run_folder import npz_bytes, write_atomically

FARTHEST = 1e9
"""A coordinate [m] at most: what is further away is no measurement."""


def load_recording(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    rate: float | None = None,
    unit: float = 1.0,
    start: float | str | Mapping[str, int] | None = None,
    duration: float | None = None,
    axes: Sequence[str] | None = None,
    mirror: bool = False,
    markers: Sequence[int | str] | None = None,
    marker_count: int | None = None,
) -> Recording:
    """Load a recording from an `.npz` or `.csv` file; every complaint is a `RecordingError` that names the file.

    Args:
        path: the file.
        key: the array of an `.npz`; may be left out if just one array has the shape (frames, markers, 3).
        rate: frames per second [Hz], where the file has no times.
        unit: metres per unit of the file: 0.001 for millimetres.
        start: what becomes t = 0: a time [s] of the file's own clock, or `"frame 71"`, or `{"frame": 71}`.  None: the
            clock of the file counts (its first frame need not be at 0: a run may record after its first step).
        duration: how long the recording is needed from t = 0 on [s]; later frames are dropped, too few are an error.
        axes: the file's axes that become our x, y, z, such as `["z", "-y", "x"]`; must be a rotation unless `mirror`.
        markers: which markers, by column or label; None takes all.
        marker_count: how many markers there have to be after `markers`; another number is an error.
    """
    path = Path(path)
    try:
        recording = _read_csv(path, key, rate) if path.suffix.lower() == ".csv" else _read_npz(path, key, rate)
        if markers is not None:
            recording = recording.select(markers)
        if marker_count is not None and recording.marker_count != marker_count:
            raise RecordingError(
                f"the recording has {recording.marker_count} markers, the scene compares {marker_count}",
                "choose the columns that belong to the scene's markers with `markers: {name: [columns]}`",
            )
        with np.errstate(over="ignore"):
            positions = recording.positions * unit
        _check_near(positions)
        if axes is not None:
            positions = positions @ _axes_matrix(axes, mirror).T
        recording = Recording(positions, recording.time, recording.labels)
        if start is not None:
            recording = recording.from_time(_start_time(recording, start))
        if duration is not None:
            recording = _first(recording, duration)
    except (RecordingError, FileError) as error:
        raise RecordingError(f"{path}{f' [{key}]' if key else ''}: {error.what}", error.hint) from error
    return recording


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


def _read_npz(path: Path, key: str | None, rate: float | None) -> Recording:
    content = read_bytes(path)
    if path.suffix.lower() not in (".npz", ".npy") and not content.startswith(b"PK"):
        raise RecordingError(f"unknown kind of recording `{path.suffix}`", "recordings are .npz or .csv files")
    if content.startswith(b"\x93NUMPY"):
        raise RecordingError("this is a single array, not an .npz archive", "write it with write_recording or np.savez")
    archive = Archive(content)
    if key is None:
        key = _only_key(archive)
    if key not in archive:
        raise RecordingError(f"there is no array `{key}`", suggest(key, archive.names, "arrays"))
    header = archive.header(key)
    if header.dtype.kind not in "fiu":
        raise RecordingError(f"the array has the type {header.dtype}, expected real numbers")
    if len(header.shape) != 3 or header.shape[2] != 3:
        raise RecordingError(
            f"the array has the shape {header.shape}, expected (frames, markers, 3)", "one marker is (frames, 1, 3)"
        )
    frames, markers, _ = header.shape
    time = _times(frames, _numbers(archive, f"{key}_time"), rate, _stored_rate(archive, key), key)
    labels = _labels(archive, f"{key}_labels", markers) if f"{key}_labels" in archive else ()
    if not labels and "labels" in archive and archive.header("labels").shape == (markers,):
        labels = _labels(archive, "labels", markers)  # else a file's common `labels` belong to another of its arrays
    return Recording(archive[key], time, labels)


def _only_key(archive: Archive) -> str:
    """The one array of an archive that can be a recording."""
    shapes = {name: archive.header(name).shape for name in archive.names}
    fitting = [name for name, shape in shapes.items() if len(shape) == 3 and shape[2] == 3]
    if len(fitting) == 1:
        return fitting[0]
    what = "several arrays" if fitting else "no array"
    raise RecordingError(
        f"{what} of the shape (frames, markers, 3)",
        f"say which one with `key`; arrays: {', '.join(archive.names[:20]) or 'none'}",
    )


def _numbers(archive: Archive, name: str) -> np.ndarray | None:
    """An array of real numbers, where the archive has it."""
    if name not in archive:
        return None
    kind = archive.header(name).dtype
    if kind.kind not in "fiu":
        raise RecordingError(f"`{name}` has the type {kind}, expected real numbers")
    return archive[name]


def _stored_rate(archive: Archive, key: str) -> float | None:
    """The rate [Hz] that the archive gives for an array, or for all of them."""
    for name in (f"{key}_rate", "rate"):
        stored = _numbers(archive, name)
        if stored is not None:
            if stored.size != 1:
                raise RecordingError(f"`{name}` has the shape {stored.shape}, expected one number [Hz]")
            return float(stored.reshape(-1)[0])
    return None


def _labels(archive: Archive, name: str, markers: int) -> tuple[str, ...]:
    """The names of the markers."""
    header = archive.header(name)
    if header.dtype.kind not in "USiu":
        raise RecordingError(f"`{name}` has the type {header.dtype}, expected texts")
    if header.shape != (markers,):
        raise RecordingError(
            f"`{name}` has the shape {header.shape}, {math.prod(header.shape)} labels for {markers} markers"
        )
    texts = [
        text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)
        for text in archive[name].tolist()
    ]
    return tuple(texts)


def _times(
    frames: int, stored: np.ndarray | None, rate: float | None, stored_rate: float | None, key: str
) -> np.ndarray:
    """Times [s] of the frames: those stored, else frame / rate, the rate that was given before the stored one."""
    if stored is not None:
        if stored.shape == (frames,) and rate is not None and frames > 1:
            with np.errstate(all="ignore"):
                measured = 1.0 / float(np.median(np.diff(stored.astype(np.float64))))
            if not abs(measured / rate - 1.0) < 0.01:
                raise RecordingError(
                    f"`rate` is {rate:g} Hz, but `{key}_time` in the file says {measured:.4g} Hz", "leave `rate` out"
                )
        return stored
    rate = stored_rate if rate is None else rate
    if rate is None:
        raise RecordingError(
            f"the file has no times (`{key}_time`) and no rate", "say how fast it was recorded: `rate: 100 Hz`"
        )
    if not 0 < rate < math.inf or not math.isfinite(frames / rate):
        raise RecordingError(f"the rate is {rate:g} Hz, expected a positive number")
    return np.arange(frames) / rate


def _read_csv(path: Path, key: str | None, rate: float | None) -> Recording:
    if key is not None:
        raise RecordingError("a csv file holds one recording and has no keys", "leave `key` out")
    reader = csv.reader(io.StringIO(read_text(path)), strict=True)
    try:
        numbered = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise RecordingError(f"line {reader.line_num}: the file is not a text in csv form ({error})") from error
    if not numbered:
        raise RecordingError("the file is empty", "expected a header `time, <marker>.x, <marker>.y, <marker>.z, ...`")
    header = [cell.strip() for cell in numbered[0][1]]
    has_time = header[0] == "time"
    labels = _csv_labels(numbered[0][0], header[1:] if has_time else header)
    values = np.empty((len(numbered) - 1, len(header)))
    for i, (line, row) in enumerate(numbered[1:]):
        if len(row) != len(header):
            raise RecordingError(f"line {line}: {len(row)} cells, the header has {len(header)}")
        for j, cell in enumerate(row):
            values[i, j] = _csv_number(cell.strip(), line, header[j])
    positions = values[:, 1:] if has_time else values
    time = _times(len(values), values[:, 0] if has_time else None, rate, None, "time")
    return Recording(positions.reshape(len(values), len(labels), 3), time, labels)


def _csv_labels(line: int, columns: list[str]) -> tuple[str, ...]:
    """The names of the markers, of the header without `time`."""
    labels = tuple(name.rpartition(".")[0] for name in columns[::3])
    if columns != [f"{label}.{axis}" for label in labels for axis in "xyz"] or not labels or not all(labels):
        separated = len(columns) == 1 and any(sign in columns[0] for sign in ";\t")
        raise RecordingError(
            f"line {line}: the header is {quoted(', '.join(columns))}",
            (
                "separate the cells by commas, with points in the numbers"
                if separated
                else "expected `time, <marker>.x, <marker>.y, <marker>.z, ...`"
            ),
        )
    return labels


def _csv_number(cell: str, line: int, column: str) -> float:
    if not cell or cell.lower() == "nan":
        return np.nan
    try:
        return number(cell)
    except FileError as error:
        raise RecordingError(
            f"line {line}: {error.what}, under {quoted(column)}", "leave the cell empty where a marker was not seen"
        ) from None


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


def _start_time(recording: Recording, start: float | str | Mapping[str, int]) -> float:
    """The time [s] of `start`: a time already, or a frame."""
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
