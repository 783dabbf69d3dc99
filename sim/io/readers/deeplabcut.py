"""DeepLabCut's csv: rows `scorer`, `bodyparts` and `coords` above the numbers; triangulated ones, with x, y and z."""

from __future__ import annotations

import numpy as np

from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import values_of
from sim.io.recording import RecordingError


def _fits(source: Source) -> bool:
    return source.rows[0][1][0] == "scorer"


def _read(source: Source) -> Raw:
    heads = {row[0]: (line, row) for line, row in source.rows[:4] if row[0] in _HEADS}
    for name in ("bodyparts", "coords"):
        if name not in heads:
            raise RecordingError(
                f"the file begins like one of DeepLabCut, and there is no row `{name}`", "export it again"
            )
    (line, parts), (axes_line, axes) = heads["bodyparts"], heads["coords"]
    width = len(parts)
    if len(axes) != width or any(len(row) != width for _, row in heads.values()):
        raise RecordingError(f"line {axes_line}: {len(axes)} cells, line {line} has {width}")
    owners = heads["individuals"][1] if "individuals" in heads else [""] * width
    several = len(set(owners[1:])) > 1
    names = [f"{owner}.{part}" if several else part for owner, part in zip(owners, parts, strict=True)]
    of: dict[str, dict[str, int]] = {}
    for k in range(1, width):
        of.setdefault(names[k], {})[axes[k]] = k
    for name, columns in of.items():
        if not {"x", "y", "z"} <= columns.keys():
            raise RecordingError(
                f"line {axes_line}: `{name}` has {', '.join(columns)}, and not x, y and z",
                "tracks in a picture are triangulated first (deeplabcut.triangulate, Anipose)",
            )
    chosen = [columns[axis] for columns in of.values() for axis in "xyz"]
    rows = source.rows[len(heads) :]
    values = values_of(rows, width, [*chosen, 0], [*(f"{n} {a}" for n, a in zip(names, axes, strict=True))])
    numbers = values[:, -1]
    if np.isnan(numbers).any():
        raise RecordingError(f"line {rows[int(np.argmax(np.isnan(numbers)))][0]}: the number of the frame is missing")
    return Raw(values[:, :-1].reshape(len(rows), len(of), 3), tuple(of), numbers=numbers)


_HEADS = ("scorer", "individuals", "bodyparts", "coords")
DEEPLABCUT = RecordingFormat("DeepLabCut 3-D csv", (".csv",), _read, _fits)
