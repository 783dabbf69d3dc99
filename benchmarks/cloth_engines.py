"""The cloth of `cloth.py` in whole engines: what a step costs, and how far the cloth stretches meanwhile.

    python benchmarks/cloth_engines.py [--sizes 32,64] [--seconds 0.5]

Forward only, one thread, processor time of the best tenth of the steps.  Frameworks that run the same arithmetic as the
C program are in `cloth.py`; engines have their own.  Newton's SolverXPBD takes the same springs by Jacobi sweeps, which
diverge with so many springs at a point, its SolverVBD by a block for each point; MuJoCo has a flexible sheet of
triangles between the same points, of as much stretching stiffness as the springs along rows and columns, or edges held
by constraints.  So a cost says something beside a stretch alone: the largest relative lengthening of the springs along
rows and columns, at the end.  Those of Newton and MuJoCo take part that are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

os.environ.setdefault("SIM_NUM_THREADS", "1")

from cloth import DT, GRAVITY, Ours, grid_constraints  # noqa: E402

import sim  # noqa: E402

Engine = tuple[str, Callable[[int], tuple[float, np.ndarray]]]
"""A name, and steps -> (seconds of a step, positions (points, 3) [m] after the last)."""


def best(costs: list[float]) -> float:
    """The median of the best tenth [s]: other work on the machine lies in the rest."""
    return float(np.median(np.sort(costs)[: max(1, len(costs) // 10)]))


def ours(cloth: Ours, iterations: int) -> Engine:
    """Coloured Gauss-Seidel; fifty steps at a time, as rollouts take them."""
    solver = sim.SolverXPBD(cloth.model, iterations=iterations)

    def run(steps: int) -> tuple[float, np.ndarray]:
        state, costs = cloth.state, []
        for _ in range(steps // 50):
            begun = time.process_time()
            state = sim.rollout(solver, state, 50, DT).final
            costs.append((time.process_time() - begun) / 50)
        return best(costs), state.particle_q.numpy()

    return f"ours, {iterations} sweep{'s' * (iterations > 1)}", run


def newton_engines(cloth: Ours, n: int) -> Iterator[Engine]:
    """Newton's solvers with springs of the same compliance."""
    import newton

    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=GRAVITY)
    builder.add_particles(
        [tuple(x) for x in cloth.state.particle_q.numpy().tolist()],
        [tuple(v) for v in cloth.state.particle_qd.numpy().tolist()],
        [0.0 if w == 0 else 1.0 for w in cloth.model.particle_inv_mass.numpy()],
        radius=[0.0] * n**2,
    )
    for (i, j), compliance in zip(*grid_constraints(n), strict=True):
        builder.add_spring(int(i), int(j), 1.0 / compliance, 0.0, 0)
    builder.color()
    model = builder.finalize(device="cpu")
    for name, iterations in (("XPBD", 1), ("XPBD", 4), ("VBD", 4), ("VBD", 16)):
        solver = getattr(newton.solvers, f"Solver{name}")(model, iterations=iterations)

        def run(steps: int, solver: newton.solvers.SolverBase = solver) -> tuple[float, np.ndarray]:
            now, after, control, costs = model.state(), model.state(), model.control(), []
            for _ in range(steps):
                begun = time.process_time()
                now.clear_forces()
                solver.step(now, after, control, None, DT)
                now, after = after, now
                costs.append(time.process_time() - begun)
            return best(costs), now.particle_q.numpy()

        yield f"Newton {newton.__version__} {name}, {iterations}", run


def mujoco_engines(cloth: Ours, n: int) -> Iterator[Engine]:
    """MuJoCo's flexible sheet: elastic by passive forces, implicitly; or its edges as constraints."""
    import mujoco

    spacing = 1.0 / (n - 1)
    stiff = 1e7  # [N/m] of the springs along rows and columns, two of which share a spacing: E t, about
    forms = {
        "elastic": f'<elasticity young="{stiff}" poisson="0.2" thickness="1" elastic2d="stretch"/>',
        "edges": '<edge equality="true" damping="0"/>',
    }
    for name, form in forms.items():
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{DT}" gravity="{GRAVITY[0]} {GRAVITY[1]} {GRAVITY[2]}" solver="CG"'
            ' iterations="50" integrator="discrete"><flag contact="disable"/></option><size memory="2G"/>'
            f'<worldbody><flexcomp name="net" type="grid" dim="2" count="{n} {n} 1" mass="{n * n}" radius="1e-4"'
            f' spacing="{spacing} {spacing} {spacing}" pos="0.5 0.5 0.5" euler="90 0 0">'
            f'<contact selfcollide="none"/>{form}<pin id="0 {n * (n - 1)}"/></flexcomp></worldbody>'
            "</mujoco>"
        )

        def run(steps: int, model: mujoco.MjModel = model) -> tuple[float, np.ndarray]:
            data, costs = mujoco.MjData(model), []
            for _ in range(steps):
                begun = time.process_time()
                mujoco.mj_step(model, data)
                costs.append(time.process_time() - begun)
            return best(costs), data.flexvert_xpos.copy()

        yield f"MuJoCo {mujoco.__version__}, {name}", run


def stretch(x: np.ndarray, n: int) -> float:
    """The largest relative lengthening between neighbours along rows and columns."""
    grid = x.reshape(n, n, 3)
    lengths = [np.linalg.norm(np.diff(grid, axis=axis), axis=2) for axis in (0, 1)]
    return float(max(a.max() for a in lengths) * (n - 1) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="32,64")
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    steps = round(args.seconds / DT)
    for n in map(int, args.sizes.split(",")):
        cloth, count = Ours(n), len(grid_constraints(n)[0])
        engines = [ours(cloth, iterations) for iterations in (1, 4, 16)]
        for package, make in {"newton": newton_engines, "mujoco": mujoco_engines}.items():
            engines += make(cloth, n) if importlib.util.find_spec(package) else ()
        print(f"\nN = {n}, {count} springs, {steps} steps\n{'':24}{'us a step':>12}{'ns a spring':>13}{'stretch':>10}")
        for name, run in engines:
            seconds, x = run(steps)
            longest = stretch(x, n)
            told = f"{longest:.2%}" if longest < 10 else "diverged"  # NaN too
            print(f"{name:24}{1e6 * seconds:12.0f}{1e9 * seconds / count:13.2f}{told:>10}", flush=True)


if __name__ == "__main__":
    main()
