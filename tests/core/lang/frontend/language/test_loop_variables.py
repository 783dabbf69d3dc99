"""The variable of a loop, and what the loop assigns, behind it; comparisons and ranges of numbers of other types."""

from __future__ import annotations

from typing import Any

import pytest
from tools.programs.interpreted import evaluated

import sim
from sim.core.lang.errors import KernelError
from sim.core.lang.types import float32, float64, int32, int64, uint8, uint32, vec2i


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
        assert evaluated(after, [int32], n) == [2, 199, min(n, 99), 4]


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
        assert evaluated(after, [int32], n) == [
            39 * 39,
            39,
            39 * 39,
            next((j * 3 for j in range(90) if j * 3 > n), 267),
        ]


def test_a_while_loop_whose_condition_holds_at_first_has_run():
    def after(n: int):
        size = float32(0.0)
        trips = 0
        while size < 2.5:
            trips += 1
            found = float(trips * n)
            size = found * found
        return found

    assert [evaluated(after, [int32], n) for n in (1, 2, 3)] == [2.0, 2.0, 3.0]

    def may_not_run(n: int):
        k = n
        while k < 3:
            k += 1
            last = k
        return last

    with pytest.raises(KernelError, match="`last` may have no value"):
        evaluated(may_not_run, [int32], 1)


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
        evaluated(space["f"], [int32], 3)


@pytest.mark.parametrize("bounds", ["range(n)", "range(40, 3)", "range(3, n)"])
def test_the_variable_of_a_loop_that_may_not_have_run(bounds, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"def f(n: int):\n    for i in {bounds}:\n        pass\n    return i\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102
    with pytest.raises(KernelError, match="`i`"):
        evaluated(space["f"], [int32], 3)


def test_a_variable_that_the_loop_assigns_itself_has_no_known_value():
    def changed(n: int):
        for i in range(100):
            i = i + n  # noqa: PLW2901
        return i

    with pytest.raises(KernelError, match="`i` may have no value"):
        evaluated(changed, [int32], 3)


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
    assert evaluated(compare, [left, right], a, b) == [x < y, x >= y, x == y]


def test_a_signed_and_an_unsigned_number_of_one_width_are_not_compared():
    def compare(x: int32, y: uint32):
        return x < y

    with pytest.raises(KernelError, match="< of int32 and uint32: there is no implicit conversion"):
        evaluated(compare, [int32, uint32], -1, 1)


def test_a_range_of_a_bool():
    def f():
        n = 0
        for i in range(sim.static(True)):
            n += i + 1
        return n

    assert evaluated(sim.func(f)) == 1
