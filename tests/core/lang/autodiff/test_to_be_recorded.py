"""To-be-recorded analysis of kernels: what of memory an adjoint needs, live-in, cached or replayed; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tools.adjoints.differences import check, gradients, numbers, run, tbr_of, traced
from tools.adjoints.kernels import (
    calls_with_an_array,
    in_place,
    linear,
    lists_in_a_loop,
    mixed_records,
    overwrites_in_a_loop,
    weighted,
)

import sim
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import walk
from sim.core.lang.types import float32, float64, int32, int64

f64, vec3 = sim.float64, sim.vec3d


# ------------------------------------------------------------------------------------------------ live-in or cached
def test_what_is_loaded_before_any_store_is_live_in_or_cached_as_asked():
    args = [numbers(3), numbers(3)]
    made = check(in_place, [3], args, {"x", "y"})
    assert (made.live_in, made.caches, made.recording, made.logs, made.returned, made.finals) == (
        (0, 1),
        (),
        None,
        (),
        (),
        (),
    )
    made = check(in_place, [3], args, {"x", "y"}, record={"x"})
    assert made.live_in == (1,) and made.caches == ((float64, 1),) and made.recording is not None
    made = check(in_place, [3], args, {"x", "y"}, record={"x", "y"})
    assert made.live_in == () and made.caches == ((float64, 2),)


@sim.kernel
def reads_what_it_stored(x: sim.array2d[f64], at: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    x[i, at[0]] = y[i] * y[i]
    y[i] = sim.sin(x[i, 1]) * x[i, 0]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_load_that_a_store_of_the_thread_may_precede_is_recorded(place):
    tbr = tbr_of(traced(reads_what_it_stored), {"x", "y"})
    assert (
        tbr.must_cache == {0}
        and tbr.in_loops == tbr.replayed == tbr.detached == frozenset()
        and set(tbr.cacheable) == {0, 1, 2}
    )
    made = check(reads_what_it_stored, [2], [numbers(2, 3), np.array([place], np.int32), numbers(2)], {"x", "y"})
    assert made.live_in == (1, 2) and made.caches == ((float64, 2),)


@sim.kernel
def takes_a_number(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    slot = sim.atomic_add(count, 0, 1)
    y[slot] = x[i] * x[i]


def test_what_an_atomic_returns_is_always_recorded():
    """It cannot be computed again, though no store precedes it."""
    tbr = tbr_of(traced(takes_a_number), {"x", "y"})
    assert tbr.must_cache == {0} and tbr.returned == [] and tbr.returning == frozenset()
    made = check(takes_a_number, [3], [np.zeros(1, np.int32), numbers(3), numbers(3)], {"x", "y"})
    assert made.caches == ((int32, 1),) and made.live_in == (1,)


def test_records_of_several_types_have_slots_of_their_own():
    args = [np.zeros(1, np.int32), numbers(2, 3), numbers(2).astype(np.float32), numbers(2)]
    made = check(mixed_records, [2], args, {"p", "y"}, record={"p"})
    assert [kind for kind, _ in made.caches] == sorted((kind for kind, _ in made.caches), key=lambda kind: kind.name)
    assert {kind for kind, _ in made.caches} == {float64, int32, float32} or {kind for kind, _ in made.caches} == {
        float64,
        int32,
    }
    tbr = tbr_of(traced(mixed_records), {"p", "y"})
    chosen = tbr.min_cut(frozenset({1}))
    assert (
        tbr.bytes_per_thread(frozenset({1}))
        == sum(v.type.size for v in chosen)
        == sum(kind.size * slots for kind, slots in made.caches)
    )
    assert tbr.min_cut(frozenset({1})) is chosen, "found once"


def test_a_linear_kernel_needs_no_values():
    tbr = tbr_of(traced(linear), {"x", "y"})
    assert not tbr.cacheable and not tbr.must_cache and tbr.bytes_per_thread(frozenset({0, 1})) == 0
    made = check(linear, [3], [numbers(3), numbers(3)], {"x", "y"})
    assert made.live_in == () and made.recording is None


# ------------------------------------------------------------------------------------------------ loops
@sim.kernel
def sums_in_a_loop(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    s = y[i]
    for j in range(n):
        s += sim.sin(x[i, j % 2]) * s
    y[i] = s


def test_what_a_loop_reads_is_kept_as_a_whole():
    tbr = tbr_of(traced(sums_in_a_loop), {"x", "y"})
    assert tbr.in_loops == {0} and not tbr.must_cache and not tbr.replayed and set(tbr.cacheable) == {1}
    made = check(sums_in_a_loop, [2], [numbers(2, 2), numbers(2), 5], {"x", "y"}, record={"y"})
    assert made.live_in == (0,) and made.caches == ((float64, 1),)


def test_what_a_loop_overwrites_and_reads_is_replayed():
    tbr = tbr_of(traced(overwrites_in_a_loop), {"x", "z"})
    assert tbr.replayed == {0} and tbr.in_loops == {1} and not tbr.must_cache and 0 not in tbr.cacheable
    made = check(overwrites_in_a_loop, [2], [numbers(2, 3), numbers(2), 5], {"x", "z"}, tolerance=1e-6)
    assert made.func.attrs["serial"] and made.recording is not None and made.live_in == (0, 1)
    assert [log.arrays for log in made.logs] == [((float64, 1),)], "numbers alone: where they belong is known"


def test_only_a_replay_runs_its_threads_one_after_another():
    assert "serial" not in kernel_adjoint(tbr_of(traced(sums_in_a_loop), {"x", "y"})).func.attrs


@sim.kernel
def overwrites_an_index_in_a_loop(x: sim.array2d[f64], at: sim.array[int], n: int):
    i = sim.tid()
    for _ in range(n):
        k = at[i]
        x[i, k] = x[i, k] * 1.5
        at[i] = (k + 1) % 3


def test_an_index_that_a_loop_overwrites_is_replayed_though_it_has_no_gradient():
    tbr = tbr_of(traced(overwrites_an_index_in_a_loop), {"x"})
    assert tbr.replayed == {1}
    check(overwrites_an_index_in_a_loop, [2], [numbers(2, 3), np.array([0, 2], np.int32), 4], {"x"})


@sim.kernel
def a_chain_of_replays(x: sim.array2d[f64], y: sim.array2d[f64], at: sim.array[int], n: int):
    i = sim.tid()
    for _ in range(n):
        y[i, at[i]] = sim.sin(x[i, at[i]]) * y[i, at[i]]
        x[i, 0] = x[i, 0] * x[i, 1]
        at[i] = (at[i] + 1) % 2


def test_replays_that_need_each_other_are_found():
    assert tbr_of(traced(a_chain_of_replays), {"x", "y"}).replayed == {0, 1, 2}
    check(a_chain_of_replays, [2], [numbers(2, 2), numbers(2, 2), np.array([0, 1], np.int32), 3], {"x", "y"})


def test_what_atomics_in_loops_return_is_logged_by_type():
    tbr = tbr_of(traced(lists_in_a_loop), {"x", "y"})
    assert len(tbr.returned) == 2 and tbr.returning == {1, 2} and not tbr.must_cache
    args = [numbers(2), np.zeros(1, np.int32), np.zeros(2, np.int64), np.zeros(8), 3]
    made = check(lists_in_a_loop, [2], args, {"x", "y"})
    assert made.returned == (int32, int64) and made.logs == () and made.live_in == (0,)
    counts, logs = np.zeros(4, np.int32), [np.zeros((4, 2), np.int32), np.zeros((4, 2), np.int64)]
    run(made.recording, [2], [*(a.copy() for a in args[:4]), 3, *logs, counts])
    assert counts.tolist() == [3, 3, 0, 0] and sorted(logs[0].ravel().tolist()) == [0, 0, 0, 1, 2, 3, 4, 5]
    assert logs[1][:3].tolist() == [[0, 0], [2, 2], [4, 4]]


@sim.kernel
def asks_no_atomic(x: sim.array[f64], count: sim.array[int], n: int):
    i = sim.tid()
    for _ in range(n):
        sim.atomic_add(count, 0, 1)
        x[i] = x[i] * 1.5


def test_what_nobody_looks_at_is_not_logged():
    made = check(asks_no_atomic, [2], [numbers(2), np.zeros(1, np.int32), 3], {"x"})
    assert made.returned == () and made.recording is None and made.live_in == ()


# ------------------------------------------------------------------------------------------------ what is refused
@sim.kernel
def through_another(x: sim.array[f64], t: sim.array2d[f64], y: sim.array[f64], at: sim.array[int]):
    i = sim.tid()
    t[i, at[0]] = x[i] * 2.0
    y[i] = t[i, 1]


@sim.kernel
def through_two(x: sim.array[f64], a: sim.array2d[f64], b: sim.array2d[f64], y: sim.array[f64], at: sim.array[int]):
    i = sim.tid()
    a[i, at[0]] = x[i]
    b[i, at[0]] = a[i, 1]
    y[i] = b[i, 1]


@sim.kernel
def left_behind(x: sim.array[f64], t: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = t[i] * x[i]
    t[i] = x[i] * 3.0


def test_a_value_that_passes_through_an_array_without_gradient_is_refused():
    with pytest.raises(
        GradientError,
        match=r"what is written to 'y' .* pass through 't', which has none(.|\n)*make 't' with requires_grad=True",
    ):
        tbr_of(traced(through_another), {"x", "y"})
    with pytest.raises(GradientError, match="pass through 'a' and 'b', which has none"):
        tbr_of(traced(through_two), {"x", "y"})
    assert tbr_of(traced(through_another), {"x", "t", "y"}).detached == frozenset()
    assert tbr_of(traced(through_another), {"x"}).detached == {1, 2}, "what has no gradient itself may take it"
    assert tbr_of(traced(through_two), {"x"}).detached == {1, 2, 3}


def test_what_is_left_behind_is_told_but_not_refused():
    tbr = tbr_of(traced(left_behind), {"x", "y"})
    assert tbr.detached == {1} and tbr_of(traced(left_behind), {"y"}).detached == frozenset()
    check(left_behind, [2], [numbers(2), numbers(2), numbers(2)], {"x", "y"})


@sim.kernel
def reads_and_writes(x: sim.array[f64], t: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = t[i] * x[i]


def test_what_has_a_gradient_loses_nothing_by_another_name_of_it():
    assert tbr_of(traced(reads_and_writes), {"x", "y"}, [(1, 2)]).detached == frozenset()


def test_an_array_under_another_name_is_lost_with_it():
    func = traced(through_two)
    with pytest.raises(GradientError, match="pass through 'a' and 'b'"):
        tbr_of(func, {"x", "y"}, [(1, 2)])
    assert tbr_of(traced(left_behind), {"x"}, [(1, 2)]).detached == {1, 2}
    assert tbr_of(traced(left_behind), {"x", "y"}, [(1, 2)]).detached == {1}, "but not one that has a gradient"


@sim.kernel
def calls_with_what_it_writes(x: sim.array[f64], table: sim.array[f64], again: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = weighted(x[i], table)
    again[1] = 2.0


def test_a_gradient_function_may_not_be_given_what_the_kernel_writes():
    func = traced(calls_with_what_it_writes, source=True)
    assert tbr_of(func, {"x", "y"}).active == (0, 3)
    with pytest.raises(
        GradientError, match=r"`weighted` has a gradient function that takes the array 'table', .* \(as 'again'\)"
    ):
        tbr_of(func, {"x", "y"}, [(1, 2)])
    tbr_of(traced(calls_with_an_array, source=True), {"x", "y"})


def test_a_call_with_a_gradient_function_uses_it():
    func = traced(calls_with_an_array, source=True)
    found, made = gradients(
        func, [2], [numbers(2), np.array([3.0]), numbers(2)], {"x": np.zeros(2), "y": np.array([1.0, 10.0])}
    )
    assert (
        found["x"].tolist() == [3.0, 30.0]
        and not any(op.name == "call" for op in walk(made.func.body))
        and made.live_in == (1,)
    )


@sim.kernel
def counts_in_a_loop(x: sim.array2d[f64], slots: sim.array[int], n: int):
    i = sim.tid()
    for j in range(n):
        k = slots[i]
        x[i, k] = x[i, k] * x[i, k]
        sim.atomic_max(slots, i, j)


def test_an_atomic_cannot_be_replayed():
    with pytest.raises(
        GradientError,
        match=(
            "needs values of 'slots' that this kernel overwrites in a loop, and atomic_max on 'slots' cannot be"
            " replayed"
        ),
    ):
        tbr_of(traced(counts_in_a_loop), {"x"})
