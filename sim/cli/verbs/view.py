"""simopt view: opens the page of a run."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from sim.cli.verbs.base import Verb
from sim.identify.run import OK
from sim.io import load_run, page, to_json


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs"),
        metavar="RUN",
        help="a run folder, or a folder of runs: the newest; default runs",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the page's path")


def _run(options: argparse.Namespace) -> int:
    shown = page(load_run(options.folder)).resolve()
    opened = not options.no_browser and webbrowser.open(shown.as_uri())
    if options.json:
        print(to_json({"page": shown, "opened": opened}, indent=2))
    else:
        print(shown if opened or options.no_browser else f"no browser was found; open this page in one:\n{shown}")
    return OK


VIEW = Verb("view", "open a run's report, or its player, in a browser", _run, _add_arguments)
