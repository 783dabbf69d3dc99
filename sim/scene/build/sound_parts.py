"""What meshes, recordings and choices of points have to say where a scene has problems elsewhere: all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim.model import ModelBuilder
from sim.scene.build.context import BuildContext
from sim.scene.build.experiments import load_target, make_experiments, make_markers
from sim.scene.build.parts import add_parts
from sim.scene.validate.document import Document
from sim.schema.errors import Diagnostic

_TABLES = ("objects", "joints", "shapes", "attachments", "loads", "markers", "experiments")


def problems_of_sound_parts(scene: Document, known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What building finds in those entries of a scene's tables that have none of the problems that are `known`.

    `scene` holds what could be read: entries with problems may lack keys, and are left alone.
    """
    data = {**scene.data, **{table: scene.data.get(table, {}) for table in _TABLES}, "parameters": {}}
    entries = [f"{table}.{name}" for table in _TABLES for name in data[table]]
    broken = {entry for entry in entries if any(f"{problem.path}.".startswith(f"{entry}.") for problem in known)}
    if any(problem.path.split(".")[0] == "contact" for problem in known):
        broken.add("contact")
    timed = "time" in data and not any(problem.path.split(".")[0] == "time" for problem in known)
    data["experiments"] = {
        name: {**entry, "set": _times(entry) if timed else {}}
        for name, entry in data["experiments"].items()
        if f"experiments.{name}" not in broken
    }
    context = BuildContext(replace(scene, data=data), ModelBuilder(), skipped=broken)
    markers = make_markers(context, add_parts(context))
    if timed and not any(problem.path.split(".")[0] == "markers" for problem in known):
        make_experiments(context, None, markers)
    else:
        for name, entry in data["experiments"].items():
            for columns in entry["target"].get("markers", {None: None}).values() if "target" in entry else ():
                load_target(context, f"experiments.{name}.target", entry["target"], columns, None)
    return context.problems


def _times(entry: dict[str, Any]) -> dict[str, Any]:
    """Of what an experiment sets, what decides how much of its recording is needed."""
    return {path: value for path, value in entry["set"].items() if path.startswith("time.")}
