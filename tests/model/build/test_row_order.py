"""The order of constraints within a colour: along memory, where the points of a large model are numbered at random."""

import numpy as np

from sim.model.build.row_order import LARGE, order_rows


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
