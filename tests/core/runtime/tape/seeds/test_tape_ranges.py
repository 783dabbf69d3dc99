"""Slices of one array: whose a gradient is, what is cleared and what is a seed, is known by ranges."""

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.kernels import square, square_in_place, total, zeros

import sim
from sim.core.runtime.memory.spans import Spans

f64 = sim.float64


def sum_of_squares(part: sim.array) -> tuple[sim.Tape, sim.array]:
    """A tape of sum(part^2), whose gradient is 2 part."""
    y, out = zeros(part.size), zeros(1)
    with sim.Tape() as tape:
        sim.launch(square, part.size, [part], [y])
        sim.launch(total, part.size, [y], [out])
    return tape, out


def views(seed: int) -> list[sim.array]:
    """Views of a buffer of 60 numbers, in one to three dimensions, some strided, some reversed."""
    rng, base = np.random.default_rng(seed), sim.zeros((3, 4, 5), dtype=f64)
    made = [base, base.flatten()]
    for _ in range(30):
        a = made[rng.integers(len(made))]
        key = tuple(slice(*sorted(rng.integers(0, n + 1, 2)), int(rng.integers(1, 3))) for n in a.shape)
        a = a[key]
        made.append(a.transpose() if rng.random() < 0.3 else a[::-1] if rng.random() < 0.3 else a)
    return made


def test_the_bytes_of_a_view_are_those_of_its_elements():
    print("seeds 0..4")
    for seed in range(5):
        for a in views(seed):
            touched = np.zeros(60, bool)
            index = sim.array(np.arange(60.0), dtype=f64)
            picked = np.ndarray(a.shape, np.float64, index.numpy(), a.offset, a.strides) if a.size else np.zeros(0)
            touched[picked.astype(int).ravel()] = True
            wanted = Spans.union((8 * k, 8 * k + 8) for k in np.flatnonzero(touched))
            assert Spans.of(a) == wanted, (a.shape, a.strides, a.offset)


def test_sets_of_bytes_are_those_of_python():
    rng = np.random.default_rng(0)

    def some() -> Spans:
        return Spans.union(
            (int(k), int(k + n)) for k, n in zip(rng.integers(0, 60, 4), rng.integers(0, 9, 4), strict=True)
        )

    def bytes_of(spans: Spans) -> set[int]:
        return {k for low, high in spans.runs for k in range(low, high)}

    for _ in range(500):
        a, b = some(), some()
        assert [bytes_of(c) for c in (a | b, a & b, a - b)] == [
            bytes_of(a) | bytes_of(b),
            bytes_of(a) & bytes_of(b),
            bytes_of(a) - bytes_of(b),
        ]
        assert (a - b) | (a & b) == a and a.shifted(8).shifted(-8) == a


def test_zero_clears_what_the_tape_has_to_do_with_and_not_its_neighbours():
    p = array(np.arange(1.0, 7.0))
    first, out = sum_of_squares(p[:3])
    second, out2 = sum_of_squares(p[2:5])
    p[5:].grad.fill_(7.0)
    first.backward(out)
    second.backward(out2)
    np.testing.assert_array_equal(p.grad.numpy(), [2, 4, 12, 8, 10, 7])
    first.zero()
    np.testing.assert_array_equal(p.grad.numpy(), [0, 0, 0, 8, 10, 7])
    assert out.grad.numpy()[0] == 0 and out2.grad.numpy()[0] == 1
    second.reset()
    np.testing.assert_array_equal(p.grad.numpy(), [0, 0, 0, 0, 0, 7])


def test_zero_of_columns_leaves_the_others():
    p = array(np.arange(1.0, 13.0).reshape(4, 3))
    p.grad.fill_(1.0)
    with sim.Tape() as tape:
        q = sim.clone(p[:, 1])
    tape.backward(grads={q: np.ones(4)})
    np.testing.assert_array_equal(p.grad.numpy(), np.tile([1.0, 2.0, 1.0], (4, 1)))
    tape.zero()
    np.testing.assert_array_equal(p.grad.numpy(), np.tile([1.0, 0.0, 1.0], (4, 1)))


@pytest.mark.parametrize(
    "write", ["fill", "launch", "recorded launch", "copy", "numpy", "numpy view from before", "adjoint launch"]
)
def test_a_seed_in_one_slice_makes_no_seed_of_older_results_beside_it(write):
    y = zeros(6)
    x = array([1.0, 2.0, 3.0])
    old, _ = sum_of_squares(y)
    old.backward(grads={y: np.full(6, 5.0)})  # y.grad is 5 everywhere: a result of an earlier tape
    view = y.grad.numpy() if "before" in write else None
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y[:3]])
        sim.launch(square, 3, [x], [y[3:]])
    target = y.grad[3:]
    ones = sim.array(np.ones(3), dtype=f64)
    if write == "fill":
        target.fill_(1.0)
    elif write == "launch":
        sim.launch(square, 3, [ones], [target])
    elif write == "recorded launch":
        command = sim.launch(square, 3, [ones], [target], record_cmd=True)
        command.launch()
        command.launch()
    elif write == "copy":
        target.assign(ones)
    elif write == "adjoint launch":
        target.zero_()
        half, weights = sim.array(np.full(3, 0.5), dtype=f64), sim.array(np.ones(3), dtype=f64)
        sim.launch(square, 3, [half], [ones], adj_inputs=[target], adj_outputs=[weights], adjoint=True)
    else:
        (y.grad.numpy() if view is None else view)[3:] = 1.0
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(y.grad.numpy(), [5, 5, 5, 0, 0, 0])


def test_a_replayed_graph_that_writes_a_slice_of_a_gradient():
    x, y = array([1.0, 2.0, 3.0]), zeros(6)
    old, _ = sum_of_squares(y)
    old.backward(grads={y: np.full(6, 5.0)})
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y[:3]])
        sim.launch(square, 3, [x], [y[3:]])
    with sim.capture() as graph:
        y.grad[4:5].fill_(1.0)
        y.grad[3:5].fill_(1.0)
    old.zero()
    old.backward(grads={y: np.full(6, 5.0)})
    graph.replay()
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [10 * 0 + 2, 4, 0])


def test_gradients_of_several_arrays_in_one_flat_vector():
    g = sim.zeros(6, dtype=f64)
    a, b = array([1.0, 2.0]), array([3.0, 4.0, 5.0])
    a.grad, b.grad = g[:2], g[3:]
    tape, out = sum_of_squares(a)
    other, out2 = sum_of_squares(b)
    tape.backward(out)
    other.backward(out2)
    tape.backward(out)
    np.testing.assert_array_equal(g.numpy(), [4, 8, 0, 6, 8, 10])
    tape.zero()
    np.testing.assert_array_equal(g.numpy(), [0, 0, 0, 6, 8, 10])


def test_arrays_with_one_gradient_may_be_read_but_not_written():
    a, b = array([1.0, 2.0]), array([3.0, 4.0])
    b.grad = a.grad
    y, out = zeros(2), zeros(1)
    with sim.Tape() as tape:
        for x in (a, b):
            sim.launch(square, 2, [x], [y])
            sim.launch(total, 2, [y], [out])
    tape.backward(out)
    np.testing.assert_array_equal(a.grad.numpy(), [8, 12])  # tied weights
    with sim.Tape() as tape:
        sim.launch(square_in_place, 2, outputs=[a])
        sim.launch(total, 2, [a], [out])
        sim.launch(total, 2, [b], [out])
    with pytest.raises(sim.GradientError, match="the same gradient memory"):
        tape.backward(out)


@pytest.mark.parametrize("seed", range(6))
def test_random_training_loops_over_slices_of_one_vector(seed):
    """Many tapes read slices of one vector of parameters; the gradient there is kept as a ledger beside."""
    print("seed", seed)
    rng, n = np.random.default_rng(seed), 12
    values = rng.normal(size=n)
    p, ledger = array(values), np.zeros(n)
    tapes: list[tuple[sim.Tape, sim.array, slice]] = []

    def part() -> slice:
        start, stop = sorted(rng.integers(0, n + 1, 2))
        return slice(int(start), int(max(stop, start + 1)), int(rng.integers(1, 3))) if start < n else slice(0, n)

    for _ in range(60):
        kind, where = rng.integers(7), part()
        if kind == 0 or not tapes:
            tape, out = sum_of_squares(p[where])
            tapes.append((tape, out, where))
            continue
        tape, out, where_tape = tapes[rng.integers(len(tapes))]
        if kind in (1, 2):
            tape.backward(out)
            ledger[where_tape] += 2 * values[where_tape]
        elif kind == 3:
            tape.zero()
            ledger[where_tape] = 0.0
        elif kind == 4:
            c = float(rng.normal())
            p.grad[where].fill_(c)
            ledger[where] = c
        elif kind == 5:
            c = float(rng.normal())
            p.grad.numpy()[where] += c
            ledger[where] += c
        else:
            p.grad[where].zero_()
            ledger[where] = 0.0
        np.testing.assert_allclose(p.grad.numpy(), ledger, rtol=1e-13, atol=1e-13)
