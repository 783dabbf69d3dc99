"""What the first gradient of a stored rollout costs, and what is kept for it: with steps that stand for all, and with
all recorded (`sim/rollout/steady.py`).

    python benchmarks/first_gradients.py [--steps 120]

Rows of bars on hinges that fall onto a floor, with friction and restitution, and a hanging cloth.  Kernels are compiled
before.  Processor time of one thread; memory is what the process has grown by.  Each line is a process of its own,
since memory that was used once is not given back; the two of a model give the same gradient, to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import sim

AHEAD = (0.0, 0.0, 0.0, 1.0)


def linkage(bars: int) -> sim.Model:
    """A row of bars, hinged at one end."""
    builder = sim.ModelBuilder()
    kind, parent = sim.ModelBuilder.ShapeConfig(mu=0.4, restitution=0.5, mass=0.3), -1
    for k in range(bars):
        bar = builder.add_body(sim.transformd((0.1 + 0.2 * k, 0.3, 0), AHEAD), label=f"bar {k}")
        builder.add_shape_capsule(bar, None, 0.02, 0.06, cfg=kind)
        ends = sim.transformd((0.1 if k else 0.0, 0 if k else 0.3, 0), AHEAD), sim.transformd((-0.1, 0, 0), AHEAD)
        builder.add_joint_revolute(parent, bar, *ends, axis=(0, 0, 1), label=f"hinge {k}")
        parent = bar
    builder.add_ground_plane(0.0, cfg=kind, label="floor")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def cloth() -> sim.Model:
    """32 x 32 cells that hang by two corners."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    material = {"distance": {"compliance": 1e-4}, "bend": {"compliance": 1.0}}
    builder.add_cloth_grid(dim_x=32, dim_y=32, cell_x=0.03, cell_y=0.03, density=0.2, label="sheet", material=material,
                           fix_left=True)  # fmt: skip
    return builder.finalize(dtype=sim.float64, requires_grad=True)


MODELS = {"2 bars": lambda: linkage(2), "9 bars": lambda: linkage(9), "cloth": cloth}


def gradient(model: sim.Model, solver: sim.SolverXPBD, steps: int) -> tuple[float, str]:
    """Seconds, and what stands for the result."""
    begin = time.process_time()
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), steps, 1 / 480).final
    seeds = [a for a in (end.particle_q, end.body_q) if a.size]
    tape.backward(grads={a: sim.array(np.ones_like(a.numpy()), dtype=a.dtype) for a in seeds})
    took = time.process_time() - begin
    found = [a.grad.numpy().tobytes() for a in model.materials.values() if a.grad is not None]
    tape.zero()
    return took, hashlib.sha256(b"".join(found)).hexdigest()


def resident() -> float:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def measured(name: str, steps: int, whole: bool) -> dict[str, object]:
    """One line, in this process."""
    segments = sys.modules["sim.rollout.segments"]
    if whole:
        segments.steady_state = lambda recorder, count, frames: None
    sim.set_num_threads(1)
    model = MODELS[name]()
    gradient(model, sim.SolverXPBD(model), 14)  # compiles
    before, solver = resident(), sim.SolverXPBD(model)
    first, bits = gradient(model, solver, steps)
    grown = resident() - before
    again = min(gradient(model, solver, steps)[0] for _ in range(3))
    return {"first": first, "again": again, "MB": grown, "bits": bits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WHOLE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one[0], asked.steps, asked.one[1] == "whole")))
        return
    print(f"{asked.steps} steps{'':12}{'first [s]':>12}{'again [s]':>12}{'grown [MB]':>12}")
    for name in MODELS:
        bits = set()
        for kind in ("whole", "steady"):
            command = [sys.executable, __file__, "--steps", str(asked.steps), "--one", name, kind]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            bits.add(found["bits"])
            label = f"{name}, {'all recorded' if kind == 'whole' else 'some for all'}"
            print(f"{label:22}{found['first']:12.2f}{found['again']:12.2f}{found['MB']:12.0f}", flush=True)
        assert len(bits) == 1, f"{name}: the gradients differ"


if __name__ == "__main__":
    main()
