"""How near shapes have to be to be looked at follows from how deep they are predicted in each other, world by world."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.solvers.near.lanes import NearContacts

Config = sim.ModelBuilder.ShapeConfig
HALF, GAP, RATE = 0.05, 0.004, 600
MOST, LEAST = 0.1 * HALF, 0.01 * HALF


def near(solver: sim.SolverXPBD) -> NearContacts:
    assert solver.friction.near is not None
    return solver.friction.near


def steps(model: sim.Model, count: int) -> tuple[NearContacts, sim.State]:
    """What the last of some steps has looked at, and where it has led."""
    solver, a, b = sim.SolverXPBD(model, iterations=2), model.state(), model.state()
    for _ in range(count):
        solver.step(a, b, None, None, 1 / RATE)
        a, b = b, a
    return near(solver), a


def row_of_boxes(builder: sim.ModelBuilder, speed: float = 0.0, margin: float | None = None) -> None:
    """Three boxes side by side on a plane, a gap between each, and a fourth one that comes along."""
    config = Config(density=700.0, mu=0.5)
    builder.add_ground_plane(0.0, cfg=config)
    for k in range(4):
        along = k * (2 * HALF + GAP) + (0.03 if k == 3 else 0.0)
        builder.add_body([along, HALF, 0], velocity=(-speed if k == 3 else 0, 0, 0), label=f"b{k}")
        builder.add_shape_box(k, None, HALF, HALF, HALF, cfg=config)
    builder.detect_bodies(margin)


def test_neighbours_at_rest_are_not_looked_at() -> None:
    """They are 4 mm apart, nearer than a collision might push them, and further than rest does."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    row_of_boxes(builder)
    found, _ = steps(builder.finalize(dtype=sim.float64), 20)
    assert int(found.total.numpy()[0]) == 2  # whose boxes overlap, with the most
    assert all(int(lanes.lanes.numpy()[0]) == 0 for lanes in found.sets.values())
    assert LEAST < found.margins.numpy()[0] < 0.5 * GAP


def test_what_hits_is_looked_at_with_all_of_the_margin() -> None:
    """And all that it pushes: the fourth box hits the third, and that one the next, as with a fixed margin."""
    ends = []
    for margin in (None, MOST):
        builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
        row_of_boxes(builder, 1.5, margin)
        model = builder.finalize(dtype=sim.float64)
        end = sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), int(0.4 * RATE), 1 / RATE).final
        ends.append(np.array(end.body_q.numpy()))
    assert ends[0][0, 0] < -0.001  # the last of the row has been pushed
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_a_world_does_not_see_what_happens_in_another_one() -> None:
    """The same bits as alone, with a collision beside it."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    row_of_boxes(builder)
    alone, state = steps(builder.finalize(dtype=sim.float64), 14)
    both = sim.ModelBuilder(gravity=(0, -9.81, 0))
    row_of_boxes(both, speed=0.1)
    both.replicate(2)
    model = both.finalize(dtype=sim.float64)
    speed = model.materials["b3.velocity"]
    speed.assign([[0.0, 0.0, 0.0], [-1.5, 0.0, 0.0]])
    found, after = steps(model, 14)
    margins = found.margins.numpy()
    assert margins[0] == alone.margins.numpy()[0] and margins[1] > margins[0]
    calm = after.body_q.numpy().reshape(-1, 2, 7)[:, 0]
    assert np.array_equal(calm, state.body_q.numpy())


def test_what_is_pushed_beyond_the_margin_of_its_world_is_an_error() -> None:
    """A box that is hit goes further than a margin of nothing, and not as far as that of the step."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    row_of_boxes(builder, 1.5)
    model = builder.finalize(dtype=sim.float64)
    solver, a, b = sim.SolverXPBD(model, iterations=2), model.state(), model.state()
    while a.body_qd.numpy()[2, 0] > -0.1:
        solver.step(a, b, None, None, 1 / RATE)
        near(solver).refuse_incomplete()
        a, b = b, a
    near(solver).margins.zero_()
    near(solver).check()
    with pytest.raises(sim.SimError, match=r"pushed .* m further in a step than pairs were looked for"):
        near(solver).refuse_incomplete()


@pytest.mark.parametrize("held", ["hinge", "particle"])
def test_what_else_pushes_takes_the_whole_margin(held: str) -> None:
    """How far a joint or a particle pushes in a step is not how deep shapes are in each other."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    row_of_boxes(builder)
    if held == "hinge":
        builder.add_joint_revolute(parent=-1, child=0, axis=(0, 1, 0), parent_xform=[0, HALF, 0])
    else:
        builder.add_particle(pos=(0.0, 3 * HALF, 0.0), mass=0.01)
    found, _ = steps(builder.finalize(dtype=sim.float64), 2)
    assert found.margins.numpy()[0] == MOST


def test_gaps_are_never_more_than_distances() -> None:
    """Of random pairs of all kinds that near pairs are of, between points of their surfaces; and no more than a box
    around both takes away where they are side by side."""
    seed = 7
    print("seed", seed)
    random, apart = np.random.default_rng(seed), []
    for _ in range(40):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        surfaces = []
        for k in range(2):
            turn, place = Rotation.random(random_state=random), [0.3 * k, 0.0, 0.0] + random.normal(size=3) * 0.06
            builder.add_body([*place, *turn.as_quat()], label=f"b{k}")
            surfaces.append(place + turn.apply(add_random_shape(builder, k, random)))
        builder.detect_bodies(margin=1.0)
        found, _ = steps(builder.finalize(dtype=sim.float64), 1)
        distance = np.linalg.norm(surfaces[0][:, None] - surfaces[1][None], axis=2).min()
        gap = float(found.gaps.numpy()[0])
        assert gap < distance
        apart.append((gap, distance))
    gaps, distances = np.array(apart).T
    far = distances > 0.05
    assert far.sum() > 5 and np.median(gaps[far] / distances[far]) > 0.8


def add_random_shape(builder: sim.ModelBuilder, body: int, random: np.random.Generator) -> np.ndarray:
    """Adds a ball, a capsule or a box, and returns points of its surface."""
    directions = random.normal(size=(600, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    kind, size = random.integers(3), random.uniform(0.02, 0.06, size=3)
    if kind == 0:
        builder.add_shape_sphere(body, None, size[0])
        return np.asarray(directions * size[0])
    if kind == 1:
        builder.add_shape_capsule(body, None, size[0], size[1])
        return np.asarray(directions * size[0] + np.outer(random.uniform(-size[1], size[1], 600), [0, 0, 1]))
    builder.add_shape_box(body, None, *size)
    at = random.uniform(-1, 1, size=(600, 3))
    side = random.integers(3, size=600)
    at[np.arange(600), side] = np.sign(at[np.arange(600), side])
    return np.asarray(at * size)
