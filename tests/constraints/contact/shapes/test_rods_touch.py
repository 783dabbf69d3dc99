"""Rods collide where they have a surface: each segment as a capsule of the rod's radius."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
G = 9.81
SOFT = {"density": 1000.0, "young": 1e6, "poisson": 0.3}


def line(start: Any, end: Any, segments: int) -> np.ndarray:
    return np.linspace(start, end, segments + 1)


def lying(slope: float, mu: float, across: bool, radius: float = 0.01) -> sim.Model:
    """A straight rod on a plane that falls towards x, along the slope or across it."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    up, down = np.array([np.sin(slope), np.cos(slope), 0]), np.array([np.cos(slope), -np.sin(slope), 0])
    way = np.array([0.0, 0, 1]) if across else down
    builder.add_rod(radius * up + line(-0.1 * way, 0.1 * way, 4), radius=radius, cfg=Config(mu=mu), label="rod", **SOFT)
    builder.add_shape_plane((*up, 0.0), cfg=Config(mu=mu), label="floor")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def after(model: sim.Model, time: float, steps: int, direct: tuple[str, ...] = ("rod",)) -> sim.State:
    solver = sim.SolverXPBD(model, iterations=8, direct=list(direct))
    return sim.rollout(solver, model.state(), steps, time / steps).final


@pytest.mark.parametrize(
    ("mu", "across", "part"),
    [(0.1, False, "slides"), (0.5, False, "stays"), (0.5, True, "rolls")],
)
def test_one_lies_slides_and_rolls_on_a_slope(mu: float, across: bool, part: str) -> None:
    """g (sin - mu cos) where it slides, 2/3 g sin where it rolls as a cylinder does, and nothing where it sticks."""
    slope, time = 0.3, 0.4
    model = lying(slope, mu, across)
    end = after(model, time, 480)
    down = np.array([np.cos(slope), -np.sin(slope), 0])
    moved = (end.body_q.numpy() - model.body_q.numpy())[:, :3]
    pull = {"slides": np.sin(slope) - mu * np.cos(slope), "stays": 0.0, "rolls": 2 / 3 * np.sin(slope)}[part]
    np.testing.assert_allclose(moved @ down, 0.5 * G * pull * time**2, rtol=4e-3, atol=5e-6)
    np.testing.assert_allclose(end.body_q.numpy()[:, :3] @ [np.sin(slope), np.cos(slope), 0], 0.01, atol=2e-6)


def crossing(touches: Any = None, block: bool = True) -> sim.Model:
    """A soft rod that falls across a stiff one, and a box."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    cfg = Config(mu=0.4, touches=touches)
    builder.add_rod(line((-0.2, 0.0202, 0), (0.2, 0.0202, 0), 6), radius=0.01, cfg=cfg, label="rod", **SOFT)
    bar = {"density": 2000.0, "young": 1e9, "poisson": 0.3, "clamp_start": -1, "clamp_end": -1}
    builder.add_rod(line((0.03, 0, -0.1), (0.03, 0, 0.1), 2), radius=0.01, cfg=Config(mu=0.4), label="bar", **bar)
    if block:
        held = builder.add_body((-0.15, 0.0, 0.0), held=True, label="block")
        builder.add_shape_box(held, None, 0.03, 0.01, 0.03, Config(mu=0.3), label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def test_one_rests_on_a_box_and_on_another() -> None:
    """It bends over what carries it, and nothing of it is inside of anything."""
    model = crossing()
    place = after(model, 0.15, 120, ("rod", "bar")).body_q.numpy()[:6, :3]
    near = np.abs(place[:, 0] - 0.03) < 0.04
    assert (place[near, 1] > 0.015).all()
    assert place[:, 1].min() > -0.25
    free = after(crossing(touches=["block"]), 0.15, 120, ("rod", "bar")).body_q.numpy()[:6, :3]
    assert free[-1, 1] < place[-1, 1] - 0.01


def compared(model: sim.Model, steps: int, direct: list[str], row: int, column: int, names: dict[str, float]) -> None:
    """Derivatives of a coordinate of a body at the end by material values, beside differences of these steps."""
    dt, options = 1 / 600, {"iterations": 4, "direct": direct}
    _, back = gradients(model, steps, dt, coordinate("body_q", row, column), **options)
    solver = sim.SolverXPBD(model, **options)
    for name, step in names.items():
        value, found = model[name].numpy().copy(), []
        for sign in (1.0, -1.0):
            model[name].assign(value + sign * step)
            found.append(sim.rollout(solver, model.state(), steps, dt).final.body_q.numpy()[row, column])
        model[name].assign(value)
        assert back[name].sum() == pytest.approx((found[0] - found[1]) / (2 * step), rel=5e-6), name


def test_derivatives_where_it_slides() -> None:
    compared(lying(0.3, 0.1, across=False), 24, ["rod"], 1, 0, {"rod.radius": 1e-7, "rod.mu": 1e-5, "floor.mu": 1e-5})


@pytest.mark.slow
def test_derivatives_where_it_lies_on_another() -> None:
    names = {"rod.radius": 1e-8, "rod.mu": 1e-4, "bar.radius": 1e-8, "rod.young": 1.0}
    compared(crossing(block=False), 24, ["rod", "bar"], 2, 1, names)


def test_its_segments_do_not_touch_each_other_unless_it_is_named() -> None:
    ring = 0.1 * np.array([[np.cos(a), 0.0, np.sin(a)] for a in np.linspace(0, 2 * np.pi, 25)[:-1]])

    def pairs(touches: Any) -> int:
        builder = sim.ModelBuilder()
        cfg = Config(touches=touches)
        builder.add_rod(ring, radius=0.004, closed=True, cfg=cfg, label="ring", **SOFT)
        sets = builder.finalize().constraint_sets
        return sum(made.count for made in sets.values() if made.constraint.name == "contact_capsule")

    assert pairs(None) == 0
    assert pairs(["ring"]) > 0


def test_what_an_end_is_clamped_in_does_not_push_it() -> None:
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    hand = builder.add_body(held=True, label="hand")
    builder.add_shape_sphere(hand, None, 0.02)
    rod = line((0.015, 0, 0), (0.2, 0, 0), 4)
    builder.add_rod(rod, radius=0.004, clamp_start=hand, cfg=Config(), label="rod", **SOFT)
    model = builder.finalize()
    touching = [made for name, made in model.constraint_sets.items() if name.startswith("contact_capsule")]
    first = builder.bodies["rod"].start
    assert touching and all(first not in made.points.numpy() for made in touching)


def test_a_surface_in_every_world() -> None:
    """Copies of a model fall as it does."""
    ends = []
    for worlds in (1, 2):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        rod = line((-0.1, 0.02, 0), (0.1, 0.03, 0), 4)
        builder.add_rod(rod, radius=0.01, cfg=Config(mu=0.3, touches=["rod"]), label="rod", **SOFT)
        builder.add_ground_plane(cfg=Config(mu=0.3), label="floor")
        if worlds > 1:
            builder.replicate(worlds)
        ends.append(after(builder.finalize(dtype=sim.float64), 0.2, 240).body_q.numpy())
    np.testing.assert_array_equal(ends[1], np.concatenate([ends[0]] * 2))


def test_a_rod_without_a_surface_touches_nothing() -> None:
    builder = sim.ModelBuilder()
    builder.add_rod(line((0, 1, 0), (1, 1, 0), 3), radius=0.01, label="rod", **SOFT)
    builder.add_ground_plane()
    assert builder.shape_count == 1
    assert all(not name.startswith("contact") for name in builder.finalize().constraint_sets)


def test_the_mass_of_its_surface_is_refused() -> None:
    with pytest.raises(sim.ModelError, match="the surface of a rod has a mass"):
        sim.ModelBuilder().add_rod(line((0, 1, 0), (1, 1, 0), 3), radius=0.01, cfg=Config(mass=1.0), **SOFT)
