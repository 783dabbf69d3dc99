"""`joint_errors`: what is left of violations, by construction and by known moves; the advice and the warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sim

INERTIA = (0.1, 0.1, 0.1)


def turn(axis: int, angle: float) -> np.ndarray:
    out = np.array([0.0, 0, 0, np.cos(angle / 2)])
    out[axis] = np.sin(angle / 2)
    return out


def pair(kind: str, **given):
    """A body on the world, joined at its origin along x."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body((1, 0, 0), mass=1.0, inertia=INERTIA, com=(0.5, 0, 0))
    getattr(builder, f"add_joint_{kind}")(-1, body, (1, 0, 0), (0, 0, 0), label="it", **given)
    return builder.finalize(dtype=sim.float64)


def errors(model, place, quaternion=(0, 0, 0, 1)):
    state = model.state()
    state.body_q.assign(np.concatenate([place, quaternion])[None])
    return sim.joint_errors(sim.SolverXPBD(model), state)


@pytest.mark.parametrize(
    ("kind", "move", "turned", "length", "angle"),
    [
        ("ball", (0, 0.003, 0.004), turn(1, 0.3), 0.005, 0.0),
        ("revolute", (0, 0, 0), turn(0, 2.0), 0.0, 0.0),
        ("revolute", (0.001, 0, 0), turn(1, 0.002), 0.001, 0.002),
        ("prismatic", (0.7, 0, 0), (0, 0, 0, 1), 0.0, 0.0),
        ("prismatic", (0.7, -0.002, 0), turn(0, -0.003), 0.002, 0.003),
        ("fixed", (0, 0.003, 0.004), turn(2, 0.001), 0.005, 0.001),
    ],
)
def test_errors_are_what_a_joint_does_not_leave_free(kind, move, turned, length, angle):
    found = errors(pair(kind), np.array([1.0, 0, 0]) + move, turned)
    assert found.max_distance == pytest.approx(length, abs=1e-12)
    assert found.max_angle == pytest.approx(angle, abs=1e-12)
    assert found.rms_distance == pytest.approx(length, abs=1e-12)
    assert found.worst == "it"


def test_ropes_and_rods_are_wrong_by_their_length():
    model = pair("distance", min_distance=0.2, max_distance=0.5)
    assert [errors(model, (1 + x, 0, 0)).max_distance for x in (0.1, 0.3, 0.6)] == pytest.approx([0.1, 0.0, 0.1])
    model = pair("distance", min_distance=0.5, max_distance=0.5)
    assert [errors(model, (1 + x, 0, 0)).max_distance for x in (0.1, 0.5, 0.6)] == pytest.approx([0.4, 0.0, 0.1])


def test_frames_of_a_trajectory_count_all_and_soft_joints_not_at_all():
    model = pair("ball")
    frames = np.tile([1.0, 0, 0, 0, 0, 0, 1], (4, 1, 1))
    frames[2, 0, 1] = 0.002
    found = sim.joint_errors(sim.SolverXPBD(model), sim.array(frames, dtype=sim.transformd))
    assert (found.max_distance, found.rms_distance) == pytest.approx((0.002, 0.001)) and found.frame == 2
    assert sim.joint_errors(sim.SolverXPBD(model), frames) == found
    assert str(sim.joint_errors(sim.SolverXPBD(pair("ball", compliance=1e-6)), model.state())) == "no rigid joints"
    with pytest.raises(sim.SolverError, match="poses of 2 bodies"):
        sim.joint_errors(sim.SolverXPBD(model), sim.array(np.ones((4, 2, 7)), dtype=sim.transformd))


def heavy_chain(links: int):
    """Rods on ball joints, and a ball of 100 times their mass at the end."""
    builder = sim.ModelBuilder()
    bodies = [builder.add_body((k + 0.5, 0, 0), mass=0.1, inertia=(1e-3, 1e-2, 1e-2)) for k in range(links)]
    bodies.append(builder.add_body((links, 0, 0), mass=10.0, inertia=(1.0, 1.0, 1.0)))
    for k, (a, b) in enumerate(zip([-1, *bodies], bodies, strict=False)):
        builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (k, 0, 0)), label=f"ball{k}")
    return builder.finalize()


def test_a_rollout_whose_joints_come_apart_says_so_once_with_advice():
    model = heavy_chain(4)
    solver = sim.SolverXPBD(model)
    with pytest.warns(sim.NumericsWarning, match=r"most at 'ball\d'.*take shorter steps .* more iterations \(1 now\)"):
        sim.rollout(solver, model.state(), 30, 1 / 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.rollout(solver, model.state(), 30, 1 / 60)
        better = sim.SolverXPBD(model, iterations=200)
        final = sim.rollout(better, model.state(), 60, 1 / 120).final
    assert sim.joint_errors(better, final).max_distance < 0.01
