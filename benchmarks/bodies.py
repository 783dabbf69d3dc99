"""What rigid bodies cost: rods and chains, projected joint by joint and solved directly; and in other engines.

    python benchmarks/bodies.py [--json FILE] [--worlds 1000] [--only rods|gradients|engines]

Processor time of one thread, the least of several runs; all numbers that are compared come from one process.

Engines are compared at equal error: a row of ten links on ball joints, 1 m long, is let go and falls for a second; the
error is the distance of its links from where the equations of motion bring them, root of the mean square.  Every
engine runs at several rates; between them its cost for an error is interpolated, both as powers of the rate.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from bodies_peers import PEERS, Engine, distance, engines, link_inertia, truth

import sim

STEPS, DT = 50, 1 / 2400
LINKS, SECONDS = 10, 1.0
RATES, ERRORS = (60, 90, 120, 240, 480, 960, 1920), (1e-1, 1e-2, 1e-3, 1e-4)


def rod(segments: int, requires_grad: bool = False) -> sim.Model:
    """Of rubber, clamped at one end."""
    b = sim.ModelBuilder(gravity=(0, -9.81, 0))
    line = np.stack([np.linspace(0, 1, segments + 1), np.zeros(segments + 1), np.zeros(segments + 1)], axis=1)
    b.add_rod(line, radius=0.01, density=1000.0, young=1e6, poisson=0.45, clamp_start=-1, label="wire")
    return b.finalize(dtype=sim.float64, requires_grad=requires_grad)


def pendulums(links: int, worlds: int, requires_grad: bool = False, real: type[sim.float64] = sim.float64) -> sim.Model:
    """Each a row of links with ball joints."""
    b, length = sim.ModelBuilder(gravity=(0, -9.81, 0)), 1.0 / links
    bodies = [b.add_body(((k + 0.5) * length, 0, 0), 1.0 / links, link_inertia(links)) for k in range(links)]
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


def half_a_step_back(solver: sim.SolverXPBD, start: sim.State, dt: float) -> sim.State:
    """The state with the velocities that it had half a step before, to first order.

    A step treats the velocities that it is given as those of the middle of the step before (leapfrog): from velocities
    of the same time as the positions it is of first order, from these of second.
    """
    before, after = start.body_qd.numpy(), sim.rollout(solver, start, 1, dt).final.body_qd.numpy()
    start.body_qd.assign(before - 0.5 * (after - before))
    return start


def ours(worlds: int) -> list[Engine]:
    """In both precisions, solved directly and swept; the error is that of a few worlds, the cost of a step of all."""

    def make(real: type[sim.float64], names: Sequence[str], shifted: bool) -> Engine:
        few, many = (sim.SolverXPBD(pendulums(LINKS, n, real=real), direct=names) for n in (8, worlds))
        cost = least(lambda: forward(many)) / worlds

        def run(rate: int, seconds: float) -> tuple[np.ndarray, float]:
            start = few.model.state()
            if shifted:
                start = half_a_step_back(few, start, 1 / rate)
            try:
                end = sim.rollout(few, start, round(seconds * rate), 1 / rate).final
            except sim.NonFiniteState:
                return np.full((LINKS, 3), math.inf), cost
            return end.body_q.numpy()[::8, :3], cost

        how = ("direct" if names else "swept") + (", half a step back" if shifted else "")
        return Engine(f"ours, {real.name}, {how}", run)

    direct = ("root", "joint")
    kinds = ((sim.float32, direct, True), (sim.float32, direct, False), (sim.float32, (), False),
             (sim.float64, direct, True), (sim.float64, direct, False), (sim.float64, (), False))  # fmt: skip
    return [make(*kind) for kind in kinds]


def at_error(error: float, measured: Sequence[tuple[float, float]]) -> float:
    """Seconds for an error, from pairs of errors and seconds by rising rate; NaN where no rate has it."""
    coarser = (math.inf, 0.0)
    for e, seconds in measured:
        if e <= error:
            if math.isinf(coarser[0]):  # the first that did not fail is better than asked for
                return seconds
            between = (math.log(coarser[0] / error)) / math.log(coarser[0] / e)
            return coarser[1] * (seconds / coarser[1]) ** between
        coarser = e, seconds
    return math.nan


def compare(worlds: int) -> dict[str, float]:
    """The table of engines."""
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    print(f"{worlds} pendulums of {LINKS} links; not installed: {', '.join(missing) or 'none'}")
    print(f"{'':42}{'us/step':>9}{'ns/step/dof':>12}   ms per second and pendulum, at an error of [m]")
    print(f"{'':63}" + "".join(f"{e:>9.0e}" for e in ERRORS))
    true, rows = truth(LINKS, SECONDS), dict[str, float]()
    for engine in [*ours(worlds), *engines(LINKS, worlds)]:
        found = [(rate, *engine.run(rate, SECONDS)) for rate in RATES]
        cost = min(c for _, _, c in found)
        measured = [(distance(x, true), SECONDS * rate * cost) for rate, x, _ in found]
        needed = [1e3 * at_error(error, measured) for error in ERRORS]
        rows[f"{engine.name}: step"] = cost
        rows |= {f"{engine.name}: {e:.0e}": c / 1e3 for e, c in zip(ERRORS, needed, strict=True)}
        line = "".join("        -" if math.isnan(c) else f"{c:9.2f}" for c in needed)
        print(f"{engine.name:42}{1e6 * cost:9.2f}{1e9 * cost / (3 * LINKS):12.1f}{line}", flush=True)
    return rows


def rods() -> dict[str, float]:
    """The table of sweeps and direct solves."""
    rows: dict[str, float] = {}
    print("rods: microseconds of a sweep over all joints, of a direct solve, and their ratio (limit 3 at 100)")
    for segments in (25, 100, 400):
        sweep, solve = sweep_and_solve(segments)
        rows[f"rod {segments}: sweep"], rows[f"rod {segments}: solve"] = sweep, solve
        print(f"{segments:6} segments {1e6 * sweep:10.1f} {1e6 * solve:10.1f} {solve / sweep:8.2f}")
    return rows


def gradients(worlds: int) -> dict[str, float]:
    """The table of ways back."""
    rows: dict[str, float] = {}
    print("microseconds of a step, and of its way back; their ratio (limit 4)")
    single, double = pendulums(LINKS, worlds, True, sim.float32), pendulums(LINKS, worlds, True)
    for label, model, names in (
        ("rod of 100, direct", rod(100, True), ("wire",)),
        (f"{worlds} x {LINKS} links, float32, direct", single, ("root", "joint")),
        (f"{worlds} x {LINKS} links, float32, swept", single, ()),
        (f"{worlds} x {LINKS} links, float64, direct", double, ("root", "joint")),
        (f"{worlds} x {LINKS} links, float64, swept", double, ()),
    ):
        solver = sim.SolverXPBD(model, direct=names)
        there, back = least(lambda s=solver: forward(s)), least(lambda s=solver: backward(s), 5)
        rows[f"{label}: step"], rows[f"{label}: way back"] = there, back
        print(f"{label:34} {1e6 * there:10.1f} {1e6 * back:10.1f} {back / there:8.2f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--only", choices=("rods", "gradients", "engines"))
    args = parser.parse_args()
    sim.set_num_threads(1)
    parts = {"rods": rods, "gradients": lambda: gradients(args.worlds), "engines": lambda: compare(args.worlds)}
    rows: dict[str, float] = {}
    for part in [args.only] if args.only else parts:
        rows |= parts[part]()
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
