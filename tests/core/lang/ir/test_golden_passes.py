"""What every pass makes of a small program, as text: a change of a pass shows as a diff here."""

from __future__ import annotations

import textwrap

import sim
from sim.core.lang.analysis.activity import varied_values
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, Value
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.printer import to_text
from sim.core.lang.ir.sinking import sink
from sim.core.lang.ir.store_forwarding import alias_groups, assume_disjoint, forward_stores, settle_updates
from sim.core.lang.ir.table import OPS
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import Type, array_type, float64, int32

f64 = sim.float64
ARRAY = array_type(float64)


def expect(func: Func, text: str) -> None:
    assert to_text(verify(func)) == textwrap.dedent(text).strip()


def built(fill, *types: Type, names: str) -> Func:
    block = Block([Value(t, n) for t, n in zip(types, names.split(), strict=True)])
    with Builder(block) as b:
        block.yields = list(fill(b, *block.params) or ())
    return Func("f", block)


def test_inline_folds_the_body_into_its_surroundings():
    callee = built(lambda b, x, y: [x * y + x * 2.0], float64, float64, names="x y")

    def fill(b, x):
        calls = [Op("call", [x, y], [Value(float64)], {"callee": callee}) for y in (x, b.const(1.0, float64))]
        return [b.append(calls[0]).results[0] + b.append(calls[1]).results[0]]

    expect(
        inline(built(fill, float64, names="x")),
        """
        func f(%0: float64 'x') dims=1
          %1: float64 = const 1.0
          %2: float64 = mul %0, %0
          %3: float64 = const 2.0
          %4: float64 = mul %0, %3
          %5: float64 = add %2, %4
          %6: float64 = add %0, %4
          %7: float64 = add %5, %6
          return %7
        """,
    )


@sim.func
def half_used(x: f64, n: int):
    kept, dropped = 0.0, 1.0
    for _ in range(n):
        kept += x
        dropped *= x
    return kept


def test_dce_removes_what_a_loop_carries_for_itself_only():
    expect(
        dce(trace_function(half_used, [float64, int32])),
        """
        func half_used(%0: float64 'x', %1: int32 'n') dims=1
          %2: float64 = const 0.0
          %3: float64 = for %1, %2 {'reverse': False}
            (%4: int32, %5: float64)
              %6: float64 = add %5, %0
              yield %6
          return %3
        """,
    )


def stores_and_loads(b, x, y):
    i, j = b.tid(0), b.const(0, int32)
    b.store(x, [i], [0], [b.const(3.0, float64)])
    seen = b.load(x, [i], [0])[0]  # the 3.0
    b.store(x, [j], [0], [seen + b.load(y, [i], [0])[0]])
    b.store(y, [i], [0], [b.load(x, [i], [0])[0]])  # memory again: i may be 0
    b.accum(y, [i], [0], [b.load(y, [i], [0])[0]])


def test_store_forwarding_ends_at_a_write_that_may_be_to_the_same_element():
    func = built(stores_and_loads, ARRAY, ARRAY, names="x y")
    expect(
        dce(forward_stores(func, alias_groups(func, ()))),
        """
        func f(%0: array[float64] 'x', %1: array[float64] 'y') dims=1
          %2: int32 = tid  {'axis': 0}
          %3: int32 = const 0
          %4: float64 = const 3.0
          store %0, %2, %4 {'leaves': (0,), 'dynamic': False}
          %5: float64 = load %1, %2 {'leaves': (0,), 'dynamic': False}
          %6: float64 = add %4, %5
          store %0, %3, %6 {'leaves': (0,), 'dynamic': False}
          %7: float64 = load %0, %2 {'leaves': (0,), 'dynamic': False}
          store %1, %2, %7 {'leaves': (0,), 'dynamic': False}
          accum %1, %2, %7 {'leaves': (0,), 'dynamic': False, 'exclusive': False}
        """,
    )


def test_accumulations_onto_a_known_value_become_stores_where_no_other_thread_can_meet():
    func = assume_disjoint(built(stores_and_loads, ARRAY, ARRAY, names="x y"), ["x", "y"])
    expect(
        settle_updates(func),
        """
        func f(%0: array[float64] 'x', %1: array[float64] 'y') dims=1
          %2: int32 = tid  {'axis': 0}
          %3: int32 = const 0
          %4: float64 = const 3.0
          store %0, %2, %4 {'leaves': (0,), 'dynamic': False}
          %5: float64 = load %1, %2 {'leaves': (0,), 'dynamic': False}
          %6: float64 = add %4, %5
          store %0, %3, %6 {'leaves': (0,), 'dynamic': False}
          store %1, %2, %4 {'leaves': (0,), 'dynamic': False}
          %7: float64 = const 6.0
          store %1, %2, %7 {'leaves': (0,), 'dynamic': False}
        """,
    )


@sim.func
def spring(d: f64):
    length = sim.sqrt(d)
    force = 0.0
    if length > 0.0:
        force = (length - 1.0) / length
    return force


def test_sinking_computes_a_root_again_inside_the_branch_that_uses_it():
    """The comparison, which has no derivative, keeps the root that it looks at."""
    func = trace_function(spring, [float64])
    expect(
        sink(func, varied_values(func, set(func.params))),
        """
        func spring(%0: float64 'd') dims=1
          %1: float64 = sqrt %0
          %2: float64 = const 0.0
          %3: bool = gt %1, %2
          %4: float64 = if %3
            ()
              %5: float64 = sqrt %0
              %6: float64 = const 1.0
              %7: float64 = sub %5, %6
              %8: float64 = div %7, %5
              yield %8
            ()
              yield %2
          return %4
        """,
    )


def test_sinking_opens_a_choice_but_not_the_guard_of_a_derivative():
    """`select` of `guarded` (%14 here) is no choice of the program: what it chooses from stays where it is."""

    def fill(b, x, ct):
        root = b.emit("sqrt", x)
        return [b.emit("max", root, 1.0), *OPS["log"].vjp(ct, root, x)]

    func = built(fill, float64, float64, names="x ct")
    expect(
        sink(func, varied_values(func, set(func.params))),
        """
        func f(%0: float64 'x', %1: float64 'ct') dims=1
          %2: float64 = sqrt %0
          %3: float64 = const 1.0
          %4: bool = ge %2, %3
          %5: bool = ne %3, %3
          %6: bool = or %4, %5
          %7: float64 = if %6
            ()
              %8: float64 = sqrt %0
              yield %8
            ()
              yield %3
          %9: float64 = div %1, %0
          %10: float64 = const 0.0
          %11: bool = eq %1, %10
          %12: bool = eq %0, %10
          %13: bool = and %11, %12
          %14: float64 = select %13, %10, %9
          return %7, %14
        """,
    )
