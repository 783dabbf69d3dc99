"""Internal variables of constraints whose points are on bodies or in the world: as if these were particles."""

from __future__ import annotations

import numpy as np
import pytest

import sim

BRANCHES = [{"stiffness": 2.0, "time": 0.05}, {"stiffness": 1.0, "yield": 2e-2}]
STEPS, DT = 60, 1 / 240


def end_of(model: sim.Model, **settings: object) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, 20, **settings), model.state(), STEPS, DT).final


def swing(other: str) -> sim.Model:
    """A particle on a string that relaxes and yields; its other end is a particle, of a body or of the world.

    Particle 0 is elsewhere: it is what a point of the world would be taken for.
    """
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_particle((5.0, 0, 0), mass=1.0)
    builder.add_particle((0.1, 0, 0), (0, 1, 0), 0.1)
    if other == "body":
        end: object = builder.point_of(
            builder.add_body((0.1, 0, 0.3), mass=1.0, inertia=(1, 1, 1), held=True), (-0.1, 0, 0)
        )
    elif other == "world":
        end = builder.point_of(-1, (0, 0, 0.3))
    else:
        end = builder.add_particle((0, 0, 0.3), mass=0.0)
    builder.add_constraints("distance", [[1, end]], 1e-3, 0.0, "string", branches=BRANCHES, rest=[0.3])
    return builder.finalize(dtype=sim.float64)


@pytest.mark.parametrize("other", ["world", "body"])
def test_the_place_is_that_of_the_other_end(other: str) -> None:
    found, want = (end_of(swing(end)).particle_q.numpy()[1] for end in (other, "particle"))
    assert np.abs(want - (0.1, 0, 0)).max() > 0.05
    np.testing.assert_allclose(found, want, atol=1e-12)


def pair(bodies: bool) -> sim.Model:
    """Two that fly apart on a string, of 0.1 and 0.2 kg."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    places, speeds = ((0, 0, 0), (0.3, 0, 0)), ((0, 1, 0), (0.5, 0, 0.2))
    ends = []
    for k, (place, speed) in enumerate(zip(places, speeds, strict=True)):
        if bodies:
            body = builder.add_body(place, mass=0.1 * (k + 1), inertia=(1e-3, 1e-3, 1e-3), velocity=speed)
            ends.append(builder.point_of(body))
        else:
            ends.append(builder.add_particle(place, speed, 0.1 * (k + 1)))
    builder.add_constraints("distance", [ends], 1e-3, 0.0, "string", branches=BRANCHES, rest=[0.3])
    return builder.finalize(dtype=sim.float64)


def test_bodies_on_a_string_move_as_particles() -> None:
    found, want = end_of(pair(True), direction="end").body_q.numpy()[:, :3], end_of(pair(False)).particle_q.numpy()
    np.testing.assert_allclose(found, want, atol=1e-9)


def test_the_gradient_is_that_of_differences() -> None:
    """Bodies that turn, with the string beside their centres."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    ends = []
    for k in range(2):
        body = builder.add_body(
            (0.3 * k, 0, 0), mass=0.2, inertia=(1e-3, 2e-3, 3e-3), velocity=(k, 1 - k, 0), spin=(2, 3, 1)
        )
        ends.append(builder.point_of(body, (0.02, 0.05, 0.01 * k)))
    builder.add_constraints("distance", [ends], 1e-3, 0.0, "string", branches=BRANCHES, rest=[0.25])
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    weights = np.random.default_rng(5).normal(size=(2, 7))
    with sim.Tape() as tape:
        final = end_of(model)
    tape.backward(grads={final.body_q: weights})
    checked = 0
    for path, values in model.materials.items():
        if "branches" not in path and path != "string.compliance":
            continue
        before, gradient = values.numpy().copy(), values.grad.numpy().copy()
        losses = []
        for side in (-1, 1):
            values.assign(before * (1 + 1e-5 * side))
            losses.append(float((end_of(model).body_q.numpy() * weights).sum()))
        values.assign(before)
        difference = (losses[1] - losses[0]) / 2e-5
        assert float((gradient * before).sum()) == pytest.approx(difference, rel=1e-5, abs=1e-9), path
        checked += abs(difference) > 1e-6
    assert checked >= 4


def slide(shape: str) -> tuple[np.ndarray, np.ndarray]:
    """A particle that a spring pushes along, and that falls onto a floor: where it is, and which ones were pushed."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_particle((5.0, 0, 0), mass=0.0)
    builder.add_particle((0.1, 0, 0.02), (1.0, 0, 0), 0.1)
    builder.add_spring(0, 1, 0.1, rest_length=4.0)
    if shape == "box":
        builder.add_shape_box(-1, (0, 0, -0.5), 3.0, 3.0, 0.5, label="floor")
    else:
        builder.add_ground_plane(normal=(0, 0, 1), label="floor")
    model = builder.finalize(dtype=sim.float64)
    solver, a, b = sim.SolverXPBD(model, integrator="bdf2"), model.state(), model.state()
    for _ in range(24):
        solver.step(a, b, None, None, DT)
        a, b = b, a
    pushed = [float(solver.multipliers(name).numpy().max()) for name in model.constraint_sets if "contact" in name]
    return a.particle_q.numpy()[1], np.array(pushed)


def test_what_a_contact_pushes_begins_a_step_of_bdf2_anew() -> None:
    """On a box of the world as on a plane: the history is that of the particle that is pushed, not of particle 0."""
    (found, pushed), (want, _) = slide("box"), slide("plane")
    assert (pushed > 0.0).all() and want[0] > 0.5
    np.testing.assert_allclose(found, want, atol=1e-12)
