"""Adjoints of kernels: what they need of arrays that the launch overwrites, how it is kept, what is refused; and the
gradients."""

from __future__ import annotations

import numpy as np
import pytest
from adjoint_kernels import f64, lists_in_a_loop, numbers, overwrites_in_a_loop, vec3
from adjoint_tools import check, gradients, numbers_of, run, tbr_of, traced

import sim
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.errors import GradientError
from sim.core.lang.frontend.custom import func_grad
from sim.core.lang.ir.core import walk
from sim.core.lang.ir.store_forwarding import assume_disjoint
from sim.core.lang.types import float32, float64, int32, int64


# ------------------------------------------------------------------------------------------------ claims and records
@sim.kernel
def in_place(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sin(x[i]) * x[i] * y[i]
    x[i] = y[i]


def test_what_is_loaded_before_any_store_is_claimed_or_recorded_as_asked():
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


def test_a_record_does_what_the_kernel_does():
    func = traced(in_place)
    made = kernel_adjoint(tbr_of(func, {"x", "y"}), [0, 1])
    plain, recording, record = [numbers(3), numbers(3)], [numbers(3), numbers(3)], np.zeros((2, 3))
    x, y = numbers(3), numbers(3)
    run(func, [3], plain)
    run(made.recording, [3], [*recording, record])
    np.testing.assert_array_equal(plain, recording)
    np.testing.assert_array_equal(plain[0], np.sin(x) * x * y)
    assert {tuple(np.round(row, 12)) for row in record} <= {
        tuple(np.round(v, 12)) for v in (x, y, np.sin(x) * x, np.sin(x))
    }


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


@sim.kernel
def mixed_records(count: sim.array[int], p: sim.array[vec3], s: sim.array[sim.float32], y: sim.array[f64]):
    i = sim.tid()
    slot = sim.atomic_add(count, 0, 1)
    d = p[i]
    s[i] = s[i] * s[i]
    p[i] = d * d[0]
    y[slot] = d[1] * f64(s[i]) * d[2]


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


@sim.kernel
def linear(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = y[i] * 2.0 + x[i]
    x[i] = 3.0 * y[i]


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


@sim.func
def weighted(x: f64, table: sim.array[f64]):
    return x * table[0]


@func_grad(weighted)
def weighted_gradient(x: f64, table: sim.array[f64], ct: f64):
    sim.adjoint[x] += ct * table[0]


@sim.kernel
def calls_with_an_array(x: sim.array[f64], table: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = weighted(x[i], table)


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


# ------------------------------------------------------------------------------------------------ atomic minima and
# maxima
@sim.kernel
def extremes(x: sim.array[f64], low: sim.array[f64], high: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(high, 0, x[i] * x[i])
    sim.atomic_min(low, 0, x[i] * 2.0)


@pytest.mark.parametrize(("low", "high"), [(5.0, 0.1), (-5.0, 0.1), (5.0, 9.0), (-5.0, 9.0)])
def test_the_winner_gets_the_gradient_and_where_the_start_won_it_keeps_it(low, high):
    x = np.array([0.9, 0.4, 1.3])
    made = check(extremes, [3], [x, np.array([low]), np.array([high])], {"x", "low", "high"})
    assert made.finals == (1, 2) and set(made.live_in) == {0, 1, 2}


def test_of_equal_ones_one_gets_the_gradient():
    x = np.array([1.3, 0.4, 1.3])
    found, _ = gradients(
        traced(extremes),
        [3],
        [x, np.array([9.0]), np.array([0.1])],
        {"x": np.zeros(3), "low": np.zeros(1), "high": np.ones(1)},
    )
    assert sorted(found["x"]) == [0.0, 0.0, 2.6] and found["high"] == 0.0
    start = np.array([1.3 * 1.3])
    found, _ = gradients(
        traced(extremes), [3], [x, np.array([9.0]), start], {"x": np.zeros(3), "low": np.zeros(1), "high": np.ones(1)}
    )
    assert found["x"].tolist() == [0.0, 0.0, 0.0] and found["high"] == 1.0, "the first was there at the start"


@sim.kernel
def extreme_components(x: sim.array[vec3], at: sim.array[int], high: sim.array[vec3]):
    i = sim.tid()
    sim.atomic_max(high, 0, x[i])
    sim.atomic_min(high, 1, x[i] * x[i][at[i]])


def test_components_have_winners_of_their_own():
    x, start = np.array([[1.0, 5.0, 2.0], [3.0, 4.0, 0.6]]), np.array([[2.2] * 3, [2.5] * 3])
    made = check(extreme_components, [2], [x, np.array([0, 1], np.int32), start], {"x", "high"})
    assert made.finals == (2,)


@sim.kernel
def extreme_and_store(x: sim.array[f64], y: sim.array[f64], z: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(y, 0, x[i])
    z[1] = 1.0


@sim.kernel
def extreme_and_sum(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    sim.atomic_max(y, 0, x[i])
    sim.atomic_add(y, n, x[i])


@sim.kernel
def both_extremes(x: sim.array2d[f64], y: sim.array2d[f64], n: int):
    i = sim.tid()
    sim.atomic_max(y, 0, n, x[i, 0])
    sim.atomic_min(y, 1, n, x[i, 1])
    sim.atomic_add(x, i, 1, f64(1.0))
    sim.atomic_add(y, 2, n, x[i, 1])


def test_an_element_takes_extremes_or_something_else():
    with pytest.raises(
        GradientError,
        match=(
            r"an element of 'y' may take atomic_max and accum in one launch(.|\n)*use elements at different constant"
            r" indices"
        ),
    ):
        kernel_adjoint(tbr_of(traced(extreme_and_sum), {"x", "y"}))
    func = traced(extreme_and_store)
    kernel_adjoint(tbr_of(func, {"x", "y", "z"}))
    with pytest.raises(GradientError, match="an element of 'z' may take atomic_max and store"):
        kernel_adjoint(tbr_of(func, {"x", "y", "z"}, [(1, 2)]))
    made = check(both_extremes, [2], [numbers(2, 2), np.array([[0.1, 9.0], [9.0, 9.0], [0.0, 0.0]]), 0], {"x", "y"})
    assert made.finals == (1,)


@sim.kernel
def counting_extreme(x: sim.array[f64], top: sim.array[f64], latest: sim.array[int]):
    i = sim.tid()
    x[i] = x[i] * x[i]
    sim.atomic_max(latest, 0, i)
    sim.atomic_max(top, 0, f64(i))


def test_extremes_without_gradient_need_no_final_values():
    made = check(counting_extreme, [2], [numbers(2), np.zeros(1), np.zeros(1, np.int32)], {"x"})
    assert made.finals == ()


@sim.kernel
def exchange(x: sim.array[f64], y: sim.array[f64], turn: sim.array[int]):
    i = sim.tid()
    sim.atomic_exch(turn, 0, i)
    sim.atomic_exch(y, 0, x[i])


@sim.kernel
def returned_sum(x: sim.array[f64], y: sim.array[f64], z: sim.array[f64]):
    i = sim.tid()
    z[i] = sim.atomic_add(y, 0, x[i]) * 2.0


def test_values_that_depend_on_the_order_of_the_threads_are_refused():
    with pytest.raises(GradientError, match="atomic_exch on 'y' carries a gradient: which thread's value stays"):
        kernel_adjoint(tbr_of(traced(exchange), {"x", "y"}))
    assert kernel_adjoint(tbr_of(traced(exchange), {"x"})).active == (0,), (
        "`turn` and a `y` without gradient carry none"
    )
    with pytest.raises(
        GradientError,
        match="the value that atomic_add on 'y' returns carries a gradient(.|\n)*use the result for nothing",
    ):
        kernel_adjoint(tbr_of(traced(returned_sum), {"x", "y", "z"}))
    with pytest.raises(GradientError, match="atomic_add on 'y' returns carries"):
        kernel_adjoint(tbr_of(traced(returned_sum), {"y", "z"}))


# ------------------------------------------------------------------------------------------------ what is promised of
# the adjoint
def test_arrays_are_apart_unless_they_overlap():
    func = traced(linear)
    for aliases, apart in (((), True), ([(0, 1)], False)):
        made = kernel_adjoint(tbr_of(func, {"x", "y"}, aliases))
        assert made.func.attrs["apart"] is apart and made.func.attrs["adjoint"] is True
    made = kernel_adjoint(tbr_of(traced(in_place), {"x", "y"}), [0])
    assert made.recording.attrs["apart"] is True


def test_what_is_exclusive_is_so_in_gradients():
    func = assume_disjoint(traced(in_place), ["x"])
    made = kernel_adjoint(tbr_of(func, {"x", "y"}), [0])
    assert made.func.attrs["exclusive"] == {"x", "adj_x"} == made.recording.attrs["exclusive"]
    sums = {op.operands[0].name: op.attrs["exclusive"] for op in walk(made.func.body) if op.name == "accum"}
    assert sums == {"adj_x": True, "adj_y": False}


def test_parameters_of_the_adjoint_are_in_the_order_that_is_promised():
    func = traced(mixed_records)
    made = kernel_adjoint(tbr_of(func, {"p", "y"}), [1])
    names = [p.name for p in made.func.params]
    assert (
        names[:4] == [p.name for p in func.params]
        and names[4:6] == ["adj_p", "adj_y"]
        and made.active == tuple(numbers_of(func, {"p", "y"})) == (1, 3)
    )
    assert (
        names[6:] == [f"record_{kind.name}" for kind, _ in made.caches] == [p.name for p in made.recording.params[4:]]
    )
    assert made.func.name == "mixed_records_adjoint" and made.recording.name == "mixed_records_recording"


def test_the_source_of_an_adjoint_keeps_its_calls():
    made = kernel_adjoint(tbr_of(traced(calls_with_an_array, source=True), {"x", "y"}))
    assert [p.name for p in made.source.params] == [p.name for p in made.func.params]
