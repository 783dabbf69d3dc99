"""Strands of launches that have nothing to do with each other: several threads take each as a whole."""

import numpy as np
import pytest

import sim
from sim.core.runtime.devices.graph import Graph, capture, strand
from sim.core.runtime.devices.segments import NativeSegment, StrandTable

PIECES, SIZE = 7, 600


@sim.kernel
def fold(x: sim.array[float], begin: int, factor: float):
    k = begin + sim.tid()
    x[k] = factor * x[k] + 1.0


@pytest.fixture(autouse=True)
def threads():
    before = sim.get_num_threads()
    yield
    sim.set_num_threads(before)


def captured(x: sim.array, numbers: list[int | None]) -> tuple[Graph, NativeSegment]:
    """Launches on these pieces of x, each under its number."""
    with capture() as graph:
        for k, number in enumerate(numbers):
            with strand(number):
                sim.launch(fold, SIZE, [x, SIZE * ((number or 0) % PIECES), 0.5 + 0.1 * k], [])
    (segment,) = graph._segments
    assert isinstance(segment, NativeSegment)
    return graph, segment


def expected(numbers: list[int | None]) -> np.ndarray:
    x = np.ones(PIECES * SIZE, np.float32)
    for k, number in enumerate(numbers):
        piece = slice(SIZE * ((number or 0) % PIECES), SIZE * ((number or 0) % PIECES + 1))
        x[piece] = np.float32(0.5 + 0.1 * k) * x[piece] + np.float32(1.0)
    return x


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_each_strand_keeps_its_order(count: int) -> None:
    numbers = [s for s in range(PIECES) for _ in range(4)]
    x = sim.array(np.ones(PIECES * SIZE), dtype=float)
    graph, _ = captured(x, numbers)
    sim.set_num_threads(count)
    for _ in range(50):
        x.fill_(1.0)
        graph.replay()
        np.testing.assert_array_equal(x.numpy(), expected(numbers))


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        ([0, 0, 1, 1, 2], 1),
        ([0, None, 1, 2], 3),  # what belongs to none stands between, and one strand has nobody to be shared with
        ([0, 1, 0, 1], 2),  # one that comes up again waits for itself
        ([3, 3, 3], 3),
        ([None, None], 2),
        ([2, 1, 1, 0, None, 0, 1, 2], 3),
    ],
)
def test_what_is_shared(numbers: list[int | None], rows: int) -> None:
    x = sim.array(np.ones(PIECES * SIZE), dtype=float)
    graph, segment = captured(x, numbers)
    assert segment.strands == numbers
    table = StrandTable(np.array(segment.rows, np.int64), segment.strands)
    assert len(table.rows) == rows
    sim.set_num_threads(3)
    x.fill_(1.0)
    graph.replay()
    np.testing.assert_array_equal(x.numpy(), expected(numbers))


def test_a_strand_inside_of_another_gives_it_back() -> None:
    x = sim.ones(PIECES * SIZE)
    with capture() as graph, strand(1):
        with strand(2):
            sim.launch(fold, SIZE, [x, 0, 0.5], [])
        sim.launch(fold, SIZE, [x, SIZE, 0.5], [])
    (segment,) = graph._segments
    assert isinstance(segment, NativeSegment) and segment.strands == [2, 1]


@sim.kernel
def gather_all(x: sim.array[float], total: sim.array[float]):
    sim.atomic_add(total, 0, x[sim.tid()])


def test_what_threads_must_not_share_is_no_strand() -> None:
    x, total = sim.ones(SIZE), sim.zeros(1)
    with capture() as graph, strand(1):
        sim.launch(gather_all, SIZE, [x], [total])
    (segment,) = graph._segments
    assert isinstance(segment, NativeSegment) and segment.strands == [None]


def test_the_way_back_has_the_strands_of_the_way_forward() -> None:
    x = sim.array(np.ones(PIECES * SIZE), dtype=float, requires_grad=True)
    with capture(), sim.Tape() as tape:
        for s in range(3):
            with strand(s):
                sim.launch(fold, SIZE, [x, SIZE * s, 0.5], [])
    with capture() as back:
        tape.backward(grads={x: sim.ones(PIECES * SIZE)})
    found = [s for segment in back._segments if isinstance(segment, NativeSegment) for s in segment.strands]
    assert [s for s in found if s is not None] == [2, 1, 0]
