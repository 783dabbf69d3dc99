"""The command `simopt`: run | view | export | check | gradcheck | schema | info | show-ir.

Exit status: 0 all well; 1 an expectation not met, a gradient off, or a run that broke down; 2 bad input, nothing
written; 130 interrupted, state saved.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from sim.core.backends.cache import clear_kernel_cache, kernel_cache_dir, kernel_cache_size
from sim.core.backends.cuda_text import CudaText
from sim.core.backends.llvm import LlvmBackend
from sim.core.lang.errors import SimError, did_you_mean
from sim.core.lang.frontend import trace_kernel
from sim.core.lang.ir import to_text
from sim.core.lang.types import ArrayType, as_scalar, float64
from sim.core.runtime.device import cuda_missing, get_device, get_devices
from sim.core.runtime.kernel import Kernel
from sim.core.runtime.threads import get_num_threads, set_num_threads
from sim.display import LiveWatcher, PlainWatcher, number_text, print_table, show_result, size_text
from sim.identify.gradcheck import TOLERANCE, check_gradient
from sim.identify.problem import Problem
from sim.identify.run import OK, Watcher, run_problem
from sim.io import (
    RecordingError,
    RunFolderError,
    environment,
    export_run,
    load_run,
    page,
    to_json,
    write_atomically,
)
from sim.scene import Scene, SceneError, load_scene
from sim.scene.json_schema import json_schema
from sim.scene.materials import registered_materials

BAD_INPUT, INTERRUPTED = 2, 130
STAGES = ("traced", "ir", "adjoint", "llvm", "optimized", "cuda", "adjoint-llvm", "adjoint-optimized", "adjoint-cuda")


class UsageError(SimError):
    """Something on the command line that cannot be used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: that of the process); returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        if options.modules:
            sys.path.insert(0, "")  # modules of the folder where the command is given
        options.imported = [_import_module(module) for module in options.modules]
        return options.run(options)
    except SceneError as error:
        return _bad_input(options, str(error), [
            {"where": str(p.mark), "path": p.path, "what": p.what, "hint": p.hint} for p in error.problems])
    except (RunFolderError, RecordingError, SimError) as error:
        return _bad_input(options, str(error), [])
    except MemoryError as error:
        return _bad_input(options, f"not enough memory: {error}\n  fewer points, frames or steps need less", [])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _bad_input(options: argparse.Namespace, text: str, problems: list[dict[str, str]]) -> int:
    if options.json:
        print(to_json({"error": text, "problems": problems}, indent=2))
    else:
        count = f"\n\n{len(problems)} problems" if len(problems) > 1 else ""
        print(f"{text}{count}", file=sys.stderr)
    return BAD_INPUT


# ------------------------------------------------------------------------------------------------ verbs
def _run(options: argparse.Namespace) -> int:
    problem = _load(options).build(options.device, options.dtype)
    watcher: Watcher = Watcher()
    if not options.json:
        watcher = LiveWatcher() if sys.stdout.isatty() else PlainWatcher()
    outcome = run_problem(problem, options.out, options.resume, options.iterations, watcher, options.profile)
    if options.json:
        print(to_json({**outcome.result, "folder": str(outcome.folder)}, indent=2))
    else:
        show_result(outcome.result, outcome.folder)
        if options.profile and "profile" in outcome.result:
            print_table("kernels", ["", "launches", "time [s]", "share", "GB/s"], [
                [row["kernel"], str(row["calls"]), f"{row['seconds']:.3f}", f"{row['share']:.1%}", f"{row['bytes'] / row['seconds'] / 1e9:.1f}"]
                for row in outcome.result["profile"]])
    return outcome.status


def _view(options: argparse.Namespace) -> int:
    shown = page(load_run(options.folder)).resolve()
    opened = not options.no_browser and webbrowser.open(shown.as_uri())
    if options.json:
        print(to_json({"page": shown, "opened": opened}, indent=2))
    else:
        print(shown if opened or options.no_browser else f"no browser was found; open this page in one:\n{shown}")
    return OK


def _export(options: argparse.Namespace) -> int:
    files = export_run(load_run(options.folder), options.to, options.out, options.experiment, options.every, options.size)
    print(to_json({"files": files}, indent=2) if options.json else "\n".join(str(file) for file in files))
    return OK


def _check(options: argparse.Namespace) -> int:
    problem = _load(options).build(options.device, options.dtype)
    facts = describe(problem)
    if options.json:
        print(to_json(facts, indent=2))
        return OK
    print_table("constraints", ["", "count", "colours"], [
        [name, str(c["count"]), str(c["colors"])] for name, c in facts["constraints"].items()])
    print_table("points", ["", "count"], [[name, str(count)] for name, count in facts["points"].items()])
    print_table("experiments", ["", "frames", "steps", "dt [s]", "not seen"], [
        [name, str(e["frames"]), str(e["steps"]), f"{e['dt']:.4g}", str(e["unseen"])]
        for name, e in facts["experiments"].items()])
    if facts["parameters"]:
        print_table("parameters", ["", "start", "unit", "low", "high"], [
            [name, number_text(p["start"]), p["unit"], number_text(p["bounds"][0]), number_text(p["bounds"][1])]
            for name, p in facts["parameters"].items()])
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
        "parameters": {p.name: {"start": p.start, "unit": p.unit, "bounds": p.bounds} for p in problem.sought},
        "gradient_bytes": problem.gradient_memory(),
        "warnings": list(problem.description.notes),
    }  # fmt: skip


def _gradcheck(options: argparse.Namespace) -> int:
    problem = _load(options).build(options.device, float64)
    if not problem.sought:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is no gradient to check")
    rows = check_gradient(problem, seed=options.seed or 0)
    good = all(row.ok for row in rows)
    if options.json:
        shown = [{**vars(row), "error": row.error, "ok": row.ok} for row in rows]
        print(to_json({"rows": shown, "ok": good}, indent=2))
        return 0 if good else 1
    print_table(f"gradient of the loss by coordinates (tolerance {TOLERANCE:g})",
                ["", "back-propagated", "difference", "relative error", "step", "contacts switched", ""],
                [[r.parameter, f"{r.gradient:.10g}", f"{r.difference:.10g}", f"{r.error:.1e}", f"{r.step:g}",
                  str(r.switched), "ok" if r.ok else "OFF"] for r in rows])
    if not good and any(r.switched for r in rows):
        print("contacts switch within a step: the loss has a kink there, and the difference does not see the gradient")
    return 0 if good else 1


def _schema(options: argparse.Namespace) -> int:
    text = to_json(json_schema(registered_materials()), indent=1) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_atomically(options.out, text)
    return OK


def _info(options: argparse.Namespace) -> int:
    about = environment(str(get_device()), packages=("numpy", "llvmlite", "pyyaml", "trimesh", "rich", "cuda-bindings", "nvidia-cuda-nvrtc"))
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


def _show_ir(options: argparse.Namespace) -> int:
    file, _, name = options.kernel.rpartition(":")
    if not file:
        raise UsageError(f"`{options.kernel}` names no kernel; write FILE:KERNEL, as in examples.py:mean_square")
    found = getattr(_import_file(Path(file)), name, None)
    if not isinstance(found, Kernel):
        raise UsageError(f"{file} has no kernel `{name}`")
    text = kernel_text(found, options.stage)
    print(to_json({"kernel": found.name, "stage": options.stage, "text": text}) if options.json else text)
    return OK


def kernel_text(kernel: Kernel, stage: str) -> str:
    """One stage of a kernel's compilation, for the types of its annotations; its adjoint with all gradients."""
    missing = [p.name for p in kernel.parameters
               if p.type is None or (isinstance(p.type, ArrayType) and p.type.dtype is None)]
    if missing:
        raise UsageError(f"kernel `{kernel.name}` is generic in {', '.join(missing)}; annotate them to see its code")
    types = tuple(p.type for p in kernel.parameters if p.type is not None)
    if stage == "traced":
        return to_text(trace_kernel(kernel.function, types, name=kernel.name, real=kernel.real))
    made = kernel.specialise(types)
    func = made.func
    if stage.startswith("adjoint"):
        kinds = [p.type for p in func.params]
        active = frozenset(k for k, t in enumerate(kinds) if isinstance(t, ArrayType) and _has_gradient(t))
        gradients = made.differentiated(active, ())
        func = gradients.adjoint(frozenset(gradients.needs.must)).adjoint.func
    if stage.endswith("cuda"):
        return CudaText(func).kernel()
    backend = LlvmBackend()
    if stage.endswith("llvm"):
        return backend.text(func)
    return backend.optimised_text(func) if stage.endswith("optimized") else to_text(func)


def _has_gradient(kind: ArrayType) -> bool:
    leaves = getattr(kind.dtype, "leaves", None)
    scalars: list[Any] = [kind.dtype] if leaves is None else [leaf.scalar for leaf in leaves]
    return any(s.is_float for s in scalars)


# ------------------------------------------------------------------------------------------------ inputs
def _load(options: argparse.Namespace) -> Scene:
    if getattr(options, "threads", None):
        set_num_threads(options.threads)
    overrides = list(options.set)
    if options.seed is not None:
        overrides.append(f"optimize.seed={options.seed}")
    return load_scene(options.scene, overrides, allow_outside=options.allow_outside, modules=options.imported)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise UsageError(f"--import {name}: there is no such module here; name a .py file of this folder without its "
                             "ending, or an installed module") from None
        raise UsageError(_fails(f"--import {name}", error)) from error


def _fails(what: str, error: Exception) -> str:
    """Somebody else's code that does not run: where, and the error."""
    if isinstance(error, SyntaxError):
        return f"{what}: {error.filename}:{error.lineno}: {error.msg}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what}: {last.filename}:{last.lineno}: {type(error).__name__}: {error}"


def _import_file(path: Path) -> Any:
    if not path.is_file():
        near = did_you_mean(path.name, (p.name for p in path.parent.glob("*.py"))) if path.parent.is_dir() else ""
        raise UsageError(f"there is no file {path}{near}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script: its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(_fails(str(path), error)) from error
    finally:
        sys.path.pop(0)
    return module


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


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    # SUPPRESS: given before the verb they must not be reset by the defaults of the verb's own parser.
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")
    common.add_argument("--import", dest="modules", action="append", default=argparse.SUPPRESS, metavar="MODULE",
                        help="a module to import first: constraints and losses of your own; may be repeated")
    scene = argparse.ArgumentParser(add_help=False)
    scene.add_argument("scene", type=Path, metavar="SCENE", help="a scene file")
    scene.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                       help="another value; may be repeated")
    scene.add_argument("--device", default=None, help="cpu, or auto for the best that there is")
    scene.add_argument("--dtype", type=_precision, default=float64, help="float64 (default) or float32")
    scene.add_argument("--threads", type=_positive, help="threads for large launches")
    scene.add_argument("--seed", type=int, help="of everything drawn at random")
    scene.add_argument("--allow-outside", action="store_true", help="files may lie outside the scene's folder")

    parser = argparse.ArgumentParser(
        prog="simopt", description="Differentiable physics: simulate scenes, identify parameters.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE",
                        help="a module to import first")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=text, parents=[*parents, common])
        made.set_defaults(run=run)
        return made

    run = verb("run", _run, "simulate, and identify what the scene seeks", scene)
    run.add_argument("--iterations", type=_positive, help="iterations in all, instead of the scene's")
    run.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    run.add_argument("--out", type=Path, metavar="DIR", help="the run folder; default runs/<scene>/<time>")
    run.add_argument("--profile", action="store_true", help="measure the time of every kernel, for the report")
    view = verb("view", _view, "open a run's report, or its player, in a browser")
    view.add_argument("folder", type=Path, nargs="?", default=Path("runs"), metavar="RUN",
                      help="a run folder, or a folder of runs: the newest; default runs")
    view.add_argument("--no-browser", action="store_true", help="only print the page's path")
    export = verb("export", _export, "write a run in another format")
    export.add_argument("folder", type=Path, metavar="RUN", help="a run folder, or a folder of runs: the newest")
    export.add_argument("--to", required=True, choices=("glb", "npz", "csv", "mp4"),
                        help="glb: animated 3-D file; csv: markers; mp4: a film (needs the extra [video])")
    export.add_argument("--out", type=Path, metavar="PATH", help="a file, or a folder; default: the run folder")
    export.add_argument("--experiment", action="append", default=[], metavar="NAME", help="default: all; may be repeated")
    export.add_argument("--every", type=_positive, default=1, metavar="N", help="only each N-th recorded frame")
    export.add_argument("--size", type=_size, default=(640, 480), metavar="WxH", help="of a film in pixels; default 640x480")
    verb("check", _check, "check a scene without running it", scene)
    verb("gradcheck", _gradcheck, "compare gradients with differences, in float64, through the whole rollout", scene)
    schema = verb("schema", _schema, "the JSON Schema of scenes, for editors")
    schema.add_argument("--out", type=Path, metavar="FILE", help="write it there")
    info = verb("info", _info, "versions, devices, where compiled kernels are kept")
    info.add_argument("--cache", action="store_true", help="how many compiled kernels are kept, and their size")
    info.add_argument("--clear-cache", action="store_true", help="delete them")
    show = verb("show-ir", _show_ir, "what becomes of a kernel")
    show.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a kernel in it")
    show.add_argument("--stage", choices=STAGES, default="ir", help="default: ir")
    return parser


if __name__ == "__main__":
    sys.exit(main())
