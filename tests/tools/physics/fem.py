"""Small-strain finite elements on tetrahedra, in NumPy: the static truth that solids are compared with."""

import numpy as np


def stiffness(x: np.ndarray, tets: np.ndarray, young: float, poisson: float, of_cell: int = 1) -> np.ndarray:
    """Stiffness matrix (3n, 3n) [N/m] of linear tetrahedra (one strain in each), points x (n, 3).

    of_cell: that many tetrahedra in a row share their mean dilatation (1: each has its own).
    """
    mu, la = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    law = np.diag([2 * mu] * 3 + [mu] * 3)
    law[:3, :3] -= 2 * mu / 3
    bulk = la + 2 * mu / 3
    dilatation, volume = np.zeros((len(tets) // of_cell, 3 * len(x))), np.zeros(len(tets) // of_cell)
    K = np.zeros((3 * len(x), 3 * len(x)))
    for number, cell in enumerate(tets):
        edges = (x[cell[1:]] - x[cell[0]]).T
        g = np.vstack([-np.linalg.inv(edges).sum(axis=0), np.linalg.inv(edges)])
        B = np.zeros((6, 12))  # xx, yy, zz, 2 xy, 2 yz, 2 zx
        for a, (p, q, r) in enumerate(g):
            B[:, 3 * a : 3 * a + 3] = [[p, 0, 0], [0, q, 0], [0, 0, r], [q, p, 0], [0, r, q], [r, 0, p]]
        at = (3 * cell[:, None] + np.arange(3)).ravel()
        part = np.linalg.det(edges) / 6
        K[np.ix_(at, at)] += part * B.T @ law @ B
        dilatation[number // of_cell, at] += part * B[:3].sum(axis=0)
        volume[number // of_cell] += part
    return K + bulk * dilatation.T @ (dilatation / volume[:, None])


def solve_static(K: np.ndarray, force: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Displacements (n, 3) under forces (n, 3) [N] with points `fixed` (mask (n,)) held, or (n, 3): coordinates
    held."""
    held = np.broadcast_to(fixed.reshape(len(force), -1), force.shape).ravel()
    u = np.zeros(force.size)
    u[~held] = np.linalg.solve(K[np.ix_(~held, ~held)], force.ravel()[~held])
    return u.reshape(force.shape)


def bending_frequency(K: np.ndarray, mass: np.ndarray, fixed: np.ndarray) -> float:
    """Lowest natural frequency [Hz] with lumped masses (n,)."""
    held = np.repeat(fixed, 3)
    w = 1 / np.sqrt(np.repeat(mass, 3)[~held])
    return float(np.sqrt(np.linalg.eigvalsh(K[np.ix_(~held, ~held)] * w[:, None] * w)[0]) / (2 * np.pi))
