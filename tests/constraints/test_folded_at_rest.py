"""What rests folded over itself: hinges near half a turn, where the dihedral angle jumps from pi to -pi."""

import numpy as np
import pytest
from tools.constraints.projection import evaluate
from tools.constraints.samples import Sample
from tools.physics.steps import central

import sim
from sim.constraints import REGISTRY

CELL = 0.02


def hinge(angle: float) -> np.ndarray:
    """Four points of `bend`: the wings, then the edge, with this dihedral angle."""
    return np.array([[0.7, 0.0, 0.3], [-0.9 * np.cos(angle), 0.9 * np.sin(angle), 0.6], [0, 0, 0], [0, 0, 1.0]])


@pytest.mark.parametrize("rest", [np.pi, 3.1, -3.1, 3.1 - 2 * np.pi])
@pytest.mark.parametrize("past", [-0.2, -1e-3, 1e-3, 0.2])
def test_a_hinge_that_rests_folded_is_as_far_away_as_it_is_turned(rest, past):
    sign = np.sign(evaluate(Sample(REGISTRY["bend"], hinge(1.0), {"rest": np.zeros(1)}, np.arange(4)[None], np.ones(4),
                                   np.zeros(1)))[0][0, 0])  # fmt: skip
    s = Sample(REGISTRY["bend"], hinge(sign * (rest + past)), {"rest": np.array([rest])}, np.arange(4)[None],
               np.ones(4), np.zeros(1))  # fmt: skip
    C, J = evaluate(s)
    assert C[0, 0] == pytest.approx(past, abs=1e-12)
    for direction in np.random.default_rng(3).normal(size=(3, 4, 3)):
        want = central(lambda x: evaluate(s, x)[0][0, 0], s.x, direction)
        assert np.sum(J[0, 0] * direction) == pytest.approx(want, rel=1e-7)


def swing(turn: float) -> tuple[sim.SolverXPBD, sim.State]:
    """Two triangles that rest folded, 0.04 off half a turn, and come together with `turn` rad/s each."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    at = hinge(np.pi - 0.04)[[2, 3, 0, 1]]
    builder.add_cloth_mesh(
        at, np.array([[0, 2, 1], [0, 1, 3]]), density=1.0, label="hinge",
        material={"distance": {"compliance": 0.0}, "bend": {"compliance": 0.05}},
    )  # fmt: skip
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    state = model.state()
    state.particle_qd.assign(np.outer([0, 0, turn, -turn], [0, 1.0, 0]) * at[2, 0])
    return sim.SolverXPBD(model, iterations=4), state


def gap(q: np.ndarray) -> np.ndarray:
    """The angle between the wings, of frames (n, 4, 3); 0 where they have half a turn between them."""
    one, other = (q[:, k] - q[:, 0] for k in (2, 3))
    return np.arctan2(one[:, 1], one[:, 0]) - np.arctan2(other[:, 1], other[:, 0])


def test_a_fold_swings_through_half_a_turn():
    solver, state = swing(0.0)
    at = sim.rollout(solver, state, 300, 1 / 960, frame_every=5).particle_q.numpy()
    assert np.abs(at - at[0]).max() < 1e-9  # it rests
    solver, state = swing(2.0)
    between = gap(sim.rollout(solver, state, 300, 1 / 960, frame_every=1).particle_q.numpy())
    assert between[0] == pytest.approx(-0.036, abs=1e-3)
    assert -0.16 < between.min() < -0.12 and 0.08 < between.max() < 0.12  # there and back, about where it rests

    def end(velocity: np.ndarray) -> float:
        state.particle_qd.assign(velocity)
        return float(sim.rollout(solver, state, 40, 1 / 960).final.particle_q.numpy()[2, 1])

    given = state.particle_qd.numpy().copy()
    assert gap(sim.rollout(solver, state, 40, 1 / 960, frame_every=1).particle_q.numpy())[-1] > 0.05  # it is through
    with sim.Tape() as tape:
        last = sim.rollout(solver, state, 40, 1 / 960).final.particle_q
    seed = np.zeros((4, 3))
    seed[2, 1] = 1.0
    tape.backward(grads={last: sim.array(seed, dtype=last.dtype)})
    found = state.particle_qd.grad.numpy().copy()
    for direction in np.random.default_rng(5).normal(size=(3, 4, 3)):
        assert np.sum(found * direction) == pytest.approx(central(end, given, direction), rel=1e-6)


def sheet(touching: bool) -> sim.SolverXPBD:
    """A strip of 24 x 12 cm that rests folded once across, a tenth of a millimetre between its layers."""
    u, v = np.meshgrid(np.linspace(0, 12 * CELL, 13), np.linspace(0, 6 * CELL, 7), indexing="ij")
    half = 6 * CELL
    height = 0.01 + 1e-4 * np.clip((u - half) / CELL, 0, 1)
    at = np.stack([half - np.abs(u - half), height, v], axis=-1).reshape(-1, 3)
    k = np.arange(12 * 7).reshape(12, 7)[:, :6].ravel()
    faces = np.concatenate([np.stack([k, k + 1, k + 8], axis=1), np.stack([k, k + 8, k + 7], axis=1)])
    builder = sim.ModelBuilder()
    material = {"distance": {"compliance": 1e-4}, "bend": {"compliance": 100.0}}
    builder.add_cloth_mesh(at, faces, density=0.2, label="folded", thickness=1e-3, material=material)
    builder.add_ground_plane()
    if touching:
        builder.add_self_contact(["folded"], friction=0.3, margin=0.008)
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64))


@pytest.mark.parametrize("touching", [False, True])
def test_a_sheet_that_rests_folded_lies_on_a_floor(touching):
    """Its crease is pressed flat there, and hinges go through half a turn: it was thrown off at 30 m/s."""
    solver = sheet(touching)
    end = sim.rollout(solver, solver.model.state(), 960, 1 / 960).final
    assert np.abs(end.particle_qd.numpy()).max() < 0.01
    q = end.particle_q.numpy()
    assert np.ptp(q[:, 1]) < 2e-3 and np.ptp(q[:, 0]) == pytest.approx(6 * CELL, abs=1e-3)


def test_layers_without_a_gap_are_refused():
    at = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1.0]])
    builder = sim.ModelBuilder()
    for name in ("one", "other"):
        builder.add_cloth_mesh(at, np.array([[0, 1, 2]]), density=0.2, label=name, thickness=1e-3, material={})
    builder.add_self_contact(["one", "other"], margin=0.008)
    with pytest.raises(sim.ModelError, match="point 0 of 'one' and point 0 of 'other' are at one place"):
        builder.finalize(dtype=sim.float64)
