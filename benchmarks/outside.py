"""Where a run of the command spends its processor time outside native code.

    python benchmarks/outside.py [--scenes cloth,beam,chain] [--rounds 3] [--trees DIR,DIR]

`simopt run SCENE` in fresh processes with one thread, kernels compiled and byte code kept by a run before.  Inside, a
stopwatch is handed over whenever a function of `PARTS` begins or ends, so that each part has its own time alone; native
code are the calls that go there.  Of several rounds the one that took least is shown.  With `--trees` the package is
taken from several checkouts, in turn.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARTS = {
    "reading and building the scene": ("sim.cli.verbs.run:load", "sim.scene.scene:Scene.build"),
    "tracing, or finding kernels again": ("sim.core.runtime.launch.kernel:Kernel.specialise",),
    "races, adjoints": (
        "sim.core.runtime.debug.races:_check_of",
        "sim.core.runtime.launch.kernel:Specialisation.differentiated",
    ),
    "compiling, or loading code": ("sim.core.runtime.compiled.compiled:Compiled._compile",),
    "capturing and recording steps": (
        "sim.rollout.workspace:CapturedStep.__call__",
        "sim.rollout.segments:Segment._record",
    ),
    "replaying graphs": ("sim.core.runtime.devices.graph:Graph.rerun",),
    "keeping frames": ("sim.rollout.runs:Run.keep_frame", "sim.rollout.runs:Run._check"),
    "the rest of rollouts": ("sim.identify.evaluate.evaluator:rollout", "sim.core.runtime.tape.tape:Tape.backward"),
    "contacts, looked at": ("sim.solvers.contacts.watch:ContactWatch.step",),
    "measured numbers": ("sim.identify.data.measures:Measure.take",),
    "the report": ("sim.identify.run:report_data", "sim.identify.run:write_report"),
}
"""Functions by what they are for, `module:name` as the module or class that calls them has it."""
NATIVE, STARTING, OTHER = "native code", "Python, and imports", "all else"


class Stopwatch:
    """Processor time by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open, self._since = [STARTING], 0.0

    def change(self) -> None:
        """The time since the last change belongs to the part that is open."""
        now = time.process_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose time belongs to a part."""

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            self.change()
            self._open.append(part)
            try:
                return function(*args, **named)
            finally:
                self.change()
                self._open.pop()

        return call

    def watch(self, part: str, place: str) -> None:
        """A function in its place is timed from now on."""
        module, name = place.split(":")
        *above, last = name.split(".")
        owner = functools.reduce(getattr, above, importlib.import_module(module))
        setattr(owner, last, self.timed(part, getattr(owner, last)))


def inside(scene: str, out: str) -> None:
    """What the process does that is measured; prints seconds by part."""
    watch = Stopwatch()
    from sim.cli import main

    watch.change()
    watch._open = [OTHER]
    from sim.core.backends.llvm import backend
    from sim.core.backends.native import native
    from sim.core.runtime.ambient import threads

    for place, made in ((backend, "builtin_run"), (threads, "builtin_repeat")):
        make = getattr(place, made)
        setattr(place, made, lambda *args, make=make: watch.timed(NATIVE, make(*args)))
    native().walk = watch.timed(NATIVE, native().walk)
    for part, places in PARTS.items():
        for place in places:
            watch.watch(part, place)
    sys.argv[1:] = ["-q", "run", scene, "--out", out]
    status = main()  # with what it does for a process of its own: Python's search for garbage is spared
    watch.change()
    print(json.dumps(watch.seconds))
    raise SystemExit(status)


def measured(tree: Path, scene: str, folder: str) -> dict[str, float]:
    """Seconds by part of a run of a fresh process."""
    env = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "SIM_CACHE_DIR": os.path.join(folder, "kernels"),
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "bytecode"),
        **dict.fromkeys(("SIM_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, __file__, "--inside", str(tree / "scenes" / f"{scene}.yaml"), f"{out}/run"]
        found = subprocess.run(command, check=True, env=env, capture_output=True, text=True, cwd=tree).stdout
    return dict(json.loads(found))


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", default="cloth,beam,chain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", default=str(ROOT))
    args = parser.parse_args()
    trees = [Path(tree).resolve() for tree in args.trees.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for scene in args.scenes.split(","):
            rounds = []
            for _ in range(args.rounds + 1):
                rounds.append([measured(tree, scene, f"{folder}/{k}") for k, tree in enumerate(trees)])
            best = [min((r[k] for r in rounds[1:]), key=lambda r: sum(r.values())) for k in range(len(trees))]
            print(f"\n{scene}, seconds of processor time")
            for part in (NATIVE, STARTING, *PARTS, OTHER):
                print(f"{part:36}" + "".join(f"{found.get(part, 0.0):9.2f}" for found in best))
            print(f"{'all':36}" + "".join(f"{sum(found.values()):9.2f}" for found in best))
            print(f"{'outside native code':36}" + "".join(f"{1 - f[NATIVE] / sum(f.values()):9.1%}" for f in best))


if __name__ == "__main__":
    main()
