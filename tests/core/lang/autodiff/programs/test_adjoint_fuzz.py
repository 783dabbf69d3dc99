"""The adjoint of random programs against central differences.  SIM_FUZZ=n: n times as many programs."""

from __future__ import annotations

import inspect
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from tools.backends.kernels import same_bits
from tools.fuzz.adjoints import CHUNK, Run, smooth_slope
from tools.fuzz.programs import RandomFunction, load_kernels

import sim
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.reverse import vjp

TIMES = int(os.environ.get("SIM_FUZZ", "1"))


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
