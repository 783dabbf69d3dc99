"""What a step does not look at is an error: shapes that come through each other, or are pushed where none was near."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES

import sim

Config = sim.ModelBuilder.ShapeConfig
DT = 1 / 480


def plate(thickness: float = 0.01) -> sim.ModelBuilder:
    """Of the world, about the origin, a metre wide."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_shape_box(-1, None, 0.5, 0.5 * thickness, 0.5, cfg=Config(mu=0.3), label="plate")
    return builder


def step(builder: sim.ModelBuilder, steps: int = 1, dt: float = DT, iterations: int = 2) -> sim.State:
    model = builder.finalize(dtype=sim.float64)
    return sim.rollout(sim.SolverXPBD(model, iterations=iterations), model.state(), steps, dt).final


def throw(builder: sim.ModelBuilder, kind: str, at: tuple[float, ...], velocity: tuple[float, ...]) -> None:
    """A ball or a cube of 2 cm."""
    body = builder.add_body(at, label="thrown", velocity=velocity)
    if kind == "ball":
        builder.add_shape_sphere(body, None, 0.01, cfg=Config(mu=0.3), label="hull")
    else:
        builder.add_shape_box(body, None, 0.01, 0.01, 0.01, cfg=Config(mu=0.3), label="hull")


@pytest.mark.parametrize(("kind", "near"), [("ball", False), ("cube", False), ("cube", True)])
def test_what_comes_through_in_a_step_is_an_error(kind: str, near: bool) -> None:
    """20 m/s are 4.2 cm in a step: the centre of a shape of 2 cm is beyond that of a plate of 1 cm."""
    builder = plate()
    throw(builder, kind, (0, 0.02, 0), (0, -20, 0))
    if near:
        builder.detect_bodies()
    with pytest.raises(sim.SimError, match=r"'(plate|thrown.hull)' and another shape have come through each other"):
        step(builder)


@pytest.mark.parametrize("kind", ["ball", "cube"])
def test_what_passes_along_or_beside_is_none(kind: str) -> None:
    """As fast, on the plate, beside it, and past its edge: nothing is in the way."""
    for at, velocity in (
        ((-0.2, 0.0151, 0.02), (20, 0, 0)),
        ((0.52, 0.02, 0), (0, -20, 0)),
        ((0.49, 0.1, 0), (20, -20, 0)),
    ):
        builder = plate()
        throw(builder, kind, at, velocity)
        end = step(builder, steps=4).body_q.numpy()[0]
        assert end[:3] == pytest.approx([x + 4 * DT * v for x, v in zip(at, velocity, strict=True)])


def test_a_ball_of_the_world_is_not_passed_either() -> None:
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_shape_sphere((0, 0, 0), 0.02, label="knob", cfg=Config(mu=0.3))
    throw(builder, "ball", (0.04, 0.001, 0), (-50, 0, 0))
    with pytest.raises(sim.SimError, match=r"come through each other"):
        step(builder)


def arm(near: bool) -> sim.ModelBuilder:
    """A heavy arm of 1 m that turns by 5 cm at its ends in a step: one bounces off a block, so that the other is thrown
    back onto a small one behind it."""
    builder, made_of = sim.ModelBuilder(gravity=(0, 0, 0)), Config(mu=0.0, restitution=0.6)
    body = builder.add_body(mass=1000.0, inertia=0.3, label="arm", spin=(0, 0, 5.0))
    for x, name in ((1.0, "tip"), (-1.0, "tail")):
        builder.add_shape_box(body, [x, 0, 0], 0.02, 0.02, 0.02, cfg=made_of, label=name)
    builder.add_shape_box(-1, [-1, -0.5201, 0], 0.4, 0.5, 0.4, cfg=made_of, label="post")
    builder.add_shape_box(-1, [1, -0.041, 0], 0.02, 0.02, 0.02, cfg=made_of, label="behind")
    if near:
        builder.detect_bodies(margin=0.04)
    return builder


@pytest.mark.parametrize("near", [False, True])
def test_what_is_thrown_back_far_from_its_centre_meets_what_is_there(near: bool) -> None:
    """The tip is predicted 2.5 cm away from what is behind it, and pushed back by 4: the next step finds it inside, and
    it hits as long ago as it is deep.  Twice as far is seen, and refused."""
    q = step(arm(near), steps=2, dt=0.005, iterations=4).body_q.numpy()[0]
    assert q[1] + 2 * q[5] * q[6] > -0.003
    with pytest.raises(sim.SimError, match="have come through each other"):
        step(arm(near), steps=2, dt=0.01, iterations=4)


def shot(kind: str, velocity: float, on_body: bool, place: tuple[float, ...] = (0.1, 0.02, 0.0011)) -> sim.ModelBuilder:
    """A particle, and a plate or a rod of 1 cm, of the world or on a body that is held."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body(label="low", held=True) if on_body else -1
    lying = (0, 0, 0, 0, 0.5**0.5, 0, 0.5**0.5)
    if kind == "box":
        builder.add_shape_box(body, None, 0.5, 0.005, 0.5, label="plate")
    elif kind == "mesh":
        builder.add_shape_mesh(body, None, vertices=CORNERS, indices=FACES, scale=(0.5, 0.005, 0.5), label="plate")
    elif kind == "sphere":
        builder.add_shape_sphere(body, (0.099, 0, 0), 0.005, label="plate")
    else:
        getattr(builder, f"add_shape_{kind}")(body, lying, 0.005, 0.5, label="plate")
    builder.add_particle(place, (0, velocity, 0), 0.1)
    return builder


@pytest.mark.parametrize("kind", ["box", "mesh", "sphere", "capsule", "cylinder"])
def test_a_point_that_comes_through_in_a_step_is_an_error(kind: str) -> None:
    """20 m/s: it is outside at both ends; 11 m/s: it ends inside, and is pushed out on the far side."""
    on_body = kind in ("mesh", "capsule")
    for velocity in (-20, -11):
        with pytest.raises(sim.SimError, match=r"point 0 of .* has come through '(low\.)?plate' in a step"):
            step(shot(kind, velocity, on_body))
    assert step(shot(kind, -1, on_body), steps=9).particle_q.numpy()[0, 1] > 0.004


@pytest.mark.parametrize("kind", ["box", "mesh"])
def test_a_point_that_leaves_a_plate_over_its_edge_is_none(kind: str) -> None:
    """It slides fast to the edge, falls past it, and another one flies past a corner at 1 mm."""
    for place, velocity in (((0.45, 0.0051, 0), (20.0, -0.05, 0)), ((0.501, 0.02, 0.2), (0, -20.0, 0))):
        builder = shot(kind, 0, False, place)
        model = builder.finalize(dtype=sim.float64)
        model.materials["particles.velocity"].assign([velocity])
        end = sim.rollout(sim.SolverXPBD(model), model.state(), 4, DT).final
        assert end.particle_q.numpy()[0, :2] == pytest.approx(
            np.array(place)[:2] + 4 * DT * np.array(velocity)[:2], abs=5e-4
        )
