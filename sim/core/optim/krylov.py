"""Krylov methods for A x = b on NumPy vectors, where A and a preconditioner M ~ 1/A are known by what they do to one.

Each works on `x` in place, from what it holds, and asks a `Watch` after every iteration whether that is enough.  It
yields vectors and is sent their products: so several systems go side by side, with one product for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np

Apply = Callable[[np.ndarray], np.ndarray]
A, M = "A", "M"
Steps = Generator[tuple[str, np.ndarray], np.ndarray, None]
"""A method that is at work: it yields (A, v) or (M, v), and is sent the product."""
Method = Callable[[np.ndarray, np.ndarray, "Watch"], Steps]
"""From (b, x, watch)."""


@dataclass
class Watch:
    """When to stop: at a norm of the residual of `atol`, or after `limit` iterations."""

    atol: float
    limit: float
    count: int = -1
    """Iterations so far; -1: not begun."""
    norm: float = 0.0

    def ended(self, residual: np.ndarray) -> bool:
        """Asked before the first iteration, and after each."""
        return self.ended_at(float(np.linalg.norm(residual)))

    def ended_at(self, norm: float) -> bool:
        self.count, self.norm = self.count + 1, float(norm)
        return not norm > self.atol or not np.isfinite(norm) or self.count >= self.limit


def worst(watches: Sequence[Watch]) -> tuple[int, float, float]:
    """Iterations, norm of the residual and tolerance: those of the system that is furthest from its own."""
    last = max(watches, key=lambda w: w.norm / w.atol if np.isfinite(w.norm) else np.inf)
    return max(w.count for w in watches), last.norm, last.atol


@dataclass(frozen=True)
class Products:
    """What vectors of `size` are multiplied with."""

    apply: Apply
    precondition: Apply
    size: int

    def of(self, what: str, parts: Sequence[tuple[slice, np.ndarray]]) -> list[np.ndarray]:
        """The products of the vectors of some systems, each at its place; elsewhere there is zero."""
        whole = np.zeros(self.size, parts[0][1].dtype)
        for place, v in parts:
            whole[place] = v
        product = (self.apply if what == A else self.precondition)(whole)
        return [product[place].copy() for place, _ in parts]


def run(
    systems: Sequence[Steps],
    places: Sequence[slice],
    watches: Sequence[Watch],
    products: Products,
    callback: Callable[[int, float, float], object] | None = None,
    every: int = 10,
) -> None:
    """Solves systems side by side, a product of each at a time.

    callback: called with `worst` in the beginning, every `every` iterations and in the end.
    """
    asked = {k: request for k, steps in enumerate(systems) if (request := next(steps, None))}
    told = -1
    while asked:
        answers: dict[int, np.ndarray] = {}
        for what in (A, M):
            some = [k for k, request in asked.items() if request[0] == what]
            if some:
                found = products.of(what, [(places[k], asked[k][1]) for k in some])
                answers.update(zip(some, found, strict=True))
        asked = {k: request for k, v in answers.items() if (request := _sent(systems[k], v))}
        now = worst(watches)
        if callback is not None and now[0] > told and (not asked or now[0] % max(1, every) == 0):
            told = now[0]
            callback(*now)


def _sent(steps: Steps, answer: np.ndarray) -> tuple[str, np.ndarray] | None:
    """What is asked for next; None: it has ended."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def from_the_left(method: Method) -> Method:
    """A method for M A x = M b, again for what is left of b - A x, until that is small enough."""

    def preconditioned(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
        r, before = b - (yield A, x), np.inf
        while not watch.ended(r) and watch.norm < before:
            before, right, step = watch.norm, (yield M, r), np.zeros_like(x)
            enough = 0.5 * watch.atol / watch.norm * float(np.linalg.norm(right))
            inner = Watch(enough, watch.limit - watch.count)
            steps = method(right, step, inner)
            request = next(steps, None)
            while request:
                what, v = request
                request = _sent(steps, (yield M, (yield A, v)) if what == A else v.copy())
            x += step
            r = r - (yield A, step)
            watch.count += inner.count - 1

    return preconditioned


def confirmed(method: Method) -> Method:
    """A method that is begun anew where b - A x is larger than what it has summed up, as long as that helps."""

    def again(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
        before = np.inf
        while True:
            yield from method(b, x, watch)
            norm = float(np.linalg.norm(b - (yield A, x)))
            if norm <= watch.atol or watch.norm > watch.atol or watch.count >= watch.limit or not norm < before:
                return
            before, watch.count = norm, watch.count - 1

    return again


def restarted(method: Method, every: int) -> Method:
    """A method that is begun anew after so many iterations, with the residual of what x is then."""

    def cycles(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
        r = b - (yield A, x)
        while not watch.ended(r):
            yield from method(b, x, Watch(0.0, every))
            r = b - (yield A, x)
            watch.count += every - 1

    return cycles


def conjugate_gradients(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
    """Conjugate gradients, for symmetric positive definite A and M (Hestenes and Stiefel 1952; Saad 2003, alg. 9.1)."""
    r = b - (yield A, x)
    z = yield M, r
    p, rz = z.copy(), r @ z
    while not watch.ended(r):
        ap = yield A, p
        curvature = p @ ap
        if curvature == 0.0 or rz == 0.0:
            return
        alpha = rz / curvature
        x += alpha * p
        r -= alpha * ap
        z = yield M, r
        before, rz = rz, r @ z
        p = z + (rz / before) * p


def conjugate_residuals(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
    """Conjugate residuals, for symmetric A, positive definite M (Saad 2003, alg. 6.20, in the product of M)."""
    r = b - (yield A, x)
    z = yield M, r
    az = yield A, z
    p, ap, zaz = z.copy(), az.copy(), z @ az
    while not watch.ended(r):
        y = yield M, ap
        curvature = y @ ap
        if curvature == 0.0 or zaz == 0.0:
            return
        alpha = zaz / curvature
        x += alpha * p
        r -= alpha * ap
        z = z - alpha * y
        az = yield A, z
        before, zaz = zaz, z @ az
        p = z + (zaz / before) * p
        ap = az + (zaz / before) * ap


def bicgstab(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
    """BiCGSTAB, for any A, preconditioned from the right (van der Vorst 1992)."""
    r = b - (yield A, x)
    shadow, p, rho = r.copy(), r.copy(), r @ r
    while not watch.ended(r):
        y = yield M, p
        v = yield A, y
        across = shadow @ v
        if across == 0.0:
            return
        alpha = rho / across
        s = r - alpha * v
        z = yield M, s
        t = yield A, z
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

    def method(b: np.ndarray, x: np.ndarray, watch: Watch) -> Steps:
        over = watch.ended(b - (yield A, x))
        while not over:
            before = watch.norm
            over = yield from _gmres_cycle(b, x, watch, restart)
            if not watch.norm < before:  # it stagnates: another cycle would do the same
                return

    return method


def _gmres_cycle(
    b: np.ndarray, x: np.ndarray, watch: Watch, size: int
) -> Generator[tuple[str, np.ndarray], np.ndarray, bool]:
    """An Arnoldi basis of up to `size` vectors, its least-squares problem solved by Givens rotations as it grows."""
    r = b - (yield A, x)
    basis, columns = [r / np.linalg.norm(r)], list[np.ndarray]()
    rotations, right = list[tuple[float, float]](), [float(np.linalg.norm(r))]
    over = False
    while not over and len(columns) < size:
        w = yield A, (yield M, basis[-1])
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
    x += yield M, step.astype(x.dtype)
    return over
