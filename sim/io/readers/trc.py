"""TRC: a table with tabs, of Motion Analysis and OpenSim; its head names rate, unit and markers."""

from __future__ import annotations

from sim.files import FileError, number, quoted
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import values_of
from sim.io.recording import RecordingError


def _read(source: Source) -> Raw:
    source.no_key()
    lines = [line.rstrip("\n") for line in source.text.split("\n")]
    if not lines[0].startswith("PathFileType") or len(lines) < 5:
        raise RecordingError(f"line 1: {quoted(lines[0])}, expected `PathFileType`", "export it as TRC again")
    names, values = (_cells(line) for line in lines[1:3])
    settings = dict(zip(names, values, strict=False))
    head = _cells(lines[3])
    if [cell.lower() for cell in head[:2]] != ["frame#", "time"]:
        raise RecordingError(
            f"line 4: the columns are {quoted(', '.join(head))}, expected `Frame#`, `Time`, markers", "separate by tabs"
        )
    labels = [cell for cell in head[2:] if cell]
    places = [k for k, cell in enumerate(head) if k > 1 and cell]
    width = 2 + 3 * len(labels)
    if not labels or places != list(range(2, width, 3)):
        raise RecordingError(
            "line 4: the names of the markers do not stand over every third column", "export it as TRC again"
        )
    rows = []
    for number_of, line in enumerate(lines[5:], 6):
        cells = _cells(line)
        if any(cells):
            while len(cells) > width and not cells[-1]:
                cells.pop()
            rows.append((number_of, [*cells, *[""] * (width - len(cells))]))
    if (announced := settings.get("NumMarkers", "")) and announced != str(len(labels)):
        raise RecordingError(
            f"line 3: {quoted(announced)} markers are announced, line 4 names {len(labels)}", "export again"
        )
    columns = ["Frame#", "Time", *(f"{label} {axis}" for label in labels for axis in "XYZ")]
    found = values_of(rows, width, list(range(1, width)), columns)
    announced = settings.get("NumFrames", "")
    cut = announced not in ("", str(len(rows)))
    return Raw(
        found[:, 1:].reshape(len(rows), len(labels), 3),
        tuple(labels),
        time=found[:, 0],
        rate=_rate(settings.get("DataRate", "")),
        unit=settings.get("Units", ""),
        notes=(f"{quoted(announced)} frames are announced, there are {len(rows)}",) * cut,
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")]


def _rate(word: str) -> float | None:
    try:
        return number(word)
    except FileError:
        return None


TRC = RecordingFormat("TRC", (".trc",), _read)
