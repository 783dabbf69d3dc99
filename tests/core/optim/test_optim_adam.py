"""Adam and SGD: the published formulas, arrays of ours and of NumPy, refusals, and resuming to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.optim import SGD, Adam, Descent


class Array:
    """What the optimisers ask of an array: a view as NumPy, and a write that a tape can see."""

    def __init__(self, values):
        self._values = np.array(values, dtype=np.float32)
        self.writes = 0

    def numpy(self):
        return self._values

    def assign(self, values):
        assert values.dtype == self._values.dtype and values.shape == self._values.shape
        self.writes += 1
        self._values[...] = values


def adam_by_hand(x, gradients, lr, b1, b2, eps):
    """Scalar Adam in plain Python, from algorithm 1 of the paper."""
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        x -= lr * (m / (1 - b1**t)) / ((v / (1 - b2**t)) ** 0.5 + eps)
    return x


def test_adam_follows_the_paper():
    gradients = [0.3, -1.2, 4.0, 1e-6, 0.0, 2.5]
    x = np.array([1.5])
    optimizer = Adam([x], lr=0.07, betas=(0.8, 0.95), eps=1e-6)
    for g in gradients:
        optimizer.step([np.array([g])])
    assert x[0] == pytest.approx(adam_by_hand(1.5, gradients, 0.07, 0.8, 0.95, 1e-6), rel=1e-14)


def test_defaults_are_warps():
    optimizer = Adam([np.zeros(1)])
    assert (optimizer.lr, optimizer.betas, optimizer.eps) == (0.001, (0.9, 0.999), 1e-8)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1.0 - 0.1 * 1, 1.0 - 0.1 * 1 - 0.1 * 2]),
        ({"momentum": 0.5}, [0.9, 0.9 - 0.1 * 2.5]),
        ({"momentum": 0.5, "dampening": 0.25}, [0.9, 0.9 - 0.1 * (0.5 + 0.75 * 2)]),
        ({"momentum": 0.5, "nesterov": True}, [1 - 0.1 * 1.5, 0.85 - 0.1 * (2 + 0.5 * 2.5)]),
        ({"weight_decay": 0.5}, [1 - 0.1 * 1.5, 0.85 - 0.1 * (2 + 0.5 * 0.85)]),
    ],
)
def test_sgd(settings, expected):
    x = np.array([1.0])
    optimizer = SGD([x], lr=0.1, **settings)
    for g, want in zip([1.0, 2.0], expected, strict=True):
        optimizer.step([np.array([g])])
        assert x[0] == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("rule", [Adam, SGD])
def test_arrays_of_ours_are_written_through_assign(rule):
    """A vector array (trailing axis) and a scalar one, gradients as arrays of ours or NumPy; the numbers of NumPy."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=2).astype(np.float32)
    ours, plain = [Array(a), Array(b)], [a.copy(), b.copy()]
    first, second = rule(ours, lr=0.1), rule(plain, lr=0.1)
    for _ in range(3):
        ga, gb = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=2)
        first.step([Array(ga), gb])
        second.step([ga, gb])
    assert [p.writes for p in ours] == [3, 3]
    assert all(np.array_equal(p.numpy(), q) for p, q in zip(ours, plain, strict=True))
    assert not np.array_equal(ours[0].numpy(), a)


def test_half_precision_keeps_small_steps():
    """Averages of half-precision parameters are in single precision: 1e-5 squared is zero in half precision."""
    x = np.ones(1, dtype=np.float16)
    optimizer = Adam([x], lr=0.01)
    optimizer.step([np.array([1e-5], dtype=np.float16)])
    assert x[0] == pytest.approx(0.99, abs=1e-3)


def test_the_averages_are_arrays_that_may_be_read_and_written():
    """`m` and `v` are over the memory that a step changes; setting the same parameters again leaves them."""
    x = sim.array([[1.0, 2.0, 3.0]], dtype=sim.vec3)
    optimizer = Adam([x], lr=0.5, betas=(0.5, 0.75))
    m, v = optimizer.m[0], optimizer.v[0]
    assert m.dtype is sim.vec3 and m.shape == (1,)
    optimizer.step([np.array([[2.0, -4.0, 0.0]])])
    assert m.numpy().tolist() == [[1, -2, 0]] and v.numpy().tolist() == [[1, 4, 0]]
    optimizer.set_params([x])
    assert optimizer.m[0] is m and m.numpy()[0, 0] == 1 and optimizer.t == 1
    m.zero_()
    optimizer.step([np.zeros((1, 3))])
    assert m.numpy().tolist() == [[0, 0, 0]] and v.numpy().tolist() == [[0.75, 3, 0]]
    optimizer.set_params([sim.zeros(2, dtype=sim.float16)])
    assert optimizer.t == 0 and optimizer.m[0].dtype is sim.float32 and optimizer.m[0].list() == [0, 0]


@pytest.mark.parametrize(
    ("grads", "error", "words"),
    [
        ([], ValueError, "0 gradients for 1 parameters"),
        ([None], ValueError, r"grads\[0\] is None.*requires_grad"),
        ([np.ones(3)], ValueError, r"must match parameter shape \(2,\), got \(3,\)"),
        ([np.array([1.0, np.nan])], FloatingPointError, r"grads\[0\] has 1 non-finite"),
    ],
)
def test_a_refused_step_changes_nothing(grads, error, words):
    x = np.ones(2)
    optimizer = Adam([x], lr=0.1)
    optimizer.step([np.array([1.0, -1.0])])
    x_before, state = x.copy(), optimizer.state_dict()
    with pytest.raises(error, match=words):
        optimizer.step(grads)
    assert np.array_equal(x, x_before)
    assert all(np.array_equal(state[key], value) for key, value in optimizer.state_dict().items())


def test_wrong_parameters():
    with pytest.raises(TypeError, match="pass a list"):
        Adam(np.ones(3))
    with pytest.raises(TypeError, match=r"params\[0\] holds int64"):
        Adam([np.ones(3, dtype=np.int64)])
    with pytest.raises(TypeError, match=r"params\[1\] is a list"):
        Adam([np.ones(3), [1.0]])
    with pytest.raises(ValueError, match="lr = 0"):
        Adam([np.ones(3)], lr=0)
    with pytest.raises(ValueError, match="nesterov"):
        SGD([np.ones(3)], nesterov=True)


@pytest.mark.parametrize(("rule", "settings"), [(Adam, {}), (SGD, {"momentum": 0.9})])
def test_state_round_trip_is_exact(rule, settings):
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(20, 5)).astype(np.float32)
    x, y = np.ones(5, dtype=np.float32), np.ones(5, dtype=np.float32)
    whole, first = rule([x], lr=0.1, **settings), rule([y], lr=0.1, **settings)
    for g in gradients:
        whole.step([g])
    for g in gradients[:9]:
        first.step([g])
    saved, z = {key: np.array(item) for key, item in first.state_dict().items()}, y.copy()
    first.step([gradients[0]])  # what was saved must not share its memory
    second = rule([z], lr=0.5, **settings)
    second.load_state_dict(saved)
    for g in gradients[9:]:
        second.step([g])
    assert z.tobytes() == x.tobytes()


def test_state_of_other_parameters_is_refused():
    state = Adam([np.ones(3)]).state_dict()
    with pytest.raises(ValueError, match="belongs to other parameters"):
        Adam([np.ones(4)]).load_state_dict(state)


def bowl(x):
    return float(np.sum((x - 3) ** 2)), 2 * (x - 3)


@pytest.mark.parametrize(("rule", "settings"), [(Adam, {"lr": 0.3}), (SGD, {"lr": 0.1, "momentum": 0.5})])
def test_descent_reaches_the_minimum_or_the_bound(rule, settings):
    for upper, expected in ((None, 3.0), (2.0, 2.0)):
        search = Descent(rule, **settings)
        search.begin(bowl, np.zeros(2), (None, upper))
        for _ in range(300):
            assert search.step(bowl).evaluations == 1
        assert np.allclose(search.x, expected, atol=1e-3)
        assert search.stationarity() < 1e-2


def test_descent_backs_off_from_non_finite_values():
    """Beyond 3.2 nothing is defined; a rate of 2 jumps there."""

    def cliff(x):
        return bowl(x) if x[0] < 3.2 else (float("nan"), np.full(1, np.nan))

    search = Descent(Adam, lr=2.0)
    search.begin(cliff, [2.0])
    counts = [search.step(cliff).evaluations for _ in range(100)]
    assert max(counts) > 1 and search.x[0] == pytest.approx(3.0, abs=0.05)


def test_descent_gives_up():
    search = Descent(Adam, lr=1.0, retries=4)
    search.begin(bowl, [0.0])
    step = search.step(lambda x: (float("inf"), x))
    assert (step.stopped, step.evaluations) == ("non_finite", 5)
    assert np.array_equal(search.x, [0.0])


@pytest.mark.parametrize("rule", [Adam, SGD])
def test_a_step_asks_for_parameters_and_for_gradients_of_floats(rule):
    with pytest.raises(RuntimeError, match="parameters must be set before calling step"):
        rule().step([])
    with pytest.raises(TypeError, match=r"grads\[0\]: .* must match parameter dtype float64, got int64"):
        rule([np.zeros(2)]).step([np.zeros(2, np.int64)])


@sim.kernel
def add_squares(x: sim.array[float], aim: sim.array[float], loss: sim.array[float]):
    i = sim.tid()
    sim.atomic_add(loss, 0, (x[i] - aim[i]) ** 2.0)


@pytest.mark.parametrize("make", [lambda p: Adam(p, lr=0.1), lambda p: SGD(p, lr=0.1, momentum=0.9)])
def test_a_captured_step_is_a_step_at_each_replay(make):
    def search(captured: bool) -> tuple[np.ndarray, int]:
        x, aim = (sim.array(v, dtype=float, requires_grad=True) for v in ([1.0, -2.0, 3.0], [0.0, 0.0, 0.0]))
        loss, rule = sim.zeros(1, dtype=float, requires_grad=True), make([x])

        def step() -> None:
            loss.zero_()
            with sim.Tape() as tape:
                sim.launch(add_squares, 3, [x, aim, loss])
            tape.backward(loss)
            rule.step([x.grad])
            tape.zero()

        if captured:
            with sim.ScopedCapture() as capture:
                step()
            assert rule.t == 0
            np.testing.assert_array_equal(x.numpy(), [1.0, -2.0, 3.0])
        for k in range(8):
            if k == 4:
                aim.assign([1.0, 1.0, 1.0])
                rule.lr = 0.05
            sim.capture_launch(capture.graph) if captured else step()
        return x.numpy().copy(), rule.t

    (plain, steps), (replayed, replays) = search(False), search(True)
    np.testing.assert_array_equal(replayed, plain)
    assert replays == steps == 8


def test_a_captured_step_takes_arrays_of_ours():
    x = sim.zeros(2, dtype=float)
    with pytest.raises(RuntimeError, match=r"inside of a capture takes sim arrays"), sim.ScopedCapture():
        SGD([x]).step([np.zeros(2, np.float32)])
