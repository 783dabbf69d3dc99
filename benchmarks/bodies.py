"""What rigid bodies cost: rods and chains, projected joint by joint and solved directly.

    python benchmarks/bodies.py [--json FILE]

Processor time of one thread, the least of several runs; all numbers that are compared come from one process.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

import sim

STEPS, DT = 50, 1 / 2400


def rod(segments: int, requires_grad: bool = False) -> sim.Model:
    """Of rubber, clamped at one end."""
    b = sim.ModelBuilder(gravity=(0, -9.81, 0))
    line = np.stack([np.linspace(0, 1, segments + 1), np.zeros(segments + 1), np.zeros(segments + 1)], axis=1)
    b.add_rod(line, radius=0.01, density=1000.0, young=1e6, poisson=0.45, clamp_start=-1, label="wire")
    return b.finalize(dtype=sim.float64, requires_grad=requires_grad)


def pendulums(links: int, worlds: int, requires_grad: bool = False, real: type[sim.float64] = sim.float64) -> sim.Model:
    """Each a row of links with ball joints."""
    b, length = sim.ModelBuilder(gravity=(0, -9.81, 0)), 1.0 / links
    inertia = np.array([0.1, 1.0, 1.0]) * length**2 / (12 * links)
    bodies = [b.add_body(((k + 0.5) * length, 0, 0), 1.0 / links, inertia) for k in range(links)]
    left, right = (-0.5 * length, 0, 0), (0.5 * length, 0, 0)
    b.add_constraints("ball", [[b.point_of(-1), b.point_of(bodies[0], left)]], 0.0, label="root")
    rows = [[b.point_of(i, right), b.point_of(j, left)] for i, j in zip(bodies, bodies[1:], strict=False)]
    b.add_constraints("ball", rows, 0.0, label="joint")
    return b.replicate(worlds).finalize(dtype=real, requires_grad=requires_grad)


def least(action: Callable[[], float], runs: int = 7) -> float:
    """Seconds of a step."""
    return min(action() for _ in range(runs)) / STEPS


def forward(solver: sim.SolverXPBD) -> float:
    """Seconds of a rollout."""
    start, state = time.process_time(), solver.model.state()
    sim.rollout(solver, state, STEPS, DT)
    return time.process_time() - start


def backward(solver: sim.SolverXPBD) -> float:
    """Seconds of the way back alone."""
    with sim.Tape() as tape:
        end = sim.rollout(solver, solver.model.state(), STEPS, DT, strategy=sim.StoreAll()).final
    seeds = {end.body_q: sim.ones_like(end.body_q)}
    start = time.process_time()
    tape.backward(grads=seeds)
    return time.process_time() - start


def sweep_and_solve(segments: int) -> tuple[float, float]:
    """Seconds of one more sweep over the joints of a rod, and of one more direct solve of them."""
    model = rod(segments)
    found = []
    for names in ((), ("wire",)):
        one, more = (sim.SolverXPBD(model, iterations=k, direct=names) for k in (1, 5))
        found.append((least(lambda s=more: forward(s)) - least(lambda s=one: forward(s))) / 4)
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    args = parser.parse_args()
    sim.set_num_threads(1)
    rows: dict[str, float] = {}
    print("rods: microseconds of a sweep over all joints, of a direct solve, and their ratio (limit 3 at 100)")
    for segments in (25, 100, 400):
        sweep, solve = sweep_and_solve(segments)
        rows[f"rod {segments}: sweep"], rows[f"rod {segments}: solve"] = sweep, solve
        print(f"{segments:6} segments {1e6 * sweep:10.1f} {1e6 * solve:10.1f} {solve / sweep:8.2f}")
    print("microseconds of a step, and of its way back; their ratio (limit 4)")
    for label, model, names in (
        ("rod of 100, direct", rod(100, True), ("wire",)),
        ("100 x 10 links, direct", pendulums(10, 100, True), ("root", "joint")),
        ("100 x 10 links, swept", pendulums(10, 100, True), ()),
    ):
        solver = sim.SolverXPBD(model, direct=names)
        there, back = least(lambda s=solver: forward(s)), least(lambda s=solver: backward(s), 5)
        rows[f"{label}: step"], rows[f"{label}: way back"] = there, back
        print(f"{label:24} {1e6 * there:10.1f} {1e6 * back:10.1f} {back / there:8.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
