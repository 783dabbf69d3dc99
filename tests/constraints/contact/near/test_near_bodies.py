"""Bodies that are looked for in every step: the contacts of all pairs as constraints, complete or an error."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.model.build.shapes.near import check_numbers
from sim.solvers.contacts.watch import ContactWatch

Config = sim.ModelBuilder.ShapeConfig
HALF, RATE = 0.05, 600


def stack(count: int, gradient: bool = False, detect: bool = True, **options: float) -> sim.Model:
    """Boxes on each other, each turned a little, the first on a plane."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_ground_plane(0.0, cfg=Config(mu=0.5))
    for k in range(count):
        turn = 0.1 * k if gradient else 0.0
        pose = [0.004 * k * gradient, (2 * k + 1) * HALF, 0, 0, np.sin(turn), 0, np.cos(turn)]
        builder.add_body(pose, label=f"b{k}", velocity=(0.1 * k * gradient, 0, 0))
        builder.add_shape_box(k, None, HALF, HALF, HALF, cfg=Config(density=700.0, mu=0.3), label="hull")
    if detect:
        builder.detect_bodies(**options)
    return builder.finalize(dtype=sim.float64, requires_grad=gradient)


def place(model: sim.Model, steps: int, iterations: int = 4) -> np.ndarray:
    end = sim.rollout(sim.SolverXPBD(model, iterations=iterations), model.state(), steps, 1 / RATE).final
    return np.array(end.body_q.numpy())


def test_a_stack_stands() -> None:
    """Five boxes, 4 sweeps at 600 Hz: a tenth of a millimetre in 4 s (0.6 mm in 1.2 s before)."""
    model = stack(5)
    assert "contact_corner@ab:box-box" in model.constraint_sets
    moved = [np.abs(place(model, steps) - model.body_q.numpy())[:, :3].max() for steps in (RATE, 4 * RATE)]
    assert max(moved) < 1e-4
    assert moved[1] < moved[0] + 2e-5


@pytest.mark.slow
def test_ten_boxes_stand_for_ten_seconds() -> None:
    """C12 of the design: within a millimetre; found 0.16 mm."""
    model = stack(10)
    assert np.abs(place(model, 10 * RATE) - model.body_q.numpy())[:, :3].max() < 5e-4


@pytest.mark.slow
def test_near_pairs_are_all_pairs() -> None:
    """The same bits as with all pairs as constraints; also what a watch sees of them."""
    found = []
    for detect in (False, True):
        model = stack(4, gradient=True, detect=detect)
        watch, a, b = ContactWatch(sim.SolverXPBD(model, iterations=2)), model.state(), model.state()
        for _ in range(4):
            watch.step(a, b, 1 / RATE)
            a, b = b, a
        found.append((a.body_q.numpy().copy(), a.body_qd.numpy().copy(), watch.count.worst.depth))
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def test_what_may_be_missed_is_an_error() -> None:
    with pytest.raises(sim.SimError, match=r"4 pairs of shapes are near each other, and there is room for 2"):
        place(stack(5, capacity=2), 1)
    model = stack(5, margin=1e-9)
    model.materials["b4.velocity"].assign([[0.0, -3.0, 0.0]])
    with pytest.raises(sim.SimError, match=r"pushed .* m further in a step than pairs were looked for"):
        place(model, 3)


def test_bad_declarations_are_refused() -> None:
    builder = sim.ModelBuilder()
    for capacity in (0, 2.5, float("nan")):
        with pytest.raises(sim.ModelError, match=f"capacity = {capacity}"):
            builder.detect_bodies(capacity=capacity)  # type: ignore[arg-type]
    builder.detect_bodies(margin=0.01)
    with pytest.raises(sim.ModelError, match="called twice"):
        builder.detect_bodies()


def test_a_fixed_body_is_in_many_pairs_of_one_colour() -> None:
    """Three balls on a held box: nothing of them is shared, so all are taken at once."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body(label="table", held=True)
    builder.add_shape_box(0, None, 1.0, HALF, HALF)
    for k in range(3):
        ball = builder.add_body([0.5 * k - 0.5, 2 * HALF, 0])
        builder.add_shape_sphere(ball, None, HALF, cfg=Config(density=700.0))
    builder.detect_bodies()
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    assert np.abs(place(model, 30)[1:, 1] - 2 * HALF).max() < 1e-6


def test_what_meets_nothing_is_not_looked_for() -> None:
    """A mesh beside balls that look for each other: it has contacts with the plane alone."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_ground_plane(0.0)
    corners = HALF * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    rock = builder.add_body([1.0, 0, 0])
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    builder.add_shape_mesh(rock, vertices=corners, indices=faces, cfg=Config(density=700.0, touches=[]))
    for k in range(2):
        ball = builder.add_body([0, (2 * k + 1) * HALF, 0])
        builder.add_shape_sphere(ball, None, HALF, cfg=Config(density=700.0))
    builder.detect_bodies()
    model = builder.finalize(dtype=sim.float64)
    assert model.near is not None and model.near.each == 2
    assert np.abs(place(model, 30) - model.body_q.numpy())[:, 1].max() < 1e-3


def test_numbers_of_pairs_that_do_not_fit_are_refused() -> None:
    """Of 32 bits: at the limit, beyond it, and where a builder asks for that much room."""
    check_numbers(1000, 2147, 10**6, 48)
    with pytest.raises(sim.ModelError, match=r"1000 shapes .* in each of 2148 worlds .* Take at most 2147 worlds"):
        check_numbers(1000, 2148, 10**6, 48)
    with pytest.raises(sim.ModelError, match=r"room for 200000000 near pairs of \d+ contacts.* at most \d+"):
        stack(3, capacity=200_000_000)
