"""How long until something happens: import, a launch, the first gradient of a cloth from a cold and a warm kernel cache.

    python benchmarks/start.py [--json FILE]

Each line is the least of several runs, beside its limit, and the ratio of the two.  Process times (user + system) of fresh
processes, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

GRADIENT = """
import sim
b = sim.ModelBuilder()
b.add_cloth_grid(pos=(0, 0, 0), dim_x=32, dim_y=32, cell_x=1 / 32, cell_y=1 / 32, density=0.2, fix_top=True, label="sheet",
                 material={"distance": {"compliance": 0.01}, "shear": {"compliance": 0.1}, "bend": {"compliance": 1e3}})
model = b.finalize(requires_grad=True)
with sim.Tape() as tape:
    result = sim.rollout(sim.SolverXPBD(model), model.state(), steps=10, dt=1 / 600, strategy=sim.Checkpointed(every=10))
tape.backward(grads={result.particle_q: sim.ones_like(result.particle_q)})
assert abs(model["sheet.distance.compliance"].grad.numpy()[0]) > 0
"""


def process_seconds(code: str, cache: str) -> float:
    """User and system time of a fresh interpreter that runs `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "SIM_CACHE_DIR": cache})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def per_call(action: Callable[[], object], calls: int = 5000, rounds: int = 5) -> float:
    """Least seconds per call."""
    action()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            action()
        best = min(best, (time.process_time() - start) / calls)
    return best


def launches() -> dict[str, float]:
    import sim

    @sim.kernel
    def saxpy(x: sim.array[float], y: sim.array[float], a: float):
        i = sim.tid()
        y[i] = a * x[i] + y[i]

    x, y = sim.ones(64), sim.zeros(64)
    recorded = sim.launch(saxpy, dim=64, inputs=[x], outputs=[y, 0.5], record_cmd=True)
    return {
        "launch [us]": 1e6 * per_call(lambda: sim.launch(saxpy, dim=64, inputs=[x], outputs=[y, 0.5])),
        "recorded Launch [us]": 1e6 * per_call(recorded.launch),
    }


LIMITS = {
    "import sim [s]": 0.3, "first gradient, cold cache [s]": 5.0, "first gradient, warm cache [s]": 1.5,
    "launch [us]": 6.0, "recorded Launch [us]": 2.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as warm:
        figures["import sim [s]"] = min(process_seconds("import sim", warm) for _ in range(5))
        cold = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as empty:
                cold.append(process_seconds(GRADIENT, empty))
        figures["first gradient, cold cache [s]"] = min(cold)
        process_seconds(GRADIENT, warm)
        figures["first gradient, warm cache [s]"] = min(process_seconds(GRADIENT, warm) for _ in range(5))
    figures |= launches()
    print(f"{'':34}{'measured':>10}{'limit':>10}{'ratio':>8}")
    for name, value in figures.items():
        print(f"{name:34}{value:10.3g}{LIMITS[name]:10.3g}{value / LIMITS[name]:8.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"figures": figures, "limits": LIMITS, "python": sys.version}, file, indent=1)


if __name__ == "__main__":
    main()
