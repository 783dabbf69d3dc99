"""Trees of boxes: what queries find against NumPy, whatever the tree; groups, refitting, graphs, kinds mixed."""

from __future__ import annotations

import numpy as np
import pytest
from tools.cuda.on_cpu import fake_gpu, needs_gxx

import sim


@sim.kernel
def in_box(bvh: sim.uint64, low: sim.vec3, high: sim.vec3, found: sim.array(dtype=int)):
    query = sim.bvh_query_aabb(bvh, low, high)
    item = 0
    while sim.bvh_query_next(query, item):
        found[item] = found[item] + 1


@sim.kernel
def on_ray(bvh: sim.uint64, start: sim.vec3, dir: sim.vec3, furthest: float, found: sim.array(dtype=int)):
    query = sim.bvh_query_ray(bvh, start, dir)
    item = 0
    while sim.bvh_query_next(query, item, furthest):
        found[item] = found[item] + 1


@sim.kernel
def in_ball(bvh: sim.uint64, center: sim.vec3, radius: float, found: sim.array(dtype=int)):
    for item in sim.bvh_query_sphere(bvh, center, radius):
        found[item] = found[item] + 1


@sim.kernel
def in_capsule(bvh: sim.uint64, start: sim.vec3, end: sim.vec3, radius: float, found: sim.array(dtype=int)):
    query = sim.bvh_query_capsule(bvh, start, end - start, radius)
    item = 0
    while sim.bvh_query_next(query, item, 1.0):
        found[item] = found[item] + 1


LOW, HIGH = np.array([2.0, 1.5, 2.2]), np.array([4.0, 4.5, 3.0])
START, DIR, RADIUS = np.array([0.3, 0.2, 0.5]), np.array([1.2, 1.0, 0.9]), 1.5


def random_boxes(count, seed=0):
    rng = np.random.default_rng(seed)
    lowers = (5.0 * rng.random((count, 3))).astype(np.float32)
    return lowers, lowers + 1.5 * rng.random((count, 3)).astype(np.float32)


def tree_of(lowers, uppers, **options):
    return sim.Bvh(sim.array(lowers, dtype=sim.vec3), sim.array(uppers, dtype=sim.vec3), **options)


def slabs(start, dir, lowers, uppers):
    """Where rays enter and leave boxes."""
    a, b = (lowers - start) / dir, (uppers - start) / dir
    return np.maximum(np.minimum(a, b).max(1), 0.0), np.maximum(a, b).min(1)


def expected(kind, lowers, uppers):
    if kind == "box":
        return ((lowers <= HIGH) & (uppers >= LOW)).all(1)
    if kind == "ball":
        away = np.maximum(np.maximum(lowers - LOW, LOW - uppers), 0.0)
        return np.linalg.norm(away, axis=1) <= RADIUS
    grown = 0.0 if kind == "ray" else RADIUS / 5.0
    enters, leaves = slabs(START, DIR, lowers - grown, uppers + grown)
    return (enters <= leaves) & (enters < (4.0 if kind == "ray" else 1.0))


def ask(kind, bvh, count):
    found = sim.zeros(count, dtype=int)
    kernel, inputs = {
        "box": (in_box, [sim.vec3(*LOW), sim.vec3(*HIGH)]),
        "ray": (on_ray, [sim.vec3(*START), sim.vec3(*DIR), 4.0]),
        "ball": (in_ball, [sim.vec3(*LOW), RADIUS]),
        "capsule": (in_capsule, [sim.vec3(*START), sim.vec3(*(START + DIR)), RADIUS / 5.0]),
    }[kind]
    sim.launch(kernel, 1, [bvh.id, *inputs], [found])
    return found.numpy()


@pytest.mark.parametrize("kind", ["box", "ray", "ball", "capsule"])
@pytest.mark.parametrize("leaf_size, constructor", [(1, None), (4, "sah"), (1, "lbvh")])
def test_queries_find_each_box_that_they_touch_once(kind, leaf_size, constructor):
    lowers, uppers = random_boxes(300)
    bvh = tree_of(lowers, uppers, leaf_size=leaf_size, constructor=constructor)
    wanted = expected(kind, lowers, uppers)
    assert 4 < wanted.sum() < 250
    np.testing.assert_array_equal(ask(kind, bvh, 300), wanted)
    # the same tree around other boxes, and then a new one
    lowers, uppers = random_boxes(300, seed=1)
    for follow in (bvh.refit, bvh.rebuild):
        bvh.lowers.assign(lowers)
        bvh.uppers.assign(uppers)
        follow()
        np.testing.assert_array_equal(ask(kind, bvh, 300), expected(kind, lowers, uppers))


@pytest.mark.parametrize("constructor", ["sah", "lbvh"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_boxes(count, constructor):
    lowers = np.zeros((count, 3), np.float32)
    bvh = tree_of(lowers, lowers + 5.0, constructor=constructor)
    np.testing.assert_array_equal(ask("box", bvh, count), np.ones(count))


@pytest.mark.parametrize("constructor", ["sah", "lbvh"])
def test_boxes_that_no_plane_separates(constructor):
    """Equal boxes are split into halves, nested ones and points on a line by the heuristic; the depth stays bounded."""
    x = np.exp(np.linspace(-60.0, 0.0, 400)).astype(np.float32)
    line = np.stack([x, 0 * x, 0 * x], 1)
    for lowers, uppers in ((np.zeros((400, 3)), np.full((400, 3), 5.0)), (-5.0 * line, 5.0 * line), (line, line)):
        bvh = tree_of(lowers.astype(np.float32), uppers.astype(np.float32), constructor=constructor)
        found = sim.zeros(400, dtype=int)
        sim.launch(in_box, 1, [bvh.id, sim.vec3(-9.0), sim.vec3(9.0)], [found])
        np.testing.assert_array_equal(found.numpy(), np.ones(400))


def test_a_ray_in_the_plane_of_a_side_meets_the_box():
    bvh = tree_of(np.array([[0.5, 0, 0]], np.float32), np.array([[1, 1, 1]], np.float32))
    for y, meets in ((0.0, 1), (1.0, 1), (0.5, 1), (1.001, 0), (-0.001, 0)):
        found = sim.zeros(1, dtype=int)
        sim.launch(on_ray, 1, [bvh.id, sim.vec3(0.0, y, 0.5), sim.vec3(1.0, 0.0, 0.0), 9.0], [found])
        assert found.numpy()[0] == meets, y


@sim.kernel
def in_box_of_group(bvh: sim.uint64, groups: sim.array(dtype=int), found: sim.array2d(dtype=int)):
    k = sim.tid()
    root = sim.bvh_get_group_root(bvh, groups[k])
    for item in sim.bvh_query_aabb(bvh, sim.vec3(-99.0), sim.vec3(99.0), root):
        found[k, item] = found[k, item] + 1


@pytest.mark.parametrize("leaf_size, constructor", [(1, None), (4, "sah"), (1, "lbvh")])
def test_a_group_is_a_subtree(leaf_size, constructor):
    lowers, uppers = random_boxes(200)
    groups = np.random.default_rng(2).choice([0, 1, 1, 1, 5, -3, 2**31 - 1], 200).astype(np.int32)
    groups[17] = 9  # a group of one
    bvh = tree_of(lowers, uppers, groups=sim.array(groups, dtype=int), leaf_size=leaf_size, constructor=constructor)
    asked = np.array([0, 1, 5, 9, -3, 2**31 - 1, 7], np.int32)
    found = sim.zeros((len(asked), 200), dtype=int)
    sim.launch(in_box_of_group, len(asked), [bvh.id, sim.array(asked, dtype=int)], [found])
    np.testing.assert_array_equal(found.numpy()[:-1], asked[:-1, None] == groups)
    assert (found.numpy()[-1] == 1).all()  # a group that is not there: -1, the whole tree
    np.testing.assert_array_equal(ask("box", bvh, 200), expected("box", lowers, uppers))


@sim.kernel
def either(bvh: sim.uint64, ball: sim.bool, low: sim.vec3, high: sim.vec3, radius: float, found: sim.array(dtype=int)):
    if ball:
        query = sim.bvh_query_sphere(bvh, low, radius)
    else:
        query = sim.bvh_query_aabb(bvh, low, high)
    count_all(query, found)


@sim.func
def count_all(query: sim.BvhQuery, found: sim.array(dtype=int)):
    item = 0
    while sim.bvh_query_next(query, item):
        found[item] = found[item] + 1


def test_a_branch_may_mix_kinds_and_functions_take_queries():
    lowers, uppers = random_boxes(100)
    bvh = tree_of(lowers, uppers)
    for ball, kind in ((True, "ball"), (False, "box")):
        found = sim.zeros(100, dtype=int)
        sim.launch(either, 1, [bvh.id, ball, sim.vec3(*LOW), sim.vec3(*HIGH), RADIUS], [found])
        np.testing.assert_array_equal(found.numpy(), expected(kind, lowers, uppers))


@sim.kernel
def order_of(bvh: sim.uint64, found: sim.array(dtype=int)):
    count = 0
    item = -7
    query = sim.bvh_query_aabb(bvh, sim.vec3(0.0), sim.vec3(5.0))
    while sim.bvh_query_next(query, item):
        found[count] = item
        count += 1
    found[100] = item


def test_the_order_is_that_of_the_boxes_and_the_last_item_stays():
    lowers, uppers = random_boxes(100)
    orders = []
    for _ in range(2):
        bvh, found = tree_of(lowers, uppers), sim.full(101, -1, dtype=int)
        sim.launch(order_of, 1, [bvh.id], [found])
        orders.append(found.numpy())
    np.testing.assert_array_equal(*orders)
    assert orders[0][100] == orders[0][:100][orders[0][:100] >= 0][-1]


def test_building_and_refitting_in_a_graph():
    lowers, uppers = random_boxes(50)
    bvh = tree_of(lowers, uppers)
    found, other = sim.zeros(50, dtype=int), sim.zeros(50, dtype=int)
    with sim.capture() as graph:
        found.zero_()
        other.zero_()
        bvh.rebuild()
        sim.launch(in_box, 1, [bvh.id, sim.vec3(*LOW), sim.vec3(*HIGH)], [found])
        bvh.refit()
        sim.launch(in_box, 1, [bvh.id, sim.vec3(*LOW), sim.vec3(*HIGH)], [other])
    for seed in (3, 4):
        lowers, uppers = random_boxes(50, seed)
        bvh.lowers.assign(lowers)
        bvh.uppers.assign(uppers)
        graph.replay()
        np.testing.assert_array_equal(found.numpy(), expected("box", lowers, uppers))
        np.testing.assert_array_equal(other.numpy(), expected("box", lowers, uppers))


def test_errors():
    a, b = sim.zeros(3, dtype=sim.vec3), sim.zeros(4, dtype=sim.vec3)
    with pytest.raises(RuntimeError, match="3 lowers and 4 uppers"):
        sim.Bvh(a, b)
    with pytest.raises(RuntimeError, match="lowers is .*float32; expected a contiguous array of vec3"):
        sim.Bvh(sim.zeros(3), a)
    with pytest.raises(ValueError, match="constructor is 'best'; expected one of 'sah'"):
        sim.Bvh(a, a, constructor="best")
    with pytest.raises(ValueError, match="leaf_size is 0"):
        sim.Bvh(a, a, leaf_size=0)
    with pytest.raises(RuntimeError, match="2 groups for 3"):
        sim.Bvh(a, a, groups=sim.zeros(2, dtype=int))

    @sim.kernel
    def no_variable(bvh: sim.uint64):
        sim.bvh_query_next(sim.bvh_query_aabb(bvh, sim.vec3(), sim.vec3()), 0)

    bvh, found = sim.Bvh(a, a), sim.zeros(3, dtype=int)
    with pytest.raises(sim.KernelError, match="needs two local variables"):
        sim.launch(no_variable, 1, [bvh.id])
    asked = [bvh.id, sim.vec3(), sim.vec3()]
    sim.launch(in_box, 1, asked, [found])
    del bvh
    with pytest.raises(sim.SimError, match="'bvh' of kernel 'in_box' is .* one that is gone; expected the `id`"):
        sim.launch(in_box, 1, asked, [found])


@sim.kernel
def count_near(grid: sim.uint64, x: sim.array(dtype=sim.vec3), counts: sim.array(dtype=int)):
    i = sim.tid()
    for j in sim.hash_grid_query(grid, x[i], 0.8, i % 3):
        if sim.length(x[i] - x[j]) <= 0.8:
            counts[i] = counts[i] + 1


@needs_gxx
def test_grids_and_trees_on_a_gpu():
    """Building with many threads, asking and refitting, as text for GPUs that runs on the CPU."""
    gpu, (lowers, uppers) = fake_gpu(), random_boxes(700)
    groups = (np.arange(700) % 3).astype(np.int32)
    given = [sim.array(a, dtype=sim.vec3, device=gpu) for a in (lowers, uppers)]
    bvh = sim.Bvh(*given, groups=sim.array(groups, dtype=int, device=gpu))
    for follow in (bvh.refit, bvh.rebuild):
        follow()
        found = sim.zeros(700, dtype=int, device=gpu)
        sim.launch(in_box, 1, [bvh.id, sim.vec3(*LOW), sim.vec3(*HIGH)], [found], device=gpu)
        np.testing.assert_array_equal(found.numpy(), expected("box", lowers, uppers))
        of_groups, asked = sim.zeros((3, 700), dtype=int, device=gpu), sim.array([0, 1, 2], dtype=int, device=gpu)
        sim.launch(in_box_of_group, 3, [bvh.id, asked], [of_groups], device=gpu)
        np.testing.assert_array_equal(of_groups.numpy(), np.arange(3)[:, None] == groups)
    grid = sim.HashGrid(4, 5, 6, device=gpu)
    grid.build(given[0], 1.0, groups=sim.array(groups, dtype=int, device=gpu))
    counts = sim.zeros(700, dtype=int, device=gpu)
    sim.launch(count_near, 700, [grid.id, given[0]], [counts], device=gpu)
    away = np.linalg.norm(lowers[:, None] - lowers[None], axis=-1)
    np.testing.assert_array_equal(counts.numpy(), ((away <= 0.8) & (groups[:, None] == groups)).sum(1))
