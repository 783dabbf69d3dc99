"""What contact of a cloth with itself costs, beside its other constraints: ratios of times in one process.

    python benchmarks/contact.py [cells along a side]

A cloth of that many cells (128) in one layer, of which few pairs are near each other, and the same folded in three,
of which nearly all are.  Steps with and without `add_self_contact`; backward over forward; lists alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import sim

DT, STEPS, CELL = 1e-3, 20, 0.01


def cloth(cells: int, folds: int, contact: bool, gradient: bool = False) -> sim.Model:
    """A cloth in `folds` layers 4 mm apart, in free fall."""
    u, v = np.meshgrid(np.arange(cells + 1) * CELL, np.arange(cells + 1) * CELL, indexing="ij")
    side = cells * CELL / folds
    layer, along = np.divmod(u, side)
    across = np.where(layer % 2 == 0, along, side - along)
    at = np.stack([across, 1 + 0.004 * u / side, v], axis=-1).reshape(-1, 3)
    k = np.arange(cells * (cells + 1)).reshape(cells, -1)[:, :-1].ravel()
    n = cells + 1
    faces = np.concatenate([np.stack([k, k + 1, k + n + 1], axis=1), np.stack([k, k + n + 1, k + n], axis=1)])
    made = sim.ModelBuilder()
    made.add_cloth_mesh(at, faces, density=0.2, label="cloth", thickness=0.001,
                        material={"distance": {"compliance": 1e-5}, "bend": {"compliance": 0.1}})  # fmt: skip
    if contact:
        made.add_self_contact(["cloth"], friction=0.3, every=STEPS, capacity=40 * n * n)
    return made.finalize(requires_grad=gradient)


def least(run: Callable[[], object], times: int = 5) -> float:
    """The least processor time of a few runs [s]."""
    taken = []
    for _ in range(times + 1):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return min(taken[1:])


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    sim.set_num_threads(1)
    for folds in (1, 3):
        took = {}
        for contact in (False, True):
            model = cloth(cells, folds, contact)
            solver, state = sim.SolverXPBD(model), model.state()
            took[contact] = least(lambda s=solver, a=state: sim.rollout(s, a, STEPS, DT)) / STEPS
        pairs = sim.rollout(solver, state, STEPS, DT).penetration.pairs
        lists = model.collide(state)
        detect = least(lambda m=model, a=state, c=lists: m.collide(a, c, STEPS * DT))
        print(
            f"{folds} layers: {1e3 * took[False]:.2f} ms a step, with contact {1e3 * took[True]:.2f} ms"
            f" ({took[True] / took[False]:.2f}), up to {pairs} pairs of a kind; detection {1e3 * detect:.1f} ms"
        )
        model = cloth(cells, folds, True, gradient=True)
        solver, state = sim.SolverXPBD(model), model.state()
        ones = sim.array(np.ones((model.particle_count, 3)), dtype=sim.vec3)
        forward, backward = [], []
        for _ in range(3):
            begin = time.process_time()
            with sim.Tape() as tape:
                end = sim.rollout(solver, state, STEPS, DT).final
            middle = time.process_time()
            tape.backward(grads={end.particle_q: ones})
            forward.append(middle - begin)
            backward.append(time.process_time() - middle)
        print(f"  backward {min(backward) / STEPS / took[True]:.2f} times a step that is not recorded,"
              f" {min(backward) / min(forward):.2f} times one that is")  # fmt: skip


if __name__ == "__main__":
    main()
