"""Arrays that a kernel makes of an address."""

import numpy as np
import pytest

import sim


@sim.struct
class Pair:
    number: int
    point: sim.vec2


@sim.kernel
def by_address(a: sim.array2d(dtype=float), n: int, pairs: sim.array(dtype=Pair), out: sim.array(dtype=float)):
    b = sim.array(ptr=a.ptr, shape=(2, n), dtype=float)
    b[0, 1] = 5.0
    b[1][n - 1] += 2.0
    row = b[1, ::-1]
    out[0] = row[0] + float(b.shape[1])
    points = sim.array(ptr=a.ptr, shape=3, dtype=sim.vec2)
    points[2][0] = points[0][1]
    c = sim.array(ptr=pairs.ptr, shape=(2,), dtype=Pair)
    c[1].number = c[0].number + 4
    c[1].point = sim.vec2(1.0, out[0])
    c[0].point[n - 2] = 8.0


@sim.kernel
def of_a_number(address: sim.uint64, n: int):
    a = sim.array(ptr=address, shape=n, dtype=sim.int16)
    for i in range(n):
        a[i] = sim.int16(i * i)


def test_elements_are_read_and_written(each_backend):
    a, pairs, out = sim.array(np.arange(6).reshape(2, 3), dtype=float), sim.zeros(2, dtype=Pair), sim.zeros(1)
    pairs[0] = Pair(number=3)
    sim.launch(by_address, 1, [a, 3, pairs, out])
    assert a.numpy().tolist() == [[0, 5, 2], [3, 5, 7]] and out.list() == [10.0]
    found = pairs.list()
    assert found[1].number == 7 and tuple(found[1].point) == (1.0, 10.0) and tuple(found[0].point) == (0.0, 8.0)
    numbers = sim.zeros(5, dtype=sim.int16)
    sim.launch(of_a_number, 1, [numbers.ptr, 5])
    assert numbers.list() == [0, 1, 4, 9, 16]


@pytest.fixture(params=["llvm", "interp"])
def each_backend(request, monkeypatch):
    from sim.core.backends.interp import InterpBackend

    device = sim.get_device("cpu")
    if request.param == "interp":
        monkeypatch.setattr(device, "_backend", InterpBackend())


def test_a_tape_does_not_record_it():
    a, pairs = sim.zeros((2, 3), requires_grad=True), sim.zeros(2, dtype=Pair)
    with sim.Tape(), pytest.raises(sim.GradientError, match="works on memory by its address"):
        sim.launch(by_address, 1, [a, 3, pairs, sim.zeros(1)])
    with pytest.raises(sim.GradientError, match="works on memory by its address"):
        sim.autograd.jvp(by_address, [a, 3, pairs], [np.ones((2, 3)), None, None], dim=1, outputs=[sim.zeros(1)])


def test_an_index_beyond_the_shape_is_reported():
    sim.set_check_bounds(True)
    try:
        with pytest.raises(sim.KernelFault, match="index"):
            sim.launch(by_address, 1, [sim.zeros((2, 3)), 1, sim.zeros(2, dtype=Pair), sim.zeros(1)])
            sim.synchronize()
    finally:
        sim.set_check_bounds(False)


@sim.struct
class Chosen:
    some: sim.indexedarray[float]
    grid: sim.indexedarray2d[sim.vec2]
    rest: sim.array[float]
    count: int


@sim.kernel
def through_elements(chosen: sim.array[Chosen], out: sim.array2d[float]):
    i, j = sim.tid()
    c = chosen[i]
    if j < c.some.shape[0]:
        out[i, j] = c.some[j] + c.grid[1, j][0] + 100.0 * float(c.grid.shape[0])
        chosen[i].some[j] = -1.0


@sim.kernel
def passed_on(chosen: sim.array[Chosen]):
    chosen[1] = chosen[0]
    made = Chosen()
    if made.some.shape[0] + made.grid.shape[1] + made.rest.size == 0 and not made.rest:
        chosen[2].count = 5
    made.some = chosen[0].some
    chosen[2].some = made.some


@sim.kernel
def reads_what_was_not_set(out: sim.array[float]):
    made = Chosen()
    out[0] = made.rest[0]


def test_indexed_arrays_in_elements_of_arrays(each_backend):
    values = sim.array(np.arange(6), dtype=float)
    points = sim.array(np.arange(16).reshape(2, 4, 2), dtype=sim.vec2)
    grid = sim.indexedarray(points, [None, sim.array([3, 1], dtype=int)])
    one = Chosen(some=values[sim.array([4, 2], dtype=int)], grid=grid)
    chosen = sim.array([one, Chosen(), Chosen()], dtype=Chosen)
    out = sim.zeros((3, 3))
    sim.launch(through_elements, (3, 3), inputs=[chosen, out])
    np.testing.assert_array_equal(out.numpy(), [[4 + 14 + 200, 2 + 10 + 200, 0], [0, 0, 0], [0, 0, 0]])
    assert values.list() == [0, 1, -1, 3, -1, 5]
    sim.launch(passed_on, 1, inputs=[chosen])
    found = chosen.list()
    assert [f.count for f in found] == [0, 0, 5] and found[2].grid is None and found[1].rest is None
    assert found[1].grid.numpy().tolist() == grid.numpy().tolist() and found[2].some.list() == [-1, -1]


def test_what_is_no_indexed_array_is_told_apart():
    with pytest.raises(ValueError, match=r"field .some. of Chosen: expected indexedarray.*write sim.indexed"):
        sim.array([Chosen(some=sim.zeros(3))], dtype=Chosen)
    apart = sim.zeros(6, dtype=int)[::2]
    with pytest.raises(ValueError, match="indices in an element of an array lie side by side"):
        sim.array([Chosen(some=sim.indexedarray(sim.zeros(3), [apart]))], dtype=Chosen)
    with pytest.raises(sim.KernelError, match="the array 'rest' of this Chosen was not set"):
        sim.launch(reads_what_was_not_set, 1, inputs=[sim.zeros(1)])


@sim.struct
class Counters:
    total: sim.array[float]
    marks: sim.array[int]
    corner: sim.array[sim.vec2]


@sim.kernel
def counts(counters: sim.array[Counters], out: sim.array[int]):
    i = sim.tid()
    c = counters[i % 2]
    sim.atomic_add(c.total, 0, float(i))
    before = sim.atomic_or(c.marks, 0, 1 << i)
    sim.atomic_min(c.corner, 0, sim.vec2(-float(i), 1.0))
    sim.atomic_cas(c.marks, 1, 0, i + 5)
    out[i] = before + 100 * sim.atomic_exch(c.marks, 2, i)


def test_atomics_on_arrays_of_elements(each_backend):
    arrays = ((sim.zeros(1), sim.zeros(3, dtype=int), sim.zeros(1, dtype=sim.vec2)) for _ in range(2))
    made = [Counters(*three) for three in arrays]
    out = sim.zeros(6, dtype=int)
    sim.launch(counts, 6, inputs=[sim.array(made, dtype=Counters), out])
    assert [m.total.list() for m in made] == [[6.0], [9.0]]
    assert [m.marks.list() for m in made] == [[21, 5, 4], [42, 6, 5]]
    assert [tuple(m.corner.list()[0]) for m in made] == [(-4.0, 0.0), (-5.0, 0.0)]
    assert out.list() == [0, 0, 1, 102, 205, 310]
