"""Drives of joints that are solved directly: an arm is as stiff as they are, whatever the steps."""

import numpy as np
import pytest

import sim

G, LINK = 9.81, 0.4


def arm(ke, **joint):
    """Three links that begin level."""
    builder, last = sim.ModelBuilder(gravity=(0, -G, 0)), -1
    for k in range(3):
        body = builder.add_body((LINK * (k + 0.5), 0, 0), 1.0, (1e-3, 0.0133, 0.0133), label=f"link{k}")
        frames = builder.joint_frames(last, body, (LINK * k, 0, 0))
        drive = {"target_ke": ke, "target_kd": 0.05 * ke, **joint}
        last = builder.add_joint_revolute(last, body, *frames, axis=(0, 0, 1), label=f"hinge{k}", **drive) and body
    return builder.finalize(dtype=sim.float64)


def sag(ke):
    """Of the middle of the last link: each hinge bears the moment of the links behind it, by Newton's method."""
    theta = np.zeros(3)
    for _ in range(20):
        bent = ke * np.diff(theta, prepend=0.0)
        moment = G * LINK * np.array([2.5, 1.5, 0.5]) * np.cos(theta)  # of the weights behind, by link
        force = bent - np.append(bent[1:], 0.0) + moment
        K = ke * (2 * np.eye(3) - np.eye(3, k=1) - np.eye(3, k=-1))
        K[-1, -1] = ke
        theta -= np.linalg.solve(K - np.diag(G * LINK * np.array([2.5, 1.5, 0.5]) * np.sin(theta)), force)
    return LINK * (np.sin(theta[:2]).sum() + 0.5 * np.sin(theta[2]))


@pytest.mark.parametrize(("ke", "rate"), [(200.0, 60), (200.0, 480), (2e4, 60)])
def test_an_arm_sags_by_the_stiffness_of_its_drives(ke, rate):
    model = arm(ke)
    solver = sim.SolverXPBD(model, direct=list(model.joints))
    end = sim.rollout(solver, model.state(), 2 * rate, 1 / rate).final
    assert end.body_q.numpy()[2, 1] == pytest.approx(sag(ke), rel=5e-3)  # with sweeps, -0.5


@pytest.mark.slow
def test_drives_with_a_largest_effort_stay_with_the_sweeps():
    """Half the torque that would hold them: they fall."""
    model = arm(2e4, effort_limit=5.0)
    solver = sim.SolverXPBD(model, direct=list(model.joints))
    assert sim.rollout(solver, model.state(), 30, 1 / 60).final.body_q.numpy()[2, 1] < -0.2
