"""Shapes of bodies against each other: what rests on what, momenta and energy, derivatives of every pair of kinds."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from tools.physics.contact_worlds import integrals

import sim

Config = sim.ModelBuilder.ShapeConfig
KINDS = ("sphere", "capsule", "box", "cylinder")
PAIRS = list(combinations_with_replacement(KINDS, 2))


def add(builder: sim.ModelBuilder, body: int, kind: str, size: float, config: Config) -> None:
    """A shape of one kind, about as large as a ball of this radius."""
    if kind == "sphere":
        builder.add_shape_sphere(body, None, size, cfg=config, label="hull")
    elif kind == "capsule":
        builder.add_shape_capsule(body, None, 0.4 * size, 0.8 * size, cfg=config, label="hull")
    elif kind == "box":
        builder.add_shape_box(body, None, size, 0.8 * size, 0.6 * size, cfg=config, label="hull")
    else:
        builder.add_shape_cylinder(body, None, size, 0.5 * size, cfg=config, label="hull")


def collision(kinds: tuple[str, ...], seed: int) -> sim.Model:
    """Two bodies that fly towards each other, turned and turning at random."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for k, kind in enumerate(kinds):
        q = rng.normal(size=4)
        place = np.array([0.26 * (2 * k - 1), 0, 0]) + rng.uniform(-0.04, 0.04, 3)
        v = np.array([1.0 - 2 * k, 0, 0]) + rng.uniform(-0.2, 0.2, 3)
        body = builder.add_body(
            [*place, *(q / np.linalg.norm(q))], label=f"b{k}", velocity=tuple(v), spin=tuple(rng.uniform(-3, 3, 3))
        )
        add(builder, body, kind, 0.1, Config(density=500.0, mu=0.3 + 0.1 * k, restitution=0.3 + 0.2 * k))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def flown(model: sim.Model) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), 60, 1 / 240).final


def test_what_lies_across_stays_there() -> None:
    """A plank across another, a capsule across both of its edges, and a ball: no corner is on anything."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    rough = Config(density=700.0, mu=0.5)
    builder.add_ground_plane(0.0, cfg=Config(mu=0.5))
    places = {"low": 0.05, "high": 0.15, "pole": 0.23, "ball": 0.31}
    for name, height in places.items():
        builder.add_body([0, height, 0], label=name)
    builder.add_shape_box(0, None, 0.3, 0.05, 0.08, cfg=rough)
    builder.add_shape_box(1, None, 0.08, 0.05, 0.3, cfg=rough)
    builder.add_shape_capsule(2, (0, 0, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5)), 0.03, 0.3, cfg=rough)
    builder.add_shape_box(3, None, 0.05, 0.05, 0.05, cfg=rough)
    model = builder.finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy()[:, 1], list(places.values()), atol=1e-3)
    assert np.abs(end.body_qd.numpy()[:2]).max() < 0.05


def test_what_does_not_collide() -> None:
    """Bodies of a joint, unless one names the other; what is left out of `touches`."""

    def sets(joint: bool, touches: tuple[str, ...] | None) -> list[str]:
        builder = sim.ModelBuilder()
        for k in range(2):
            builder.add_body([0, 0, k], label=f"b{k}")
            builder.add_shape_sphere(k, None, 0.1, cfg=Config(touches=touches if k else None))
        if joint:
            builder.add_joint_ball(0, 1, [0, 0, 0.5], [0, 0, -0.5])
        return [name for name in builder.finalize().constraint_sets if name.startswith("contact")]

    assert sets(False, None) == sets(True, ("b0",)) == ["contact_points@ab"]
    assert sets(True, None) == sets(False, ()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_collisions_of_two_kinds(kinds: tuple[str, ...]) -> None:
    """Momenta to rounding, energy not gained, and derivatives by all values against differences."""
    for seed in range(3):
        model = collision(kinds, seed)
        place, rate = np.zeros((2, 7)), np.zeros((2, 6))
        place[1, :3], rate[0] = (1.0, 0.7, -0.4), (0.1, 0.2, 0.3, 0.05, -0.02, 0.03)

        def seen(state: sim.State, place: np.ndarray = place, rate: np.ndarray = rate) -> float:
            return float((place * state.body_q.numpy()).sum() + (rate * state.body_qd.numpy()).sum())

        with sim.Tape() as tape:
            end = flown(model)
        tape.backward(grads={getattr(end, name): sim.array(w, dtype=getattr(end, name).dtype)
                             for name, w in (("body_q", place), ("body_qd", rate))})  # fmt: skip
        before, after = integrals(model.state(), model), integrals(end, model)
        np.testing.assert_allclose(after[0], before[0], atol=1e-12)
        assert after[1] < before[1]
        for path, values in model.materials.items():
            if values.grad is None or path == "gravity":
                continue
            found, value = values.grad.numpy(), values.numpy().copy()
            k = int(np.abs(found).argmax())
            step, sides = 1e-6 * max(1.0, abs(value.flat[k])), []
            for sign in (1.0, -1.0):
                moved = value.copy()
                moved.flat[k] += sign * step
                values.assign(moved)
                sides.append(seen(flown(model)))
            values.assign(value)
            difference = (sides[0] - sides[1]) / (2 * step)
            assert found.flat[k] == pytest.approx(difference, rel=1e-5, abs=1e-8), (path, seed)


@pytest.mark.parametrize(
    "kind, other, apart", [("box", "box", 0.1), ("capsule", "sphere", 0.05), ("box", "capsule", 0)]
)
def test_what_begins_inside_is_said(kind: str, other: str, apart: float) -> None:
    builder = sim.ModelBuilder()
    for k, name in enumerate((kind, other)):
        body = builder.add_body([0, apart * k, 0], label=f"b{k}")
        add(builder, body, name, 0.1, Config())
    with pytest.raises(sim.ModelError, match=r"b0.hull and b1.hull begin 0\.\d+ m inside of each other"):
        builder.finalize()


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
def test_what_begins_in_the_floor_is_said(kind: str) -> None:
    builder = sim.ModelBuilder()
    add(builder, builder.add_body([0, 0.05, 0], label="b"), kind, 0.1, Config())
    builder.add_ground_plane(0.0, label="floor")
    with pytest.raises(sim.ModelError, match=r"b.hull and floor begin 0.05 m inside of each other"):
        builder.finalize()
