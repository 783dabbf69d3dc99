"""OptiTrack Motive's csv: a line of settings, rows of types and names, then positions of markers over time."""

from __future__ import annotations

from collections.abc import Sequence

from sim.files import FileError, number, quoted
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import named_few, values_of
from sim.io.recording import RecordingError

MARKER = "Marker"
"""The type of columns that were measured; those of rigid bodies and bones are expected from them."""
UNLABELED = "Unlabeled"


def _fits(source: Source) -> bool:
    return source.rows[0][1][0] == "Format Version"


def _read(source: Source) -> Raw:
    head = source.rows[0][1]
    settings = dict(zip(head[::2], head[1::2], strict=False))
    if settings.get("Coordinate Space", "Global") != "Global":
        raise RecordingError(
            f"line 1: the positions are {quoted(settings['Coordinate Space'])}", "export them in global coordinates"
        )
    last = next((k for k, (_, row) in enumerate(source.rows) if row[0] == "Frame"), None)
    above = {row[1]: row for _, row in source.rows[1:last] if len(row) > 1}
    if last is None or "Name" not in above:
        missing = "`Frame, Time (Seconds), ...`" if last is None else "of the names of the markers"
        raise RecordingError(f"there is no row {missing}", "export it from Motive with its header")
    line, axes = source.rows[last]
    width = len(axes)
    names, types = (_padded(above.get(name, ()), width) for name in ("Name", "Type"))
    kinds = _padded(source.rows[last - 1][1], width)
    if len(axes) < 2 or not axes[1].startswith("Time"):
        raise RecordingError(
            f"line {line}: the second column is {quoted(axes[1] if len(axes) > 1 else '')}, not a time"
        )
    of: dict[str, dict[str, int]] = {}
    for k in range(2, width):
        if types[k] in (MARKER, "") and kinds[k] in ("Position", "") and axes[k] in ("X", "Y", "Z"):
            if axes[k] in of.setdefault(names[k], {}):
                raise RecordingError(f"two markers are called {quoted(names[k])}", "name them apart in Motive")
            of[names[k]][axes[k]] = k
    if not of or any(len(columns) < 3 for columns in of.values()):
        found = named_few(sorted(set(types[2:])))
        raise RecordingError(f"no markers, but columns of the types {found}", "export it with `Markers` turned on")
    notes = []
    unlabeled = [name for name in of if name.startswith(UNLABELED)]
    if 0 < len(unlabeled) < len(of):
        notes.append(f"trajectories without a label are left out: {named_few(unlabeled)}")
        of = {name: columns for name, columns in of.items() if name not in unlabeled}
    others = sorted({kind for kind in types[2:] if kind not in (MARKER, "")})
    if others:
        notes.append(f"what was not measured is left out: columns of the types {named_few(others)}")
    columns = [columns[axis] for columns in of.values() for axis in "XYZ"]
    rows = [(line, [*row, *[""] * (width - len(row))]) for line, row in source.rows[last + 1 :]]
    values = values_of(rows, width, [*columns, 1], [f"{n} {a}".strip() for n, a in zip(names, axes, strict=True)])
    return Raw(
        values[:, :-1].reshape(len(rows), len(of), 3),
        tuple(of),
        time=values[:, -1],
        rate=_number(settings.get("Export Frame Rate", "")),
        unit=settings.get("Length Units", ""),
        notes=tuple(notes),
    )


def _padded(row: Sequence[str], width: int) -> list[str]:
    return [*row, *[""] * (width - len(row))][:width]


def _number(word: str) -> float | None:
    try:
        return number(word)
    except FileError:
        return None


MOTIVE = RecordingFormat("Motive csv", (".csv",), _read, _fits)
