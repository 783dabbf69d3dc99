"""Derivatives where naive formulas fail: zero vectors, parallel vectors, the identity, repeated singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.library.rows import check_eig3, check_qr3, check_svd2, check_svd3, rotation
from tools.library.traced import Traced, assert_derivatives, calling, flat_args

from sim.core.backends.interp import evaluate
from sim.core.lang import types as t
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import SimError
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.library import LIBRARY
from sim.core.lang.library.decompose import eig3, polar3, svd2, svd3
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.quaternion import quat_from_axis_angle, quat_slerp
from sim.core.lang.library.vector import cross, diag, dot, hinge_angle, length, normalize

D = t.float64
VEC3, MAT33, QUAT = t.vector(3, D), t.matrix((3, 3), D), t.quaternion(D)
WEIGHTS = np.random.default_rng(7).normal(size=64)


def gradient(function: Any, kinds: list, args: list, order: int = 1) -> np.ndarray:
    """Cotangents of the arguments for fixed random cotangents of the results; `order` applications of reverse mode."""
    traced = trace_function(calling(function, len(kinds)), kinds, real=D)
    values = flat_args(args)
    for _ in range(order):
        values = values + list(WEIGHTS[: len(traced.body.yields)])
        traced = vjp(traced)
    return np.array(evaluate(inline(traced), *values))


ZEROS = [
    ("length", [VEC3], [np.zeros(3)]),
    ("normalize", [VEC3], [np.zeros(3)]),
    ("normalize", [QUAT], [np.zeros(4)]),
    ("norm_huber", [VEC3, D], [np.zeros(3), 1.0]),
    ("signed_angle", [VEC3, VEC3, VEC3], [np.zeros(3), np.array([1.0, 0, 0]), np.array([0, 0, 1.0])]),
    ("signed_angle", [VEC3, VEC3, VEC3], [np.array([1.0, 0, 0]), np.array([1.0, 0, 0]), np.zeros(3)]),
    ("acos", [D], [1.0]),
    ("acos", [D], [-1.5]),
    ("asin", [D], [-1.0]),
    ("inverse", [MAT33], [np.ones((3, 3))]),
    ("quat_to_axis_angle", [QUAT], [np.array([0, 0, 0, 1.0])]),
    ("quat_twist_angle", [VEC3, QUAT], [np.array([1.0, 0, 0]), np.array([0, 0, 0, 1.0])]),
    ("quat_slerp", [QUAT, QUAT, D], [np.array([0, 0, 0, 1.0]), np.array([0, 0, 0, 1.0]), 0.3]),
    ("quat_to_euler", [QUAT, t.int32, t.int32, t.int32], [np.array([0, np.sqrt(0.5), 0, np.sqrt(0.5)]), 0, 1, 2]),
    ("transform_decompose", [t.matrix((4, 4), D)], [np.zeros((4, 4))]),
    *[
        (name, [MAT33], [m])
        for name in ("svd3", "qr3", "eig3", "polar3")
        for m in (
            np.zeros((3, 3)),
            np.eye(3),
            -np.eye(3),
            np.diag([2.0, 2.0, 1.0]),
            np.diag([1.0, 0, 0]),
            np.diag([2.0, 1, -1]),
            np.ones((3, 3)),
        )
    ],
    *[
        ("svd2", [t.matrix((2, 2), D)], [m])
        for m in (np.zeros((2, 2)), np.eye(2), np.ones((2, 2)), np.diag([1.0, -1.0]))
    ],
]


@pytest.mark.parametrize(("name", "kinds", "args"), ZEROS, ids=[f"{z[0]}-{k}" for k, z in enumerate(ZEROS)])
def test_derivatives_stay_finite(name: str, kinds: list, args: list) -> None:
    assert np.isfinite(flat_args(Traced(LIBRARY[name], kinds).call(args))).all()
    assert np.isfinite(gradient(LIBRARY[name], kinds, args, 1)).all()
    if name in ("svd2", "svd3", "eig3") and _coincide(
        np.linalg.svd(args[0])[1] if name != "eig3" else np.linalg.eigvalsh(args[0])
    ):
        with pytest.raises(SimError, match="values or eigenvalues coincide"):
            gradient(LIBRARY[name], kinds, args, 2)
    else:
        assert np.isfinite(gradient(LIBRARY[name], kinds, args, 2)).all()


def _coincide(values: np.ndarray) -> bool:
    """Are two of these numbers equal up to rounding, and not all zero?"""
    return bool(np.diff(np.sort(values)).min() < 1e-8 * np.abs(values).max())


def test_zero_vectors_have_zero_derivatives() -> None:
    for name in ("length", "normalize"):
        assert not gradient(LIBRARY[name], [VEC3], [np.zeros(3)]).any()
    assert Traced(LIBRARY["normalize"], [QUAT]).call([np.zeros(4)])[0].tolist() == [0, 0, 0, 1]
    assert not gradient(LIBRARY["normalize"], [QUAT], [np.zeros(4)]).any()
    for x in (1.0, -1.0, 3.0):
        assert gradient(LIBRARY["acos"], [D], [x]) == 0 and gradient(LIBRARY["asin"], [D], [x]) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 3)),
        np.eye(3),
        -np.eye(3),
        np.diag([1, 1, 2]),
        np.diag([0, 0, 3]),
        np.ones((3, 3)),
        np.diag([1, 1e-9, 0]),
        np.diag([-1, 2, 2]),
        np.outer([1, 2, 3], [3, 1, 1]),
        np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        1e-15 * np.arange(9).reshape(3, 3),
        1e15 * np.arange(9).reshape(3, 3),
    ],
)
def test_decompositions_of_degenerate_matrices(matrix: np.ndarray, dtype: Any) -> None:
    a = np.asarray(matrix, dtype)
    kind = t.matrix((3, 3), t.from_numpy(np.dtype(dtype)))
    for name, check in (("svd3", check_svd3), ("eig3", check_eig3), ("qr3", check_qr3)):
        check([a], Traced(LIBRARY[name], [kind]).call([a]))
    two = a[:2, :2].copy()
    check_svd2([two], Traced(LIBRARY["svd2"], [t.matrix((2, 2), t.from_numpy(np.dtype(dtype)))]).call([two]))


@func
def polar_of_svd(a):
    u, s, v = svd3(a)
    return u * transpose(v)


@func
def polar_of_svd2(a):
    u, s, v = svd2(a)
    return u * transpose(v)


@func
def stretch_energy(a):
    u, s, v = svd3(a)
    total = s[0] * 0.0
    for i in range(3):
        total += (s[i] - 1.3) * (s[i] - 1.3) * s[i]
    return total


@func
def trace_of_square(a):
    q, d = eig3(a)
    return dot(d, d) + d[0] * d[1] * d[2]


@func
def rebuilt(a):
    u, s, v = svd3(a)
    return u * diag(s) * transpose(v)


def _spread(*values: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    u, v = (rotation(q / np.linalg.norm(q)) for q in rng.normal(size=(2, 4)))
    return u @ np.diag(values) @ v.T


REPEATED = {
    "identity": np.eye(3),
    "rotation": _spread(1, 1, 1),
    "two equal": _spread(2, 1, 1),
    "nearly equal": _spread(2, 1, 1 + 1e-12),
    "two equal, large": _spread(2, 2, 0.5),
    "reflected": _spread(2, 1, -0.5),
}


@pytest.mark.parametrize("matrix", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize(
    ("function", "orders"), [(polar_of_svd, 1), (stretch_energy, 1), (polar3, 2)], ids=["svd3", "energy", "polar3"]
)
def test_exact_at_repeated_singular_values(function: Any, orders: int, matrix: np.ndarray) -> None:
    assert_derivatives(function, [MAT33], [matrix], orders)


def test_exact_at_repeated_eigenvalues() -> None:
    for values in ([1, 1, 1], [2, 2, 1], [0, 0, 3]):
        q = rotation(np.array([1, 2, 3, 4]) / np.sqrt(30))
        assert_derivatives(trace_of_square, [MAT33], [q @ np.diag(values) @ q.T], orders=1)


def test_polar_of_two_by_two_at_repeated_values() -> None:
    for m in (np.eye(2), np.array([[0.6, -0.8], [0.8, 0.6]]) * 2):
        assert_derivatives(polar_of_svd2, [t.matrix((2, 2), D)], [m], orders=1)


def test_rebuilding_a_matrix_is_the_identity_map() -> None:
    m = _spread(2.0, 1.0, 0.9)
    np.testing.assert_allclose(gradient(rebuilt, [MAT33], [m]), WEIGHTS[:9], atol=1e-13)


@func
def flowed(a):
    """A return mapping: U f(s) V^T, a rotation times a function of the stretch."""
    u, s, v = svd3(a)
    return (
        u
        * diag(type(s)(s[0] + s[0] * s[0] * s[0], s[1] + s[1] * s[1] * s[1], s[2] + s[2] * s[2] * s[2]))
        * transpose(v)
    )


@func
def flowed_eig(a):
    q, d = eig3(a)
    return q * diag(type(d)(d[0] * d[0] * d[0], d[1] * d[1] * d[1], d[2] * d[2] * d[2])) * transpose(q)


@func
def rebuilt2(a):
    u, s, v = svd2(a)
    return u * diag(s) * transpose(v)


@pytest.mark.parametrize("matrix", REPEATED.values(), ids=REPEATED)
def test_functions_put_together_of_vectors_and_values(matrix: np.ndarray) -> None:
    np.testing.assert_allclose(gradient(rebuilt, [MAT33], [matrix]), WEIGHTS[:9], rtol=1e-6, atol=1e-6)
    sized = t.matrix((2, 2), D)
    np.testing.assert_allclose(gradient(rebuilt2, [sized], [np.eye(2)]), WEIGHTS[:4], rtol=1e-6, atol=1e-6)
    for function, at in ((flowed, matrix), (flowed_eig, matrix @ matrix.T)):
        step = 1e-3 * np.eye(9).reshape(9, 3, 3)
        value = lambda m, f=function: float(np.dot(WEIGHTS[:9], np.ravel(Traced(f, [MAT33]).call([m])[0])))  # noqa: E731
        wanted = [(8 * (value(at + d) - value(at - d)) - value(at + 2 * d) + value(at - 2 * d)) / 12e-3 for d in step]
        np.testing.assert_allclose(gradient(function, [MAT33], [at]), wanted, rtol=1e-6, atol=2e-6)


@func
def hinge(x0, x1, x2, x3):
    """Dihedral angle of two triangles that share the edge x0 x1."""
    edge = x1 - x0
    return hinge_angle(cross(edge, x2 - x0), cross(x3 - x0, edge), edge)


@pytest.mark.parametrize("height", [0.0, 0.3, -0.7], ids=["flat", "bent", "bent back"])
def test_dihedral_angle(height: float) -> None:
    x = [np.array(p, float) for p in ((0, 0, 0), (0, 1, 0), (1, 0.3, 0), (-1.2, 0.4, height))]
    assert_derivatives(hinge, [VEC3] * 4, x)
    [angle] = Traced(hinge, [VEC3] * 4).call(x)
    assert np.isclose(abs(angle), np.arctan2(abs(height), 1.2)) and np.sign(angle) == np.sign(height)


@func
def slerp_from_identity(axis, angle, k):
    return quat_slerp(quat_from_axis_angle(axis, 0.5), quat_from_axis_angle(axis, 0.5 + angle), k)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.05, 0.0631, 0.064, 2.5, -2.5, 4.0])
def test_slerp_near_and_far(angle: float) -> None:
    axis = np.array([0.6, 0.0, 0.8])
    args = [axis, angle, 0.3]
    assert_derivatives(slerp_from_identity, [VEC3, D, D], args)
    short = angle if abs(angle) < np.pi else angle - 2 * np.pi
    expected = np.append(axis * np.sin(0.25 + 0.15 * short), np.cos(0.25 + 0.15 * short))
    np.testing.assert_allclose(Traced(slerp_from_identity, [VEC3, D, D]).call(args)[0], expected, atol=1e-14)


@func
def unit_length(v):
    return length(normalize(v))


def test_second_derivative_through_closed_forms() -> None:
    assert_derivatives(unit_length, [VEC3], [np.array([0.3, -0.2, 0.9])], orders=3)


@func
def round_trip(v):
    return LIBRARY["quat_to_rotation_vector"](LIBRARY["quat_from_rotation_vector"](v))


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 0.05, 0.1999, 0.2001, 1.0, 3.0])
def test_rotation_vectors_are_smooth_at_rest(size: float) -> None:
    """A body that starts at rest: exponential and logarithm have the derivative of the identity there."""
    v = size * np.array([0.36, 0.48, 0.8])
    np.testing.assert_allclose(Traced(round_trip, [VEC3]).call([v])[0], v, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(gradient(round_trip, [VEC3], [v]), WEIGHTS[:3], rtol=1e-10)
    exponential = gradient(LIBRARY["quat_from_rotation_vector"], [VEC3], [np.zeros(3)])
    np.testing.assert_array_equal(exponential, 0.5 * WEIGHTS[:3])


def test_signed_angle_about_a_slanted_axis() -> None:
    """Neither vector is perpendicular to the axis: the derivative is that of the formula."""
    assert_derivatives(
        LIBRARY["signed_angle"],
        [VEC3] * 3,
        [np.array([0.3, 0.2, 0.1]), np.array([0.1, 1.0, 0.4]), np.array([0.2, -0.1, 1.0])],
    )
