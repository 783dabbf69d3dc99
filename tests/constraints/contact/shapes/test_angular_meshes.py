"""Meshes against boxes and each other, by vertices and by edges: as boxes of the same size, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES, coordinate, gradients, integrals

import sim
from sim.model.collision.detection import ContactError

Config = sim.ModelBuilder.ShapeConfig
HALF, OTHER = (0.12, 0.05, 0.08), (0.07, 0.09, 0.05)


def add(builder: sim.ModelBuilder, kind: str, body: int, half: tuple[float, ...], rough: object) -> None:
    if kind == "mesh":
        builder.add_shape_mesh(body, None, vertices=CORNERS, indices=FACES, scale=half, cfg=rough, label="hull")
    else:
        builder.add_shape_box(body, None, *half, cfg=rough, label="hull")


def rammed(
    kinds: tuple[str, str], seed: int, mu: float = 0.3, bounce: float | None = 0.4, half: tuple[float, ...] = HALF
) -> sim.Model:
    """Two blocks, meshes or boxes, that fly towards each other, turned and turning at random."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for k, kind in enumerate(kinds):
        q = rng.normal(size=4)
        place = np.array([0.5 * k - 0.25, 0, 0]) + rng.uniform(-0.04, 0.04, 3)
        v = np.array([1.0 - 2 * k, 0, 0]) + rng.uniform(-0.2, 0.2, 3)
        builder.add_body(
            [*place, *(q / np.linalg.norm(q))], label=f"b{k}", velocity=tuple(v), spin=rng.uniform(-3, 3, 3)
        )
        add(builder, kind, k, (half, OTHER)[k], Config(density=500.0, mu=mu, restitution=bounce))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def flown(model: sim.Model) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 240).final


@pytest.mark.parametrize("kinds", [("mesh", "box"), ("mesh", "mesh")])
def test_meshes_collide_as_boxes(kinds: tuple[str, str]) -> None:
    """Momenta to rounding, and places and turns of what meets once: by a corner, and where two edges cross."""
    for seed in (0, 1, 2, 4, 5):
        model, boxes = rammed(kinds, seed), rammed(("box", "box"), seed)
        end = flown(model)
        (begun, energy), (ended, left) = integrals(model.state(), model), integrals(end, model)
        np.testing.assert_allclose(ended, begun, rtol=0, atol=1e-12)
        assert left < 0.98 * energy
        np.testing.assert_allclose(end.body_q.numpy(), flown(boxes).body_q.numpy(), rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kinds, seed", [(("mesh", "box"), 4), (("mesh", "mesh"), 1)])
@pytest.mark.parametrize("bounce", [None, 0.4])
def test_derivatives(kinds: tuple[str, str], seed: int, bounce: float | None) -> None:
    """Of where the second is after the collision, by friction and all sizes of the first, against differences."""
    given = {"mu": 0.1, "bounce": bounce}
    _, of = gradients(rammed(kinds, seed, **given), 60, 1 / 240, coordinate("body_q", 1, 1))

    def slope(key: str, up: object, down: object) -> float:
        ends = [flown(rammed(kinds, seed, **given | {key: value})).body_q.numpy()[1, 1] for value in (up, down)]
        return float(ends[0] - ends[1]) / 2e-6

    found = sum(of[f"b{k}.hull.mu"][0] for k in range(2))
    assert abs(found) > 1e-3
    assert found == pytest.approx(slope("mu", 0.1 + 1e-6, 0.1 - 1e-6), rel=1e-6, abs=1e-8)
    for k in range(3):
        sizes = [tuple(h + sign * 1e-6 * (j == k) for j, h in enumerate(HALF)) for sign in (1, -1)]
        assert of["b0.hull.scale"][0, k] == pytest.approx(slope("half", *sizes), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("kinds", [("mesh", "box"), ("box", "mesh"), ("mesh", "mesh")])
def test_one_stands_on_the_other(kinds: tuple[str, str]) -> None:
    """Over the edge by two fifths of its width, for a second, in two worlds: nowhere is a corner on a corner."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_ground_plane()
    for k, kind in enumerate(kinds):
        builder.add_body([0.02 * k, 0.05 + 0.1 * k, 0.014 * k], label=f"b{k}")
        add(builder, kind, k, (0.05, 0.05, 0.05), Config(density=500.0, mu=0.5))
    model = builder.replicate(2).finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy(), model.state().body_q.numpy(), rtol=0, atol=3e-5)


def beams(height: float, speed: float = 0.0, turns: float = 0.0) -> sim.Model:
    """A beam on, or above, another one that it crosses, which is in the world: no vertex of either is near."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    rough = Config(density=500.0, mu=0.5)
    turned = (0, -0.0282843, 0, *(np.sin(np.pi / 8), 0, 0, np.cos(np.pi / 8)))  # along x, an edge up
    builder.add_shape_mesh(-1, turned, vertices=CORNERS, indices=FACES, scale=(0.2, 0.02, 0.02), cfg=rough,
                           label="below")  # fmt: skip
    body = builder.add_body([0.0, height, 0.0, 0, 0, 0, 1], label="above", velocity=(0, speed, 0), spin=(0, 0, turns))
    builder.add_shape_box(body, None, 0.02, 0.02, 0.2, cfg=rough, label="hull")
    return builder.finalize(dtype=sim.float64)


def test_a_beam_lies_across_an_edge() -> None:
    """Held where two edges of it cross that of the other."""
    model = beams(0.02)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 48, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy(), model.state().body_q.numpy(), rtol=0, atol=3e-5)


@pytest.mark.parametrize("speed", [-30.0, -80.0])
def test_a_fast_beam_is_stopped(speed: float) -> None:
    """By edges alone, in a step in which it comes four times as far as it is high."""
    model = beams(0.04, speed)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 12, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy(), beams(0.02).state().body_q.numpy(), rtol=0, atol=2e-4)


def test_what_comes_through_or_begins_inside_is_an_error() -> None:
    """By edges alone, too."""
    with pytest.raises(sim.ModelError, match=r"begin 0.0\d+ m inside of each other"):
        beams(0.0)
    model = beams(0.04, -60.0, 60.0)
    with pytest.raises(ContactError, match="come through"):
        sim.rollout(sim.SolverXPBD(model), model.state(), 12, 1 / 480)


def test_every_row_of_three_meshes_is_found_by_its_label() -> None:
    """Pairs of the same kinds of shapes had one label, so that errors and reports looked for a row in vain."""
    builder = sim.ModelBuilder()
    for k, kind in enumerate(("mesh", "mesh", "capsule", "box")):
        builder.add_body([0.5 * k, 0, 0], label=f"b{k}")
        if kind == "capsule":
            builder.add_shape_capsule(k, None, 0.05, 0.1, cfg=Config(density=500.0), label="hull")
        else:
            add(builder, kind, k, HALF, Config(density=500.0))
    for made in builder.finalize(dtype=sim.float64).constraint_sets.values():
        rows = np.concatenate([np.zeros(0, int), *made.index_of.values()])
        np.testing.assert_array_equal(np.sort(rows), np.arange(made.count))
