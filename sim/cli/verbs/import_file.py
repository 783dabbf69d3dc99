"""simopt import: a recording as scenes read it, or a scene of a robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.cli.verbs.base import Verb
from sim.cli.verbs.import_recording import KINDS, add_recording_arguments, run_recording
from sim.cli.verbs.import_robot import ROBOTS, add_robot_arguments, run_robot
from sim.io import RecordingError


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=f"a recording ({KINDS}) or a robot (.urdf)")
    parser.add_argument("-o", "--out", type=Path, metavar="NEW", help="write it there: .npz or .csv, of a robot .yaml")
    add_recording_arguments(parser)
    add_robot_arguments(parser)


def _run(options: argparse.Namespace) -> int:
    robot = options.file.suffix.lower() in ROBOTS
    others = _RECORDING if robot else _ROBOT
    for name, option in others.items():
        if getattr(options, name):
            kind = "a robot" if robot else "a recording"
            raise RecordingError(f"{options.file}: {option} of {kind}", "leave it out: it is for the other")
    return run_robot(options) if robot else run_recording(options)


_RECORDING = {
    "unit": "--unit", "up": "--up", "axes": "--axes", "rate": "--rate", "key": "--key", "markers": "--markers",
    "begin": "--from", "end": "--to",
}  # fmt: skip
_ROBOT = {"pose": "--pose", "drop": "--drop", "packages": "--packages", "free": "--free"}

IMPORT = Verb("import", "look at a recording or write it as scenes read it; a scene of a robot", _run, _add_arguments)
