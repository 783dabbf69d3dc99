"""The adjoint of random programs against central differences.  SIM_FUZZ=n: n times as many programs."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from backend_tools import same_bits
from fuzz_programs import WIDTH, RandomFunction, load_kernels

import sim
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.backends.llvm import LlvmBackend
from sim.core.lang import adjoint

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
THREADS, CHUNK = 3, 6


def smooth_slope(f: Callable[[float], float], tolerance: float = 1e-5) -> float | None:
    """f'(0) by central differences, or None where two steps disagree: the program takes another branch nearby."""
    fine, coarse = ((f(h) - f(-h)) / (2.0 * h) for h in (1e-6, 1e-5))
    return fine if abs(fine - coarse) <= tolerance * (1.0 + abs(fine)) else None


@pytest.mark.parametrize("slots", [2, 4, 8, 256])
def test_random_functions(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjoint, "SLOTS", slots)
    compared = 0
    for seed in range(1000 * slots, 1000 * slots + 20 * TIMES):
        function, rng = RandomFunction(seed).build(), random.Random(seed)
        gradient = adjoint.vjp(function)
        for _ in range(2):
            x, n = [rng.uniform(-1.0, 1.0) for _ in range(3)], rng.randint(0, 9)
            found = evaluate(gradient, *x, n, 1.0)
            for k in range(3):
                wanted = smooth_slope(lambda h, k=k, x=x, n=n, f=function: evaluate(f, *[v + h * (j == k) for j, v in enumerate(x)], n)[0])
                if wanted is not None:
                    assert abs(found[k] - wanted) <= 1e-5 * (1.0 + abs(wanted)), f"seed {seed}, slots {slots}, n {n}, x{k}: {found[k]}, {wanted}"
                    compared += 1
    assert compared > 80 * TIMES


class Run:
    """One random kernel with its arrays; `weights` make one number of everything that it writes."""

    def __init__(self, kernel: sim.Kernel, seed: int) -> None:
        self.kernel, rng = kernel, np.random.default_rng(seed)
        self.start = [rng.normal(size=s) for s in ((THREADS, WIDTH), (THREADS, WIDTH), (WIDTH,), (WIDTH,))]
        self.weights = [rng.normal(size=s.shape) for s in self.start]
        self.indices, self.n = sim.array(rng.integers(0, WIDTH, WIDTH), dtype=sim.int32), int(rng.integers(0, 5))

    def arrays(self, move: list[np.ndarray] | None = None, h: float = 0.0, gradient: bool = False) -> list[sim.array]:
        contents = [s + h * m for s, m in zip(self.start, move or self.start, strict=True)]
        return [sim.array(c, dtype=sim.float64, requires_grad=gradient) for c in contents]

    def launch(self, arrays: list[sim.array]) -> list[np.ndarray]:
        x, y, g, total = arrays
        sim.launch(self.kernel, THREADS, inputs=[x, y, g, self.indices], outputs=[total, self.n])
        return [a.numpy().copy() for a in arrays]

    def value(self, move: list[np.ndarray], h: float) -> float:
        return sum(float((w * e).sum()) for w, e in zip(self.weights, self.launch(self.arrays(move, h)), strict=True))

    def gradient(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Final values, and the gradient of the weighted sum of them with respect to the start."""
        arrays = self.arrays(gradient=True)
        with sim.Tape() as tape:
            ends = self.launch(arrays)
        grads = {a: sim.array(w, dtype=sim.float64) for a, w in zip(arrays, self.weights, strict=True)}
        tape.backward(grads=grads)
        assert all(same_bits(a.numpy(), e) for a, e in zip(arrays, ends, strict=True)), "backward changed a value"
        return ends, [a.grad.numpy() for a in arrays]


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
def test_random_kernels(chunk: int, tmp_path: Path) -> None:
    seeds = range(chunk * CHUNK, chunk * CHUNK + CHUNK)
    module, compared, refused = load_kernels(seeds, tmp_path), 0, 0
    for seed in seeds:
        run = Run(getattr(module, f"k{seed}"), seed)
        print(f"seed {seed}", inspect.getsource(run.kernel.function.python), sep="\n")
        on(InterpBackend(), run.kernel)
        plain = run.launch(run.arrays())
        exact: list[np.ndarray] | None = None
        try:
            ends, exact = run.gradient()
            assert all(map(same_bits, ends, plain)), f"seed {seed}: recording changed the result"
        except sim.GradientError as problem:
            assert "that this kernel overwrites in a loop, and" in str(problem), f"seed {seed}"
            refused += 1
        on(LlvmBackend(), run.kernel)
        assert all(map(same_bits, run.launch(run.arrays()), plain)), f"seed {seed}: LLVM computes something else"
        if exact is None:
            with pytest.raises(sim.GradientError):
                run.gradient()
            continue
        for a, b in zip(run.gradient()[1], exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13, err_msg=f"seed {seed}: LLVM's adjoint")
        rng = np.random.default_rng(seed + 1)
        for _ in range(4):
            along = [rng.normal(size=s.shape) for s in run.start]
            wanted = smooth_slope(lambda h, run=run, along=along: run.value(along, h))
            found = sum(float((a * g).sum()) for a, g in zip(along, exact, strict=True))
            if wanted is not None:
                assert abs(found - wanted) <= 2e-5 * (1.0 + abs(wanted)), f"seed {seed}: {found}, differences {wanted}"
                compared += 1
    assert compared > 2 * len(seeds) and refused <= 1
