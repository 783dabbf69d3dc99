"""simopt import: makes a scene of a robot in URDF."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.identify.run import OK
from sim.io import to_json, write_atomically
from sim.scene.urdf import import_urdf
from sim.scene.urdf.robot import DROPPABLE

ROBOTS = (".urdf", ".xml", ".xacro")
"""Suffixes of their files."""


def add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    """How a robot becomes a scene; its root does not move."""
    group = parser.add_argument_group("of a robot")
    group.add_argument(
        "--pose", action="append", default=[], metavar="JOINT=VALUE", help="where it begins; may be repeated"
    )
    group.add_argument(
        "--drop",
        action="append",
        default=[],
        choices=tuple(DROPPABLE),
        help="leave out what a scene cannot have; may be repeated: "
        + "; ".join(f"{name}: {what}" for name, what in DROPPABLE.items()),
    )
    group.add_argument(
        "--packages", type=Path, action="append", default=[], metavar="FOLDER",
        help="where packages of meshes (package://) are; may be repeated",
    )  # fmt: skip
    group.add_argument("--free", action="store_true", help="the root is not bolted to the world")


def run_robot(options: argparse.Namespace) -> int:
    """Writes the scene, or prints it."""
    imported = import_urdf(
        options.file, options.pose, options.drop, options.free, options.packages,
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
            print(f"{options.file}: {note}", file=sys.stderr)
        print(f"{options.file}: {imported.bodies} bodies, {imported.joints} joints", file=sys.stderr)
    return OK
