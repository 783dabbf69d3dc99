"""The arena of a tape: pieces do not overlap, are aligned, have spare bytes behind them, and outlive the arena."""

import numpy as np

import sim
from sim.core.lang.types import float64
from sim.core.runtime.memory.host_memory import ALIGNMENT, SPARE, address_of
from sim.core.runtime.tape.arena import FIRST, Arena


def test_pieces_are_apart_aligned_and_spare():
    arena, rng = Arena(), np.random.default_rng(2)
    pieces = [arena.take(int(n)) for n in [0, 1, FIRST, 3 * FIRST, *rng.integers(1, 5000, 200)]]
    spans = sorted((address_of(p), address_of(p) + len(p) + SPARE) for p in pieces if len(p))
    assert all(begin % ALIGNMENT == 0 for begin, _ in spans)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))
    for k, p in enumerate(pieces):
        p[:] = k % 251
    assert all((p == k % 251).all() for k, p in enumerate(pieces))


def test_an_array_of_an_arena_is_one_like_any_other():
    arena = Arena()
    a, b = (arena.array((3, 5), float64, sim.get_device("cpu")) for _ in range(2))
    del arena
    a.fill_(1.0)
    b.assign(np.arange(15.0).reshape(3, 5))
    sim.copy(a[1], b[2])
    assert a.is_contiguous and a.numpy().tolist() == [[1.0] * 5, [10.0, 11.0, 12.0, 13.0, 14.0], [1.0] * 5]


def test_a_tape_keeps_its_records_and_copies_in_few_blocks():
    @sim.kernel
    def squared(x: sim.array[sim.vec3]):
        i = sim.tid()
        x[i] = sim.cw_mul(x[i], x[i])

    x = sim.array(np.full((50, 3), 1.01), dtype=sim.vec3, requires_grad=True)
    with sim.Tape() as tape:
        for _ in range(5):
            sim.launch(squared, 50, [x])
    kept = [k.data.memory for k in tape._live_ins.snapshots] + [a.buffer.memory for r in tape.records for a in r.caches]
    assert len(tape.memory()) == len(kept) == 5 and len({id(memory.base) for memory in kept}) == 1
    tape.backward(grads={x: sim.ones_like(x)})
    np.testing.assert_allclose(x.grad.numpy(), 32 * 1.01**31, rtol=1e-5)
