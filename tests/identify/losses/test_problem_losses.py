"""Terms of a loss against NumPy, their gradients against differences."""

import math

import numpy as np
import pytest

import sim
from sim.core.lang.types import float64, vector
from sim.identify.data.experiments import Experiment, Markers, Target, TimeGrid
from sim.identify.losses.terms import Match, Prior, Reach, Smooth
from sim.identify.parameters.transforms import make_transform

SCHEDULE = TimeGrid(frames=6, fps=10.0, substeps=2)
POINTS = np.array([1, 3, 4], np.int32)
NOISE = 0.05


@pytest.fixture(scope="module")
def model():
    builder = sim.ModelBuilder()
    builder.add_particles(np.zeros((5, 3)), 1.0)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def example(seed=0, unseen=0.3):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(6, 5, 3))
    target = q[:, POINTS] + NOISE * rng.normal(size=(6, 3, 3))
    target[rng.random((6, 3)) < unseen] = np.nan
    return q, Target(target, NOISE)


def launch(model, term, q, target, gradient=False):
    experiment = Experiment("one", SCHEDULE, targets={"m": target})
    ready = term.prepare(model, {"m": Markers("m", "particles", POINTS)}, experiment)
    positions = sim.array(q, dtype=vector(3, float64), requires_grad=gradient)
    out = sim.zeros(2, dtype=float64, requires_grad=gradient)
    if not gradient:
        ready.launch(positions, out, 1)
        return out.numpy()[1]
    with sim.Tape() as tape:
        ready.launch(positions, out, 1)
    tape.backward(grads={out: sim.array([0.0, 1.0], dtype=float64)})
    return positions.grad.numpy().copy()


def in_numpy(term, q, target):
    """The definition, with loops."""
    frames = SCHEDULE.frames_at(term.at)
    x, values = q[:, POINTS], []
    for m in range(x.shape[1]):
        seen = [k for k in frames if target.seen[k, m]]
        for k in seen:
            r = (x[k, m] - target.positions[k, m]) / term_noise(term)
            if term.compare == "displacement":
                if k == seen[0]:
                    continue
                r = r - (x[seen[0], m] - target.positions[seen[0], m]) / NOISE
            if term.compare == "velocity":
                if k == 0 or not target.seen[k - 1, m]:
                    continue
                r = r - (x[k - 1, m] - target.positions[k - 1, m]) / term_noise(term)
            small = np.abs(r) <= term.huber
            tail = 0.0 if math.isinf(term.huber) else term.huber * (2 * np.abs(r) - term.huber)
            values.append(np.where(small, r * r, tail))
    return np.mean(values)


def term_noise(term):
    return NOISE * (math.sqrt(2) if term.compare == "velocity" else 1)


TERMS = [
    Match("m", markers="m"),
    Match("m", markers="m", huber=0.7),
    Match("m", markers="m", at="last"),
    Match("m", markers="m", at=(0.2, 0.5)),
    Match("m", markers="m", compare="displacement"),
    Match("m", markers="m", compare="displacement", huber=1.5),
    Match("m", markers="m", compare="velocity"),
]


@pytest.mark.parametrize("term", TERMS, ids=lambda t: f"{t.compare}-{t.at}-{t.huber}")
def test_match_is_its_definition(model, term):
    q, target = example()
    assert launch(model, term, q, target) == pytest.approx(in_numpy(term, q, target), rel=1e-12)


@pytest.mark.parametrize(
    "term",
    [*TERMS, Reach("r", markers="m", point=(1.0, 2.0, 3.0), at=0.3, scale=0.5)],
    ids=lambda t: f"{type(t).__name__}-{getattr(t, 'compare', '')}-{t.at}",
)
def test_gradient_is_that_of_differences(model, term):
    q, target = example()
    gradient = launch(model, term, q, target, gradient=True)
    assert np.abs(gradient).max() > 0
    for index in np.ndindex(q.shape):
        ends = []
        for h in (1e-6, -1e-6):
            moved = q.copy()
            moved[index] += h
            ends.append(launch(model, term, moved, target))
        assert gradient[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=2e-6 * np.abs(gradient).max())


def test_noise_alone_gives_one(model):
    rng = np.random.default_rng(1)
    q = rng.normal(size=(6, 5, 3))
    for compare in ("position", "velocity"):
        values = [
            launch(
                model,
                Match("m", markers="m", compare=compare),
                q,
                Target(q[:, POINTS] + NOISE * rng.normal(size=(6, 3, 3)), NOISE),
            )
            for _ in range(100)
        ]
        assert np.mean(values) == pytest.approx(1.0, abs=0.06)


def test_reach(model):
    q, target = example()
    found = launch(model, Reach("r", markers="m", point=(1.0, 2.0, 3.0), scale=0.5), q, target)
    assert found == pytest.approx(((q[-1, POINTS].mean(axis=0) - [1, 2, 3]) ** 2).sum() / 0.25)


def test_nothing_to_compare_is_an_error(model):
    q, _ = example()
    nowhere = Target(np.full((6, 3, 3), np.nan), NOISE)
    with pytest.raises(ValueError, match="no marker of `m` is seen"):
        launch(model, Match("m", markers="m"), q, nowhere)
    with pytest.raises(ValueError, match="no frame lies between 0.61 s and 0.69 s"):
        SCHEDULE.frames_at((0.61, 0.69))


def check_penalty(term, values):
    """Its gradient against differences, its residuals against its value."""
    value, gradients = term.value_and_grad(values)
    assert term.residuals(values).loss == pytest.approx(value)
    for name, p in values.items():
        assert gradients[name].shape == p.shape
        for index in np.ndindex(p.shape):
            ends = []
            for h in (1e-6, -1e-6):
                moved = p.copy()
                moved[index] += h
                ends.append(term.value_and_grad({**values, name: moved})[0])
            assert gradients[name][index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-9)
    return value


def test_prior():
    for prior in (Prior("p", parameter="p", value=2.0, factor=10.0), Prior("p", parameter="p", value=2.0, sd=0.5)):
        p = np.array([1.0, 3.0])
        r = np.log(p / 2) / np.log(10) if prior.factor else (p - 2) / 0.5
        assert check_penalty(prior, {"p": p}) == pytest.approx(np.mean(r**2))


@pytest.mark.parametrize(("kind", "show"), [
    ("none", lambda p: p), ("log", np.log), ("logit", lambda p: np.log((p - 0.1) / (9 - p))),
])  # fmt: skip
def test_smooth(kind, show):
    pairs = np.array([[0, 1], [1, 2], [0, 3]])
    p = np.array([1.0, 3.0, 4.0, 0.5, 2.0])
    term = Smooth("s", transforms={"p": make_transform(kind, p, (0.1, 9), 0.7)}, pairs=pairs, sd=0.3)
    v = show(p)
    wanted = np.mean([((v[i] - v[j]) / 0.3) ** 2 for i, j in pairs])
    assert check_penalty(term, {"p": p}) == pytest.approx(wanted)
    one = make_transform(kind, 1.0, (0.1, 9), 0.7)
    apart = Smooth("s", transforms={f"p.{k}": one for k in range(4)}, pairs=pairs, sd=0.3)
    assert check_penalty(apart, {f"p.{k}": np.asarray(p[k]) for k in range(4)}) == pytest.approx(wanted)
    x = np.random.default_rng(0).uniform(0.5, 8, size=(4, 3))
    wanted = np.mean([((show(x)[i] - show(x)[j]) / 0.3) ** 2 for i, j in pairs])
    assert check_penalty(Smooth("s", transforms={"x": one}, pairs=pairs, sd=0.3), {"x": x}) == pytest.approx(wanted)
