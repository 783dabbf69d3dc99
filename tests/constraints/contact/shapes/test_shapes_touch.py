"""Shapes of bodies and of the world: which contacts they make, and their derivatives by what shapes are."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig


def made(
    half: float = 0.05, radius: float = 0.07, friction: float = 0.3, restitution: float = 0.2, all_shapes: bool = False
) -> sim.Model:
    """A box that slides and tumbles and a ball above a floor; all: a capsule, and a ball of the world in their way."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    rough = Config(density=700.0, mu=friction, restitution=restitution, touches=())  # what the world does is meant here
    box = builder.add_body([0, 0.12, 0, 0.1, 0.2, 0.1, 0.9], label="box", velocity=(1, 0, 0.2), spin=(1, 2, 3))
    builder.add_shape_box(box, None, half, 0.04, 0.06, cfg=rough, label="hull")
    ball = builder.add_body([0.4, 0.1, 0], label="ball", velocity=(-0.5, 0, 0.1))
    builder.add_shape_sphere(ball, None, radius, cfg=rough, label="hull")
    if not all_shapes:
        builder.add_ground_plane(0.0, label="floor")
        return builder.finalize(dtype=sim.float64, requires_grad=True)
    rod = builder.add_body([-0.4, 0.12, 0, 0.3, 0.1, 0, 0.9], label="rod", velocity=(0, 0, 0.5))
    builder.add_shape_capsule(rod, None, 0.03, 0.05, cfg=rough, label="hull")
    builder.add_ground_plane(0.0, label="floor")
    builder.add_shape_sphere((0.25, 0.05, 0.0), 0.05, label="bump")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def test_the_world_meets_every_shape_of_a_body() -> None:
    model = made(all_shapes=True)
    counts = {name: made.count for name, made in model.constraint_sets.items()}
    assert counts == {
        "contact_plane@a": 8 + 1 + 2,
        "contact_box@aw": 1,
        "contact_points@aw": 1,
        "contact_capsule@aw": 1,
    }
    end = sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), 2400, 1 / 960).final
    heights, speed = end.body_q.numpy()[:, 1], np.abs(end.body_qd.numpy()[0, :3])
    np.testing.assert_allclose(heights, [0.04, 0.07, 0.03], atol=2e-3)
    assert speed.max() < 1e-3  # of the box; what is round may roll on


def test_derivatives_by_sizes_and_surfaces() -> None:
    """Of where a box and a ball are after they have slid and bounced, against differences."""
    seeds = {"half": (0.05, "box.hull.half", 0), "radius": (0.07, "ball.hull.radius", None),
             "friction": (0.3, "", None), "restitution": (0.2, "", None)}  # fmt: skip
    row = coordinate("body_q", 0, 0)
    _, of = gradients(made(), 60, 1 / 480, row, iterations=2)
    paths = [path for path in of if path.endswith((".mu", ".restitution"))]
    assert len(paths) == 4

    def place(**changed: float) -> float:
        model = made(**changed)
        solver = sim.SolverXPBD(model, iterations=2)
        return float(sim.rollout(solver, model.state(), 60, 1 / 480).final.body_q.numpy()[0, 0])

    for name, (value, path, column) in seeds.items():
        step = 1e-6
        difference = (place(**{name: value + step}) - place(**{name: value - step})) / (2 * step)
        if path:
            found = of[path].ravel()[column or 0]
        else:
            found = of["box.hull.mu" if name == "friction" else "box.hull.restitution"][0]
        assert found == pytest.approx(difference, rel=1e-5, abs=1e-7), name


def test_particles_lie_on_a_box_that_they_push() -> None:
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_particle([0.01, 0.2, 0.02], mass=0.1)
    tray = builder.add_body([0, 0.1, 0], mass=1.0, inertia=0.01, label="tray")
    builder.add_shape_box(tray, None, 0.1, 0.05, 0.1, cfg=Config(density=0.0, mu=0.5))
    builder.add_ground_plane(0.0)
    model = builder.finalize(dtype=sim.float64)
    assert model.constraint_sets["contact_box@ap"].count == 1
    solver = sim.SolverXPBD(model, iterations=4)
    end = sim.rollout(solver, model.state(), 960, 1 / 960).final
    np.testing.assert_allclose(end.particle_q.numpy()[0, 1], end.body_q.numpy()[0, 1] + 0.05, atol=1e-5)
    force = solver.multipliers("contact_plane@a").numpy().sum() * 960**2
    assert force == pytest.approx(1.1 * 9.81, rel=1e-3)


def test_what_does_not_meet_is_said() -> None:
    """A plane on a body, which nothing sees: an error where something may touch it."""
    for touches, met in ((None, True), (("stone",), True), ((), False)):
        builder = sim.ModelBuilder()
        cart = builder.add_body([0, 1, 0], mass=1.0, inertia=1.0, label="cart")
        builder.add_shape_plane((0, 1, 0, 0), body=cart, cfg=Config(touches=touches), label="top")
        builder.add_shape_sphere(builder.add_body([0, 2, 0], label="stone"), None, 0.1)
        if met:
            with pytest.raises(sim.ModelError, match=r"cart.top: a plane on a body meets nothing so far, and 1 may"):
                builder.finalize()
        else:
            builder.finalize()
    builder = sim.ModelBuilder()
    builder.add_shape_plane((0, 1, 0, 0), body=builder.add_body(mass=1.0, inertia=1.0, label="cart"))
    builder.add_particle([0, 1, 0])
    with pytest.raises(sim.ModelError, match=r"cart.ground: a plane on a body meets nothing so far, and 1 may"):
        builder.finalize()
