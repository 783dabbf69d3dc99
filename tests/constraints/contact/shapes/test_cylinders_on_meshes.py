"""Cylinders against what closed surfaces of triangles enclose: closed forms, as on boxes, collisions, derivatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES, coordinate, gradients, integrals

import sim
from sim.geometry import rotation_from_quaternion
from sim.model.collision.detection import ContactError

Config = sim.ModelBuilder.ShapeConfig
G, RADIUS, HEIGHT = 9.81, 0.05, 0.08
LYING = (0.0, 0.0, 0.0, 1.0)
STANDING = (np.sin(-np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4))  # z to y
BLOCK = (0.12, 0.05, 0.08)

L = np.array([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]]) - 0.8
L_CORNERS = np.array([[*p, z] for z in (-2.0, 2.0) for p in L])
L_FACES = [[6 + a, 6 + b, 6 + c] for a, b, c in ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5))]
L_FACES += [[a, c, b] for a, b, c in ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5))]
L_FACES += [f for i in range(6) for j in [(i + 1) % 6] for f in ([i, j, 6 + j], [i, 6 + j, 6 + i])]
"""A prism along z whose section is an L, its notch towards x and y."""


def on_table(
    solid: str, pose: tuple[float, ...], slope: float = 0.0, edge: float = 0.5, mu: float = 0.6, bounce: float = 0.0,
    **motion: tuple[float, ...]
) -> sim.Model:  # fmt: skip
    """A full cylinder on a table of the world, a mesh or a box, that ends `edge` from its middle."""
    builder = sim.ModelBuilder(gravity=(G * np.sin(slope), -G * np.cos(slope), 0))
    body = builder.add_body(pose, label="can", **motion)
    cfg = Config(density=800.0, mu=mu, restitution=bounce)
    builder.add_shape_cylinder(body, None, RADIUS, HEIGHT, cfg=cfg, label="hull")
    half, at = (edge, 0.1, edge), (0, -0.1, 0)
    if solid == "mesh":
        builder.add_shape_mesh(-1, at, vertices=CORNERS, indices=FACES, scale=half, cfg=cfg, label="table")
    else:
        builder.add_shape_box(-1, at, *half, cfg=cfg, label="table")
    return builder.finalize(dtype=sim.float64)


def test_one_rolls_down_a_mesh() -> None:
    """a = 2/3 g sin(slope) along it, without a bump, over its triangles."""
    slope, time = 0.3, 0.4
    model = on_table("mesh", (0, RADIUS, 0, *LYING), slope)
    end = sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), 384, time / 384).final
    way, rate = 1 / 3 * G * np.sin(slope) * time**2, end.body_qd.numpy()[0]
    assert end.body_q.numpy()[0, 0] == pytest.approx(way, rel=5e-3)
    assert -rate[5] * RADIUS == pytest.approx(rate[0], rel=1e-3)
    assert end.body_q.numpy()[0, 1] == pytest.approx(RADIUS, abs=1e-6)


def test_a_fast_one_rolls_on() -> None:
    """Places of its rims come down beside the lowest one, which is no impact: else it lost a fifth of its speed."""
    motion = {"velocity": (1.5, 0, 0), "spin": (0, 0, -1.5 / RADIUS)}
    model = on_table("mesh", (0, RADIUS, 0, *LYING), edge=2.0, mu=0.3, bounce=0.8, **motion)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 96, 1 / 120).final
    assert end.body_qd.numpy()[0, [0, 5]] == pytest.approx([1.5, -30.0], rel=6e-3)
    assert end.body_q.numpy()[0, 1] == pytest.approx(RADIUS, abs=1e-5)


def test_one_slides_on_its_end_as_on_a_box() -> None:
    """v = v_0 - mu g t."""
    model = on_table("mesh", (0, HEIGHT, 0, *STANDING), mu=0.2, velocity=(0.5, 0, 0))
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 96, 1 / 480).final
    assert end.body_qd.numpy()[0, 0] == pytest.approx(0.5 - 0.2 * G * 0.2, rel=2e-3)
    assert end.body_q.numpy()[0, 1] == pytest.approx(HEIGHT, abs=1e-5)


@pytest.mark.parametrize(("beyond", "falls"), [(-0.005, False), (0.005, True)])
def test_one_tips_over_the_edge(beyond: float, falls: bool) -> None:
    """Where its centre is beyond it; the edge crosses its flat end, and stays outside of it."""
    model = on_table("mesh", (0.5 + beyond, HEIGHT, 0, *STANDING))
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 160, 1 / 480).final
    q = end.body_q.numpy()[0]
    seen = rotation_from_quaternion(q[3:]).T @ (np.array([0.5, 0, 0]) - q[:3])
    assert min(RADIUS - np.hypot(*seen[:2]), HEIGHT - abs(seen[2])) < 1e-4
    assert (abs(rotation_from_quaternion(q[3:])[1, 2]) < 0.9) == falls


@pytest.mark.parametrize("solid", ["mesh", "box"])
def test_one_rolls_slowly_over_an_edge_along_it(solid: str) -> None:
    """Held by the edge at both rims, which come no deeper, until it leaves; it turns about the edge: by the energy,
    (1/2 + 1) m r^2 w^2 / 2 = m g r (1 - cos) + what it had, as long as it does not slip."""
    speed = 0.1
    model = on_table(solid, (0.49, RADIUS, 0, *LYING), velocity=(speed, 0, 0), spin=(0, 0, -speed / RADIUS))
    solver, state, deepest, angle = sim.SolverXPBD(model, iterations=4), model.state(), 0.0, 0.0
    for _ in range(80):
        state = sim.rollout(solver, state, 4, 1 / 960).final
        beyond = state.body_q.numpy()[0, :2] - [0.5, 0.0]
        if beyond[0] > 0.0:
            deepest = max(deepest, RADIUS - float(np.hypot(*beyond)))
            angle = float(np.arctan2(*beyond))
        if angle > 0.4:
            break
    assert deepest < 1e-5 and angle > 0.4
    spin = np.sqrt((speed / RADIUS) ** 2 + 4 / 3 * G / RADIUS * (1 - np.cos(angle)))
    assert -state.body_qd.numpy()[0, 5] == pytest.approx(spin, rel=1e-2)


def test_one_lies_in_a_notch() -> None:
    """Each rim on two faces at once, in two worlds: at rest for half a second, a root of two radii from the corner."""
    builder = sim.ModelBuilder(gravity=(-G, -G, 0))
    cfg = Config(density=500.0, mu=0.5)
    builder.add_shape_mesh(-1, None, vertices=L_CORNERS, indices=L_FACES, scale=0.2, cfg=cfg, label="angle")
    body = builder.add_body([0.04 + RADIUS, 0.04 + RADIUS, 0.03], label="can")
    builder.add_shape_cylinder(body, None, RADIUS, HEIGHT, cfg=cfg, label="hull")
    model = builder.replicate(2).finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy(), model.state().body_q.numpy(), rtol=0, atol=2e-5)


@pytest.mark.parametrize(("pose", "top"), [(LYING, RADIUS), (STANDING, HEIGHT)])
def test_a_cube_falls_on_one_and_stays(pose: tuple[float, ...], top: float) -> None:
    """A mesh of 4 cm on a cylinder that is held, on its side across it, or on its end."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    cfg = Config(density=500.0, mu=0.8)
    builder.add_shape_cylinder(-1, (0, 0, 0, *pose), RADIUS, HEIGHT, cfg=cfg, label="can")
    cube = builder.add_body([0.0, top + 0.02 + 0.05, 0.0], label="cube")
    builder.add_shape_mesh(cube, None, vertices=CORNERS, indices=FACES, scale=0.02, cfg=cfg, label="hull")
    model = builder.finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 240, 1 / 480).final
    np.testing.assert_allclose(end.body_q.numpy()[0, :3], [0, top + 0.02, 0], rtol=0, atol=2e-4)
    assert np.abs(end.body_qd.numpy()).max() < 2e-2


def rammed(
    kind: str, seed: int, mu: float = 0.3, bounce: float | None = 0.4, half: tuple[float, ...] = BLOCK,
    radius: float = RADIUS, half_height: float = HEIGHT, worlds: int = 1,
) -> sim.Model:  # fmt: skip
    """A box, or a mesh of a block or an L, and a cylinder that fly towards each other, turned and turning at random."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for k in range(2):
        q = rng.normal(size=4)
        place = np.array([0.5 * k - 0.25, 0, 0]) + rng.uniform(-0.04, 0.04, 3)
        v = np.array([1.0 - 2 * k, 0, 0]) + rng.uniform(-0.2, 0.2, 3)
        pose = [*place, *(q / np.linalg.norm(q))]
        builder.add_body(pose, label=f"b{k}", velocity=tuple(v), spin=rng.uniform(-3, 3, 3))
    cfg = Config(density=500.0, mu=mu, restitution=bounce)
    if kind == "box":
        builder.add_shape_box(0, None, *half, cfg=cfg, label="hull")
    else:
        form = {"block": (CORNERS, FACES, half), "L": (L_CORNERS * [1, 1, 0.25], L_FACES, 0.06)}[kind]
        builder.add_shape_mesh(0, None, vertices=form[0], indices=form[1], scale=form[2], cfg=cfg, label="hull")
    builder.add_shape_cylinder(1, None, radius, half_height, cfg=cfg, label="hull")
    if worlds > 1:
        builder = builder.replicate(worlds)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def flown(model: sim.Model) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 240).final


def depth_of_edges(state: sim.State, half: np.ndarray) -> float:
    """How deep edges of a block are in the cylinder."""
    q = state.body_q.numpy()
    own = rotation_from_quaternion(q[1, 3:])
    ends = [(a, b) for a in CORNERS for b in CORNERS if np.abs(a - b).sum() == 2.0]
    places = np.array([(1 - s) * a + s * b for a, b in ends for s in np.linspace(0, 1, 41)]) * half
    seen = (q[0, :3] + places @ rotation_from_quaternion(q[0, 3:]).T - q[1, :3]) @ own
    return float(np.min([RADIUS - np.hypot(seen[:, 0], seen[:, 1]), HEIGHT - np.abs(seen[:, 2])], axis=0).max())


@pytest.mark.parametrize(("kind", "seeds"), [("block", range(4)), ("L", range(4)), ("box", (25, 41))])
def test_collisions_keep_momenta_and_gain_no_energy(kind: str, seeds: Sequence[int]) -> None:
    """Where rims met edges of a box as seen along the axis, one of these gained as much energy as there was."""
    for seed in seeds:
        model = rammed(kind, seed)
        (begun, energy), (ended, left) = (integrals(s, model) for s in (model.state(), flown(model)))
        np.testing.assert_allclose(ended, begun, rtol=0, atol=1e-12)
        assert left < (1 + 1e-9) * energy, seed
        assert left < 0.999 * energy or kind == "L", seed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "box"])
@pytest.mark.parametrize(("bounce", "mu"), [(0.4, 0.3), (1.0, 0.5)])
def test_a_hundred_collisions(bounce: float, mu: float, kind: str) -> None:
    """At 240 Hz.  Deepest found: .6 mm; most energy gained: 2e-5 of it, by what spins in steps of that length."""
    hit = 0
    for seed in range(100):
        model = rammed(kind, seed, mu, bounce)
        solver, state = sim.SolverXPBD(model), model.state()
        begun, least = integrals(state, model)
        energy = least
        for _ in range(15):
            state = sim.rollout(solver, state, 4, 1 / 240).final
            momenta, now = integrals(state, model)
            np.testing.assert_allclose(momenta, begun, rtol=0, atol=1e-12)
            assert now < (1 + 5e-5) * least, seed
            assert depth_of_edges(state, np.array(BLOCK)) < 1e-3, seed
            least = min(least, now)
        hit += least < 0.9999 * energy
    assert hit > 90


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed", "bounce"), [("block", 0, 0.4), ("block", 4, None), ("block", 2, 0.4),
                                                      ("L", 1, None), ("L", 2, 0.4)])  # fmt: skip
def test_derivatives(kind: str, seed: int, bounce: float | None) -> None:
    """Of where the cylinder is after a collision, by friction and all sizes, against differences."""
    given = {"mu": 0.1, "bounce": bounce}
    _, of = gradients(rammed(kind, seed, **given), 60, 1 / 240, coordinate("body_q", 1, 1))

    def slope(key: str, up: object, down: object) -> float:
        ends = [flown(rammed(kind, seed, **given | {key: value})).body_q.numpy()[1, 1] for value in (up, down)]
        return float(ends[0] - ends[1]) / 2e-6

    friction = sum(of[f"b{k}.hull.mu"][0] for k in range(2))
    assert abs(friction) > 1e-3
    assert friction == pytest.approx(slope("mu", 0.1 + 1e-6, 0.1 - 1e-6), rel=1e-6, abs=1e-8)
    for key, name, value in (("radius", "radius", RADIUS), ("half_height", "half_height", HEIGHT)):
        found = slope(name, value + 1e-6, value - 1e-6)
        assert of[f"b1.hull.{key}"][0] == pytest.approx(found, rel=1e-6, abs=1e-8)
    for k in range(3 if kind == "block" else 0):
        sizes = [tuple(h + sign * 1e-6 * (j == k) for j, h in enumerate(BLOCK)) for sign in (1, -1)]
        assert of["b0.hull.scale"][0, k] == pytest.approx(slope("half", *sizes), rel=1e-6, abs=1e-8)


@pytest.mark.slow
def test_threads_checkpoints_and_worlds_change_no_bit() -> None:
    before, results = sim.get_num_threads(), []
    ways = [(sim.StoreAll(), 1, 1), (sim.Checkpointed(every=7), 1, 1), (sim.StoreAll(), 2, 1), (sim.StoreAll(), 1, 2)]
    try:
        for strategy, threads, worlds in ways:
            sim.set_num_threads(threads)
            model = rammed("block", 2, worlds=worlds)
            with sim.Tape() as tape:
                found = sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 240, strategy=strategy).final
            weight = np.zeros((2 * worlds, 7))
            weight[worlds:, 1] = 1.0
            tape.backward(grads={found.body_q: sim.array(weight, dtype=found.body_q.dtype)})
            values = [
                model.materials[f"b{k}.hull.{key}"].grad.numpy()[:1] for k in range(2) for key in ("mu", "density")
            ]
            results.append([found.body_q.numpy()[::worlds], *(value.copy() for value in values)])
    finally:
        sim.set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def thrown(half: tuple[float, ...], speed: float, pose: tuple[float, ...] = LYING) -> sim.State:
    """A cylinder thrown down at a block of the world, a mesh."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_shape_mesh(-1, None, vertices=CORNERS, indices=FACES, scale=half, label="block")
    body = builder.add_body([0.013, 0.2, 0.007, *pose], label="can", velocity=(0, -speed, 0))
    builder.add_shape_cylinder(body, None, RADIUS, HEIGHT, label="hull")
    model = builder.finalize(dtype=sim.float64)
    return sim.rollout(sim.SolverXPBD(model), model.state(), 3 + int(200 / speed), 1 / 480).final


def test_a_fast_one_is_stopped_or_an_error() -> None:
    """By a plate and a beam of 4 mm."""
    for half in ((0.3, 0.002, 0.3), (0.3, 0.002, 0.002)):
        assert thrown(half, 10.0).body_q.numpy()[0, 1] == pytest.approx(RADIUS + 0.002, abs=6e-3)
    turned = np.array([0.3, 0.2, -0.1, 0.9]) / np.linalg.norm([0.3, 0.2, -0.1, 0.9])
    for speed in (120.0, 300.0):
        with pytest.raises(ContactError, match="come through"):
            thrown((0.3, 0.002, 0.002), speed, tuple(turned))


@pytest.mark.parametrize(("place", "half"), [
    ((0, 0.03, 0), (0.5, 0.1, 0.5)), ((0, -0.1, 0), (0.5, 0.01, 0.5)), ((0, -0.1, 0), (0.3, 0.005, 0.005)),
    ((0.53, 0.03, 0), (0.5, 0.1, 0.5)),
])  # fmt: skip
def test_what_begins_inside_is_refused(place: tuple[float, ...], half: tuple[float, ...]) -> None:
    """Its rims, a plate or a needle through it, an edge in its side."""
    builder = sim.ModelBuilder()
    builder.add_shape_mesh(-1, (0, -0.1, 0), vertices=CORNERS, indices=FACES, scale=half, label="block")
    body = builder.add_body([*place, *LYING], label="can")
    builder.add_shape_cylinder(body, None, RADIUS, HEIGHT, label="hull")
    with pytest.raises(sim.ModelError, match=r"begin 0.0\d+ m inside of each other"):
        builder.finalize(dtype=sim.float64)
