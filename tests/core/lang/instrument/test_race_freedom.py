"""What is known of races without running a launch: the proof is sound, and knows the common forms."""

from __future__ import annotations

import pytest
from tools.backends.kernels import kernel as made

from sim.core.lang.autodiff.to_be_recorded import to_be_recorded
from sim.core.lang.instrument.race_freedom import potential_races
from sim.core.lang.ir.core import emit
from sim.core.lang.ir.store_forwarding import assume_disjoint
from sim.core.lang.types import array_type, float64, int8, int16, int32, int64, uint32

VECTOR, PLANE = array_type(float64), array_type(float64, 2)


def found(func, active=(0,), aliases=()) -> set[str]:
    """Names of the parameters that are not known to be free of races."""
    groups = {p: k for k, p in enumerate(func.params) if hasattr(p.type, "dtype")}
    for together in aliases:
        groups.update((func.params[k], min(together)) for k in together)
    tbr = to_be_recorded(func, active, aliases)
    return {func.params[k].name for k in potential_races(func, groups, tbr)}


def squared_at(*places, dims=1, kind=VECTOR):
    """A kernel that squares p0 at these places, each a function of (builder, thread indices, n, p0); p1 is the integer
    n."""

    def fill(b, x, n):
        threads = [b.tid(axis) for axis in range(dims)] if dims > 1 else [b.tid(-1)]
        for place in places:
            at = place(b, *threads, n, x)
            at = at if isinstance(at, list) else [at]
            value = b.load(x, at, [0])[0]
            b.store(x, at, [0], [value * value])

    return made([kind, int32], fill, dims)


def cast(v, kind):
    return emit("cast", v, type=kind)


OWN = {
    "i": lambda b, i, n, x: i,
    "i + n": lambda b, i, n, x: i + n,
    "n - i": lambda b, i, n, x: n - i,
    "-i": lambda b, i, n, x: -i,
    "3 i - 2 n + 5": lambda b, i, n, x: i * 3 - n * 2 + 5,
    "i + i": lambda b, i, n, x: i + i,
    "2 (i + n)": lambda b, i, n, x: 2 * (i + n),
    "2 i - i": lambda b, i, n, x: i * 2 - i,
    "shape - 1 - i": lambda b, i, n, x: b.shape(x, 0) - 1 - i,
    "a wider integer": lambda b, i, n, x: cast(i, int64) * 2,
    "an unsigned integer of the same width": lambda b, i, n, x: cast(i, uint32),
}
NOT_OWN = {
    "3": lambda b, i, n, x: b.const(3, int32),
    "n": lambda b, i, n, x: n,
    "0 i": lambda b, i, n, x: i * 0,
    "i - i": lambda b, i, n, x: i - i,
    "i n": lambda b, i, n, x: i * n,
    "i i": lambda b, i, n, x: i * i,
    "i / 2": lambda b, i, n, x: i / 2,
    "i mod n": lambda b, i, n, x: emit("mod", i, n),
    "min(i, n)": lambda b, i, n, x: emit("min", i, n),
    "i xor 1": lambda b, i, n, x: emit("xor", i, 1),
    "a narrower integer": lambda b, i, n, x: cast(cast(i, int8), int32),
    "a narrower integer, times two": lambda b, i, n, x: cast(i, int16) * 2,
    "by way of a float": lambda b, i, n, x: cast(cast(i, float64) * 0.5, int32),
    "2^30 i, which is 0 for every fourth": lambda b, i, n, x: i * 2**30,
    "2^32 i, which is 0": lambda b, i, n, x: i * 65536 * 65536,
    "-2^32 i, which is 0": lambda b, i, n, x: i * 65536 * -65536,
}


@pytest.mark.parametrize("place", OWN.values(), ids=OWN)
def test_a_place_of_the_thread_alone_is_known(place):
    assert found(squared_at(place)) == set()


@pytest.mark.parametrize("place", NOT_OWN.values(), ids=NOT_OWN)
def test_a_place_that_threads_may_share_is_suspected(place):
    assert found(squared_at(place)) == {"p0"}


TOGETHER = {
    "i and i": ((lambda b, i, n, x: i, lambda b, i, n, x: i), True),
    "2 i and 2 i + 1": ((lambda b, i, n, x: 2 * i, lambda b, i, n, x: 2 * i + 1), True),
    "2 i and 2 i + 2": ((lambda b, i, n, x: 2 * i, lambda b, i, n, x: 2 * i + 2), False),
    "2 i + 1 and 2 i - 1": ((lambda b, i, n, x: 2 * i + 1, lambda b, i, n, x: 2 * i - 1), False),
    "-2 i and 1 - 2 i": ((lambda b, i, n, x: -(2 * i), lambda b, i, n, x: 1 - 2 * i), True),
    "i and i + 1": ((lambda b, i, n, x: i, lambda b, i, n, x: i + 1), False),
    "i and 2 i": ((lambda b, i, n, x: i, lambda b, i, n, x: 2 * i), False),
    "i and i + n": ((lambda b, i, n, x: i, lambda b, i, n, x: i + n), False),
    "i and i + shape": ((lambda b, i, n, x: i, lambda b, i, n, x: i + b.shape(x, 0)), False),
    "3 i + n and 3 i + n + 2": ((lambda b, i, n, x: 3 * i + n, lambda b, i, n, x: n + 3 * i + 2), True),
    "i and a constant": ((lambda b, i, n, x: i, lambda b, i, n, x: b.const(7, int32)), False),
    "i and what is not known": ((lambda b, i, n, x: i, lambda b, i, n, x: i / 2), False),
}


@pytest.mark.parametrize(("places", "known"), TOGETHER.values(), ids=TOGETHER)
def test_several_places(places, known):
    assert found(squared_at(*places)) == (set() if known else {"p0"})


PLANES = {
    "i, j": (lambda b, i, j, n, x: [i, j], True),
    "j, i": (lambda b, i, j, n, x: [j, i], True),
    "i + n, 2 j": (lambda b, i, j, n, x: [i + n, 2 * j], True),
    "i, i": (lambda b, i, j, n, x: [i, i], False),
    "i, 0": (lambda b, i, j, n, x: [i, b.const(0, int32)], False),
    "n, j": (lambda b, i, j, n, x: [n, j], False),
    "i + j, i + j": (lambda b, i, j, n, x: [i + j, i + j], False),
}


@pytest.mark.parametrize(("place", "known"), PLANES.values(), ids=PLANES)
def test_every_axis_of_a_launch_needs_an_index(place, known):
    assert found(squared_at(place, dims=2, kind=PLANE)) == (set() if known else {"p0"})


def in_loops(factor, *loops, sign=1):
    """x[factor i + sign (l_0 k_0 + ...)], with loops of these (length or None for n, factor)."""

    def fill(b, x, n):
        i = b.tid(-1)

        def nest(at, left):
            if not left:
                value = b.load(x, [at], [0])[0]
                b.store(x, [at], [0], [value * value])
                return []
            (length, step), *rest = left
            b.for_(n if length is None else b.const(length, int32), [], lambda k: nest(at + k * (sign * step), rest))
            return []

        nest(i * factor, loops)

    return made([VECTOR, int32], fill)


@pytest.mark.parametrize(("func", "known"), [
    (in_loops(3, (3, 1)), True), (in_loops(3, (4, 1)), False), (in_loops(3, (3, 1), sign=-1), True),
    (in_loops(3, (4, 1), sign=-1), False), (in_loops(-3, (3, 1)), True), (in_loops(-3, (4, 1)), False),
    (in_loops(3, (None, 1)), False), (in_loops(6, (2, 3), (3, 1)), True), (in_loops(5, (2, 3), (3, 1)), False),
    (in_loops(1, (1, 1)), True), (in_loops(1, (0, 1)), True), (in_loops(3, (2, 2)), True),
    (in_loops(2, (2, 2)), False),
])  # fmt: skip
def test_counters_of_loops_stay_within_the_block_of_a_thread(func, known):
    assert found(func) == (set() if known else {"p0"})


# ------------------------------------------------------------------------------------------------ which arrays matter
def two_arrays(fill):
    return made([VECTOR, array_type(int32)], fill)


def test_sums_alone_have_no_race_but_with_a_load_they_have():
    def sums(b, x, _):
        b.accum(x, [b.const(0, int32)], [0], [b.const(1.0, float64)])
        b.atomic("add", x, [b.const(0, int32)], [0], [b.const(1.0, float64)])

    def read(b, x, _):
        value = b.load(x, [b.const(0, int32)], [0])[0]
        b.accum(x, [b.const(0, int32)], [0], [value])

    def stored(b, x, _):
        b.accum(x, [b.const(0, int32)], [0], [b.const(1.0, float64)])
        b.store(x, [b.const(0, int32)], [0], [b.const(1.0, float64)])

    assert (
        found(two_arrays(sums)) == set() and found(two_arrays(read)) == {"p0"} and found(two_arrays(stored)) == {"p0"}
    )


def test_what_is_only_read_has_no_race():
    def fill(b, x, _):
        i = b.tid(-1)
        b.accum(x, [i], [0], [b.const(1.0, float64)])
        b.load(x, [i], [0])

    def only(b, x, at):
        b.store(x, [b.tid(-1)], [0], [cast(b.load(at, [b.const(0, int32)], [0])[0], float64)])

    assert found(two_arrays(fill)) == set() and found(two_arrays(only)) == set()


def test_arrays_without_gradient_matter_where_the_adjoint_reads_them():
    """An index that others overwrite matters; the same store without the load through it does not."""

    def fill(b, x, at):
        i = b.tid(-1)
        b.store(at, [b.const(0, int32)], [0], [i])
        place = b.load(at, [i + 1], [0])[0]
        b.accum(x, [place], [0], [b.const(1.0, float64)])

    def nobody_asks(b, x, at):
        i = b.tid(-1)
        b.load(at, [i + 1], [0])
        b.store(at, [b.const(0, int32)], [0], [i])
        b.store(x, [i], [0], [b.const(1.0, float64)])

    def before(b, x, at):
        i = b.tid(-1)
        place = b.load(at, [i], [0])[0]
        b.store(at, [b.const(0, int32)], [0], [i])
        b.accum(x, [place], [0], [b.const(1.0, float64)])

    assert found(two_arrays(nobody_asks)) == set()
    assert found(two_arrays(before)) == {"p1"}
    assert found(two_arrays(fill)) == set(), "what may see the thread's own store is recorded, as it was"


def test_two_names_of_one_memory_are_not_at_one_place():
    def fill(b, x, y):
        i = b.tid(-1)
        b.store(y, [i], [0], [b.load(x, [i], [0])[0] * 2.0])

    func = made([VECTOR, VECTOR], fill)
    assert found(func, (0, 1)) == set()
    assert found(func, (0, 1), [(0, 1)]) == {"p0", "p1"}
    assert found(func, (1,), [(0, 1)]) == {"p0", "p1"}, "a race of one name is one of the other"


def test_a_promise_is_believed():
    func = squared_at(NOT_OWN["i / 2"])
    assert found(func) == {"p0"}
    assert found(assume_disjoint(func, ["p0"])) == set()
