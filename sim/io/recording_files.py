"""Reading and writing recordings.  Two formats, both plain data: arrays of Python objects are never unpickled.

* **npz**: `<key>` (frames, markers, 3); times from `<key>_time` (frames,) [s], else from a rate [Hz], given or stored
  as `<key>_rate` or `rate`; names from `<key>_labels` or `labels` (markers,), optional.
* **csv**: header `time, <marker>.x, <marker>.y, <marker>.z, ...`, one row per frame, an empty cell = not seen.

NaN means that a marker was not seen in that frame.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.io.recording import SAME_TIME, Recording, RecordingError, suggest
from sim.io.run_folder import npz_bytes, write_atomically


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
        positions = recording.positions * unit
        if axes is not None:
            positions = positions @ _axes_matrix(axes, mirror).T
        recording = Recording(positions, recording.time, recording.labels)
        if start is not None:
            recording = recording.from_time(_start_time(recording, start))
        if duration is not None:
            recording = _first(recording, duration)
    except RecordingError as error:
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
    content = _open(path)
    if path.suffix.lower() not in (".npz", ".npy") and not zipfile.is_zipfile(path):
        raise RecordingError(f"unknown kind of recording `{path.suffix}`", "recordings are .npz or .csv files")
    try:
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise RecordingError(
                "this is a single array, not an .npz archive", "write it with write_recording or np.savez"
            )
        names = archive.files
        if key is None:
            key = _only_key(archive)
        if key not in names:
            raise RecordingError(f"there is no array `{key}`", suggest(key, names, "arrays"))
        positions = archive[key]
        side = (f"{key}_time", f"{key}_rate", f"{key}_labels", "rate", "labels")
        optional = {name: archive[name] for name in side if name in names}
    except RecordingError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, SyntaxError) as error:
        if "pickle" in str(error):
            raise RecordingError(
                "the file holds pickled Python objects, which are never read: they can run code",
                "store plain numeric arrays",
            ) from error
        raise RecordingError(f"the file is damaged or not an .npz archive ({error})", "write it again") from error
    if not np.issubdtype(positions.dtype, np.number) or np.iscomplexobj(positions):
        raise RecordingError(f"the array has the type {positions.dtype}, expected real numbers")
    if positions.ndim != 3 or positions.shape[2] != 3:
        raise RecordingError(
            f"the array has the shape {positions.shape}, expected (frames, markers, 3)", "one marker is (frames, 1, 3)"
        )
    stored_rate = optional.get(f"{key}_rate", optional.get("rate"))
    time = _times(len(positions), optional.get(f"{key}_time"), rate, stored_rate, key)
    own = optional.get(f"{key}_labels")
    labels = own if own is not None else optional.get("labels", np.array([]))
    if own is None and labels.shape != (positions.shape[1],):
        labels = np.array([])  # a file's common `labels` may belong to another of its arrays
    return Recording(positions, time, tuple(str(label) for label in labels))


def _only_key(archive: Any) -> str:
    """The one array of an archive that can be a recording."""
    fitting = [name for name in archive.files if archive[name].ndim == 3 and archive[name].shape[2] == 3]
    if len(fitting) == 1:
        return fitting[0]
    what = "several arrays" if fitting else "no array"
    raise RecordingError(
        f"{what} of the shape (frames, markers, 3)",
        f"say which one with `key`; arrays: {', '.join(archive.files) or 'none'}",
    )


def _times(
    frames: int, stored: np.ndarray | None, rate: float | None, stored_rate: np.ndarray | None, key: str
) -> np.ndarray:
    """Times [s] of the frames: those stored, else frame / rate, the rate that was given before the stored one."""
    if stored is not None:
        if not np.issubdtype(stored.dtype, np.number):
            raise RecordingError(f"`{key}_time` has the type {stored.dtype}, expected numbers [s]")
        if stored.shape == (frames,) and rate is not None and frames > 1:
            measured = 1.0 / float(np.median(np.diff(stored)))
            if not abs(measured / rate - 1.0) < 0.01:
                raise RecordingError(
                    f"`rate` is {rate:g} Hz, but `{key}_time` in the file says {measured:.4g} Hz", "leave `rate` out"
                )
        return stored
    if rate is None and stored_rate is not None and stored_rate.size == 1:
        rate = float(stored_rate.reshape(-1)[0])
    if rate is None:
        raise RecordingError(
            f"the file has no times (`{key}_time`) and no rate", "say how fast it was recorded: `rate: 100 Hz`"
        )
    if not rate > 0:
        raise RecordingError(f"the rate is {rate:g} Hz, expected a positive number")
    return np.arange(frames) / rate


def _read_csv(path: Path, key: str | None, rate: float | None) -> Recording:
    if key is not None:
        raise RecordingError("a csv file holds one recording and has no keys", "leave `key` out")
    try:
        rows = list(csv.reader(io.StringIO(_open(path).decode("utf-8-sig"))))
    except (UnicodeDecodeError, csv.Error) as error:
        raise RecordingError(f"the file is not a text in csv form ({error})") from error
    numbered = [(number, row) for number, row in enumerate(rows, start=1) if any(cell.strip() for cell in row)]
    if not numbered:
        raise RecordingError("the file is empty", "expected a header `time, <marker>.x, <marker>.y, <marker>.z, ...`")
    header = [cell.strip() for cell in numbered[0][1]]
    has_time = header[0] == "time"
    columns = header[1:] if has_time else header
    labels = [name.rpartition(".")[0] for name in columns[::3]]
    if columns != [f"{label}.{axis}" for label in labels for axis in "xyz"] or not labels or not all(labels):
        raise RecordingError(
            f"line {numbered[0][0]}: the header is `{', '.join(header)[:120]}`",
            "expected `time, <marker>.x, <marker>.y, <marker>.z, ...`",
        )
    if len(set(labels)) != len(labels):
        raise RecordingError("a marker stands twice in the header")
    values = np.empty((len(numbered) - 1, len(header)))
    for i, (number, row) in enumerate(numbered[1:]):
        if len(row) != len(header):
            raise RecordingError(f"line {number}: {len(row)} cells, the header has {len(header)}")
        for j, cell in enumerate(row):
            try:
                values[i, j] = float(cell) if cell.strip() else np.nan
            except ValueError:
                raise RecordingError(f"line {number}: `{cell.strip()}` under `{header[j]}` is not a number") from None
    positions = values[:, 1:] if has_time else values
    time = _times(len(values), values[:, 0] if has_time else None, rate, None, "time")
    return Recording(positions.reshape(len(values), len(labels), 3), time, tuple(labels))


def _csv_text(recording: Recording) -> str:
    """The csv form, with as many digits as a float64 needs to come back unchanged."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["time", *(f"{label}.{axis}" for label in recording.labels for axis in "xyz")])
    for time, points in zip(recording.time, recording.positions, strict=True):
        cells = ["" if np.isnan(value) else repr(float(value)) for value in points.ravel()]
        writer.writerow([repr(float(time)), *cells])
    return buffer.getvalue()


def _open(path: Path) -> bytes:
    """The bytes of a file that has some."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise RecordingError("there is no such file", suggest(path.name, beside, "")) from None
    except OSError as error:
        raise RecordingError(f"cannot read the file: {error.strerror or error}") from error
    if not content:
        raise RecordingError("the file is empty")
    return content


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
