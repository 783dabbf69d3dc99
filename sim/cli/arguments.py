"""The arguments of the command: verbs, their options, and what these may be."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from sim.cli.show_ir import STAGES
from sim.core.lang.errors import SimError
from sim.core.lang.types import as_scalar
from sim.io.formats import FORMATS, FORMATS_HELP
from sim.scene.build.problem import PRECISION


class _Version(argparse.Action):
    """Prints the version, found only when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option: str | None = None,
    ) -> None:
        try:
            version = metadata.version("simopt-xpbd")
        except metadata.PackageNotFoundError:
            version = "of a source tree that is not installed"
        print(f"simopt {version} (Python {platform.python_version()})")
        parser.exit()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected at least 1")
    return number


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"`{text}` is no size; write it as 640x480")
    return int(width), int(height)


def _precision(text: str) -> Any:
    try:
        kind = as_scalar({"float": "float32", "double": "float64"}.get(text, text))
    except (SimError, TypeError, ValueError, KeyError):
        kind = None
    if kind is None or not kind.is_float:
        raise argparse.ArgumentTypeError(f"`{text}` is no precision; choose float32 or float64")
    return kind


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line; what it gives has the name of the `verb`."""
    common = argparse.ArgumentParser(add_help=False)
    # SUPPRESS: given before the verb they must not be reset by the defaults of the verb's own parser.
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")
    common.add_argument(
        "--quiet", "-q", action="store_true", default=argparse.SUPPRESS, help="print nothing but errors"
    )
    common.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=argparse.SUPPRESS,
        metavar="MODULE",
        help="a module to import first: constraints and losses of your own; may be repeated",
    )
    scene = argparse.ArgumentParser(add_help=False)
    scene.add_argument("scene", type=Path, metavar="SCENE", help="a scene file")
    scene.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="another value; may be repeated"
    )
    scene.add_argument("--device", default=None, help="cpu, or auto for the best that there is")
    scene.add_argument("--dtype", type=_precision, default=PRECISION, help=f"{PRECISION} (default) or float32")
    scene.add_argument("--threads", type=_positive, help="threads for large launches")
    scene.add_argument("--seed", type=int, help="of everything drawn at random")
    scene.add_argument("--allow-outside", action="store_true", help="files may lie outside the scene's folder")

    parser = argparse.ArgumentParser(
        prog="simopt", description="Differentiable physics: simulate scenes, identify parameters."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but errors")
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE", help="a module to import first"
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")

    def verb(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text, parents=[*parents, common])

    run = verb("run", "simulate, and identify what the scene seeks", scene)
    run.add_argument(
        "--simulate",
        action="store_true",
        help="only simulate, with the parameters at their start; recordings are shown beside it",
    )
    run.add_argument(
        "--iterations", type=_positive, help="iterations in all (on every horizon), instead of the scene's"
    )
    run.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    run.add_argument("--out", type=Path, metavar="DIR", help="the run folder; default runs/<scene>/<time>")
    run.add_argument("--profile", action="store_true", help="measure the time of every kernel, for the report")
    view = verb("view", "open a run's report, or its player, in a browser")
    view.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs"),
        metavar="RUN",
        help="a run folder, or a folder of runs: the newest; default runs",
    )
    view.add_argument("--no-browser", action="store_true", help="only print the page's path")
    export = verb("export", "write a run in another format")
    export.add_argument("folder", type=Path, metavar="RUN", help="a run folder, or a folder of runs: the newest")
    export.add_argument(
        "--to",
        required=True,
        choices=tuple(FORMATS),
        help=FORMATS_HELP,
    )
    export.add_argument("--out", type=Path, metavar="PATH", help="a file, or a folder; default: the run folder")
    export.add_argument(
        "--experiment", action="append", default=[], metavar="NAME", help="default: all; may be repeated"
    )
    export.add_argument("--every", type=_positive, default=1, metavar="N", help="only each N-th recorded frame")
    export.add_argument(
        "--size", type=_size, default=(640, 480), metavar="WxH", help="of a film in pixels; default 640x480"
    )
    verb("check", "check a scene without running it", scene)
    verb("gradcheck", "compare gradients with differences, in float64, through the whole rollout", scene)
    schema = verb("schema", "the JSON Schema of scenes, for editors")
    schema.add_argument("--out", type=Path, metavar="FILE", help="write it there")
    info = verb("info", "versions, devices, where compiled kernels are kept")
    info.add_argument("--cache", action="store_true", help="how many compiled kernels are kept, and their size")
    info.add_argument("--clear-cache", action="store_true", help="delete them")
    show = verb("show-ir", "what becomes of a kernel")
    show.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a kernel in it")
    show.add_argument("--stage", choices=STAGES, default="ir", help="default: ir")
    return parser
