"""Colouring, farthest-point sampling and choices of points."""

import numpy as np
import pytest
from tools.places import SKIRT

from sim.geometry import (
    GeometryError,
    check_coloring,
    choose_points,
    cloth_grid,
    color_constraints,
    farthest_points,
    load_mesh,
    mesh_topology,
    quaternion_about,
    rotated,
)
from sim.geometry import coloring as colouring


def fresh_seed() -> int:
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print("seed", seed)
    return seed


def conflict_free(points, color, free) -> bool:
    """The definition, pair by pair: slow, and independent of check_coloring."""
    for c in range(color.max(initial=-1) + 1):
        seen = set()
        for row in points[color == c]:
            mine = {p for p in row.tolist() if free[p]}
            if mine & seen:
                return False
            seen |= mine
    return True


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_random_graphs(size):
    rng = np.random.default_rng(fresh_seed())
    for _ in range(20):
        n = int(rng.integers(size, 60))
        points = np.array([rng.choice(n, size, replace=False) for _ in range(rng.integers(1, 200))])
        free = rng.random(n) < rng.choice([0.0, 0.5, 1.0])
        coloring = color_constraints(points, free)
        assert conflict_free(points, coloring.color, free)
        check_coloring(points, coloring.color, free)
        degree = np.bincount(points.ravel(), minlength=n)[free].max(initial=0)
        assert max(degree, 1) <= coloring.count <= size * max(degree - 1, 0) + 1  # first fit's own bound
        assert sorted(coloring.order) == list(range(len(points)))
        sizes = np.diff(coloring.offsets)
        assert (sizes > 0).all() and (np.diff(sizes) <= 0).all()
        for c in range(coloring.count):
            inside = coloring.order[coloring.offsets[c] : coloring.offsets[c + 1]]
            assert (coloring.color[inside] == c).all() and (np.diff(inside) > 0).all()


@pytest.mark.parametrize("points", [5, 200])
def test_constraints_of_a_colour_at_once_are_as_one_by_one(monkeypatch, points):
    """With five points there are more colours than a number has bits."""
    rng = np.random.default_rng(fresh_seed())
    for size in (1, 2, 3):
        table = rng.integers(0, points, (400, size))  # some have a point twice
        free = rng.random(points) < 0.8
        found = []
        for least in (0, 10**9):
            monkeypatch.setattr(colouring, "_WORTH_ARRAYS", least)
            found.append(color_constraints(table, free))
        at_once, by_one = found
        assert np.array_equal(at_once.color, by_one.color) and np.array_equal(at_once.order, by_one.order)


def test_grid_needs_no_more_colours_than_its_degree():
    grid = cloth_grid(24, 17, 0.1, 0.1)
    top = mesh_topology(grid.positions, grid.triangles)
    assert color_constraints(grid.structural).count == 4
    assert color_constraints(grid.diagonals).count == 2
    assert color_constraints(top.edges).count == 6
    assert color_constraints(top.hinges).count <= 15  # an inner point has 12 hinges, six as edge and six as wing


def test_skirt_is_coloured_evenly_and_always_alike():
    mesh = load_mesh(SKIRT)
    top = mesh_topology(mesh.positions, mesh.triangles)
    for points, most in ((top.edges, 9), (top.hinges, 20)):
        coloring = color_constraints(points)
        assert conflict_free(points, coloring.color, np.ones(681, bool)) and coloring.count <= most
        sizes = np.diff(coloring.offsets)
        assert sizes.max() <= 1.2 * sizes.mean()
        assert np.array_equal(color_constraints(points).color, coloring.color)


def test_fixed_points_and_hubs_and_nothing():
    star = np.stack([np.zeros(200, int), np.arange(1, 201)], axis=1)
    assert color_constraints(star).count == 200  # more colours than bits of a machine word
    free = np.ones(201, bool)
    free[0] = False
    assert color_constraints(star, free).count == 1
    empty = color_constraints(np.zeros((0, 2), int))
    assert empty.count == 0 and empty.offsets.tolist() == [0]
    check_coloring(np.zeros((0, 2), int), [])


def test_check_coloring_names_the_pair():
    points = np.array([[0, 1], [2, 3], [3, 4], [5, 5]])
    check_coloring(points, [0, 0, 1, 0])  # a point twice in one constraint is no conflict of two
    with pytest.raises(GeometryError, match="constraints 1 and 2 have the same colour 0 and share the free point 3"):
        check_coloring(points, [0, 0, 0, 0])
    check_coloring(points, [0, 0, 0, 0], free=[True, True, True, False, True, True])
    with pytest.raises(GeometryError, match="4 constraints need as many colours"):
        check_coloring(points, [0, 0, 1])
    with pytest.raises(GeometryError, match="constraint 3 names a point outside 0..4"):
        color_constraints(points, np.ones(5, bool))
    with pytest.raises(GeometryError, match="integers"):
        color_constraints(np.zeros((3, 2)))


def test_check_coloring_agrees_with_the_definition():
    rng = np.random.default_rng(fresh_seed())
    verdicts = []
    for _ in range(200):
        points = np.array([rng.choice(12, 2, replace=False) for _ in range(4)])
        color, free = rng.integers(0, 3, 4), rng.random(12) < 0.7
        try:
            check_coloring(points, color, free)
            verdicts.append(True)
        except GeometryError:
            verdicts.append(False)
        assert verdicts[-1] == conflict_free(points, color, free)
    assert 0 < sum(verdicts) < 200


# ---- sampling


def test_farthest_points_by_definition():
    rng = np.random.default_rng(fresh_seed())
    x = rng.normal(size=(50, 3))
    among = np.sort(rng.choice(50, 30, replace=False))
    chosen = farthest_points(x, 12, among)
    assert chosen[0] == among[0] and len(set(chosen.tolist())) == 12 and set(chosen) <= set(among.tolist())
    for k in range(1, 12):
        distance = {p: min(np.linalg.norm(x[p] - x[q]) for q in chosen[:k]) for p in among.tolist()}
        assert distance[int(chosen[k])] == pytest.approx(max(distance.values()), rel=1e-12)
    mask = np.zeros(50, bool)
    mask[among] = True
    assert np.array_equal(farthest_points(x, 12, mask), chosen)


def test_farthest_points_ties_repeats_and_errors():
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    assert farthest_points(square, 4).tolist() == [0, 2, 1, 3]
    assert farthest_points(np.zeros((3, 3)), 3).tolist() == [0, 1, 2]
    for count in (0, 5):
        with pytest.raises(GeometryError, match="4 candidates"):
            farthest_points(square, count)


def test_farthest_points_of_a_turned_grid_are_those_of_the_grid():
    """Its distances are equal but for rounding, which differs from one machine's product of matrices to another's."""
    rng = np.random.default_rng(fresh_seed())
    flat = cloth_grid(12, 10, 0.36, 0.3).positions
    turn = quaternion_about(rng.normal(size=3), rng.uniform(0, 6))
    chosen = farthest_points(flat, 40)
    for _ in range(5):
        turned = rotated(turn, flat) * (1.0 + 1e-15 * rng.normal(size=flat.shape)) + rng.normal(size=3)
        assert np.array_equal(farthest_points(turned, 40), chosen)


# ---- choices


def test_the_waistband():
    mesh = load_mesh(SKIRT)
    boundary = mesh_topology(mesh.positions, mesh.triangles).boundary
    waist = choose_points(mesh.positions, {"boundary": True, "y": [1.12, None]}, boundary)
    assert len(waist) == 26 and boundary[waist].all() and (mesh.positions[waist, 1] >= 1.12).all()


def test_keys_of_where():
    grid = cloth_grid(4, 4, 0.25, 0.25)
    x = grid.positions
    boundary = mesh_topology(x, grid.triangles).boundary
    file_to_point = np.concatenate([np.arange(25), [7]])  # file vertex 25 was merged into point 7
    rows = [
        ({"all": True}, list(range(25))),
        ({"boundary": False}, [6, 7, 8, 11, 12, 13, 16, 17, 18]),
        ({"x": [None, 0.0]}, grid.left.tolist()),
        ({"y": [0.75, None], "x": [0.25, 0.5]}, [16, 17, 21, 22]),
        ({"indices": [25, 3, 3]}, [3, 7]),
        ({"near": [[0.1, 0.1, 5.0], [2, 2, 0]]}, [0, 24]),
        ({"near": [[0.125, 0, 0]]}, [0]),  # a tie goes to the lower index
        ({"boundary": True, "indices": [0, 7, 12]}, [0]),
    ]
    for where, expected in rows:
        assert choose_points(x, where, boundary, file_to_point).tolist() == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"y": [2, None]}, r"none of 9 points \(each key by itself: y: 0\).*x 0 to 1, y 0 to 1, z 0 to 0"),
        ({"boundary": False, "x": [0, 0]}, "boundary: 1, x: 3"),
        ({"boundry": True}, "Did you mean 'boundary'"),
        ({}, "says nothing"),
        ({"x": 3}, "low, high"),
        ({"x": [2, 1]}, "not below"),
        ({"boundary": 1}, "true or false"),
        ({"indices": [9]}, "no point 9.*0 to 8"),
        ({"indices": [-1]}, "no point -1"),
        ({"indices": [0.5]}, "whole numbers"),
        ({"indices": []}, "whole numbers"),
        ({"near": [1, 2, 3]}, r"\[\[x, y, z\]"),
        ({"all": False}, "all: true"),
    ],
)
def test_bad_choices(where, message):
    grid = cloth_grid(2, 2, 0.5, 0.5)
    boundary = mesh_topology(grid.positions, grid.triangles).boundary
    with pytest.raises(GeometryError, match=message):
        choose_points(grid.positions, where, boundary)


def test_boundary_needs_a_surface():
    with pytest.raises(GeometryError, match="no surface"):
        choose_points(np.zeros((3, 3)), {"boundary": True})
