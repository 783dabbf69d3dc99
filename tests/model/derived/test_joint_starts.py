"""Bodies that joints place: `start_pos` and `start_vel` of hinges and sliders, and derivatives by them."""

import numpy as np
import pytest
from tools.scenes.problems import write_scene

import sim
from sim.model import ModelError
from sim.schema.errors import SceneError


def arm(q=(0.4, -0.7), v=(1.5, -2.0), worlds=1, **more) -> sim.Model:
    """Two links on hinges about z, the second at rest along the first."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    upper = builder.add_body((0.1, -0.2, 0), 0.5, (3e-4, 3e-4, 6e-4), (0.01, -0.14, 0), label="upper")
    lower = builder.add_body((0.1, -0.5, 0), 0.3, (2e-4, 3e-4, 4e-4), (0.02, -0.1, 0), label="lower", **more)
    hinges = ((-1, upper, (0.1, 0, 0), "s"), (upper, lower, (0, -0.3, 0), "e"))
    for (parent, child, at, label), pos, vel in zip(hinges, q, v, strict=True):
        builder.add_joint_revolute(
            parent, child, at, (0, 0, 0), (0, 0, 1), start_pos=pos, start_vel=vel, label=label
        )  # fmt: skip
    if worlds > 1:
        builder.replicate(worlds)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def coordinates(model: sim.Model) -> tuple[np.ndarray, np.ndarray]:
    """Of the joints, as they begin."""
    q, qd = (sim.zeros(n, sim.float64) for n in (model.joint_coord_count, model.joint_dof_count))
    sim.eval_ik(model, model.state(), q, qd)
    return q.numpy(), qd.numpy()


def test_joints_begin_as_told():
    """Whatever the bodies say of themselves; where a length changes, what hangs on it follows."""
    model = arm()
    q, qd = coordinates(model)
    np.testing.assert_allclose([*q, *qd], [0.4, -0.7, 1.5, -2.0], atol=1e-14)
    model["e.parent_at"].assign(np.array([[0.0, -0.5, 0.0]]))
    model["upper.position"].assign(np.array([[9.0, 9.0, 9.0]]))
    model.refresh()
    place = np.array([0.1 + 0.5 * np.sin(0.4), -0.5 * np.cos(0.4), 0.0])
    np.testing.assert_allclose(model.body_q.numpy()[1, :3], place, atol=1e-14)


def test_joints_below_begin_at_zero_and_those_above_stay():
    """A start at the shoulder turns the whole arm; one at the elbow the forearm alone."""
    shoulder, elbow = arm((0.4, None), (None, None)), arm((None, 0.4), (None, 3.0))
    np.testing.assert_allclose(coordinates(shoulder)[0], [0.4, 0.0], atol=1e-14)
    np.testing.assert_allclose(elbow.body_q.numpy()[0], [0.1, -0.2, 0, 0, 0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(elbow.body_q.numpy()[1, :3], [0.1, -0.5, 0], atol=1e-14)


def test_each_world_has_its_own():
    model = arm(worlds=2)
    model["s.start_pos"].assign(np.array([0.4, 1.0]))
    np.testing.assert_allclose(coordinates(model)[0], [0.4, 1.0, -0.7, -0.7], atol=1e-14)


PLACES = ("s.start_pos", "s.start_vel", "e.start_pos", "e.start_vel", "e.parent_at", "upper.com", "lower.com")


def test_gradients_by_starts_and_by_what_places():
    """Of poses after some steps, in a random direction of all of these values, against differences."""
    rng = np.random.default_rng(0)
    weights, way = rng.standard_normal((2, 7)), {}

    def final(model: sim.Model) -> sim.array:
        return sim.rollout(sim.SolverXPBD(model, direct=["s", "e"]), model.state(), 20, 1 / 500).final.body_q

    def along(step: float) -> float:
        model = arm()
        for path, direction in way.items():
            model[path].assign(model[path].numpy() + step * direction)
        return float((final(model).numpy() * weights).sum())

    model = arm()
    way = {path: rng.standard_normal(model[path].numpy().shape) * 0.1 for path in PLACES}
    with sim.Tape() as tape:
        out = final(model)
    tape.backward(grads={out: sim.array(weights, dtype=out.dtype)})
    found = sum(float((model[path].grad.numpy() * direction).sum()) for path, direction in way.items())
    assert found == pytest.approx((along(1e-5) - along(-1e-5)) / 2e-5, rel=1e-7)


def test_what_cannot_begin_so():
    with pytest.raises(ModelError, match="e: its child, body 1, is held"):
        arm(held=True)
    with pytest.raises(ModelError, match="start_pos is nan"):
        arm((np.nan, 0.0))
    builder = sim.ModelBuilder()
    body = builder.add_body((0, 0, 0), 1.0, (1, 1, 1))
    with pytest.raises(ModelError, match="start_pos is not done"):
        builder.add_joint_ball(-1, body, start_pos=0.3)


TIED = """\
format: 2
time: {duration: 0.1, fps: 10, substeps: 1}
objects:
  upper: {body: {mass: 1, inertia: [1, 1, 1]}}
  lower: {body: {mass: 1, inertia: [1, 1, 1]}, position: [0, -1, 0]}
  cord: {chain: {from: [0, -1, 0], to: [0, -2, 0], points: 3, mass: 0.1, material: {distance: {compliance: 0.01}}}}
joints:
  elbow: {revolute: {axis: [0, 0, 1]}, parent: upper, child: lower, at: [0, -0.5, 0]}
  shoulder: {revolute: {axis: [0, 0, 1]}, child: upper, at: [0, 0.5, 0], start: {position: 0.3}}
attachments:
  tie: {on: cord, where: {y: [-1, null]}, to: lower}
"""


def test_nothing_is_torn_from_what_a_joint_places(tmp_path):
    with pytest.raises(SceneError, match="attachments.tie.to.*the start of a joint places `lower`"):
        sim.load_scene(write_scene(tmp_path, TIED)).build()
    sim.load_scene(write_scene(tmp_path, TIED.replace(", start: {position: 0.3}", ""))).build()
