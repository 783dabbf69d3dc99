"""Coordinates of the inertia of a body in which every vector is that of some distribution of mass.

I (3,) are principal moments, (6,) xx yy zz xy xz yz, about the centre of mass.  A body has it where S = tr(I) / 2 - I,
the second moments of its mass, is positive definite: S = U U^T, U upper triangular.  The coordinates are the logarithms
of its diagonal and, behind them, U_ij / U_ii for xy, xz, yz: the log-Cholesky coordinates of Rucker and Wensing (RA-L
2022), where mass and centre of mass, of which S is independent, have coordinates of their own; off the diagonal they
are ratios here, without a unit.
"""

from __future__ import annotations

import numpy as np

_ABOVE = np.array([0, 0, 1]), np.array([1, 2, 2])
"""Where xy, xz, yz stand in a matrix."""


def second_moments(inertia: np.ndarray) -> np.ndarray:
    """S (3, 3)."""
    matrix = np.diag(inertia[:3])
    if len(inertia) == 6:
        matrix[_ABOVE] = matrix.T[_ABOVE] = inertia[3:]
    return 0.5 * np.trace(matrix) * np.eye(3) - matrix


def is_physical(inertia: np.ndarray) -> bool:
    """Whether some body has it; one without extent along an axis has not."""
    return bool(np.isfinite(inertia).all() and np.linalg.eigvalsh(second_moments(inertia))[0] > 0.0)


def coordinates_of(inertia: np.ndarray) -> np.ndarray:
    """Coordinates (3,) or (6,)."""
    # the factor of the reversed matrix, reversed, is upper triangular
    u = np.linalg.cholesky(second_moments(inertia)[::-1, ::-1])[::-1, ::-1]
    d = np.diagonal(u)
    return np.concatenate([np.log(d), (u / d[:, None])[_ABOVE]])[: len(inertia)]


def inertia_of(v: np.ndarray) -> np.ndarray:
    """I of coordinates."""
    u = _factor(v)
    return _inertia(u @ u.T, len(v))


def inertia_jacobian(v: np.ndarray) -> np.ndarray:
    """d I / d v (n, n)."""
    u, out = _factor(v), np.empty((len(v), len(v)))
    for j in range(len(v)):
        change = np.zeros((3, 3))
        if j < 3:
            change[j] = u[j]
        else:
            row, column = _ABOVE[0][j - 3], _ABOVE[1][j - 3]
            change[row, column] = np.exp(v[row])
        moved = change @ u.T
        out[:, j] = _inertia(moved + moved.T, len(v))
    return out


def _factor(v: np.ndarray) -> np.ndarray:
    u = np.eye(3)
    if len(v) == 6:
        u[_ABOVE] = v[3:]
    return np.asarray(np.exp(v[:3])[:, None] * u)


def _inertia(moments: np.ndarray, width: int) -> np.ndarray:
    inertia = np.trace(moments) * np.eye(3) - moments
    return np.concatenate([np.diagonal(inertia), inertia[_ABOVE]])[:width]
