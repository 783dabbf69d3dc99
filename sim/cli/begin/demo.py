"""simopt demo: copies a scene that comes with the package, and runs it."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.cli.begin.shipped import SHIPPED, copy
from sim.cli.verbs.base import Verb, add_scene_arguments
from sim.cli.verbs.run import RUN
from sim.identify.run import OK
from sim.io import to_json


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [shipped.name for shipped in SHIPPED]
    rows = "; ".join(f"{s.name} (about {s.takes}): {s.about}" for s in SHIPPED)
    parser.add_argument(
        "name", nargs="?", choices=names, default=names[0], metavar="NAME", help=f"{rows}; default {names[0]}"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("demo"),
        metavar="FOLDER",
        help="where the scene is copied to; default demo",
    )
    parser.add_argument("--copy", action="store_true", help="only copy it")


def _run(options: argparse.Namespace) -> int:
    shipped = next(s for s in SHIPPED if s.name == options.name)
    scene = copy(shipped, options.out)
    if options.copy:
        print(to_json({"scene": scene}, indent=2) if options.json else scene)
        return OK
    if not options.json:
        print(f"{scene}: {shipped.about} (about {shipped.takes}, longer the first time)")
    status = RUN.run(_as_run(scene, options))
    if not options.json:
        print(f"\nopen the page above in a browser, or: simopt view\nchange {scene}, and: simopt run {scene}")
        others = ", ".join(s.name for s in SHIPPED if s is not shipped)
        print(f"other demos: {others}; a scene of your own: simopt new --help")
    return status


def _as_run(scene: Path, options: argparse.Namespace) -> argparse.Namespace:
    """The options of `simopt run SCENE`."""
    parser = argparse.ArgumentParser()
    add_scene_arguments(parser)
    RUN.add_arguments(parser)
    given = argparse.Namespace(json=options.json, quiet=options.quiet, modules=[], imported=[])
    return parser.parse_args([str(scene)], given)


DEMO = Verb("demo", "copy a scene that comes with the package, and run it", _run, _add_arguments)
