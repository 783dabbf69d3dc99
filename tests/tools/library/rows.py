"""One row per library function: how to sample its arguments, and what NumPy says the result is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from sim.core.lang import types as t

REAL = {np.float32: t.float32, np.float64: t.float64}
Rng = np.random.Generator


@dataclass(frozen=True)
class Kind:
    """An argument: its type over a scalar type, and a random value of it."""

    of: Callable[[Any], t.Type]
    sample: Callable[[Rng], Any]


def _unit(rng: Rng, n: int) -> np.ndarray:
    v = rng.normal(size=n)
    return v / np.linalg.norm(v)


def rotation(q: np.ndarray) -> np.ndarray:
    """The matrix of x -> q x q^-1 for a unit quaternion (x, y, z, w)."""
    pure = [_mul(_mul(q, np.append(e, 0.0)), np.append(-q[:3], q[3])) for e in np.eye(3)]
    return np.stack(pure, axis=1)[:3]


def _mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product."""
    av, bv = a[:3], b[:3]
    return np.append(a[3] * bv + b[3] * av + np.cross(av, bv), a[3] * b[3] - av @ bv)


def _about(v: np.ndarray) -> np.ndarray:
    """The matrix of the rotation by |v| about v (Rodrigues)."""
    angle = np.linalg.norm(v)
    k = _skew(v / angle)
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def _shortest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotation of the direction of a into the unit vector b, about a x b."""
    axis, a = np.cross(a, b), a / np.linalg.norm(a)
    return _about(axis / np.linalg.norm(axis) * np.arccos(a @ b))


def _rotation_vector(m: np.ndarray) -> np.ndarray:
    """Inverse of `_about`, for angles between 0 and pi."""
    axis = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]) / 2
    sine = np.linalg.norm(axis)
    return axis * (np.arctan2(sine, (np.trace(m) - 1) / 2) / sine)


def vec(n: int, low: float = -1.0, high: float = 1.0) -> Kind:
    return Kind(lambda s: t.vector(n, s), lambda rng: rng.uniform(low, high, n))


def mat(n: int, m: int) -> Kind:
    return Kind(lambda s: t.matrix((n, m), s), lambda rng: rng.uniform(-1, 1, (n, m)))


def num(low: float = -1.0, high: float = 1.0) -> Kind:
    return Kind(lambda s: s, lambda rng: rng.uniform(low, high))


def whole(value: int) -> Kind:
    return Kind(lambda s: t.int32, lambda rng: value)


def word(value: int) -> Kind:
    return Kind(lambda s: t.uint32, lambda rng: value)


EPSILON = Kind(lambda s: s, lambda rng: 1e-9)
UNIT3 = Kind(lambda s: t.vector(3, s), lambda rng: _unit(rng, 3))
QUAT = Kind(t.quaternion, lambda rng: _unit(rng, 4))
ANY_QUAT = Kind(t.quaternion, lambda rng: rng.uniform(-1, 1, 4))
ROTATION = Kind(lambda s: t.matrix((3, 3), s), lambda rng: rotation(_unit(rng, 4)))
POSE = Kind(t.transformation, lambda rng: np.concatenate([rng.uniform(-1, 1, 3), _unit(rng, 4)]))
V2, V3, V4, V6 = vec(2), vec(3), vec(4), vec(6)
M22, M33, M44, M23, M32 = mat(2, 2), mat(3, 3), mat(4, 4), mat(2, 3), mat(3, 2)


def _rigid(rng: Rng) -> np.ndarray:
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = rotation(_unit(rng, 4)), rng.uniform(-1, 1, 3)
    return m


def _scaled(rng: Rng) -> np.ndarray:
    m = _rigid(rng)
    m[:3, :3] = m[:3, :3] * rng.uniform(0.5, 2.0, 3)
    return m


RIGID = Kind(lambda s: t.matrix((4, 4), s), _rigid)
SCALED = Kind(lambda s: t.matrix((4, 4), s), _scaled)


@dataclass(frozen=True)
class Row:
    """reference: the results as NumPy arrays, or a check that asserts on (arguments, results)."""

    kinds: Sequence[Kind]
    reference: Callable[..., Any] | None = None
    check: Callable[[list, list], None] | None = None
    smooth: bool = True


def _pose(p: np.ndarray) -> np.ndarray:
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = rotation(p[3:]), p[:3]
    return m


def _check_pose(expected: Callable[..., np.ndarray]) -> Callable[[list, list], None]:
    def check(args: list, results: list) -> None:
        np.testing.assert_allclose(_pose(np.float64(results[0])), expected(*args), atol=2e-6)

    return check


def _check_rotation(expected: Callable[..., np.ndarray]) -> Callable[[list, list], None]:
    def check(args: list, results: list) -> None:
        q = np.float64(results[0])
        assert abs(np.linalg.norm(q) - 1.0) < 1e-5
        np.testing.assert_allclose(rotation(q), expected(*args), atol=3e-6)

    return check


def _tolerance(a: np.ndarray) -> float:
    return 40 * float(np.finfo(a.dtype).eps) * max(float(np.abs(a).max()), 1e-30)


def check_rotation_matrix(q: np.ndarray) -> None:
    eps = 40 * np.finfo(q.dtype).eps
    np.testing.assert_allclose(q.T @ q, np.eye(len(q)), atol=eps)
    assert abs(np.linalg.det(q) - 1.0) < eps


def check_svd3(args: list, results: list) -> None:
    (a,), (u, s, v) = args, results
    tolerance = _tolerance(a)
    check_rotation_matrix(u)
    check_rotation_matrix(v)
    np.testing.assert_allclose(u @ np.diag(s) @ v.T, a, atol=tolerance)
    expected = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(np.abs(s), expected, atol=tolerance)
    assert s[0] >= s[1] >= abs(s[2]) - tolerance and (
        abs(s[2]) < tolerance or np.sign(s[2]) == np.sign(np.linalg.det(np.float64(a)))
    )


def check_svd2(args: list, results: list) -> None:
    (a,), (u, s, v) = args, results
    check_rotation_matrix(v)
    np.testing.assert_allclose(u.T @ u, np.eye(2), atol=_tolerance(np.eye(2, dtype=a.dtype)))
    np.testing.assert_allclose(u @ np.diag(s) @ v.T, a, atol=_tolerance(a))
    np.testing.assert_allclose(s, np.linalg.svd(a.astype(np.float64), compute_uv=False), atol=_tolerance(a))


def check_qr3(args: list, results: list) -> None:
    (a,), (q, r) = args, results
    check_rotation_matrix(q)
    np.testing.assert_allclose(q @ r, a, atol=_tolerance(a))
    assert np.tril(r, -1).any() == 0 and r[0, 0] >= 0 and r[1, 1] >= -_tolerance(a)


def check_eig3(args: list, results: list) -> None:
    (a,), (q, d) = args, results
    m = (a + a.T) / 2
    check_rotation_matrix(q)
    np.testing.assert_allclose(q @ np.diag(d) @ q.T, m, atol=_tolerance(m))
    np.testing.assert_allclose(np.sort(d), np.linalg.eigvalsh(m.astype(np.float64)), atol=_tolerance(m))


def check_polar3(args: list, results: list) -> None:
    (a,), (r, s) = args, results
    check_rotation_matrix(r)
    np.testing.assert_allclose(r @ s, a, atol=_tolerance(a))
    np.testing.assert_allclose(s, s.T, atol=_tolerance(a))


def _round(x: float) -> float:
    return np.sign(x) * np.floor(abs(x) + 0.5)


def _huber(v: np.ndarray, delta: float) -> float:
    n = np.linalg.norm(v)
    return 0.5 * n * n if n <= delta else delta * (n - 0.5 * delta)


def _smoothstep(a: float, b: float, x: float) -> float:
    k = np.clip((x - a) / (b - a), 0, 1)
    return k * k * (3 - 2 * k)


def _rpy(r: float, p: float, y: float) -> np.ndarray:
    return _euler(np.array([r, p, y]), 0, 1, 2)


def _to_rpy(q: np.ndarray) -> np.ndarray:
    m = rotation(q)
    return np.array([np.arctan2(m[2, 1], m[2, 2]), -np.arcsin(m[2, 0]), np.arctan2(m[1, 0], m[0, 0])])


def _euler(e: np.ndarray, i: int, j: int, k: int) -> np.ndarray:
    first, second, third = (_about(np.eye(3)[n] * e[n]) for n in (i, j, k))
    return third @ second @ first


def _check_to_euler(args: list, results: list) -> None:
    """The angles may differ by full turns: what counts is the rotation."""
    np.testing.assert_allclose(_euler(np.float64(results[0]), *args[1:]), rotation(args[0]), atol=3e-6)
    assert abs(results[0][args[2]]) <= np.pi / 2 + 1e-6


def _slerp(a: np.ndarray, b: np.ndarray, k: float) -> np.ndarray:
    first = rotation(a)
    return first @ _about(k * _rotation_vector(first.T @ rotation(b)))


def _twist(axis: np.ndarray, q: np.ndarray) -> np.ndarray:
    out = np.append(axis * (axis @ q[:3]), q[3])
    return out / np.linalg.norm(out)


def _axis_angle(q: np.ndarray) -> tuple:
    v = _rotation_vector(rotation(q))
    return v / np.linalg.norm(v), np.linalg.norm(v)


def _skew(a: np.ndarray) -> np.ndarray:
    return np.stack([np.cross(a, e) for e in np.eye(3)], axis=1)


def _adjoint(r: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.block([[r, np.zeros((3, 3))], [s, r]])


def _wrench(p: np.ndarray) -> np.ndarray:
    """Dual of the twist: power is the same in both frames."""
    r = rotation(p[3:])
    return np.linalg.inv(_adjoint(r, _skew(p[:3]) @ r)).T


def _spatial(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.concatenate([top, bottom])


def _compose(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.block([[rotation(q) * s, p[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def _check_decompose(args: list, results: list) -> None:
    np.testing.assert_allclose(_compose(*(np.float64(r) for r in results)), args[0], atol=3e-6)


def pcg(state: int) -> int:
    """One step of PCG-RXS-M-XS-32, on Python's integers."""
    w = (state * 747796405 + 2891336453) & 0xFFFFFFFF
    w = (((w >> ((w >> 28) + 4)) ^ w) * 277803737) & 0xFFFFFFFF
    return (w >> 22) ^ w


def _lattice_slope(state: int, cell: list[int]) -> np.ndarray:
    key = (cell[-1] * (73856093, 19349663, 53471161, 10000019)[len(cell) - 1] + state) & 0xFFFFFFFF
    for c, prime in zip(cell[:-1], (73856093, 19349663, 53471161), strict=False):
        key ^= (c * prime) & 0xFFFFFFFF
    out = []
    for _ in cell:
        key = pcg(key)
        out.append((key >> 8) / 2.0**24)
    if len(cell) == 1:
        return np.array([2 * out[0] - 1])
    v = np.array(out) - 0.5
    return v / np.linalg.norm(v)


def _noise(state: int, x: Any, *periods: int) -> float:
    """Perlin's definition, recursively: interpolate the halves of the cell along its last axis."""
    x = np.atleast_1d(x)
    base = np.floor(x)
    offset = x - base

    def corner(bits: list[int]) -> float:
        cell = [int(b) + k for b, k in zip(base, bits, strict=True)]
        if periods:
            cell = [c % p for c, p in zip(cell, periods, strict=True)]
        return float(_lattice_slope(state, cell) @ (offset - bits))

    def along(bits: list[int]) -> float:
        axis = len(x) - len(bits) - 1
        if axis < 0:
            return corner(bits)
        u = offset[axis]
        low, high = along([0, *bits]), along([1, *bits])
        return low + (high - low) * u**3 * (6 * u * u - 15 * u + 10)

    return along([])


def _angle(a: np.ndarray, b: np.ndarray, axis: np.ndarray) -> float:
    return np.arctan2(np.cross(a, b) @ axis / np.linalg.norm(axis), a @ b)


def _slopes(state: int, x: np.ndarray) -> np.ndarray:
    """The gradient of noise by central differences."""
    moves = np.eye(len(x)) * 1e-5
    return np.array([(_noise(state, x + d) - _noise(state, x - d)) / 2e-5 for d in moves])


def _check_curl(args: Sequence[Any], results: Sequence[Any]) -> None:
    """Two octaves of lacunarity 2 and gain 1/2, from the definition of the curl."""
    state, x = int(args[0]), np.asarray(args[1], np.float64)
    total = np.zeros(min(len(x), 3))
    for octave in range(2):
        at = x * 2.0**octave
        if len(x) == 2:
            a = _slopes(state, at)
            part = np.array([-a[1], a[0]])
        else:
            seeds = [state]
            for offset in (10019689, 13112221):
                seeds.append(pcg((seeds[-1] + pcg(offset)) & 0xFFFFFFFF))
            a, b, c = (_slopes(seed, at) for seed in seeds)
            part = np.array([c[1] - b[2], a[2] - c[0], b[0] - a[1]])
            state = seeds[-1]
        total += part * 0.5**octave
    np.testing.assert_allclose(
        np.ravel(results[0]), total, atol=2e-4 if np.asarray(args[1]).dtype == np.float32 else 1e-7
    )


def _edge_edge(p1: np.ndarray, q1: np.ndarray, p2: np.ndarray, q2: np.ndarray, _: float) -> np.ndarray:
    """The best of all candidates: the lines' closest points, and those of an end of one and the other."""
    a, b, r = q1 - p1, q2 - p2, p1 - p2
    inner = np.linalg.solve([[a @ a, -a @ b], [-a @ b, b @ b]], [-a @ r, b @ r])
    ends = [(np.clip(a @ (t * b - r) / (a @ a), 0, 1), t) for t in (0, 1)]
    ends += [(s, np.clip(b @ (s * a + r) / (b @ b), 0, 1)) for s in (0, 1)]
    inside = [tuple(inner)] if (inner >= 0).all() and (inner <= 1).all() else []
    size, s, t = min((np.linalg.norm(r + s * a - t * b), s, t) for s, t in [*ends, *inside])
    return np.array([s, t, size])


ROWS: dict[str, Row] = {
    # scalars
    "sign": Row([num()], lambda x: -1.0 if x < 0 else 1.0),
    "step": Row([num()], lambda x: 1.0 if x < 0 else 0.0),
    "nonzero": Row([num()], lambda x: float(x != 0)),
    "frac": Row([num(-3, 3)], lambda x: np.fmod(x, 1.0)),
    "round": Row([num(-3, 3)], _round),
    "clamp": Row([num(-2, 2), num(-1, 0), num(0, 1)], np.clip),
    "degrees": Row([num()], np.degrees),
    "radians": Row([num()], np.radians),
    "lerp": Row([V3, V3, num()], lambda a, b, k: a + (b - a) * k),
    "smoothstep": Row([num(-1, 0), num(1, 2), num(-1.5, 2.5)], _smoothstep),
    "acos": Row([num()], np.arccos),
    "asin": Row([num()], np.arcsin),
    "isfinite": Row([V3], lambda v: np.isfinite(v).all()),
    "isnan": Row([V3], lambda v: np.isnan(v).any()),
    "isinf": Row([V3], lambda v: np.isinf(v).any()),
    # vectors
    "dot": Row([V4, V4], np.dot),
    "cross": Row([V3, V3], np.cross),
    "length": Row([V3], np.linalg.norm),
    "length_sq": Row([V3], lambda v: v @ v),
    "normalize": Row([V3], lambda v: v / np.linalg.norm(v)),
    "signed_angle": Row([V3, V3, V3], _angle),
    "outer": Row([V2, V3], np.outer),
    "skew": Row([V3], _skew),
    "diag": Row([V3], np.diag),
    "cw_mul": Row([M23, M23], np.multiply),
    "cw_div": Row([V3, vec(3, 0.5, 2.0)], np.divide),
    "argmin": Row([V4], np.argmin),
    "argmax": Row([V4], np.argmax),
    "norm_l1": Row([V4], lambda v: np.abs(v).sum()),
    "norm_l2": Row([V4], np.linalg.norm),
    "norm_huber": Row([V3, num(0.3, 1.5)], _huber),
    "norm_pseudo_huber": Row([V3, num(0.3, 1.5)], lambda v, d: d * np.sqrt(1 + v @ v / d**2)),
    "smooth_normalize": Row([V3, num(0.3, 1.5)], lambda v, d: v / (d * np.sqrt(1 + v @ v / d**2))),
    "spatial_dot": Row([V6, V6], np.dot),
    "spatial_top": Row([V6], lambda a: a[:3]),
    "spatial_bottom": Row([V6], lambda a: a[3:]),
    "spatial_cross": Row(
        [V6, V6], lambda a, b: _spatial(np.cross(a[:3], b[:3]), np.cross(a[3:], b[:3]) + np.cross(a[:3], b[3:]))
    ),
    "spatial_cross_dual": Row(
        [V6, V6], lambda a, b: _spatial(np.cross(a[:3], b[:3]) + np.cross(a[3:], b[3:]), np.cross(a[:3], b[3:]))
    ),
    "velocity_at_point": Row([V6, V3], lambda a, r: a[3:] + np.cross(a[:3], r)),
    # matrices
    "transpose": Row([M23], np.transpose),
    "trace": Row([M33], np.trace),
    "get_diag": Row([M33], np.diag),
    "ddot": Row([M23, M23], lambda a, b: (a * b).sum()),
    "determinant": Row([M44], np.linalg.det),
    "inverse": Row([M33], np.linalg.inv),
    "inverse_approx": Row([M22], np.linalg.inv),
    "matrix_from_cols": Row([V2, V2, V2], lambda *c: np.stack(c, axis=1)),
    "matrix_from_rows": Row([V3, V3], lambda *r: np.stack(r)),
    "spatial_adjoint": Row([M33, M33], _adjoint),
    "svd3": Row([M33], check=check_svd3),
    "svd2": Row([M22], check=check_svd2),
    "qr3": Row([M33], check=check_qr3),
    "eig3": Row([M33], check=check_eig3),
    "polar3": Row([M33], check=check_polar3),
    # error functions
    "erfinv": Row([num(-0.99, 0.99)], lambda p: NormalDist().inv_cdf((p + 1) / 2) / np.sqrt(2)),
    "erfcinv": Row([num(0.01, 1.99)], lambda p: -NormalDist().inv_cdf(p / 2) / np.sqrt(2)),
    # geometry
    "closest_point_edge_edge": Row([V3, V3, V3, V3, EPSILON], _edge_edge),
    # quaternions
    "quat_inverse": Row([QUAT], lambda q: np.append(-q[:3], q[3])),
    "quat_rotate": Row([QUAT, V3], lambda q, x: rotation(q) @ x),
    "quat_rotate_inv": Row([QUAT, V3], lambda q, x: rotation(q).T @ x),
    "quat_from_axis_angle": Row([UNIT3, num(-3, 3)], check=_check_rotation(lambda a, x: _about(a * x))),
    "quat_between_vectors": Row([V3, UNIT3], check=_check_rotation(_shortest)),
    "quat_to_axis_angle": Row([QUAT], _axis_angle),
    "quat_from_rotation_vector": Row([V3], check=_check_rotation(_about)),
    "quat_to_rotation_vector": Row([QUAT], lambda q: _rotation_vector(rotation(q))),
    "quat_to_matrix": Row([QUAT], rotation),
    "quat_from_matrix": Row([ROTATION], check=_check_rotation(lambda m: m)),
    "quat_rpy": Row([num(-3, 3), num(-1.5, 1.5), num(-3, 3)], check=_check_rotation(_rpy)),
    "quat_to_rpy": Row([QUAT], _to_rpy),
    "quat_from_euler": Row([V3, whole(2), whole(0), whole(1)], check=_check_rotation(_euler)),
    "quat_to_euler": Row([QUAT, whole(1), whole(0), whole(2)], check=_check_to_euler),
    "quat_slerp": Row([QUAT, QUAT, num(0, 1)], check=_check_rotation(_slerp)),
    "quat_twist": Row([UNIT3, QUAT], _twist),
    "quat_twist_angle": Row([UNIT3, QUAT], lambda a, q: 2 * np.arctan2(abs(a @ q[:3]), q[3])),
    "quat_twist_angle_signed": Row([UNIT3, QUAT], lambda a, q: 2 * np.arctan2(a @ q[:3], q[3])),
    # noise
    "noise": Row([word(5), vec(3, -3, 3)], _noise),
    "pnoise": Row([word(5), vec(3, -9, 9), whole(2), whole(3), whole(4)], _noise),
    "curlnoise": Row([word(5), vec(2, -3, 3), whole(2)], check=_check_curl),
    # transformations
    "transform_get_translation": Row([POSE], lambda p: p[:3]),
    "transform_get_rotation": Row([POSE], lambda p: p[3:]),
    "transform_multiply": Row([POSE, POSE], check=_check_pose(lambda a, b: _pose(a) @ _pose(b))),
    "transform_inverse": Row([POSE], check=_check_pose(lambda a: np.linalg.inv(_pose(a)))),
    "transform_point": Row([POSE, V3], lambda p, x: (_pose(p) @ np.append(x, 1))[:3]),
    "transform_vector": Row([POSE, V3], lambda p, x: rotation(p[3:]) @ x),
    "transform_from_matrix": Row([RIGID], check=_check_pose(lambda m: m)),
    "transform_to_matrix": Row([POSE], _pose),
    "transform_compose": Row([V3, QUAT, V3], _compose),
    "transform_decompose": Row([SCALED], check=_check_decompose),
    "transform_twist": Row([POSE, V6], lambda p, x: _adjoint(rotation(p[3:]), _skew(p[:3]) @ rotation(p[3:])) @ x),
    "transform_wrench": Row([POSE, V6], lambda p, x: _wrench(p) @ x),
}
"""Of the functions in `LIBRARY` (a test compares the names)."""

VARIANTS: list[tuple[str, Row]] = [
    ("sign", Row([V3], lambda v: np.where(v < 0, -1.0, 1.0))),
    ("lerp", Row([num(), num(), num()], lambda a, b, k: a + (b - a) * k)),
    ("lerp", Row([QUAT, QUAT, num()], lambda a, b, k: a + (b - a) * k)),
    ("dot", Row([ANY_QUAT, ANY_QUAT], np.dot)),
    ("length", Row([ANY_QUAT], np.linalg.norm)),
    ("length", Row([V2], np.linalg.norm)),
    ("normalize", Row([ANY_QUAT], lambda q: q / np.linalg.norm(q))),
    ("normalize", Row([V6], lambda q: q / np.linalg.norm(q))),
    ("cw_mul", Row([V4, V4], np.multiply)),
    ("determinant", Row([M22], np.linalg.det)),
    ("determinant", Row([M33], np.linalg.det)),
    ("inverse", Row([M22], np.linalg.inv)),
    ("inverse", Row([M44], np.linalg.inv)),
    ("product", Row([M23, M32], np.matmul)),
    ("product", Row([M23, V3], np.matmul)),
    ("product", Row([V2, M23], np.matmul)),
    ("product", Row([num(), M23], np.multiply)),
    ("product", Row([ANY_QUAT, ANY_QUAT], _mul)),
    ("product", Row([POSE, POSE], check=_check_pose(lambda a, b: _pose(a) @ _pose(b)))),
    ("moved", Row([POSE, V3, QUAT], lambda t, p, q: np.append(p, q))),
    ("noise", Row([word(3), num(-3, 3)], _noise)),
    ("noise", Row([word(7), vec(2, -3, 3)], _noise)),
    ("noise", Row([word(1 << 31), V4], _noise)),
    ("pnoise", Row([word(9), num(-9, 9), whole(3)], _noise)),
    ("curlnoise", Row([word(5), vec(3, -3, 3), whole(2)], check=_check_curl)),
    ("quat_from_matrix", Row([RIGID], check=_check_rotation(lambda m: m[:3, :3]))),
    ("transform_point", Row([M44, V3], lambda m, x: (m @ np.append(x, 1))[:3])),
    ("transform_vector", Row([M44, V3], lambda m, x: m[:3, :3] @ x)),
    *[
        ("quat_from_euler", Row([V3, *map(whole, ijk)], check=_check_rotation(_euler)))
        for ijk in [(0, 1, 2), (1, 2, 0), (2, 1, 0)]
    ],
    *[
        ("quat_to_euler", Row([QUAT, *map(whole, ijk)], check=_check_to_euler))
        for ijk in [(0, 1, 2), (2, 1, 0), (0, 2, 1)]
    ],
]
