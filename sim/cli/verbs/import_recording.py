"""simopt import: what a recording holds, and the recording as scenes read it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.terminal.tables import print_table
from sim.identify.run import OK
from sim.io import Recording, RecordingError, load_recording, to_json, write_recording
from sim.io.readers import SUFFIXES
from sim.io.readers.about import complete_frames, gaps, motion_begins, noise, suggested_start
from sim.io.recording_files import moment
from sim.schema.units import UnitError, parse_unit, to_si

NAME = "take"
"""What a recording is called in the archive that is written."""
MOST_NAMES = 20


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """What a recording may have to be told, and which part of it is taken."""
    group = parser.add_argument_group("of a recording")
    add_reading_arguments(group)
    group.add_argument("--from", dest="begin", type=_moment, metavar="WHEN", help="a time, or `frame N`; becomes 0 s")
    group.add_argument(
        "--to", dest="end", type=_moment, metavar="WHEN", help="a time, or `frame N`: the last one taken"
    )


def add_reading_arguments(group: argparse._ArgumentGroup) -> None:
    """What a recording may have to be told to be read, and which of its markers are taken."""
    group.add_argument("--unit", type=_unit, metavar="UNIT", help="of its lengths, mm or m, where it names none")
    group.add_argument("--up", choices=("x", "y", "z", "-x", "-y", "-z"), help="its axis that points up, becomes our y")
    group.add_argument(
        "--axes", metavar="X,Y,Z", help="instead: its axes that become our x, y, z, such as --axes=x,z,-y"
    )
    group.add_argument("--rate", type=_rate, metavar="HZ", help="frames per second, where it has no times")
    group.add_argument("--key", help="array of an npz file")
    group.add_argument("--markers", metavar="A,B", help="only these, by name or number from 0")


def run_recording(options: argparse.Namespace) -> int:
    """Prints what the file holds, and writes it where that is asked for."""
    if options.out is not None and options.out.suffix.lower() not in (".npz", ".csv"):
        raise RecordingError(f"{options.out}: recordings are written as .npz or .csv", "give `-o NAME.npz`")
    recording = load_recording(
        options.file, options.key, rate=options.rate, unit=options.unit, up=options.up,
        axes=None if options.axes is None else [axis.strip() for axis in options.axes.split(",")],
    )  # fmt: skip
    origin = recording.origin
    assert origin is not None
    try:
        if options.markers is not None:
            recording = choose_markers(recording, options.markers)
        recording = _part(recording, options.begin, options.end)
    except RecordingError as error:
        raise RecordingError(f"{options.file}: {error.what}", error.hint) from error
    facts = _facts(recording) | {
        "format": origin.format, "unit": origin.unit, "unit_from": origin.unit_from,
        "axes": origin.axes, "axes_from": origin.axes_from, "notes": [*origin.notes, *_doubts(recording)],
    }  # fmt: skip
    if options.out is not None:
        write_recording(options.out, **{NAME: recording})
        facts["written"] = str(options.out)
    if options.json:
        print(to_json(facts, indent=2))
    else:
        _show(options.file, facts)
    return OK


def _part(recording: Recording, begin: float | str | None, end: float | str | None) -> Recording:
    """The frames from `begin`, which becomes 0 s, to `end`."""
    last = None if end is None else moment(recording, end)
    first = None if begin is None else moment(recording, begin)
    if last is not None and last <= (recording.time[0] if first is None else first):
        raise RecordingError(f"--to is {last:g} s, and nothing lies before it", "give a later time")
    if first is not None:
        recording = recording.from_time(first)
    if last is not None:
        kept = recording.time <= last - (first or 0.0) + 1e-9
        recording = Recording(recording.positions[kept], recording.time[kept], recording.labels)
    return recording


def _facts(recording: Recording) -> dict[str, Any]:
    time, seen = recording.time, recording.positions[np.isfinite(recording.positions[..., 0])]
    start, moves = suggested_start(recording), motion_begins(recording)
    return {
        "markers": list(recording.labels),
        "frames": recording.frame_count,
        "from": time[0],
        "to": time[-1],
        "rate": recording.rate or None,
        "slowest": 1.0 / np.diff(time).max() if len(time) > 1 else None,
        "low": seen.min(axis=0),
        "high": seen.max(axis=0),
        "noise": noise(recording),
        "missing": recording.unseen / (recording.frame_count * recording.marker_count),
        "gaps": [
            {"marker": g.label, "missing": g.missing / recording.frame_count, "longest": g.longest}
            for g in gaps(recording)
        ],
        "complete": len(complete_frames(recording)),
        "start": start,
        "start_time": None if start is None else time[start],
        "motion_begins": moves,
        "motion_begins_time": None if moves is None else time[moves],
    }


def _doubts(recording: Recording) -> list[str]:
    """What some systems write for a marker that was not seen."""
    zero = int((recording.positions == 0.0).all(axis=2).sum())
    return [f"{zero} positions are (0, 0, 0): if those are gaps, write empty cells for them"] if zero else []


def _show(file: Path, facts: dict[str, Any]) -> None:
    names = facts["markers"]
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    rate = "one frame" if facts["rate"] is None else f"{facts['rate']:.6g} Hz"
    if facts["rate"] is not None and facts["slowest"] < 0.99 * facts["rate"]:
        rate += f", but {1 / facts['slowest']:.3g} s between two of them"
    extent = ", ".join(
        f"{axis} {low:.4g} to {high:.4g}" for axis, low, high in zip("xyz", facts["low"], facts["high"], strict=True)
    )
    print(f"{file}: {facts['format']}")
    rows = [
        ("markers", f"{len(names)}: {shown}"),
        ("frames", f"{facts['frames']}, from {facts['from']:g} s to {facts['to']:g} s, {rate}"),
        ("unit", f"{facts['unit']:g} m ({facts['unit_from']})"),
        ("axes", f"{', '.join(facts['axes'])} are our x, y, z ({facts['axes_from']})"),
        ("extent [m]", extent),
        ("noise [m]", f"{facts['noise']:.2g} at most, by second differences"),
        ("gaps", f"{facts['missing']:.2%} of all positions" if facts["gaps"] else "none"),
        ("start", _start_text(facts)),
        *(("note", note) for note in facts["notes"]),
    ]
    print("\n".join(f"  {name:<11}{text}" for name, text in rows))
    if facts["gaps"]:
        worst = sorted(facts["gaps"], key=lambda gap: -gap["missing"])
        print_table(
            "Gaps", ["marker", "not seen", "longest [s]"],
            [[gap["marker"], f"{gap['missing']:.2%}", f"{gap['longest']:.4g}"] for gap in worst],
        )  # fmt: skip
    if "written" in facts:
        print(f"written: {facts['written']}; in a scene: file: {facts['written']}")


def _start_text(facts: dict[str, Any]) -> str:
    if facts["start"] is None:
        return "no frame sees all markers: choose some by --markers"
    moves = (
        "nothing moves"
        if facts["motion_begins"] is None
        else f"motion begins at frame {facts['motion_begins']}, {facts['motion_begins_time']:g} s"
    )
    return f"`start: frame {facts['start']}` ({facts['start_time']:g} s) sees all markers; {moves}"


def choose_markers(recording: Recording, names: str) -> Recording:
    """Those of `--markers A,B`."""
    return recording.select([_column(recording, name) for name in names.split(",")])


def _column(recording: Recording, name: str) -> int | str:
    name = name.strip()
    return int(name) if name.isdigit() and name not in recording.labels else name


def _unit(text: str) -> float:
    """A unit of length, as an argument: its size in metres."""
    try:
        factor, dimension = parse_unit(text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(f"{error.what}; such as mm, cm or m") from None
    if dimension != parse_unit("m")[1]:
        raise argparse.ArgumentTypeError(f"`{text}` is no unit of length, such as mm, cm or m")
    return float(factor)


def _quantity(text: str, unit: str) -> float:
    try:
        return to_si(text, unit)
    except UnitError as error:
        raise argparse.ArgumentTypeError(error.what) from None


def _rate(text: str) -> float:
    return _quantity(text, "Hz")


def _moment(text: str) -> float | str:
    """A time [s], or `frame N`."""
    return text if text.startswith("frame") else _quantity(text, "s")


KINDS = ", ".join(SUFFIXES)
