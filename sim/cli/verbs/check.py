"""simopt check: builds a scene, and says what it holds."""

from __future__ import annotations

import argparse
from typing import Any

from sim.cli.terminal.tables import number_text, print_columns, size_text
from sim.cli.verbs.base import Verb, load
from sim.identify.problem import Problem
from sim.identify.run import OK
from sim.io import to_json


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, options.dtype)
    facts = describe(problem)
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
    for warning in facts["warnings"]:
        print(f"warning: {warning}")
    print(f"{facts['scene']}: ok")
    return OK


def describe(problem: Problem) -> dict[str, Any]:
    """Counts of a problem, as `simopt check` shows them."""
    model = problem.model
    points = {name: group.count for name, group in model.groups.items()}
    points |= {f"{a.label} ({'pinned' if a.pinned else 'attached'})": len(a.points) for a in model.attachments}
    points |= {f"{name} (markers)": m.count for name, m in problem.markers.items()}
    return {
        "scene": problem.description.name,
        "points": points,
        "constraints": {name: {"count": s.count, "colors": s.color_count} for name, s in model.constraint_sets.items()},
        "experiments": {e.name: {
            "frames": e.schedule.frames, "steps": e.schedule.steps, "dt": e.schedule.dt,
            "unseen": sum(int((~t.seen).sum()) for t in e.targets.values()),
        } for e in problem.experiments},
        "parameters": {p.name: {"start": p.start, "unit": p.unit, "bounds": p.bounds} for p in problem.parameters},
        "gradient_bytes": problem.gradient_memory(),
        "warnings": list(problem.description.notes),
    }  # fmt: skip


CHECK = Verb("check", "check a scene without running it", _run, takes_scene=True)
