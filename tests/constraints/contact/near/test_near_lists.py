"""What a step chooses of near pairs is listed by colours: all of it, and no two of a colour push the same body."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.solvers.near.lanes import NearLanes

Config = sim.ModelBuilder.ShapeConfig
HALF, RATE = 0.05, 600


def pyramid(rows: int, gradient: bool = False) -> sim.Model:
    """Boxes, row on row; each pushed aside and turned a little, no two alike."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    config, random = Config(density=700.0, mu=0.5), np.random.default_rng(1)
    builder.add_ground_plane(0.0, cfg=config)
    for r in range(rows):
        for c in range(rows - r):
            turn, beside = 0.02 * random.uniform(-1, 1), 0.01 * random.uniform(-1, 1)
            place = [(c + 0.5 * r) * (4 * HALF + 0.02), (2 * r + 1) * HALF, beside]
            speed = 0.02 * random.normal(size=3) * [1, 0, 1]
            k = builder.add_body([*place, 0, np.sin(turn), 0, np.cos(turn)], label=f"b{r}-{c}", velocity=speed)
            builder.add_shape_box(k, None, 2 * HALF, HALF, HALF, cfg=config)
    builder.detect_bodies()
    return builder.finalize(dtype=sim.float64, requires_grad=gradient)


def end_of(model: sim.Model, steps: int) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), steps, 1 / RATE).final


def listed(model: sim.Model) -> list[NearLanes]:
    """The lists of the first step."""
    solver, after = sim.SolverXPBD(model, iterations=2), model.state()
    solver.step(model.state(), after, None, None, 1 / RATE)
    assert solver.friction.near is not None
    return list(solver.friction.near.sets.values())


@pytest.mark.parametrize("gradient", [False, True])
def test_every_chosen_contact_is_listed_once_and_no_two_of_a_colour_share_a_body(gradient: bool) -> None:
    found = 0
    for lanes in listed(pyramid(4, gradient)):
        begins, n = lanes.offsets.numpy(), int(lanes.offsets.numpy()[-1])
        rows, points = lanes.order.numpy()[:n], lanes.batch.set.points.numpy()[:n]
        signs = lanes.data.face if hasattr(lanes.data, "face") else lanes.data.edge
        live = int(lanes.lanes.numpy()[0]) * lanes.of.lane
        assert np.array_equal(np.sort(rows), np.flatnonzero(np.any(signs.numpy()[:live] != 0.0, axis=1)))
        assert np.array_equal(points, lanes.made.points.numpy()[rows])
        for first, last in zip(begins[: lanes.colors], begins[1 : lanes.colors + 1], strict=True):
            assert len(np.unique(points[first:last])) == 2 * (last - first)
        assert not gradient or begins[-1] == begins[-2]  # nothing is left over
        found += n
    assert found > 30


def test_a_step_takes_few_launches() -> None:
    """Of ten boxes with gradients: 2,551; one for each row of the pairs of a colour were 6,970."""
    model = pyramid(4, gradient=True)
    end_of(model, 2)
    with sim.profile() as p:
        end_of(model, 2)
    assert sum(row["calls"] for row in p.rows()) < 2 * 3000


def test_what_has_no_colour_is_taken_in_turn_or_refused() -> None:
    """Fourteen boxes on a plate that moves, of more contacts than there are colours."""

    def model(gradient: bool) -> sim.Model:
        builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
        config = Config(density=700.0, mu=0.5)
        builder.add_ground_plane(0.0, cfg=config)
        builder.add_body([0, HALF, 0], label="plate")
        builder.add_shape_box(0, None, 1.2, HALF, HALF, cfg=config)
        for k in range(20):
            box = builder.add_body([0.11 * (k - 9.5), 2.5 * HALF, 0], label=f"b{k}")
            builder.add_shape_box(box, None, 0.5 * HALF, 0.5 * HALF, 0.5 * HALF, cfg=config)
        builder.detect_bodies()
        return builder.finalize(dtype=sim.float64, requires_grad=gradient)

    plain = model(False)
    assert max(lanes.offsets.numpy()[-1] - lanes.offsets.numpy()[-2] for lanes in listed(plain)) > 0
    assert np.abs(end_of(plain, 60).body_q.numpy() - plain.body_q.numpy())[:, :3].max() < 2e-5
    with pytest.raises(sim.SimError, match=r"contacts are of bodies that have too many at once.* in 64 turns"):
        end_of(model(True), 1)


@pytest.mark.slow
def test_many_side_by_side_give_the_gradient_of_differences_and_the_same_bits_for_any_number_of_threads() -> None:
    """36 boxes, at rest for the most part: enough of a colour for kernels that take eight at a time; found 1e-7 of the
    largest derivatives by velocities.  Differences of 1e-7 m/s reach beyond where a contact switches."""
    model = pyramid(8, gradient=True)
    start = end_of(model, 40)
    random = np.random.default_rng(2)
    seed = random.normal(size=(model.body_count, 7)) * [1, 1, 1, 0, 0, 0, 0]
    solver, before = sim.SolverXPBD(model, iterations=2), start.body_qd.numpy().copy()
    ends, gradients = [], []
    for threads in (1, 3):
        sim.set_num_threads(threads)
        with sim.Tape() as tape:
            end = sim.rollout(solver, start, 12, 1 / RATE).final
        tape.backward(grads={end.body_q: sim.array(seed, dtype=end.body_q.dtype)})
        ends.append(end.body_q.numpy().copy())
        gradients.append(start.body_qd.grad.numpy().copy())
        tape.zero()
    assert np.array_equal(*ends) and np.array_equal(*gradients)
    for _ in range(2):
        along, values = random.normal(size=before.shape), []
        for step in (1e-8, -1e-8):
            start.body_qd.assign(before + step * along)
            values.append(float(np.sum(seed * sim.rollout(solver, start, 12, 1 / RATE).final.body_q.numpy())))
        exact = gradients[0] * along
        assert abs((values[0] - values[1]) / 2e-8 - np.sum(exact)) < 1e-5 * np.abs(exact).sum()
