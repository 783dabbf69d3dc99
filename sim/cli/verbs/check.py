"""simopt check: builds a scene, and says what it holds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from sim.cli.terminal.tables import number_text, print_columns, size_text
from sim.cli.verbs.base import Verb, load
from sim.identify.numerics.convergence import convergence
from sim.identify.numerics.numerical_error import share_text
from sim.identify.numerics.residuals import residuals_of_steps
from sim.identify.problem import Problem
from sim.identify.run import OK
from sim.io import to_json
from sim.model.counts import model_counts
from sim.rollout.budget import parse_bytes


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, options.dtype)
    facts = describe(problem)
    if options.converge:
        facts["convergence"] = asdict(convergence(problem))
        facts["residuals"] = {name: asdict(r) for name, r in residuals_of_steps(problem, problem.start).items()}
    if options.json:
        print(to_json(facts, indent=2))
        return OK
    print_columns(
        "constraints",
        facts["constraints"].items(),
        ("", lambda row: row[0]),
        ("count", lambda row: str(row[1]["count"])),
        ("colours", lambda row: str(row[1]["colors"])),
    )
    print_columns("points", facts["points"].items(), ("", lambda row: row[0]), ("count", lambda row: str(row[1])))
    if facts["bodies"]:
        print_columns("bodies", facts["bodies"].items(), ("", lambda row: row[0]), ("count", lambda row: str(row[1])))
    if facts["joints"]:
        print_columns("joints", facts["joints"].items(), ("", lambda row: row[0]), ("kind", lambda row: row[1]))
    print(", ".join(f"{name} {count}" for name, count in facts["counts"].items()))
    print_columns(
        "experiments",
        facts["experiments"].items(),
        ("", lambda row: row[0]),
        ("frames", lambda row: str(row[1]["frames"])),
        ("steps", lambda row: str(row[1]["steps"])),
        ("dt [s]", lambda row: f"{row[1]['dt']:.4g}"),
        ("not seen", lambda row: str(row[1]["unseen"])),
    )
    if facts["parameters"]:
        print_columns(
            "parameters",
            facts["parameters"].items(),
            ("", lambda row: row[0]),
            ("start", lambda row: number_text(row[1]["start"])),
            ("unit", lambda row: row[1]["unit"]),
            ("low", lambda row: number_text(row[1]["bounds"][0])),
            ("high", lambda row: number_text(row[1]["bounds"][1])),
        )
        print(f"memory of the gradient: {size_text(facts['gradient_bytes'])}")
    for path, told in facts["recordings"].items():
        print(f"{path}: {told}")
    if options.converge:
        show_convergence(facts)
    for warning in facts["warnings"]:
        print(f"warning: {warning}")
    print(f"{facts['scene']}: ok")
    return OK


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--converge",
        action="store_true",
        help="simulate with shorter steps, more iterations and a finer mesh, and show what changes",
    )


def _over_budget(problem: Problem) -> list[str]:
    """A sentence where no schedule of checkpoints keeps within the budget."""
    budget = getattr(problem.strategy, "budget", None)
    needed = problem.gradient_memory()
    if budget is None or needed <= parse_bytes(budget):
        return []
    given = size_text(parse_bytes(budget))
    return [f"optimize.rollout.checkpointed.budget: the gradient takes {size_text(needed)} at least, more than {given}"]


def show_convergence(facts: Mapping[str, Any]) -> None:
    """What changes with step, iterations and mesh, level by level, and the order observed."""
    levels, found = facts["convergence"]["levels"], facts["parameters"]
    there = [level for level in levels if not level["missing"]]
    measures = list(there[0]["measures"])
    print_columns(
        "convergence (parameters: how far the optimum moves, linearised at the start)",
        there,
        ("", lambda row: f"{row['cause']} {row['label']}".strip()),
        ("moved [m]", lambda row: "-" if math.isnan(row["moved"]) else f"{row['moved']:.3g}"),
        ("loss", lambda row: "-" if row["loss"] is None else f"{row['loss']:.5g}"),
        *((name, partial(_measured, name)) for name in measures),
        *((name, partial(_shifted, name, found[name]["start"])) for name in found),
    )
    if math.isfinite(facts["convergence"]["order"]):
        print(f"observed order of the step: {facts['convergence']['order']:.2f}")
    if facts["residuals"]:
        print_columns(
            "left undone by a step",
            facts["residuals"].items(),
            ("", lambda row: row[0]),
            ("of the force", lambda row: f"{100 * row[1]['force']:.2g} %"),
            ("of an element", lambda row: f"{row[1]['strain']:.2g}"),
        )
    for level in levels:
        if level["missing"]:
            print(f"{level['cause']} {level['label']}: not evaluated: {level['missing']}")


def _measured(name: str, level: Mapping[str, Any]) -> str:
    return number_text(level["measures"][name])


def _shifted(name: str, start: Any, level: Mapping[str, Any]) -> str:
    """The largest change of a parameter over its value."""
    if level["shifts"] is None:
        return "-"
    moved, value = np.ravel(level["shifts"][name]), np.abs(np.broadcast_to(start, np.shape(level["shifts"][name])))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = moved / value.ravel()
    worst = float(share[np.argmax(np.abs(share))])
    return share_text(worst) if math.isfinite(worst) else number_text(level["shifts"][name])


def describe(problem: Problem) -> dict[str, Any]:
    """Counts of a problem, as `simopt check` shows them."""
    model = problem.model
    points = {name: group.count for name, group in model.groups.items()}
    points |= {f"{a.label} ({'pinned' if a.pinned else 'attached'})": len(a.points) for a in model.attachments}
    points |= {f"{name} (markers)": m.count for name, m in problem.markers.items()}
    return {
        "scene": problem.description.name,
        "points": points,
        "bodies": {name: group.count for name, group in model.bodies.items()},
        "joints": {label: joint.kind for label, joint in model.joints.items()},
        "counts": model_counts(model),
        "constraints": {name: {"count": s.count, "colors": s.color_count} for name, s in model.constraint_sets.items()},
        "experiments": {e.name: {
            "frames": e.schedule.frames, "steps": e.schedule.steps, "dt": e.schedule.dt,
            "unseen": sum(int((~t.seen).sum()) for t in e.targets.values() if not t.planned),
        } for e in problem.experiments},
        "parameters": {p.name: {"start": p.start, "unit": p.unit, "bounds": p.bounds} for p in problem.sought},
        "recordings": dict(problem.description.recordings),
        "gradient_bytes": problem.gradient_memory(),
        "warnings": [*problem.description.notes, *_over_budget(problem)],
    }  # fmt: skip


CHECK = Verb("check", "check a scene without running it", _run, _add_arguments, takes_scene=True)
