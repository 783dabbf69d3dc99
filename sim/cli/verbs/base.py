"""What a verb of the command is, and what those that take a scene have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.core.lang.errors import SimError
from sim.core.lang.types import as_scalar, float32, float64
from sim.core.runtime.ambient.threads import set_num_threads
from sim.scene import Scene, load_scene
from sim.scene.build.problem import PRECISION


@dataclass(frozen=True)
class Verb:
    """A verb: `run` does what it says and returns the exit status.

    takes_scene: it has the arguments of `add_scene_arguments`, and `load` reads the scene.
    """

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    takes_scene: bool = False


def add_scene_arguments(parser: argparse.ArgumentParser) -> None:
    """A scene, what is different from its file, and where and how it is computed."""
    parser.add_argument("scene", type=Path, metavar="SCENE", help="a scene file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="another value; may be repeated"
    )
    parser.add_argument("--device", default=None, help="cpu (default), cuda, cuda:1, or auto: a GPU where there is one")
    parser.add_argument("--dtype", type=precision, default=PRECISION, help=f"{PRECISION} (default) or float32")
    parser.add_argument("--threads", type=positive, help="threads for large launches")
    parser.add_argument("--seed", type=int, help="seed of everything that is drawn at random")
    parser.add_argument("--allow-outside", action="store_true", help="files may lie outside the scene's folder")


def load(options: argparse.Namespace) -> Scene:
    """The scene that the command line names, with its `--set`s."""
    if options.threads:
        set_num_threads(options.threads)
    overrides = list(options.set)
    if options.seed is not None:
        overrides.append(f"optimize.seed={options.seed}")
    return load_scene(options.scene, overrides, allow_outside=options.allow_outside, modules=options.imported)


def positive(text: str) -> int:
    """A whole number from 1, as an argument."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected at least 1")
    return number


def precision(text: str) -> Any:
    """A floating-point type, as an argument."""
    try:
        kind = as_scalar({"float": "float32", "double": "float64"}.get(text, text))
    except (SimError, TypeError, ValueError, KeyError):
        kind = None
    if kind not in (float32, float64):
        raise argparse.ArgumentTypeError(f"`{text}` is no precision; choose float32 or float64")
    return kind
