"""simopt schema: the JSON Schema of scenes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.verbs.base import Verb
from sim.identify.run import OK
from sim.io import to_json, write_atomically
from sim.scene.schema.json_schema import json_schema
from sim.scene.schema.keys.materials import registered_materials


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it there")


def _run(options: argparse.Namespace) -> int:
    text = to_json(json_schema(registered_materials()), indent=1) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_atomically(options.out, text)
    return OK


SCHEMA = Verb("schema", "the JSON Schema of scenes, for editors", _run, _add_arguments)
