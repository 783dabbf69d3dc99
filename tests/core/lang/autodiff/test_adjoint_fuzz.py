"""The adjoint of random programs against central differences.  SIM_FUZZ=n: n times as many programs."""

from __future__ import annotations

import inspect
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from backend_tools import same_bits
from fuzz_programs import WIDTH, RandomFunction, load_kernels

import sim
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.backends.llvm import LlvmBackend
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.reverse import vjp

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
THREADS, CHUNK = 3, 6
KINDS = [sim.float64, sim.float64, sim.vec3d, sim.float64, sim.float64]


def smooth_slope(f: Callable[[float], float], tolerance: float = 1e-5) -> float | None:
    """f'(0) by central differences, or None at a kink (`max` of equal values), or where another branch is taken
    nearby."""
    low, here, high = f(-1e-6), f(0.0), f(1e-6)
    fine, coarse, bend = (high - low) / 2e-6, (f(1e-5) - f(-1e-5)) / 2e-5, (high - 2.0 * here + low) / 1e-6
    return fine if max(abs(fine - coarse), 0.01 * abs(bend)) <= tolerance * (1.0 + abs(fine)) else None


@pytest.mark.parametrize("slots", [2, 4, 8, 256])
def test_random_functions(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    compared = 0
    for seed in range(1000 * slots, 1000 * slots + 20 * TIMES):
        function, rng = RandomFunction(seed).build(), random.Random(seed)
        gradient = vjp(function)
        for _ in range(2):
            x, n = [rng.uniform(-1.0, 1.0) for _ in range(3)], rng.randint(0, 9)
            found = evaluate(gradient, *x, n, 1.0)
            for k in range(3):
                wanted = smooth_slope(
                    lambda h, k=k, x=x, n=n, f=function: evaluate(f, *[v + h * (j == k) for j, v in enumerate(x)], n)[0]
                )
                if wanted is not None:
                    assert abs(found[k] - wanted) <= 1e-5 * (1.0 + abs(wanted)), (
                        f"seed {seed}, slots {slots}, n {n}, x{k}: {found[k]}, {wanted}"
                    )
                    compared += 1
    assert compared > 80 * TIMES


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
        x, y, p, g, total = (
            sim.array(c, dtype=kind, requires_grad=gradient) for c, kind, gradient in zip(contents, KINDS, needed, strict=True)
        )  # fmt: skip
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


def on(backend: InterpBackend | LlvmBackend, kernel: sim.Kernel) -> None:
    sim.get_device("cpu").backend = backend
    kernel.specialisations.clear()
    kernel.bindings.clear()


@pytest.fixture(autouse=True)
def same_backend_afterwards():
    device = sim.get_device("cpu")
    before = device.backend
    yield
    device.backend = before


@pytest.mark.parametrize("chunk", range(10 * TIMES))
def test_random_kernels(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLOTS", (512, 4)[chunk % 2])
    seeds = range(chunk * CHUNK, chunk * CHUNK + CHUNK)
    module, compared = load_kernels(seeds, tmp_path), 0
    for seed in seeds:
        run = Run(getattr(module, f"k{seed}"), seed)
        print(f"seed {seed}", inspect.getsource(run.kernel.function.python), sep="\n")
        on(InterpBackend(), run.kernel)
        plain = run.launch(run.arrays())
        try:
            ends, exact = run.gradient(run.everything)
        except sim.GradientError as problem:  # the one thing that cannot be replayed here
            assert run.shared and "are the same memory and both written" in str(problem)
            continue
        assert all(map(same_bits, ends, plain)), "recording changed the result"
        on(LlvmBackend(), run.kernel)
        assert all(map(same_bits, run.launch(run.arrays()), plain)), "LLVM computes something else"
        for a, b in zip(run.gradient(run.everything)[1], exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13, err_msg="LLVM's adjoint")
        compared += run.compare(exact, run.everything)
        try:
            found = run.gradient(run.some)[1]
        except sim.GradientError as problem:
            assert re.search("the gradient would be lost|are the same memory and both written", str(problem))
        else:
            run.compare(found, run.some)
    assert compared >= 2 * (len(seeds) - 1)
