"""Grids of points: neighbours against all pairs, at the ends of the range, in groups, in graphs and on tapes."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.runtime.memory.host_memory import FRONT, address_of

VECTORS = {sim.float32: sim.vec3, sim.float64: sim.vec3d}


@sim.kernel
def count_neighbours(grid: sim.uint64, radius: float, x: sim.array(dtype=sim.vec3), counts: sim.array(dtype=int)):
    i = sim.hash_grid_point_id(grid, sim.tid())
    count = 0
    for j in sim.hash_grid_query(grid, x[i], radius):
        if sim.length(x[i] - x[j]) <= radius:
            count += 1
    counts[i] = count


@sim.kernel
def count_in_group(
    grid: sim.uint64,
    radius: float,
    x: sim.array(dtype=sim.vec3),
    groups: sim.array(dtype=int),
    counts: sim.array(dtype=int),
):
    i = sim.tid()
    query = sim.hash_grid_query(grid, x[i], radius, groups[i])
    j = 0
    while sim.hash_grid_query_next(query, j):
        if sim.length(x[i] - x[j]) <= radius:
            counts[i] = counts[i] + 1


def random_points(count, seed=0):
    return (10.0 * np.random.default_rng(seed).random((count, 3)) - 5.0).astype(np.float32)


def neighbours(x, radius):
    return np.linalg.norm(x[:, None] - x[None], axis=-1) <= radius


@pytest.mark.parametrize("dims", [(16, 16, 16), (3, 5, 7), (1, 1, 1), (64, 2, 32)])
@pytest.mark.parametrize("radius", [0.7, 2.5])
def test_every_neighbour_is_found_once(dims, radius):
    points, groups = random_points(800), np.random.default_rng(1).integers(-2, 3, 800).astype(np.int32)
    x, g, counts = sim.array(points, dtype=sim.vec3), sim.array(groups, dtype=int), sim.zeros(800, dtype=int)
    grid, near = sim.HashGrid(*dims), neighbours(points, radius)
    grid.build(x, radius)
    sim.launch(count_neighbours, 800, [grid.id, radius, x], [counts])
    np.testing.assert_array_equal(counts.numpy(), near.sum(1))
    grid.build(x, 1.3 * radius, groups=g)
    sim.launch(count_neighbours, 800, [grid.id, radius, x], [counts])
    np.testing.assert_array_equal(counts.numpy(), near.sum(1))
    counts.zero_()
    sim.launch(count_in_group, 800, [grid.id, radius, x, g], [counts])
    np.testing.assert_array_equal(counts.numpy(), (near & (groups[:, None] == groups)).sum(1))


@sim.kernel
def list_neighbours(grid: sim.uint64, x: sim.vec3d, radius: sim.float64, found: sim.array(dtype=int)):
    count = 0
    for j in sim.hash_grid_query(grid, x, radius):
        if count < found.shape[0]:
            found[count] = j
        count += 1


def test_candidates_come_in_the_order_of_cells_and_of_the_points_in_them():
    points = np.array([[0.5, 0.5, 1.5], [1.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.6, 0.5, 0.5], [0.5, 1.5, 0.5]])
    grid = sim.HashGrid(4, 4, 4, dtype=sim.float64)
    grid.build(sim.array(points, dtype=sim.vec3d), 1.0)
    found = sim.full(6, -1, dtype=int)
    sim.launch(list_neighbours, 1, [grid.id, sim.vec3d(1.0, 1.0, 1.0), 0.9], [found])
    np.testing.assert_array_equal(found.numpy(), [2, 3, 1, 4, 0, -1])


@pytest.mark.parametrize("place", [1e20, -1e20, 1e300, np.inf, -np.inf, 2147483647.25, -2147483648.75, np.nan])
@pytest.mark.parametrize("dims", [(1, 1, 1), (3, 5, 7)])
def test_far_away_and_nowhere(place, dims):
    """Beyond the range of cells all is in the last one, and NaN in cell 0: found once, and not for ever."""
    grid = sim.HashGrid(*dims, dtype=sim.float64)
    grid.build(sim.array([[place] * 3], dtype=sim.vec3d), 1.0)
    found = sim.full(6, -1, dtype=int)
    sim.launch(list_neighbours, 1, [grid.id, sim.vec3d(place, place, place), 1.0], [found])
    np.testing.assert_array_equal(found.numpy(), [0, -1, -1, -1, -1, -1])


def test_a_grid_that_was_not_built_is_empty():
    grid, x, counts = sim.HashGrid(4, 4, 4), sim.zeros(1, dtype=sim.vec3d), sim.full(2, -1, dtype=int)
    sim.launch(list_neighbours, 1, [grid.id, sim.vec3d(), 1.0], [counts])
    grid.build(sim.zeros(0, dtype=sim.vec3), 1.0)
    sim.launch(list_neighbours, 1, [grid.id, sim.vec3d(), 1.0], [counts])
    assert (counts.numpy() == -1).all() and len(x) == 1


def test_a_capture_before_the_grid_is_built():
    """Each thread's point has the number -1 then, and memory has room for one such element; replays see the grid."""
    points = random_points(300)
    x, counts = sim.array(points, dtype=sim.vec3), sim.zeros(300, dtype=int)
    grid = sim.HashGrid(8, 8, 8)
    with sim.ScopedCapture() as captured:
        sim.launch(count_neighbours, 300, [grid.id, 1.0, x, counts])
    assert not counts.numpy().any()
    assert counts.ptr - address_of(counts.buffer.memory.base) >= FRONT
    grid.build(x, 1.0)
    sim.capture_launch(captured.graph)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_array_equal(counts.numpy(), (distances <= 1.0).sum(axis=1))


def test_points_with_strides_and_of_two_dimensions():
    points = random_points(120)
    x, counts = sim.array(points, dtype=sim.vec3), sim.zeros(120, dtype=int)
    wide = sim.zeros(240, dtype=sim.vec3)
    sim.copy(wide[::2], x)
    for given in (wide[::2], sim.array(points.reshape(30, 4, 3), dtype=sim.vec3)):
        grid = sim.HashGrid(8, 8, 8)
        grid.build(given, 1.5)
        sim.launch(count_neighbours, 120, [grid.id, 1.5, x], [counts])
        np.testing.assert_array_equal(counts.numpy(), neighbours(points, 1.5).sum(1))


def test_building_in_a_graph():
    """A replay builds from the points and groups of then, also when the grid got other memory in between."""
    x, counts = sim.array(random_points(60), dtype=sim.vec3), sim.zeros(60, dtype=int)
    groups = sim.zeros(60, dtype=int)
    grid = sim.HashGrid(8, 8, 8)
    with sim.capture() as graph:
        counts.zero_()
        grid.build(x, 1.5, groups=groups)
        sim.launch(count_in_group, 60, [grid.id, 1.5, x, groups], [counts])
    for seed in (1, 2):
        grid.build(sim.array(random_points(500), dtype=sim.vec3), 1.0)
        points, of = random_points(60, seed), np.arange(60, dtype=np.int32) % (seed + 1)
        x.assign(points)
        groups.assign(of)
        graph.replay()
        np.testing.assert_array_equal(counts.numpy(), (neighbours(points, 1.5) & (of[:, None] == of)).sum(1))


def test_errors():
    with pytest.raises(TypeError, match="Unsupported dtype int32"):
        sim.HashGrid(4, 4, 4, dtype=sim.int32)
    with pytest.raises(TypeError, match="Unsupported dtype"):
        sim.HashGridQuery[sim.int32]
    with pytest.raises(TypeError, match="must be integers"):
        sim.HashGrid(4.0, 4, 4)
    with pytest.raises(RuntimeError, match="must be positive"):
        sim.HashGrid(4, 0, 4)
    with pytest.raises(RuntimeError, match="cell count exceeds supported limit"):
        sim.HashGrid(1291, 1291, 1291)
    grid = sim.HashGrid(4, 4, 4)
    with pytest.raises(TypeError, match="should have type vec3.*, got vec3"):
        grid.build(sim.zeros(3, dtype=sim.vec3d), 1.0)
    with pytest.raises(ValueError, match="cell width must be positive"):
        grid.build(sim.zeros(3, dtype=sim.vec3), 0.0)
    with pytest.raises(NotImplementedError, match="reserve before capture"), sim.capture():
        grid.reserve(8)


# ---- gradients
@sim.kernel
def push(grid: sim.uint64, radius: float, x: sim.array(dtype=sim.vec3d), y: sim.array(dtype=sim.vec3d)):
    i = sim.tid()
    moved = sim.vec3d()
    for j in sim.hash_grid_query(grid, x[i], sim.float64(radius)):
        d = x[i] - x[j]
        near = sim.max(sim.float64(radius * radius) - sim.dot(d, d), sim.float64(0.0))
        moved += d * (near * near)
    y[i] = x[i] + moved * sim.float64(0.1)


def pushed(x, radius):
    d = x[:, None] - x[None]
    near = np.maximum(radius**2 - (d**2).sum(-1), 0.0)
    return x + 0.1 * (d * (near**2)[..., None]).sum(1)


@pytest.mark.parametrize("late", [False, True])
def test_gradients_of_steps_with_a_grid_that_is_built_anew_for_each(late):
    """The adjoint of a launch finds the grid as it was at the launch, whatever was built since."""
    start = random_points(60).astype(float)
    weights = np.random.default_rng(5).normal(size=(60, 3))
    radius = 2.0
    states = [sim.array(start, dtype=sim.vec3d, requires_grad=True)]
    states += [sim.zeros(60, dtype=sim.vec3d, requires_grad=True) for _ in range(3)]
    grid = sim.HashGrid(6, 6, 6, dtype=sim.float64)
    with sim.Tape() as tape:
        for x, y in zip(states[:-1], states[1:], strict=True):
            grid.build(x, radius)
            sim.launch(push, 60, [grid.id, radius, x], [y])
    if late:  # with more points, so that the grid takes other memory
        grid.build(sim.array(random_points(500).astype(float), dtype=sim.vec3d), 0.5)
        present = grid._room.points.numpy().copy()
    tape.backward(grads={states[-1]: sim.array(weights, dtype=sim.vec3d)})

    def loss(x):
        for _ in range(3):
            x = pushed(x, radius)
        return (x * weights).sum()

    for k in ((0, 0), (7, 2), (31, 1)):
        step = np.zeros_like(start)
        step[k] = 1e-6
        slope = (loss(start + step) - loss(start - step)) / 2e-6
        assert states[0].grad.numpy()[k] == pytest.approx(slope, rel=1e-5, abs=1e-8)
    if late:  # and puts back what is there now
        np.testing.assert_array_equal(grid._room.points.numpy(), present)
