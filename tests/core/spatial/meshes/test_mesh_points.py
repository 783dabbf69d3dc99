"""Closest and furthest points, inside and outside, against a loop over all faces in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from tools.geometry.triangle_meshes import bumpy_sphere, distances, mesh_of, winding_numbers

import sim


@sim.kernel
def ask(
    mesh: sim.uint64,
    q: sim.array(dtype=sim.vec3),
    max_dist: float,
    found: sim.array(dtype=int, ndim=2),
    distance: sim.array(dtype=float),
    sign: sim.array(dtype=float, ndim=2),
):
    i = sim.tid()
    p = q[i]
    r = sim.mesh_query_point(mesh, p, max_dist)
    found[i, 0] = int(r.result)
    found[i, 1] = r.face
    if r.result:
        distance[i] = sim.length(sim.mesh_eval_position(mesh, r.face, r.u, r.v) - p)
    sign[i, 0] = r.sign
    sign[i, 1] = sim.mesh_query_point_sign_normal(mesh, p, max_dist).sign
    sign[i, 2] = sim.mesh_query_point_sign_parity(mesh, p, max_dist, 3, 0.2).sign
    sign[i, 3] = sim.mesh_query_point_sign_winding_number(mesh, p, max_dist).sign
    plain = sim.mesh_query_point_no_sign(mesh, p, max_dist)
    found[i, 2] = plain.face
    sign[i, 4] = plain.sign


def answers(mesh: sim.Mesh, q: np.ndarray, max_dist: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(q)
    out = sim.zeros((n, 3), dtype=int), sim.zeros(n, dtype=float), sim.zeros((n, 5), dtype=float)
    sim.launch(ask, n, [mesh.id, sim.array(q, dtype=sim.vec3), max_dist], out)
    found, distance, sign = (a.numpy() for a in out)
    return found, distance, sign


@pytest.mark.parametrize("leaf_size", [1, 2, 5])
@pytest.mark.parametrize("wound", [False, True])
def test_closest_points_and_signs(leaf_size: int, wound: bool) -> None:
    points, faces = bumpy_sphere(12, 0.02)
    mesh = mesh_of(points, faces, bvh_leaf_size=leaf_size, support_winding_number=wound)
    q = np.random.default_rng(1).uniform(-1.6, 1.6, (600, 3)).astype(np.float32)
    found, distance, sign = answers(mesh, q, 10.0)
    every = distances(points, faces, q)
    assert found[:, 0].all()
    np.testing.assert_allclose(distance, every.min(1), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(every[np.arange(len(q)), found[:, 1]], every.min(1), rtol=2e-6, atol=1e-6)
    assert (found[:, 2] == found[:, 1]).all()
    inside = np.where(winding_numbers(points, faces, q) > 0.5, -1.0, 1.0)
    assert 50 < (inside < 0).sum() < 500
    clear = every.min(1) > 1e-3
    for k in range(4):
        assert (sign[clear, k] == inside[clear]).all(), k
    assert not sign[:, 4].any()


def test_nothing_within_the_distance() -> None:
    points, faces = bumpy_sphere(8)
    q = np.random.default_rng(2).uniform(-2, 2, (300, 3)).astype(np.float32)
    found, distance, sign = answers(mesh_of(points, faces), q, 0.4)
    near = distances(points, faces, q).min(1)
    assert (found[:, 0] == (near < 0.4)).all() and 20 < found[:, 0].sum() < 280
    out = found[:, 0] == 0
    assert not found[out].any() and not sign[out].any() and not distance[out].any()


def test_triangles_without_area_count_as_their_edges() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [3, 0, 0], [2, 2, 0], [2, 2, 0], [0, 4, 0], [5, 5, 5]], np.float32)
    faces = np.array([[0, 1, 2], [2, 0, 1], [3, 4, 5], [5, 3, 4], [6, 6, 6]], np.int32)
    q = np.random.default_rng(3).uniform(-1, 6, (400, 3)).astype(np.float32)
    found, distance, _ = answers(mesh_of(points, faces), q, 100.0)
    a, b = points[[0, 3, 6]], points[[2, 5, 6]]
    near = distances(np.concatenate([a, b]), np.array([[0, 3, 0], [1, 4, 1], [2, 5, 2]]), q).min(1)
    np.testing.assert_allclose(distance, near, rtol=1e-5)
    assert found[:, 0].all() and {0, 2, 4} <= set(found[:, 1])


@sim.kernel
def ask_furthest(mesh: sim.uint64, q: sim.array(dtype=sim.vec3), least: float, out: sim.array(dtype=float)):
    i = sim.tid()
    r = sim.mesh_query_furthest_point_no_sign(mesh, q[i], least)
    out[i] = -1.0
    if r.result:
        out[i] = sim.length(sim.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i])


def test_furthest_points() -> None:
    points, faces = bumpy_sphere(8, 0.05)
    q = np.random.default_rng(4).uniform(-2, 2, (200, 3)).astype(np.float32)
    far = np.linalg.norm(points - q[:, None], axis=-1).max(1)
    mesh, out = mesh_of(points, faces), sim.zeros(200, dtype=float)
    sim.launch(ask_furthest, 200, [mesh.id, sim.array(q, dtype=sim.vec3), 2.5], [out])
    np.testing.assert_allclose(out.numpy(), np.where(far > 2.5, far, -1.0), rtol=1e-6)
    assert 20 < (far > 2.5).sum() < 180


@sim.kernel
def ask_in_the_older_form(mesh: sim.uint64, p: sim.vec3, max_dist: float, out: sim.array(dtype=float)):
    sign = 5.0
    face = 6
    u = 7.0
    v = 8.0
    out[0] = float(sim.mesh_query_point(mesh, p, max_dist, sign, face, u, v))
    out[1] = sign
    out[2] = float(face)
    out[3] = u
    out[4] = v
    found = sim.mesh_query_point_sign_parity(mesh, p, max_dist, sign, face, u, v, 5, 0.2)
    out[5] = float(found)
    if sim.mesh_query_point_no_sign(mesh, p, max_dist, face, u, v):
        out[6] = u + 2.0 * v


def test_results_in_variables_stay_where_nothing_is_found() -> None:
    points, faces = np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.int32)
    mesh, out = mesh_of(points, faces), sim.zeros(7, dtype=float)
    sim.launch(ask_in_the_older_form, 1, [mesh.id, sim.vec3(1.0, 1.0, 1.0), 0.1], [out])
    assert out.numpy().tolist() == [0, 5, 6, 7, 8, 0, 0]
    sim.launch(ask_in_the_older_form, 1, [mesh.id, sim.vec3(1.0, 1.0, 1.0), 9.0], [out])
    np.testing.assert_allclose(out.numpy(), [1, 1, 0, 1 / 3, 1 / 3, 1, 1], rtol=1e-6)


def test_a_mesh_without_faces_has_no_closest_point() -> None:
    empty = mesh_of(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    found, _, sign = answers(empty, np.zeros((3, 3), np.float32), 1.0)
    assert not found.any() and not sign.any()
