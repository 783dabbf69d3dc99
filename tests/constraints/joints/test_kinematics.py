"""`eval_fk` and `eval_ik`: round trips, velocities as derivatives of poses, gradients against differences, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import sim

INERTIA = (0.01, 0.02, 0.025)
FRAME = (0.1, -0.3, 0.2, 0.1, 0.2, -0.1, 0.95)


def tree(worlds: int = 1):
    """One joint of each kind: a chain of four on the world, a weld and a branch, a free body with a child."""
    builder = sim.ModelBuilder()
    bodies = [builder.add_body((k, 0, 0), mass=1.0, inertia=INERTIA, com=(0.1, 0.02 * k, 0)) for k in range(7)]
    a, b, c, d, e, f, g = bodies
    # not in the order of the tree: the child of `ball` is placed by a joint that comes later
    builder.add_joint_ball(b, c, FRAME, (-0.4, 0.1, 0), label="ball")
    builder.add_joint_revolute(-1, a, (0, 1, 0), FRAME, axis=(1, 2, -1), label="hinge")
    builder.add_joint_prismatic(a, b, (0.5, 0, 0), FRAME, axis=(0, 1, 1), label="slider")
    builder.add_joint_fixed(c, d, FRAME, (0, 0, 0.2), label="weld")
    builder.add_joint_revolute(b, e, FRAME, (0, 0.3, 0), axis=(0, 0, 1), label="branch")
    builder.add_joint_free(f, FRAME, (0.1, 0, 0), label="free")
    builder.add_joint_revolute(f, g, (0.4, 0, 0), FRAME, label="tail")
    builder.add_joint_distance(-1, g, max_distance=50.0, label="rope")
    return (builder if worlds == 1 else builder.replicate(worlds)).finalize(dtype=sim.float64, requires_grad=True)


def coordinates(model, seed: int):
    """Random ones, with quaternions of length 1."""
    random = np.random.default_rng(seed)
    q, qd = random.normal(size=model.joint_coord_count), random.normal(size=model.joint_dof_count)
    for label, skip in (("ball", 0), ("free", 3)):
        for start in model.joints[label].q_starts + skip:
            q[start : start + 4] /= np.linalg.norm(q[start : start + 4]) * np.sign(q[start + 3])
    return q, qd


def on_device(*values):
    return [sim.array(v, dtype=sim.float64, requires_grad=True) for v in values]


def placed(model, q, qd):
    state = model.state()
    sim.eval_fk(model, *on_device(q, qd), state)
    return state


@pytest.mark.parametrize("worlds", [1, 3])
def test_coordinates_come_back(worlds):
    model = tree(worlds)
    assert model.joint_coord_count == 15 * worlds
    assert model.joint_dof_count == 13 * worlds
    q, qd = coordinates(model, 3)
    state, back = placed(model, q, qd), on_device(np.zeros(q.size), np.zeros(qd.size))
    sim.eval_ik(model, state, *back)
    assert np.allclose(back[0].numpy(), q, atol=1e-12)
    assert np.allclose(back[1].numpy(), qd, atol=1e-12)
    # and the joints hold: nothing is left for a projection to do
    assert np.allclose(np.linalg.norm(state.body_q.numpy()[:, 3:], axis=1), 1.0)


def test_joints_of_worlds_stand_together():
    joints = tree(3).joints
    assert joints["slider"].parents.tolist() == [0, 1, 2]
    assert joints["slider"].children.tolist() == [3, 4, 5]
    assert joints["hinge"].parents.tolist() == [-1, -1, -1]
    assert joints["ball"].q_starts.tolist() == [0, 4, 8]
    assert joints["hinge"].q_starts.tolist() == [12, 13, 14]
    assert joints["hinge"].qd_starts.tolist() == [9, 10, 11]
    assert joints["hinge"].sets == ("revolute@wa",)


def moved(model, q, qd, h):
    """Coordinates after a short time."""
    out = q.copy()
    for joint in model.joints.values():
        i, j = joint.q_starts[0], joint.qd_starts[0]
        if joint.kind in ("revolute", "prismatic"):
            out[i] += h * qd[j]
        elif joint.kind == "ball":
            out[i : i + 4] = turned(q[i : i + 4], h * qd[j : j + 3])
    return out


def turned(q, v):
    angle = np.linalg.norm(v)
    u, w = v / angle * np.sin(angle / 2), np.cos(angle / 2)
    return np.concatenate([w * q[:3] + q[3] * u + np.cross(u, q[:3]), [w * q[3] - u @ q[:3]]])


def center_and_axes(model, state):
    com, poses = model.body_com.numpy(), state.body_q.numpy()
    u, w = poses[:, 3:6], poses[:, 6:]

    def rotate(x):
        return x * (2 * w * w - 1) + 2 * u * (u * x).sum(1, keepdims=True) + 2 * w * np.cross(u, x)

    return poses[:, :3] + rotate(com), [rotate(np.tile(row, (len(com), 1))) for row in np.eye(3)]


def test_velocities_are_how_fast_poses_change():
    model, h = tree(), 1e-5
    q, qd = coordinates(model, 4)
    fixed = [*range(*model.joints["free"].qd_starts, model.joints["free"].qd_starts[0] + 6)]
    qd[fixed] = 0.0
    state = placed(model, q, qd)
    ends = [center_and_axes(model, placed(model, moved(model, q, qd, s * h), qd)) for s in (1, -1)]
    v, omega = np.split(state.body_qd.numpy(), 2, axis=1)
    assert np.allclose(v, (ends[0][0] - ends[1][0]) / (2 * h), atol=1e-8)
    for k, axis in enumerate(center_and_axes(model, state)[1]):
        assert np.allclose(np.cross(omega, axis), (ends[0][1][k] - ends[1][1][k]) / (2 * h), atol=1e-8)


def test_a_free_joint_moves_its_body_rigidly():
    model = tree()
    q, qd = coordinates(model, 6)
    i, j = int(model.joints["free"].q_starts[0]), int(model.joints["free"].qd_starts[0])
    state = placed(model, q, qd)
    v, omega = np.split(state.body_qd.numpy()[5], 2)
    turn = np.array(FRAME[3:]) / np.linalg.norm(FRAME[3:])
    u, w = turn[:3], turn[3]
    for given, found in ((qd[j : j + 3], v), (qd[j + 3 : j + 6], omega)):
        assert np.allclose(given * (2 * w * w - 1) + 2 * u * (u @ given) + 2 * w * np.cross(u, given), found)
    q[i] += 0.25
    assert np.linalg.norm(placed(model, q, qd).body_q.numpy()[5, :3] - state.body_q.numpy()[5, :3]) == pytest.approx(
        0.25
    )


@sim.kernel
def weigh(poses: sim.array[sim.transformd], speeds: sim.array[sim.spatial_vectord], out: sim.array[sim.float64]):
    i = sim.tid()
    x, q, k = poses[i].p, poses[i].q, sim.float64(i + 1)
    v = speeds[i]
    s = k * x[0] + 0.3 * x[1] * x[2] + q[0] * q[1] + 0.4 * k * q[2] * q[3] + v[0] * v[4] + k * v[2] + 0.1 * v[5] * v[5]
    sim.atomic_add(out, 0, s)


def test_gradients_pass_both_ways():
    model, step = tree(), 1e-6
    q, qd = coordinates(model, 5)

    def value(q, qd, at=0.0):
        inputs, out = on_device(q, qd), sim.zeros(1, sim.float64, requires_grad=True)
        model["hinge.child_at"].assign(np.array([FRAME[:3]]) + at)
        with sim.Tape() as tape:
            state, back = model.state(), on_device(np.zeros(q.size), np.zeros(qd.size))
            sim.eval_fk(model, *inputs, state)
            sim.launch(weigh, model.body_count, inputs=[state.body_q, state.body_qd], outputs=[out])
            sim.eval_ik(model, state, *back)
            sim.eval_fk(model, *back, state)  # over what is there
            sim.launch(weigh, model.body_count, inputs=[state.body_q, state.body_qd], outputs=[out])
        return out, tape, inputs

    out, tape, inputs = value(q, qd)
    tape.backward(out)
    gradient, by_place = [a.grad.numpy() for a in inputs], model["hinge.child_at"].grad.numpy().copy()
    random = np.random.default_rng(1)
    for k in range(3):
        directions = [random.normal(size=a.size) if k == n else 0.0 * a for n, a in enumerate((q, qd))]
        at = random.normal(size=3) if k == 2 else np.zeros(3)
        ends = [
            value(q + s * step * directions[0], qd + s * step * directions[1], s * step * at)[0].numpy()[0]
            for s in (1, -1)
        ]
        slope = sum((g * d).sum() for g, d in zip(gradient, directions, strict=True)) + (by_place * at).sum()
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7)


def test_loops_and_cycles_are_refused_by_name():
    builder = sim.ModelBuilder()
    a, b, c = (builder.add_body(mass=1.0, inertia=INERTIA) for _ in range(3))
    builder.add_joint_revolute(-1, a, label="first")
    builder.add_joint_ball(a, b, label="second")
    builder.add_joint_ball(-1, b, label="closing")
    model = builder.finalize(dtype=sim.float64)
    q, qd = (sim.zeros(n, sim.float64) for n in (model.joint_coord_count, model.joint_dof_count))
    with pytest.raises(sim.ModelError, match="'second' and 'closing' both place body 1"):
        sim.eval_fk(model, q, qd, model.state())
    builder = sim.ModelBuilder()
    a, b, c = (builder.add_body(mass=1.0, inertia=INERTIA) for _ in range(3))
    for k, ends in enumerate(((a, b), (b, c), (c, a))):
        builder.add_joint_revolute(*ends, axis=np.eye(3)[k], label=f"j{k}")
    model = builder.finalize(dtype=sim.float64)
    with pytest.raises(sim.ModelError, match="is in a cycle"):
        sim.eval_fk(model, *(sim.zeros(3, sim.float64) for _ in range(2)), model.state())
    with pytest.raises(sim.ModelError, match="joint_q is float32 of shape"):
        sim.eval_ik(model, model.state(), *(sim.zeros(3, sim.float32) for _ in range(2)))
