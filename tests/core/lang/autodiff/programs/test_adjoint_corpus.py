"""The corpus: value, reverse mode, and reverse mode twice, by the interpreter and by LLVM, against plain Python and
differences."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import launch
from tools.library.cases import as_kernel
from tools.programs.corpus import Program, order
from tools.programs.corpus_loops import PROGRAMS

from sim.core.backends.interp import evaluate
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import Func, walk
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import numpy_dtype

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
LOOPS = [p for p in PROGRAMS if p.open_loop]


def interpreted(function: Func, cases: list[tuple]) -> np.ndarray:
    return np.array([evaluate(inline(function), *case) for case in cases])


def compiled(function: Func, cases: list[tuple]) -> np.ndarray:
    columns = [np.array(c, numpy_dtype(p.type)) for c, p in zip(zip(*cases, strict=True), function.params, strict=True)]
    results = [np.zeros(len(cases), numpy_dtype(v.type)) for v in function.body.yields]
    launch(LlvmBackend(), as_kernel(inline(function)), [len(cases)], [*columns, *results])
    return np.stack(results, axis=-1)


def slope(f, at: list[float], k: int, h: float = 1e-4) -> float:
    """df/dx_k by central differences, of fourth order in h."""

    def moved(step: float) -> float:
        return f(*[v + step * (j == k) for j, v in enumerate(at)])

    return (8.0 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12.0 * h)


def reference_gradient(program: Program, n: int, x: float, y: float) -> list[float]:
    return [slope(lambda a, b: program.reference(n, a, b), [x, y], k) for k in (0, 1)]


@each_program
def test_value_and_gradient(program: Program) -> None:
    values = np.array([[program.reference(*s)] for s in program.samples])
    gradients = np.array([reference_gradient(program, *s) for s in program.samples])
    seeded = [(*s, 1.0) for s in program.samples]
    for run in (interpreted, compiled):
        np.testing.assert_allclose(run(order(program, 0), program.samples), values, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(run(order(program, 1), seeded), gradients, rtol=2e-7, atol=2e-7)
    assert np.abs(gradients).max() > 1e-3, "a program without a derivative tests nothing"


@each_program
def test_reverse_mode_twice(program: Program) -> None:
    if program.open_loop:
        with pytest.raises(
            GradientError, match="second reverse derivative goes through a loop [^\n]*\n(.*\n)*.*constant trip count"
        ):
            vjp(order(program, 1))
        return
    cases = [(*s, ct, *w) for s in program.samples for ct, w in ((1.0, (1.0, 0.0)), (0.7, (-0.4, 1.3)))]
    wanted = []
    for n, x, y, ct, u, v in cases:

        def weighted(a: float, b: float, c: float, n: int = n, u: float = u, v: float = v) -> float:
            gx, gy = evaluate(inline(order(program, 1)), n, a, b, c)
            return float(u * gx + v * gy)

        wanted.append([slope(weighted, [x, y, ct], k) for k in range(3)])
    for run in (interpreted, compiled):
        np.testing.assert_allclose(run(order(program, 2), cases), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("slots", [2, 4, 8])
@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.name)
def test_gradient_of_loops_with_few_checkpoints(program: Program, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = interpreted(order(program, 1), [(*s, 1.0) for s in program.samples])
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    short = vjp(program.traced())
    tapes = [op for op in walk(short.body) if op.name == "tape"]
    assert tapes and all(op.attrs["slots"] <= slots for op in tapes)
    samples = [s for s in program.samples if s[0] < 80]
    np.testing.assert_array_equal(
        interpreted(short, [(*s, 1.0) for s in samples]), exact[[s[0] < 80 for s in program.samples]]
    )


def test_a_sum_keeps_no_checkpoints() -> None:
    sums = next(p for p in PROGRAMS if p.name == "dynamic_sum")
    names = [op.name for op in walk(order(sums, 1).body)]
    assert "for" in names and "tape" not in names
