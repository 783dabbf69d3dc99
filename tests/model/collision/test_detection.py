"""Lists of pairs that may touch against all pairs, one by one; that they are complete, and the same every time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tools.geometry.distances import edge_edge_distance, point_triangle_distance

import sim
from sim.model.collision.detection import ContactError, PairLists
from sim.model.collision.kernels import candidate_kernels

CELLS, CELL, THICKNESS, MARGIN = 3, 0.05, 0.004, 0.03


def crumpled(seed: int, worlds: int = 1, capacity: int = 4000) -> tuple[sim.Model, np.ndarray, np.ndarray]:
    """Two cloths, and places and velocities of their points that fold them over each other."""
    made = sim.ModelBuilder()
    for k in range(2):
        made.add_cloth_grid((0, 0, 0.1 * k), dim_x=CELLS, dim_y=CELLS, cell_x=CELL, cell_y=CELL, density=0.2,
                            label=f"cloth{k}", material={"distance": {"compliance": 1e-5}})  # fmt: skip
    made.add_self_contact(["cloth0", "cloth1"], thickness=THICKNESS, margin=MARGIN, capacity=capacity)
    if worlds > 1:
        made.replicate(worlds)
    model = made.finalize(dtype=sim.float64)
    rng = np.random.default_rng(seed)
    x = model.particle_q.numpy() @ np.diag([1, 1, 0.2])
    x[:, 2] += 0.03 * np.sin(40 * x[:, 0] + seed)
    return model, x + 0.01 * rng.normal(size=x.shape), 0.5 * rng.normal(size=x.shape)


@pytest.fixture(autouse=True)
def settings():
    before = sim.get_num_threads()
    yield
    sim.set_num_threads(before)
    sim.set_check_bounds(False)


def listed(model: sim.Model, x: np.ndarray, v: np.ndarray, interval: float) -> PairLists:
    lists = PairLists(model.contact)
    lists.detect(sim.array(x, dtype=sim.vec3d), sim.array(v, dtype=sim.vec3d), interval)
    return lists


def test_particles_without_a_surface_are_left_out() -> None:
    """What lists read of points ended where all particles of the model did, beyond those that can touch."""
    sim.set_check_bounds(True)
    made = sim.ModelBuilder()
    made.add_particles(np.zeros((7, 3)), mass=0.001)
    for k in range(2):
        made.add_cloth_grid((0, 0, 0.01 * k), dim_x=CELLS, dim_y=CELLS, cell_x=CELL, cell_y=CELL, density=0.2,
                            label=f"cloth{k}", material={"distance": {"compliance": 1e-5}})  # fmt: skip
    made.add_self_contact(["cloth0", "cloth1"], thickness=THICKNESS, margin=MARGIN, capacity=4000)
    model = made.finalize(dtype=sim.float64)
    x = model.particle_q.numpy()
    points, edges = pairs_of(listed(model, x, 0 * x, 0.0))
    assert len(points) and len(edges) and min(points.min(), edges.min()) >= 7


def test_what_is_asked_for_is_more_than_there_is() -> None:
    """A margin of 10 mm that is missed by a thousandth was told to be 0.01 m or more."""
    model, x, _ = crumpled(0)
    lists = listed(model, x, 0 * x, 0.0)
    for missed in (1e-9, 1e-5, 1e-3, 1.0):
        lists.moved.fill_(missed)
        with pytest.raises(ContactError) as error:
            lists.refuse_incomplete()
        found = re.search(r"Set margin to (\S+) m or more \((\S+) m now\)", str(error.value))
        assert found is not None and float(found[1]) >= max(1.04 * float(found[2]), missed)


def pairs_of(lists: PairLists) -> list[np.ndarray]:
    room, count = lists.of.capacity, lists.count.numpy()
    return [lists.rows.numpy()[k * room : k * room + count[k]] for k in range(2)]


@pytest.mark.parametrize(("seed", "worlds", "around"), [(0, 1, False), (1, 1, False), (2, 2, False), (3, 1, True)])
def test_lists_are_those_of_all_pairs(seed: int, worlds: int, around: bool) -> None:
    """around: the cloths lie across the end of the grid, and go on at its beginning."""
    model, x, v = crumpled(seed, worlds)
    interval, of = 0.01, model.contact
    if around:
        x += 64 * of.cell - x.mean(axis=0)
    lists = listed(model, x, v, interval)
    world, faces, edges = of.world.numpy(), of.triangles.numpy(), of.edges.numpy()
    mean = np.stack([v[world == w].mean(axis=0) for w in range(worlds)])
    allowed = MARGIN / 2 + interval * np.linalg.norm(v - mean[world], axis=1)
    np.testing.assert_allclose(lists.allowed.numpy(), allowed, rtol=1e-12)
    wanted: list[set[tuple[int, ...]]] = [set(), set()]
    unsure: list[set[tuple[int, ...]]] = [set(), set()]

    def take(kind: int, points: tuple[int, ...], distance: float, sides: tuple[tuple[int, ...], ...]) -> None:
        within = THICKNESS + sum(allowed[list(side)].max() for side in sides)
        if abs(distance - within) < 1e-9:
            unsure[kind].add(points)
        elif distance < within:
            wanted[kind].add(points)

    for face in faces.tolist():
        near = np.linalg.norm(x - x[face].mean(axis=0), axis=1) < 0.25
        for p in np.flatnonzero(near & (world == world[face[0]])).tolist():
            if p not in face:
                take(0, (p, *face), point_triangle_distance(x[[p, *face]]), ((p,), tuple(face)))
    for k, one in enumerate(edges.tolist()):
        for other in edges[k + 1 :].tolist():
            if world[one[0]] == world[other[0]] and not {*one} & {*other}:
                if np.linalg.norm(x[one].mean(axis=0) - x[other].mean(axis=0)) < 0.25:
                    take(1, (*one, *other), edge_edge_distance(x[[*one, *other]]), (tuple(one), tuple(other)))
    for kind, rows in enumerate(pairs_of(lists)):
        found = {tuple(row) for row in rows.tolist()}
        assert len(found) == len(rows) > 20
        assert found - unsure[kind] == wanted[kind]


def test_the_order_of_pairs_is_the_same_every_time() -> None:
    """By triangle and point, and for each particle by pair: from run to run, and for any number of threads."""
    model, x, v = crumpled(3)
    runs = []
    for threads in (1, 2):
        sim.set_num_threads(threads)
        lists = listed(model, x, v, 0.01)
        runs.append([*pairs_of(lists), lists.offset.numpy().copy(), lists.slots.numpy()[: lists.offset.numpy()[-1]]])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)
    first, offset, slots = runs[0][0], runs[0][2], runs[0][3]
    number = {tuple(face): k for k, face in enumerate(model.contact.triangles.numpy().tolist())}
    keys = [(number[tuple(row[1:])], row[0]) for row in first.tolist()]
    assert keys == sorted(keys)
    rows = lists.rows.numpy()
    for i in range(model.particle_count):
        own = slots[offset[i] : offset[i + 1]]
        assert (np.diff(own) > 0).all()
        assert (rows.reshape(-1)[own] == i).all()


def test_what_is_missing_is_refused() -> None:
    """Too little room, and points that have gone further than their margin; all going alike is no matter."""
    model, x, v = crumpled(4)
    lists = listed(model, x, 0 * v, 0.0)
    lists.check(sim.array(x + [3.0, 0, 0], dtype=sim.vec3d))
    lists.refuse_incomplete()
    moved = x.copy()
    moved[7, 1] += 0.6 * MARGIN
    lists.check(sim.array(moved, dtype=sim.vec3d))
    with pytest.raises(ContactError, match="margin"):
        lists.refuse_incomplete()
    lists.begin()
    lists.refuse_incomplete()
    small, x, v = crumpled(4, capacity=300)
    with pytest.raises(ContactError, match="room for 300"):
        listed(small, x, v, 0.0).refuse_incomplete()


def test_pairs_of_a_mesh_finer_than_its_thickness_rest() -> None:
    """They keep half of their distance at rest; parts of two objects keep the whole thickness."""
    model, x, v = crumpled(5)
    lists = listed(model, x, v, 0.0)
    rest, owner, room = model.contact.rest.numpy(), model.contact.owner.numpy(), model.contact.capacity
    for kind, (rows, distance) in enumerate(
        zip(pairs_of(lists), (point_triangle_distance, edge_edge_distance), strict=True)
    ):
        limit = lists.limit.numpy()[kind * room :]
        for k, row in enumerate(rows[:60]):
            if owner[row[0]] != owner[row[2]]:
                assert limit[k] > 1e20
            elif kind == 0:
                assert limit[k] == pytest.approx(0.5 * distance(rest[row]), rel=1e-9)


def test_more_pairs_than_have_numbers_are_an_error() -> None:
    """Counts whose sums come back to small ones after 32 bits, as they would from a margin far too wide."""
    model, _, _ = crumpled(0)
    lists = PairLists(model.contact)
    counts = np.zeros(len(model.contact.triangles.numpy()) + 1, np.int32)
    counts[:5] = [7, 2**31 - 10, 2**31 - 10, 30, 2]
    with np.errstate(over="ignore"):
        sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int32)[:-1]]).astype(np.int32)
    assert 0 <= sums[-1] < lists.of.capacity
    take_total = candidate_kernels(sim.float64).take_total
    offset = sim.array(sums, dtype=int)
    sim.launch(take_total, len(sums) - 1, [offset, 0, lists.of.capacity], [lists.count, lists.needed])
    with pytest.raises(ContactError, match=r"more pairs may touch than have numbers of 32 bits"):
        lists.refuse_incomplete()
    with pytest.raises(sim.ModelError, match=r"capacity = 300000000: .* at most 268435455"):
        crumpled(0, capacity=300_000_000)
