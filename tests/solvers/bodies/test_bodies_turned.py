"""The same system turned as a whole, and with joints whose frames are turned against it: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim

DT, STEPS = 1 / 240, 12
SOFT = {"compliance": 1e-4, "damping": 0.01}
ROTATIONS = [Rotation.identity(), Rotation.from_rotvec([0.7, -1.1, 0.4]), Rotation.from_rotvec([-2.0, 0.3, 1.5])]


def soft_loop(turn: Rotation, gauge: Rotation, direct: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Three bodies and a particle that joints with a compliance hold in a ring: places at the end, turned back, and how
    the sum of x and 2 y there depends on compliances and damping.

    gauge: by how much the frame of the weld is turned in both of its bodies.
    """
    builder = sim.ModelBuilder(gravity=turn.apply([0, -9.81, 0]))
    rng = np.random.default_rng(20261201)
    places = np.array([[0, 0, 0], [0.3, 0.1, 0], [0.5, -0.2, 0.1]])
    for k, place in enumerate(places):
        pose = turn * Rotation.random(random_state=k)
        builder.add_body([*turn.apply(place), *pose.as_quat()], 0.5 + k, (0.01, 0.02, 0.025), label=f"b{k}",
                         velocity=turn.apply(rng.normal(size=3)), spin=turn.apply(4 * rng.normal(size=3)))  # fmt: skip
    for k in range(3):
        parent, child = k, (k + 1) % 3
        at = turn.apply(0.5 * (places[parent] + places[child]) + 0.1 * rng.normal(size=3))
        if k == 1:
            frames = builder.joint_frames(parent, child, at, (turn * gauge).as_quat())
            builder.add_joint_fixed(parent, child, *frames, label="weld", **SOFT)
        else:
            builder.add_joint_ball(parent, child, *builder.joint_frames(parent, child, at), label=f"ball{k}", **SOFT)
    bead = builder.add_particle(turn.apply([0.2, 0.3, 0.1]), mass=0.2)
    builder.add_constraints("ball", [[bead, builder.point_of(0, (0.1, 0.2, 0))]], label="tie", **SOFT)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations=2, direct=["ball0", "weld", "ball2"] if direct else ())
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), STEPS, DT).final
    weight = np.zeros((3, 7))
    weight[:, :3] = turn.apply([1.0, 2.0, 0.0])
    tape.backward(grads={end.body_q: sim.array(weight, dtype=sim.transformd)})
    paths = "ball0.compliance", "ball0.damping", "weld.compliance", "tie.compliance"
    found = {path: model[path].grad.numpy().copy() for path in paths}
    seen = np.concatenate([end.body_q.numpy()[:, :3], end.particle_q.numpy()])
    return turn.inv().apply(seen), found


@pytest.mark.parametrize("direct", [False, True])
def test_what_joints_that_give_way_hold_moves_alike_in_all_axes(direct: bool) -> None:
    """Rows of a ball joint are along the axes of the world, those of a weld along those of its frame."""
    places, by = soft_loop(ROTATIONS[0], ROTATIONS[0], direct)
    for turn, gauge in ((ROTATIONS[1], ROTATIONS[0]), (ROTATIONS[2], ROTATIONS[1]), (ROTATIONS[0], ROTATIONS[2])):
        turned, found = soft_loop(turn, gauge, direct)
        np.testing.assert_allclose(turned, places, atol=1e-12)
        for path, want in by.items():
            np.testing.assert_allclose(found[path], want, rtol=1e-8, err_msg=path)
