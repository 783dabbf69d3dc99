"""Shapes that a function says the distance from: as the shapes that have a name, and derivatives by what they take."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim
from sim.constraints.contact.solids.distances import contact_with
from sim.model.collision.detection import ContactError
from sim.model.errors import ModelError

Config = sim.ModelBuilder.ShapeConfig
HALF = (0.12, 0.05, 0.08)


@sim.func
def block(p, scale):
    """A box of half sizes `scale`."""
    a, b, c = sim.abs(p[0]) - scale[0], sim.abs(p[1]) - scale[1], sim.abs(p[2]) - scale[2]
    inside = sim.max(sim.max(a, b), c)
    if inside > 0.0:
        a, b, c = sim.max(a, 0.0), sim.max(b, 0.0), sim.max(c, 0.0)
        return sim.sqrt(a * a + b * b + c * c)
    return inside


@sim.func
def bowl(p, scale):
    """What is left of the space below the middle of a ball of radius scale[0]: a hollow in all that is around it."""
    return scale[0] - sim.length(p)


@sim.func
def ring(p, scale):
    """A torus about y."""
    around = sim.sqrt(p[0] * p[0] + p[2] * p[2]) - scale[0]
    return sim.sqrt(around * around + p[1] * p[1]) - scale[1]


def thrown(
    solid: str, what: str, mu: float | None = 0.3, half: tuple[float, ...] = HALF, world: bool = False
) -> sim.Model:
    """A particle or a ball thrown onto a block, by its name or by its distance, that turns beneath it."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    rough = Config(density=900.0, mu=mu, restitution=None if mu is None else 0.4)
    q = np.array([0.05, 0.1, 0.02, 1.0]) / np.linalg.norm([0.05, 0.1, 0.02, 1.0])
    body, pose = -1, (0.0, -0.04, 0.0, *q)
    if not world:
        body = builder.add_body(
            pose, mass=2.0, inertia=0.01, label="block", velocity=(0, 0.2, 0), spin=(0.3, 0.5, -0.8)
        )
        pose = None
    if solid == "sdf":
        builder.add_shape_sdf(body, pose, block, half, cfg=rough, label="hull")
    else:
        weightless = Config(density=0.0, mu=rough.mu, restitution=rough.restitution)
        builder.add_shape_box(body, pose, *half, cfg=weightless, label="hull")
    if what == "ball":
        ball = builder.add_body([0.05, 0.08, 0.01], label="ball", velocity=(0.8, -0.5, 0.1), spin=(0, 0, 2.0))
        builder.add_shape_sphere(ball, None, 0.03, cfg=rough, label="hull")
    else:
        builder.add_particle([0.05, 0.05, 0.01], (0.8, -0.5, 0.1), 0.1)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def end_of(model: sim.Model, steps: int = 70) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), steps, 1 / 480).final


@pytest.mark.parametrize("what, mu, world", [("ball", 0.3, False), ("particle", None, True)])
def test_the_distance_from_a_box_is_a_box(what: str, mu: float | None, world: bool) -> None:
    """To rounding, over faces, edges and corners."""
    found = []
    for solid in ("sdf", "box"):
        end = end_of(thrown(solid, what, mu, world=world), 160)
        found.append(np.concatenate([end.body_q.numpy().ravel(), end.particle_q.numpy().ravel()]))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


def test_derivatives_by_what_the_function_takes() -> None:
    """Of where a ball is that has bounced and rolled on it, against differences; by friction too."""
    _, of = gradients(thrown("sdf", "ball"), 70, 1 / 480, coordinate("body_q", 1, 0), iterations=2)

    def slope(key: str, up: object, down: object) -> float:
        ends = [float(end_of(thrown("sdf", "ball", **{key: given})).body_q.numpy()[1, 0]) for given in (up, down)]  # type: ignore[arg-type]
        return (ends[0] - ends[1]) / 2e-6

    for k in range(3):
        sizes = [tuple(h + sign * 1e-6 * (j == k) for j, h in enumerate(HALF)) for sign in (1, -1)]
        assert of["block.hull.scale"][0, k] == pytest.approx(slope("half", *sizes), rel=1e-6, abs=1e-8)
    found = of["block.hull.mu"][0] + of["ball.hull.mu"][0]
    assert abs(found) > 1e-3
    assert found == pytest.approx(slope("mu", 0.3 + 1e-6, 0.3 - 1e-6), rel=1e-6, abs=1e-8)


def test_a_marble_swings_in_a_bowl_as_a_pendulum() -> None:
    """Without friction, from 30 degrees: as the pendulum that is as long as the bowl less the radius, whose quarter
    period is sqrt(l / g) K(sin 15)."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, None, bowl, (0.5, 0, 0), label="bowl")
    length, angle = 0.5 - 0.05, np.radians(30.0)
    ball = builder.add_body([length * np.sin(angle), -length * np.cos(angle), 0], label="marble")
    builder.add_shape_sphere(ball, None, 0.05)
    model = builder.finalize(dtype=sim.float64)
    mean, other = 1.0, np.cos(angle / 2)
    for _ in range(6):  # the arithmetic-geometric mean
        mean, other = 0.5 * (mean + other), np.sqrt(mean * other)
    quarter = np.sqrt(length / G) * np.pi / (2 * mean)
    steps = 960
    end = sim.rollout(sim.SolverXPBD(model), model.state(), steps, quarter / steps).final
    assert abs(end.body_q.numpy()[0, 0]) < 2e-3 * length
    assert end.body_q.numpy()[0, 1] == pytest.approx(-length, abs=1e-5)


def test_a_cloth_lies_on_a_ring() -> None:
    """Points meet it at their thickness; a hole is in the middle, through which they may hang."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, (0, -0.052, 0), ring, (0.2, 0.05, 0.0), cfg=Config(mu=0.5), label="ring")
    flat = sim.quat_from_axis_angle(sim.vec3(1, 0, 0), np.pi / 2)
    builder.add_cloth_grid(pos=(-0.25, 0.001, -0.25), rot=flat, dim_x=10, dim_y=10, cell_x=0.05, cell_y=0.05, mass=0.01,
                           thickness=0.002, material={"distance": {"compliance": 1e-4}}, label="sheet")  # fmt: skip
    model = builder.finalize(dtype=sim.float64)
    x = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final.particle_q.numpy()
    away = np.hypot(np.hypot(x[:, 0], x[:, 2]) - 0.2, x[:, 1] + 0.052) - 0.05
    assert away.min() > 0.002 - 1e-5 and np.count_nonzero(away < 0.002 + 1e-4) > 8
    assert x[:, 1].min() < -0.02


def test_what_does_not_meet_it_is_refused() -> None:
    """Planes, other distances; and what is no function."""
    builder = sim.ModelBuilder()
    with pytest.raises(ModelError, match="sdf is None"):
        builder.add_shape_sdf(-1)
    builder.add_shape_sdf(-1, None, ring, (0.2, 0.05, 0.0), label="ring")
    hoop = builder.add_body([0, 1, 0], mass=1.0, inertia=0.1, label="hoop")
    builder.add_shape_sdf(hoop, None, ring, (0.2, 0.05, 0.0))
    with pytest.raises(ModelError, match="a sdf and a sdf do not meet so far"):
        builder.finalize()
    builder = sim.ModelBuilder()
    builder.add_shape_sdf(
        builder.add_body([0, 1, 0], mass=1.0, inertia=0.1, label="hoop"), None, ring, (0.2, 0.05, 0.0)
    )
    builder.add_ground_plane(0.0, label="floor")
    with pytest.raises(ModelError, match="a plane and a signed distance do not meet"):
        builder.finalize()


def test_functions_of_one_name_are_two() -> None:
    """And one given twice is one."""

    def ring(p, scale):
        return sim.length(p) - scale[0]

    assert contact_with(ring) is contact_with(ring) is not contact_with(globals()["ring"])
    assert contact_with(ring).name != contact_with(globals()["ring"]).name


def test_what_comes_through_in_a_step_is_an_error() -> None:
    """From above a ring's tube to below it; what goes through its hole does not."""
    for x, through in ((0.2, True), (0.02, False)):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        builder.add_shape_sdf(-1, None, ring, (0.2, 0.05, 0.0), label="ring")
        builder.add_particle([x, 0.12, 0.0], (0, -90.0, 0), 0.1)
        model = builder.finalize(dtype=sim.float64)
        if through:
            with pytest.raises(ContactError, match="has come through 'ring'"):
                sim.rollout(sim.SolverXPBD(model), model.state(), 1, 1 / 360)
        else:
            sim.rollout(sim.SolverXPBD(model), model.state(), 1, 1 / 360)
