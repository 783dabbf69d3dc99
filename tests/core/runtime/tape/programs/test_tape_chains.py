"""Random programs over slices of flat vectors, cut into several tapes, gone back through one after the other: as one
tape, or an error."""

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.kernels import square_in_place

import sim

f64 = sim.float64
SIZE = 8


@sim.kernel
def wave(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sin(x[i]) + 0.5


@sim.kernel
def accumulate(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(y, i, x[i] * x[i])


class Chain:
    """Steps on two vectors; `tapes(k)` records them on k tapes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.start = [self.rng.uniform(0.3, 1.2, SIZE) for _ in range(2)]
        self.weights = [self.rng.normal(size=SIZE) for _ in range(2)]
        self.steps = [self.step() for _ in range(9)]

    def part(self, length: int) -> tuple[int, slice]:
        step = int(self.rng.integers(1, 3)) if 2 * length <= SIZE else 1
        first = int(self.rng.integers(0, SIZE - step * (length - 1)))
        return int(self.rng.integers(2)), slice(first, first + step * (length - 1) + 1, step)

    def step(self):
        length, kind = int(self.rng.integers(1, SIZE // 2 + 1)), int(self.rng.integers(6))
        (a, x), (b, y) = self.part(length), self.part(length)
        if kind in (1, 2) and a == b:
            b = 1 - a  # kernels read and write different memory

        def run(v: list[sim.array]) -> None:
            if kind == 0:
                sim.launch(square_in_place, length, outputs=[v[b][y]])
            elif kind == 1:
                sim.launch(wave, length, [v[a][x]], [v[b][y]])
            elif kind == 2:
                sim.launch(accumulate, length, [v[a][x]], [v[b][y]])
            elif kind in (3, 4):
                v[b][y].assign(v[a][x])
            else:
                v[b][y].fill_(0.7)

        return run

    def tapes(self, cuts: list[int]) -> tuple[list[sim.array], list[sim.Tape]]:
        vectors, tapes = [array(s) for s in self.start], []
        for begin, end in zip([0, *cuts], [*cuts, len(self.steps)], strict=True):
            with sim.Tape() as tape:
                for step in self.steps[begin:end]:
                    step(vectors)
            tapes.append(tape)
        return vectors, tapes

    def gradient(self) -> list[np.ndarray]:
        vectors, (tape,) = self.tapes([])
        tape.backward(grads=dict(zip(vectors, self.weights, strict=True)))
        return [v.grad.numpy().copy() for v in vectors]


def attempt(tape: sim.Tape, fail: bool, grads) -> None:
    """Backward; with `fail` after one that breaks off in the middle."""
    if fail:

        def broken():
            raise KeyboardInterrupt

        middle = len(tape.records) // 2
        tape.records.insert(
            middle,
            type(
                "Broken",
                (),
                {"backward": lambda self: broken(), "arrays": [], "writes": [], "works_on_snapshots": False},
            )(),
        )
        with pytest.raises(KeyboardInterrupt):
            tape.backward(grads=grads)
        del tape.records[middle]
    tape.backward(grads=grads)


@pytest.mark.parametrize("way", ["without seeds", "own gradients", "copies", "copies, cleared", "mixed"])
@pytest.mark.parametrize("fail", [False, True])
def test_programs_cut_into_tapes(way, fail):
    right = refused = 0
    for seed in range(25):
        print("seed", seed)
        chain = Chain(seed)
        wanted = chain.gradient()
        cuts = sorted(int(c) for c in chain.rng.choice(np.arange(1, 9), 3, replace=False))
        vectors, tapes = chain.tapes(cuts)
        for repeat in range(2):
            try:
                attempt(tapes[-1], fail, dict(zip(vectors, chain.weights, strict=True)))
                for k, tape in reversed(list(enumerate(tapes[:-1]))):
                    how = (
                        way if way != "mixed" else ["without seeds", "own gradients", "copies, cleared"][(k + seed) % 3]
                    )
                    written = [v for v in vectors if any(a.buffer is v.buffer for r in tape.records for a in r.writes)]
                    if how == "without seeds":
                        attempt(tape, fail, None)
                    elif how == "own gradients":
                        attempt(tape, fail, {v: v.grad for v in written})
                    else:
                        copies = {v: v.grad.numpy().copy() for v in written}
                        if how == "copies, cleared":
                            for v in written:
                                v.grad.zero_()
                        attempt(tape, fail, copies)
            except sim.GradientError as error:
                assert (
                    way == "copies" and "are they to be added?" in str(error) or "nothing to start from" in str(error)
                ), error
                refused += 1
                break
            if repeat == 0:
                right += 1
                for v, w in zip(vectors, wanted, strict=True):
                    np.testing.assert_allclose(v.grad.numpy(), w, rtol=1e-11, atol=1e-12)
                for tape in tapes:
                    tape.zero()
                assert not any(v.grad.numpy().any() for v in vectors)
    assert right >= (0 if way == "copies" else 20), (right, refused)
