"""Gradients of queries, by the query and by the points of the mesh, against differences and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.geometry.triangle_meshes import bumpy_sphere, mesh_of

import sim


@sim.kernel
def measure(
    mesh: sim.uint64,
    q: sim.array(dtype=sim.vec3),
    along: sim.array(dtype=sim.vec3),
    w: sim.array(dtype=sim.vec3),
    out: sim.array(dtype=float),
    region: sim.array(dtype=int, ndim=2),
):
    """Weighted sums of all that queries give, and on which corner, edge or face they found it."""
    i = sim.tid()
    r = sim.mesh_query_point(mesh, q[i], 100.0)
    x = sim.mesh_eval_position(mesh, r.face, r.u, r.v)
    out[i] += (
        sim.dot(w[i], x) + r.u * w[i][0] + r.v * r.u + sim.dot(sim.mesh_eval_velocity(mesh, r.face, r.u, r.v), w[i])
    )
    region[i, 0] = r.face
    region[i, 1] = int(r.u > 1.0e-4) + 2 * int(r.v > 1.0e-4) + 4 * int(r.u + r.v < 1.0 - 1.0e-4)
    h = sim.mesh_query_ray(mesh, q[i], along[i], 100.0)
    if h.result:
        y = sim.mesh_eval_position(mesh, h.face, h.u, h.v)
        out[i] += h.t * w[i][1] + h.u + h.v * w[i][2] + sim.dot(h.normal, w[i]) + sim.dot(y, w[i])
        out[i] += sim.dot(sim.mesh_eval_face_normal(mesh, h.face), w[i]) + sim.mesh_get_point(mesh, 3 * h.face)[0]
    region[i, 2] = h.face
    region[i, 3] = int(h.result)


N = 400


class Scene:
    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.points, self.faces = bumpy_sphere(7, 0.03)
        self.q = rng.uniform(-1.5, 1.5, (N, 3))
        self.along = rng.normal(size=(N, 3))
        self.velocities = rng.normal(size=self.points.shape)
        self.w = sim.array(rng.normal(size=(N, 3)).astype(np.float32), dtype=sim.vec3)

    def arrays(self, shift: dict[str, np.ndarray], requires_grad: bool = False) -> tuple[sim.Mesh, list[Any]]:
        points, velocities, q, along = (
            sim.array(
                (getattr(self, name) + shift.get(name, 0.0)).astype(np.float32),
                dtype=sim.vec3,
                requires_grad=requires_grad,
            )
            for name in ("points", "velocities", "q", "along")
        )
        return sim.Mesh(points, sim.array(self.faces.ravel(), dtype=int), velocities), [q, along]

    def values(self, shift: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        mesh, inputs = self.arrays(shift)
        out, region = sim.zeros(N, dtype=float), sim.zeros((N, 4), dtype=int)
        sim.launch(measure, N, [mesh.id, *inputs, self.w], [out, region])
        return out.numpy().astype(float), region.numpy()


def test_gradients_against_differences_in_every_region() -> None:
    scene, step = Scene(), 3e-4
    rng = np.random.default_rng(8)
    shifts = {name: rng.normal(size=getattr(scene, name).shape) for name in ("points", "velocities", "q", "along")}
    shifts["points"] *= 0.3
    region = scene.values({})[1]
    assert len(set(region[:, 1])) == 7  # corners 1, 2, 4, edges 3, 5, 6, the inside 7
    for name, shift in shifts.items():
        high, at_high = scene.values({name: shift * step})
        low, at_low = scene.values({name: shift * -step})
        same = (at_high == region).all(1) & (at_low == region).all(1)
        assert same.sum() > N // 2
        seeds = np.where(same, rng.normal(size=N), 0.0).astype(np.float32)
        mesh, inputs = scene.arrays({}, requires_grad=True)
        out = sim.zeros(N, dtype=float, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(measure, N, [mesh.id, *inputs, scene.w], [out, sim.zeros((N, 4), dtype=int)])
        tape.backward(grads={out: sim.array(seeds)})
        array = {"points": mesh.points, "velocities": mesh.velocities, "q": inputs[0], "along": inputs[1]}[name]
        slope, expected = (array.grad.numpy() * shift).sum(), (seeds * (high - low)).sum() / (2 * step)
        assert abs(slope - expected) < 2e-3 * np.sqrt((seeds**2 * ((high - low) / (2 * step)) ** 2).sum()), name


@sim.kernel
def squared_distance(mesh: sim.uint64, q: sim.array(dtype=sim.vec3), out: sim.array(dtype=float)):
    i = sim.tid()
    r = sim.mesh_query_point_sign_normal(mesh, q[i], 100.0)
    d = sim.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i]
    out[i] = sim.dot(d, d)


@pytest.mark.parametrize(
    ("q", "weights"),
    [((0.2, 0.3, 0.5), (0.5, 0.2, 0.3)), ((0.4, -1.0, 0.5), (0.6, 0.4, 0.0)), ((2.0, -1.0, 0.5), (0.0, 1.0, 0.0))],
)
def test_gradient_of_a_distance_is_that_of_the_closest_point(q: Any, weights: Any) -> None:
    """d |x - q|^2 = 2 (x - q) (sum of weights times corners - dq): what x slides along the face adds nothing."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    mesh = mesh_of(points, np.array([[0, 1, 2]], np.int32), requires_grad=True)
    at = sim.array(np.array([q], np.float32), dtype=sim.vec3, requires_grad=True)
    out = sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(squared_distance, 1, [mesh.id, at], [out])
    tape.backward(out)
    away = np.array(weights) @ points - np.array(q)
    np.testing.assert_allclose(at.grad.numpy()[0], -2 * away, atol=1e-6)
    np.testing.assert_allclose(mesh.points.grad.numpy(), 2 * np.outer(weights, away), atol=1e-6)


@sim.kernel
def move(points: sim.array(dtype=sim.vec3), by: sim.array(dtype=float)):
    i = sim.tid()
    points[i] = points[i] + sim.vec3(0.0, 0.0, by[0])


def test_what_moves_under_the_tape_is_differentiated_where_it_was() -> None:
    """The mesh moves and is refitted between two queries; each is differentiated with the mesh that it saw."""
    points = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 9], [4, 0, 9], [0, 4, 9]], np.float32)
    mesh = mesh_of(points, np.array([[0, 1, 2], [3, 4, 5]], np.int32), requires_grad=True)
    at = sim.array(np.array([[1, 1, 2]], np.float32), dtype=sim.vec3, requires_grad=True)
    by = sim.array(np.array([-6.0], np.float32), requires_grad=True)
    first, second = (sim.zeros(1, dtype=float, requires_grad=True) for _ in range(2))
    with sim.Tape() as tape:
        sim.launch(squared_distance, 1, [mesh.id, at], [first])
        sim.launch(move, 6, [mesh.points, by])
        mesh.refit()
        sim.launch(squared_distance, 1, [mesh.id, at], [second])
    assert (first.numpy()[0], second.numpy()[0]) == (4.0, 1.0)
    tape.backward(grads={first: sim.array([1.0]), second: sim.array([1.0])})
    assert at.grad.numpy()[0].tolist() == [0, 0, 4 - 2]  # of the lower face at z = 0, then of the upper one at z = 3
    assert by.grad.numpy()[0] == 2.0
    np.testing.assert_allclose(mesh.points.grad.numpy()[:, 2].reshape(2, 3).sum(1), [-4, 2], atol=1e-6)
