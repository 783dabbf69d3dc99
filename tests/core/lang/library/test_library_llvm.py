"""Every library function and its derivative, compiled by LLVM as one kernel, against the reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.backends.kernels import launch
from tools.library.cases import ALL, FUNCTIONS, IDS, as_kernel, sample
from tools.library.rows import REAL, Row
from tools.library.traced import calling, flat_args, is_real

from sim.core.backends.interp import evaluate
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang import types as t
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline

SAMPLES = 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "row"), ALL, ids=IDS)
def test_compiled_as_interpreted(name: str, row: Row, dtype: Any) -> None:
    value = trace_function(
        calling(FUNCTIONS[name], len(row.kinds)), [k.of(REAL[dtype]) for k in row.kinds], REAL[dtype]
    )
    outputs = sum(is_real(v.type) for v in value.body.yields)
    cases = [
        [*flat_args(sample(row, dtype, seed)), *np.random.default_rng(seed).normal(size=outputs)]
        for seed in range(SAMPLES)
    ]
    for function in (inline(value), inline(vjp(value))):
        count = len(function.params)
        columns = [np.array([c[k] for c in cases], t.numpy_dtype(p.type)) for k, p in enumerate(function.params)]
        results = [np.zeros(SAMPLES, t.numpy_dtype(v.type)) for v in function.body.yields]
        launch(LlvmBackend(), as_kernel(function), [SAMPLES], [*columns, *results])
        for k, case in enumerate(cases):
            expected = evaluate(function, *case[:count])
            tolerance = 2e-3 if dtype is np.float32 else 1e-10
            np.testing.assert_allclose([r[k] for r in results], expected, rtol=tolerance, atol=tolerance)
