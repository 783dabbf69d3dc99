"""simopt export: writes a run in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.verbs.base import Verb, positive
from sim.identify.run import OK
from sim.io import export_run, load_run, to_json
from sim.io.formats import FORMATS, FORMATS_HELP


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder, or a folder of runs: the newest")
    parser.add_argument("--to", required=True, choices=tuple(FORMATS), help=FORMATS_HELP)
    parser.add_argument("--out", type=Path, metavar="PATH", help="a file, or a folder; default: the run folder")
    parser.add_argument(
        "--experiment", action="append", default=[], metavar="NAME", help="default: all; may be repeated"
    )
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="only each N-th recorded frame")
    parser.add_argument(
        "--size", type=_size, default=(640, 480), metavar="WxH", help="of a film in pixels; default 640x480"
    )


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"`{text}` is no size; write it as 640x480")
    return int(width), int(height)


def _run(options: argparse.Namespace) -> int:
    shown = not (options.json or options.quiet) and sys.stderr.isatty()
    files = export_run(
        load_run(options.folder),
        options.to,
        options.out,
        options.experiment,
        options.every,
        options.size,
        _show_progress if shown else None,
    )
    print(to_json({"files": files}, indent=2) if options.json else "\n".join(str(file) for file in files))
    return OK


def _show_progress(name: str, done: int, total: int) -> None:
    """A line that is written over and over."""
    print(f"\r{name}: frame {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)


EXPORT = Verb("export", "write a run in another format", _run, _add_arguments)
