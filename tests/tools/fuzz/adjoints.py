"""Random kernels with their arrays, and their slopes along random directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import sim
from tools.backends.kernels import same_bits
from tools.fuzz.programs import WIDTH

THREADS, CHUNK = 3, 6
KINDS = [sim.float64, sim.float64, sim.vec3d, sim.float64, sim.float64]


def smooth_slope(f: Callable[[float], float], tolerance: float = 1e-5) -> float | None:
    """f'(0) by central differences, or None at a kink (`max` of equal values), or where another branch is taken
    nearby."""
    low, here, high = f(-1e-6), f(0.0), f(1e-6)
    fine, coarse, bend = (high - low) / 2e-6, (f(1e-5) - f(-1e-5)) / 2e-5, (high - 2.0 * here + low) / 1e-6
    return fine if max(abs(fine - coarse), 0.01 * abs(bend)) <= tolerance * (1.0 + abs(fine)) else None


class Run:
    """One random kernel with its arrays; `weights` make one number of everything that it writes.

    In every third run x and y are one array, or rows that alternate in one: a thread still owns its row of both.
    """

    def __init__(self, kernel: sim.Kernel, seed: int) -> None:
        self.kernel, rng = kernel, np.random.default_rng(seed)
        self.shared = {0: "all", 3: "rows"}.get(seed % 6, "")
        self.start = [
            rng.normal(size=s) for s in ((THREADS, WIDTH), (THREADS, WIDTH), (THREADS, 3), (WIDTH,), (WIDTH,))
        ]
        self.weights = [rng.normal(size=s.shape) for s in self.start]
        self.k, self.q, self.n = (
            rng.integers(0, WIDTH, WIDTH),
            rng.integers(0, WIDTH, (THREADS, WIDTH)),
            int(rng.integers(0, 5)),
        )
        self.everything = [True] * len(self.start)
        self.some = [bool(b) for b in rng.random(len(self.start)) < 0.6]
        if self.shared:
            self.some[1] = self.some[0]

    def arrays(
        self, move: list[np.ndarray] | None = None, h: float = 0.0, needed: list[bool] | None = None
    ) -> list[sim.array]:
        contents = [s + h * m for s, m in zip(self.start, move or self.start, strict=True)]
        needed = needed or [False] * len(contents)
        each = zip(contents, KINDS, needed, strict=True)
        x, y, p, g, total = (sim.array(c, dtype=kind, requires_grad=gradient) for c, kind, gradient in each)
        if self.shared == "all":
            y = x[:]
        elif self.shared == "rows":
            both = sim.array(
                np.stack(contents[:2], axis=1).reshape(-1, WIDTH), dtype=sim.float64, requires_grad=needed[0]
            )
            x, y = both[::2], both[1::2]
        return [x, y, p, g, total]

    def launch(self, arrays: list[sim.array]) -> list[np.ndarray]:
        k, q = (sim.array(a, dtype=sim.int32) for a in (self.k, self.q))
        sim.launch(self.kernel, THREADS, inputs=arrays, outputs=[k, q, self.n])
        return [a.numpy().copy() for a in arrays]

    def value(self, move: list[np.ndarray], h: float, counted: list[bool]) -> float:
        ends = self.launch(self.arrays(move, h))
        return sum(float((w * e).sum()) for w, e, c in zip(self.weights, ends, counted, strict=True) if c)

    def gradient(self, needed: list[bool]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Final values, and the gradient of the weighted sum of those that are needed, with respect to their start."""
        arrays = self.arrays(needed=needed)
        with sim.Tape() as tape:
            ends = self.launch(arrays)
        weighted = zip(arrays, self.weights, KINDS, strict=True)
        grads = {a: sim.array(w, dtype=kind) for a, w, kind in weighted if a.requires_grad}
        if tape.records:
            tape.backward(grads=grads)
        assert all(same_bits(a.numpy(), e) for a, e in zip(arrays, ends, strict=True)), "backward changed a value"
        return ends, [a.grad.numpy() if a.requires_grad else np.zeros(a.numpy().shape) for a in arrays]

    def compare(self, found: list[np.ndarray], needed: list[bool]) -> int:
        """With slopes along random directions; how many could be compared."""
        rng, compared = np.random.default_rng(len(self.start)), 0
        for _ in range(3):
            along = [rng.normal(size=s.shape) * c for s, c in zip(self.start, needed, strict=True)]
            if self.shared == "all":
                along[1][:] = 0.0
            wanted = smooth_slope(lambda h, along=along: self.value(along, h, needed))
            slope = sum(float((a * g).sum()) for a, g in zip(along, found, strict=True))
            if wanted is not None:
                assert abs(slope - wanted) <= 2e-5 * (1.0 + abs(wanted)), f"{slope}, differences {wanted}"
                compared += 1
        return compared
