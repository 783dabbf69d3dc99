"""Kernels as LLVM compiles them: names, vector instructions, levels of optimisation, splits of a launch, how long code
lives."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys

import numpy as np
import pytest
from tools.backends.kernels import kernel, launch

from sim.core.backends.base import argument_block
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.ir.core import emit
from sim.core.lang.types import (
    array_type,
    float32,
    float64,
    int32,
    vector,
)


def test_kernels_called_like_the_c_library_and_with_odd_names() -> None:
    def fill(b, x):
        b.store(x, [b.tid(0)], [0], [emit("sin", b.load(x, [b.tid(0)], [0])[0])])

    for name in ("sin", "main", "a.b<c>é"):
        func = kernel([array_type(float32)], fill)
        func.name = name
        x = np.ones(2, np.float32)
        launch(LlvmBackend(), func, [2], [x])
        np.testing.assert_allclose(x, np.sin(1), rtol=1e-6)


def test_results_do_not_depend_on_the_split() -> None:
    """Strict arithmetic: the vector body and the scalar rest of a range round alike."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1003, 3)).astype(np.float32)

    def fill(b, x, y):
        i = b.tid(0)
        u, v, w = b.load(x, [i], [0, 1, 2])
        b.store(y, [i], [0], [emit("sqrt", u * u + v * v + w * w) / (u * v - w)])

    func = kernel([array_type(vector(3, float32)), array_type(float32)], fill, packed=True)
    results = []
    for splits in ([0, 1003], [0, 1, 18, 500, 501, 1003], list(range(0, 1003, 7)) + [1003]):
        y = np.zeros(1003, np.float32)
        launch(LlvmBackend(), func, [1003], [x, y], splits=splits)
        results.append(y.tobytes())
    assert len(set(results)) == 1


def axpy(b, x, y, dims):
    index = [b.tid(k) for k in range(dims)]
    leaves = range(len(getattr(x.type.dtype, "leaves", "1")))
    rows = zip(b.load(x, index, leaves), b.load(y, index, leaves), strict=True)
    b.store(y, index, leaves, [u * 2.0 + v for u, v in rows])


@pytest.mark.parametrize("element", [float32, float64, vector(3, float32)], ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_packed_kernels_vectorise(element, dims) -> None:
    func = kernel([array_type(element, dims)] * 2, lambda b, x, y: axpy(b, x, y, dims), dims, packed=True)
    assert re.search(r"fmul <\d+ x (float|double)>", LlvmBackend().optimised_text(func))


def test_branches_vectorise_and_scattered_sums_do_not() -> None:
    def branchy(b, x, y):
        i = b.tid(0)
        (u,) = b.load(x, [i], [0])
        b.if_(emit("gt", u, 0.0), lambda: b.store(y, [i], [0], [u * 2.0]) and [], lambda: [])

    def scatter(b, x, y):
        (u,) = b.load(x, [b.tid(0)], [0])
        b.accum(y, [emit("cast", u, type=int32)], [0], [u])

    types = [array_type(float32)] * 2
    assert re.search(r"fmul <\d+ x float>", LlvmBackend().optimised_text(kernel(types, branchy, packed=True)))
    assert "fadd <" not in LlvmBackend().optimised_text(kernel(types, scatter, packed=True))


def test_levels_of_optimisation_agree() -> None:
    def fill(b, x, n):
        i = b.tid(0)
        b.store(x, [i], [0], b.for_(n, b.load(x, [i], [0]), lambda k, v: [v * 1.1 + 0.3]))

    func, results = kernel([array_type(float32), int32], fill), []
    for level in (0, 1, 2, 3):
        x = np.linspace(0, 1, 37).astype(np.float32)
        launch(LlvmBackend(level), func, [37], [x, 5])
        results.append(x.tobytes())
    assert len(set(results)) == 1


def test_code_outlives_the_executable_while_run_is_held() -> None:
    func = kernel([array_type(int32)], lambda b, y: b.store(y, [b.tid(0)], [0], [b.tid(0)]))
    run = LlvmBackend().compile(func).run
    y = np.zeros(3, np.int32)
    block = argument_block(func, [3], [y])
    run(block.ctypes.data, 0, 3)
    assert y.tolist() == [0, 1, 2]
    assert ctypes.sizeof(ctypes.c_void_p) == 8  # addresses fit the slots of a block


def test_importing_the_back_end_does_not_import_llvmlite() -> None:
    code = "import sys, sim.core.backends.llvm.backend; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=".", check=False).returncode == 0
