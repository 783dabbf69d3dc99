"""Segments of many lengths: what is shorter than one that is recorded takes its steps in the memory of that one."""

import sys

import numpy as np
import pytest
from tools.physics.models import DT, swung_sheet
from tools.physics.rollout_worlds import WORLDS, found

import sim

segments, workspace = sys.modules["sim.rollout.segments"], sys.modules["sim.rollout.workspace"]


@pytest.fixture()
def recorded(monkeypatch) -> list[int]:
    """The lengths of the segments that were recorded, where one may have memory of its own."""
    lengths, look = [], segments.steady_state

    def record(recorder, count, frames):
        lengths.append(count)
        return look(recorder, count, frames)

    monkeypatch.setattr(segments, "steady_state", record)
    monkeypatch.setattr(workspace, "MOST_SEGMENTS", 1)
    return lengths


@pytest.mark.parametrize(
    ("name", "lengths", "frame_every", "wanted"),
    [
        ("sheet", (30, 24, 18, 30, 26), None, [30]),
        ("jacobi", (31, 25, 24, 31, 29), 5, [31, 24, 31]),  # of another phase: its own
        ("ball", (18, 30, 18, 28), 1, [18, 30]),
        ("colliding", (25, 19, 17), 4, [25]),
        ("linkage", (30, 24, 14, 24), None, [30, 14]),  # a short one: its own
    ],
)
def test_gradients_of_parts_are_those_of_a_new_solver(name, lengths, frame_every, wanted, recorded):
    """Bit for bit, and what is kept for them is as much."""
    solver = WORLDS[name]()
    seen = [found(solver, steps, frame_every) for steps in lengths]
    assert recorded == wanted
    for steps, one in dict(zip(lengths, seen, strict=True)).items():
        new = WORLDS[name]()
        assert one in [found(new, steps, frame_every) for _ in range(2)]  # the first keeps a little more


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=18)], ids=["stored", "checkpointed"])
def test_several_lengths_on_one_tape(strategy, recorded):
    """Each finds its steps again on the way back, though another has used their memory."""
    solver, rng = swung_sheet(), np.random.default_rng(5)
    model, lengths = solver.model, (54, 40, 44, 54, 58)
    seeds = [rng.normal(size=model.particle_q.numpy().shape) for _ in lengths]

    def gradients(runs) -> dict[str, np.ndarray]:
        with sim.Tape() as tape:
            ends = [
                sim.rollout(solver, model.state(), lengths[k], DT, strategy=strategy).final.particle_q for k in runs
            ]
        tape.backward(grads={end: sim.array(seeds[k], dtype=end.dtype) for k, end in zip(runs, ends, strict=True)})
        out = {path: a.grad.numpy().copy() for path, a in model.materials.items()}
        tape.zero()
        return out

    together, alone = gradients(range(5)), [gradients([k]) for k in range(5)]
    for path, got in together.items():
        np.testing.assert_allclose(got, sum(one[path] for one in alone), rtol=1e-10, atol=1e-12, err_msg=path)


def test_a_longer_one_takes_the_place(recorded):
    """What was a part of the one that is freed is one of the next; nothing is kept of what was freed."""
    solver = swung_sheet()
    for steps in (30, 24, 40, 24, 30):
        found(solver, steps, None)
    assert recorded == [30, 40]
    pools = workspace._pools[solver].values()
    kept = {s.count: s.whole and s.whole.count for pool in pools for w in pool._idle for s in w.segments.values()}
    assert kept == {40: None, 24: 40, 30: 40}
