"""`cast`: the bytes of a value as a value of another type."""

import numpy as np
import pytest

import sim


@sim.struct
class Pair:
    half: sim.float16
    number: sim.int16


@sim.kernel
def read_again(
    v: sim.array[sim.vec2], words: sim.array[sim.uint64], halves: sim.array[sim.vec4h], back: sim.array[sim.vec2]
):
    i = sim.tid()
    words[i] = sim.cast(v[i], sim.uint64)
    halves[i] = sim.cast(v[i], sim.vec4h)
    back[i] = sim.cast(halves[i], sim.vec2)


@sim.kernel
def pack(numbers: sim.array[int], out: sim.array[float]):
    p = Pair(sim.float16(2.0), sim.int16(123))
    numbers[0] = sim.cast(p, int)
    numbers[1] = sim.cast(1.25, dtype=int)
    again = sim.cast(numbers[0], Pair)
    out[0] = float(again.half) + float(again.number)
    out[1] = sim.cast(0x3FA00000, float)


def test_bytes_stay_where_they_are():
    host = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    v = sim.array(host, dtype=sim.vec2)
    words, halves = sim.zeros(20, dtype=sim.uint64), sim.zeros(20, dtype=sim.vec4h)
    back = sim.zeros(20, dtype=sim.vec2)
    sim.launch(read_again, 20, [v], [words, halves, back])
    for a in (words, halves, back):
        assert a.numpy().tobytes() == host.tobytes()


def test_structs_and_constants():
    numbers, out = sim.zeros(2, dtype=int), sim.zeros(2)
    sim.launch(pack, 1, [], [numbers, out])
    assert numbers.list() == [0x007B4000, 0x3FA00000] and out.list() == [125.0, 1.25]


def test_outside_of_kernels_types_are_arguments_too():
    assert sim.cast(1.0, sim.int32) == 0x3F800000 and sim.cast(sim.vec2(1.0, 0.0), sim.uint64) == 0x3F800000
    assert sim.quat_identity(dtype=sim.float64) == sim.quatd(0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, sim.int64), "bytes 0 to 7 of the result are not in the value"),
        ((1.0, 2.0), "takes a value and a type"),
        ((sim.int8(1), sim.bool), "takes no bools"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(sim.KernelError, match=message):
        sim.cast(*arguments)
