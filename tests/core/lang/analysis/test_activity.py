"""What a gradient needs: which values carry it, which the reverse sweep looks at, which loads a thread's own stores may
precede."""

from __future__ import annotations

import pytest
from tools.adjoints.kernels import calls_with_an_array
from tools.backends.kernels import kernel as made

import sim
from sim.core.lang.analysis.activity import (
    clobbered_loads,
    is_active,
    is_float,
    ops_in_loops,
    tbr_closure,
    tbr_values,
    varied_values,
    vjp_uses,
    written_from,
)
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, TapeType, Value, emit, walk
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.types import array_type, bool_, float32, float64, int32

f64 = sim.float64
VECTOR, PLACES = array_type(float64), array_type(int32)


def function(kinds, fill) -> Func:
    """A pure function of parameters of these types."""
    block = Block([Value(kind, f"p{k}") for k, kind in enumerate(kinds)])
    with Builder(block) as b:
        block.yields = list(fill(b, *block.params))
    return Func("f", block)


def names_of(values) -> set[str]:
    """Names of these values: of parameters, and of others that a test has named."""
    return {v.name for v in values if v.name}


def named(name: str, v: Value) -> Value:
    v.name = name
    return v


def test_only_floating_scalars_carry_a_gradient():
    assert [is_float(Value(kind)) for kind in (float64, float32, int32, bool_, VECTOR, PLACES)] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


# ------------------------------------------------------------------------------------------------ varied
def test_what_depends_on_an_active_parameter_varies():
    def fill(b, x, y, n):
        chosen = emit("select", emit("gt", x, 0.0), named("product", x * y), named("of y", y * 2.0))
        floor, above, whole = emit("floor", x), emit("gt", x, 0.0), emit("cast", x, type=int32)
        narrow, of_n = emit("cast", x, type=float32), emit("cast", n, type=float64)
        return [named("chosen", chosen), named("floor", floor), named("above", above), named("whole", whole),
                named("narrow", narrow), named("of n", of_n)]  # fmt: skip

    f = function([float64, float64, int32], fill)
    x, y, n = f.params
    assert names_of(varied_values(f, {x})) == {"p0", "product", "chosen", "narrow"}
    assert names_of(varied_values(f, {y})) == {"p1", "product", "of y", "chosen"}
    assert varied_values(f, {n}) == set() and varied_values(f, set()) == set()


def test_loads_and_atomics_of_active_arrays_vary():
    def fill(b, x, y, at):
        i = b.tid(-1)
        first, second = b.load(x, [i], [0])[0], b.load(y, [i], [0])[0]
        named("x", first), named("y", second), named("index", b.load(at, [i], [0])[0])
        named("old", b.atomic("add", x, [i], [0], [second])[0])
        named("old of y", b.atomic("max", y, [i], [0], [named("sum", first + second)])[0])

    f = made([VECTOR, VECTOR, PLACES], fill)
    x, y, at = f.params
    assert names_of(varied_values(f, {x})) == {"x", "old", "sum"}
    assert names_of(varied_values(f, {y})) == {"y", "old of y", "sum"}
    assert varied_values(f, {at}) == set()
    loads = [op for op in walk(f.body) if op.name == "load"]
    assert names_of(varied_values(f, {x, y}, {loads[1]})) == {"y", "sum"}, "only the loads that are named"


def test_what_goes_round_a_loop_varies_from_the_second_trip_on():
    def fill(b, x, n):
        def body(k, a, c, count):
            return [named("late", c * 2.0), named("early", c + x), count + 1]

        zero = b.const(0.0, float64)
        results = b.for_(n, [zero, zero, b.const(0, int32)], body)
        for name, r in zip(("a", "c", "count"), results, strict=True):
            named(name, r)
        return results

    f = function([float64, int32], fill)
    body = next(op for op in walk(f.body) if op.name == "for").regions[0]
    for name, p in zip(("k", "carried a", "carried c", "carried count"), body.params, strict=True):
        p.name = name
    assert names_of(varied_values(f, {f.params[0]})) == {"p0", "late", "early", "a", "c", "carried a", "carried c"}


def test_both_sides_of_a_branch_and_a_while_loop_pass_it_on():
    def fill(b, x, y, cond):
        (r,) = b.if_(cond, lambda: [x * 1.5], lambda: [y * 1.5])
        (s,) = b.if_(cond, lambda: [y * 2.5], lambda: [y * 3.5])
        (w,) = b.while_([y], lambda now: emit("lt", now, 1.0), lambda now: [now + x])
        return [named("r", r), named("s", s), named("w", w)]

    f = function([float64, float64, bool_], fill)
    assert names_of(varied_values(f, {f.params[0]})) == {"p0", "r", "w"}
    assert names_of(varied_values(f, {f.params[1]})) == {"p1", "r", "s", "w"}


def test_a_tape_of_checkpoints_passes_it_on():
    def fill(b, x, y):
        tape = named("tape", b.leaf_op("tape", (), TapeType(float64, 4), slots=4, scalar=float64))
        other = named("other", b.leaf_op("tape", (), TapeType(float64, 2), slots=2, scalar=float64))
        zero = b.const(0, int32)
        early = named("early", b.leaf_op("tape_load", (tape, zero), float64))
        b.append(Op("tape_store", [tape, zero, x], []))
        b.append(Op("tape_store", [other, zero, y], []))
        late = named("late", b.leaf_op("tape_load", (tape, b.const(1, int32)), float64))
        return [early, late, named("of other", b.leaf_op("tape_load", (other, zero), float64))]

    f = function([float64, float64], fill)
    assert names_of(varied_values(f, {f.params[0]})) == {"p0", "tape", "early", "late"}


def source_of(kernel) -> Func:
    """With its calls of functions that have a gradient function."""
    return kernel.specialise(tuple(p.type for p in kernel.parameters)).source


def test_a_call_varies_with_its_arguments_and_with_arrays_that_it_is_given():
    f = source_of(calls_with_an_array)
    call = next(op for op in walk(f.body) if op.name == "call")
    x, table, y = f.params
    for active, varies in (({x}, True), ({table}, True), ({y}, False)):
        varied = varied_values(f, active)
        assert (call.results[0] in varied) == varies
        assert ({*call.operands, *call.results} <= tbr_closure(f, varied, active)) == varies
    load = next(op for op in walk(f.body) if op.name == "load")
    assert load.operands[0] is x and load.results[0] in tbr_values(f, varied_values(f, {x}), {x}), (
        "the gradient function is given the arguments"
    )


# ------------------------------------------------------------------------------------------------ what a derivative
# looks at
USES = {
    # for each operand the values that its cotangent takes: operands in order, then the result
    "add": [(), ()], "sub": [(), ()], "neg": [()], "mul": [(1,), (0,)], "div": [(1,), (1, 2)], "mod": [(), (0, 1)],
    "abs": [(0,)],
    "min": [(0, 1), (0, 1)], "sqrt": [(1,)], "cbrt": [(1,)], "exp": [(1,)], "log": [(0,)], "sin": [(0,)],
    "tanh": [(1,)], "atan2": [(0, 1), (0, 1)],
    "pow": [(0, 1), (0, 2)], "copysign": [(0, 1), ()], "select": [(), (0,), (0,)],
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_what_a_cotangent_looks_at(name):
    assert vjp_uses(name, float64) == tuple(frozenset(uses) for uses in USES[name])


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.vjp is ZERO])
def test_a_derivative_of_zero_looks_at_nothing(name):
    assert vjp_uses(name, float64) == (frozenset(),) * OPS[name].arity


def wanted_of(fill, kinds, active=None):
    f = function(kinds, fill)
    sources = set(f.params) if active is None else {f.params[k] for k in active}
    varied = varied_values(f, sources)
    return names_of(tbr_values(f, varied, sources)), names_of(tbr_closure(f, varied, sources))


def test_only_what_varying_operands_ask_for_is_wanted():
    def fill(b, x, y):
        return [
            named("product", x * y),
            named("root", emit("sqrt", x)),
            named("floor", emit("floor", named("of floor", x * 3.0))),
        ]

    assert wanted_of(fill, [float64, float64], [0]) == ({"p1", "root"}, {"p1", "root", "p0"})
    assert wanted_of(fill, [float64, float64], [1]) == ({"p0"}, {"p0"})
    assert wanted_of(fill, [float64, float64], []) == (set(), set())


def test_needed_is_closed_over_what_recomputing_takes():
    def fill(b, x, n):
        half = named("half", x * 0.5)
        count = named("count", n + 1)
        return [
            named("root", emit("sqrt", named("sum", half + named("real", emit("cast", count, type=float64))))),
            named("other", x + 1.0),
        ]

    wanted, needed = wanted_of(fill, [float64, int32], [0])
    assert wanted == {"root"} and needed == {"root", "sum", "half", "real", "count", "p0", "p1"}


def test_what_decides_about_a_region_is_wanted_where_a_gradient_passes():
    def fill(b, x, n, c, d):
        (linear,) = b.for_(n, [x], lambda k, a: [a * 2.0])
        (branch,) = b.if_(c, lambda: [x * 3.0], lambda: [x])
        b.if_(d, lambda: [n + 1], lambda: [n])
        return [linear, branch]

    assert wanted_of(fill, [float64, int32, bool_, bool_], [0])[0] == {"p1", "p2"}


def test_the_condition_of_a_while_loop_is_wanted():
    def fill(b, x, y):
        return b.while_(
            [x, y], lambda a, limit: named("go on", emit("lt", limit, 1.0)), lambda a, limit: [a * 2.0, limit + 1.0]
        )

    wanted, needed = wanted_of(fill, [float64, float64], [0])
    assert wanted == {"go on"} and needed == {"go on", "p1"}


def test_what_decides_about_a_value_that_is_needed_is_needed():
    def fill(b, x, c, n):
        (factor,) = b.if_(c, lambda: [b.const(2.0, float64)], lambda: [b.const(3.0, float64)])
        (power,) = b.for_(n, [b.const(1.0, float64)], lambda k, a: [a * 1.5])
        return [x * named("factor", factor), x * named("power", power)]

    wanted, needed = wanted_of(fill, [float64, bool_, int32], [0])
    assert wanted == {"factor", "power"} and needed == {"factor", "power", "p1", "p2"}


def test_carried_values_are_needed_from_their_start_and_their_end():
    def fill(b, x, y, n):
        def body(k, a, s):
            return [named("next", a + y), named("sine", emit("sin", a)) + s]

        return b.for_(n, [named("start", x * 0.5), b.const(0.0, float64)], body)

    wanted, needed = wanted_of(fill, [float64, float64, int32], [0, 1])
    assert wanted == {"p2"} and needed == {"p2", "next", "start", "p0", "p1"}


def test_indices_of_memory_with_a_gradient_are_wanted():
    def fill(b, x, y, at):
        i = named("i", b.tid(-1))
        place = named("place", b.load(at, [i], [0])[0])
        value = named("value", b.load(x, [place], [0])[0])
        b.store(y, [named("other place", place + 1)], [0], [value])

    f = made([VECTOR, VECTOR, PLACES], fill)
    x, y, _ = f.params

    def wanted(active):
        return names_of(tbr_values(f, varied_values(f, active), active))

    assert (
        wanted({x, y}) == {"place", "other place"}
        and wanted({x}) == {"place"}
        and wanted({y}) == {"other place"}
        and wanted(set()) == set()
    )
    assert names_of(tbr_closure(f, set(), {y})) == {"i", "place", "other place", "p2"}


def test_run_time_leaves_are_wanted():
    from_vectors = array_type(sim.vec3d)

    def fill(b, x, at):
        i = b.tid(-1)
        leaf = named("leaf", b.load(at, [i], [0])[0])
        b.accum(x, [b.const(0, int32)], [0, 1, 2], [b.const(1.0, float64)], leaf)

    f = made([from_vectors, PLACES], fill)
    assert names_of(tbr_values(f, set(), {f.params[0]})) == {"leaf"} and tbr_values(f, set(), set()) == set()


@pytest.mark.parametrize(("how", "kept"), [("min", True), ("max", True), ("add", False), ("exch", False)])
def test_values_of_atomic_extremes_are_wanted(how, kept):
    def fill(b, x, y):
        value = named("value", b.load(y, [b.tid(-1)], [0])[0])
        b.atomic(how, x, [named("zero", b.const(0, int32))], [0], [value])

    f = made([VECTOR, VECTOR], fill)
    assert names_of(tbr_values(f, varied_values(f, set(f.params)), set(f.params))) == (
        {"zero", "value"} if kept else {"zero"}
    )


def test_operands_of_replayed_stores_are_wanted():
    def stores(b, x, y):
        i = named("i", b.tid(-1))
        b.store(x, [i], [0], [named("value", b.load(y, [i], [0])[0])])

    f = made([VECTOR, VECTOR], stores)
    assert names_of(tbr_values(f, set(), set(), [f.params[0]])) == {"i", "value"}
    assert tbr_values(f, set(), set(), [f.params[1]]) == set(), "a load of a replayed array is no store"


def test_what_decides_about_replayed_stores_is_wanted():
    def fill(b, x, n, c):
        def store():
            b.store(x, [b.const(0, int32)], [0], [b.const(1.0, float64)])

        b.if_(c, store, lambda: None)
        b.for_(n, [], lambda k: [b.load(x, [k], [0])][:0])

    f = made([VECTOR, int32, bool_], fill)
    assert f.params[2] in tbr_values(f, set(), set(), [f.params[0]]) and f.params[1] not in tbr_values(
        f, set(), set(), [f.params[0]]
    )


def test_a_region_matters_if_a_gradient_passes_through_it():
    def fill(b, x, y, c):
        b.if_(c, lambda: b.store(y, [b.const(0, int32)], [0], [b.const(0.0, float64)]) and None, lambda: None)
        b.if_(
            c, lambda: b.accum(x, [b.const(0, int32)], [0], b.load(y, [b.const(1, int32)], [0])) and None, lambda: None
        )
        b.if_(c, lambda: [b.const(1.0, float64)], lambda: [b.const(2.0, float64)])
        b.for_(b.const(3, int32), [b.const(1.0, float64)], lambda k, a: [a])

    f = made([VECTOR, VECTOR, bool_], fill)
    x, y, _ = f.params
    ops = [op for op in f.body.ops if op.regions]
    assert [is_active(op, set(), {y}) for op in ops] == [True, False, False, False]
    assert [is_active(op, set(), {x}) for op in ops] == [False, True, False, False]
    load = next(op for op in walk(f.body) if op.name == "load")
    assert [is_active(op, {load.results[0]}, set()) for op in ops] == [
        False,
        True,
        False,
        False,
    ], "a value inside that varies"
    assert [is_active(op, {ops[3].results[0]}, set()) for op in ops] == [False, False, False, True]


# ------------------------------------------------------------------------------------------------ memory
def clobbered(fill, types=(VECTOR, VECTOR, int32, bool_), together=()):
    """Names of the loads (and atomics) that a write of the same thread may precede."""
    f = made(types, fill)
    groups = {p: min(k, 0 if k in together else k) for k, p in enumerate(f.params)}
    found = clobbered_loads(f, groups)
    return {op.results[0].name for op in walk(f.body) if op in found}


def load(b, x, name):
    return named(name, b.load(x, [b.tid(-1)], [0])[0])


def store(b, x):
    b.store(x, [b.tid(-1)], [0], [b.const(1.0, float64)])


def test_a_load_is_dirty_after_a_write_to_its_memory():
    def fill(b, x, y, n, c):
        load(b, x, "before")
        store(b, x)
        load(b, x, "after")
        load(b, y, "other array")
        named("atomic", b.atomic("add", x, [b.const(0, int32)], [0], [b.const(1.0, float64)])[0])
        named("first of y", b.atomic("add", y, [b.const(0, int32)], [0], [b.const(1.0, float64)])[0])
        load(b, y, "after atomic")

    assert clobbered(fill) == {"after", "atomic", "after atomic"}
    assert clobbered(fill, together=(0, 1)) == {"after", "other array", "atomic", "first of y", "after atomic"}


def test_branches_do_not_see_each_other_but_what_follows_sees_both():
    def fill(b, x, y, n, c):
        def then():
            store(b, x)
            load(b, x, "in then")

        def orelse():
            load(b, x, "in else")
            store(b, y)

        b.if_(c, then, orelse)
        load(b, x, "x behind")
        load(b, y, "y behind")

    assert clobbered(fill) == {"in then", "x behind", "y behind"}


def test_a_loop_body_precedes_itself():
    def fill(b, x, y, n, c):
        load(b, x, "before")

        def body(k):
            load(b, x, "in body")
            load(b, y, "of y")
            b.if_(c, lambda: store(b, x), lambda: None)
            return []

        b.for_(n, [], body)
        load(b, x, "behind")

    assert clobbered(fill) == {"in body", "behind"}


def test_the_condition_of_a_while_loop_is_preceded_by_its_body():
    def fill(b, x, y, n, c):
        b.while_([n], lambda k: emit("lt", load(b, x, "asked"), 1.0), lambda k: [store(b, x), k + 1][1:])

    assert clobbered(fill) == {"asked"}


def test_writes_of_values_are_found_with_their_arrays():
    def fill(b, x, y, n, c):
        i = b.tid(-1)
        value = named("value", b.load(x, [i], [0])[0])
        b.store(y, [i], [0], [value])
        b.accum(x, [i], [0], [b.const(1.0, float64)])
        b.if_(c, lambda: b.accum(x, [n], [0], [value]) and None, lambda: None)
        b.store(y, [n], [0], [b.const(1.0, float64)])

    f = made((VECTOR, VECTOR, int32, bool_), fill)
    x, y, n, _ = f.params
    value = next(op for op in walk(f.body) if op.name == "load").results[0]
    found = written_from(f, {value, n})
    assert [(array, op.name) for array, op in found] == [
        (y, "store"),
        (x, "accum"),
    ], "n is an index there, not what is written"
    assert written_from(f, {n}) == []


def test_what_is_in_a_loop_at_any_depth_is_known():
    def fill(b, x, y, n, c):
        load(b, x, "out")
        b.if_(c, lambda: load(b, x, "in branch") and None, lambda: None)

        def body(k):
            b.if_(c, lambda: load(b, x, "in loop") and None, lambda: None)
            return []

        b.for_(n, [], body)
        b.while_([n], lambda k: emit("lt", load(b, x, "in condition"), 1.0), lambda k: [k + 1])

    f = made((VECTOR, VECTOR, int32, bool_), fill)
    inside = ops_in_loops(f)
    assert {op.results[0].name for op in walk(f.body) if op.name == "load" and op in inside} == {
        "in loop",
        "in condition",
    }
    assert not any(op in inside for op in f.body.ops)
