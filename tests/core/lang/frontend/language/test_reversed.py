"""`reversed`, of ranges known while compiling and of the run."""

import pytest

import sim


@sim.kernel
def backwards(start: int, stop: int, step: int, out: sim.array(dtype=int)):
    count = 0
    for i in reversed(range(start, stop, step)):
        out[count] = i
        count += 1
    for i in reversed(range(2, 9, 3)):
        out[count] = i
        count += 1
    for x in reversed(sim.vec3(1.0, 2.0, 3.0)):
        out[count] = int(x)
        count += 1


@pytest.mark.parametrize("bounds", [(-2, 8, 3), (9, -3, -2), (5, 0, 1), (0, 4, 1), (0, 5, 7), (3, 3, -1)])
def test_reversed_ranges(bounds):
    out = sim.zeros(20, dtype=int)
    sim.launch(backwards, 1, [*bounds, out])
    expected = [*reversed(range(*bounds)), 8, 5, 2, 3, 2, 1]
    assert out.list()[: len(expected)] == expected and not any(out.list()[len(expected) :])
