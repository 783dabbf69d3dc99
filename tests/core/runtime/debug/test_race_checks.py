"""The two checks for races, run thread by thread by the interpreter: what they find, and what they say of it."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import kernel as made
from tools.backends.kernels import launch

import sim
from sim.core.backends.interp import InterpBackend
from sim.core.lang.instrument.races import RaceCheck, address_check, exact_check
from sim.core.lang.instrument.shadow_memory import ADD, KINDS, READ, REPORT, WRITE
from sim.core.lang.ir.core import emit
from sim.core.lang.types import array_type, float64, int32, numpy_dtype

f64, VECTOR = sim.float64, array_type(float64)


def marked(check: RaceCheck, dims, *arrays):
    """Runs a check one thread after another: None, or (access, its thread, the thread that it met, the kind of what
    that did)."""
    layout, cells = [], 0
    for k in check.watched:
        a = arrays[k]
        layout += [cells, *(stride // check.unit for stride in a.strides[: check.func.params[k].type.ndim])]
        cells += a.nbytes // check.unit
    report = np.zeros(REPORT, np.int32)
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
    error, _ = launch(
        InterpBackend(),
        check.func,
        dims,
        [*args, np.array(layout, np.int64), np.zeros((KINDS, cells), np.int32), report],
    )
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
    assert marked(addresses, [1], numbers(2), y) is None and marked(addresses, [2], numbers(2), y) == (
        "store",
        1,
        0,
        WRITE,
    )
    assert not any(op.name == "while" for op in addresses.func.body.ops) and any(
        op.name == "while" for op in exact.func.body.ops
    )


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


@sim.struct
class Even:
    value: f64
    pair: sim.vec2d


def writes_to_fields_of(kind) -> sim.Kernel:
    @sim.kernel
    def fields(p: sim.array[kind], x: sim.array[f64], how: int):
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

    return fields


fields, even_fields = writes_to_fields_of(Mixed), writes_to_fields_of(Even)


@pytest.mark.parametrize(
    ("how", "threads", "race"),
    [(0, 2, None), (1, 2, 1), (2, 2, None), (3, 2, 1), (3, 1, None), (4, 2, 1), (5, 3, None)],
)
def test_fields_and_components_are_apart(how, threads, race):
    p = np.zeros(3, numpy_dtype(traced(fields).params[0].type.dtype))
    for check in both(fields):
        assert check.unit == 1
        met = marked(check, [threads], p, numbers(3), how)
        assert met == (None if race is None else ("store", race, 0, WRITE))


@pytest.mark.parametrize(("how", "race"), [(0, None), (4, ("store", 1, 0, WRITE))])
def test_neighbouring_leaves_of_one_size(how, race):
    p = np.zeros(1, numpy_dtype(traced(even_fields).params[0].type.dtype))
    for check in both(even_fields):
        assert check.unit == 8 and marked(check, [2], p, numbers(2), how) == race


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


@pytest.mark.parametrize(
    ("how", "race"), [(0, None), (1, ("load", 2, 0, WRITE)), (2, None), (3, ("store", 2, 0, WRITE))]
)
def test_whole_elements_of_several_arrays(how, race):
    for check in both(vectors, (1, 0), (0, 1)):
        assert (
            check.unit == 8
            and check.watched == (0, 1)
            and marked(check, [3], np.ones((3, 3)), np.ones((3, 3, 2)), how) == race
        )


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
    """With a gradient: all but reads, sums and stores of the one constant among themselves; without: only reads and
    others."""
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
