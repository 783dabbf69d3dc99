"""Captured graphs: one table where everything has a native form, the same bits on replay, and what cannot be
replayed."""

import numpy as np
import pytest

import sim
from sim.core.runtime.ambient import threads
from sim.core.runtime.devices.graph import joined
from sim.core.runtime.devices.segments import NativeSegment

SEED = 5


@sim.kernel
def advance(x: sim.array[sim.vec3], v: sim.array[sim.vec3], dt: float):
    i = sim.tid()
    v[i] = v[i] - dt * x[i]
    x[i] = x[i] + dt * v[i]


@sim.kernel
def checked(x: sim.array[sim.vec3]):
    assert x[sim.tid()][0] < 1e6


def is_native(graph: sim.Graph) -> bool:
    return all(isinstance(segment, NativeSegment) for segment in graph._segments)


def state(n: int = 20, **options):
    rng = np.random.default_rng(SEED)
    return [sim.array(rng.normal(size=(n, 3)), dtype=sim.vec3, **options) for _ in range(2)]


def test_launches_copies_and_fills_are_one_table():
    x, v = state()
    kept, host = sim.zeros_like(x), np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    with sim.capture() as graph:
        sim.launch(advance, 20, [x, v, 0.1])
        sim.copy(kept, x)
        v.assign(host)
        x.zero_()
    assert is_native(graph) and len(graph) == 4 and len(graph._segments) == 1
    want = [a.numpy().copy() for a in (kept, v, x)]
    for a, start in zip((x, v), state(), strict=True):
        a.assign(start)
    host[:] = 0.0  # the data as they were
    graph.replay()
    for a, values in zip((kept, v, x), want, strict=True):
        np.testing.assert_array_equal(a.numpy(), values)


def test_what_has_no_native_form_runs_too():
    """Assertions, strided copies, fills with a value; in their place between the others."""
    x, v = state()
    every = sim.zeros(40, dtype=sim.vec3)[::2]
    with sim.capture() as graph:
        sim.launch(advance, 20, [x, v, 0.1])
        sim.launch(checked, 20, [x])
        sim.copy(every, x)
        v.fill_(2.0)
        sim.launch(advance, 20, [x, v, 0.1])
    assert not is_native(graph)
    want = [a.numpy().copy() for a in (x, v, every)]
    for a, start in zip((x, v), state(), strict=True):
        a.assign(start)
    graph.replay()
    for a, values in zip((x, v, every), want, strict=True):
        np.testing.assert_array_equal(a.numpy(), values)
    x.fill_(1e7)
    with pytest.raises(sim.KernelFault, match="assertion failed"):
        graph.replay()


def test_a_gradient_is_captured_with_its_tape():
    """Overwritten values, copies and a write from the host: forward and backward are replayed on new data."""
    x, v = state(requires_grad=True)
    start = x.numpy().copy(), v.numpy().copy()
    mean, tape = sim.zeros_like(x), sim.Tape()
    with sim.capture() as forward, tape:
        for _ in range(3):
            sim.launch(advance, 20, [x, v, 0.1])
        sim.copy(mean, x)
        v.zero_()
        sim.launch(advance, 20, [x, v, 0.3])
    with sim.capture() as backward:
        tape.sweep()
    assert is_native(forward) and is_native(backward)
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=(2, 20, 3)).astype(np.float32)
    for scale in (1.0, -2.0):
        for a, values in zip((x, v), start, strict=True):
            a.assign(scale * values)
        forward.replay()
        for a in (x, v, mean):
            a.grad.zero_()
        x.grad.assign(weights[0])
        mean.grad.assign(weights[1])
        backward.replay()
        found = x.grad.numpy().copy(), v.grad.numpy().copy()
        again = [sim.array(scale * values, dtype=sim.vec3, requires_grad=True) for values in start]
        other = sim.zeros_like(again[0])
        with sim.Tape() as plain:
            for _ in range(3):
                sim.launch(advance, 20, [*again, 0.1])
            sim.copy(other, again[0])
            again[1].zero_()
            sim.launch(advance, 20, [*again, 0.3])
        plain.backward(
            grads={again[0]: sim.array(weights[0], dtype=sim.vec3), other: sim.array(weights[1], dtype=sim.vec3)}
        )
        for a, b in zip(found, again, strict=True):
            np.testing.assert_array_equal(a, b.grad.numpy())


def test_joined_graphs_do_one_after_the_other():
    x, v = state()
    with sim.capture() as one:
        sim.launch(advance, 20, [x, v, 0.1])
    with sim.capture() as two:
        v.zero_()
    three = joined([one, two, one])
    assert len(three) == 3 and is_native(three)
    plain = state()
    for a, start in zip((x, v), plain, strict=True):
        a.assign(start)
    three.replay()
    sim.launch(advance, 20, [*plain, 0.1])
    plain[1].zero_()
    sim.launch(advance, 20, [*plain, 0.1])
    np.testing.assert_array_equal(x.numpy(), plain[0].numpy())


def test_a_replay_is_a_write():
    """A tape that has recorded saves what a replay overwrites, and derived data is known to be out of date."""
    x, v = state(requires_grad=True)
    with sim.capture() as graph:
        x.zero_()
    x.assign(state()[0])
    out = sim.zeros_like(x)
    with sim.Tape() as tape:
        sim.launch(square, 20, [x], [out])
    version = x.buffer.version
    graph.replay()
    assert x.buffer.version > version
    tape.backward(grads={out: sim.ones_like(out)})
    np.testing.assert_array_equal(x.grad.numpy(), 2 * state()[0].numpy())


@sim.kernel
def square(x: sim.array[sim.vec3], out: sim.array[sim.vec3]):
    i = sim.tid()
    out[i] = sim.cw_mul(x[i], x[i])


@pytest.mark.parametrize("count", [2, 5])
def test_threads_share_the_rows_of_a_graph(count, monkeypatch):
    """Many short launches, some of which must not be split: the bits of one thread, over and over."""
    monkeypatch.setattr(threads, "LEAST", 64)
    monkeypatch.setattr(threads, "WORTH", 0)
    n, found = 3001, []
    for used in (1, count):
        before = sim.get_num_threads()
        sim.set_num_threads(used)
        try:
            x, v = state(n)
            total = sim.zeros(1, dtype=sim.vec3)
            with sim.capture() as graph:
                for _ in range(10):
                    sim.launch(advance, n, [x, v, 0.01])
                    sim.launch(summed, n, [x], [total])
            for _ in range(20):
                graph.replay()
            found.append([a.numpy().copy() for a in (x, v, total)])
        finally:
            sim.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@sim.kernel
def summed(x: sim.array[sim.vec3], out: sim.array[sim.vec3]):
    sim.atomic_add(out, 0, x[sim.tid()])


def test_a_replay_under_a_tape_is_refused_where_a_gradient_passes_through_it():
    """Its launches are not recorded; what has nothing to do with gradients may be replayed."""
    x, v = state(5)
    x.requires_grad = v.requires_grad = True
    with sim.capture() as graph:
        sim.launch(advance, 5, [x, v, 0.01])
    with sim.Tape(), pytest.raises(sim.GradientError, match="captured graph is replayed under an open tape"):
        graph.replay()
    plain, out, wanted = (
        sim.zeros(5, dtype=sim.vec3),
        sim.zeros(1, dtype=sim.vec3),
        sim.zeros(1, dtype=sim.vec3, requires_grad=True),
    )
    with sim.capture() as clears:
        plain.zero_()
    with sim.capture() as sums:
        sim.launch(summed, 5, [x], [out])
    with sim.Tape():
        clears.replay()
        sim.launch(summed, 5, [plain], [wanted])
        sums.replay()
        with pytest.raises(sim.GradientError, match="written as the result of a replayed graph"):
            sim.launch(summed, 1, [out], [wanted])


def test_a_gradient_that_was_replaced_since_a_capture_is_an_error():
    """The graph would add to the one that nobody looks at any more."""
    x, out = state(requires_grad=True)[0], sim.zeros(20, dtype=sim.vec3, requires_grad=True)
    with sim.Tape() as tape, sim.capture() as graph:
        sim.launch(square, 20, [x], [out])
    weights = sim.ones_like(out)
    with sim.capture() as back:
        tape.backward(grads={out: weights})
    for g in (graph, back):
        g.replay()
    x.grad = None
    graph.replay()
    with pytest.raises(sim.GradientError, match="got another gradient"):
        back.replay()


@sim.kernel
def scaled(x: sim.array[sim.vec3], by: sim.array[float]):
    i = sim.tid()
    x[i] = by[0] * x[i] + sim.cw_mul(x[i], x[i])


def test_a_forward_pass_that_was_replayed_with_other_values_is_refused_by_its_tape():
    """Unless all that the tape has kept was kept by the graph too."""
    x, by = state(requires_grad=True)[0], sim.array([2.0], requires_grad=True)
    weights = sim.ones_like(x, requires_grad=False)
    start = x.numpy().copy()
    with sim.Tape() as tape, sim.capture() as graph:
        for _ in range(2):
            sim.launch(scaled, 20, [x], [by])
    x.assign(start)
    graph.replay()
    tape.backward(grads={x: weights})
    want = by.grad.numpy().copy()
    tape.zero()
    by.fill_(3.0)  # the tape keeps the 2
    graph.replay()
    with pytest.raises(sim.GradientError, match="a graph has replayed the forward pass"):
        tape.backward(grads={x: weights})
    assert want[0] != 0.0
