"""A body of the recommended material finds back to its shape from wherever its points are."""

import numpy as np
import pytest
from tools.physics.solids import at, block

import sim

SIZE, H = 0.1, 5e-4


def starts(x: np.ndarray, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "flattened":
        return x * (1, 1, 0) + (0, 0, 0.5 * SIZE)
    if kind == "crushed":
        return 0.5 * SIZE + 0.2 * (x - 0.5 * SIZE)
    if kind == "inverted":
        return SIZE - x
    if kind == "folded":
        return np.stack([x[:, 0], x[:, 1], np.abs(x[:, 2] - 0.5 * SIZE)], axis=1)
    return SIZE * rng.uniform(size=x.shape)


def recovered(material: str, kind: str, seed: int = 0) -> float:
    """The largest relative change of an edge after 1 s, and infinity if an element is left inverted."""
    model, group = block(material, young=1e4, poisson=0.3, damping=0.005)
    x, tets = group.positions, group.tets - group.start
    begin = starts(x, kind, seed) + 1e-6 * np.random.default_rng(seed).normal(size=x.shape)
    solver = sim.SolverXPBD(model, iterations=2)
    q = sim.rollout(solver, at(model, begin), round(1.0 / H), H).final.particle_q.numpy()

    def edges(p: np.ndarray) -> np.ndarray:
        return np.linalg.norm(p[tets[:, [0, 0, 0, 1, 1, 2]]] - p[tets[:, [1, 2, 3, 2, 3, 3]]], axis=-1)

    volumes = np.linalg.det(q[tets[:, 1:]] - q[tets[:, :1]]) / np.linalg.det(x[tets[:, 1:]] - x[tets[:, :1]])
    return float(np.abs(edges(q) / edges(x) - 1).max()) if volumes.min() > 0 else np.inf


# Crushed bodies shrank to a point while the energy was least there (without the logarithm).
START = [("crushed", 0), ("flattened", 0), ("inverted", 0), ("folded", 0), ("random", 1), ("random", 2)]


@pytest.mark.parametrize("kind, seed", START)
def test_neo_hookean_comes_back(kind, seed):
    assert recovered("neo_hookean", kind, seed) < 0.01
