"""Arguments of builtins by the names that Warp has for them: the same values as by their place."""

import numpy as np
import pytest

import sim


@sim.kernel
def values(named: sim.array[float], placed: sim.array[float]):
    q, v = sim.quat(0.1, 0.2, 0.3, 0.4), sim.vec3(0.1, 0.2, 0.3)
    t, m = sim.transform(v, sim.normalize(q)), sim.identity(n=4, dtype=float)
    named[0] = sim.where(cond=v[0] > 1.0, value_if_true=1.0, value_if_false=2.0)
    placed[0] = sim.where(v[0] > 1.0, 1.0, 2.0)
    named[1] = sim.where(True, value_if_true=3.0, value_if_false=1.0 / v[0])
    placed[1] = 3.0
    named[2] = sim.length(sim.quaternion(ijk=v, real=1.0) - sim.quaternion(v, 1.0)) + 1.0
    placed[2] = 1.0
    named[3] = sim.dot(sim.quaternion(w=0.4, z=0.3, y=0.2, x=0.1, dtype=float), q)
    placed[3] = sim.dot(q, q)
    named[4] = sim.spatial_vector(v=v, w=2.0 * v)[1]
    placed[4] = sim.spatial_vector(2.0 * v, v)[1]
    named[5] = sim.spatial_vector(1.0, 2.0, 3.0, vx=4.0, vy=5.0, vz=6.0)[4]
    placed[5] = 5.0
    named[6] = sim.transform_to_matrix(xform=t)[0, 1] + sim.transform_from_matrix(mat=m)[6]
    placed[6] = sim.transform_to_matrix(t)[0, 1] + sim.transform_from_matrix(m)[6]
    a, b = t, t
    sim.transform_set_translation(xform=a, p=2.0 * v)
    sim.transform_set_rotation(a, q=q)
    sim.transform_set_translation(b, 2.0 * v)
    sim.transform_set_rotation(b, q)
    named[7] = a[1] + a[5]
    placed[7] = b[1] + b[5]


def test_values_and_their_parts():
    named, placed = sim.zeros(8), sim.zeros(8)
    sim.launch(values, 1, [named, placed])
    np.testing.assert_array_equal(named.numpy(), placed.numpy())
    assert (named.numpy() != 0).all()


@sim.kernel
def draws(out: sim.array2d[float]):
    s, t = sim.rand_init(seed=3, offset=5), sim.rand_init(3, 5)
    for _ in range(out.shape[1] // 5):
        k = 5 * _
        out[0, k] = sim.randf(state=s)
        out[1, k] = sim.randf(t)
        out[0, k + 1] = sim.randf(state=s, low=2.0, high=3.0)
        out[1, k + 1] = sim.randf(t, 2.0, 3.0)
        out[0, k + 2] = float(sim.poisson(state=s, lam=3.0)) + float(sim.randi(s, low=4, high=9))
        out[1, k + 2] = float(sim.poisson(t, 3.0)) + float(sim.randi(t, 4, 9))
        out[0, k + 3] = sim.sample_unit_sphere(state=s)[0]
        out[1, k + 3] = sim.sample_unit_sphere(t)[0]
        out[0, k + 4] = sim.randn(state=s)
        out[1, k + 4] = sim.randn(t)


def test_a_state_that_is_named_is_advanced():
    out = sim.zeros((2, 50))
    sim.launch(draws, 1, [out])
    named, placed = out.numpy()
    np.testing.assert_array_equal(named, placed)
    assert len(set(named[::5])) == 10


@sim.kernel
def atomics(a: sim.array[float], b: sim.array2d[float], n: sim.array[int], old: sim.array[float]):
    sim.atomic_add(arr=a, i=0, value=2.0)
    sim.atomic_max(b, 0, j=1, value=3.0)
    old[0] = sim.atomic_exch(a, i=1, value=4.0)
    old[1] = float(sim.atomic_cas(arr=n, i=0, compare=7, value=8))
    old[2] = float(sim.atomic_cas(n, 0, 7, value=9))


def test_atomics():
    a, b, n, old = sim.array([1.0, 5.0]), sim.zeros((1, 2)), sim.array([7]), sim.zeros(3)
    sim.launch(atomics, 1, [a, b, n, old])
    assert (a.list(), b.list(), n.list(), old.list()) == ([3.0, 4.0], [0.0, 3.0], [8], [5.0, 7.0, 8.0])


@sim.kernel
def weigh(x: sim.array[sim.float64], out: sim.array[sim.float64]):
    i = sim.tid()
    sim.atomic_add(arr=out, i=0, value=sim.where(cond=i > 0, value_if_true=x[i] * x[i], value_if_false=3.0 * x[i]))


def test_gradients_go_through():
    x, out = sim.array([2.0, 5.0], dtype=sim.float64, requires_grad=True), sim.zeros(1, sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(weigh, 2, [x], [out])
    tape.backward(out)
    assert out.list() == [31.0] and x.grad.list() == [3.0, 10.0]


@sim.kernel
def queries(mesh: sim.uint64, bvh: sim.uint64, grid: sim.uint64, found: sim.array2d[int]):
    low, high, center = sim.vec3(-0.1, -0.1, -0.1), sim.vec3(1.1, 0.1, 0.1), sim.vec3(0.0, 0.0, 0.0)
    i, j = 0, 0
    of_mesh, of_bvh = sim.mesh_query_aabb(id=mesh, low=low, high=high), sim.bvh_query_aabb(id=bvh, low=low, high=high)
    while sim.mesh_query_aabb_next(query=of_mesh, index=i):
        found[0, i] = 1
    while sim.bvh_query_next(of_bvh, index=j):
        found[1, j] = 1
    of_grid, of_ray = sim.hash_grid_query(id=grid, point=center, max_dist=0.5), sim.bvh_query_ray(bvh, center, high)
    while sim.hash_grid_query_next(query=of_grid, index=i):
        found[2, i] = 1
    while sim.bvh_query_next(query=of_ray, index=j, max_dist=9.0):
        found[3, j] = 1


def test_queries():
    points = sim.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=sim.vec3)
    mesh = sim.Mesh(points, sim.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int))
    bvh, grid, found = sim.Bvh(points, points), sim.HashGrid(4, 4, 4), sim.zeros((4, 4), dtype=int)
    grid.build(points, 1.0)
    sim.launch(queries, 1, [mesh.id, bvh.id, grid.id, found])
    assert found.numpy()[:2].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert 0 in np.flatnonzero(found.numpy()[2]) and found.numpy()[3].tolist() == [1, 0, 0, 0]


@sim.kernel
def skips_an_index(a: sim.array2d[float]):
    sim.atomic_add(a, 0, k=1, value=1.0)


@sim.kernel
def twice(a: sim.array[float]):
    sim.atomic_add(a, 0, i=0, value=1.0)


@sim.kernel
def unknown(a: sim.array[float]):
    a[0] = sim.where(True, 1.0, otherwise=2.0)


@sim.kernel
def no_variable(a: sim.array[float]):
    a[0] = sim.randf(state=sim.rand_init(1))


@sim.kernel
def no_part(a: sim.array[float]):
    a[0] = sim.quaternion(x=1.0, y=2.0, z=3.0)[0]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (skips_an_index, "atomic_add takes no argument 'k'"),
        (twice, "atomic_add takes no argument 'i'"),
        (unknown, "where takes no argument 'otherwise'"),
        (no_variable, "randf advances its state, so it needs a local variable"),
        (no_part, r"quat<float32>\(...\) takes no argument 'x'"),
    ],
)
def test_what_is_not_a_name(kernel, said):
    with pytest.raises(sim.KernelError, match=said):
        sim.launch(kernel, 1, [sim.zeros((1, 1) if kernel is skips_an_index else 1)])
