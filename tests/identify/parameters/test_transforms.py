"""Coordinates of parameters: closed forms, what is refused at the edges, how parameters lie in one vector."""

from __future__ import annotations

import numpy as np
import pytest

from sim.identify.parameters.transforms import (
    TRANSFORMS,
    LogitTransform,
    LogTransform,
    ParameterSpace,
    Transform,
    _sigmoid,
    make_transform,
)


# ------------------------------------------------------------------------------------------------ one transform
@pytest.mark.parametrize(("transform", "p", "u", "slope"), [
    (Transform(), 10.0, 10.0, 1.0),
    (Transform(scale=4.0), 10.0, 2.5, 4.0),
    (LogTransform(scale=0.5), 3.0, 2.0 * np.log(3.0), 1.5),
    (LogitTransform(1.0, 5.0, 2.0), 2.0, 0.5 * np.log(1 / 3), 2.0 * 4.0 * 0.25 * 0.75),
])  # fmt: skip
def test_closed_forms(transform, p, u, slope):
    assert transform.to_coordinates(p) == pytest.approx(u, rel=1e-14)
    assert transform.to_physical(u) == pytest.approx(p, rel=1e-14)
    assert transform.pull_back(u, 10.0) == pytest.approx(10.0 * slope, rel=1e-13)


def test_physical_values_stay_within_the_bounds_to_the_bit():
    for transform in (Transform(0.1, 0.3), LogTransform(0.1, 0.3)):
        assert transform.to_physical([-700.0, 700.0]).tolist() == [0.1, 0.3]
    assert Transform(0.1).to_physical(-5.0) == 0.1 and Transform(None, 0.3).to_physical(5.0) == 0.3


@pytest.mark.parametrize("low", [1e-4, 0.1, 0.3, 7e3])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_what_ends_on_a_bound_stands_on_it(low, scale):
    """exp(log(1e-4)) is a little more than 1e-4: a search ended on that bound, without a standard error, and unsaid."""
    for transform in (Transform(low, 3.0 * low, scale), LogTransform(low, 3.0 * low, scale)):
        ends = transform.to_physical(np.stack(transform.coordinate_bounds()))
        assert ends.tolist() == [low, 3.0 * low] and transform.side(ends).tolist() == [-1, 1]


def test_bounds_of_coordinates():
    low, high = Transform(-1.0, 3.0, 2.0).coordinate_bounds()
    assert (low, high) == (-0.5, 1.5)
    low, high = LogTransform(None, np.e).coordinate_bounds()
    assert low == -np.inf and high == pytest.approx(1.0)
    low, high = LogitTransform(0.0, np.array([1.0, 2.0])).coordinate_bounds()
    assert (low, high[0], high[1]) == (-np.inf, np.inf, np.inf)


@pytest.mark.parametrize(("transform", "value", "ok"), [
    (Transform(0.0, 1.0), 0.0, True), (Transform(0.0, 1.0), 1.0, True), (Transform(0.0, 1.0), -1e-9, False),
    (Transform(0.0, 1.0), 1.0 + 1e-9, False),
    (Transform(0.0, 1.0), [0.5, 2.0], False), (Transform(), np.inf, False), (Transform(), [0.0, np.nan], False),
    (LogTransform(), 0.0, False), (LogTransform(), 1e-300, True),
    (LogTransform(), [1.0, -1.0], False), (LogTransform(0.5, 2.0), 0.5, True), (LogTransform(0.5, 2.0), 2.5, False),
    (LogitTransform(0.0, 1.0), 0.0, False), (LogitTransform(0.0, 1.0), 1.0, False),
    (LogitTransform(0.0, 1.0), 0.5, True), (LogitTransform(0.0, 1.0), [0.5, 1.0], False),
    (LogitTransform(0.0, 1.0), 1.5, False),
])  # fmt: skip
def test_where_a_search_can_start(transform, value, ok):
    if ok:
        transform.check(value, "p")
    else:
        with pytest.raises(ValueError, match=r"^p = "):
            transform.check(value, "p")


@pytest.mark.parametrize("make", [
    lambda: Transform(1.0, 1.0), lambda: Transform(2.0, 1.0), lambda: Transform([0.0, 2.0], 1.0),
    lambda: Transform(scale=0.0), lambda: Transform(scale=-1.0),
    lambda: Transform(scale=np.inf), lambda: Transform(scale=[1.0, 0.0]), lambda: LogTransform(0.0),
    lambda: LogTransform(1.0, -1.0), lambda: LogTransform([1.0, 0.0]),
    lambda: LogitTransform(0.0), lambda: LogitTransform(None, 1.0), lambda: LogitTransform(1.0, 0.0),
    lambda: LogitTransform(0.0, [1.0, np.inf]),
])  # fmt: skip
def test_impossible_transforms(make):
    with pytest.raises(ValueError, match="bounds|scale"):
        make()


@pytest.mark.parametrize(("transform", "values", "sides"), [
    (Transform(0.0, 1.0), [0.0, 1e-9, 0.5, 1.0 - 1e-9, 1.0, -1.0, 2.0], [-1, 0, 0, 0, 1, -1, 1]),
    (Transform(None, 1.0), [-1e300, 1.0], [0, 1]),
    (LogTransform(0.5, 2.0), [0.5, 1.0, 2.0], [-1, 0, 1]),
    (LogitTransform(1.0, 3.0), [1.0, 1.002, 1.0021, 2.0, 2.9979, 2.998, 3.0], [-1, -1, 0, 0, 0, 1, 1]),
])  # fmt: skip
def test_on_which_bound_a_value_stands(transform, values, sides):
    """A logit never reaches its bounds: beside one, within a thousandth of the range, counts as on it."""
    assert transform.side(values).tolist() == sides
    assert [int(transform.side(v)) for v in values] == sides


@pytest.mark.parametrize(("transform", "values", "moved"), [
    (Transform(0.0, 4.0, 2.0), [0.0, 1.0, 4.0], [0.04, 1.0, 3.96]),
    (Transform(0.0, None, 2.0), [0.0, 5.0], [0.02, 5.0]),
    (LogTransform(0.5, 0.5 * np.e**2), [0.5, 1.0, 0.5 * np.e**2], [0.5 * np.exp(0.02), 1.0, 0.5 * np.exp(1.98)]),
    (LogTransform(None, 2.0, 3.0), [2.0], [2.0 * np.exp(-0.03)]),
])  # fmt: skip
def test_a_start_on_a_bound_moves_inside_by_a_hundredth_of_the_range_or_unit(transform, values, moved):
    np.testing.assert_allclose(transform.off_the_bounds(values), moved, rtol=1e-12)


def test_random_values_are_uniform_in_the_coordinates_and_within_the_bounds():
    rng = np.random.default_rng(5)
    for transform in (Transform(-1.0, 3.0, 0.1), LogTransform(1e-3, 1e3, 2.0), LogitTransform(0.0, 2.0)):
        values = transform.sample(rng, (4000,))
        even = transform.to_coordinates(values) if isinstance(transform, LogTransform) else values
        low, high = (
            transform.coordinate_bounds() if isinstance(transform, LogTransform) else (transform.lower, transform.upper)
        )
        share = (even - low) / (high - low)
        assert (
            share.min() >= 0
            and share.max() <= 1
            and np.abs(np.quantile(share, [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.03
        )
        assert (
            values.shape == (4000,)
            and transform.sample(rng, (2, 3)).shape == (2, 3)
            and transform.sample(rng, ()).shape == ()
        )
    assert 0 < values.min() < 0.01 and 1.99 < values.max() < 2, "a logit reaches close to its bounds, not them"


@pytest.mark.parametrize("transform", [Transform(0.0), Transform(None, 1.0), LogTransform(), LogTransform(1.0)])
def test_random_values_need_both_bounds(transform):
    with pytest.raises(ValueError, match="random starts need both bounds"):
        transform.sample(np.random.default_rng(0), ())


def test_a_sigmoid():
    v = np.array([-800.0, -1.0, 0.0, 0.5, 1.0, 800.0])
    with np.errstate(over="raise", invalid="raise"):
        found = _sigmoid(v)
    np.testing.assert_allclose(
        found, [0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-0.5)), np.e / (1 + np.e), 1.0], rtol=1e-15
    )


# ------------------------------------------------------------------------------------------------ as a scene asks
@pytest.mark.parametrize(("start", "bounds", "scale"), [
    (-4.0, None, 4.0), ([1.0, -3.0], None, 3.0), (0.0, (-3.0, 5.0), 8.0), ([0.0, 0.0], (0.0, [1.0, 6.0]), 6.0),
    (0.0, None, 1.0), (0.0, (0.0, None), 1.0),
    (0.0, (None, 2.0), 1.0), (0.0, (-np.inf, np.inf), 1.0), ([], None, 1.0), (2.0, (-3.0, 50.0), 2.0),
])  # fmt: skip
def test_the_unit_of_a_plain_coordinate_is_the_size_of_its_start_or_range(start, bounds, scale):
    assert make_transform("none", start, bounds).scale == scale
    assert make_transform("none", start, bounds, 0.25).scale == 0.25


def test_the_unit_of_other_coordinates_is_one():
    assert make_transform("log", 7.0).scale == 1.0 and make_transform("logit", 7.0, (0.0, 9.0)).scale == 1.0
    assert make_transform("log", 7.0, scale=3.0).scale == 3.0
    for kind, made in TRANSFORMS.items():
        transform = make_transform(kind, 0.5, (0.25, 0.75))
        assert type(transform) is made and (transform.lower, transform.upper) == (0.25, 0.75)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "open"),
        (0.125, "0.125"),
        ([1.0, 2.0], "[1, 2]"),
        (range(4), "[0, 1, 2, 3]"),
        (range(5), "[0, 1, 2, 3, ...]"),
    ],
)
def test_values_in_messages_are_short(value, shown):
    with pytest.raises(ValueError) as caught:
        Transform(value if value is not None else None, -1e9 if value is not None else -np.inf)
    assert str(caught.value).startswith(f"bounds [{shown}, ")


# ------------------------------------------------------------------------------------------------ parameters in one
# vector
START = {"c": 2.0, "v": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), "nu": np.array([0.1, 0.4])}


def space() -> ParameterSpace:
    return ParameterSpace(
        {
            "c": LogTransform(0.5, 8.0),
            "v": Transform(-10.0, np.full((2, 3), 10.0), 2.0),
            "nu": LogitTransform(0.0, 0.5),
        },
        START,
    )


def test_they_lie_one_after_the_other_row_by_row():
    s = space()
    assert (
        s.size == 9
        and s.slices == {"c": slice(0, 1), "v": slice(1, 7), "nu": slice(7, 9)}
        and s.shapes == {"c": (), "v": (2, 3), "nu": (2,)}
    )
    np.testing.assert_allclose(
        s.start, [np.log(2.0), 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, np.log(0.1 / 0.4), np.log(0.4 / 0.1)]
    )
    values = s.unpack(s.start)
    for name, value in START.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-14)
        assert values[name].shape == np.shape(value)
    np.testing.assert_array_equal(s.pack(START), s.start)


def test_gradients_are_laid_out_alike():
    s = space()
    rows = {"c": 1.0, "v": np.arange(6.0).reshape(2, 3), "nu": np.array([1.0, 10.0])}
    slope = 0.5 * 0.2 * 0.8
    np.testing.assert_allclose(s.pull_back(s.start, rows), [2.0, 0, 2, 4, 6, 8, 10, slope, 10 * slope], rtol=1e-12)


def test_bounds_are_laid_out_alike():
    lower, upper = space().bounds()
    np.testing.assert_allclose(lower, [np.log(0.5), *[-5.0] * 6, -np.inf, -np.inf])
    np.testing.assert_allclose(upper, [np.log(8.0), *[5.0] * 6, np.inf, np.inf])


def test_a_start_that_misses_its_bound_by_rounding_widens_it():
    """exp(log(p)) need not be p: the coordinate of a start on its bound is a bound of the coordinates."""
    for value in np.random.default_rng(0).uniform(0.1, 10.0, 50):
        for low, high in ((value, 20.0), (0.01, value)):
            s = ParameterSpace({"c": LogTransform(low, high, 3.0)}, {"c": value})
            lower, upper = s.bounds()
            assert lower <= s.start <= upper and (lower == s.start if low == value else upper == s.start)


def test_starts_begin_with_the_given_one_and_depend_on_the_seed_alone():
    s = ParameterSpace({"c": LogTransform(0.5, 8.0), "v": Transform(0.0, 1.0)}, {"c": 2.0, "v": np.zeros(2)})
    starts = s.starts(3, seed=4)
    assert len(starts) == 3 and np.array_equal(starts[0], s.start) and starts[0] is not s.start
    assert np.array_equal(starts, s.starts(3, seed=4)) and not np.array_equal(starts[1:], s.starts(3, seed=5)[1:])
    assert (
        not np.array_equal(starts[1], starts[2])
        and np.array_equal(s.starts(3), s.starts(3, 0))
        and len(s.starts(1)) == 1
    )
    lower, upper = s.bounds()
    assert all((x >= lower).all() and (x <= upper).all() for x in starts)


@pytest.mark.parametrize(("wrong", "words"), [
    (lambda: ParameterSpace({"a": Transform()}, {"b": 1.0}), r"transforms for \['a'\], but starts for \['b'\]"),
    (lambda: ParameterSpace({"a": LogTransform()}, {"a": -1.0}), "a = -1: transform log needs a positive start"),
    (lambda: space().pack({**START, "v": np.zeros(3)}), r"v has shape \(3,\), expected \(2, 3\)"),
    (lambda: space().pull_back(space().start, {**START, "nu": 1.0}), r"gradient of nu has shape \(\), expected \(2,\)"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
