"""The room of what the threads of a launch record."""

import numpy as np
import pytest

import sim


@sim.kernel
def part(x: sim.array[sim.float32]):
    i = sim.tid()
    apart = x[2 * i] - x[2 * i + 1]
    x[2 * i] = x[2 * i] + apart * apart
    x[2 * i + 1] = x[2 * i + 1] - apart * apart


@pytest.mark.parametrize(("threads", "room"), [(255, 255), (256, 256), (257, 272), (1000, 1008)])
def test_a_record_ends_with_a_line_of_memory_where_that_is_little(threads: int, room: int) -> None:
    given = np.linspace(0.5, 1.5, 2 * threads, dtype=np.float32) ** 2
    start = sim.array(given, requires_grad=True)
    with sim.Tape() as tape:
        x = start * 1.0
        sim.launch(part, threads, [], [x])
    assert [entry.nbytes for entry in tape.memory() if entry.kind == "record"] == [4 * room]
    weights = np.tile(np.array([2.0, -1.0], np.float32), threads)
    tape.backward(grads={x: sim.array(weights)})
    across = 2.0 * 3.0 * (given[::2] - given[1::2])
    np.testing.assert_allclose(start.grad.numpy()[::2], 2.0 + across, rtol=1e-5)
    np.testing.assert_allclose(start.grad.numpy()[1::2], -1.0 - across, rtol=1e-5)
