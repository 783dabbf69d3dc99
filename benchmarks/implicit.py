"""What a step of SolverNewton costs, and its gradient beside it.

    python benchmarks/implicit.py [--cells 8,16,24] [--steps 20] [--dt 0.01]

A cloth that hangs by two corners and sways, damped, float64, one thread.  Processor time of a rollout under a tape, of
its way back, their ratio in the same run, and memory that the gradient keeps, in states.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import sim


def cloth(cells: int) -> sim.Model:
    """A square of 40 cm."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    group = builder.add_cloth_grid(
        dim_x=cells,
        dim_y=cells,
        cell_x=0.4 / cells,
        cell_y=0.4 / cells,
        density=0.3,
        vel=(0, 0, 0.5),
        material={
            "distance": {"compliance": 1e-3, "damping": 0.005},
            "shear": {"compliance": 1e-2},
            "bend": {"compliance": 1e4},
        },
    )
    builder.add_attachment(group.choose({"y": [0.399, None], "x": [None, 0.001]}))
    builder.add_attachment(group.choose({"y": [0.399, None], "x": [0.399, None]}))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def measure(cells: int, steps: int, dt: float) -> str:
    """A line of the table; the second of two runs, when everything is compiled."""
    model = cloth(cells)
    for _ in range(2):
        solver = sim.SolverNewton(model)
        begin = time.process_time()
        with sim.Tape() as tape:
            final = sim.rollout(solver, model.state(), steps, dt).final
        middle = time.process_time()
        tape.backward(grads={final.particle_q: np.ones((model.particle_count, 3))})
        end = time.process_time()
    per_step = solver.convergence.iterations / solver.convergence.steps
    states = tape.bytes_kept / steps / (6 * 8 * model.particle_count)
    forward, back = (1e3 * t / steps for t in (middle - begin, end - middle))
    return (
        f"{3 * model.particle_count:8d} {per_step:11.1f} {forward:13.1f} {back:14.1f} {back / forward:8.2f}"
        f" {states:8.2f} {solver.convergence.unconverged:12d}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="8,16,24")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dt", type=float, default=0.01)
    options = parser.parse_args()
    sim.set_num_threads(1)
    warnings.simplefilter("ignore")  # the last column tells
    print("unknowns  iterations  forward [ms]  backward [ms]    ratio   states  unconverged")
    for cells in options.cells.split(","):
        print(measure(int(cells), options.steps, options.dt))


if __name__ == "__main__":
    main()
