"""What happens to the arrays of a tape after it has recorded, and before it goes back."""

import threading

import numpy as np
import pytest
from tools.tapes.kernels import square

import sim

f64 = sim.float64


class Chain:
    """z = x^4 on a tape, at x = 1, 2."""

    def __init__(self, **options):
        self.x = sim.array([1.0, 2.0], dtype=f64, requires_grad=True)
        self.y, self.z = (sim.zeros(2, dtype=f64, requires_grad=True) for _ in range(2))
        self.again = sim.launch(square, 2, inputs=[self.z], outputs=[self.x], record_cmd=True)
        self.tape = sim.Tape(**options)
        with self.tape:
            self.forward()

    def forward(self):
        sim.launch(square, 2, inputs=[self.x], outputs=[self.y])
        sim.launch(square, 2, inputs=[self.y], outputs=[self.z])

    def gradient(self):
        self.tape.backward(grads={self.z: sim.ones_like(self.z)})
        return self.x.grad.numpy().tolist()


def by_launch(c):
    sim.launch(square, 2, inputs=[c.z], outputs=[c.x])
    sim.launch(square, 2, inputs=[c.z], outputs=[c.y])


def by_second_tape(c):
    c.x.fill_(5.0)
    with sim.Tape():
        c.forward()


def by_rollout_buffers(c):
    sim.copy(c.y, c.x)
    c.x[0:1] = 9.0


WRITES = {
    "launch": by_launch,
    "recorded launch": lambda c: c.again.launch(),
    "fill": lambda c: (c.x.zero_(), c.y.fill_(3.0)),
    "host data": lambda c: c.x.assign([7.0, 7.0]),
    "slices and copies": by_rollout_buffers,
    "second forward on another tape": by_second_tape,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_whatever_is_written_before_backward_the_gradient_is_that_of_what_was_recorded(write):
    chain = Chain()
    write(chain)
    assert chain.gradient() == [4.0, 32.0]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_refusal_holds_after_the_tape_is_closed(write):
    chain = Chain(on_overwrite="error")
    with pytest.raises(sim.GradientError, match="overwrites"):
        write(chain)


def test_a_tape_that_is_gone_keeps_nothing():
    chain = Chain()
    buffer = chain.x.buffer
    assert len(buffer.watchers) == 1
    chain.tape.reset()
    assert not [r for r in buffer.watchers or () if r() is not None]
    chain = Chain()
    buffer = chain.x.buffer
    del chain.tape
    assert not [r for r in buffer.watchers or () if r() is not None]


def test_two_tapes_over_the_same_arrays_each_give_their_own_gradient():
    chain = Chain()
    first = chain.tape
    chain.x.assign([3.0, 0.5])
    with sim.Tape() as second:
        chain.forward()
    second.backward(grads={chain.z: sim.ones_like(chain.z)})
    np.testing.assert_allclose(chain.x.grad.numpy(), [4 * 27.0, 4 * 0.125])
    second.zero()
    first.backward(grads={chain.z: sim.ones_like(chain.z)})
    np.testing.assert_allclose(chain.x.grad.numpy(), [4.0, 32.0])


def test_a_plain_rollout_between_recording_and_backward_changes_nothing():
    def gradient(between):
        builder = sim.ModelBuilder()
        builder.add_cloth_grid(
            pos=(0, 0, 0),
            dim_x=3,
            dim_y=3,
            cell_x=0.1,
            cell_y=0.1,
            density=0.2,
            fix_top=True,
            label="s",
            material={"distance": {"compliance": 0.01, "damping": 1e-3}},
        )
        model = builder.finalize(requires_grad=True, dtype=f64)
        solver, start = sim.SolverXPBD(model, iterations=3), model.state()
        with sim.Tape() as tape:
            result = sim.rollout(solver, start, steps=8, dt=1 / 300)
        if between:
            start.particle_q.fill_(0.3)
            sim.rollout(solver, model.state(), steps=9, dt=1 / 100)
        tape.backward(grads={result.particle_q: sim.ones_like(result.particle_q)})
        return model["s.distance.compliance"].grad.numpy()[0], start.particle_q.grad.numpy().copy()

    for a, b in zip(gradient(False), gradient(True), strict=True):
        np.testing.assert_array_equal(a, b)


@sim.kernel
def weighted(x: sim.array[sim.float64], w: sim.array[sim.float64], y: sim.array[sim.float64]):
    i = sim.tid()
    s = 2.0 * x[i]
    if len(w) > 0:
        s += w[i] * x[i]
        w[i] = s
    y[i] = s * s
    x[i] = s


@pytest.mark.parametrize("given", [False, True])
def test_an_array_that_is_none_takes_no_part_in_a_gradient(given):
    x = sim.array([1.0, 2.0], dtype=sim.float64, requires_grad=True)
    w = sim.array([3.0, 4.0], dtype=sim.float64, requires_grad=True) if given else None
    y = sim.zeros(2, dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(weighted, 2, [x, w], [y])
    tape.backward(grads={y: sim.ones_like(y)})
    slope = np.array([2.0, 2.0]) + ([3.0, 4.0] if given else [0.0, 0.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * slope**2 * [1.0, 2.0])


# ------------------------------------------------------------------------------------------ what a backward starts from
def squares():
    x, y = (
        sim.array([1.0, 2.0], dtype=sim.float64, requires_grad=True),
        sim.zeros(2, dtype=sim.float64, requires_grad=True),
    )
    with sim.Tape() as tape:
        sim.launch(weighted, 2, [x, None], [y])
    return x, y, tape


def test_a_program_cut_into_two_tapes():
    """`later.backward(loss); earlier.backward()`: what the first leaves is what the second starts from; not so the
    other way round."""
    x, y, earlier = squares()
    loss = sim.zeros(1, dtype=sim.float64, requires_grad=True)
    with sim.Tape() as later:
        sim.launch(summed, 2, [y], [loss])
    later.backward(loss)
    earlier.backward()
    np.testing.assert_allclose(x.grad.numpy(), [8.0, 16.0])
    with pytest.raises(sim.GradientError, match="nothing to start from"):
        earlier.backward()
    with pytest.raises(sim.GradientError, match="nothing to start from"):
        later.backward()


@sim.kernel
def summed(y: sim.array[sim.float64], loss: sim.array[sim.float64]):
    sim.atomic_add(loss, 0, y[sim.tid()])


@pytest.mark.parametrize("start", ["filled", "filled and named", "named", "host", "list"])
def test_the_ways_to_give_weights(start):
    x, y, tape = squares()
    if start.startswith("filled"):
        y.grad.fill_(1.0)
    named = {
        "filled": None,
        "filled and named": {y: y.grad},
        "named": {y: sim.ones_like(y, requires_grad=False)},
        "host": {y: np.ones(2)},
        "list": {y: [1, 1]},
    }
    tape.backward(grads=named[start])
    np.testing.assert_allclose(x.grad.numpy(), [8.0, 16.0])


def test_weights_of_a_captured_backward_are_read_anew():
    x, y, tape = squares()
    weights = sim.ones_like(y, requires_grad=False)
    with sim.capture() as graph:
        tape.backward(grads={y: weights})
    tape.zero()
    weights.fill_(3.0)
    graph.replay()
    np.testing.assert_allclose(x.grad.numpy(), [24.0, 48.0])


def test_host_code_on_a_tape():
    """Warp's way: the code runs, then it is recorded."""
    x, y, tape = squares()
    z = sim.zeros(2, dtype=sim.float64, requires_grad=True)
    end = y.numpy().copy()
    z.assign(np.sin(end))

    def back():
        y.grad.numpy()[:] += np.cos(y.numpy()) * z.grad.numpy()
        z.grad.zero_()

    tape.record_func(back, [y, z])
    y.zero_()  # it is put back for `back`
    tape.backward(grads={z: np.ones(2)})
    np.testing.assert_allclose(x.grad.numpy(), np.cos(end) * [8.0, 16.0])


def test_threads_of_the_user_do_not_see_the_tapes_of_others():
    found = {}

    def work(k: int) -> None:
        for _ in range(100):
            x, y, tape = squares()
            tape.backward(grads={y: np.full(2, float(k))})
            found.setdefault(k, []).append(x.grad.numpy().copy())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(1, 4):
        np.testing.assert_array_equal(found[k], np.tile(np.array([8.0, 16.0]) * k, (100, 1)))


@sim.kernel
def squares_and_triples(x: sim.array[f64], y: sim.array[f64], z: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]
    z[i] = 3.0 * x[i]


class WithoutGradients(Chain):
    """y = x^2 and z = 3 x, which require no gradient."""

    def __init__(self):
        self.x = sim.array([1.0, 2.0], dtype=f64, requires_grad=True)
        self.y, self.z = (sim.zeros(2, dtype=f64) for _ in range(2))
        self.tape = sim.Tape()
        with self.tape:
            sim.launch(squares_and_triples, 2, inputs=[self.x], outputs=[self.y, self.z])


def test_results_that_are_named_in_grads_get_their_gradient_then():
    c = WithoutGradients()
    assert c.y.numpy().tolist() == [1.0, 4.0] and not c.y.requires_grad
    c.tape.backward(grads={c.z: [10.0, 1.0]})
    assert c.x.grad.numpy().tolist() == [30.0, 3.0]
    c.tape.zero()
    c.tape.backward(grads={c.y: [1.0, 1.0], c.z: [10.0, 0.0]})
    assert c.x.grad.numpy().tolist() == [2.0 + 30.0, 4.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.x.fill_(5.0),
        lambda c: c.y.fill_(5.0),
        lambda c: c.x.numpy().fill(5.0),
        lambda c: sim.launch(squares_and_triples, 2, inputs=[c.y], outputs=[c.x, c.z]),
    ],
    ids=["read", "written", "by NumPy", "by a launch"],
)
def test_where_an_array_was_written_since_it_is_too_late_for_that(write):
    c = WithoutGradients()
    write(c)
    with pytest.raises(sim.GradientError, match="'y' of kernel 'squares_and_triples'.*the gradient would be lost"):
        c.tape.backward(grads={c.y: [1.0, 1.0]})
    assert not c.y.requires_grad and c.x.grad.numpy().tolist() == [0.0, 0.0]


def test_what_follows_from_a_result_without_a_gradient_gets_none():
    c = WithoutGradients()
    with c.tape:
        c.w = sim.zeros(2, dtype=f64)
        sim.launch(square, 2, inputs=[c.y], outputs=[c.w])
    with pytest.raises(sim.GradientError, match="'y' of kernel 'squares_and_triples'.*the gradient would be lost"):
        c.tape.backward(grads={c.w: [1.0, 1.0]})
    c.tape.backward(grads={c.y: [1.0, 1.0]})
    assert c.x.grad.numpy().tolist() == [2.0, 4.0]
