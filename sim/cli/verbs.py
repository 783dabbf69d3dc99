"""What the verbs of the command do."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Any

from sim.cli.modules import UsageError
from sim.core.backends.cache import clear_kernel_cache, kernel_cache_dir, kernel_cache_size
from sim.core.lang.types import float64
from sim.core.runtime.ambient.threads import get_num_threads, set_num_threads
from sim.core.runtime.devices.device import cuda_missing, get_device, get_devices
from sim.display import LiveWatcher, PlainWatcher, number_text, print_table, show_result, size_text
from sim.identify.assess.gradcheck import TOLERANCE, check_gradient
from sim.identify.problem import Problem
from sim.identify.run import INTERRUPTED, OK, Watcher, run_problem
from sim.io import STATE, environment, export_run, load_run, page, to_json, write_atomically
from sim.scene import Scene, load_scene
from sim.scene.build.problem import PRECISION
from sim.scene.schema.json_schema import json_schema
from sim.scene.schema.materials import registered_materials


def run(options: argparse.Namespace) -> int:
    """simopt run."""
    if options.simulate and (options.resume or options.iterations):
        raise UsageError("--simulate searches nothing: --resume and --iterations do not go with it")
    problem = _load(options).build(options.device, options.dtype)
    watcher: Watcher = Watcher()
    if not (options.json or options.quiet):
        watcher = LiveWatcher() if sys.stdout.isatty() else PlainWatcher()
    outcome = run_problem(
        problem, options.out, options.resume, options.iterations, watcher, options.profile, not options.simulate
    )
    if options.json:
        print(to_json({**outcome.result, "folder": str(outcome.folder)}, indent=2))
    else:
        show_result(outcome.result, outcome.folder)
        if options.profile and "profile" in outcome.result:
            print_table(
                "kernels",
                ["", "launches", "time [s]", "share", "GB/s"],
                [
                    [
                        row["kernel"],
                        str(row["calls"]),
                        f"{row['seconds']:.3f}",
                        f"{row['share']:.1%}",
                        f"{row['bytes'] / row['seconds'] / 1e9:.1f}",
                    ]
                    for row in outcome.result["profile"]
                ],
            )
    if outcome.status == INTERRUPTED and (outcome.folder / STATE).exists():
        print(f"continue with: {resume_command(options, outcome.folder)}", file=sys.stderr)
    return outcome.status


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    """The command that goes on with an interrupted run, for a shell."""
    words = ["simopt", "run", str(options.scene), "--resume", str(folder)]
    words += [word for setting in options.set for word in ("--set", setting)]
    words += [word for module in options.modules for word in ("--import", module)]
    if options.dtype is not PRECISION:
        words += ["--dtype", str(options.dtype)]
    for name in ("device", "seed", "threads", "iterations"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*words, *(["--allow-outside"] if options.allow_outside else [])])


def view(options: argparse.Namespace) -> int:
    """simopt view."""
    shown = page(load_run(options.folder)).resolve()
    opened = not options.no_browser and webbrowser.open(shown.as_uri())
    if options.json:
        print(to_json({"page": shown, "opened": opened}, indent=2))
    else:
        print(shown if opened or options.no_browser else f"no browser was found; open this page in one:\n{shown}")
    return OK


def export(options: argparse.Namespace) -> int:
    """simopt export."""
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


def check(options: argparse.Namespace) -> int:
    """simopt check."""
    problem = _load(options).build(options.device, options.dtype)
    facts = describe(problem)
    if options.json:
        print(to_json(facts, indent=2))
        return OK
    print_table(
        "constraints",
        ["", "count", "colours"],
        [[name, str(c["count"]), str(c["colors"])] for name, c in facts["constraints"].items()],
    )
    print_table("points", ["", "count"], [[name, str(count)] for name, count in facts["points"].items()])
    print_table(
        "experiments",
        ["", "frames", "steps", "dt [s]", "not seen"],
        [
            [name, str(e["frames"]), str(e["steps"]), f"{e['dt']:.4g}", str(e["unseen"])]
            for name, e in facts["experiments"].items()
        ],
    )
    if facts["parameters"]:
        print_table(
            "parameters",
            ["", "start", "unit", "low", "high"],
            [
                [name, number_text(p["start"]), p["unit"], number_text(p["bounds"][0]), number_text(p["bounds"][1])]
                for name, p in facts["parameters"].items()
            ],
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


def gradcheck(options: argparse.Namespace) -> int:
    """simopt gradcheck."""
    problem = _load(options).build(options.device, float64)
    if not problem.parameters:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is no gradient to check")
    rows = check_gradient(problem, seed=options.seed or 0)
    good = all(row.ok for row in rows)
    if options.json:
        shown = [{**vars(row), "error": row.error, "ok": row.ok} for row in rows]
        print(to_json({"rows": shown, "ok": good}, indent=2))
        return 0 if good else 1
    print_table(
        f"gradient of the loss by coordinates (tolerance {TOLERANCE:g})",
        ["", "back-propagated", "difference", "relative error", "step", "contacts switched", ""],
        [
            [
                r.parameter,
                f"{r.gradient:.10g}",
                f"{r.difference:.10g}",
                f"{r.error:.1e}",
                f"{r.step:g}",
                str(r.switched),
                "ok" if r.ok else "OFF",
            ]
            for r in rows
        ],
    )
    if not good and any(r.switched for r in rows):
        print("contacts switch within a step: the loss has a kink there, and the difference does not see the gradient")
    return 0 if good else 1


def schema(options: argparse.Namespace) -> int:
    """simopt schema."""
    text = to_json(json_schema(registered_materials()), indent=1) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_atomically(options.out, text)
    return OK


def info(options: argparse.Namespace) -> int:
    """simopt info."""
    about = environment(
        str(get_device()),
        packages=("numpy", "llvmlite", "pyyaml", "trimesh", "rich", "cuda-bindings", "nvidia-cuda-nvrtc"),
    )
    facts = {
        **{name: version or "not installed" for name, version in about["versions"].items()},
        "platform": about["platform"], "cores": about["cores"], "threads": get_num_threads(),
        "devices": ", ".join(device.description for device in get_devices()), "cuda": cuda_missing() or "available", "backend": get_device().backend.name,
        "kernel cache": str(kernel_cache_dir()), "constraints": ", ".join(registered_materials()),
    }  # fmt: skip
    if options.cache or options.clear_cache:
        count, size = kernel_cache_size()
        facts = {"kernel cache": str(kernel_cache_dir()), "kernels": count, "bytes": size}
    if options.clear_cache:
        facts["deleted"] = clear_kernel_cache()
    if options.json:
        print(to_json(facts, indent=2))
    else:
        print_table("", ["", ""], [[name, str(value)] for name, value in facts.items()])
    return OK


def _load(options: argparse.Namespace) -> Scene:
    if getattr(options, "threads", None):
        set_num_threads(options.threads)
    overrides = list(options.set)
    if options.seed is not None:
        overrides.append(f"optimize.seed={options.seed}")
    return load_scene(options.scene, overrides, allow_outside=options.allow_outside, modules=options.imported)
