"""Long csv: a row for each marker at each time, `time, marker, x, y, z`."""

from __future__ import annotations

import numpy as np

from sim.files import quoted
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import coordinate, is_frame, named_few, one_unit, time_factor, values_of
from sim.io.recording import RecordingError

NAMES = ("marker", "label", "name", "node", "point", "keypoint", "bodypart", "landmark")


def _names(header: list[str]) -> list[int]:
    return [k for k, name in enumerate(header) if name.lower() in NAMES]


def _fits(source: Source) -> bool:
    header = source.rows[0][1]
    alone = {c.axis for name in header if (c := coordinate(name)) is not None and not c.label}
    return bool(_names(header)) and bool(alone)


def _read(source: Source) -> Raw:
    line, header = source.rows[0]
    axes = {c.axis: k for k, name in enumerate(header) if (c := coordinate(name)) is not None and not c.label}
    if len(axes) < 3:
        lacks = " and ".join("xyz"[axis] for axis in range(3) if axis not in axes)
        raise RecordingError(f"line {line}: there is no column {lacks}", "a recording has x, y and z of every marker")
    units = [c.unit for name in header if (c := coordinate(name)) is not None and not c.label]
    factors = {k: f for k, name in enumerate(header) if (f := time_factor(name, line)) is not None}
    counted = [k for k, name in enumerate(header) if is_frame(name)]
    clock = next(iter(factors), counted[0] if counted else None)
    if clock is None:
        raise RecordingError(
            f"line {line}: there is neither a column `time` nor `frame`", "say in each row when the marker was there"
        )
    named, rows = _names(header)[0], source.rows[1:]
    columns = [axes[0], axes[1], axes[2], clock]
    values = values_of(rows, len(header), columns, header)
    if np.isnan(values[:, 3]).any():
        row = int(np.argmax(np.isnan(values[:, 3])))
        raise RecordingError(f"line {rows[row][0]}: the cell under {quoted(header[clock])} is empty")
    labels = list(dict.fromkeys(row[named] for _, row in rows))
    at, frame = np.unique(values[:, 3], return_inverse=True)
    cell = frame * len(labels) + np.array([labels.index(row[named]) for _, row in rows], dtype=np.int64)
    _, first, count = np.unique(cell, return_index=True, return_counts=True)
    if (count > 1).any():
        again = int(np.flatnonzero(cell == cell[first[np.argmax(count > 1)]])[1])
        raise RecordingError(
            f"line {rows[again][0]}: {quoted(rows[again][1][named])} stands there a second time at"
            f" {header[clock]} {values[again, 3]:g}",
            "every marker is once at a time",
        )
    positions = np.full((len(at) * len(labels), 3), np.nan)
    positions[cell] = values[:, :3]
    rest = [name or f"column {k + 1}" for k, name in enumerate(header) if k not in {*columns, *counted, named}]
    return Raw(
        positions.reshape(len(at), len(labels), 3),
        tuple(labels),
        time=at * factors[clock] if clock in factors else None,
        numbers=None if clock in factors else at,
        unit=one_unit(units, line),
        notes=(f"columns that are no coordinates are left out: {named_few(rest)}",) if rest else (),
    )


LONG_CSV = RecordingFormat("csv, a row for each marker", (".csv",), _read, _fits)
