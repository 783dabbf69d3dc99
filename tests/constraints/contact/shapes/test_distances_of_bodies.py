"""Signed distances that capsules, boxes, cylinders and meshes meet: as the shapes that they tell of, and in closed
forms."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES, G, coordinate, gradients, integrals

import sim
from sim.model.collision.detection import ContactError
from sim.model.errors import ModelError
from sim.rollout import Checkpointed, StoreAll

Config = sim.ModelBuilder.ShapeConfig
ROUGH = Config(density=900.0, mu=0.3, restitution=0.4)
KINDS = ("capsule", "box", "cylinder", "mesh")


@sim.func
def level(p, scale):
    """Over a plane."""
    return p[1] - scale[0]


@sim.func
def globe(p, scale):
    """Around a ball."""
    return sim.length(p) - scale[0]


@sim.func
def ring(p, scale):
    """A torus about y."""
    around = sim.sqrt(p[0] * p[0] + p[2] * p[2]) - scale[0]
    return sim.sqrt(around * around + p[1] * p[1]) - scale[1]


@sim.func
def block(p, scale):
    """A box with sharp edges."""
    a, b, c = sim.abs(p[0]) - scale[0], sim.abs(p[1]) - scale[1], sim.abs(p[2]) - scale[2]
    inside = sim.max(sim.max(a, b), c)
    if inside > 0.0:
        a, b, c = sim.max(a, 0.0), sim.max(b, 0.0), sim.max(c, 0.0)
        return sim.sqrt(a * a + b * b + c * c)
    return inside


def unit(*q: float) -> np.ndarray:
    return np.array(q) / np.linalg.norm(q)


def add_solid(builder: sim.ModelBuilder, kind: str, body: int, cfg: Config = ROUGH, size: float = 1.0) -> None:
    if kind == "box":
        builder.add_shape_box(body, None, 0.1 * size, 0.06, 0.08, cfg=cfg, label="hull")
    elif kind == "mesh":
        builder.add_shape_mesh(body, None, vertices=CORNERS * (0.1, 0.06, 0.08), indices=FACES, cfg=cfg, label="hull")
    else:
        add = builder.add_shape_capsule if kind == "capsule" else builder.add_shape_cylinder
        add(body, None, 0.05 * size, 0.1, cfg=cfg, label="hull")


def end_of(model: sim.Model, steps: int, dt: float = 1 / 480, iterations: int = 2) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, iterations=iterations), model.state(), steps, dt).final


# ------------------------------------------------------------------------------------------ as shapes with a name
@pytest.mark.parametrize("kind", KINDS)
def test_the_height_over_a_plane_is_a_plane(kind: str) -> None:
    """What is thrown, bounces, tumbles and slides goes as on the plane of the world, to rounding; a cylinder to 1e-6,
    since the lowest place of its rim is found otherwise, and faces to 1e-3: a plane shares their load."""
    ends = []
    for as_distance in (True, False):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        if as_distance:
            builder.add_shape_sdf(-1, None, level, (0.01, 0, 0), cfg=ROUGH, label="floor")
        else:
            builder.add_ground_plane(0.01, cfg=ROUGH, label="floor")
        pose = (0, 0.2, 0, *unit(0.1, 0.05, 0.2, 1.0))
        body = builder.add_body(pose, velocity=(1, -1, 0.2), spin=(1, 0.5, -2), label="thing")
        add_solid(builder, kind, body)
        ends.append(end_of(builder.finalize(dtype=sim.float64), 240).body_q.numpy()[0])
    assert abs(ends[0][1] - 0.01) < 0.12 and abs(ends[0][0]) > 0.1
    np.testing.assert_allclose(
        ends[0], ends[1], rtol=0, atol={"cylinder": 1e-6, "box": 1e-3, "mesh": 1e-3}.get(kind, 1e-11)
    )


def on_globe(kind: str, as_distance: bool = True, radius: float = 0.3, mu: float = 0.3, size: float = 1.0) -> sim.Model:
    """Something thrown onto a ball that moves and turns, in free space, where they meet between corners and ends."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    light = Config(density=0.0, mu=mu, restitution=0.4)
    moves = {"velocity": (0.1, 0, 0), "spin": (0.2, 0, 0.4)}
    ball = builder.add_body((0, -0.3, 0), mass=3.0, inertia=0.1, label="globe", **moves)
    if as_distance:
        builder.add_shape_sdf(ball, None, globe, (radius, 0, 0), cfg=light, label="hull")
    else:
        builder.add_shape_sphere(ball, None, radius, cfg=light, label="hull")
    pose = (0.02, 0.12, 0, *unit(0.1, 0.05, 0.2, 1.0))
    body = builder.add_body(pose, label="thing", velocity=(0.5, -1.0, 0.2), spin=(1.0, 0.5, -2))
    add_solid(builder, kind, body, Config(density=900.0, mu=mu, restitution=0.4), size)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("kind", ("capsule", "box", "cylinder"))
def test_the_distance_from_a_ball_is_a_ball(kind: str) -> None:
    """Which sees the others; and both momenta are kept."""
    model = on_globe(kind)
    before, _ = integrals(model.state(), model)
    state = end_of(model, 60)
    after, _ = integrals(state, model)
    found, expected = state.body_q.numpy(), end_of(on_globe(kind, as_distance=False), 60).body_q.numpy()
    assert state.body_qd.numpy()[1, 1] > -0.7
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ("capsule", "box", "cylinder"))
def test_derivatives_where_the_place_moves_along_a_side(kind: str) -> None:
    """Against differences: by the size of both, by friction and by where something was; stored and checkpointed."""
    steps, model = 60, on_globe(kind)
    _, of = gradients(model, steps, 1 / 480, coordinate("body_q", 1, 0), iterations=2)

    def difference(**by: float) -> float:
        ends = [
            float(end_of(on_globe(kind, **{k: v + sign * 1e-6 for k, v in by.items()}), steps).body_q.numpy()[1, 0])  # type: ignore[arg-type]
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / 2e-6

    assert abs(of["globe.hull.scale"][0, 0]) > 1e-3
    assert of["globe.hull.scale"][0, 0] == pytest.approx(difference(radius=0.3), rel=1e-5)
    friction = of["globe.hull.mu"][0] + of["thing.hull.mu"][0]
    assert friction == pytest.approx(difference(mu=0.3), rel=1e-5, abs=1e-7)
    size = 0.1 * of["thing.hull.half"][0, 0] if kind == "box" else 0.05 * of["thing.hull.radius"][0]
    assert size == pytest.approx(difference(size=1.0), rel=1e-4, abs=1e-7)
    found = []
    for strategy in (StoreAll(), Checkpointed(every=7)):
        again = on_globe(kind)
        with sim.Tape() as tape:
            run = sim.rollout(sim.SolverXPBD(again, iterations=2), again.state(), steps, 1 / 480, strategy=strategy)
        array, weight = coordinate("body_q", 1, 0)(run.final)
        tape.backward(grads={array: sim.array(weight, dtype=array.dtype)})
        found.append(again.materials["thing.velocity"].grad.numpy())
    np.testing.assert_array_equal(found[0], found[1])


# ------------------------------------------------------------------------------------------ closed forms
def test_a_ball_rolls_in_a_bowl_as_a_pendulum_that_is_longer() -> None:
    """Without slipping, from 30 degrees: a quarter period is sqrt(7 l / 5 g) K(sin 15)."""

    def hollow(p, scale):
        return scale[0] - sim.length(p)

    rough = Config(mu=2.0)
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, None, sim.func(hollow), (0.5, 0, 0), cfg=rough, label="bowl")
    length, angle = 0.5 - 0.05, np.radians(30.0)
    ball = builder.add_body([length * np.sin(angle), -length * np.cos(angle), 0], label="marble")
    builder.add_shape_sphere(ball, None, 0.05, cfg=rough)
    mean, other = 1.0, np.cos(angle / 2)
    for _ in range(6):  # the arithmetic-geometric mean
        mean, other = 0.5 * (mean + other), np.sqrt(mean * other)
    quarter = np.sqrt(1.4 * length / G) * np.pi / (2 * mean)
    end = end_of(builder.finalize(dtype=sim.float64), 240, quarter / 240).body_q.numpy()[0]
    assert abs(end[0]) < 2e-4 * length and end[1] == pytest.approx(-length, abs=1e-6)


@pytest.mark.parametrize("kind", ("box", "capsule", "cylinder"))
def test_what_lies_across_a_ball_rocks(kind: str) -> None:
    """A plank that rolls on a fixed ball of radius R by a face, a line or a side at a height h below its middle swings
    with w^2 = g (R - h) / (k^2 + h^2), k its radius of gyration: after a quarter period it is level."""
    radius, tilt, height = 0.5, 0.03, 0.06 if kind == "box" else 0.05
    rough = Config(density=900.0, mu=2.0)
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, (0, -radius, 0), globe, (radius, 0, 0), cfg=rough, label="globe")
    normal, along = np.array([-np.sin(tilt), np.cos(tilt), 0]), np.array([np.cos(tilt), np.sin(tilt), 0])
    place = (radius + height) * normal + radius * tilt * along - (0, radius, 0)
    turn = sim.quat_from_axis_angle(sim.vec3(0, 0, 1), tilt)
    if kind != "box":  # along x
        turn = turn * sim.quat_from_axis_angle(sim.vec3(0, 1, 0), np.pi / 2)
    body = builder.add_body((*place, *turn), label="plank")
    add_solid(builder, kind, body, rough)
    model = builder.finalize(dtype=sim.float64)
    axis = 2 if kind == "box" else 0
    gyration = model.body_inertia.numpy()[0, axis, axis] / model.body_mass.numpy()[0]
    quarter = 0.5 * np.pi / np.sqrt(G * (radius - height) / (gyration + height**2))
    state = end_of(model, 240, quarter / 240)
    assert state.body_qd.numpy()[0, 5] == pytest.approx(-tilt * 0.5 * np.pi / quarter, rel=0.01)
    np.testing.assert_allclose(state.body_q.numpy()[0, :3], (0, height, 0), rtol=0, atol=0.01 * radius * tilt)


@pytest.mark.parametrize("kind", ("box", "capsule"))
def test_what_lies_on_a_ring_stays(kind: str) -> None:
    """A face rests on a circle of places that are as deep, a line at two: more than one of a face, or line, is met."""
    rough = Config(density=900.0, mu=0.5)
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, (0, -0.05, 0), ring, (0.2, 0.05, 0), cfg=rough, label="ring")
    level_turn = (0, 0, 0, 1) if kind == "box" else unit(0, 1, 0, 1)
    body = builder.add_body((0.01, 0.031, 0.02, *level_turn), label="thing")
    if kind == "box":
        builder.add_shape_box(body, None, 0.3, 0.03, 0.3, cfg=rough)
    else:
        builder.add_shape_capsule(body, None, 0.03, 0.35, cfg=rough)
    end = end_of(builder.finalize(dtype=sim.float64), 240).body_q.numpy()[0]
    np.testing.assert_allclose(end[:3], (0.01, 0.03, 0.02), rtol=0, atol=2e-4)
    np.testing.assert_allclose(np.abs(end[3:]), np.abs(level_turn), rtol=0, atol=1e-3)


def test_a_cylinder_rolls_on_over_a_free_cart() -> None:
    """Whose top is a distance: it keeps its speed, and the cart stays, as the place of contact goes with what rolls;
    and three worlds are three times one."""

    def slab(p, scale):
        return sim.abs(p[1]) - scale[1]

    smooth, rough, top = (Config(density=0.0, mu=mu) for mu in (0.0, 0.8, 0.8))
    smooth.touches, top.touches = ("cart",), ("roller",)
    ends = []
    for worlds in (1, 3):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        builder.add_shape_box(-1, (0, -0.2, 0), 3.0, 0.1, 3.0, cfg=smooth, label="floor")
        cart = builder.add_body((0, -0.05, 0), mass=2.0, inertia=0.5, label="cart")
        for z in (-1.0, 1.0):
            builder.add_shape_box(cart, (0, 0, z), 1.0, 0.05, 0.1, cfg=Config(density=0.0, mu=0.0))
        builder.add_shape_sdf(cart, None, sim.func(slab), (0, 0.05, 0), cfg=top)
        roller = builder.add_body((-0.5, 0.05, 0), mass=1.0, inertia=0.001, label="roller", velocity=(1, 0, 0),
                                  spin=(0, 0, -20))  # fmt: skip
        builder.add_shape_cylinder(roller, None, 0.05, 0.1, cfg=rough)
        ends.append(end_of(builder.replicate(worlds).finalize(dtype=sim.float64), 240).body_qd.numpy()[:, 0])
    np.testing.assert_allclose(ends[0], (0.0, 1.0), rtol=0, atol=1e-3)
    np.testing.assert_array_equal(ends[1], np.repeat(ends[0], 3))


def test_a_box_comes_to_rest_on_hills() -> None:
    """Which come onto its sides between the corners; on the way it gains nothing."""

    def hills(p, scale):
        h = scale[0] * sim.sin(scale[1] * p[0]) * sim.cos(scale[1] * p[2])
        a = scale[0] * scale[1] * sim.cos(scale[1] * p[0]) * sim.cos(scale[1] * p[2])
        b = scale[0] * scale[1] * sim.sin(scale[1] * p[0]) * sim.sin(scale[1] * p[2])
        return (p[1] - h) / sim.sqrt(1.0 + a * a + b * b)

    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, None, sim.func(hills), (0.02, 20.0, 0.0), cfg=ROUGH, label="ground")
    pose = (-0.05, 0.2, 0.1, *unit(0.126, -0.132, 0.64, 0.105))
    body = builder.add_body(pose, velocity=(0.2, -0.5, 0.6), spin=(2, 1, -1), label="thing")
    add_solid(builder, "box", body)
    model = builder.finalize(dtype=sim.float64)
    solver, state, energies = sim.SolverXPBD(model, iterations=2), model.state(), []
    for _ in range(10):
        state = sim.rollout(solver, state, 60, 1 / 480).final
        weight = G * model.body_mass.numpy()[0]
        energies.append(integrals(state, model)[1] + weight * state.body_q.numpy()[0, 1])
    assert np.diff(energies).max() < 1e-3 * energies[0]
    assert np.abs(state.body_qd.numpy()).max() < 1e-5 and state.body_q.numpy()[0, 1] > 0.04


# ------------------------------------------------------------------------------------------ errors
def placed_on(shape: str, kind: str, place: tuple[float, ...], velocity: tuple[float, ...] = (0, 0, 0)) -> sim.Model:
    """A body over a block or a ring at the origin, in free space."""
    function, scale = {"block": (block, (0.2, 0.1, 0.2)), "ring": (ring, (0.2, 0.05, 0.0))}[shape]
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_shape_sdf(-1, None, function, scale, label=shape)
    add_solid(builder, kind, builder.add_body(place, velocity=velocity, label="thing"))
    return builder.finalize(dtype=sim.float64)


def test_a_sharp_edge_between_corners_is_an_error() -> None:
    """Where the slope of a distance jumps there is no normal; a capsule has a radius, which it is as far away by."""
    tilted = (0.25, 0.175, 0.0, *unit(0, 0, -0.3, 1.0))
    with pytest.raises(ContactError, match="an edge or a corner of the signed distance has come onto a side"):
        end_of(placed_on("block", "box", tilted, (0, -1.0, 0)), 60)
    across = (0.25, 0.175, 0.0, *unit(0.5, 0.5, 0.5, 0.4))
    end_of(placed_on("block", "capsule", across, (0, -1.0, 0)), 60)


@pytest.mark.parametrize("kind", KINDS)
def test_what_begins_inside_is_refused(kind: str) -> None:
    with pytest.raises(ModelError, match="block and thing.hull begin 0.0[1-9]* m inside of each other"):
        placed_on("block", kind, (0.0, 0.12, 0.0)).check_start()


def test_a_corner_that_comes_through_in_a_step_is_an_error() -> None:
    with pytest.raises(ContactError, match="has come through 'box on contact_sdf_ring"):
        end_of(placed_on("ring", "box", (0.1, 0.2, 0.12), (0, -130.0, 0)), 1)


def test_what_rests_in_float32_comes_through_nothing() -> None:
    """Rounding makes of an end that stands still one that comes and goes."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, None, level, (0.0, 0, 0), cfg=ROUGH, label="floor")
    for place, kind in ((0.0, "capsule"), (0.4, "box")):
        height = 0.05 if kind == "capsule" else 0.06
        add_solid(builder, kind, builder.add_body((place, height, 0), label=kind))
    end = end_of(builder.finalize(dtype=sim.float32), 240).body_q.numpy()
    np.testing.assert_allclose(end[:, 1], (0.05, 0.06), rtol=0, atol=2e-5)


# ------------------------------------------------------------------------------------------ between vertices
def plate(cells: int, radius: float) -> sim.Model:
    """A block of 40 x 20 x 40 cm, its sides of so many cells, that falls on a ball of the world beside its vertices, in
    two worlds."""
    sides, number, triangles = np.linspace(-1, 1, cells + 1), dict[tuple[float, ...], int](), []
    for axis in range(3):
        for sign in (-1, 1):
            for i, j in np.ndindex(cells, cells):
                corners = []
                for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))[::sign]:
                    p = np.roll([sign, sides[i + a], sides[j + b]], axis)
                    corners.append(number.setdefault(tuple(p.round(9)), len(number)))
                triangles += [corners[:3], [corners[0], *corners[2:]]]
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_shape_sdf(-1, None, globe, radius, label="ball")
    body = builder.add_body((0.013, radius + 0.11, 0.021), label="plate")
    builder.add_shape_mesh(body, None, vertices=np.array(list(number)), indices=triangles, scale=(0.2, 0.1, 0.2),
                           label="hull")  # fmt: skip
    return builder.replicate(2).finalize(dtype=sim.float64)


@pytest.mark.parametrize("radius", [0.01, 0.05, 0.5])
def test_what_comes_in_between_the_vertices_of_a_mesh_is_an_error(radius: float) -> None:
    """A ball narrower than a tenth of a triangle fell through the block, and one that was wider into it."""
    model = plate(1, radius)
    with pytest.raises(ContactError, match=r"'ball' has come into a triangle of 'plate.hull' between its vertices"):
        sim.rollout(sim.SolverXPBD(model), model.state(), 200, 1 / 480)


def test_fine_triangles_hold_it() -> None:
    """By l^2 / 8 r less than their vertices say: 3.3 mm."""
    model = plate(10, 0.25)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 480).final.body_q.numpy()
    assert (end[:, 1] > 0.25 + 0.1 - 0.0034).all()
