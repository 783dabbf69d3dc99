"""Walks over the faces near a box or a ball, groups of faces, and parts of a mesh by name."""

from __future__ import annotations

import numpy as np
import pytest
from tools.geometry.triangle_meshes import bumpy_sphere, distances, mesh_of, ray_hits

import sim

MOST = 64


@sim.kernel
def near_box(mesh: sim.uint64, low: sim.vec3, high: sim.vec3, out: sim.array(dtype=int)):
    query = sim.mesh_query_aabb(mesh, low, high)
    face = 0
    k = 0
    while sim.mesh_query_aabb_next(query, face):
        out[k] = face
        k += 1


@sim.kernel
def near_point(mesh: sim.uint64, center: sim.vec3, radius: float, out: sim.array(dtype=int)):
    k = 0
    for face in sim.mesh_query_sphere(mesh, center, radius):
        out[k] = face
        k += 1


@sim.kernel
def near_either(mesh: sim.uint64, ball: int, center: sim.vec3, size: float, out: sim.array(dtype=int)):
    query = sim.mesh_query_aabb(mesh, center - sim.vec3(size), center + sim.vec3(size))
    if ball == 1:
        query = sim.mesh_query_sphere(mesh, center, size)
    face = 0
    k = 0
    while sim.mesh_query_next(query, face):
        out[k] = face
        k += 1


@pytest.mark.parametrize("leaf_size", [1, 4])
def test_faces_near_a_box_and_a_ball(leaf_size: int) -> None:
    points, faces = bumpy_sphere(12, 0.02)
    mesh = mesh_of(points, faces, bvh_leaf_size=leaf_size)
    lows, highs = points[faces].min(1), points[faces].max(1)
    counts = []
    for center in np.random.default_rng(9).uniform(-1, 1, (25, 3)).astype(np.float32):
        size = np.float32(0.3)
        boxes = ((lows <= center + size) & (highs >= center - size)).all(1)
        balls = distances(points, faces, center[None])[0] <= size
        c, found = sim.vec3(*center.tolist()), [sim.full(MOST, -1, dtype=int) for _ in range(4)]
        low, high = sim.vec3(*(center - size).tolist()), sim.vec3(*(center + size).tolist())
        sim.launch(near_box, 1, [mesh.id, low, high], [found[0]])
        sim.launch(near_point, 1, [mesh.id, c, 0.3], [found[1]])
        sim.launch(near_either, 1, [mesh.id, 0, c, 0.3], [found[2]])
        sim.launch(near_either, 1, [mesh.id, 1, c, 0.3], [found[3]])
        for out, expected in zip(found, (boxes, balls, boxes, balls), strict=True):
            got = out.numpy()[out.numpy() >= 0].tolist()
            assert sorted(got) == np.flatnonzero(expected).tolist()
        counts.append(boxes.sum())
    assert max(counts) > 10 and min(counts) == 0


@sim.kernel
def cast_in_group(mesh: sim.uint64, group: int, start: sim.vec3, along: sim.vec3, out: sim.array(dtype=int)):
    root = sim.mesh_get_group_root(mesh, group)
    out[0] = root
    r = sim.mesh_query_ray(mesh, start, along, 100.0, root)
    out[1] = int(r.result)
    out[2] = r.face
    out[3] = int(sim.mesh_query_ray_anyhit(mesh, start, along, 100.0, root))
    out[4] = sim.mesh_query_ray_count_intersections(mesh, start, along, root)


def test_rays_in_a_group() -> None:
    points, faces = bumpy_sphere(10, 0.02)
    groups = np.random.default_rng(10).choice([-3, 0, 7, 8], len(faces)).astype(np.int32)
    mesh = mesh_of(points, faces, groups=sim.array(groups))
    rng = np.random.default_rng(11)
    roots = set()
    for group in (-3, 0, 7, 8, 5, 9, -4):
        for _ in range(6):
            start, along = np.zeros(3, np.float32), rng.normal(size=3).astype(np.float32)
            every = ray_hits(points, faces, start[None], along[None])[0]
            if group in groups:
                every = np.where(groups == group, every, np.inf)
            out = sim.zeros(5, dtype=int)
            sim.launch(cast_in_group, 1, [mesh.id, group, sim.vec3(), sim.vec3(*along.tolist())], [out])
            root, *rest = out.numpy().tolist()
            hits = int(np.isfinite(every).sum())
            assert (root == -1) == (group not in groups)
            assert rest == [hits > 0, int(every.argmin()) if hits else 0, hits > 0, hits]
            roots.add(root)
    assert len(roots) == 5


@sim.kernel
def parts(mesh_id: sim.uint64, k: int, real: sim.array(dtype=sim.vec3), whole: sim.array(dtype=int)):
    mesh = sim.mesh_get(mesh_id)
    real[0] = mesh.points[k]
    real[1] = sim.mesh_get_point(mesh_id, k)
    real[2] = sim.mesh_eval_face_normal(mesh_id, 1)
    real[3] = sim.mesh_get_velocity(mesh_id, k)
    real[4] = sim.mesh_eval_velocity(mesh_id, 1, 0.5, 0.25)
    whole[0] = mesh.indices[k]
    whole[1] = sim.mesh_get_index(mesh_id, k)


def test_parts_of_a_mesh() -> None:
    points = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2]], np.float32)
    faces = np.array([[0, 2, 1], [0, 1, 3]], np.int32)
    speeds = np.arange(12, dtype=np.float32).reshape(4, 3)
    for velocities in (None, sim.array(speeds, dtype=sim.vec3)):
        mesh = mesh_of(points, faces, velocities=velocities)
        real, whole = sim.zeros(5, dtype=sim.vec3), sim.zeros(2, dtype=int)
        sim.launch(parts, 1, [mesh.id, 2], [real, whole])
        moving = 0.0 if velocities is None else 1.0
        middle = 0.5 * speeds[0] + 0.25 * speeds[1] + 0.25 * speeds[3]
        expected = [points[2], points[1], [0, -1, 0], speeds[1] * moving, middle * moving]
        assert real.numpy().tolist() == np.array(expected).tolist()
        assert whole.numpy().tolist() == [1, 1]


@sim.kernel
def near_by_boxes(mesh: sim.uint64, center: sim.vec3, radius: float, out: sim.array(dtype=int)):
    for item in sim.bvh_query_sphere(sim.mesh_get_bvh(mesh), center, radius):
        out[item] = 1


def test_the_tree_of_boxes_follows_the_mesh() -> None:
    points, faces = bumpy_sphere(8, 0.02)
    mesh = mesh_of(points, faces)
    for shift in (0.0, 3.0):
        mesh.points.assign((points + shift).astype(np.float32))
        mesh.refit()
        out = sim.zeros(len(faces), dtype=int)
        sim.launch(near_by_boxes, 1, [mesh.id, sim.vec3(shift + 0.8, shift, shift), 0.4], [out])
        corners = points[faces]
        center = np.array([0.8, 0, 0])
        away = np.maximum(np.maximum(corners.min(1) - center, center - corners.max(1)), 0)
        assert (out.numpy() == ((away**2).sum(1) <= 0.16)).all() and 3 < out.numpy().sum() < len(faces) // 2
