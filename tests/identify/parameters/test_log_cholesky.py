"""Inertia as a parameter: physical whatever the coordinates are, with the right derivatives and standard errors."""

import numpy as np
import pytest

from sim.identify.assess.uncertainty import untold_among
from sim.identify.parameters.log_cholesky import coordinates_of, inertia_jacobian, inertia_of, is_physical
from sim.identify.parameters.transforms import ParameterSpace, make_transform

RNG = np.random.default_rng(20261123)
FULL = np.array([2.0, 3.0, 3.5, 0.4, -0.3, 0.2])
MOMENTS = np.array([0.02, 0.03, 0.04])


@pytest.mark.parametrize("inertia", [FULL, MOMENTS])
def test_there_and_back(inertia):
    assert is_physical(inertia)
    np.testing.assert_allclose(inertia_of(coordinates_of(inertia)), inertia, rtol=1e-13)
    assert len(coordinates_of(inertia)) == len(inertia)


@pytest.mark.parametrize("width", [3, 6])
def test_every_vector_is_an_inertia_that_a_body_has(width):
    for _ in range(50):
        v = RNG.uniform(-3, 3, size=width)
        inertia = inertia_of(v)
        assert is_physical(inertia)
        np.testing.assert_allclose(coordinates_of(inertia), v, rtol=1e-6, atol=1e-6)
        moments = np.linalg.eigvalsh(np.diag(inertia[:3]) if width == 3 else matrix(inertia))
        assert moments[0] > 0 and moments[2] <= moments[0] + moments[1]


def matrix(row):
    xx, yy, zz, xy, xz, yz = row
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def test_points_of_mass_have_their_second_moments():
    places, masses = RNG.normal(size=(5, 3)), RNG.uniform(1, 2, size=5)
    places -= masses @ places / masses.sum()
    second = np.einsum("n,ni,nj->ij", masses, places, places)
    inertia = np.trace(second) * np.eye(3) - second
    row = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    v = coordinates_of(row)
    u = np.exp(v[:3])[:, None] * np.array([[1, v[3], v[4]], [0, 1, v[5]], [0, 0, 1]])
    np.testing.assert_allclose(u @ u.T, second, atol=1e-12)  # their Cholesky factor, from below
    assert not is_physical(np.array([1.0, 1.0, 2.1])) and not is_physical(np.array([1.0, 1.0, 2.0]))


@pytest.mark.parametrize("inertia", [FULL, MOMENTS, np.stack([FULL, 2 * FULL])])
def test_derivatives(inertia):
    transform = make_transform("log-cholesky", inertia, scale=0.5)
    u, weights = transform.to_coordinates(inertia), RNG.normal(size=inertia.shape)
    found = transform.pull_back(u, weights)
    for index in np.ndindex(u.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = u.copy()
            moved[index] += step
            ends.append(np.sum(weights * transform.to_physical(moved)))
        assert found[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-7, abs=1e-8)
    np.testing.assert_allclose(transform.per_physical(u, found), weights, rtol=1e-10)
    change = RNG.normal(size=u.shape)  # J and J' are transposed to each other
    assert np.sum(weights * transform.push_forward(u, change)) == pytest.approx(np.sum(found * change))
    if inertia.ndim == 1:
        np.testing.assert_allclose(0.5 * inertia_jacobian(0.5 * u).T @ weights, found)


def test_small_errors_of_values_are_those_of_samples():
    transform = make_transform("log-cholesky", FULL)
    u = transform.to_coordinates(FULL)
    slopes = np.transpose([transform.push_forward(u, row) for row in np.eye(6)])
    root = 0.002 * RNG.normal(size=(6, 6))
    samples = transform.to_physical(RNG.multivariate_normal(u, root @ root.T, size=4_000))
    np.testing.assert_allclose(np.linalg.norm(slopes @ root, axis=1), samples.std(axis=0), rtol=0.06)
    # U_xy is not known: it is in xx (not in yy + zz - xx), ..., and not in the others
    matrix = np.diag([1.0, 1, 1, 0, 1, 1])
    lost = untold_among(matrix, np.ones(6, bool), slopes)
    assert lost.tolist() == [False, True, True, True, False, False]


def test_in_a_space_of_parameters():
    space = ParameterSpace({"I": make_transform("log-cholesky", FULL)}, {"I": FULL})
    assert np.isinf(space.bounds()[0]).all() and space.size == 6
    np.testing.assert_allclose(space.unpack(space.start)["I"], FULL)
    starts = space.starts(3)
    assert all(is_physical(space.unpack(x)["I"]) for x in starts) and np.ptp(starts, axis=0).min() > 0
    with pytest.raises(ValueError, match="the start = .*no body with an extent along every axis"):
        make_transform("log-cholesky", [1.0, 1.0, 2.5])
    with pytest.raises(ValueError, match="3 or 6 numbers"):
        make_transform("log-cholesky", 1.0)
