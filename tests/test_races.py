"""What is known of races without running a launch, and what the two checks find: the proof is sound, and knows the common forms."""

from __future__ import annotations

import numpy as np
import pytest
from backend_tools import kernel as made
from backend_tools import launch

import sim
from sim.core.backends.interp import InterpBackend
from sim.core.lang.ir import emit
from sim.core.lang.kernel_adjoint import kernel_needs
from sim.core.lang.passes import promise_exclusive
from sim.core.lang.races import ADD, KINDS, READ, REPORT, WRITE, RaceCheck, address_check, exact_check, suspects
from sim.core.lang.types import array_type, float64, int8, int16, int32, int64, numpy_dtype, uint32

f64 = sim.float64
VECTOR, PLANE = array_type(float64), array_type(float64, 2)


def found(func, active=(0,), aliases=()) -> set[str]:
    """Names of the parameters that are not known to be free of races."""
    groups = {p: k for k, p in enumerate(func.params) if hasattr(p.type, "dtype")}
    for together in aliases:
        groups.update((func.params[k], min(together)) for k in together)
    needs = kernel_needs(func, active, aliases)
    return {func.params[k].name for k in suspects(func, groups, needs)}


def squared_at(*places, dims=1, kind=VECTOR):
    """A kernel that squares p0 at these places, each a function of (builder, thread indices, n, p0); p1 is the integer n."""

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
    (in_loops(3, (3, 1)), True), (in_loops(3, (4, 1)), False), (in_loops(3, (3, 1), sign=-1), True), (in_loops(3, (4, 1), sign=-1), False),
    (in_loops(-3, (3, 1)), True), (in_loops(-3, (4, 1)), False), (in_loops(3, (None, 1)), False), (in_loops(6, (2, 3), (3, 1)), True),
    (in_loops(5, (2, 3), (3, 1)), False), (in_loops(1, (1, 1)), True), (in_loops(1, (0, 1)), True), (in_loops(3, (2, 2)), True), (in_loops(2, (2, 2)), False),
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

    assert found(two_arrays(sums)) == set() and found(two_arrays(read)) == {"p0"} and found(two_arrays(stored)) == {"p0"}


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
    assert found(promise_exclusive(func, ["p0"])) == set()


# ------------------------------------------------------------------------------------------------ the checks
def marked(check: RaceCheck, dims, *arrays):
    """Runs a check one thread after another: None, or (access, its thread, the thread that it met, the kind of what that did)."""
    layout, cells = [], 0
    for k in check.watched:
        a = arrays[k]
        layout += [cells, *(stride // check.unit for stride in a.strides[: check.func.params[k].type.ndim])]
        cells += a.nbytes // check.unit
    report = np.zeros(REPORT, np.int32)
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
    error, _ = launch(InterpBackend(), check.func, dims, [*args, np.array(layout, np.int64), np.zeros((KINDS, cells), np.int32), report])
    assert not error[0]
    if not report[0]:
        return None
    return check.sites[report[0] - 1].name, *map(int, report[1:])


def traced(kernel):
    return kernel.specialise(tuple(p.type for p in kernel.parameters)).func


@sim.kernel
def by_value(x: sim.array[f64], gate: sim.array[f64]):
    i = sim.tid()
    if gate[i] > f64(0.0):
        x[i] = gate[i] * f64(2.0)
    else:
        x[0] = gate[i] * f64(3.0)


@sim.kernel
def by_flag(x: sim.array[f64], flag: int):
    i = sim.tid()
    at = i
    if flag > 0:
        at = i // 2
    if flag != 5:
        x[at] = x[at] * f64(2.0)


@sim.kernel
def carried(x: sim.array[f64], n: int, step: int):
    i = sim.tid()
    at, total = i, f64(0.0)
    for _ in range(n):
        total += x[at]
        at = (at + step) % 8
    x[at] = total


@sim.kernel
def counted(x: sim.array[f64], n: int):
    i = sim.tid()
    at, total = i, f64(0.0)
    while at < n:
        total += x[at]
        at += 4
    x[i] = total


@sim.kernel
def looked_up(x: sim.array[f64], table: sim.array[int]):
    i = sim.tid()
    x[table[i]] = x[table[i]] * f64(2.0)


def numbers(n):
    return np.linspace(0.5, 1.5, n)


def both(kernel, watched=(0,), active=(0,)):
    func = traced(kernel)
    return address_check(func, watched, active), exact_check(func, watched, active)


def test_addresses_take_both_sides_of_a_branch_on_values_and_the_exact_check_the_one_that_is_taken():
    addresses, exact = both(by_value)
    assert not addresses.exact and exact.exact
    up = [numbers(3), numbers(3)]
    assert marked(exact, [3], *up) is None and marked(addresses, [3], *up) is not None
    assert marked(exact, [3], numbers(3), -numbers(3)) == ("store", 1, 0, WRITE)
    assert addresses.used == set() and exact.used == {0, 1}


def test_both_follow_a_branch_on_an_argument():
    for check in both(by_flag):
        assert marked(check, [4], numbers(4), 0) is None
        assert marked(check, [4], numbers(4), 5) is None
        assert marked(check, [4], numbers(4), 1) == ("load", 1, 0, WRITE)
        assert 1 in check.used


def test_both_follow_places_that_a_loop_carries():
    """Thread i reads from i on and stores after n steps: it meets the next one that starts or has stored there."""
    for check in both(carried):
        assert marked(check, [3], numbers(8), 0, 1) is None
        assert marked(check, [3], numbers(8), 1, 4) is None
        assert marked(check, [3], numbers(8), 2, 4) is None
        assert marked(check, [3], numbers(8), 1, 1) == ("load", 1, 0, WRITE)
        assert marked(check, [5], numbers(8), 1, 4) == ("load", 4, 0, WRITE)
    for check in both(counted):
        assert marked(check, [4], numbers(8), 8) is None
        assert marked(check, [5], numbers(8), 8) == ("store", 4, -2, READ)


def test_both_follow_a_table():
    for check in both(looked_up):
        assert marked(check, [3], numbers(3), np.array([2, 0, 1], np.int32)) is None
        assert marked(check, [3], numbers(3), np.array([2, 0, 2], np.int32)) == ("load", 2, 0, WRITE)
        assert check.used >= {1}


@sim.kernel
def rounded(x: sim.array[f64], place: sim.array[f64]):
    x[int(place[sim.tid()])] = f64(1.5) * place[sim.tid()]


@sim.kernel
def searched(x: sim.array[f64], place: sim.array[f64]):
    i = sim.tid()
    k = 0
    while place[k] < f64(1.0):
        k += 1
        x[k] = place[k] * place[i]


@sim.kernel
def numbered(x: sim.array[f64], counter: sim.array[int]):
    at = sim.atomic_add(counter, 0, 1)
    x[at] = x[at] * f64(2.0)


@sim.kernel
def moved(x: sim.array[f64], table: sim.array[int]):
    i = sim.tid()
    table[i] = table[i] + 1
    x[table[i]] = x[table[i]] * f64(2.0)


@sim.kernel
def component_by_value(x: sim.array[sim.vec3d], place: sim.array[f64]):
    x[0][int(place[sim.tid()])] = place[sim.tid()] * f64(1.5)


@pytest.mark.parametrize("kernel", [rounded, searched, numbered, moved, component_by_value], ids=lambda k: k.name)
def test_there_are_no_addresses_where_they_depend_on_values(kernel):
    assert address_check(traced(kernel), (0,), (0,)) is None


@sim.kernel
def sums_values_first(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    total, k = f64(0.0), 0
    while y[k] < f64(1.0):
        total += y[k]
        k += 1
    x[i // 2] = total


def test_a_loop_on_values_that_touches_nothing_watched_is_left_out():
    addresses, exact = both(sums_values_first)
    y = np.array([0.25, 0.5, 2.0])
    assert marked(addresses, [1], numbers(2), y) is None and marked(addresses, [2], numbers(2), y) == ("store", 1, 0, WRITE)
    assert not any(op.name == "while" for op in addresses.func.body.ops) and any(op.name == "while" for op in exact.func.body.ops)


@sim.kernel
def tabulated(x: sim.array[f64], table: sim.array[int]):
    i = sim.tid()
    x[i // 2] = x[i // 2] * f64(table[i])


def test_the_verdict_does_not_depend_on_a_table_that_only_gives_values():
    addresses, exact = both(tabulated)
    assert addresses.used == set() and exact.used == {0, 1}


# ------------------------------------------------------------------------------------------------ parts of elements
@sim.struct
class Mixed:
    flag: sim.int8
    value: f64
    pair: sim.vec2d


@sim.kernel
def fields(p: sim.array[Mixed], x: sim.array[f64], how: int):
    i = sim.tid()
    if how == 0:
        if i == 0:
            p[0].value = x[i] * x[i]
        else:
            p[0].pair = sim.vec2d(x[i], x[i])
    elif how == 1:
        p[0].pair = sim.vec2d(x[i], x[i])
    elif how == 2:
        p[0].pair[i] = x[i]
    elif how == 3:
        p[0].pair[i // 2] = x[i]
    elif how == 4:
        if i == 0:
            p[0].pair[1] = x[i]
        else:
            p[0].pair = sim.vec2d(x[i], x[i])
    elif how == 5:
        p[i] = p[i]


@pytest.mark.parametrize(("how", "threads", "race"), [(0, 2, None), (1, 2, 1), (2, 2, None), (3, 2, 1), (3, 1, None), (4, 2, 1), (5, 3, None)])
def test_fields_and_components_are_apart(how, threads, race):
    p = np.zeros(3, numpy_dtype(traced(fields).params[0].type.dtype))
    for check in both(fields):
        assert check.unit == 1
        met = marked(check, [threads], p, numbers(3), how)
        assert met == (None if race is None else ("store", race, 0, WRITE))


@sim.struct
class Even:
    value: f64
    pair: sim.vec2d


@sim.kernel
def even_fields(p: sim.array[Even], x: sim.array[f64], how: int):
    i = sim.tid()
    if how == 0:
        if i == 0:
            p[0].value = x[i] * x[i]
        else:
            p[0].pair = sim.vec2d(x[i], x[i])
    elif i == 0:
        p[0].pair[1] = x[i]
    else:
        p[0].pair = sim.vec2d(x[i], x[i])


@pytest.mark.parametrize(("how", "race"), [(0, None), (1, ("store", 1, 0, WRITE))])
def test_neighbouring_leaves_of_one_size(how, race):
    for check in both(even_fields):
        assert check.unit == 8 and marked(check, [2], np.zeros(1, numpy_dtype(traced(even_fields).params[0].type.dtype)), numbers(2), how) == race


@sim.kernel
def vectors(x: sim.array[sim.vec3d], m: sim.array2d[sim.vec2d], how: int):
    i = sim.tid()
    if how == 0:
        x[i] = x[i] * f64(2.0)
    elif how == 1:
        x[i % 2] = x[i % 2] * f64(2.0)
    elif how == 2:
        m[i, 1] = m[i, 1] * f64(2.0)
        x[i][2] = m[i, 0][1]
    elif how == 3:
        m[1, i % 2] = m[0, i] * f64(2.0)


@pytest.mark.parametrize(("how", "race"), [(0, None), (1, ("load", 2, 0, WRITE)), (2, None), (3, ("store", 2, 0, WRITE))])
def test_whole_elements_of_several_arrays(how, race):
    for check in both(vectors, (1, 0), (0, 1)):
        assert check.unit == 8 and check.watched == (0, 1) and marked(check, [3], np.ones((3, 3)), np.ones((3, 3, 2)), how) == race


# ------------------------------------------------------------------------------------------------ kinds of accesses
@sim.kernel
def kinds(x: sim.array[f64], y: sim.array[f64], first: int, second: int):
    i = sim.tid()
    how = first
    if i == 1:
        how = second
    if how == 0:
        y[i] = x[0] * x[0]
    elif how == 1:
        x[0] = y[i]
    elif how == 2:
        x[0] += y[i]
    elif how == 3:
        x[0] = 0.5
    elif how == 4:
        sim.atomic_add(x, 0, y[i])


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("second", range(5))
def test_which_kinds_of_accesses_do_not_go_together(first, second, graded):
    """With a gradient: all but reads, sums and stores of the one constant among themselves; without: only reads and others."""
    plain = [0, 1, 2, 3, 2]  # atomic_add is a sum
    a, b = plain[first], plain[second]
    harmless = a == b != 1 if graded else (a == 0) == (b == 0)
    for check in both(kinds, (0,), (0,) if graded else (1,)):
        met = marked(check, [2], numbers(2), numbers(2), first, second)
        assert (met is None) == harmless
        if met is not None:
            assert met[1:3] == (1, 0) and met[3] == {0: READ, 1: WRITE, 2: ADD, 3: 3}[a]


@sim.kernel
def two_constants(x: sim.array[f64], y: sim.array[f64], other: int):
    if other > 0:
        x[1] = 2.0
    x[0] = 1.0
    y[0] = y[1]


def test_two_constants_are_values():
    for check in both(two_constants):
        assert marked(check, [2], numbers(2), numbers(2), 0) == ("store", 1, 0, WRITE)


def test_several_threads_that_were_there_are_told_as_such():
    """Reads of 0 and 1 leave no single thread; a store of 2 meets them."""

    def fill(b, x, y):
        i = b.tid(-1)
        last = emit("eq", i, 2)

        def store():
            b.store(x, [b.const(0, int32)], [0], [b.load(y, [i], [0])[0]])

        def load():
            b.store(y, [i], [0], b.load(x, [b.const(0, int32)], [0]))

        b.if_(last, store, load)

    check = exact_check(made([VECTOR, VECTOR], fill), (0,), (0, 1))
    assert marked(check, [2], numbers(3), numbers(3)) is None
    name, thread, other, kind = marked(check, [3], numbers(3), numbers(3))
    assert (name, thread, kind) == ("store", 2, READ) and other < 0


def test_the_first_race_is_the_one_that_is_told():
    for check in both(by_flag):
        assert marked(check, [8], numbers(8), 1) == ("load", 1, 0, WRITE)


@sim.kernel
def speaks(x: sim.array[f64]):
    print(x[sim.tid()])
    assert x[sim.tid()] > f64(0.0)
    x[sim.tid()] = x[sim.tid()] * f64(2.0)


def test_checks_neither_print_nor_assert(capsys):
    for check in both(speaks):
        assert marked(check, [2], -numbers(2)) is None
    assert capsys.readouterr().out == ""
