"""Calls as programs for Warp write them: overloads, unpacked arguments, enums, tuples, `static`, loop variables."""

from __future__ import annotations

import enum
import linecache
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.backends.interp import evaluate
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import float32, float64, int32, int64, uint8, uint32, vec2i, vector

vec2, vec3, vec4 = (vector(n, float32) for n in (2, 3, 4))


def call(function, kinds=(), *args):
    """The results of a function of the language, by the interpreter."""
    found = evaluate(verify(trace_function(function, kinds)), *args)
    return list(found) if len(found) > 1 else found[0]


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

    assert call(literals) == [1, 2, 5, 5]

    def typed(a, b):
        return kind(a), kind(b), kind(a, b), kind(b, a), kind(y=1, x=a)

    assert call(typed, [float32, float64], 1.0, 1.0) == [1, 4, 6, 7, 6]


def test_without_an_exact_one_a_number_takes_the_type_that_is_asked_for():
    @sim.func
    def half(x: sim.float64):
        return 0.5 * x

    @sim.func
    def half(x: sim.vec3):  # noqa: F811
        return 0.5 * x

    assert call(lambda_free(half)) == 1.5


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

    flat = call(spread, [vec3, sim.mat22, sim.quat], 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0)
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
            call(function, [sim.array(dtype=float)], np.arange(6.0))


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
            call(function, [vec3], 1.0, 2.0, 3.0)
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


# ---- enums
class Mode(enum.IntEnum):
    FAST = 1
    EXACT = 4


class Letter(enum.Enum):
    A = 2.5


def test_members_of_enums_are_numbers_or_have_a_value():
    def members(x: int):
        y = 0
        if x == Mode.EXACT:
            y = Mode.FAST
        return x + Mode.EXACT, int(Mode.EXACT.value), Mode["FAST"] * 3, int(Mode(4)), y, 2.0 * Letter.A.value

    assert call(members, [int32], 4) == [8, 4, 3, 4, 1, 5.0]


# ---- static
def test_static_sees_how_long_a_value_of_the_run_is():
    def lengths(v: sim.vec3):
        pair = (v[0], v[1])
        return sim.static(len(v) + 1), sim.static(len(pair))

    assert call(lengths, [vec3], 1.0, 2.0, 3.0) == [4, 2]


def test_loops_are_unrolled_where_static_asks_for_their_variable():
    @sim.func
    def odd(x: float):
        total = 0.0
        for i in range(20):
            if sim.static(i % 2 == 0):
                continue
            total += float(i) * x
        return total

    assert odd(2.0) == 200.0


known_as = sim.static


@sim.kernel
def of_another_name(y: sim.array[int]):
    y[0] = known_as(known_as(3) + 4)


known_as = float


def test_static_is_what_it_was_where_the_kernel_is_defined():
    y = sim.zeros(1, dtype=int)
    sim.launch(of_another_name, 1, [y])
    assert y.numpy()[0] == 7


def test_what_static_gives_may_be_called_or_indexed_at_once():
    double, pair = sim.func(twice_of), (3.0, 5.0)

    @sim.func
    def both(x: float):
        return sim.static(double)(x) + sim.static(pair)[1]

    assert both(4.0) == 13.0


def twice_of(x: float):
    return 2.0 * x


def test_static_outside_of_a_kernel_is_its_argument():
    assert sim.static(3 + 4) == 7


# ---- structs
@sim.struct
class Pair:
    a: float
    b: int


def test_fields_of_a_struct_by_position():
    def make(x: float):
        p, q = Pair(x, 3), Pair(x, b=4)
        return p.a + q.a, p.b + q.b, Pair(x).b

    assert call(make, [float32], 2.0) == [4.0, 7, 0]

    def twice(x: float):
        return Pair(x, a=1.0).a

    with pytest.raises(KernelError, match="got 'a' twice"):
        call(twice, [float32], 2.0)

    def much(x: float):
        return Pair(x, 1, 2).a

    with pytest.raises(KernelError, match=r"takes 2 fields, got 3: a, b"):
        call(much, [float32], 2.0)


# ---- the variable of a loop, after it
def test_the_variable_of_a_loop_that_certainly_ran():
    def after(n: int):
        for i in range(3):  # noqa: B007
            pass
        for j in range(10, 200, 7):  # noqa: B007
            pass
        for k in range(100):
            if k == n:
                break
        for m in range(50, 3, -2):
            if m < n:
                continue
        return i, j, k, m

    for n in (0, 17, 99, 1000):
        assert call(after, [int32], n) == [2, 199, min(n, 99), 4]


def test_a_variable_that_every_iteration_of_a_loop_assigns_has_its_last_value_behind_it():
    def after(n: int):
        for k in range(40):
            square = k * k
            pair = vec2i(k, square)
        total = square
        for j in range(90):
            found = j * 3
            if found > n:
                break
        return total, pair, found

    for n in (-1, 17, 1000):
        assert call(after, [int32], n) == [39 * 39, 39, 39 * 39, next((j * 3 for j in range(90) if j * 3 > n), 267)]


def test_a_while_loop_whose_condition_holds_at_first_has_run():
    def after(n: int):
        size = float32(0.0)
        trips = 0
        while size < 2.5:
            trips += 1
            found = float(trips * n)
            size = found * found
        return found

    assert [call(after, [int32], n) for n in (1, 2, 3)] == [2.0, 2.0, 3.0]

    def may_not_run(n: int):
        k = n
        while k < 3:
            k += 1
            last = k
        return last

    with pytest.raises(KernelError, match="`last` may have no value"):
        call(may_not_run, [int32], 1)


@pytest.mark.parametrize(
    "body",
    ["if k == n:\n            x = k", "if k == n:\n            break\n        x = k", "y = x\n        x = k"],
    ids=["on one path", "behind a break", "read before"],
)
def test_a_variable_that_an_iteration_may_not_assign_is_refused_behind_the_loop(body, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"def f(n: int):\n    for k in range(40):\n        {body}\n    return x\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102
    with pytest.raises(KernelError, match="`x` (may have no value|is used before)"):
        call(space["f"], [int32], 3)


@pytest.mark.parametrize("bounds", ["range(n)", "range(40, 3)", "range(3, n)"])
def test_the_variable_of_a_loop_that_may_not_have_run(bounds, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"def f(n: int):\n    for i in {bounds}:\n        pass\n    return i\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102
    with pytest.raises(KernelError, match="`i`"):
        call(space["f"], [int32], 3)


def test_a_variable_that_the_loop_assigns_itself_has_no_known_value():
    def changed(n: int):
        for i in range(100):
            i = i + n  # noqa: PLW2901
        return i

    with pytest.raises(KernelError, match="`i` may have no value"):
        call(changed, [int32], 3)


# ---- structs with operators, and attributes that are set
@sim.struct
class Complex:
    real: float
    imag: float


@sim.func
def add(a: Complex, b: Complex):
    return Complex(a.real + b.real, a.imag + b.imag)


@sim.func
def mul(a: Complex, b: Complex):
    return Complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@sim.func
def mul(a: float, b: Complex):  # noqa: F811
    return Complex(a * b.real, a * b.imag)


def test_functions_named_as_operators_serve_structs():
    def compute(x: float):
        a, b = Complex(x, 2.0), Complex(3.0, 4.0)
        c = a * b + 2.0 * b
        c += a
        return c.real, c.imag

    assert call(compute, [float32], 1.0) == [2.0, 20.0]

    def missing(x: float):
        return (Complex(x, x) - Complex(x, x)).real

    with pytest.raises(KernelError, match="- is not defined for Complex and Complex"):
        call(missing, [float32], 1.0)


@sim.struct
class WithArray:
    data: sim.array[float]
    scale: float


@sim.func
def with_array(data: sim.array[float], scale: float):
    s = WithArray()
    s.data = data
    s.scale = scale
    return s


def test_an_array_attribute_that_was_not_set_can_be_set():
    @sim.kernel
    def scaled(x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        s = with_array(x, 3.0)
        y[i] = s.scale * s.data[i]

    x, y = sim.array([1.0, 2.0], dtype=float), sim.zeros(2, dtype=float)
    sim.launch(scaled, 2, inputs=[x, y])
    assert y.list() == [3.0, 6.0]


# ---- comparisons of numbers of different types
@pytest.mark.parametrize(
    ("left", "right", "a", "b"),
    [(float32, int32, 2.5, 3), (int32, float32, 3, 2.5), (float32, float64, 0.1, 0.1), (int32, int64, 3, 2**40),
     (uint8, int32, 200, -1)],
)  # fmt: skip
def test_comparisons_convert_the_narrower_side(left, right, a, b):
    def compare(x: Any, y: Any):
        return x < y, x >= y, x == y

    x, y = left.np.type(a), right.np.type(b)
    assert call(compare, [left, right], a, b) == [x < y, x >= y, x == y]


def test_a_signed_and_an_unsigned_number_of_one_width_are_not_compared():
    def compare(x: int32, y: uint32):
        return x < y

    with pytest.raises(KernelError, match="< of int32 and uint32: there is no implicit conversion"):
        call(compare, [int32, uint32], -1, 1)


# ---- names without a prefix
def test_names_of_the_language_need_no_prefix():
    def f(x: float):
        v = vec3d(float64(x), float64(1.0), float64(2.0))  # noqa: F821
        return float32(length_sq(v)) + sqrt(x)  # noqa: F821

    assert call(sim.func(f), [float32], 4.0) == 23.0


dot = 5


def test_names_of_the_module_and_of_python_come_first():
    def f(x: float):
        return x + float(dot) + float(abs(-1))

    assert call(sim.func(f), [float32], 1.0) == 7.0


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


def test_a_range_of_a_bool():
    def f():
        n = 0
        for i in range(sim.static(True)):
            n += i + 1
        return n

    assert call(sim.func(f)) == 1


def test_func_takes_the_hint_inline():
    @sim.func(inline=False)
    def twice(x: float):
        return 2.0 * x

    assert call(twice, [float32], 2.0) == 4.0
    with pytest.raises(TypeError, match="inline must be a bool"):
        sim.func(inline="always")


# ---- builtins by the names of their parameters
def test_builtins_take_arguments_by_name():
    def f(x: float):
        return sim.pow(y=2.0, x=x) + sim.atan2(x=x, y=0.0) + sim.max(x, b=9.0) + sim.sub(b=1.0, a=sim.sqrt(x=x))

    assert call(sim.func(f), [float32], 4.0) == 16.0 + 0.0 + 9.0 + 1.0


@pytest.mark.parametrize("text", ["pow(x, x=2.0)", "pow(x, z=2.0)", "sqrt(x=x, y=x)", "pow(y=2.0)"])
def test_names_that_do_not_fit_a_builtin_are_told(text):
    space = {"sim": sim, "__name__": __name__}
    exec_in(space, f"def f(x: float):\n    return sim.{text}\n")
    with pytest.raises(KernelError, match="takes"):
        call(sim.func(space["f"]), [float32], 4.0)


def test_the_length_of_a_vector_is_a_constant():
    def f(x: float):
        v = vec3(x, x, x)
        return float(v.length) + sim.zeros(shape=v.length, dtype=float)[0]

    assert call(sim.func(f), [float32], 1.0) == 3.0


@sim.struct
class Switches:
    on: bool


switches = Switches()
switches.on = 1


def test_a_captured_truth_may_be_a_number():
    def f(x: float):
        return x + float(switches.on)

    assert call(sim.func(f), [float32], 1.0) == 2.0


def test_a_function_has_a_key_of_its_own():
    @sim.func
    def here(x: float):
        return x

    assert here.key == "test_a_function_has_a_key_of_its_own__locals__here" and here.func(2.0) == 2.0
    assert (sim.sin.key, sim.length.key) == ("sin", "length")
