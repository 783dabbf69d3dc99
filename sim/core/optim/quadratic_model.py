"""The quadratic model of limited-memory BFGS, B = theta I - W M W', and its minimum within bounds.

Byrd, Lu, Nocedal & Zhu (1995), "A limited memory algorithm for bound constrained optimization": equation numbers and
names of algorithms are theirs.
"""

from __future__ import annotations

import numpy as np


class QuadraticModel:
    """m(z) = g z + z B z / 2 around x, with B from k past steps s and changes of gradient y, both (k, n)."""

    def __init__(self, s: np.ndarray, y: np.ndarray, theta: float):
        """theta: the curvature where the past steps say nothing."""
        self.theta = theta
        self.w = np.concatenate([y, theta * s]).T  # (n, 2k), eq. 3.3
        sy = s @ y.T
        low = np.tril(sy, -1)
        middle = np.block([[-np.diag(np.diag(sy)), low.T], [low, theta * (s @ s.T)]])
        self.m = np.linalg.inv(middle)  # eq. 3.4

    def minimum(self, x: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """The point within bounds where the step aims: Cauchy point, then the free components' minimum, projected."""
        cauchy, c = self.cauchy_point(x, g, lower, upper)
        free = (cauchy > lower) & (cauchy < upper)
        if not free.any():
            return cauchy
        # Direct primal method (eqs. 5.4, 5.11): the model's Newton step in the free components, by Woodbury's formula.
        w = self.w[free]
        residual = g[free] + self.theta * (cauchy[free] - x[free]) - w @ (self.m @ c)
        v = self.m @ (w.T @ residual)
        inner = np.eye(v.size) - self.m @ (w.T @ w) / self.theta
        newton = -(residual + w @ np.linalg.solve(inner, v) / self.theta) / self.theta
        target = cauchy.copy()
        target[free] = np.clip(cauchy[free] + newton, lower[free], upper[free])
        if g @ (target - x) < 0:
            return target
        # Projection may turn an uphill direction out of a good step (Morales & Nocedal 2011): cut it short instead.
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(newton > 0, (upper[free] - cauchy[free]) / newton, (lower[free] - cauchy[free]) / newton)
        share = min(1.0, float(np.min(room[newton != 0], initial=1.0)))
        target[free] = np.clip(cauchy[free] + share * newton, lower[free], upper[free])
        return target

    def cauchy_point(
        self, x: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """First minimum of the model along the projected steepest descent (algorithm CP), and c = W' (cauchy - x)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            leaves = np.where(g < 0, (x - upper) / g, np.where(g > 0, (x - lower) / g, np.inf))
        d = np.where(leaves > 0, -g, 0.0)
        point = x.copy()
        p = self.w.T @ d
        c = np.zeros_like(p)
        slope = -float(d @ d)
        curvature = initial = -self.theta * slope - float(p @ self.m @ p)
        time = 0.0
        for b in np.argsort(leaves, kind="stable"):
            wait = -slope / curvature if curvature > 0 else np.inf
            if slope >= 0 or leaves[b] == np.inf or wait < leaves[b] - time:
                break
            if leaves[b] <= 0:
                continue
            span, time = float(leaves[b]) - time, float(leaves[b])
            point[b] = upper[b] if g[b] < 0 else lower[b]
            c += span * p
            row, rate = self.w[b], float(g[b])
            row_m = row @ self.m
            slope += span * curvature + rate**2 + self.theta * rate * (point[b] - x[b]) - rate * float(row_m @ c)
            curvature -= self.theta * rate**2 + 2 * rate * float(row_m @ p) + rate**2 * float(row_m @ row)
            curvature = max(curvature, 2.2e-16 * initial)
            p += rate * row
            d[b] = 0.0
        moving = d != 0
        if moving.any() and slope < 0:  # otherwise the minimum stands at the last corner
            span = -slope / curvature
            c += span * p
            time += span
        point[moving] = np.clip(x[moving] + time * d[moving], lower[moving], upper[moving])
        return point, c
