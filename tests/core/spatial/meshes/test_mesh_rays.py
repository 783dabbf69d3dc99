"""Rays against meshes, against a loop over all faces in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from tools.geometry.triangle_meshes import bumpy_sphere, mesh_of, ray_hits

import sim
from sim.core.spatial.meshes import wide


@sim.kernel
def cast(
    mesh: sim.uint64,
    start: sim.array(dtype=sim.vec3),
    along: sim.array(dtype=sim.vec3),
    max_t: float,
    whole: sim.array(dtype=int, ndim=2),
    real: sim.array(dtype=float, ndim=2),
):
    i = sim.tid()
    r = sim.mesh_query_ray(mesh, start[i], along[i], max_t)
    whole[i, 0] = int(r.result)
    whole[i, 1] = r.face
    whole[i, 2] = int(sim.mesh_query_ray_anyhit(mesh, start[i], along[i], max_t))
    whole[i, 3] = sim.mesh_query_ray_count_intersections(mesh, start[i], along[i])
    real[i, 0] = r.t
    real[i, 1] = r.sign
    if r.result:
        on_face = sim.mesh_eval_position(mesh, r.face, r.u, r.v)
        real[i, 2] = sim.length(on_face - start[i] - along[i] * r.t)
        real[i, 3] = sim.dot(r.normal, along[i])
        real[i, 4] = sim.length(r.normal - sim.mesh_eval_face_normal(mesh, r.face))


def casts(mesh: sim.Mesh, start: np.ndarray, along: np.ndarray, max_t: float) -> tuple[np.ndarray, np.ndarray]:
    n = len(start)
    whole, real = sim.zeros((n, 4), dtype=int), sim.zeros((n, 5), dtype=float)
    inputs = [mesh.id, sim.array(start, dtype=sim.vec3), sim.array(along, dtype=sim.vec3), max_t]
    sim.launch(cast, n, inputs, [whole, real])
    return whole.numpy(), real.numpy()


@pytest.mark.parametrize("leaf_size", [1, 3])
@pytest.mark.parametrize("max_t", [0.4, 100.0])
def test_rays(leaf_size: int, max_t: float) -> None:
    points, faces = bumpy_sphere(12, 0.02)
    rng = np.random.default_rng(5)
    start = rng.uniform(-1.5, 1.5, (800, 3)).astype(np.float32)
    along = rng.normal(size=(800, 3)).astype(np.float32)
    along[:100] = np.eye(3)[rng.integers(0, 3, 100)] * rng.choice([-1, 1], (100, 1))  # parallel to boxes
    whole, real = casts(mesh_of(points, faces, bvh_leaf_size=leaf_size), start, along, max_t)
    every = ray_hits(points, faces, start, along)
    first, hit = every.min(1), every.min(1) < max_t
    assert 100 < hit.sum() < 790
    assert (whole[:, 0] == hit).all() and (whole[:, 2] == hit).all()
    assert (whole[:, 3] == np.isfinite(every).sum(1)).all()
    assert (whole[hit, 1] == every.argmin(1)[hit]).all()
    np.testing.assert_allclose(real[hit, 0], first[hit], rtol=1e-4, atol=1e-5)
    assert (np.sign(real[hit, 1]) == -np.sign(real[hit, 3])).all() and (real[hit, 1] != 0).all()
    assert real[:, 2].max() < 1e-5 and real[:, 4].max() < 1e-6
    assert not whole[~hit, :2].any() and not real[~hit].any()


@pytest.mark.parametrize("leaf_size", [1, 2, 9])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 17, 40])
def test_rays_in_trees_of_every_depth(count: int, leaf_size: int) -> None:
    points, faces = bumpy_sphere(6)
    faces = faces[np.random.default_rng(7).permutation(len(faces))[:count]]
    rng = np.random.default_rng(8)
    start = rng.uniform(-1.5, 1.5, (300, 3)).astype(np.float32)
    along = (points[faces].mean(1)[rng.integers(0, count, 300)] - start) * rng.uniform(0.5, 2, (300, 1))
    whole, _ = casts(mesh_of(points, faces, bvh_leaf_size=leaf_size), start, along.astype(np.float32), 100.0)
    every = ray_hits(points, faces, start, along.astype(np.float32))
    assert whole[:, 0].all() and (whole[:, 1] == every.argmin(1)).all()
    assert (whole[:, 3] == np.isfinite(every).sum(1)).all()


def test_rays_that_are_no_numbers_hit_nothing() -> None:
    points, faces = bumpy_sphere(6)
    strange = np.array([np.nan, np.inf, -np.inf], np.float32)
    start, along = np.zeros((18, 3), np.float32), np.ones((18, 3), np.float32)
    for k in range(9):
        start[k, k // 3] = strange[k % 3]
        along[k + 9, k // 3] = strange[k % 3]
    for leaf_size in (1, 4):
        whole, _ = casts(mesh_of(points, faces, bvh_leaf_size=leaf_size), start, along, np.inf)
        assert not whole.any()


def test_no_ray_slips_through_an_edge_or_a_corner() -> None:
    """From a point inside of a closed surface every ray gets out, also those through its corners and edges."""
    points, faces = bumpy_sphere(10)
    start = np.array([0.1, 0.2, -0.05], np.float32)
    rng = np.random.default_rng(6)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    share = rng.uniform(size=(len(edges), 1)).astype(np.float32)
    targets = np.concatenate([points, points[edges[:, 0]] * share + points[edges[:, 1]] * (1 - share)])
    along = targets - start
    whole, _ = casts(mesh_of(points, faces), np.broadcast_to(start, along.shape).copy(), along, 100.0)
    assert whole[:, 0].all() and whole[:, 2].all()


def test_rays_in_the_face_of_a_box_and_without_direction() -> None:
    points = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], np.float32)
    mesh = mesh_of(points, np.array([[0, 1, 2], [0, 2, 3]], np.int32), bvh_leaf_size=1)
    start = np.array([[2, 1, 1], [0, 1, 1], [1, 2, 1], [1, 0, 1], [1, 0.5, 1], [1, 1, 1], [2.01, 1, 1]], np.float32)
    along = np.tile(np.array([0, -0.0, -1], np.float32), (7, 1))
    along[5] = 0
    whole, real = casts(mesh, start, along, 10.0)
    assert whole[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert whole[:, 2].tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert (real[:5, 0] == 1.0).all() and (real[:5, 1] == 4.0).all()


@sim.kernel
def cast_in_the_older_form(mesh: sim.uint64, start: sim.vec3, along: sim.vec3, out: sim.array(dtype=float)):
    t = 9.0
    u = 9.0
    v = 9.0
    sign = 9.0
    normal = sim.vec3(9.0, 9.0, 9.0)
    face = 9
    if sim.mesh_query_ray(mesh, start, along, 10.0, t, u, v, sign, normal, face):
        out[0] = 1.0
    out[1] = t
    out[2] = u
    out[3] = normal[2]
    out[4] = float(face)


def test_results_in_variables() -> None:
    mesh = mesh_of(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32), np.array([[0, 1, 2]], np.int32))
    out = sim.zeros(5, dtype=float)
    sim.launch(cast_in_the_older_form, 1, [mesh.id, sim.vec3(0.25, 0.25, -2.0), sim.vec3(0.0, 0.0, 1.0)], [out])
    assert out.numpy().tolist() == [1, 2, 0.5, 1, 0]
    out.zero_()
    sim.launch(cast_in_the_older_form, 1, [mesh.id, sim.vec3(1.25, 0.25, -2.0), sim.vec3(0.0, 0.0, 1.0)], [out])
    assert out.numpy().tolist() == [0, 9, 9, 9, 9]


def scattered(count: int, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triangles apart from each other, of these sizes, each as far from the origin as it is large."""
    rng = np.random.default_rng(13)
    centres = rng.normal(size=(count, 1, 3))
    corners = (centres / np.linalg.norm(centres, axis=2, keepdims=True) * 4 + rng.normal(size=(count, 3, 3))) * sizes
    return corners.reshape(-1, 3).astype(np.float32), np.arange(3 * count, dtype=np.int32).reshape(-1, 3)


@pytest.mark.parametrize("levels", [1, 32])
def test_rays_among_triangles_of_very_different_sizes(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By area such a tree is deep; one that is too deep, as all with two levels are said to be, is built by halves."""
    monkeypatch.setattr(wide, "LEVELS", levels)
    points, faces = scattered(300, np.geomspace(1e-9, 1e9, 300)[:, None, None])
    mesh = mesh_of(points, faces)
    targets = points[faces].mean(1)
    start, along = np.zeros((300, 3), np.float32), (2 * targets).astype(np.float32)
    whole, _ = casts(mesh, start, along, 1.0)
    every = ray_hits(points, faces, start, along)
    assert whole[:, 0].all() and (whole[:, 1] == every.argmin(1)).all()
    assert (whole[:, 3] == np.isfinite(every).sum(1)).all()


def test_rays_among_many_triangles_at_one_place() -> None:
    """More than fit a block, which no plane divides; a hit of all of them is that of one, and counts for each."""
    points, faces = bumpy_sphere(6)
    piled = np.concatenate([faces, np.repeat(faces[10:11], 100, 0)])
    target = points[faces[10]].mean(0)
    start, along = (3 * target)[None].astype(np.float32), (-2 * target)[None].astype(np.float32)
    whole, real = casts(mesh_of(points, piled), start, along, np.inf)
    alone, there = casts(mesh_of(points, faces), start, along, np.inf)
    assert whole[0, 0] == alone[0, 0] == 1 and whole[0, 3] == alone[0, 3] + 100
    assert real[0, :2].tolist() == there[0, :2].tolist()


@pytest.mark.parametrize("direction", [-1.0, 1.0])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rays_without_an_end_pass_over_places_without_a_child(axis: int, direction: float) -> None:
    points = np.array([[0, 0, 0], [2, 0, 1], [0, 2, 2]], np.float32)
    along = np.zeros((2, 3), np.float32)
    along[:, axis] = direction
    start = np.stack([points.mean(0) - 5 * along[0], points.mean(0) + 5 * along[1]])
    whole, _ = casts(mesh_of(points, np.array([[0, 1, 2]], np.int32)), start, along, np.inf)
    assert whole[:, [0, 2, 3]].tolist() == [[1, 1, 1], [0, 0, 0]]


@sim.kernel
def seen(
    mesh: sim.uint64, start: sim.array(dtype=sim.vec3), along: sim.array(dtype=sim.vec3), out: sim.array(dtype=float)
):
    i = sim.tid()
    reach = 4.0 * sim.length(along[i])
    if sim.mesh_query_ray_anyhit(mesh, start[i], along[i], reach):
        out[i] += sim.length_sq(start[i])
    crossed = sim.mesh_query_ray_count_intersections(mesh, start[i], along[i])
    out[i] += float(crossed) * along[i][0]


def test_whether_and_how_often_stand_beside_gradients() -> None:
    """Rays whose start, direction and reach have a gradient: what is counted is a step, and has none."""
    mesh = mesh_of(*bumpy_sphere(12, 0.02))
    rng = np.random.default_rng(3)
    start = sim.array(rng.uniform(-1.5, 1.5, (50, 3)), dtype=sim.vec3, requires_grad=True)
    along = sim.array(rng.normal(size=(50, 3)), dtype=sim.vec3, requires_grad=True)
    out = sim.zeros(50, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(seen, 50, [mesh.id, start, along], [out])
    tape.backward(grads={out: sim.ones(50, dtype=float)})
    counts = casts(mesh, start.numpy(), along.numpy(), 100.0)[0][:, 3]
    reached = np.array(
        [
            casts(
                mesh, start.numpy()[i : i + 1], along.numpy()[i : i + 1], 4.0 * float(np.linalg.norm(along.numpy()[i]))
            )[0][0, 2]
            for i in range(50)
        ]
    )
    assert 10 < (counts > 0).sum() < 45 and 10 < reached.sum() < 45
    np.testing.assert_allclose(start.grad.numpy(), 2 * start.numpy() * reached[:, None], rtol=1e-6)
    np.testing.assert_allclose(along.grad.numpy(), counts[:, None] * [1.0, 0.0, 0.0], rtol=1e-6)
