"""Wide csv: a column for each coordinate of each marker, as sim, Anipose and SLEAP write it, a row for each frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.files import quoted
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import Coordinate, coordinate, is_frame, named_few, one_unit, time_factor, values_of
from sim.io.recording import RecordingError

TRACK = "track"
"""A column of SLEAP: which animal or object a row is of."""


def _read(source: Source) -> Raw:
    line, header = source.rows[0]
    found = {k: c for k, name in enumerate(header) if (c := coordinate(name)) is not None and c.label}
    if not found:
        raise RecordingError(f"line {line}: the header is {quoted(', '.join(header))}", _hint(header))
    labels, columns = _by_marker(header, found, line)
    factors = [time_factor(name, line) for name in header]
    timed = [(k, factor) for k, factor in enumerate(factors) if factor is not None]
    counted = [k for k, name in enumerate(header) if is_frame(name)]
    clock = ([k for k, _ in timed] or counted)[:1]
    track = [k for k, name in enumerate(header) if name.lower() == TRACK]
    rows = source.rows[1:]
    values = values_of(rows, len(header), [*columns, *clock], header)
    positions = values[:, : len(columns)].reshape(len(rows), len(labels), 3)
    at = values[:, -1] if clock else np.arange(len(rows), dtype=float)
    if track:
        positions, at, labels = _by_track(positions, at, labels, [row[track[0]] for _, row in rows])
    used = {*columns, *clock, *counted, *track}
    rest = [name or f"column {k + 1}" for k, name in enumerate(header) if k not in used]
    ours = header == ["time"] * bool(timed) + [f"{label}.{axis}" for label in labels for axis in "xyz"]
    return Raw(
        positions,
        labels,
        time=at * timed[0][1] if timed else None,
        numbers=None if timed else at,
        unit=one_unit([c.unit for c in found.values()], line),
        ours=ours,
        notes=(f"columns that are no coordinates are left out: {named_few(rest)}",) if rest else (),
    )


def _by_marker(header: Sequence[str], found: dict[int, Coordinate], line: int) -> tuple[tuple[str, ...], list[int]]:
    """The names of the markers in the order of the file, and for each the columns of x, y and z."""
    of: dict[str, dict[int, int]] = {}
    for k, c in found.items():
        axes = of.setdefault(c.label, {})
        if c.axis in axes:
            raise RecordingError(
                f"line {line}: {quoted(header[k])} stands there twice", "every marker needs a name of its own"
            )
        axes[c.axis] = k
    for label, axes in of.items():
        if len(axes) < 3:
            has = " and ".join("xyz"[axis] for axis in sorted(axes))
            lacks = " and ".join("xyz"[axis] for axis in range(3) if axis not in axes)
            raise RecordingError(
                f"line {line}: the header has {has} of {quoted(label)}, and no {lacks}",
                "a recording has x, y and z of every marker; tracks in a picture are triangulated first",
            )
    return tuple(of), [axes[axis] for axes in of.values() for axis in range(3)]


def _by_track(
    positions: np.ndarray, at: np.ndarray, labels: tuple[str, ...], tracks: list[str]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """A row for each frame, of rows for each frame and track; markers of several tracks are called `TRACK.MARKER`."""
    names = list(dict.fromkeys(tracks))
    frames, row = np.unique(at, return_inverse=True)
    cell = row * len(names) + [names.index(track) for track in tracks]
    if len(np.unique(cell)) < len(cell):
        raise RecordingError("two rows are of one frame and one track", "name the tracks apart")
    out = np.full((len(frames) * len(names), len(labels), 3), np.nan)
    out[cell] = positions
    if len(names) > 1:
        labels = tuple(f"{name}.{label}" for name in names for label in labels)
    return out.reshape(len(frames), -1, 3), frames, labels


def _hint(header: Sequence[str]) -> str:
    if len(header) == 1 and any(sign in header[0] for sign in ";\t"):
        return "separate the cells by commas, with points in the numbers"
    return "expected `time, <marker>.x, <marker>.y, <marker>.z, ...`, or rows of `time, marker, x, y, z`"


WIDE_CSV = RecordingFormat("csv, a column for each coordinate", (".csv",), _read)
