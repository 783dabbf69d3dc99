"""Recording kernels: they do what the kernel does, fill the caches, and count the entries of the logs."""

from __future__ import annotations

import numpy as np
from tools.adjoints.differences import ENTRIES, check, numbers, run, tbr_of, traced
from tools.adjoints.kernels import in_place, lists_in_a_loop, overwrites_in_a_loop

import sim
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.types import float64, int32

f64 = sim.float64


def test_a_recording_does_what_the_kernel_does():
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
def counted_trips(x: sim.array2d[f64], n: int):
    i = sim.tid()
    k, a = 0, x[i, 0]
    while k < n:
        a = sim.sin(a) * x[i, k % 3]
        x[i, (k + 1) % 3] = x[i, k % 3] * a
        k += 1
    x[i, 0] = a


def test_the_launch_counts_as_many_entries_as_there_are_trips():
    made = kernel_adjoint(tbr_of(traced(counted_trips), {"x"}))
    found = []
    for n in (0, 2, 6):
        counts = np.zeros(4, np.int32)
        run(made.recording, [2], [numbers(2, 3), n, counts])
        found.append(counts)
    assert found[1].any() and not found[0].any()
    np.testing.assert_array_equal(found[2], 3 * found[1])
    check(counted_trips, [2], [numbers(2, 3), 5], {"x"}, tolerance=1e-6)


def test_entries_are_counted_of_every_log_in_the_order_of_the_adjoints_parameters():
    """Two logs of what atomics return, of two entries in the busiest thread; and a stack of old values."""
    made = kernel_adjoint(tbr_of(traced(lists_in_a_loop), {"x", "y"}))
    x, y = numbers(2), np.zeros(ENTRIES)
    returned = [np.zeros((ENTRIES, 2), kind.np) for kind in made.returned]
    counts, total = np.zeros(2, np.int32), np.zeros(2, np.int64)
    run(made.recording, [2], [x, np.zeros(1, np.int32), total, y, 2, *returned, counts])
    assert counts.tolist() == [2, 2] and made.returned[0] is int32
    assert returned[0][:2].T.tolist() == [[0, 1], [2, 3]] and returned[1][:2].T.tolist() == [[0, 2], [0, 2]]

    made = kernel_adjoint(tbr_of(traced(overwrites_in_a_loop), {"x", "z"}))
    counts = np.zeros(len(made.logs), np.int32)
    run(made.recording, [2], [numbers(2, 3), numbers(2), 7, counts])
    assert [log.arrays for log in made.logs] == [((float64, 1),)] and counts.tolist() == [7]
