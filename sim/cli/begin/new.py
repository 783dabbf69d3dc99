"""simopt new: a commented scene to begin with, around the markers of a recording if there is one."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from string import Template

from sim.cli.begin.layout import LAYOUTS, MADE_UP, Layout
from sim.cli.begin.take import Begun, place_rows, plain
from sim.cli.verbs.base import Verb
from sim.cli.verbs.import_recording import add_reading_arguments
from sim.cli.verbs.modules import UsageError
from sim.identify.run import OK
from sim.io import to_json, write_atomically

TEMPLATES = Path(__file__).parent / "templates"
STEPS = {"cloth": 1e-3, "rope": 1e-3, "beam": 0.4e-3, "solid": 1e-3, "body": 0.5e-3}
"""Length of a step [s] to begin with."""
FAR = 0.1
"""Marks of a sheet further from its plane than this part of its size are told of."""
MOVES = 0.02
"""And a mark beside what is held that goes further than this part of the extent of all."""

OBJECTS = {"cloth": "sheet", "rope": "rope", "beam": "beam", "solid": "block", "body": "thing"}
SOUGHT = {
    "cloth": (
        "young: {of: objects.sheet.cloth.material.membrane_stvk.young, transform: log, bounds: [500, 5e6]}",
        "bend:  {of: objects.sheet.cloth.material.bend.compliance, transform: log, bounds: [10, 1e6]}",
    ),
    "rope": (
        "young:   {of: objects.rope.rod.young, transform: log, bounds: [1e4, 1e10]}",
        "damping: {of: objects.rope.rod.damping, transform: log, bounds: [1e-5, 1]}",
    ),
    "beam": (
        "young:   {of: objects.beam.soft.material.stvk.young, transform: log, bounds: [1e3, 1e8]}",
        "damping: {of: objects.beam.soft.material.stvk.damping, transform: log, bounds: [1e-5, 1]}",
    ),
    "solid": (
        "young:   {of: objects.block.soft.material.stvk.young, transform: log, bounds: [1e3, 1e7]}",
        "damping: {of: objects.block.soft.material.stvk.damping, transform: log, bounds: [1e-5, 1]}",
    ),
    "body": (
        "restitution: {of: shapes.floor.restitution, bounds: [0, 1]}",
        "speed: {of: objects.thing.velocity}   # and, where it turns: spin: {of: objects.thing.spin}",
        "place: {of: objects.thing.position}   # the first frame has noise, too",
        "# friction: {of: shapes.floor.friction, bounds: [0, 1.5]}   # where it slides",
        "# height: {of: shapes.floor.plane.point.1}                 # where nobody measured that of the floor",
    ),
}
"""What a recording of each kind is asked for."""
ASKED = {
    "cloth": "A cloth is held and moves. How stretchy and how stiff is it?",
    "rope": "A rope is held at one end and swings. How stiff is it, and how fast does it lose a swing?",
    "beam": "A beam is clamped at one end and swings. How stiff is it, and how fast does it lose a swing?",
    "solid": "A soft block lies on a floor or falls onto it. How stiff is it, and how fast does it lose a swing?",
    "body": "A rigid body is dropped or thrown onto a floor and bounces. How much of its speed does it keep?",
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(LAYOUTS), metavar="KIND", help=f"what it is: {', '.join(LAYOUTS)}")
    parser.add_argument(
        "--from", dest="take", type=Path, metavar="TAKE", help="a recording of its markers: .csv, .trc, .c3d or .npz"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the scene; default KIND.yaml, beside the recording"
    )
    add_reading_arguments(parser.add_argument_group("of a recording"))


def _run(options: argparse.Namespace) -> int:
    given = [name for name in ("unit", "up", "axes", "rate", "key", "markers") if getattr(options, name) is not None]
    if options.take is None and given:
        raise UsageError(f"--{given[0]} is said of a recording: name one by --from")
    out = options.out or (Path() if options.take is None else options.take.parent) / f"{options.kind}.yaml"
    if out.exists():
        raise UsageError(f"{out} is there already, and is left alone\n  another name: -o FILE")
    begun = None if options.take is None else Begun.read(options)
    marks = MADE_UP[options.kind] if begun is None else begun.marks
    layout = LAYOUTS[options.kind](marks)
    notes = [] if begun is None else [*begun.notes, *_doubts(options, begun, layout)]
    text = _text(options, out, begun, layout)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text)
    if options.json:
        print(to_json({"scene": out, "notes": notes}, indent=2))
        return OK
    for note in notes:
        print(f"note: {note}")
    print(f"{out}: read its comments, then `simopt check {out}` and `simopt run {out}`")
    return OK


def _doubts(options: argparse.Namespace, begun: Begun, layout: Layout) -> list[str]:
    marks, size = begun.marks, float(max(begun.marks.at.max(axis=0) - begun.marks.at.min(axis=0)))
    notes = []
    if layout.away > FAR * size:
        notes.append(f"markers are up to {1e3 * layout.away:.3g} mm away from the plane in which the sheet begins")
    if layout.held is not None and marks.travel[layout.held] > MOVES * size:
        label, far = begun.recording.labels[layout.held], 1e3 * marks.travel[layout.held]
        notes.append(
            f"marker {label}, the nearest to where the {OBJECTS[options.kind]} is held, goes {far:.3g} mm far: if"
            " something moves what is held, give it a `motion`, such as `follow` (docs/recordings.md)"
        )
    return notes


def _text(options: argparse.Namespace, out: Path, begun: Begun | None, layout: Layout) -> str:
    kind, name = options.kind, OBJECTS[options.kind]
    template = Template((TEMPLATES / f"{kind}.yaml").read_text(encoding="utf-8"))
    fps, duration = (60.0, 1.0) if begun is None else (begun.fps, begun.duration)
    substeps = max(1, round(1.0 / fps / STEPS[kind]))
    about_time = f"# s, 1/s, steps per frame: dt = {1e3 / fps / substeps:.3g} ms"
    labels = tuple(str(k) for k in range(len(layout.on))) if begun is None else begun.recording.labels
    rows = textwrap.indent(place_rows(layout.on, labels), " " * 6)
    values = {
        "name": plain(out.stem),
        "about": plain(ASKED[kind]),
        "time": f"time: {{duration: {duration:.6g}, fps: {fps:.6g}, substeps: {substeps}}}   {about_time}",
        "markers": f"markers:                               # where they are on the {name} as it begins\n"
        f"  seen:\n    on: {name}\n    at:\n{rows}",
        "seek": _seek(options, out, begun),
    }
    return template.substitute(layout.values, **values)


def _seek(options: argparse.Namespace, out: Path, begun: Begun | None) -> str:
    """Experiments, parameters and loss; as a comment where there is no recording yet."""
    # A body that is thrown later from further on goes the same way: with speed and place its clock cannot be told.
    target = (
        " {file: take.csv, unit: mm, up: z, start: frame 0, noise: 1 mm}"
        if begun is None
        else "\n" + textwrap.indent(begun.target(options, out.parent, options.kind != "body"), " " * 6)
    )
    sought = "\n".join(f"  {row}" for row in SOUGHT[options.kind])
    text = (
        f"experiments:\n  take:\n    target:{target}\n\n"
        f"parameters:                            # what is sought, from the values above on\n{sought}\n\n"
        "loss:\n  - {match: seen}                      # mean of ((x - target) / noise)^2: 1 = down to the noise\n\n"
        "optimize:\n  rollout: {checkpointed: {every: 24}}\n"
    )
    if begun is not None:
        return text
    head = f"With a recording `simopt new {options.kind} --from take.csv` writes all this around its markers; by hand:"
    return textwrap.indent(f"{head}\n\n{text}", "# ", lambda line: True).replace("# \n", "#\n")


NEW = Verb("new", "write a commented scene to begin with, around a recording if there is one", _run, _add_arguments)
