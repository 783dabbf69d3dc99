"""Control flow against Python itself, which runs the same functions."""

from __future__ import annotations

import importlib.util
import inspect
import sys

import pytest
from tools.fuzz.control_flow import Generator
from tools.programs.control_flow import PROGRAMS, breaks, count, unrolled

from sim.core.backends.interp import evaluate
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import Func, walk
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import float64, int32

INPUTS = [(n, x, y) for n in (-1, 0, 1, 2, 3, 7, 20) for x, y in ((0.5, -1.25), (-2.0, 3.0), (0.0, 0.0))]


def traced(python) -> Func:
    return verify(trace_function(python, [int32, float64, float64], real=float64))


@pytest.mark.parametrize("python", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_python(python) -> None:
    func = traced(python)
    for n, x, y in INPUTS:
        want = python(n, x, y)
        (got,) = evaluate(func, n, x, y)
        assert got == pytest.approx(want, rel=1e-12, abs=1e-12), (n, x, y)


def ops(func: Func) -> list[str]:
    return [op.name for op in walk(func.body)]


def test_known_loops_are_unrolled_and_others_stay() -> None:
    assert "for" not in ops(traced(unrolled)) and "while" not in ops(traced(unrolled))
    assert ops(traced(count)).count("for") == 1 and "while" not in ops(traced(count))
    assert "while" in ops(traced(breaks)) and "for" not in ops(traced(breaks))


def test_a_plain_return_in_a_branch_needs_no_flag() -> None:
    def f(n, x, y):
        if n > 2:
            return x * y
        return x + y

    assert ops(traced(f)).count("if") == 1 and "not" not in ops(traced(f))


def test_constant_conditions_trace_one_branch() -> None:
    flag = None

    def f(n, x, y):
        if flag is None:
            return x
        return undefined_name  # noqa: F821

    assert evaluate(traced(f), 0, 3.0, 4.0) == (3.0,)


# ---- random programs
@pytest.mark.parametrize("chunk", range(6))
def test_random_programs_agree_with_python(chunk: int, tmp_path) -> None:
    seeds = range(chunk * 25, chunk * 25 + 25)
    path = tmp_path / f"programs_{chunk}.py"
    path.write_text("\n\n".join(Generator(seed).program(f"f{seed}") for seed in seeds))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for seed in seeds:
        python = getattr(module, f"f{seed}")
        func = traced(python)
        for n, x, y in ((0, 0.5, -1.25), (3, -2.0, 3.0), (6, 1.0, 0.125), (-2, 0.0, 0.75)):
            want = python(n, x, y)
            (got,) = evaluate(func, n, x, y)
            assert got == pytest.approx(want, rel=1e-9, abs=1e-9), (
                f"seed {seed}, {(n, x, y)}\n{inspect.getsource(python)}"
            )


def test_errors_of_control_flow_name_the_variable() -> None:
    def only_one_branch(n, x, y):
        if n > 0:
            z = x
        return z

    with pytest.raises(KernelError, match="`z` may have no value here: only one branch of the `if` on line"):
        traced(only_one_branch)

    def only_inside(n, x, y):
        for _ in range(n):
            z = x
        return z

    with pytest.raises(KernelError, match="`z` may have no value here: it is assigned only inside of the loop"):
        traced(only_inside)

    def loop_variable(n, x, y):
        for i in range(n):
            x = x + float(i)
        return x + i

    with pytest.raises(KernelError, match="`i` may have no value here: it is the variable of the loop"):
        traced(loop_variable)


def test_what_an_iteration_did_not_assign_has_no_value_behind_it() -> None:
    """Where the path that assigned nothing has left, the rest of the iteration may read; what comes later may not."""

    def behind_the_loop(n, x, y):
        for j in range(n):
            if j < 3:
                p = x
            elif x > y:
                if y > 0.0:
                    p = y
                else:
                    continue
            else:
                break
            x = x + p
        return p

    def in_the_next_iteration(n, x, y):
        for j in range(n):
            if j > 0:
                x = x + p  # noqa: F821
            if y > 0.0:
                if x > y:
                    p = y  # noqa: F841
                else:
                    continue
            else:
                continue
        return x

    def behind_copies_of_a_body(n, x, y):
        for j in range(2):
            if n > j:
                if x > y:
                    p = y
                else:
                    break
            else:
                p = x
            x = x + p
        return p

    def in_the_next_copy(n, x, y):
        for j in range(2):
            if j > 0:
                x = x + p  # noqa: F821
            if n > j:
                if x > y:
                    p = y  # noqa: F841
                else:
                    continue
            else:
                p = x  # noqa: F841
        return x

    for python in (behind_the_loop, in_the_next_iteration, behind_copies_of_a_body, in_the_next_copy):
        with pytest.raises(KernelError, match=r"`p` (may have no value here|is used before it has a value)"):
            traced(python)


def test_long_chains_of_returns_and_elifs(tmp_path) -> None:
    count = 60
    returns = "".join(f"    if n == {k}:\n        return x + {k}.0\n" for k in range(count))
    elifs = "".join(f"    elif n == {k}:\n        a = x * {k}.0\n" for k in range(1, count))
    path = tmp_path / "chains.py"
    first = f"def f(n, x, y):\n{returns}    return y\n"
    second = f"def g(n, x, y):\n    if n == 0:\n        a = x\n{elifs}    else:\n        a = y\n    return a\n"
    path.write_text(f"{first}\n\n{second}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for python in (module.f, module.g):
        func = traced(python)
        for n in (0, 5, count - 1, count):
            assert evaluate(func, n, 1.5, 2.5) == (python(n, 1.5, 2.5),)


def deep_nest(n, x, y):
    s = x
    for a in range(16):
        for b in range(a, 16):
            for c in range(16):
                s += y * float(a * b + c)
            for d in range(n):
                s += float(d)
    return s


def test_of_a_deep_nest_the_outer_loops_stay():
    """All of it unrolled, or the inner loops copied many times, would take minutes to compile."""
    func = verify(trace_function(deep_nest, (int32, float64, float64), real=float64))
    assert sum(1 for _ in walk(func.body)) < 2000
    assert sum(op.name == "for" for op in walk(func.body)) <= 17
    assert evaluate(func, 3, 0.5, 2.0) == (pytest.approx(deep_nest(3, 0.5, 2.0)),)
