"""Logs of one thread: stacks, undo logs and logs of what atomics returned, each run by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import kernel, launch

import sim
from sim.core.backends.interp import InterpBackend
from sim.core.lang.autodiff.undo_log import ReturnLog, UndoLog, ValueStack, position_tape
from sim.core.lang.ir.core import Op
from sim.core.lang.types import array_type, float64, int32

FLAT, PLANE, INTS = array_type(float64), array_type(float64, 2), array_type(int32, 2)


def with_position(types, fill, threads, *args):
    """Run a kernel whose body `fill(b, position, *params)` emits, where `position` begins at 0."""
    declared = []

    def body(b, *params):
        op, position = position_tape()
        declared.append(b.append(op))
        b.append(Op("tape_store", [position, b.const(0, int32), b.const(0, int32)], []))
        fill(b, position, *params)

    error, _ = launch(InterpBackend(), kernel(types, body), [threads], list(args), check=True)
    assert not error.any()


def test_a_stack_gives_back_what_was_pushed_last_in_the_order_of_its_push():
    values, out = np.zeros((2, 5)), np.zeros((2, 5))

    def fill(b, position, values, out):
        stack, i = ValueStack(b, position, values), b.tid(-1)
        stack.push([b.const(1.0, float64)])
        stack.push([b.const(2.0, float64), b.const(3.0, float64)])
        for column, v in enumerate([*stack.pop(2), *stack.pop(1)]):
            b.store(out, [i, b.const(column, int32)], [0], [v])
        b.store(out, [i, b.const(3, int32)], [0], [b.emit("cast", stack.now(), type=float64)])

    with_position([PLANE, PLANE], fill, 2, values, out)
    assert out.tolist() == [[2.0, 3.0, 1.0, 0.0, 0.0]] * 2


def test_an_undo_log_rewinds_to_a_position_and_no_further():
    x, places, old = np.arange(6.0), np.zeros((1, 9), np.int32), np.zeros((1, 9))

    def fill(b, position, x, places, old):
        log = UndoLog(b, position, [x], places, {float64: old})

        def store(at, value):
            index = [b.const(at, int32)]
            log.push(x, index, [0], None, b.load(x, index, [0]))
            b.store(x, index, [0], [b.const(value, float64)])

        store(2, 20.0)
        here = log.now()
        store(3, 30.0)
        store(2, 21.0)
        store(3, 31.0)
        log.rewind(here)

    with_position([FLAT, INTS, PLANE], fill, 1, x, places, old)
    assert x.tolist() == [0.0, 1.0, 20.0, 3.0, 4.0, 5.0]


def test_an_undo_log_knows_which_of_its_arrays_and_leaves_a_value_belongs_to():
    pairs, x = np.arange(6.0).reshape(2, 3), np.arange(10.0, 14.0)
    places, old = np.zeros((1, 20), np.int32), np.zeros((1, 20))

    def fill(b, position, pairs, x, places, old):
        log = UndoLog(b, position, [pairs, x], places, {float64: old})
        assert log.width == 2, "an index, and the number of the leaf"
        one = [b.const(1, int32)]
        for array, leaves in ((pairs, [2, 0]), (x, [0])):
            log.push(array, one, leaves, None, b.load(array, one, leaves))
            b.store(array, one, leaves, [b.const(-1.0, float64) for _ in leaves])
        log.rewind(b.const(0, int32))

    vec3 = array_type(sim.vec3d)
    with_position([vec3, FLAT, INTS, PLANE], fill, 1, pairs, x, places, old)
    assert pairs.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and x.tolist() == [10.0, 11.0, 12.0, 13.0]


@pytest.mark.parametrize("room", [0, 2, 3])
def test_what_finds_no_room_in_a_return_log_is_counted(room):
    values, count, out = np.zeros((room, 1)), np.zeros(1, np.int32), np.zeros(3)

    def fill(b, position, values, count, out):
        log = ReturnLog(b, position, values)
        log.put([b.const(5.0, float64), b.const(6.0, float64)])
        log.put([b.const(7.0, float64)])
        b.store(count, [b.const(0, int32)], [0], [log.now()])
        if room == 3:
            log.set(b.const(0, int32))
            for at, v in enumerate([*log.take(1), *log.take(2)]):
                b.store(out, [b.const(at, int32)], [0], [v])

    with_position([PLANE, array_type(int32), FLAT], fill, 1, values, count, out)
    assert count[0] == 3 and values[:, 0].tolist() == [5.0, 6.0, 7.0][:room]
    assert out.tolist() == ([5.0, 6.0, 7.0] if room == 3 else [0.0] * 3)
