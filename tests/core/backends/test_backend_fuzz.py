"""Random programs: the interpreter and LLVM give the same bits, launch by launch, checked and unchecked."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch, same_bits
from tools.fuzz.backends import THREADS, Program, arguments

from sim.core.backends.llvm.backend import LlvmBackend

SPECIAL = {"cast", "reinterpret", "select", "min", "max", "copysign"}


@pytest.mark.parametrize("seed", range(int(os.environ.get("SIM_FUZZ", "40"))))
def test_random_program(seed: int) -> None:
    print("seed", seed)
    func = Program(seed).kernel()
    for backend, check in ((BACKENDS[1], False), (BACKENDS[1], True), (LlvmBackend(level=0), False)):
        expected, got = arguments(seed), arguments(seed)
        dims = [THREADS] if func.dims == 1 else [1, THREADS]
        first, _ = launch(BACKENDS[0], func, dims, expected, check)
        second, _ = launch(backend, func, dims, got, check)
        assert first.tolist() == second.tolist()
        for k, (a, b) in enumerate(zip(expected[:5], got[:5], strict=True)):
            assert same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b)), f"seed {seed}, argument {k}\n{func}"
