"""`add_joint_*`: rows of joints, their material values, closed forms, gradients against differences, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import sim

SPIN = (0.05, 0.05, 0.05)


def wheel(inertia: float = 0.05, spin: float = 0.0, **joint):
    """A body that turns about its centre of mass, on a hinge of the world."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body(mass=1.0, inertia=(inertia,) * 3, spin=(0, 0, spin), label="wheel")
    builder.add_joint_revolute(-1, body, axis=(0, 0, 1), label="hinge", **joint)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def angle_of(model, frames: sim.array) -> float:
    q = frames.numpy().reshape(-1, 7)[-1]
    return float(2 * np.arctan2(q[5], q[6]))


@sim.kernel
def read_angle(frames: sim.array2d[sim.transformd], out: sim.array[sim.float64]):
    q = frames[0, 0].q
    out[0] = 2.0 * sim.atan2(q[2], q[3])


def final_angle(model, seconds: float, dt: float, paths=()):
    """Angle about z of body 0 at the end, and its derivatives by material values."""
    steps = round(seconds / dt)
    out = sim.zeros(1, sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        trajectory = sim.rollout(sim.SolverXPBD(model), model.state(), steps, dt)
        sim.launch(read_angle, 1, inputs=[trajectory.body_q], outputs=[out])
    tape.backward(out)
    return float(out.numpy()[0]), {path: model[path].grad.numpy().copy() for path in paths}


@pytest.mark.parametrize(("spin", "sign"), [(3.0, -1.0), (-3.0, 1.0), (0.0, 0.0)])
def test_friction_that_is_given_as_0_has_a_gradient(spin, sign):
    # h^2 (1 + ... + 4) tau / I after 4 steps, against the motion; what is at rest stays at rest
    angle, by = final_angle(wheel(0.05, spin, friction=0.0), 0.04, 0.01, ("hinge.friction",))
    assert by["hinge.friction"][0] == pytest.approx(sign * 10 * 1e-4 / 0.05, rel=1e-9, abs=0.0)
    assert angle == pytest.approx(0.04 * spin)


def test_a_damping_that_is_given_as_0_has_a_gradient():
    # viscous friction slows each step down by h kd / I of its speed
    angle, by = final_angle(wheel(0.05, 1.0, target_kd=0.0), 0.04, 0.01, ("hinge.target_kd",))
    assert by["hinge.target_kd"][0] == pytest.approx(-10 * 1e-4 / 0.05, rel=1e-9)
    assert list(wheel(0.05).constraint_sets) == ["revolute@wa"]


def test_a_drive_pulls_with_its_effort_limit_at_most():
    # at its limit: a constant torque, angle = tau t^2 / (2 I)
    model = wheel(0.05, target_ke=1e4, target_pos=3.0, effort_limit=0.2)
    angle, by = final_angle(model, 0.5, 1 / 960, ("hinge.effort_limit", "hinge.target_ke"))
    assert angle == pytest.approx(0.2 * 0.25 / 0.1, rel=5e-3)
    assert by["hinge.effort_limit"][0] == pytest.approx(angle / 0.2, rel=1e-9)
    assert by["hinge.target_ke"][0] == 0.0


def test_a_viscous_drive_brings_a_wheel_to_its_target_velocity():
    # I dw/dt = kd (v - w): w = v (1 - exp(-kd t / I)), angle = v (t - I/kd (1 - exp(-kd t/I)))
    model = wheel(0.05, target_kd=0.25, target_vel=2.0)
    angle, by = final_angle(model, 0.6, 1 / 960, ("hinge.target_vel",))
    exact = 2.0 * (0.6 - 0.2 * (1 - np.exp(-3.0)))
    assert angle == pytest.approx(exact, rel=3e-3)
    assert by["hinge.target_vel"][0] == pytest.approx(angle / 2.0, rel=1e-9)


def test_a_drive_without_limits_goes_round_the_shorter_way():
    model = wheel(0.05, target_ke=5.0, target_kd=1.0, target_pos=2 * np.pi + 0.5)
    angle, _ = final_angle(model, 2.0, 1 / 240)
    assert angle == pytest.approx(0.5, abs=1e-3)


def test_limits_of_more_than_half_a_turn_stop_a_hinge_on_their_side():
    model = wheel(0.05, 8.0, limit_lower=-0.5, limit_upper=4.0, target_kd=0.01)
    angle, by = final_angle(model, 0.8, 1 / 960, ("hinge.limit_upper", "hinge.limit_lower"))
    assert angle % (2 * np.pi) == pytest.approx(4.0, abs=2e-3)
    assert by["hinge.limit_upper"][0] == pytest.approx(1.0, abs=1e-6)
    assert by["hinge.limit_lower"][0] == 0.0


def arm(worlds: int = 1, over_floor: bool = False):
    """A hinge, a slider with a drive, a ball joint and a rod, soft and hard, at odd places; not in equilibrium.

    over_floor: with a ball on its end, far above a rough floor.
    """
    builder = sim.ModelBuilder()
    poses = (0.3, 0.1, 0), (0.9, 0.2, 0.1), (1.3, -0.1, 0.2)
    bodies = [
        builder.add_body(p, mass=0.5 + 0.2 * k, inertia=(0.01, 0.02, 0.025), spin=(0.3, -0.2, 1.0), label=f"body{k}")
        for k, p in enumerate(poses)
    ]
    turn = (0.1, 0.2, -0.1, 0.95)
    builder.add_joint_revolute(
        -1, bodies[0], *builder.joint_frames(-1, bodies[0], (0, 0, 0), turn), axis=(1, 2, 2), label="hinge",
        target_ke=3.0, target_kd=0.2, target_pos=0.3, target_vel=0.1, effort_limit=9.0, friction=0.05,
    )  # fmt: skip
    builder.add_joint_prismatic(
        bodies[0], bodies[1], *builder.joint_frames(*bodies[:2], (0.6, 0.1, 0)), axis=(1, 1, 0), label="slider",
        target_ke=80.0, target_kd=2.0, limit_lower=-0.02, limit_ke=900.0, limit_kd=3.0, compliance=1e-5, damping=0.01,
    )  # fmt: skip
    builder.add_joint_ball(
        bodies[1], bodies[2], *builder.joint_frames(*bodies[1:], (1.1, 0.1, 0.1)), compliance=1e-4, label="ball"
    )
    builder.add_joint_distance(-1, bodies[2], (1.3, 0.8, 0.2), None, min_distance=0.9, max_distance=0.9, label="rod")
    if over_floor:
        rough = sim.ModelBuilder.ShapeConfig(mu=0.5, density=0)
        builder.add_ground_plane(-5.0, cfg=rough)
        builder.add_shape_sphere(bodies[2], None, 0.05, cfg=rough)
    return (builder if worlds == 1 else builder.replicate(worlds)).finalize(dtype=sim.float64, requires_grad=True)


@sim.kernel
def weigh(frames: sim.array2d[sim.transformd], out: sim.array[sim.float64]):
    i, j = sim.tid()
    x, q = frames[i, j].p, frames[i, j].q
    k = sim.float64(j + 1)
    sim.atomic_add(out, 0, k * x[0] + 0.3 * x[1] - k * k * x[2] + q[0] * q[1] + 0.4 * k * q[2] * q[3])


def weighed(solver) -> sim.array:
    model = solver.model
    out = sim.zeros(1, sim.float64, requires_grad=True)
    trajectory = sim.rollout(solver, model.state(), 30, 1 / 300, frame_every=10)
    sim.launch(weigh, trajectory.body_q.shape, inputs=[trajectory.body_q], outputs=[out])
    return out


@pytest.mark.parametrize("options", [{}, {"iterations": 2}, {"direct": ("hinge", "slider", "ball", "rod")}], ids=str)
@pytest.mark.parametrize("over_floor", [False, True], ids=["alone", "over a floor"])
def test_dry_friction_in_a_chain_is_against_the_motion(options, over_floor):
    """It went by how a hinge would turn before joints hold it, and drove this one, with one sweep most of the time."""
    model = arm(over_floor=over_floor)
    solver, states = sim.SolverXPBD(model, **options), [model.state(), model.state()]
    axis = np.array(sim.quat_rotate(sim.normalize(sim.quatd(0.1, 0.2, -0.1, 0.95)), sim.vec3d(1, 2, 2))) / 3
    rates, torques = [], []
    for k in range(120):
        solver.step(states[k % 2], states[1 - k % 2], None, None, 1 / 1200)
        rates.append(states[1 - k % 2].body_qd.numpy()[0, 3:] @ axis)
        torques.append(solver.multipliers("friction_angle@wa").numpy().item() * 1200**2)
    rates, torques = np.array(rates)[1:], np.array(torques)[1:]
    slides = (np.abs(rates) > 0.01) & (rates * [rates[0], *rates[:-1]] > 0.0)  # else it turns round
    assert slides.sum() > 90 and (rates[slides] > 0).any() and (rates[slides] < 0).any()
    np.testing.assert_allclose(torques[slides], -0.05 * np.sign(rates[slides]), rtol=1e-6)


@pytest.mark.slow
def test_gradients_by_all_values_of_joints_agree_with_differences():
    model = arm()
    solver = sim.SolverXPBD(model)
    with sim.Tape() as tape:
        out = weighed(solver)
    tape.backward(out)
    random, step = np.random.default_rng(5), 1e-5
    for path in [p for p in model.materials if p.split(".")[0] in ("hinge", "slider", "ball", "rod")]:
        if path in ("hinge.compliance", "rod.compliance"):
            continue  # hard: of one-sided differences
        direction = random.normal(size=model[path].numpy().shape)
        if path.endswith(("compliance", "damping")):
            direction *= model[path].numpy()
        given, ends = model[path].numpy().copy(), []
        for s in (1, -1):
            model[path].assign(given + s * step * direction)
            ends.append(weighed(solver).numpy()[0])
        model[path].assign(given)
        slope = float((model[path].grad.numpy() * direction).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-5, abs=2e-8), path


@pytest.mark.slow
def test_worlds_of_joints_are_the_same_as_one():
    one, three = arm(), arm(worlds=3)
    frames = [
        sim.rollout(sim.SolverXPBD(m, iterations=2), m.state(), 30, 1 / 300).body_q.numpy()[0] for m in (one, three)
    ]
    assert np.array_equal(np.repeat(frames[0], 3, axis=0), frames[1])


# ------------------------------------------------------------------------------------------ refusals
def two():
    builder = sim.ModelBuilder()
    return builder, builder.add_body(mass=1.0, inertia=SPIN), builder.add_body((1, 0, 0), mass=1.0, inertia=SPIN)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"axis": (0, 0, 0)}, "axis is"),
        ({"armature": 0.1}, "armature = 0.1 is not done"),
        ({"velocity_limit": 3.0}, "velocity_limit = 3.0 is not done"),
        ({"target_kp": 1.0}, "no option 'target_kp' .did you mean"),
        ({"target_ke": -1.0}, "target_ke = -1 is negative"),
        ({"limit_lower": 1.0, "limit_upper": 0.5}, "limit_lower = 1 is above"),
        ({"limit_lower": -4.0, "limit_upper": 4.0}, "a turn apart"),
        ({"limit_lower": -4.0}, "half a turn or more"),
        ({"limit_kd": 4.0}, "limit_ke"),
        ({"damping": 0.1}, "rows without compliance"),
        ({"effort_limit": np.inf}, "finite"),
        ({"parent_xform": (0, 0, 0, 0, 0, 0, 0)}, "quaternion of length 0"),
    ],
)
def test_what_a_hinge_cannot_be_is_refused_by_name(given, said):
    builder, a, b = two()
    with pytest.raises(sim.ModelError, match=said):
        builder.add_joint_revolute(a, b, **{"parent_xform": (1, 0, 0), **given})
    assert builder.joint_count == 0
    builder.add_joint_revolute(a, b, (1, 0, 0), label="revolute")  # nothing was left behind


def test_bodies_that_a_joint_cannot_have():
    builder, a, b = two()
    with pytest.raises(sim.ModelError, match="body 1 is its own parent"):
        builder.add_joint_ball(b, b)
    with pytest.raises(sim.ModelError, match="there is no body 7"):
        builder.add_joint_ball(a, 7)
    with pytest.raises(sim.ModelError, match="the child is the world"):
        builder.add_joint_ball(a, -1)
    with pytest.raises(sim.ModelError, match="add_joint_ball: friction is not done"):
        builder.add_joint_ball(a, b, (1, 0, 0), friction=0.1)
    with pytest.raises(sim.ModelError, match="no frames are given"):
        builder.add_joint_fixed(a, b)
    with pytest.raises(sim.ModelError, match="leave nothing to hold"):
        builder.add_joint_distance(a, b, max_distance=-1.0)


def test_rigid_joints_that_hold_the_same_are_refused_unless_one_gives_way():
    builder, a, b = two()
    builder.add_joint_revolute(a, b, *builder.joint_frames(a, b, (0.5, 0, 0)), axis=(0, 1, 0), label="upper")
    lower = builder.joint_frames(a, b, (0.5, 0.3, 0))
    with pytest.raises(sim.ModelError, match=r"'upper' and 'lower' are rigid .*: 5 of their 10 rows"):
        builder.add_joint_revolute(a, b, *lower, axis=(0, 1, 0), label="lower")
    with pytest.raises(sim.ModelError, match=r"1 of their 8 rows|3 of their 8 rows"):
        builder.add_joint_ball(b, a, *lower[::-1], label="lower")
    builder.add_joint_ball(a, b, *lower, compliance=1e-8, label="lower")
    builder.add_joint_ball(-1, b, *builder.joint_frames(-1, b, (1.5, 0, 0)))


def test_two_ball_joints_make_a_hinge_of_one_row_too_many():
    builder, a, b = two()
    builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (0.5, 0, 0)), label="one")
    with pytest.raises(sim.ModelError, match="1 of their 6 rows"):
        builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (0.5, 1, 0)), label="other")


def test_frames_of_a_place_in_the_world_are_those_of_both_bodies():
    builder, a, b = two()
    turned = builder.add_body((2, 0, 0, 0, 0, np.sin(0.3), np.cos(0.3)), mass=1.0, inertia=SPIN)
    parent, child = builder.joint_frames(b, turned, (2, 1, 0))
    assert np.allclose(parent, [1, 1, 0, 0, 0, 0, 1])
    assert np.allclose(child, [np.sin(0.6), np.cos(0.6), 0, 0, 0, -np.sin(0.3), np.cos(0.3)])
    assert np.allclose(builder.joint_frames(-1, a, (2, 1, 0))[0], [2, 1, 0, 0, 0, 0, 1])
