"""Calls as programs for Warp write them: overloads, unpacked arguments, annotations of results, names without a prefix,
builtins by the names of their parameters."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from tools.programs.interpreted import evaluated

import sim
from sim.core.lang.errors import KernelError
from sim.core.lang.types import float32, float64, vector

vec2, vec3, vec4 = (vector(n, float32) for n in (2, 3, 4))


# ---- overloads
@sim.func
def kind(x: float):
    return 1


@sim.func
def kind(x: int):  # noqa: F811
    return 2


@sim.func
def kind(x: sim.vec3):  # noqa: F811
    return 3


@sim.func
def kind(x: sim.float64):  # noqa: F811
    return 4


@sim.func
def kind(x: Any):  # noqa: F811
    return 5


@sim.func
def kind(x: float, y: Any):  # noqa: F811
    return 6


@sim.func
def kind(x: Any, y: Any):  # noqa: F811
    return 7


def test_the_definition_that_fits_best_is_called():
    def literals():
        return kind(1.0), kind(1), kind(True), kind(sim.vec2())

    assert evaluated(literals) == [1, 2, 5, 5]

    def typed(a, b):
        return kind(a), kind(b), kind(a, b), kind(b, a), kind(y=1, x=a)

    assert evaluated(typed, [float32, float64], 1.0, 1.0) == [1, 4, 6, 7, 6]


def test_without_an_exact_one_a_number_takes_the_type_that_is_asked_for():
    @sim.func
    def half(x: sim.float64):
        return 0.5 * x

    @sim.func
    def half(x: sim.vec3):  # noqa: F811
        return 0.5 * x

    assert evaluated(lambda_free(half)) == 1.5


def lambda_free(f):
    def three():
        return f(3)

    return three


# ---- unpacked arguments
def test_vectors_matrices_quaternions_and_tuples_are_unpacked():
    def spread(v: sim.vec3, m: sim.mat22, q: sim.quat):
        pair = (5.0, 6.0)
        return (
            sim.vec4(*v, 4.0),
            *pair,
            sim.vec2(*pair),
            max(*v),
            sim.dot(*m),
            sim.vec4(*q),
            sim.vec2(v[0], v[1]),
        )

    flat = evaluated(spread, [vec3, sim.mat22, sim.quat], 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0)
    assert flat == [1, 2, 3, 4, 5, 6, 5, 6, 3, 11, 1, 2, 3, 4, 1, 2]


def test_part_of_an_array_is_unpacked():
    @sim.kernel
    def gather(a: sim.array[float], n: int, out: sim.array[sim.vec3]):
        out[0] = sim.vec3(*a[1:4])
        out[1] = sim.vec3(*a[:5:2])

    @sim.kernel
    def unknown(a: sim.array[float], n: int, out: sim.array[sim.vec3]):
        out[0] = sim.vec3(*a[0:n])

    a, out = sim.array(np.arange(6.0), dtype=float), sim.zeros(2, dtype=sim.vec3)
    sim.launch(gather, 1, inputs=[a, 3, out])
    np.testing.assert_array_equal(out.numpy(), [[1, 2, 3], [0, 2, 4]])
    with pytest.raises(KernelError, match="must be a compile-time constant"):
        sim.launch(unknown, 1, inputs=[a, 3, out])


def test_what_cannot_be_unpacked_says_why():
    def open_end(a: sim.array[float]):
        return sim.vec3(*a[0:])

    def from_the_end(a: sim.array[float]):
        return sim.vec3(*a[:-3])

    def backwards(a: sim.array[float]):
        return sim.vec3(*a[5:2:-1])

    def a_number(a: sim.array[float]):
        return sim.vec3(*a[0])

    for function, why in (
        (open_end, "requires explicit upper bound"),
        (from_the_end, "bound cannot be negative for arrays, got -3"),
        (backwards, "step cannot be negative"),
        (a_number, "Starred expressions are only supported for .* not for float32"),
    ):
        with pytest.raises(KernelError, match=f"(?s){why}.*known while compiling"):
            evaluated(function, [sim.array(dtype=float)], np.arange(6.0))


def test_errors_can_be_caught_by_their_kind():
    """As in Warp: what is missing is an AttributeError or a KeyError too."""

    def no_component(v: sim.vec3):
        return v.a

    def no_name(v: sim.vec3):
        return nothing  # noqa: F821

    for function, kind, words in (
        (no_component, sim.WarpCodegenAttributeError, "has no component 'a'"),
        (no_name, sim.WarpCodegenKeyError, "`nothing` is not defined"),
    ):
        with pytest.raises(kind, match=words) as caught:
            evaluated(function, [vec3], 1.0, 2.0, 3.0)
        assert isinstance(caught.value, KernelError) and isinstance(caught.value, (AttributeError, KeyError))


# ---- annotations of results
def test_results_are_what_their_annotations_say():
    @sim.func
    def one(x: float) -> float:
        return 1  # a number without a type takes that

    @sim.func
    def both(x: float) -> tuple[float, int]:
        return x, 3

    @sim.func
    def narrow(x: sim.int32) -> sim.int16:
        return sim.int8(x)

    @sim.func
    def missing(x: int) -> tuple[int, int, int]:
        return x, x

    @sim.func
    def more(x: int) -> int:
        return x, x

    @sim.func
    def other(x: int) -> tuple[int, int]:
        return x, 1.5

    @sim.func
    def sized() -> sim.zeros(shape=(2, 3), dtype=int):  # as programs for Warp write what a kernel makes
        made = sim.zeros(shape=(2, 3), dtype=int)
        made[1, 2] = 7
        return made

    @sim.func
    def last() -> int:
        return sized()[1, 2]

    assert one(3.0) == 1 and both(2.0) == (2.0, 3) and last() == 7
    for function, why in (
        (narrow, "annotated as `int16` but the code returns a value of type `int8`"),
        (missing, "annotated as a tuple of 3 elements but the code returns 2 values"),
        (more, "annotated as `int` but the code returns 2 values"),
        (other, r"annotated as `tuple\[int, int\]` but the code returns a tuple with types `\(int32, float32\)`"),
    ):
        with pytest.raises(KernelError, match=f"test_calls.py.*`{function.name}` has its return type {why}"):
            function(3)


def test_kernels_promise_no_result():
    @sim.kernel
    def nothing(x: sim.array(dtype=float)) -> None:
        x[0] = 1.0

    @sim.kernel
    def number(x: sim.array(dtype=float)) -> float:
        x[0] = 1.0

    sim.launch(nothing, 1, [sim.zeros(1)])
    with pytest.raises(KernelError, match="kernel `number` is annotated to return float32, and kernels return nothing"):
        sim.launch(number, 1, [sim.zeros(1)])


# ---- names without a prefix
def test_names_of_the_language_need_no_prefix():
    def f(x: float):
        v = vec3d(float64(x), float64(1.0), float64(2.0))  # noqa: F821
        return float32(length_sq(v)) + sqrt(x)  # noqa: F821

    assert evaluated(sim.func(f), [float32], 4.0) == 23.0


dot = 5


def test_names_of_the_module_and_of_python_come_first():
    def f(x: float):
        return x + float(dot) + float(abs(-1))

    assert evaluated(sim.func(f), [float32], 1.0) == 7.0


def test_a_name_that_is_given_a_meaning_later_has_it_at_the_next_launch():
    space = {"sim": sim, "__name__": __name__}
    exec_in(space, "def f(a: sim.array[float]):\n    a[0] = clamp(a[0], 0.0, 1.0)\n")
    kernel, a = sim.kernel(space["f"]), sim.array([5.0], dtype=float)
    sim.launch(kernel, 1, inputs=[a])
    assert a.list() == [1.0]
    space["clamp"] = sim.func(lower)
    sim.launch(kernel, 1, inputs=[a])
    assert a.list() == [0.0]


def lower(x: float, low: float, high: float):
    return low


def exec_in(space, text):
    """Defines what a text says, with lines that can be read back."""
    name = "<names without a prefix>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)


def test_func_takes_the_hint_inline():
    @sim.func(inline=False)
    def twice(x: float):
        return 2.0 * x

    assert evaluated(twice, [float32], 2.0) == 4.0
    with pytest.raises(TypeError, match="inline must be a bool"):
        sim.func(inline="always")


# ---- builtins by the names of their parameters
def test_builtins_take_arguments_by_name():
    def f(x: float):
        return sim.pow(y=2.0, x=x) + sim.atan2(x=x, y=0.0) + sim.max(x, b=9.0) + sim.sub(b=1.0, a=sim.sqrt(x=x))

    assert evaluated(sim.func(f), [float32], 4.0) == 16.0 + 0.0 + 9.0 + 1.0


@pytest.mark.parametrize("text", ["pow(x, x=2.0)", "pow(x, z=2.0)", "sqrt(x=x, y=x)", "pow(y=2.0)"])
def test_names_that_do_not_fit_a_builtin_are_told(text):
    space = {"sim": sim, "__name__": __name__}
    exec_in(space, f"def f(x: float):\n    return sim.{text}\n")
    with pytest.raises(KernelError, match="takes"):
        evaluated(sim.func(space["f"]), [float32], 4.0)


def test_the_length_of_a_vector_is_a_constant():
    def f(x: float):
        v = vec3(x, x, x)
        return float(v.length) + sim.zeros(shape=v.length, dtype=float)[0]

    assert evaluated(sim.func(f), [float32], 1.0) == 3.0


def test_a_function_has_a_key_of_its_own():
    @sim.func
    def here(x: float):
        return x

    assert here.key == "test_a_function_has_a_key_of_its_own__locals__here" and here.func(2.0) == 2.0
    assert (sim.sin.key, sim.length.key) == ("sin", "length")
