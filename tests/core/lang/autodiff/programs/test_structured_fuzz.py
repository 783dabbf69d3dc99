"""Random kernels with structs and local arrays against plain Python on dual numbers.  SIM_FUZZ=n: n times as many."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tools.fuzz.duals import Dual, PlainKernel, components, filled, numbers
from tools.fuzz.programs import WIDTH, load_kernels
from tools.fuzz.structured import STRUCTURED_PRELUDE, StructuredKernel

import sim
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.autodiff import checkpoints

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
THREADS = 3
FOUND = [1, 66, 235, 293, 241]
"""Seeds that found something once: components of local structs that the run chooses were an internal error (of two
kinds), a row of a local matrix stored one component, a branch that stores and leaves the loop had no adjoint."""


def leaves(content: np.ndarray) -> list[np.ndarray]:
    """Views of the floating point fields of an array's content, depth first."""
    if content.dtype.names:
        return [leaf for name in content.dtype.names for leaf in leaves(content[name])]
    return [content] if content.dtype.kind == "f" else []


def to_rows(content: np.ndarray) -> np.ndarray:
    """The floating point numbers of an element side by side."""
    return np.concatenate([leaf.reshape(len(content), -1) for leaf in leaves(content)], axis=1)


def from_rows(rows: np.ndarray, kind: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """Back from `to_rows`; whole numbers are 1."""
    content, at = np.ones(shape, kind), 0
    for leaf in leaves(content):
        width = leaf[0].size
        leaf[...] = rows[:, at : at + width].reshape(leaf.shape)
        at += width
    return content


class Run:
    """A random kernel with its arrays, as rows of numbers; `weights` make one number of all that it writes."""

    def __init__(self, kernel: sim.Kernel, seed: int) -> None:
        self.kernel, rng = kernel, np.random.default_rng(seed)
        self.outer = kernel.function.python.__globals__["Outer"]
        self.kinds = [sim.float64, sim.vec3d, self.outer, sim.float64, sim.float64]
        shapes = ((THREADS, WIDTH), (THREADS, 3), (THREADS, 11), (WIDTH, 1), (WIDTH, 1))
        self.start, self.along, self.weights = ([rng.normal(size=s) * 0.7 for s in shapes] for _ in range(3))
        self.k, self.q = rng.integers(0, WIDTH, WIDTH), rng.integers(0, WIDTH, (THREADS, WIDTH))
        self.n = int(rng.integers(0, 6))
        self.everything = [True] * len(shapes)
        self.some = [bool(b) for b in rng.random(len(shapes)) < 0.6]

    def reference(self, needed: Sequence[bool]) -> tuple[list[np.ndarray], float]:
        """Final values, and the slope of the weighted sum of what is needed as what is needed moves `along`."""
        python = self.kernel.function.python
        plain = PlainKernel(STRUCTURED_PRELUDE + inspect.getsource(python), python.__name__)
        x, *others = (
            [Dual(float(v), float(d) * on) for v, d in zip(start.flat, along.flat, strict=True)]
            for start, along, on in zip(self.start, self.along, needed, strict=True)
        )
        p, items, g, total = map(iter, others)
        arrays = [
            components((THREADS, WIDTH), *x),
            [filled(plain.sim.vec3d, p) for _ in range(THREADS)],
            [filled(plain.names["Outer"], items) for _ in range(THREADS)],
            components((WIDTH,), *g),
            components((WIDTH,), *total),
        ]
        k, q = (a.astype(object) for a in (self.k, self.q))
        plain.launch(THREADS, *arrays, k, q, self.n)
        ends = [[(e.value, e.slope) for e in numbers(a)] for a in arrays]
        values, slopes = (
            [np.reshape(e, (*s.shape, 2))[..., j] for e, s in zip(ends, self.start, strict=True)] for j in (0, 1)
        )
        return values, self.product(self.weights, slopes, needed)

    @staticmethod
    def product(a: Sequence[np.ndarray], b: Sequence[np.ndarray], needed: Sequence[bool]) -> float:
        return sum(float((x * y).sum()) for x, y, on in zip(a, b, needed, strict=True) if on)

    def arrays(self, rows: Sequence[np.ndarray], needed: Sequence[bool]) -> list[sim.array]:
        types = [np.float64, (np.float64, 3), self.outer.numpy_dtype(), np.float64, np.float64]
        shapes = [(THREADS, WIDTH), THREADS, THREADS, WIDTH, WIDTH]
        contents = map(from_rows, rows, types, shapes)
        return [
            sim.array(c, dtype=kind, requires_grad=on) for c, kind, on in zip(contents, self.kinds, needed, strict=True)
        ]

    def launch(self, arrays: Sequence[sim.array]) -> list[np.ndarray]:
        k, q = (sim.array(a, dtype=int) for a in (self.k, self.q))
        sim.launch(self.kernel, THREADS, inputs=[*arrays, k, q, self.n])
        return [to_rows(a.numpy()).copy() for a in arrays]

    def gradient(self, needed: Sequence[bool]) -> tuple[list[np.ndarray], float]:
        """What `reference` has, by our compiler."""
        arrays = self.arrays(self.start, needed)
        with sim.Tape() as tape:
            ends = self.launch(arrays)
        seeds = self.arrays(self.weights, [False] * len(arrays))
        if tape.records:
            tape.backward(grads={a: w for a, w in zip(arrays, seeds, strict=True) if a.requires_grad})
        found = [to_rows(a.grad.numpy()) if a.requires_grad else w for a, w in zip(arrays, self.weights, strict=True)]
        return ends, self.product(found, self.along, needed)


@pytest.fixture(autouse=True)
def same_backend_afterwards():
    device = sim.get_device("cpu")
    before = device.backend
    yield
    device.backend = before


@pytest.mark.parametrize("seed", [*FOUND, *range(1000, 1000 + 4 * TIMES)])
def test_structured_kernels(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLOTS", (512, 4, 2)[seed % 3])
    module = load_kernels([seed], tmp_path, StructuredKernel, STRUCTURED_PRELUDE)
    run = Run(getattr(module, f"k{seed}"), seed)
    print(f"seed {seed}", inspect.getsource(run.kernel.function.python), sep="\n")
    for backend in (InterpBackend(), LlvmBackend()):
        sim.get_device("cpu").backend = backend
        run.kernel.specialisations.clear()
        run.kernel.bindings.clear()
        for needed in (run.everything, run.some):
            values, slope = run.reference(needed)
            try:
                ends, found = run.gradient(needed)
            except sim.GradientError as problem:
                assert needed is run.some and "the gradient would be lost" in str(problem)
                continue
            for end, value in zip(ends, values, strict=True):
                scale = max(1.0, float(np.abs(value).max()))
                np.testing.assert_allclose(end, value, rtol=1e-9, atol=1e-9 * scale)
            assert found == pytest.approx(slope, rel=1e-7, abs=1e-7)
