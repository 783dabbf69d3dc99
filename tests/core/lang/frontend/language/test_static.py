"""What a kernel knows when it is compiled: `static`, members of enums, captured values."""

from __future__ import annotations

import enum

from tools.programs.interpreted import evaluated

import sim
from sim.core.lang.types import float32, int32, vector

vec2, vec3, vec4 = (vector(n, float32) for n in (2, 3, 4))


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

    assert evaluated(members, [int32], 4) == [8, 4, 3, 4, 1, 5.0]


# ---- static
def test_static_sees_how_long_a_value_of_the_run_is():
    def lengths(v: sim.vec3):
        pair = (v[0], v[1])
        return sim.static(len(v) + 1), sim.static(len(pair))

    assert evaluated(lengths, [vec3], 1.0, 2.0, 3.0) == [4, 2]


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


@sim.struct
class Switches:
    on: bool


switches = Switches()
switches.on = 1


def test_a_captured_truth_may_be_a_number():
    def f(x: float):
        return x + float(switches.on)

    assert evaluated(sim.func(f), [float32], 1.0) == 2.0
