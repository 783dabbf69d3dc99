"""What closed surfaces of triangles enclose, against points and balls: as the box of the same size, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES, coordinate, gradients, integrals

import sim

Config = sim.ModelBuilder.ShapeConfig
HALF = (0.12, 0.05, 0.08)


def thrown(
    solid: str, what: str, mu: float | None = 0.3, world: bool = False, at: float = 0.05, half: tuple[float, ...] = HALF
) -> sim.Model:
    """A particle or a ball thrown onto a block, a mesh or a box, that turns beneath it: over a face, then its edge."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    rough = Config(density=900.0, mu=mu, restitution=None if mu is None else 0.4)
    q = np.array([0.05, 0.1, 0.02, 1.0]) / np.linalg.norm([0.05, 0.1, 0.02, 1.0])
    body = -1
    pose = (0.0, -0.04, 0.0, *q)
    if not world:
        body = builder.add_body(pose, label="block", velocity=(0, 0.2, 0), spin=(0.3, 0.5, -0.8))
        pose = None
    if solid == "mesh":
        builder.add_shape_mesh(body, pose, vertices=CORNERS, indices=FACES, scale=half, cfg=rough, label="hull")
    else:
        builder.add_shape_box(body, pose, *half, cfg=rough, label="hull")
    if what == "ball":
        ball = builder.add_body([at, 0.08, 0.01], label="ball", velocity=(0.8, -0.5, 0.1), spin=(0, 0, 2.0))
        builder.add_shape_sphere(ball, None, 0.03, cfg=rough, label="hull")
    else:
        builder.add_particle([at, 0.05, 0.01], (0.8, -0.5, 0.1), 0.1)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def end_of(model: sim.Model, steps: int = 70) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), steps, 1 / 480).final


@pytest.mark.parametrize("what, mu, world", [("ball", 0.3, False), ("particle", None, True)])
def test_a_mesh_of_a_box_is_a_box(what: str, mu: float | None, world: bool) -> None:
    """To rounding, over faces, edges and corners."""
    found = []
    for solid in ("mesh", "box"):
        end = end_of(thrown(solid, what, mu, world), 160)
        found.append(np.concatenate([end.body_q.numpy().ravel(), end.particle_q.numpy().ravel()]))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


def test_derivatives_by_the_scale_and_the_surface() -> None:
    """Of where a ball is that has bounced and rolled on it, against differences."""
    row = coordinate("body_q", 1, 0)
    _, of = gradients(thrown("mesh", "ball"), 70, 1 / 480, row, iterations=2)

    def place(**changed: object) -> float:
        return float(end_of(thrown("mesh", "ball", **changed)).body_q.numpy()[1, 0])  # type: ignore[arg-type]

    for k in range(3):
        ends = [place(half=tuple(h + sign * 1e-6 * (j == k) for j, h in enumerate(HALF))) for sign in (1, -1)]
        assert of["block.hull.scale"][0, k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)
    ends = [place(mu=0.3 + sign * 1e-6) for sign in (1, -1)]
    found = of["block.hull.mu"][0] + of["ball.hull.mu"][0]
    assert abs(found) > 1e-3
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def rammed(
    solid: str, seed: int, mu: float = 0.3, bounce: float | None = 0.4, half: tuple[float, ...] = HALF
) -> sim.Model:
    """A capsule and a block, a mesh or a box, that fly towards each other, turned and turning at random."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    rough = Config(density=500.0, mu=mu, restitution=bounce)
    for k in range(2):
        q = rng.normal(size=4)
        place = np.array([0.4 * k - 0.2, 0, 0]) + rng.uniform(-0.04, 0.04, 3)
        v = np.array([1.0 - 2 * k, 0, 0]) + rng.uniform(-0.2, 0.2, 3)
        builder.add_body(
            [*place, *(q / np.linalg.norm(q))], label=f"b{k}", velocity=tuple(v), spin=rng.uniform(-3, 3, 3)
        )
    if solid == "mesh":
        builder.add_shape_mesh(0, None, vertices=CORNERS, indices=FACES, scale=half, cfg=rough, label="hull")
    else:
        builder.add_shape_box(0, None, *HALF, cfg=rough, label="hull")
    builder.add_shape_capsule(1, None, 0.04, 0.08, cfg=rough, label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def flown(model: sim.Model) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 240).final


@pytest.mark.parametrize("seed", range(4))
def test_a_mesh_and_a_capsule_collide_as_a_box_and_one(seed: int) -> None:
    """Momenta to rounding, and the energy that is left."""
    model, box = rammed("mesh", seed), rammed("box", seed)
    (begun, energy), (ended, left) = (integrals(s, model) for s in (model.state(), flown(model)))
    np.testing.assert_allclose(ended, begun, rtol=0, atol=1e-12)
    assert left < 0.98 * energy
    assert left == pytest.approx(integrals(flown(box), box)[1], rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("bounce", [None, 0.4])
def test_derivatives_of_a_mesh_and_a_capsule(bounce: float | None) -> None:
    """Of where the capsule is after the collision, by friction and the size of the mesh, against differences."""
    given = {"mu": 0.1, "bounce": bounce}
    _, of = gradients(rammed("mesh", 2, **given), 60, 1 / 240, coordinate("body_q", 1, 1))

    def slope(key: str, up: object, down: object) -> float:
        ends = [flown(rammed("mesh", 2, **given | {key: value})).body_q.numpy()[1, 1] for value in (up, down)]
        return float(ends[0] - ends[1]) / 2e-6

    found = {"mu": sum(of[f"b{k}.hull.mu"][0] for k in range(2)), "half": of["b0.hull.scale"][0, 0]}
    sizes = [(HALF[0] + sign * 1e-6, *HALF[1:]) for sign in (1, -1)]
    assert min(abs(value) for value in found.values()) > 1e-3
    assert found["mu"] == pytest.approx(slope("mu", 0.1 + 1e-6, 0.1 - 1e-6), rel=1e-6, abs=1e-8)
    # the masses are of the densities: larger is heavier
    assert found["half"] == pytest.approx(slope("half", *sizes), rel=1e-6, abs=1e-8)


def test_what_turns_about_each_other_stays_in_touch() -> None:
    """Without gravity a capsule slides along an edge that goes round with it: nothing jumps by the sign of rounding."""
    ends = [flown(rammed("mesh", 2, 0.1 + k * 1e-9, None)).body_q.numpy() for k in range(4)]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=0, atol=1e-8)


def test_a_pole_lies_across_a_ridge() -> None:
    """A capsule on the edge of a roof in the world: neither its ends nor a vertex is near."""
    corners = [[-1, 0, -0.3], [1, 0, -0.3], [-1, 0, 0.3], [1, 0, 0.3], [-1, 0.2, 0], [1, 0.2, 0]]
    faces = [[0, 1, 3], [0, 3, 2], [0, 4, 5], [0, 5, 1], [2, 3, 5], [2, 5, 4], [0, 2, 4], [1, 5, 3]]
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_shape_mesh(-1, None, vertices=corners, indices=faces, cfg=Config(mu=0.6), label="roof")
    builder.add_shape_capsule(builder.add_body([0, 0.251, 0], label="pole"), None, 0.05, 0.2, cfg=Config(mu=0.6))
    model = builder.replicate(2).finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), 120, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy()[:, :3], [[0, 0.25, 0]] * 2, rtol=0, atol=1e-6)


def test_a_cloth_lies_on_a_ridge() -> None:
    """The roof of a house, a mesh of the world: points hang over both sides, none inside of it."""
    corners = [[-1, 0, -0.3], [1, 0, -0.3], [-1, 0, 0.3], [1, 0, 0.3], [-1, 0.2, 0], [1, 0.2, 0]]
    faces = [[0, 1, 3], [0, 3, 2], [0, 4, 5], [0, 5, 1], [2, 3, 5], [2, 5, 4], [0, 2, 4], [1, 5, 3]]
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_shape_mesh(-1, None, vertices=corners, indices=faces, cfg=Config(mu=0.6), label="roof")
    across = sim.quat_from_axis_angle(sim.vec3(1, 0, 0), np.pi / 2)
    builder.add_cloth_grid(pos=(-0.2, 0.205, -0.2), rot=across, vel=(0, 0, 0), dim_x=4, dim_y=4, cell_x=0.1,
                           cell_y=0.1, mass=0.01, label="sheet")  # fmt: skip
    model = builder.finalize(dtype=sim.float64)
    q = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final.particle_q.numpy()
    height = q[:, 1] - (0.2 - np.abs(q[:, 2]) * 2 / 3)
    assert height.min() > -1e-4 and q[:, 1].min() < 0.15
