"""Replay plans: when the program run backwards says what to take back, and what is kept where it does not."""

from __future__ import annotations

import pytest
from tools.adjoints.differences import tbr_of, traced

import sim
from sim.core.lang.autodiff.replay_plan import ReplayPlan, counters, plan_replay
from sim.core.lang.ir.core import walk
from sim.core.lang.types import float64, int32

f64 = sim.float64


def plan_of(kernel: sim.Kernel, active: set[str]) -> ReplayPlan:
    return plan_replay(tbr_of(traced(kernel), active))


def names(plan: ReplayPlan, ops) -> list[str]:
    return sorted(op.operands[0].name if plan.stores(op) else op.name for op in ops)


@sim.kernel
def along_a_row(x: sim.array2d[f64], n: int):
    for k in range(n):
        x[0, k + 1] = x[0, k] * x[0, k + 1]


@sim.kernel
def sweeps(x: sim.array2d[f64], n: int):
    for _ in range(n):
        for k in range(n):
            x[0, k + 1] = x[0, k] * x[0, k + 1]


@sim.kernel
def sweeps_that_store_between(x: sim.array2d[f64], n: int):
    for _ in range(n):
        for k in range(n):
            x[0, k + 1] = x[0, k] * x[0, k + 1]
        x[0, 0] = x[0, 1] * x[0, 1]


@sim.kernel
def jumps(x: sim.array[f64], at: sim.array[int], n: int):
    for _ in range(n):
        k = at[0]
        x[k] = x[k] * x[k]
        at[0] = (k + 1) % 3


@sim.kernel
def stops_by_value(x: sim.array[f64], n: int):
    """How often it stores depends on what it has stored, and no gradient flows into that."""
    for _ in range(n):
        if x[0] < 2.0:
            x[0] = x[0] * x[0]


def test_stores_at_places_that_they_do_not_change_keep_old_values_alone():
    plan = plan_of(along_a_row, {"x"})
    assert names(plan, plan.storing) == ["for"] and names(plan, plan.address_invariant) == ["for", "x"]
    assert not plan.logged and not plan.perfect_nests
    assert plan.stack_types == {float64}


@pytest.mark.parametrize(("kernel", "nests"), [(sweeps, 1), (sweeps_that_store_between, 0)])
def test_a_perfect_nest_stores_in_inner_loops_only(kernel, nests):
    plan = plan_of(kernel, {"x"})
    assert len(plan.perfect_nests) == nests and plan.perfect_nests <= plan.address_invariant
    (outer,) = [op for op in walk(tbr_of(traced(kernel), {"x"}).kernel.body) if op.name == "for"][:1]
    assert all(len(loop.regions[0].ops) == len(outer.regions[0].ops) for loop in plan.perfect_nests)


@pytest.mark.parametrize(("kernel", "arrays"), [(jumps, {"x", "at"}), (stops_by_value, {"x"})])
def test_stores_at_places_or_as_often_as_stores_decide_keep_their_places(kernel, arrays):
    plan = plan_of(kernel, {"x"})
    assert not plan.address_invariant and {array.name for array in plan.logged_arrays} == arrays
    assert len(plan.logged) == len(arrays) and int32 in plan.stack_types


@sim.kernel
def counts(x: sim.array2d[f64], n: int, step: int):
    i, by_two, by_step, twice = 0, 0, 0, 1
    while i < n:
        x[0, (by_two + by_step + twice) % 3] = x[0, i % 3] * x[0, 0]
        i, by_two, by_step, twice = i + 1, by_two + 2, by_step + step, twice * 2


def test_what_every_trip_adds_the_same_to_is_a_counter_and_needs_no_frame():
    func = traced(counts)
    (loop,) = [op for op in walk(func.body) if op.name == "while"]
    assert {step.const or step.name for _, step in counters(loop).values()} == {1, 2, "step"}
    plan = plan_of(counts, {"x"})
    assert [[p.type for p in kept] for kept in plan.frames.values()] == [[int32]], "twice"


@sim.kernel
def unseen(x: sim.array[f64], y: sim.array[f64], n: int):
    """Of the last store nothing in the body looks at what it leaves."""
    for k in range(n):
        x[k] = x[k] * y[0]
        x[k + 1] = x[k] * x[k]
        y[k] = x[0] * 2.0


def test_a_store_is_seen_by_loads_behind_it():
    tbr, plan = tbr_of(traced(unseen), {"x", "y"}), plan_of(unseen, {"x", "y"})
    (body,) = [op.regions[0] for op in plan.storing if op.name == "for"]
    seen = plan.seen(body, tbr.needed | {v for op in walk(body) for v in op.results})
    stores = [op for op in body.ops if plan.stores(op)]
    assert stores[0] in seen and stores[-1] not in seen
