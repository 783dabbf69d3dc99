"""simopt import: makes a scene of a robot in URDF."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.verbs.base import Verb
from sim.identify.run import OK
from sim.io import to_json, write_atomically
from sim.scene.urdf import import_urdf
from sim.scene.urdf.robot import DROPPABLE


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("robot", type=Path, metavar="URDF", help="a robot; its root does not move")
    parser.add_argument("-o", "--out", type=Path, metavar="NEW", help="write it there; default: print it")
    parser.add_argument(
        "--pose", action="append", default=[], metavar="JOINT=VALUE", help="where it begins; may be repeated"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        choices=tuple(DROPPABLE),
        help="leave out what a scene cannot have; may be repeated: "
        + "; ".join(f"{name}: {what}" for name, what in DROPPABLE.items()),
    )
    parser.add_argument(
        "--packages", type=Path, action="append", default=[], metavar="FOLDER",
        help="where packages of meshes (package://) are; may be repeated",
    )  # fmt: skip
    parser.add_argument("--free", action="store_true", help="the root is not bolted to the world")


def _run(options: argparse.Namespace) -> int:
    imported = import_urdf(
        options.robot, options.pose, options.drop, options.free, options.packages,
        None if options.out is None else options.out.parent,
    )  # fmt: skip
    if options.out is not None:
        write_atomically(options.out, imported.text)
    if options.json:
        facts = {"bodies": imported.bodies, "joints": imported.joints, "notes": imported.notes}
        print(to_json({**facts, "scene": imported.text if options.out is None else options.out}, indent=2))
        return OK
    if options.out is None:
        sys.stdout.write(imported.text)
    if not options.quiet:
        for note in imported.notes:
            print(f"{options.robot}: {note}", file=sys.stderr)
        print(f"{options.robot}: {imported.bodies} bodies, {imported.joints} joints", file=sys.stderr)
    return OK


IMPORT = Verb("import", "make a scene of a robot in URDF", _run, _add_arguments)
