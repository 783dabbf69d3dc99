"""The mesh as an object: what it takes, its id, refits, graphs, threads, and the text for GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from tools.cuda.on_cpu import fake_gpu, needs_gxx
from tools.geometry.triangle_meshes import bumpy_sphere, mesh_of

import sim


@sim.kernel
def height(mesh: sim.uint64, q: sim.array(dtype=sim.vec3), out: sim.array(dtype=sim.vec3)):
    i = sim.tid()
    r = sim.mesh_query_point_sign_winding_number(mesh, q[i], 100.0)
    h = sim.mesh_query_ray(mesh, q[i], sim.vec3(0.0, 0.0, -1.0), 100.0)
    away = sim.length(sim.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i])
    out[i] = sim.vec3(float(r.face), r.sign * away, h.t)


def asked(mesh: sim.Mesh, q: sim.array) -> np.ndarray:
    out = sim.zeros(len(q), dtype=sim.vec3)
    sim.launch(height, len(q), [mesh.id, q], [out])
    return out.numpy()


def points_around(n: int) -> sim.array:
    return sim.array(np.random.default_rng(12).uniform(-1.3, 1.3, (n, 3)).astype(np.float32), dtype=sim.vec3)


def test_refit_gives_what_a_new_mesh_gives() -> None:
    points, faces = bumpy_sphere(10)
    mesh, q = mesh_of(points, faces, support_winding_number=True), points_around(300)
    before = asked(mesh, q)
    moved = (points * [1.1, 0.7, 1.2]).astype(np.float32)
    fresh = asked(mesh_kept := mesh_of(moved, faces, support_winding_number=True), q)
    mesh.points.assign(moved)
    mesh.refit()
    np.testing.assert_allclose(asked(mesh, q)[:, 1:], fresh[:, 1:], atol=1e-5)
    assert (before != fresh).any()
    mesh.points = sim.array(points, dtype=sim.vec3)
    assert (asked(mesh, q) == before).all()
    assert mesh_kept.id != mesh.id


def test_refits_and_queries_in_a_captured_graph() -> None:
    points, faces = bumpy_sphere(8)
    mesh, q = mesh_of(points, faces, support_winding_number=True), points_around(100)
    out = sim.zeros(100, dtype=sim.vec3)
    with sim.capture() as graph:
        mesh.refit()
        sim.launch(height, 100, [mesh.id, q], [out])
    for factor in (1.0, 0.6, 1.3):
        scaled = (points * factor).astype(np.float32)
        mesh.points.assign(scaled)
        graph.replay()
        kept = mesh_of(scaled, faces, support_winding_number=True)
        np.testing.assert_allclose(out.numpy()[:, 1:], asked(kept, q)[:, 1:], atol=1e-5)


def test_answers_do_not_depend_on_the_number_of_threads() -> None:
    points, faces = bumpy_sphere(12)
    mesh, q = mesh_of(points, faces, support_winding_number=True), points_around(20_000)
    before = sim.get_num_threads()
    try:
        sim.set_num_threads(1)
        alone = asked(mesh, q)
        sim.set_num_threads(4)
        assert (asked(mesh, q) == alone).all()
    finally:
        sim.set_num_threads(before)


def test_a_recorded_launch_follows_a_mesh_to_other_points() -> None:
    points, faces = bumpy_sphere(8)
    mesh, q = mesh_of(points, faces), points_around(50)
    out = sim.zeros(50, dtype=sim.vec3)
    launch = sim.launch(height, 50, [mesh.id, q], [out], record_cmd=True)
    for factor in (1.0, 0.5):
        mesh.points = sim.array((points * factor).astype(np.float32), dtype=sim.vec3)
        launch.launch()
        assert (out.numpy() == asked(mesh, q)).all()


@sim.struct
class Settings:
    scale: float
    mesh: sim.uint64


@sim.func
def found_in(mesh: sim.uint64, p: sim.vec3):
    return sim.mesh_query_point_no_sign(mesh, p, 100.0).face


@sim.kernel
def by_struct(settings: Settings, other: sim.uint64, q: sim.array(dtype=sim.vec3), out: sim.array(dtype=int, ndim=2)):
    i = sim.tid()
    out[i, 0] = found_in(settings.mesh, q[i] * settings.scale)
    out[i, 1] = found_in(other, q[i])


def test_ids_in_structs_and_of_several_meshes() -> None:
    points, faces = bumpy_sphere(8)
    one, two, q = mesh_of(points, faces), mesh_of(points, faces[::-1].copy()), points_around(50)
    settings = Settings()
    settings.scale, settings.mesh = 1.0, one.id
    out = sim.zeros((50, 2), dtype=int)
    launch = sim.launch(by_struct, 50, [settings, one.id, q], [out], record_cmd=True)
    launch.launch()
    assert (out.numpy()[:, 0] == out.numpy()[:, 1]).all()
    launch.set_param_by_name("other", two.id)
    launch.launch()
    first, second = out.numpy().T
    assert (first != second).all()
    nothing = sim.zeros((50, 2), dtype=int)
    sim.launch(by_struct, 50, [settings, 0, q], [nothing])
    assert (nothing.numpy()[:, 1] == 0).all() and (nothing.numpy()[:, 0] == first).all()


@sim.kernel
def by_array(meshes: sim.array(dtype=sim.uint64), q: sim.array(dtype=sim.vec3), out: sim.array(dtype=float, ndim=2)):
    i = sim.tid()
    for k in range(meshes.shape[0]):
        mesh = meshes[k]
        r = sim.mesh_query_point_sign_normal(mesh, q[i], 100.0)
        out[i, 2 * k] = r.sign * sim.length(sim.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i])
        for face in sim.mesh_query_aabb(mesh, q[i] - sim.vec3(0.2), q[i] + sim.vec3(0.2)):
            out[i, 2 * k + 1] += float(face)


def test_ids_in_arrays() -> None:
    points, faces = bumpy_sphere(8)
    meshes, q = [mesh_of(points, faces), mesh_of((points * 0.5).astype(np.float32), faces)], points_around(60)
    ids, out = sim.array([m.id for m in meshes], dtype=sim.uint64), sim.zeros((60, 4), dtype=float)
    sim.launch(by_array, 60, [ids, q], [out])
    for k, mesh in enumerate(meshes):
        alone = sim.zeros((60, 2), dtype=float)
        sim.launch(by_argument, 60, [mesh.id, q], [alone])
        assert (out.numpy()[:, 2 * k : 2 * k + 2] == alone.numpy()).all() and alone.numpy().any(0).all()


@sim.kernel
def by_argument(mesh: sim.uint64, q: sim.array(dtype=sim.vec3), out: sim.array(dtype=float, ndim=2)):
    i = sim.tid()
    r = sim.mesh_query_point_sign_normal(mesh, q[i], 100.0)
    out[i, 0] = r.sign * sim.length(sim.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i])
    for face in sim.mesh_query_aabb(mesh, q[i] - sim.vec3(0.2), q[i] + sim.vec3(0.2)):
        out[i, 1] += float(face)


def test_gradients_through_ids_in_arrays() -> None:
    """By the query they are those of the id as an argument; by the points of the mesh there are none, and an error."""
    points, faces = bumpy_sphere(8)
    mesh, slopes = mesh_of(points, faces), []
    for kernel, known in ((by_argument, mesh.id), (by_array, sim.array([mesh.id], dtype=sim.uint64))):
        q = sim.array(points_around(30).numpy(), dtype=sim.vec3, requires_grad=True)
        out = sim.zeros((30, 2), dtype=float, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(kernel, 30, [known, q], [out])
        tape.backward(grads={out: sim.array(np.ones((30, 2), np.float32))})
        slopes.append(q.grad.numpy())
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-6)
    assert np.abs(slopes[0]).max() > 0.5
    with_gradient = mesh_of(points, faces, requires_grad=True)
    with (
        sim.Tape(),
        pytest.raises(sim.GradientError, match="loads the id of a Mesh, and there is one"),
    ):
        sim.launch(by_array, 30, [sim.array([with_gradient.id], dtype=sim.uint64), q], [out])


@sim.kernel
def boxes_by_array(meshes: sim.array(dtype=sim.uint64), out: sim.array(dtype=int)):
    for item in sim.bvh_query_sphere(sim.mesh_get_bvh(meshes[0]), sim.vec3(), 1.0):
        out[0] += item


def test_ids_that_are_none() -> None:
    points, faces = bumpy_sphere(6)
    q, out = points_around(2), sim.zeros(2, dtype=sim.vec3)
    with pytest.raises(sim.SimError, match=r"'mesh' of kernel 'height' is 5, no id of anything that lives"):
        sim.launch(height, 2, [5, q], [out])
    gone = mesh_of(points, faces).id
    with pytest.raises(
        sim.SimError, match=r"no id of anything that lives; expected the `id` of a Mesh, which you keep"
    ):
        sim.launch(height, 2, [gone, q], [out])
    with pytest.raises(sim.KernelError, match="has to be an argument of the kernel here, or a field of one"):
        sim.launch(boxes_by_array, 1, [sim.array([gone], dtype=sim.uint64)], [sim.zeros(1, dtype=int)])


def test_meshes_that_cannot_be() -> None:
    points, indices = sim.zeros(3, dtype=sim.vec3), sim.array([0, 1, 2])
    for wrong, message in (
        ({"points": sim.zeros(3, dtype=sim.vec3d)}, "points is .* expected a one-dimensional array of vec3"),
        ({"indices": sim.zeros(3, dtype=sim.int64)}, "indices is .* expected a one-dimensional array of int32"),
        ({"indices": sim.zeros((1, 3), dtype=int)}, "indices is .* expected a one-dimensional array of int32"),
        ({"indices": sim.zeros(4, dtype=int)}, "4 entries; expected three for each face"),
        ({"velocities": sim.zeros(2, dtype=sim.vec3)}, "velocities has 2 entries; expected 3"),
        ({"groups": sim.zeros(2, dtype=int)}, "2 groups for 1"),
        ({"bvh_leaf_size": 0}, "bvh_leaf_size is 0"),
        ({"bvh_constructor": "cubql", "support_winding_number": True}, "'cubql' has neither"),
    ):
        with pytest.raises(RuntimeError, match=message):
            sim.Mesh(**{"points": points, "indices": indices, **wrong})
    with pytest.raises(ValueError, match="constructor is 'best'"):
        sim.Mesh(points, indices, bvh_constructor="best")
    mesh = sim.Mesh(points, indices, bvh_constructor="median")
    with pytest.raises(RuntimeError, match="points has 4 entries; expected 3"):
        mesh.points = sim.zeros(4, dtype=sim.vec3)


@needs_gxx
def test_on_a_gpu() -> None:
    """Building, refitting, asking and the way back, as text for GPUs that runs on the CPU."""
    points, faces = bumpy_sphere(6, 0.02)
    gpu, found = fake_gpu(), []
    for device in (gpu, sim.get_device("cpu")):
        made = sim.array(points, dtype=sim.vec3, device=device, requires_grad=True)
        indices = sim.array(faces.ravel(), dtype=int, device=device)
        mesh = sim.Mesh(made, indices, support_winding_number=True)
        q = sim.array(points_around(40).numpy(), dtype=sim.vec3, device=device, requires_grad=True)
        out = sim.zeros(40, dtype=sim.vec3, device=device, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(height, 40, [mesh.id, q], [out])
        tape.backward(grads={out: sim.array(np.ones((40, 3), np.float32), dtype=sim.vec3, device=device)})
        found.append([out.numpy(), q.grad.numpy(), mesh.points.grad.numpy()])
    for on_gpu, on_cpu in zip(*found, strict=True):
        assert np.abs(on_cpu).max() > 0.1
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-5)


def test_arrays_on_different_devices() -> None:
    points = sim.zeros(3, dtype=sim.vec3, device=fake_gpu())
    with pytest.raises(RuntimeError, match="indices lies on cpu, the points on cuda:0; expected one device"):
        sim.Mesh(points, sim.array([0, 1, 2]))
