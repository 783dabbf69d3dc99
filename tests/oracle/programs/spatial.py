"""Programs about hash grids, bounding volume hierarchies and meshes (form: `functions`)."""

import numpy as np
from oracle_helpers import values_and_gradients

import sim as wp


def grid_neighbours():
    @wp.kernel
    def count(
        grid: wp.uint64,
        x: wp.array(dtype=wp.vec3),
        radius: float,
        out: wp.array(dtype=int),
        sums: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        p = x[i]
        query = wp.hash_grid_query(grid, p, radius)
        other = int(0)
        n = int(0)
        total = wp.vec3()
        while wp.hash_grid_query_next(query, other):
            if wp.length(x[other] - p) <= radius:
                n += 1
                total += x[other]
        out[i] = n
        sums[i] = total

    points = np.random.default_rng(1).uniform(-2, 2, (60, 3)).astype(np.float32)
    x = wp.array(points, dtype=wp.vec3)
    grid = wp.HashGrid(8, 8, 8)
    grid.build(x, 0.9)
    out, sums = wp.zeros(60, dtype=int), wp.zeros(60, dtype=wp.vec3)
    wp.launch(count, dim=60, inputs=[grid.id, x, 0.9], outputs=[out, sums])
    return [out.numpy(), sums.numpy()]


def grid_iteration():
    @wp.kernel
    def count(grid: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=int)):
        i = wp.tid()
        k = wp.hash_grid_point_id(grid, i)
        n = int(0)
        for other in wp.hash_grid_query(grid, x[k], 1.1):
            if wp.length(x[other] - x[k]) < 1.1 and other != k:
                n += 1
        out[k] = n

    x = wp.array(np.random.default_rng(2).uniform(0, 3, (40, 3)).astype(np.float32), dtype=wp.vec3)
    grid = wp.HashGrid(4, 4, 4)
    grid.build(points=x, radius=1.1)
    out = wp.zeros(40, dtype=int)
    wp.launch(count, dim=40, inputs=[grid.id, x], outputs=[out])
    return [out.numpy()]


def hierarchy_boxes():
    @wp.kernel
    def find(tree: wp.uint64, lower: wp.vec3, upper: wp.vec3, out: wp.array(dtype=int)):
        query = wp.bvh_query_aabb(tree, lower, upper)
        k = int(0)
        while wp.bvh_query_next(query, k):
            out[k] = 1

    r = np.random.default_rng(3)
    low = r.uniform(-3, 3, (50, 3)).astype(np.float32)
    high = low + r.uniform(0.1, 1, (50, 3)).astype(np.float32)
    tree = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3))
    found = []
    for _ in range(2):
        out = wp.zeros(50, dtype=int)
        wp.launch(find, dim=1, inputs=[tree.id, wp.vec3(-1.0, -1.0, -1.0), wp.vec3(1.0, 1.5, 1.0)], outputs=[out])
        found.append(out.numpy())
        tree.lowers.assign(low * 0.5)
        tree.uppers.assign(high * 0.5 + 0.1)
        tree.refit()
    return found


def hierarchy_rays():
    @wp.kernel
    def find(tree: wp.uint64, start: wp.vec3, direction: wp.vec3, out: wp.array(dtype=int)):
        query = wp.bvh_query_ray(tree, start, direction)
        k = int(0)
        while wp.bvh_query_next(query, k):
            wp.atomic_add(out, k, 1)

    r = np.random.default_rng(4)
    low = r.uniform(-3, 3, (50, 3)).astype(np.float32)
    high = low + r.uniform(0.5, 1.5, (50, 3)).astype(np.float32)
    tree = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3))
    out = wp.zeros(50, dtype=int)
    wp.launch(find, dim=1, inputs=[tree.id, wp.vec3(-5.0, 0.1, 0.2), wp.vec3(1.0, 0.05, -0.03)], outputs=[out])
    return [out.numpy()]


def _ball():
    """Points and triangles of an icosahedron, its faces pointing outwards."""
    g = (1 + 5**0.5) / 2
    points = [
        (-1, g, 0),
        (1, g, 0),
        (-1, -g, 0),
        (1, -g, 0),
        (0, -1, g),
        (0, 1, g),
        (0, -1, -g),
        (0, 1, -g),
        (g, 0, -1),
        (g, 0, 1),
        (-g, 0, -1),
        (-g, 0, 1),
    ]
    faces = (
        "0 11 5 0 5 1 0 1 7 0 7 10 0 10 11 1 5 9 5 11 4 11 10 2 10 7 6 7 1 8 3 9 4 "
        "3 4 2 3 2 6 3 6 8 3 8 9 4 9 5 2 4 11 6 2 10 8 6 7 9 8 1"
    )
    return np.float32(points), np.int32(faces.split())


def mesh_points():
    @wp.kernel
    def nearest(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3), sign: wp.array(dtype=float)):
        i = wp.tid()
        found = wp.mesh_query_point(mesh, x[i], 100.0)
        if found.result:
            out[i] = wp.mesh_eval_position(mesh, found.face, found.u, found.v)
            sign[i] = found.sign

    points, faces = _ball()
    mesh = wp.Mesh(points=wp.array(points, dtype=wp.vec3), indices=wp.array(faces, dtype=int))
    x = np.random.default_rng(5).uniform(-3, 3, (30, 3)).astype(np.float32)
    out, sign = wp.zeros(30, dtype=wp.vec3), wp.zeros(30, dtype=float)
    wp.launch(nearest, dim=30, inputs=[mesh.id, wp.array(x, dtype=wp.vec3)], outputs=[out, sign])
    return [out.numpy(), sign.numpy()]


def mesh_point_gradient():
    @wp.kernel
    def distance(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        found = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
        if found.result:
            p = wp.mesh_eval_position(mesh, found.face, found.u, found.v)
            out[i] = wp.length(x[i] - p)

    points, faces = _ball()
    mesh = wp.Mesh(points=wp.array(points, dtype=wp.vec3), indices=wp.array(faces, dtype=int))
    x = np.random.default_rng(6).uniform(-3, 3, (20, 3)).astype(np.float32)
    return values_and_gradients(wp, distance, [mesh.id, x], types=[None, wp.vec3])


def mesh_signs():
    @wp.kernel
    def signs(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.mesh_query_point_sign_normal(mesh, x[i], 100.0, 0.001).sign
        out[i, 1] = wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0, 2.0, 0.5).sign
        out[i, 2] = wp.mesh_query_point_sign_parity(mesh, x[i], 100.0).sign

    points, faces = _ball()
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces, dtype=int), support_winding_number=True)
    x = np.random.default_rng(7).uniform(-2, 2, (30, 3)).astype(np.float32)
    out = wp.zeros((30, 3), dtype=float)
    wp.launch(signs, dim=30, inputs=[mesh.id, wp.array(x, dtype=wp.vec3)], outputs=[out])
    return [out.numpy()]


def mesh_rays():
    @wp.kernel
    def shoot(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float), normal: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        hit = wp.mesh_query_ray(mesh, x[i], wp.normalize(wp.vec3(0.1, 0.2, 0.15) - x[i]), 100.0)
        if hit.result:
            out[i] = hit.t * hit.sign
            normal[i] = hit.normal
        if not wp.mesh_query_ray_anyhit(mesh, x[i], x[i], 100.0):
            out[i] += 1000.0

    points, faces = _ball()
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces, dtype=int))
    x = np.random.default_rng(8).uniform(-3, 3, (30, 3)).astype(np.float32)
    out, normal = wp.zeros(30, dtype=float), wp.zeros(30, dtype=wp.vec3)
    wp.launch(shoot, dim=30, inputs=[mesh.id, wp.array(x, dtype=wp.vec3)], outputs=[out, normal])
    return [out.numpy(), normal.numpy()]


def mesh_ray_gradient():
    @wp.kernel
    def shoot(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), d: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
        if hit.result:
            out[i] = hit.t

    points, faces = _ball()
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces, dtype=int))
    x = np.float32([[3, 0.1, 0.2], [0.1, -3, 0.3], [0.1, 0.2, 0.15]])
    d = np.float32([[-1, 0.05, 0], [0, 1, 0.05], [0.5, 0.6, 0.4]])
    return values_and_gradients(wp, shoot, [mesh.id, x, d], types=[None, wp.vec3, wp.vec3])


def mesh_boxes():
    @wp.kernel
    def find(mesh: wp.uint64, lower: wp.vec3, upper: wp.vec3, out: wp.array(dtype=int)):
        query = wp.mesh_query_aabb(mesh, lower, upper)
        face = int(0)
        while wp.mesh_query_aabb_next(query, face):
            out[face] = 1

    points, faces = _ball()
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces, dtype=int))
    out = wp.zeros(20, dtype=int)
    wp.launch(find, dim=1, inputs=[mesh.id, wp.vec3(0.5, 0.5, 0.5), wp.vec3(2.0, 1.0, 2.0)], outputs=[out])
    return [out.numpy()]


def mesh_moved():
    @wp.kernel
    def nearest(mesh: wp.uint64, x: wp.vec3, out: wp.array(dtype=wp.vec3)):
        found = wp.mesh_query_point(mesh, x, 100.0)
        out[0] = wp.mesh_eval_position(mesh, found.face, found.u, found.v)
        out[1] = wp.mesh_eval_velocity(mesh, found.face, found.u, found.v)
        out[2] = wp.mesh_eval_face_normal(mesh, found.face)

    points, faces = _ball()
    x, v = wp.array(points, dtype=wp.vec3), wp.array(points * 0.5, dtype=wp.vec3)
    mesh = wp.Mesh(points=x, indices=wp.array(faces, dtype=int), velocities=v)
    x.assign(points * 2.0)
    mesh.refit()
    out = wp.zeros(3, dtype=wp.vec3)
    wp.launch(nearest, dim=1, inputs=[mesh.id, wp.vec3(-2.1, 2.0, 2.2)], outputs=[out])
    return [out.numpy()]


def marching_cubes():
    @wp.kernel
    def spread(vertices: wp.array(dtype=wp.vec3), total: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(total, 0, wp.dot(vertices[i], vertices[i]) * wp.sin(float(i)))

    line = np.linspace(-1.0, 1.0, 9, dtype=np.float32)
    x, y, z = np.meshgrid(line, line, line[:8], indexing="ij")
    field = wp.array(np.sin(3 * x) * np.cos(2 * y) + 0.5 * z, dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    cubes = wp.MarchingCubes(9, 9, 8, wp.vec3(-1.0, -1.0, 0.0), wp.vec3(1.0, 1.0, 0.5))
    with wp.Tape() as tape:
        cubes.surface(field, 0.1)
        wp.launch(spread, dim=cubes.verts.shape[0], inputs=[cubes.verts, total])
    tape.backward(total)
    return [cubes.verts.numpy(), total.numpy(), field.grad.numpy()]
