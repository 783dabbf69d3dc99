"""A finished run, made into a problem again, with what it found."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.identify.problem import Problem
from sim.identify.run import RESULT, SCENE
from sim.io import RunFolderError, find_run
from sim.scene import load_scene


@dataclass(frozen=True, eq=False)
class Finished:
    """The folder of a run, what stands in its result.json, the problem, and the coordinates x (n,) that it found."""

    folder: Path
    result: dict[str, Any]
    problem: Problem
    x: np.ndarray


def read_result(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a run, or of the newest of several, and its result.json.  Raises RunFolderError."""
    folder = find_run(path)
    try:
        return folder, json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{folder / RESULT} cannot be read: {error}", "run the scene again") from error


def read_finished(options: argparse.Namespace) -> Finished:
    """The run that the command line names by `folder`.  Raises RunFolderError where it cannot be gone on from."""
    folder, result = read_result(options.folder)
    source = result.get("scene_file")
    if source is None or not (folder / SCENE).is_file():
        raise RunFolderError(f"{folder} is no run of a scene file", "run a scene with `simopt run`")
    values = {name: row["final"] for name, row in result["parameters"].items()}
    if not values or any(value is None for value in values.values()):
        raise RunFolderError(f"{folder} has found nothing", "run a scene with `parameters` to its end")
    scene = load_scene(folder / SCENE, allow_outside=True, base=Path(source).parent, modules=options.imported)
    problem = scene.build(result.get("device"), result.get("dtype", "float64"))
    return Finished(folder, result, problem, problem.space.pack(values))


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """The run that a verb is about."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder, or a folder of runs: the newest")
