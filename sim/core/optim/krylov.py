"""Krylov methods for A x = b on NumPy vectors, where A and a preconditioner M ~ 1/A are known by what they do to one.

Each works on `x` in place, from what it holds, and asks a `Watch` after every iteration whether that is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Apply = Callable[[np.ndarray], np.ndarray]
Method = Callable[[Apply, Apply, np.ndarray, np.ndarray, "Watch"], None]


@dataclass
class Watch:
    """When to stop: at a norm of the residual of `atol`, or after `limit` iterations.

    callback: called with iteration, norm and `atol` in the beginning, every `every` iterations and in the end.
    """

    atol: float
    limit: int
    callback: Callable[[int, float, float], object] | None = None
    every: int = 10
    count: int = -1
    """Iterations so far; -1: not begun."""
    norm: float = 0.0

    def ended(self, residual: np.ndarray) -> bool:
        """Asked before the first iteration, and after each."""
        return self.ended_at(float(np.linalg.norm(residual)))

    def ended_at(self, norm: float) -> bool:
        self.count, self.norm = self.count + 1, float(norm)
        over = not norm > self.atol or not np.isfinite(norm) or self.count >= self.limit
        if self.callback is not None and (over or self.count % max(1, self.every) == 0):
            self.callback(self.count, norm, self.atol)
        return over


def conjugate_gradients(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch) -> None:
    """Conjugate gradients, for symmetric positive definite A and M (Hestenes and Stiefel 1952; Saad 2003, alg. 9.1)."""
    r = b - apply(x)
    z = precondition(r)
    p, rz = z.copy(), r @ z
    while not watch.ended(r):
        ap = apply(p)
        curvature = p @ ap
        if curvature == 0.0:
            return
        alpha = rz / curvature
        x += alpha * p
        r -= alpha * ap
        z = precondition(r)
        before, rz = rz, r @ z
        p = z + (rz / before) * p


def conjugate_residuals(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch) -> None:
    """Conjugate residuals, for symmetric A, positive definite M (Saad 2003, alg. 6.20, in the product of M)."""
    r = b - apply(x)
    z = precondition(r)
    az = apply(z)
    p, ap, zaz = z.copy(), az.copy(), z @ az
    while not watch.ended(r):
        y = precondition(ap)
        curvature = y @ ap
        if curvature == 0.0 or zaz == 0.0:
            return
        alpha = zaz / curvature
        x += alpha * p
        r -= alpha * ap
        z = z - alpha * y
        az = apply(z)
        before, zaz = zaz, z @ az
        p = z + (zaz / before) * p
        ap = az + (zaz / before) * ap


def bicgstab(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch) -> None:
    """BiCGSTAB, for any A, preconditioned from the right (van der Vorst 1992)."""
    r = b - apply(x)
    shadow, p, rho = r.copy(), r.copy(), r @ r
    while not watch.ended(r):
        y = precondition(p)
        v = apply(y)
        across = shadow @ v
        if across == 0.0:
            return
        alpha = rho / across
        s = r - alpha * v
        z = precondition(s)
        t = apply(z)
        square = t @ t
        omega = (t @ s) / square if square else 0.0
        x += alpha * y + omega * z
        r = s - omega * t
        before, rho = rho, shadow @ r
        if omega == 0.0 or before == 0.0:
            watch.ended(r)
            return
        p = r + (rho / before) * (alpha / omega) * (p - omega * v)


def gmres(restart: int) -> Method:
    """GMRES for any A, begun anew every `restart` iterations, preconditioned from the right (Saad, Schultz 1986)."""

    def method(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch) -> None:
        over = watch.ended(b - apply(x))
        while not over:
            before = watch.norm
            over = _gmres_cycle(apply, precondition, b, x, watch, restart)
            if not watch.norm < before:  # it stagnates: another cycle would do the same
                return

    return method


def _gmres_cycle(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch, size: int) -> bool:
    """An Arnoldi basis of up to `size` vectors, its least-squares problem solved by Givens rotations as it grows."""
    r = b - apply(x)
    basis, columns = [r / np.linalg.norm(r)], list[np.ndarray]()
    rotations, right = list[tuple[float, float]](), [float(np.linalg.norm(r))]
    over = False
    while not over and len(columns) < size:
        w = apply(precondition(basis[-1]))
        h = np.zeros(len(basis) + 1)
        for k, v in enumerate(basis):  # modified Gram-Schmidt
            h[k] = w @ v
            w = w - h[k] * v
        h[-1] = np.linalg.norm(w)
        more = h[-1] > 0.0
        if more:
            basis.append(w / h[-1])
        for k, (c, s) in enumerate(rotations):
            h[k], h[k + 1] = c * h[k] + s * h[k + 1], c * h[k + 1] - s * h[k]
        length = float(np.hypot(h[-2], h[-1]))
        if length == 0.0:
            over = True
            break
        c, s = h[-2] / length, h[-1] / length
        rotations.append((c, s))
        h[-2] = length
        columns.append(h[:-1])
        right[-1:] = [c * right[-1], -s * right[-1]]
        over = watch.ended_at(abs(right[-1])) or not more
    count = len(columns)
    triangle = np.zeros((count, count))
    for k, column in enumerate(columns):
        triangle[: k + 1, k] = column
    weights = np.linalg.solve(triangle, np.array(right[:count])) if count else np.zeros(0)
    step = sum((w * v for w, v in zip(weights, basis, strict=False)), np.zeros_like(x))
    x += precondition(step.astype(x.dtype))
    return over
