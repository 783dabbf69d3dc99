"""Contacts with spheres and planes: C >= 0, one-sided, no friction yet."""

import numpy as np
import pytest
from tools.physics.models import G
from tools.physics.steps import positions, take_steps

import sim


def dropped(
    compliance: float = 0.0, thickness: float = 0.0, shape: str = "plane", height: float = 0.2, **given
) -> sim.SolverXPBD:
    """Particles of .5 and 2 kg above a floor through the origin, or above the top of a ball of radius 1 there."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particles([[0, height, 0], [5, height, 0]], mass=[0.5, 2.0], thickness=thickness, **given)
    if shape == "plane":
        builder.add_ground_plane(0.0, compliance=compliance, label="shape")
    else:
        builder.add_shape_sphere((0, -1, 0), 1.0, compliance=compliance, label="shape")
        builder.add_shape_sphere((5, -1, 0), 1.0, compliance=compliance, label="other")
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64))


@pytest.mark.parametrize("shape", ["plane", "sphere"])
@pytest.mark.parametrize("thickness", [0.0, 0.05])
def test_a_rigid_contact_is_never_penetrated(shape, thickness):
    """Contacts are projected last: with compliance 0 no point ends a step inside.  It comes to rest at its thickness,
    without a bounce (the scheme has no restitution), and before it arrives it falls as if nothing were there."""
    solver, h = dropped(0.0, thickness, shape), 1 / 200
    heights = []
    take_steps(solver, solver.model.state(), 100, h, each=lambda s: heights.append(positions(s)[:, 1]))
    steps = np.arange(1, 101)
    falling = 0.2 - G * h * h * steps * (steps + 1) / 2
    free = falling > thickness
    assert 20 < free.sum() < 60
    heights = np.array(heights)
    assert (heights >= thickness - 1e-15).all()
    np.testing.assert_allclose(heights[free], falling[free, None] * [1, 1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(heights[~free][1:], thickness, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", ["plane", "sphere"])
def test_a_soft_contact_gives_way_by_its_weight(shape):
    """A point rests alpha m g inside; the multiplier is its weight."""
    solver, h = dropped(1e-3, 0.02, shape, height=0.03), 1 / 60
    final = sim.rollout(solver, solver.model.state(), 2000, h).final
    np.testing.assert_allclose(positions(final)[:, 1], 0.02 - 1e-3 * np.array([0.5, 2.0]) * G, rtol=0, atol=1e-12)
    force = solver.multipliers(f"contact_{shape}").numpy() / h**2
    np.testing.assert_allclose(np.sort(force[force > 0]), np.array([0.5, 2.0]) * G, rtol=1e-9)


def test_a_contact_pushes_and_never_pulls():
    """A soft contact takes a falling point up and lets it go: while it leaves, no force holds it back."""
    solver, h = dropped(1e-3, height=0.01), 1 / 1000
    state = solver.model.state()
    state.particle_qd.fill_((0.3, -2.0, 0.0))
    multipliers, heights, speeds = [], [], []

    def see(s):
        multipliers.append(solver.multipliers("contact_plane").numpy().copy())
        heights.append(positions(s)[:, 1])
        speeds.append(s.particle_qd.numpy()[:, 1].copy())
        np.testing.assert_allclose(s.particle_qd.numpy()[:, 0], 0.3, rtol=1e-12)  # no friction

    take_steps(solver, state, 300, h, each=see)
    multipliers, heights, speeds = np.array(multipliers), np.array(heights), np.array(speeds)
    assert (multipliers >= 0).all() and (multipliers > 0).any(axis=0).all()
    assert (heights.min(axis=0) < 0).all() and (speeds.max(axis=0) > 0.5).all()
    outside = heights > 1e-12
    assert not multipliers[outside].any()
    # in the air after the rebound: free flight
    flying = outside[1:] & outside[:-1] & (speeds[:-1] > 0)
    np.testing.assert_allclose((speeds[1:] - speeds[:-1])[flying], -G * h, rtol=1e-9)


def test_several_iterations_give_the_same_rest():
    """Accumulated multipliers stay >= 0: iterating a contact does not stiffen it."""
    rests = []
    for iterations in (1, 10):
        solver = dropped(1e-3, height=0.01)
        solver = sim.SolverXPBD(solver.model, iterations)
        rests.append(positions(sim.rollout(solver, solver.model.state(), 2000, 1 / 60).final))
    np.testing.assert_allclose(rests[0], rests[1], rtol=0, atol=1e-12)


def test_only_objects_that_touch_a_shape_feel_it():
    builder = sim.ModelBuilder()
    builder.add_particles([[0, 0.1, 0]], mass=1.0, label="feels")
    builder.add_particles([[1, 0.1, 0]], mass=1.0, label="passes")
    builder.add_ground_plane(touches=["feels"])
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64))
    q = sim.rollout(solver, solver.model.state(), 100, 0.01).final.particle_q.numpy()
    assert q[0, 1] == 0.0 and q[1, 1] < -4


def test_a_cloth_rests_on_a_ball():
    """Every point of a sheet that falls on a ball and slides to the ground stays outside of both, by its thickness."""
    builder = sim.ModelBuilder()
    material = {
        "distance": {"compliance": 0.01, "damping": 2e-3},
        "shear": {"compliance": 0.05},
        "bend": {"compliance": 100.0},
    }
    builder.add_cloth_grid(
        (-0.4, 0, 0),
        rot=[[1, 0, 0], [0, 0, 1], [0, -1, 0]],
        dim_x=16,
        dim_y=16,
        cell_x=0.05,
        cell_y=0.05,
        density=0.2,
        material=material,
        thickness=0.01,
    )
    builder.add_shape_sphere((0.0, -0.25, -0.4), 0.2, label="ball")
    builder.add_ground_plane(-0.3, normal=(0.05, 1, 0), label="ground")
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64))
    ball = solver.model["ball.center"].numpy()[0]
    normal = np.array([0.05, 1, 0]) / np.hypot(0.05, 1)
    frames = sim.rollout(solver, solver.model.state(), 900, 1 / 900, frame_every=10).particle_q.numpy()
    above_ball = np.linalg.norm(frames - ball, axis=2) - 0.21
    above_ground = frames @ normal + 0.3 - 0.01
    assert -1e-12 < above_ball.min() < 1e-12
    assert -1e-12 < above_ground.min() < 1e-12
    assert (above_ball < 1e-6).sum(axis=1).max() >= 9 and (above_ground < 1e-6).sum(axis=1).max() > 20
