"""Held bodies that are moved: where they are, by closed forms, and what that does to others, against differences."""

import numpy as np
import pytest
from tools.bodies.models import G
from tools.constraints.samples import SEED
from tools.constraints.slots import exp, product, turned
from tools.physics.steps import central

import sim
from sim.model import ModelError

DT = 1 / 100
MOVE, TURN, MORE, SWING = (0.3, -0.2, 0.1), (0.4, 2.5, -1.0), (0.0, 1.2, 0.3), (0.0, 0.05, 0.2)
MOTION = [
    {"move": MOVE, "start": 0.02, "end": 0.12},
    {"turn": TURN, "start": 0.0, "end": 0.1},
    {"swing": SWING, "frequency": 4.0},
    {"turn": MORE, "start": 0.05, "end": 0.2, "ease": "linear"},
]
PATHS = [f"hand.motion.{k}.{kind}" for k, kind in enumerate(("move", "turn", "swing", "turn"))]
POSE, COM = np.array([0.1, 0.2, -0.3, *exp(np.array([0.3, -0.4, 0.8]))]), (0.02, 0.05, -0.01)


def hanging(motion=MOTION, real=sim.float64, grad=True, **options):
    """A body on a ball joint at a moved one."""
    b = sim.ModelBuilder(gravity=(0, -G, 0))
    hand = b.add_body(POSE, 0.0, com=COM, label="hand", motion=motion, **options)
    bob = b.add_body([0.1, -0.1, -0.3], 0.7, (1e-3, 2e-3, 2.5e-3), com=(0, 0.01, 0), label="bob", spin=(0, 2, 1))
    at = turned(POSE[3:]).T @ np.array([0.0, -0.1, 0.05])
    ends = [b.point_of(hand, at), b.point_of(bob, (0, 0.2, 0.05))]
    b.add_constraints("ball", [ends], compliance=1e-3, damping=0.02, label="joint")
    return b if grad is None else b.finalize(dtype=real, requires_grad=grad)


def smooth(t, start, end):
    s = np.clip((t - start) / (end - start), 0, 1)
    return s * s * (3 - 2 * s)


def wanted(t):
    """Pose of the moved body."""
    swing = 0.5 * (1 - np.cos(2 * np.pi * 4.0 * t))
    place = POSE[:3] + smooth(t, 0.02, 0.12) * np.array(MOVE) + swing * np.array(SWING)
    theta = smooth(t, 0.0, 0.1) * np.array(TURN) + np.clip((t - 0.05) / 0.15, 0, 1) * np.array(MORE)
    return np.array([*place, *product(exp(theta), POSE[3:])])


@pytest.mark.parametrize(("real", "close"), [(sim.float64, 1e-14), (sim.float32, 3e-7)])
def test_a_moved_body_is_where_its_motions_say(real, close):
    model = hanging(real=real)
    made = sim.rollout(sim.SolverXPBD(model), model.state(), 25, DT, frame_every=1)
    center = [w[:3] + turned(w[3:]) @ COM for w in map(wanted, np.arange(26) * DT)]
    for k in range(25):
        np.testing.assert_allclose(made.body_q.numpy()[k, 0], wanted((k + 1) * DT), atol=close)
    final = made.final.body_qd.numpy()[0]
    np.testing.assert_allclose(final[:3], (center[25] - center[24]) / DT, atol=close / DT * 10)
    assert not final[3:].round(4).any(), "all turns have ended"
    assert model.body_inv_mass.numpy()[0] == 0.0


def test_what_turns_at_a_constant_rate_carries_others_round():
    """A bead on a body that turns at omega about a vertical axis goes round at omega r."""
    omega, r = 3.0, 0.4
    b = sim.ModelBuilder(gravity=(0, 0, 0))
    hand = b.add_body(mass=0.0, motion=[{"turn": (0, omega, 0), "end": 1.0, "ease": "linear"}])
    bead = b.add_body([r, 0, 0], 1.0, 0.01, velocity=(0, 0, -omega * r))
    ends = [b.point_of(hand, (r, 0, 0)), b.point_of(bead)]
    b.add_constraints("ball", [ends], compliance=1e-8, damping=1e-3, label="joint")
    model = b.finalize(dtype=sim.float64)
    final = sim.rollout(sim.SolverXPBD(model), model.state(), 500, 1 / 1000).final
    x, v = final.body_q.numpy()[1, :3], final.body_qd.numpy()[1, :3]
    angle = omega * 0.5
    np.testing.assert_allclose(x, [r * np.cos(angle), 0, -r * np.sin(angle)], atol=1e-5)
    np.testing.assert_allclose(v, [-omega * r * np.sin(angle), 0, -omega * r * np.cos(angle)], atol=5e-3)


def gradients(model, control=None, strategy=None, steps=21):
    solver, rng = sim.SolverXPBD(model), np.random.default_rng(SEED)
    weights = {name: rng.normal(size=getattr(model, name).numpy().shape) for name in ("body_q", "body_qd")}
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), steps, DT, control=control, strategy=strategy).final
    tape.backward(grads={getattr(end, n): sim.array(w, dtype=getattr(end, n).dtype) for n, w in weights.items()})
    found = {n: a.grad.numpy().copy() for n, a in model.materials.items()}
    tape.zero()
    return sum(float((w * getattr(end, n).numpy()).sum()) for n, w in weights.items()), found


def test_gradients_by_the_vectors_and_the_pose():
    model, rng = hanging(), np.random.default_rng(SEED)
    loss, found = gradients(model)
    for path in (*PATHS, "hand.position", "hand.rotation", "hand.com", "bob.mass"):
        start = model[path].numpy().copy()
        along = rng.normal(size=start.shape)

        def moved(h, path=path, start=start, along=along):
            model[path].assign(start + h * along)
            return gradients(model)[0]

        want = central(moved, 0.0, 1.0, 1e-5)
        model[path].assign(start)
        assert float((found[path] * along).sum()) == pytest.approx(want, rel=1e-6, abs=1e-7), path
    again, same = gradients(model, strategy=sim.Checkpointed(every=4))
    assert again == loss
    for path, values in found.items():
        np.testing.assert_array_equal(same[path], values, path)


def test_control_and_worlds():
    """Vectors of a control in place of the model's; those of each world."""
    model, other = hanging(), sim.zeros(4, dtype=sim.vec3d)
    other.assign(np.array([MOVE, TURN, SWING, MORE]) * 0.5)
    control = model.control()
    control.motion_vector = other
    final = sim.rollout(sim.SolverXPBD(model), model.state(), 25, DT, control=control).final
    worlds = hanging(grad=None).replicate(3).finalize(dtype=sim.float64)
    assert worlds["hand.motion.1.turn"].numpy().shape == (3, 3)
    for path in PATHS:
        worlds[path].assign(worlds[path].numpy() * np.array([[1.0], [0.5], [0.0]]))
    end = sim.rollout(sim.SolverXPBD(worlds), worlds.state(), 25, DT).final.body_q.numpy()
    hands, bobs = (worlds.bodies[name].bodies for name in ("hand", "bob"))
    np.testing.assert_allclose(end[hands[0]], wanted(25 * DT), atol=1e-14)
    np.testing.assert_allclose(end[hands[2]], POSE, atol=1e-15)
    np.testing.assert_array_equal(end[[hands[1], bobs[1]]], final.body_q.numpy())


def test_what_is_refused():
    b = sim.ModelBuilder()
    with pytest.raises(ModelError, match="motion of a body that is free"):
        b.add_body(mass=1.0, inertia=1.0, motion=MOTION)
    with pytest.raises(ModelError, match="one of 'move', 'swing', 'follow', 'turn'"):
        b.add_body(mass=0.0, motion=[{"spin": (0, 0, 1)}])
    with pytest.raises(ModelError, match="one of 'move', 'swing'"):
        b.add_attachment([b.add_particle((0, 0, 0))], motion=[{"turn": (0, 0, 1), "end": 1.0}])


def test_a_step_that_turns_by_half_a_turn_is_no_step():
    model = hanging([{"turn": (0, 0, 40.0), "end": 0.1, "ease": "linear"}])
    with pytest.raises(sim.SimError, match="hand"):
        sim.rollout(sim.SolverXPBD(model), model.state(), 5, DT)
