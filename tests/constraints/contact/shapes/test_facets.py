"""Balls, capsules and boxes narrower than the triangles of a cloth: what rests, rolls, is caught; derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim
from sim.geometry import rotation_from_quaternion
from sim.model.build.shapes.narrow import narrow_shapes
from sim.model.collision.detection import ContactError

Config = sim.ModelBuilder.ShapeConfig
RADIUS, THICK = 0.02, 0.002
TURNED = (0.187, 0.281, 0.094, 0.937)


def narrow(
    kind: str = "sphere",
    *,
    mu: float | None = 0.3,
    bounce: float | None = None,
    tilt: float = 0.0,
    at: Sequence[float] = (0.05, 0.0, 0.03),
    radius: float = RADIUS,
    velocity: Sequence[float] = (0, 0, 0),
    spin: Sequence[float] = (0, 0, 0),
    turned: Sequence[float] = (0, 0, 0, 1),
    thickness: float = THICK,
    cells: int = 1,
    held: str = "all",
    gravity: float = G,
    stretch: bool = True,
) -> sim.Model:
    """A cloth of 80 cm with few large triangles in the plane y = 0, and something small above it."""
    angle = np.radians(tilt)
    builder = sim.ModelBuilder(gravity=(gravity * np.sin(angle), -gravity * np.cos(angle), 0.0))
    line, n = np.linspace(-0.4, 0.4, cells + 1), cells + 1
    points = [[x, 0, z] for x in line for z in line]
    corners = [(i * n + j, i * n + j + 1, i * n + n + j, i * n + n + j + 1) for i in range(cells) for j in range(cells)]
    triangles = [t for a, b, c, d in corners for t in ([a, b, c], [c, b, d])]
    sheet = builder.add_cloth_mesh(
        vertices=points, indices=np.ravel(triangles), density=0.2, label="sheet", thickness=thickness,
        material={"distance": {"compliance": 1e-4}} if stretch else None,
    )  # fmt: skip
    place = [at[0], at[1] + radius + thickness, at[2], *turned]
    body = builder.add_body(place, label="thing", velocity=velocity, spin=spin)
    add(builder, body, None, kind, radius, Config(density=2500, mu=mu, restitution=bounce))
    if held:
        builder.add_attachment(sheet if held == "all" else sheet.choose({"boundary": True}), label="pins")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def add(builder: sim.ModelBuilder, body: int, pose: Any, kind: str, radius: float, config: Any) -> None:
    if kind == "sphere":
        builder.add_shape_sphere(body, pose, radius, cfg=config, label="hull")
    elif kind == "capsule":
        builder.add_shape_capsule(body, pose, 0.5 * radius, radius, cfg=config, label="hull")
    else:
        builder.add_shape_box(body, pose, radius, 0.7 * radius, 1.5 * radius, cfg=config, label="hull")


def after(model: sim.Model, steps: int, rate: int = 960, **options: Any) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, **options), model.state(), steps, 1 / rate).final


def test_a_marble_rests_on_one_held_triangle() -> None:
    """At its radius and the thickness above it, to rounding, with its weight on that triangle alone."""
    model = narrow()
    solver = sim.SolverXPBD(model)
    end = sim.rollout(solver, model.state(), 240, 1 / 960).final
    np.testing.assert_allclose(end.body_q.numpy()[0, :3], [0.05, RADIUS + THICK, 0.03], rtol=0, atol=1e-12)
    forces = solver.multipliers("contact_ball_triangle@appp").numpy() * 960**2
    np.testing.assert_allclose(np.sort(forces), [0.0, model.body_mass.numpy()[0] * G], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mu, share", [(0.3, 5 / 7), (0.05, None)])
def test_a_marble_rolls_or_slides_down(mu: float, share: float | None) -> None:
    """Rolls at tan a < 7/2 mu with 5/7 of g sin a, else slides: as on a plane."""
    slope = np.radians(20.0)
    pulled = share * np.sin(slope) if share else np.sin(slope) - mu * np.cos(slope)
    end = after(narrow(tilt=20.0, mu=mu), 240)
    assert end.body_qd.numpy()[0, 0] == pytest.approx(G * pulled * 0.25, rel=1e-4)


@pytest.mark.parametrize("bounce", [0.0, 0.8])
def test_a_marble_rolls_over_edges_and_corners(bounce: float) -> None:
    """Of triangles that it comes to from others beside them: it hit their edges, and hopped where it may rebound."""
    model = narrow(
        bounce=bounce, at=(-0.35, 0, 0.03), velocity=(1.5, 0, 0.3), spin=(0.3 / RADIUS, 0, -1.5 / RADIUS), cells=5
    )
    solver, state, rate = sim.SolverXPBD(model), model.state(), 240
    for _ in range(rate // 3):
        state = sim.rollout(solver, state, 1, 1 / rate).final
        assert abs(state.body_q.numpy()[0, 1] - RADIUS - THICK) < 2e-4
    assert state.body_qd.numpy()[0, :3] == pytest.approx([1.5, 0, 0.3], abs=2e-2)
    end, by = gradients(model, rate // 3, 1 / rate, coordinate("body_q", 0, 0))
    rolling = by["thing.velocity"][0, 0] - by["thing.spin"][0, 2] / RADIUS
    assert rolling == pytest.approx(1 / 3, rel=0.1)


def test_a_box_slides_at_the_angle_of_friction() -> None:
    """On a triangle that no point of is near: it stays below tan a = mu, and slides above."""
    below, above = (after(narrow("box", tilt=t, mu=0.4), 240, iterations=4) for t in (19.0, 26.0))
    assert np.abs(below.body_qd.numpy()[0, :3]).max() < 1e-3
    slope = np.radians(26.0)
    wanted = G * (np.sin(slope) - 0.4 * np.cos(slope)) * 0.25
    assert above.body_qd.numpy()[0, 0] == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box"])
def test_a_cloth_with_larger_cells_catches_it(kind: str) -> None:
    """Dropped between its points, it lies in the cloth a second later, where nothing but its triangles holds it."""
    model = narrow(kind, cells=2, held="edge", at=(0.12, 0.05, 0.09), turned=TURNED)
    assert not narrow_shapes(model)
    end = after(model, 960, iterations=2)
    q, x = end.body_q.numpy()[0], end.particle_q.numpy()
    assert q[1] > x[:, 1].min() and np.abs(q[[0, 2]]).max() < 0.2
    assert np.abs(end.body_qd.numpy()[0, :3]).max() < 0.4


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box"])
def test_momenta_are_kept(kind: str) -> None:
    """Thrown at a free cloth all but without a thickness, which makes a couple of friction, and without forces of its
    own; it gives back less than it gets."""
    model = narrow(kind, cells=2, held="", gravity=0.0, at=(0.1, 0.02, 0.06), velocity=(0.4, -2, 0.1), spin=(3, 2, 1),
                   turned=TURNED, bounce=0.3, thickness=1e-8, stretch=False)  # fmt: skip
    begun, ended = (integrals(model, s) for s in (model.state(), after(model, 40)))
    np.testing.assert_allclose(ended[0], begun[0], rtol=0, atol=3e-10)
    assert 0.1 * begun[1] < ended[1] < 0.9 * begun[1]


def integrals(model: sim.Model, state: sim.State) -> tuple[np.ndarray, float]:
    """Momenta (6,) and kinetic energy of the body and the particles."""
    q, qd, mass = state.body_q.numpy()[0], state.body_qd.numpy()[0], model.body_mass.numpy()[0]
    x, v, m = state.particle_q.numpy(), state.particle_qd.numpy(), model.particle_mass.numpy()[:, None]
    turn = rotation_from_quaternion(q[3:])
    spin = turn @ model.body_inertia.numpy()[0] @ turn.T @ qd[3:]
    angular = spin + np.cross(q[:3], mass * qd[:3]) + np.cross(x, m * v).sum(axis=0)
    energy = 0.5 * (mass * qd[:3] @ qd[:3] + qd[3:] @ spin + (m * v**2).sum())
    return np.concatenate([mass * qd[:3] + (m * v).sum(axis=0), angular]), float(energy)


@pytest.mark.parametrize(
    "kind, bounce",
    [("sphere", None), *(pytest.param(k, 0.3, marks=pytest.mark.slow) for k in ("sphere", "capsule", "box"))],
)
def test_derivatives(kind: str, bounce: float | None) -> None:
    """By friction, restitution and the size, of where something is that hits a cloth, spins and slides, against
    differences."""
    thrown = {"cells": 2, "held": "edge", "at": (0.1, 0.01, 0.06), "velocity": (0.4, -2, 0.1), "spin": (3, 2, 9),
              "turned": TURNED, "bounce": bounce, "mu": 0.02}  # fmt: skip
    _, of = gradients(narrow(kind, **thrown), 60, 1 / 960, coordinate("body_q", 0, 0))

    def slope(key: str) -> float:
        ends = [after(narrow(kind, **thrown | {key: thrown[key] + s * 1e-6}), 60) for s in (1, -1)]
        return float(ends[0].body_q.numpy()[0, 0] - ends[1].body_q.numpy()[0, 0]) / 2e-6

    assert abs(of["thing.hull.mu"][0]) > 1e-4
    assert of["thing.hull.mu"][0] == pytest.approx(slope("mu"), rel=1e-6, abs=1e-9)
    if bounce is not None:
        assert of["thing.hull.restitution"][0] == pytest.approx(slope("bounce"), rel=1e-6, abs=1e-9)


def test_worlds_side_by_side_are_alike() -> None:
    """Each as it is alone, to the last bit."""
    found = []
    for worlds in (1, 3):
        builder = sim.ModelBuilder(gravity=(0.5, -G, 0))
        builder.add_cloth_mesh(vertices=[[-1, 0, -1], [1, 0, -1], [0, 0, 2]], indices=[0, 2, 1], density=0.2,
                               thickness=THICK, label="sheet")  # fmt: skip
        add(builder, builder.add_body([0, 0.05, 0], label="thing"), None, "capsule", 0.03, Config(mu=0.3))
        model = (builder.replicate(worlds) if worlds > 1 else builder).finalize(dtype=sim.float64)
        found.append(after(model, 60).body_q.numpy())
    assert found[0][0, 1] < 0.04
    for k in range(3):
        np.testing.assert_array_equal(found[1][k], found[0][0])


def test_one_of_the_world_holds_a_cloth() -> None:
    """A pole under the middle of a triangle, round as rubbed or not: the cloth hangs on it."""
    for mu in (None, 0.5):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        builder.add_cloth_mesh(vertices=[[-1, 0, -1], [1, 0, -1], [0, 0, 2]], indices=[0, 2, 1], density=0.2,
                               thickness=THICK, label="sheet")  # fmt: skip
        builder.add_shape_sphere((0.0, -0.03 - THICK, 0.0), 0.03, cfg=Config(mu=mu), label="pole")
        model = builder.finalize(dtype=sim.float64)
        end = after(model, 96)
        np.testing.assert_allclose(end.particle_q.numpy()[:, 1], 0.0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sphere", "capsule", "box"])
def test_random_throws(kind: str) -> None:
    """Nothing comes through unseen, and none gains energy; some roll off over the border."""
    rng, stayed = np.random.default_rng(7), 0
    for _ in range(12):
        q, at = rng.normal(size=4), rng.uniform(-0.15, 0.15, 2)
        model = narrow(
            kind, cells=int(rng.integers(2, 5)), held="edge", at=(at[0], 0.06, at[1]),
            velocity=rng.uniform(-1, 1, 3) * [1, 2, 1], spin=rng.uniform(-10, 10, 3), turned=q / np.linalg.norm(q),
            mu=rng.uniform(0, 0.8), bounce=rng.uniform(0, 0.9), radius=rng.uniform(0.01, 0.03),
        )  # fmt: skip
        try:
            end = after(model, 360, iterations=2)
        except ContactError:  # a corner may come further in a step than the cloth is thick
            assert kind == "box"
            continue
        assert energy(model, end) < energy(model, model.state())
        place = end.body_q.numpy()[0, :3]
        if np.abs(place[[0, 2]]).max() < 0.4:
            stayed += 1
            assert place[1] > end.particle_q.numpy()[:, 1].min()
    assert stayed > 6


def energy(model: sim.Model, state: sim.State) -> float:
    """Kinetic, and of gravity [J]."""
    heights = model.particle_mass.numpy() @ state.particle_q.numpy()[:, 1]
    return integrals(model, state)[1] + G * float(model.body_mass.numpy()[0] * state.body_q.numpy()[0, 1] + heights)


def test_what_comes_through_in_a_step_is_an_error() -> None:
    """Beside the triangle as the step begins, and beyond it as it ends; nothing that is over it comes through."""
    fast = narrow(at=(-0.39, 0.05, 0.03), velocity=(-40.0, -60.0, 0.0), held="all")
    back = narrow(at=(-0.43, 0.05, 0.03), velocity=(40.0, -60.0, 0.0), held="all")
    after(fast, 2, 480)
    with pytest.raises(ContactError, match="a triangle or an edge at point .* has come through 'thing.hull'"):
        after(back, 2, 480)


def test_who_begins_through_a_cloth_meets_its_points() -> None:
    """As before, with a warning: on which side it is to be nobody can say.  Wide shapes meet points alone too."""
    names = [set(narrow(k, at=(0.05, -0.02, 0.03)).constraint_sets) for k in ("sphere", "capsule", "box")]
    assert not any(name.endswith("ppp") for found in names for name in found)
    assert narrow_shapes(narrow(at=(0.05, -0.02, 0.03)))
    assert "contact_ball_triangle@appp" not in narrow(radius=0.6).constraint_sets
    assert "contact_ball_triangle@appp" not in narrow("box", thickness=0.0).constraint_sets


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_neighbours_on_a_ridge_go_alike() -> None:
    """A corner over a ridge is nearest to the edge of two triangles, whose contacts are one: the second bears the
    rounding of zero, and whether it remembered an impact went by the sign of that."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    places = [[-0.2, 0, 0], [0.2, 0, 0], [0, -0.06, 0.2], [0, -0.06, -0.2]]
    stretch = {"distance": {"compliance": 1e-4, "damping": 1e-3}}
    builder.add_cloth_mesh(vertices=places, indices=[0, 2, 1, 0, 1, 3], density=0.3, thickness=THICK, label="roof",
                           material=stretch)  # fmt: skip
    builder.add_attachment(builder.groups["roof"].points[2:], label="eaves")
    turn = np.array([0.2, 0.1, 0.3, 0.9])
    pose = [0.01, 0.045, 0.0005, *(turn / np.linalg.norm(turn))]
    cube = builder.add_body(pose, label="thing", velocity=(0.1, -0.5, 0), spin=(0, 0, 2))
    builder.add_shape_box(cube, None, RADIUS, RADIUS, RADIUS, cfg=Config(mass=0.3, mu=0.3))
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    _, of = gradients(model, 80, 1 / 480, coordinate("body_q", 0, 0))
    solver, spin, places = sim.SolverXPBD(model), model["thing.spin"], []
    for k in range(-4, 5):
        spin.assign([[0, 0, 2 + k * 1e-7]])
        places.append(sim.rollout(solver, model.state(), 80, 1 / 480).final.body_q.numpy()[0, 0])
    np.testing.assert_allclose(np.diff(places) / 1e-7, of["thing.spin"][0, 2], rtol=1e-4)
