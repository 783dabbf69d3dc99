"""Standard errors from residuals and derivatives that are made up: against covariances written out in matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from sim.identify.assess.estimate import estimate
from sim.identify.assess.uncertainty import (
    MOST,
    _alike_in_time,
    _notes,
    _notes_on_residuals,
    assess,
    coordinate_names,
    inverse_among,
    noise_matrix,
    residual_matrix,
)
from sim.identify.losses.jacobian import Linearised
from sim.identify.losses.residuals import Residuals, single
from sim.identify.losses.terms import Custom, Match
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import LogitTransform, LogTransform, ParameterSpace, Transform

RNG = np.random.default_rng(11)


@dataclass
class Stated:
    """What is looked at of a problem: parameters, their space and bounds, terms of the loss."""

    sought: list[Parameter]
    terms: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = ParameterSpace({p.name: p.transform for p in self.sought}, {p.name: p.start for p in self.sought})

    @property
    def bounds(self):
        return self.space.bounds()


def parameter(name, start, transform=None, experiments=()) -> Parameter:
    return Parameter(name, np.asarray(start, float), [], transform or Transform(), experiments=experiments)


def problem(**start) -> Stated:
    """Parameters without a transform, of scale 1, that start here."""
    return Stated([parameter(name, value) for name, value in start.items()])


def recorded(frames=6, markers=2, *, reference=None, weight=None, values=None, **more) -> Residuals:
    shape = (frames, markers)
    reference = np.full(shape, -1) if reference is None else reference
    weight = np.ones(shape) if weight is None else weight
    values = RNG.normal(size=(*shape, 3)) if values is None else values
    return Residuals("match", "main", values, weight, np.arange(frames), reference, "balls", **more)


def jacobian(part: Residuals, n: int) -> np.ndarray:
    return RNG.normal(size=(*part.values.shape, n))


def flat(part: Residuals, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives (residuals, n), and weights of the residuals."""
    return j.reshape(-1, j.shape[-1]), np.repeat(part.weight.ravel(), 3)


def covariance_of_noise(part: Residuals) -> np.ndarray:
    """Of the residuals: each is `share` times its observation, less that of the frame it refers to."""
    frames, markers = part.weight.shape
    rows = np.zeros((frames, markers, frames, markers))
    for f in range(frames):
        for m in range(markers):
            rows[f, m, f, m] += part.observation_noise
            if part.reference[f, m] >= 0:
                rows[f, m, part.reference[f, m], m] -= part.observation_noise
    flat_rows = rows.reshape(frames * markers, -1)
    return np.kron(flat_rows @ flat_rows.T, np.eye(3))


# ------------------------------------------------------------------------------------------------ the two accounts
CHAINS = {
    "positions": np.full((6, 2), -1),
    "displacements": np.array([[-1, -1], *[[0, 0]] * 5]),
    "steps": np.stack([np.arange(6) - 1] * 2, 1),
    "some": np.array([[-1, -1], [0, -1], [0, 1], [-1, 2], [3, -1], [4, 0]]),
}


@pytest.mark.parametrize("reference", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("share", [1.0, math.sqrt(0.5)])
def test_stated_noise_goes_through_the_derivatives(reference, share):
    part = recorded(reference=reference, weight=RNG.uniform(0.0, 2.0, (6, 2)), observation_noise=share)
    j = jacobian(part, 3)
    rows, weight = flat(part, j)
    covariance = covariance_of_noise(part)
    found, amount = noise_matrix(part, j)
    np.testing.assert_allclose(found, (weight[:, None] * rows).T @ covariance @ (weight[:, None] * rows), rtol=1e-12)
    assert amount == pytest.approx(np.trace(np.diag(weight) @ covariance), rel=1e-12)


def test_a_prior_has_noise_but_no_observations():
    part = single("prior", "", np.array([0.3, -0.2]), 0.7)
    j = RNG.normal(size=(1, 2, 1, 3))
    found, amount = noise_matrix(part, j)
    np.testing.assert_allclose(found, 0.49 * np.einsum("fmai,fmaj->ij", j, j), rtol=1e-13)
    assert amount == 0.0


@pytest.mark.parametrize("unseen", [0, 3])
def test_actual_residuals_count_with_their_correlation_over_frames(unseen):
    """sum over lags of the mean autocovariance of the residuals, times that of the weighted derivatives, take by
    take."""
    weight = RNG.uniform(0.5, 2.0, (7, 3))
    weight.ravel()[RNG.permutation(21)[:unseen]] = 0.0
    part = recorded(7, 3, weight=weight)
    part.values[weight == 0] = np.nan
    j = jacobian(part, 2)
    score = np.where(weight[..., None] > 0, part.values, 0.0).reshape(7, -1)
    y = (weight[..., None, None] * j).reshape(7, -1, 2)
    used = np.count_nonzero(weight)
    wanted = np.zeros((2, 2))
    for s in range(7):
        for t in range(7):
            lag = abs(t - s)
            alike = np.sum(score[lag:] * score[: 7 - lag]) / (3 * used)
            wanted += alike * np.einsum("mi,mj->ij", y[s], y[t])
    np.testing.assert_allclose(residual_matrix(part, j), wanted, rtol=1e-11)


def test_a_term_of_weight_0_counts_for_nothing():
    """It made the errors of all parameters nan."""
    part = recorded(7, 3, weight=np.zeros((7, 3)))
    assert not residual_matrix(part, jacobian(part, 2)).any()


def test_residuals_beyond_a_bound_count_as_the_bound():
    part = recorded(5, 1, values=np.array([3.0, -4.0, 0.5, 0.2, 9.0])[:, None, None] * np.ones((5, 1, 3)), huber=1.0)
    clipped = recorded(5, 1, values=np.clip(part.values, -1.0, 1.0))
    j = jacobian(part, 2)
    np.testing.assert_allclose(residual_matrix(part, j), residual_matrix(clipped, j), rtol=1e-13)
    kept = np.mean(np.clip(np.random.default_rng(0).normal(size=400_000), -1, 1) ** 2)
    for a, b in zip(noise_matrix(part, j), noise_matrix(clipped, j), strict=True):
        np.testing.assert_allclose(a, kept * b, rtol=5e-3)


# ------------------------------------------------------------------------------------------------ standard errors
def test_errors_of_a_linear_fit_with_a_prior():
    part, prior = recorded(40, 2, weight=np.full((40, 2), 0.1)), single("prior", "", np.array([0.4]), 3.0)
    parts, jacobians = [part, prior], [jacobian(part, 3), np.array([1.0, 0.0, 0.0]).reshape(1, 1, 1, 3)]
    found = assess(problem(a=0.5, b=[1.0, 2.0]), Linearised(np.array([0.5, 1.0, 2.0]), parts, jacobians))
    rows, weight = flat(part, jacobians[0])
    e = np.zeros((1, 3))
    e[0, 0] = 1.0
    inverse = np.linalg.inv(rows.T @ (weight[:, None] * rows) + 3.0 * e.T @ e)
    noise = (weight[:, None] * rows).T @ (weight[:, None] * rows) + 9.0 * e.T @ e
    covariance = inverse @ noise @ inverse
    deviation = np.sqrt(np.diagonal(covariance))
    assert found.by_noise["a"] == pytest.approx(deviation[0], rel=1e-12) and found.by_noise["a"].shape == ()
    np.testing.assert_allclose(found.by_noise["b"], deviation[1:], rtol=1e-12)
    np.testing.assert_allclose(found.correlation, covariance / np.outer(deviation, deviation), rtol=1e-12)
    observed, missed = np.sum(weight), np.sum(weight * part.values.ravel() ** 2)
    left = observed - np.trace(inverse @ noise)
    assert found.scatter == pytest.approx(math.sqrt(missed / left), rel=1e-12)
    actual = (residual_matrix(part, jacobians[0]) + 9.0 * e.T @ e) * observed / left
    np.testing.assert_allclose(
        found.by_residuals["b"], np.sqrt(np.diagonal(inverse @ actual @ inverse))[1:], rtol=1e-12
    )
    for name in ("a", "b"):
        np.testing.assert_array_equal(found.errors[name], np.maximum(found.by_noise[name], found.by_residuals[name]))
    assert found.names == ("a", "b[0]", "b[1]") and found.rollouts == 3


def test_errors_are_of_physical_values():
    stated = Stated(
        [
            parameter("c", 0.01, LogTransform(scale=2.0)),
            parameter("d", 3.0, Transform(scale=5.0)),
            parameter("e", 1.0, LogitTransform(0.0, 4.0)),
        ]
    )
    part = recorded(30, 2)
    j, x = jacobian(part, 3), stated.space.start
    found = assess(stated, Linearised(x, [part], [j]))
    rows, _ = flat(part, j)
    deviation = np.sqrt(np.diagonal(np.linalg.inv(rows.T @ rows)))
    assert found.by_noise["c"] == pytest.approx(0.01 * 2.0 * deviation[0], rel=1e-9)
    assert found.by_noise["d"] == pytest.approx(5.0 * deviation[1], rel=1e-9)
    assert found.by_noise["e"] == pytest.approx(4.0 * 0.25 * 0.75 * deviation[2], rel=1e-9)


def test_more_parameters_than_observations_leave_no_scatter():
    part = recorded(1, 1)
    found = assess(
        problem(a=[0.0, 1.0, 2.0]), Linearised(np.array([0.0, 1.0, 2.0]), [part], [np.eye(3).reshape(1, 1, 3, 3)])
    )
    assert math.isnan(found.scatter)
    np.testing.assert_allclose(
        found.by_residuals["a"], np.sqrt(np.diagonal(residual_matrix(part, np.eye(3).reshape(1, 1, 3, 3)))), rtol=1e-12
    )


def test_the_unit_of_the_loss_does_not_matter():
    part = recorded(30, 2)
    j = jacobian(part, 3)
    one, other = (
        assess(problem(a=[1.0, 2.0, 3.0]), Linearised(np.array([1.0, 2.0, 3.0]), [part.times(w)], [j]))
        for w in (1.0, 1e-9)
    )
    assert one.scatter == pytest.approx(other.scatter, rel=1e-9) and one.away == pytest.approx(other.away, rel=1e-9)
    for a, b in (
        (one.by_noise["a"], other.by_noise["a"]),
        (one.by_residuals["a"], other.by_residuals["a"]),
        (one.correlation, other.correlation),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert not other.unseen.any()


def test_a_coordinate_on_its_bound_is_held_and_the_others_are_as_if_it_were_known():
    stated = Stated([parameter("a", 0.5, Transform(0.0, 1.0)), parameter("b", 2.0)])
    part = recorded(30, 1)
    j = jacobian(part, 2)
    for value, held in ((1.0, True), (0.0, True), (0.9, False)):
        found = assess(stated, Linearised(np.array([value, 2.0]), [part], [j]))
        rows, _ = flat(part, j)
        alone = 1.0 / math.sqrt(np.sum(rows[:, 1] ** 2))
        both = math.sqrt(np.linalg.inv(rows.T @ rows)[1, 1])
        assert np.isnan(found.errors["a"]) == held and found.by_noise["b"] == pytest.approx(
            alone if held else both, rel=1e-12
        )
        assert np.isnan(found.correlation[0]).all() == held


def test_what_changes_nothing_is_lost_and_what_only_a_sum_changes_too():
    part = recorded(20, 1)
    j = np.zeros((20, 1, 3, 4))
    j[..., 0] = RNG.normal(size=(20, 1, 3))
    j[..., 1] = j[..., 2] = RNG.normal(size=(20, 1, 3))
    found = assess(problem(a=0.0, b=[1.0, 2.0], c=3.0), Linearised(np.array([0.0, 1.0, 2.0, 3.0]), [part], [j]))
    assert np.isfinite(found.errors["a"]) and np.isinf(found.errors["b"]).all() and np.isinf(found.errors["c"])
    rows = j.reshape(-1, 4)[:, :2]
    assert found.by_noise["a"] == pytest.approx(math.sqrt(np.linalg.inv(rows.T @ rows)[0, 0]), rel=1e-9)
    assert np.isnan(found.correlation[1:]).all() and found.correlation[0, 0] == pytest.approx(1.0)


def test_an_inverse_among_the_free_ones():
    root = RNG.normal(size=(4, 4))
    matrix = root @ root.T * np.outer([1, 1e4, 1e-4, 1], [1, 1e4, 1e-4, 1])
    free = np.array([True, True, True, False])
    inverse, lost = inverse_among(matrix, free)
    np.testing.assert_allclose(inverse[:3, :3] @ matrix[:3, :3], np.eye(3), atol=1e-7)
    assert not inverse[3].any() and not inverse[:, 3].any() and not lost.any()
    inverse, lost = inverse_among(np.zeros((2, 2)), np.array([True, False]))
    assert not inverse.any() and lost.tolist() == [True, False]


# ------------------------------------------------------------------------------------------------ numbers that follow
def test_errors_of_numbers_that_follow_from_parameters():
    stated = Stated([parameter("c", 0.5, LogTransform()), parameter("d", [1.0, 2.0], Transform(scale=2.0))])
    part = recorded(30, 2)
    j, slope = jacobian(part, 3), np.array([0.3, -1.0, 2.0])
    found = assess(stated, Linearised(stated.space.start, [part], [j], {"sag": slope, "none": np.zeros(3)}))
    rows, weight = flat(part, j)
    inverse = np.linalg.inv(rows.T @ rows)
    actual = inverse @ residual_matrix(part, j) @ inverse * 180 / (180 - 3)
    error, slopes = found.measures["sag"]
    assert error == pytest.approx(math.sqrt(max(slope @ inverse @ slope, slope @ actual @ slope)), rel=1e-9)
    assert slopes["c"] == pytest.approx(0.3 / 0.5, rel=1e-12)
    np.testing.assert_allclose(slopes["d"], [-0.5, 1.0], rtol=1e-12)
    assert found.measures["none"][0] == 0.0


def test_a_value_that_no_coordinate_moves_any_more_has_no_slope():
    """So far out that a logit stands on its bound to the last bit."""
    stated, part = Stated([parameter("e", [1.0, 1.0], LogitTransform(0.0, 4.0))]), recorded(30, 1)
    found = assess(
        stated, Linearised(np.array([0.0, 800.0]), [part], [jacobian(part, 2)], {"sag": np.array([2.0, 3.0])})
    )
    assert found.measures["sag"][1]["e"].tolist() == [2.0, 0.0] and found.by_noise["e"][1] == 0.0


def test_a_number_that_depends_on_what_is_lost_is_not_known():
    part = recorded(20, 1)
    j = np.concatenate([jacobian(part, 1), np.zeros((20, 1, 3, 1))], axis=-1)
    slopes = {"of a": np.array([2.0, 0.0]), "of b": np.array([2.0, 1.0])}
    found = assess(problem(a=1.0, b=2.0), Linearised(np.array([1.0, 2.0]), [part], [j], slopes))
    assert math.isfinite(found.measures["of a"][0]) and found.measures["of b"][0] == math.inf


def test_names_of_coordinates():
    each = ("low", "high")
    parameters = [
        parameter("a", 1.0),
        parameter("m", np.zeros((2, 2))),
        parameter("w", np.zeros(2), experiments=each),
        parameter("v", np.zeros((2, 2)), experiments=each),
    ]
    assert coordinate_names(Stated(parameters)) == (
        "a",
        "m[0, 0]",
        "m[0, 1]",
        "m[1, 0]",
        "m[1, 1]",
        "w[low]",
        "w[high]",
        "v[low, 0]",
        "v[low, 1]",
        "v[high, 0]",
        "v[high, 1]",
    )


# ------------------------------------------------------------------------------------------------ where there are none
def test_why_there_are_no_standard_errors(monkeypatch):
    match, own = Match("m", markers="balls"), Custom("own", source="mine.py:loss")
    asked = []
    monkeypatch.setattr("sim.identify.assess.estimate.linearise", lambda *args: asked.append(args) or SimpleNamespace())
    monkeypatch.setattr("sim.identify.assess.estimate.standard_errors", lambda *args: "assessed")
    stated = problem(a=1.0)
    for terms, x, words in (([], np.zeros(1), "no term of the loss compares with a recording"),
                            ([own], np.zeros(1), "no term of the loss compares"),
                            ([match, own], np.zeros(1), "`mine.py:loss` is a loss without residuals"),
                            ([match], np.zeros(MOST + 1), f"for up to {MOST} numbers, and {MOST + 1} are"),
                            ):  # fmt: skip
        stated.terms = terms
        found = estimate(stated, x, {})
        assert isinstance(found, str) and found.startswith("no standard errors: ") and words in found
    assert not asked
    stated.terms = [match]
    assert estimate(stated, np.zeros(MOST), {"main": None}, len) == "assessed" and asked[0][2:] == ({"main": None}, len)

    def breaks(*args):
        raise FloatingPointError("step 3")

    monkeypatch.setattr("sim.identify.assess.estimate.linearise", breaks)
    assert "beside the optimum the simulation breaks down (step 3)" in estimate(stated, np.zeros(1), {})


# ------------------------------------------------------------------------------------------------ words
def remarks(largest, correlation=None, lost=(), unseen=(), stated=None) -> list[str]:
    """What is said of parameters a, b, ... with these standard errors in coordinates."""
    n = len(largest)
    stated = stated or problem(**{name: 1.0 for name in "abcdef"[:n]})
    flags = [np.isin(np.arange(n), chosen) for chosen in (lost, unseen)]
    return _notes(
        stated, coordinate_names(stated), np.array(largest), np.eye(n) if correlation is None else correlation, *flags
    )


def test_what_is_poorly_known_and_what_is_not_at_all():
    notes = remarks([0.7, 0.71, 3.0, 3.1, math.nan])
    assert [note.partition(":")[0] for note in notes] == [
        "`b` is poorly known",
        "`c` is poorly known",
        "`d` is not identifiable from these recordings",
    ]
    assert notes[0].endswith("its standard error is 0.71 times its scale, or its value where that is larger")
    notes = remarks([math.inf, math.inf, 0.1], lost=(0, 1), unseen=(1,))
    assert len(notes) == 1 and notes[0].startswith(
        "`a` is not identifiable: the loss does not change along some direction that includes it"
    )


def test_a_standard_error_of_a_logarithm_is_a_factor():
    stated = Stated(
        [
            parameter("c", 1.0, LogTransform(scale=2.0)),
            parameter("d", np.ones(2), LogTransform(scale=np.array([1.0, 4.0]))),
        ]
    )
    notes = remarks([1.0, 1.0, 1e9], stated=stated)
    assert notes[0] == "`c` is poorly known: its standard error is a factor of 7.4"
    assert notes[1] == "`d[0]` is poorly known: its standard error is a factor of 55"
    assert notes[2].startswith("`d[1]` is not identifiable") and notes[2].endswith("a factor of more than a million")


def correlated(n, **pairs) -> np.ndarray:
    out = np.eye(n)
    for pair, value in pairs.items():
        i, j = ("abcdef".index(letter) for letter in pair)
        out[i, j] = out[j, i] = value
    return out


def test_pairs_that_make_each_other_uncertain():
    (note,) = remarks([0.2, 0.05], correlated(2, ab=0.96))
    assert (
        note.startswith("`a` and `b` can hardly be told apart (correlation +0.960)")
        and "by growing" in note
        and "3.6 times smaller" in note
    )
    (note,) = remarks([0.05, 0.2], correlated(2, ab=-0.99))
    assert "(correlation -0.990)" in note and "by shrinking" in note and "7.1 times smaller" in note
    assert not remarks([0.2, 0.2], correlated(2, ab=0.95)) and not remarks([0.09, 0.09], correlated(2, ab=0.99)), (
        "alike, or known well"
    )
    assert remarks([0.1, 0.01], correlated(2, ab=0.99))
    assert not remarks([0.2, math.nan], correlated(2, ab=0.99)) and not remarks([0.2, 0.2], correlated(2, ab=math.nan))
    assert len(remarks([0.2] * 4, correlated(4, ab=0.99, ac=0.5, cd=-0.97))) == 2


def test_of_parameters_with_several_numbers_the_pair_that_is_alike_most():
    stated = problem(v=[1.0, 2.0], g=[3.0, 4.0])
    (note,) = remarks([0.2] * 4, correlated(4, ac=0.96, bd=-0.98, ad=0.97), stated=stated)
    assert note.startswith("`v[1]` and `g[1]`")
    (other,) = remarks([0.2] * 4, correlated(4, ac=-0.98, bd=0.96), stated=stated)
    assert "(correlation -0.980)" in other
    notes = remarks([0.2] * 4, correlated(4, ab=0.96, cd=0.97), stated=stated)
    assert [note.partition(" can")[0] for note in notes] == ["`v[0]` and `v[1]`", "`g[0]` and `g[1]`"]


def test_what_residuals_say():
    def say(scatter, own=(1.0, 1.0), actual=(1.0, 1.0)):
        return _notes_on_residuals(_alike_in_time(np.array(own), np.array(actual), scatter), scatter)

    assert not say(0.5, actual=(0.5, 0.5)) and not say(1.0) and not say(1.0, actual=(1.4, 1.5))
    assert [note[:42] for note in say(0.4, actual=(0.4, 0.4))] == ["the residuals are only 0.4 times the state"]
    (note,) = say(1.0, actual=(1.2, 1.8))
    assert note.startswith("the residuals are alike from frame to frame") and "up to 1.8 times" in note
    assert len(say(1.0, own=(0.1, 0.1), actual=(0.1, 0.2))) == 1
    (note,) = say(2.0, actual=(3.2, 1.0))
    assert "up to 1.6 times" in note, "beyond what their size explains"
    assert not say(1.0, own=(math.inf, 0.0), actual=(math.inf, 0.0))


def test_how_far_the_search_ended_from_the_optimum():
    part = recorded(30, 1)
    j = jacobian(part, 2)
    found = assess(problem(a=1.0, b=2.0), Linearised(np.array([1.0, 2.0]), [part], [j]))
    rows, _ = flat(part, j)
    missing = np.linalg.solve(rows.T @ rows, -rows.T @ part.values.ravel())
    assert found.away == pytest.approx(
        max(abs(missing[0]) / found.errors["a"], abs(missing[1]) / found.errors["b"]), rel=1e-9
    )
    assert found.unseen.tolist() == [False, False]
    j[..., 1] = 0.0
    assert assess(problem(a=1.0, b=2.0), Linearised(np.array([1.0, 2.0]), [part], [j])).unseen.tolist() == [False, True]


def test_three_that_go_together_are_told_at_once():
    """With the change that is hardly seen: here all of them by the same factor, there one against two."""
    stated = problem(a=1.0, b=1.0, c=1.0)
    flags = np.zeros(3, bool), np.zeros(3, bool)
    one = correlated(3, ab=0.99, bc=0.98, ac=0.99)
    x = stated.space.start
    (note,) = _notes(stated, ("a", "b", "c"), np.array([0.3, 0.3, 0.3]), one, *flags, x)
    assert note.startswith("`a`, `b`, `c` can hardly be told apart") and "all of them by the same factor;" in note
    other = correlated(3, ab=-0.99, bc=0.98, ac=-0.99)
    (note,) = _notes(stated, ("a", "b", "c"), np.array([0.3, 0.2, 0.3]), other, *flags, x)
    assert "`a` by +1 %, `b` by -0.66 %, `c` by -0.99 %; give one" in note
