"""Does a solid find back to its shape from wherever its points are?

Blocks of 10 cm, crushed to a fifth, flattened, reflected, folded, or with their points at random places in the block
(one seed each), move for two seconds.  Of those that have not come back, edges off by more than 1 %, it prints the
seed, by how much, how many tetrahedra are inverted, and the elastic energy over E V, that of the block at strain one.

    python benchmarks/recovery.py                            # 100 random starts of 2 x 2 x 2 cells: minutes
    python benchmarks/recovery.py --law stvk --seeds 20 --cells 3 --poisson 0.45
"""

import argparse
from collections.abc import Sequence

import numpy as np

import sim
from sim.model.energy import constraint_energy

SIZE, YOUNG, DENSITY, DAMPING, H, TIME = 0.1, 1e4, 1070.0, 0.005, 5e-4, 2.0
KINDS = ("crushed", "flattened", "reflected", "folded")


def starts(x: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """Points (n, 3) to begin with, of a block with points x in [0, SIZE]."""
    rng = np.random.default_rng(seed)
    begin = {
        "crushed": lambda: 0.5 * SIZE + 0.2 * (x - 0.5 * SIZE),
        "flattened": lambda: x * (1, 1, 0) + (0, 0, 0.5 * SIZE),
        "reflected": lambda: SIZE - x,
        "folded": lambda: np.stack([x[:, 0], x[:, 1], np.abs(x[:, 2] - 0.5 * SIZE)], axis=1),
        "random": lambda: SIZE * rng.uniform(size=x.shape),
    }[kind]()
    return begin + 1e-6 * np.random.default_rng(seed).normal(size=x.shape)


class Block:
    """A block with so many cells across, of one of the laws of solids."""

    def __init__(self, law: str, cells: int, poisson: float) -> None:
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        values = {"young": YOUNG, "poisson": poisson, "damping": DAMPING}
        self.group = builder.add_soft_grid(
            dim_x=cells, dim_y=cells, dim_z=cells, cell_x=SIZE / cells, cell_y=SIZE / cells, cell_z=SIZE / cells,
            density=DENSITY, label="block", material={law: values},
        )  # fmt: skip
        self.law, self.model = law, builder.finalize(dtype=sim.float64)
        self.x, self.tets = self.group.positions, self.group.tets - self.group.start
        self.solver = sim.SolverXPBD(self.model, iterations=2)
        self.at_rest = constraint_energy(self.model, self.model.state(), law)

    def edges(self, q: np.ndarray) -> np.ndarray:
        return np.linalg.norm(q[self.tets[:, [0, 0, 0, 1, 1, 2]]] - q[self.tets[:, [1, 2, 3, 2, 3, 3]]], axis=-1)

    def volumes(self, q: np.ndarray) -> np.ndarray:
        return np.linalg.det(q[self.tets[:, 1:]] - q[self.tets[:, :1]])

    def end(self, kind: str, seed: int) -> tuple[float, int, float]:
        """Largest relative change of an edge, inverted tetrahedra, energy over E V."""
        state = self.model.state()
        state.particle_q.assign(starts(self.x, kind, seed))
        final = sim.rollout(self.solver, state, round(TIME / H), H).final
        q = final.particle_q.numpy()
        inverted = int(np.sum(self.volumes(q) * self.volumes(self.x) <= 0))
        energy = (constraint_energy(self.model, final, self.law) - self.at_rest) / (YOUNG * SIZE**3)
        return float(np.abs(self.edges(q) / self.edges(self.x) - 1).max()), inverted, energy


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--law", choices=["neo_hookean", "stvk"], default="neo_hookean")
    parser.add_argument("--cells", type=int, default=2)
    parser.add_argument("--poisson", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args(arguments)
    block = Block(given.law, given.cells, given.poisson)
    back = 0
    for kind, seed in [*((kind, 0) for kind in KINDS), *(("random", seed) for seed in range(given.seeds))]:
        edge, inverted, energy = block.end(kind, seed)
        good = edge < 0.01 and not inverted
        back += good and kind == "random"
        if not good or kind != "random":
            word = "back" if good else f"edges off by {100 * edge:.0f} %, {inverted} inverted, {energy:.3f} E V"
            print(f"{kind} {seed}: {word}", flush=True)
    print(f"{given.law}, {given.cells} cells, nu = {given.poisson:g}: {back} of {given.seeds} random starts come back")


if __name__ == "__main__":
    main()
