"""The order of constraints within a colour: along memory, where the points of a large model are numbered at random."""

import numpy as np
import pytest

from sim.model.build.order.row_order import order_rows
from sim.model.build.order.tiling import LARGE, TILE, tiling_of


def _order(points: np.ndarray) -> tuple[np.ndarray, list[int]]:
    free = np.ones(points.max() + 1, bool)
    made = order_rows(points, np.zeros(len(points), int), free)
    return made.order, made.offsets


def _lines(points: np.ndarray) -> int:
    """How often the first point of a constraint is far from that of the one before."""
    return int((np.abs(np.diff(points.min(axis=1))) > 16).sum())


def test_points_at_random_are_met_along_memory() -> None:
    number = np.random.default_rng(0).permutation(2 * LARGE)
    pairs = number.reshape(-1, 2)  # no two share a point: one colour
    order, offsets = _order(pairs)
    assert offsets == [0, LARGE]
    assert sorted(order) == list(range(LARGE))
    assert _lines(pairs) > 0.9 * len(pairs)
    assert _lines(pairs[order]) < 0.1 * len(pairs)


def test_a_mesh_along_memory_keeps_its_order() -> None:
    chain = np.stack([np.arange(LARGE), np.arange(LARGE) + 1], axis=1)
    apart = np.concatenate([chain[::4], chain[2::4]])  # one colour, in two runs along memory
    order, offsets = _order(apart)
    assert len(offsets) == 2
    assert _lines(apart[order]) < 16


def test_a_small_model_keeps_its_order() -> None:
    pairs = np.random.default_rng(0).permutation(LARGE // 2).reshape(-1, 2)
    order, _ = _order(pairs)
    assert _lines(pairs[order]) > 0.9 * len(pairs)


def _grid(n: int, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of neighbours in a sheet of n x n points, and where these are."""
    own = np.arange(n * n).reshape(n, n)
    pairs = [(own[1:], own[:-1]), (own[:, 1:], own[:, :-1]), (own[1:, 1:], own[:-1, :-1])]
    position = np.zeros((n * n, 3))
    position[number, 0], position[number, 1] = np.divmod(np.arange(n * n), n)
    return number[np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])], position


@pytest.mark.parametrize("at_random", [False, True])
def test_constraints_of_a_large_model_go_tile_by_tile(at_random: bool) -> None:
    n = 192
    number = np.random.default_rng(0).permutation(n * n) if at_random else np.arange(n * n)
    points, position = _grid(n, number)
    tiling = tiling_of(position)
    assert tiling is not None and (tiling.number is not None) == at_random
    free = np.ones(n * n, bool)
    order, offsets, shared, tiles = order_rows(points, np.zeros(len(points), int), free, tiling)
    assert sorted(order) == list(range(len(points)))
    assert shared == offsets[1:]
    visited = []
    for begin, end in zip(offsets, offsets[1:], strict=False):
        own = points[order[begin:end]]
        assert len(np.unique(own)) == own.size  # no two share a point
        visited.append(set(tiling.tile[own].ravel()))
    assert tiles == [next(iter(found)) if len(found) == 1 else None for found in visited]
    inner = [tile for tile in tiles if tile is not None]
    assert inner == sorted(inner) and len(set(inner)) == tiling.tile.max() + 1  # once each, one behind the other
    crossing = (tiling.tile[points].min(axis=1) != tiling.tile[points].max(axis=1)).sum()
    assert len(order) - offsets[len(inner)] == crossing < 0.05 * len(order)


def test_numbers_along_tiles_keep_neighbours_together() -> None:
    n = 192
    points, position = _grid(n, np.random.default_rng(0).permutation(n * n))
    tiling = tiling_of(position)
    assert tiling is not None and tiling.number is not None
    assert sorted(tiling.number) == list(range(n * n))
    apart = np.abs(np.diff(tiling.number[points], axis=1))
    assert np.median(apart) < 64 and (apart > TILE).mean() < 0.05


def test_constraints_between_points_far_apart_have_no_tiles() -> None:
    n = 192
    rng = np.random.default_rng(0)
    points, position = _grid(n, np.arange(n * n))
    points = rng.permutation(n * n)[points]  # whose neighbours are anywhere
    with_tiles, without = (
        order_rows(points, np.zeros(len(points), int), np.ones(n * n, bool), tiling)
        for tiling in (tiling_of(position), None)
    )
    assert with_tiles.offsets == without.offsets
    np.testing.assert_array_equal(with_tiles.order, without.order)


def test_a_small_model_has_no_tiles() -> None:
    assert tiling_of(np.zeros((LARGE - 1, 3))) is None
