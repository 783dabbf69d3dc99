"""Tiles: pieces of space with few enough points."""

import numpy as np

from sim.model.build.order.tiling import tiles_of


def test_tiles_are_small_full_and_compact() -> None:
    x = np.stack(np.meshgrid(np.arange(64.0), np.arange(32.0), [0.0], indexing="ij"), axis=-1).reshape(-1, 3)
    tile = tiles_of(x, 128)
    assert sorted(set(tile)) == list(range(16)) and set(np.bincount(tile)) == {128}
    sizes = [np.ptp(x[tile == t], axis=0)[:2].prod() for t in range(16)]
    assert max(sizes) <= 15 * 7  # 16 x 8 points each


def test_neighbours_share_a_tile_whatever_their_numbers_are() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1000, 3))
    shuffled = rng.permutation(1000)
    np.testing.assert_array_equal(tiles_of(x[shuffled], 50), tiles_of(x, 50)[shuffled])


def test_smaller_tiles_are_pieces_of_larger_ones_in_the_same_row() -> None:
    x = np.random.default_rng(4).normal(size=(1000, 3))
    large, small = tiles_of(x, 200), tiles_of(x, 20)
    assert (np.diff(large[np.argsort(small, kind="stable")]) >= 0).all()


def test_points_at_one_place_and_none() -> None:
    assert set(np.bincount(tiles_of(np.zeros((8, 3)), 2))) == {2}
    assert tiles_of(np.zeros((0, 3)), 2).shape == (0,)
