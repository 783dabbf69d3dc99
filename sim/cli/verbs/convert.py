"""simopt convert: brings a scene of an older format to the present one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.verbs.base import Verb
from sim.identify.run import OK
from sim.io import write_atomically
from sim.scene.convert import convert_scene


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scene", type=Path, metavar="FILE", help="a scene file of format 1")
    parser.add_argument("-o", "--out", type=Path, metavar="NEW", help="write it there; default: print it")
    parser.add_argument("--allow-outside", action="store_true", help="files may lie outside the scene's folder")


def _run(options: argparse.Namespace) -> int:
    converted = convert_scene(options.scene, options.allow_outside)
    if options.out is None:
        sys.stdout.write(converted.text)
    else:
        write_atomically(options.out, converted.text)
    for change in converted.changes:
        print(f"{options.scene}:{change}", file=sys.stderr)
    print(f"{options.scene}: format 1 -> 2, {len(converted.changes)} numbers divided by 3", file=sys.stderr)
    return OK


CONVERT = Verb("convert", "bring a scene of format 1 to format 2", _run, _add_arguments)
