"""Shadow memory: what an access finds that another thread has left, and what it leaves."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import kernel, launch

from sim.core.backends.interp import InterpBackend
from sim.core.lang.instrument.races import exact_check
from sim.core.lang.instrument.shadow_memory import ADD, CONSTANT, KINDS, READ, REPORT, WRITE
from sim.core.lang.types import array_type, float64, int32

FLAT = array_type(float64)
CELLS = 4


def checked(fill, graded: bool = True, threads: int = 2) -> tuple[list[int], np.ndarray]:
    """The report, and the shadow memory of an array of `CELLS` numbers, after one thread after another."""
    check = exact_check(kernel([FLAT], fill), {0}, {0} if graded else set())
    layout, shadow, report = np.array([0, 1]), np.zeros((KINDS, CELLS), np.int32), np.zeros(REPORT, np.int32)
    error, _ = launch(InterpBackend(), check.func, [threads], [np.zeros(CELLS), layout, shadow, report], check=True)
    assert not error.any()
    return report.tolist(), shadow


def test_an_access_leaves_its_thread_in_the_row_of_its_kind():
    def fill(b, x):
        i = b.tid(-1)
        (value,) = b.load(x, [i], [0])
        b.store(x, [i], [0], [value + 1.0])

    report, shadow = checked(fill)
    assert report == [0] * REPORT
    assert shadow[READ].tolist() == shadow[WRITE].tolist() == [1, 2, 0, 0]
    assert not shadow[ADD].any() and not shadow[CONSTANT].any()


def test_a_cell_of_several_threads_belongs_to_none():
    def fill(b, x):
        b.accum(x, [b.const(3, int32)], [0], [b.const(2.0, float64)])

    report, shadow = checked(fill, threads=3)
    assert report == [0] * REPORT, "sums may meet"
    assert shadow[ADD].tolist() == [0, 0, 0, -1]


def read_and_write(b, x):
    """Every thread reads what the one before it writes."""
    i = b.tid(-1)
    (value,) = b.load(x, [i], [0])
    b.store(x, [i + 1], [0], [value])


@pytest.mark.parametrize("graded", [False, True])
def test_the_first_access_to_what_another_thread_has_written_is_reported(graded):
    report, _ = checked(read_and_write, graded, threads=3)
    assert report == [1, 1, 0, WRITE], "access number 1, by thread 1, of what thread 0 has written"


@pytest.mark.parametrize(("graded", "kind"), [(True, CONSTANT), (False, CONSTANT)])
def test_stores_of_one_constant_may_meet(graded, kind):
    def fill(b, x):
        b.store(x, [b.const(0, int32)], [0], [b.const(7.0, float64)])

    report, shadow = checked(fill, graded)
    assert report == [0] * REPORT and shadow[kind].tolist() == [-1, 0, 0, 0]


def test_other_stores_that_meet_matter_to_arrays_with_a_gradient_only():
    def fill(b, x):
        b.store(x, [b.const(0, int32)], [0], [b.emit("cast", b.tid(-1), type=float64)])

    assert checked(fill, graded=True)[0] == [1, 1, 0, WRITE]
    assert checked(fill, graded=False)[0] == [0] * REPORT
