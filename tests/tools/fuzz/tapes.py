"""Random programs for the tape: launches, copies, fills and host writes on overlapping views of a few arrays.

Free of races: where threads write elements, no other thread touches them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sim

f64 = sim.float64
SIZE = 8


@sim.func
def squash(x):
    return x / (1.0 + x * x)


@sim.kernel
def gather(x: sim.array[f64], k: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    y[i] = squash(x[k[i] % x.shape[0]] * 1.3) + x[i % x.shape[0]] * 0.4


@sim.kernel
def in_place(x: sim.array[f64]):
    i = sim.tid()
    x[i] = squash(x[i] * x[i] + 0.3)


@sim.kernel
def update(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = y[i] * squash(x[i]) + x[i] * 0.5
    y[i] += squash(y[i] * x[i])


@sim.kernel
def combine(a: sim.array[f64], b: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = squash(a[i] * b[i]) - 0.3 * y[i]


@sim.kernel
def scatter(x: sim.array[f64], k: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(y, k[i] % y.shape[0], squash(x[i]))
    y[(k[i] + 1) % y.shape[0]] -= 0.2 * x[i]


@sim.kernel
def conditional(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if x[i] > 0.1:
        y[i] = x[i] * squash(y[i])
    elif x[i] < -0.8:
        y[i] = 0.5


@sim.kernel
def smooth_own_pair(x: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        x[2 * i + j % 2] = squash(x[2 * i] * x[2 * i + 1] + 0.2) + 0.5 * x[2 * i + j % 2]


@sim.kernel
def accumulate(x: sim.array[f64], k: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    s = f64(0.1)
    for j in range(k[i] % 4):
        s = squash(s + x[(i + j) % x.shape[0]])
        y[i] += s * x[j % x.shape[0]]


@sim.kernel
def extremes(x: sim.array[f64], k: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(y, k[i] % y.shape[0], squash(x[i]) + 0.3 * x[i])
    if k[i] % 3 == 0:
        sim.atomic_max(y, i % y.shape[0], 0.35)


@sim.kernel
def step_indices(k: sim.array[int]):
    i = sim.tid()
    k[i] = (k[i] * 3 + 1) % 7


Step = tuple[Callable[..., None], tuple]
Part = tuple[int, int, int, int]
"""(array, first element, step, length): a view."""


def view(arrays: list[sim.array], part: Part) -> sim.array:
    which, first, step, length = part
    if step > 0:
        return arrays[which][first : first + step * (length - 1) + 1 : step]
    end = first + step * length
    return arrays[which][first : end if end >= 0 else None : step]


def elements(part: Part) -> set[tuple[int, int]]:
    which, first, step, length = part
    return {(which, first + step * j) for j in range(length)}


def disjoint(a: Part, b: Part) -> bool:
    return not elements(a) & elements(b)


@dataclass
class TapeProgram:
    """Steps drawn from a seed.  `run(arrays, indices)` performs them."""

    seed: int

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.count = int(self.rng.integers(2, 5))
        self.start = [self.rng.normal(size=SIZE) for _ in range(self.count)]
        self.weights = [self.rng.normal(size=SIZE) for _ in range(self.count)]
        self.indices = self.rng.integers(0, SIZE, SIZE).astype(np.int32)
        self.steps = [self.step() for _ in range(int(self.rng.integers(2, 11)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def part(self, length: int | None = None, even: bool = False) -> Part:
        which = int(self.rng.integers(self.count))
        if length is None:
            length = int(self.rng.choice([SIZE, SIZE, 4, 2] if even else [SIZE, SIZE, 5, 4, 3, 1]))
        step = int(self.rng.choice([1, 1, 2, -1])) if length <= SIZE // 2 else int(self.rng.choice([1, 1, 1, -1]))
        reach = step * (length - 1)
        low, high = (0, SIZE - 1 - reach) if step > 0 else (-reach, SIZE - 1)
        return which, int(self.rng.integers(low, high + 1)), step, length

    def apart(self, *others: Part, length: int | None = None) -> Part:
        """A view that shares no element with the others."""
        for _ in range(200):
            drawn = self.part(length)
            if all(disjoint(drawn, o) for o in others):
                return drawn
        free = next(w for w in range(self.count) if all(w != o[0] for o in others))
        return free, 0, 1, length or SIZE

    def same_or_apart(self, other: Part) -> Part:
        return other if self.chance(0.3) else self.apart(other, length=other[3])

    def step(self) -> Step:
        kind = int(self.rng.integers(16))
        y = self.part()
        if kind in (0, 1):
            return self.launch, (gather, [self.apart(y), None, y])
        if kind in (2, 3):
            return self.launch, (in_place, [y])
        if kind in (4, 5):
            return self.launch, (update, [self.same_or_apart(y), y])
        if kind == 6:
            return self.launch, (combine, [self.same_or_apart(y), self.same_or_apart(y), y])
        if kind == 7:
            return self.scatter, (scatter, self.apart(y), y)
        if kind == 15:
            return self.scatter, (extremes, self.apart(y), y)
        if kind == 8:
            return self.launch, (conditional, [self.same_or_apart(y), y])
        if kind == 9:
            return self.pairs, (self.part(even=True), int(self.rng.integers(0, 7)))
        if kind == 10:
            return self.launch, (accumulate, [self.apart(y), None, y])
        if kind == 11:
            return self.touch_indices, (
                self.rng.integers(0, SIZE, SIZE).astype(np.int32) if self.chance(0.5) else None,
            )
        if kind == 12:
            return self.fill, (y, float(self.rng.normal()) if self.chance(0.6) else 0.0)
        if kind == 13:
            return self.assign, (y, self.rng.normal(size=y[3]))
        return self.copy, (y, self.part(length=y[3]))

    # -- what the steps do
    def launch(self, arrays: list[sim.array], k: sim.array, kernel: sim.Kernel, parts: list[Part | None]) -> None:
        args = [k if p is None else view(arrays, p) for p in parts]
        sim.launch(kernel, args[-1].shape[0], inputs=args[:-1], outputs=args[-1:])

    def scatter(self, arrays: list[sim.array], k: sim.array, kernel: sim.Kernel, x: Part, y: Part) -> None:
        sim.launch(kernel, x[3], inputs=[view(arrays, x), k], outputs=[view(arrays, y)])

    def pairs(self, arrays: list[sim.array], k: sim.array, x: Part, n: int) -> None:
        sim.launch(smooth_own_pair, x[3] // 2, inputs=[view(arrays, x), n])

    def touch_indices(self, arrays: list[sim.array], k: sim.array, values: np.ndarray | None) -> None:
        if values is None:
            sim.launch(step_indices, SIZE, outputs=[k])
        else:
            k.assign(values)

    def fill(self, arrays: list[sim.array], k: sim.array, y: Part, value: float) -> None:
        view(arrays, y).fill_(value)

    def assign(self, arrays: list[sim.array], k: sim.array, y: Part, values: np.ndarray) -> None:
        data = values.copy()
        view(arrays, y).assign(data)
        data[:] = np.nan  # the user may change it afterwards

    def copy(self, arrays: list[sim.array], k: sim.array, y: Part, x: Part) -> None:
        view(arrays, y).assign(view(arrays, x))

    def run(self, arrays: list[sim.array], k: sim.array) -> None:
        for do, args in self.steps:
            do(arrays, k, *args)

    # -- for the tests
    def arrays(
        self, needed: list[bool], move: list[np.ndarray] | None = None, h: float = 0.0
    ) -> tuple[list[sim.array], sim.array]:
        contents = self.start if move is None else [s + h * m for s, m in zip(self.start, move, strict=True)]
        made = [sim.array(c, dtype=f64, requires_grad=g) for c, g in zip(contents, needed, strict=True)]
        return made, sim.array(self.indices, dtype=sim.int32)

    def value(self, move: list[np.ndarray], h: float, counted: list[bool]) -> float:
        """Weighted sum of the arrays that count, at the end."""
        arrays, k = self.arrays([False] * self.count, move, h)
        self.run(arrays, k)
        return sum(float((w * a.numpy()).sum()) for w, a, c in zip(self.weights, arrays, counted, strict=True) if c)

    def text(self) -> str:
        return f"seed {self.seed}: " + "; ".join(
            f"{do.__name__}({', '.join(str(a.name if isinstance(a, sim.Kernel) else a) for a in args)})"
            for do, args in self.steps
        )
