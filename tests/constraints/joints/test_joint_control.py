"""Targets and forces of joints from a `Control`, and targets that change over time."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.solvers.joints import JointDrives


def slider(worlds: int = 1, **joint):
    """A body of 2 kg along x, without gravity."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body(mass=2.0, inertia=(0.1,) * 3, label="cart")
    builder.add_joint_prismatic(-1, body, label="rail", **joint)
    return (builder if worlds == 1 else builder.replicate(worlds)).finalize(dtype=sim.float64, requires_grad=True)


@sim.kernel
def read_x(frames: sim.array2d[sim.transformd], out: sim.array[sim.float64]):
    f = sim.tid()
    sim.atomic_add(out, 0, sim.float64(f + 1) * frames[f, 0].p[0])


def run(model, control=None, steps=60, dt=1 / 300, strategy=None):
    out = sim.zeros(1, sim.float64, requires_grad=True)
    trajectory = sim.rollout(
        sim.SolverXPBD(model), model.state(), steps, dt, control, frame_every=steps // 3, strategy=strategy
    )
    sim.launch(read_x, 3, inputs=[trajectory.body_q], outputs=[out])
    return trajectory, out


DRIVE = {"target_ke": 40.0, "target_kd": 3.0}


def test_targets_of_a_control_stand_in_place_of_the_models():
    one, two = slider(target_pos=0.3, target_vel=0.2, **DRIVE), slider(**DRIVE)
    control = two.control()
    control.joint_target_pos = sim.array([0.3], dtype=sim.float64, requires_grad=True)
    control.joint_target_vel = sim.array([0.2], dtype=sim.float64, requires_grad=True)
    results = []
    for model, given in ((one, None), (two, control)):
        with sim.Tape() as tape:
            trajectory, out = run(model, given)
        tape.backward(out)
        results.append(trajectory.body_q.numpy())
    assert np.array_equal(*results)
    assert np.array_equal(one["rail.target_pos"].grad.numpy(), control.joint_target_pos.grad.numpy())
    assert np.array_equal(one["rail.target_vel"].grad.numpy(), control.joint_target_vel.grad.numpy())
    assert one["rail.target_pos"].grad.numpy()[0] != 0.0


def test_a_force_along_a_slider_accelerates_it():
    model = slider()
    control = model.control()
    control.joint_f = sim.array([5.0], dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        trajectory, out = run(model, control)
    tape.backward(out)
    x, n, dt = trajectory.body_q.numpy()[:, 0, 0], np.array([20, 40, 60]), 1 / 300
    assert np.allclose(x, 2.5 * dt * dt * n * (n + 1) / 2, rtol=1e-12)  # symplectic Euler, exactly
    assert control.joint_f.grad.numpy()[0] == pytest.approx((x * [1, 2, 3]).sum() / 5.0)


def chain():
    """A hinge, a ball joint, a slider and a free joint between bodies that fly freely."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    bodies = [
        builder.add_body((0.6 * k, 0.1 * k * k, 0), mass=1.0 + k, inertia=(0.1, 0.2, 0.25), com=(0.05, 0, 0.1 * k))
        for k in range(4)
    ]
    places = (0.3, 0, 0), (0.9, 0.2, 0.1), (1.5, 0.5, 0)
    adds = builder.add_joint_revolute, builder.add_joint_ball, builder.add_joint_prismatic
    for k, (add, place) in enumerate(zip(adds, places, strict=True)):
        axis = {} if k == 1 else {"axis": (1, 2 * k, 3)}
        add(
            bodies[k],
            bodies[k + 1],
            *builder.joint_frames(bodies[k], bodies[k + 1], place, (0.1, 0.2, 0.3, 0.9)),
            **axis,
        )
    builder.add_joint_free(bodies[0], parent=bodies[3], label="apart")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def test_forces_of_joints_act_on_both_bodies():
    model = chain()
    control, state = model.control(), model.state()
    force = np.random.default_rng(2).normal(size=model.joint_dof_count)
    control.joint_f = sim.array(force, dtype=sim.float64)
    forces, torques = np.split(JointDrives(model).push(state, control, 0.01).numpy(), 2, axis=1)
    assert np.abs(forces).max() > 0.1
    assert np.allclose(forces.sum(axis=0), 0.0, atol=1e-14)
    # the bodies are not turned in the beginning
    centers = state.body_q.numpy()[:, :3] + model.body_com.numpy()
    assert np.allclose((torques + np.cross(centers, forces)).sum(axis=0), 0.0, atol=1e-14)
    assert JointDrives(model).push(state, None, 0.01) is state.body_f


@sim.kernel
def weigh(forces: sim.array[sim.spatial_vectord], out: sim.array[sim.float64]):
    i = sim.tid()
    f = forces[i]
    sim.atomic_add(out, 0, f[0] * f[3] + sim.float64(i + 1) * f[1] + f[2] * f[4] + 0.3 * f[5] * f[5])


def test_gradients_by_forces_and_places_of_joints_agree_with_differences():
    model, step = chain(), 1e-6
    random = np.random.default_rng(2)
    force, poses = random.normal(size=model.joint_dof_count), model.body_q.numpy()

    def value(force, moved):
        control, state = model.control(), model.state()
        control.joint_f = sim.array(force, dtype=sim.float64, requires_grad=True)
        state.body_q.assign(poses + moved)
        state.body_f.fill_(0.5)
        out = sim.zeros(1, sim.float64, requires_grad=True)
        with sim.Tape() as tape:
            forces = JointDrives(model).push(state, control, 0.01)
            sim.launch(weigh, model.body_count, inputs=[forces], outputs=[out])
        return (control.joint_f, state.body_q), tape, out

    inputs, tape, out = value(force, 0.0)
    tape.backward(out)
    for k, a in enumerate(inputs):
        direction = random.normal(size=a.numpy().shape)
        shift = [(direction, 0.0), (0.0, direction)][k]
        ends = [value(force + s * step * shift[0], s * step * shift[1])[2].numpy()[0] for s in (1, -1)]
        assert (a.grad.numpy() * direction).sum() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7)


KEYS = {"times": [0.051, 0.101, 0.179], "values": [0.1, 0.4, 0.2]}


def eased(t, ease):
    """Value and rate of the keys at a time, by the definition."""
    times, values = KEYS["times"], KEYS["values"]
    if not times[0] <= t < times[-1]:
        return values[0 if t < times[0] else -1], 0.0
    k = np.searchsorted(times, t, side="right") - 1
    length, further = times[k + 1] - times[k], values[k + 1] - values[k]
    s = (t - times[k]) / length
    if ease == "linear":
        return values[k] + s * further, further / length
    return values[k] + (3 * s * s - 2 * s**3) * further, 6 * s * (1 - s) * further / length


@pytest.mark.parametrize("ease", ["linear", "smooth"])
def test_a_target_follows_its_keys(ease):
    # the step of the cart alone: m dv = h (ke (target(t + h) - x') + kd (rate(t + h) - v')), x' = x + h v'
    model = slider(target_keys={**KEYS, "ease": ease}, target_pos=0.05, **DRIVE)
    trajectory, _ = run(model)
    x, v, h = 0.0, 0.0, 1 / 300
    for n in range(60):
        aim, rate = eased((n + 1) * h + 1e-12, ease)
        v = (2.0 * v + h * (40.0 * (0.05 + aim - x) + 3.0 * rate)) / (2.0 + h * (3.0 + 40.0 * h))
        x += h * v
        if n % 20 == 19:
            assert trajectory.body_q.numpy()[n // 20, 0, 0] == pytest.approx(x, rel=1e-9)


def test_gradients_by_keys_are_those_of_a_linear_motion_whatever_the_strategy_and_the_worlds():
    found = []
    for worlds, strategy in ((1, sim.StoreAll()), (1, sim.Checkpointed(every=7)), (2, None)):
        model = slider(worlds, target_keys=KEYS, **DRIVE)
        with sim.Tape() as tape:
            _, out = run(model, strategy=strategy)
        tape.backward(out)
        gradient = model["rail.target_keys"].grad.numpy()
        assert gradient.shape == (3 * worlds,)
        assert gradient[3:].tolist() == [0.0] * (3 * worlds - 3)  # only the first world is read
        assert gradient[:3] @ KEYS["values"] == pytest.approx(out.numpy()[0], rel=1e-12)
        found.append(gradient[:3])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"times": [0.0, 1.0]}, "Give at least two"),
        ({"times": [0.0, 1.0, 1.0], "values": [0, 1, 2]}, "do not increase"),
        ({**KEYS, "ease": "smoth"}, "did you mean 'smooth'"),
        ({**KEYS, "time": 3}, "target_keys: key 'time'"),
    ],
)
def test_keys_that_are_none(keys, said):
    with pytest.raises(sim.ModelError, match=said):
        slider(target_keys=keys)
