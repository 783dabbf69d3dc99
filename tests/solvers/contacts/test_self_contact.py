"""Surfaces that collide with themselves and each other: equilibrium, friction, gradients, and the same bits always."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.model.collision.detection import ContactError

LYING = np.array([-np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
N, CELL, THICKNESS, DT = 3, 0.05, 0.004, 1e-3
PATHS = ("contact.friction", "contact.thickness", "high.velocity", "high.position", "low.bend.compliance")


def turned(angle: float) -> np.ndarray:
    """A sheet that lies, turned about the vertical."""
    s, c = np.sin(angle / 2), np.cos(angle / 2)
    x, _, _, w = LYING
    return np.array([c * x, s * w, -s * x, c * w])


def sheets(
    gap: float, angle: float = 0.0, offset: tuple[float, float] = (0.0, 0.0), velocity: tuple[float, ...] = (0, 0, 0),
    friction: float | dict[str, float] = 0.3, held: bool = False, worlds: int = 1, **options,
) -> sim.Model:  # fmt: skip
    """A sheet on the ground, or held, and another one above."""
    made = sim.ModelBuilder()
    for k, name in enumerate(("low", "high")):
        made.add_cloth_grid(
            (offset[0] * k, gap * k, offset[1] * k), dim_x=N, dim_y=N, cell_x=CELL, cell_y=CELL,
            rot=turned(angle * k), density=0.2, label=name, vel=velocity if k else (0, 0, 0),
            material={"distance": {"compliance": 1e-5}, "shear": {"compliance": 1e-4}, "bend": {"compliance": 0.1}},
        )  # fmt: skip
    if held:
        made.add_attachment(made.groups["low"].points, label="hold")
    else:
        made.add_ground_plane()
    made.add_self_contact(["low", "high"], friction=friction, thickness=THICKNESS, **options)
    if worlds > 1:
        made.replicate(worlds)
    return made.finalize(dtype=sim.float64, requires_grad=True)


def sliding(**options) -> sim.Model:
    """Two sheets that fall onto the ground and each other, askew."""
    return sheets(0.0072, 0.3, (0.013, 0.017), (0.3, -0.5, 0.1), **options)


def weights(model: sim.Model) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(model.particle_count, 3))


def value(model: sim.Model) -> float:
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 40, DT).final
    return float(np.sum(end.particle_q.numpy() * weights(model)))


def gradients(model: sim.Model, strategy: object = None) -> dict[str, np.ndarray]:
    for path in PATHS:
        model[path].grad.zero_()
    with sim.Tape() as tape:
        end = sim.rollout(sim.SolverXPBD(model), model.state(), 40, DT, strategy=strategy).final
    tape.backward(grads={end.particle_q: sim.array(weights(model), dtype=sim.vec3d)})
    return {path: model[path].grad.numpy().copy() for path in PATHS}


def test_a_sheet_rests_on_a_sheet() -> None:
    """S1: the multipliers carry its weight, and the gap is the thickness."""
    model = sheets(0.006)
    solver, contacts = sim.SolverXPBD(model), None
    a, b = model.state(), model.state()
    for k in range(600):
        if k % 20 == 0:
            contacts = model.collide(a, contacts, 20 * DT)
        solver.step(a, b, None, contacts, DT)
        a, b = b, a
    pairs, room = contacts.pairs, model.contact.capacity
    count = pairs.count.numpy()
    lam = solver.multipliers("contact").numpy()
    carried = (lam[: count[0]].sum() + lam[room : room + count[1]].sum()) / DT**2
    weight = model.particle_mass.numpy()[model.groups["high"].points].sum() * 9.81
    assert carried == pytest.approx(weight, rel=1e-3)
    height = a.particle_q.numpy()[:, 1]
    gap = height[model.groups["high"].points] - height[model.groups["low"].points]
    np.testing.assert_allclose(gap, THICKNESS, atol=1e-6)
    assert np.abs(a.particle_qd.numpy()).max() < 1e-6


def test_a_sheet_slides_on_a_sheet_as_coulomb_says() -> None:
    """From v it has come v t - mu g t^2 / 2 after t, up to the half step by which its weight is felt later."""
    model = sheets(THICKNESS, 0.2, (0.012, 0.007), (1.0, 0, 0), friction=0.25, held=True)
    steps = 100
    end = sim.rollout(sim.SolverXPBD(model), model.state(), steps, DT).final
    high, t = model.groups["high"].points, steps * DT
    come = (end.particle_q.numpy() - model.particle_q.numpy())[high].mean(axis=0)
    assert come[0] == pytest.approx(t - 0.25 * 9.81 * t**2 / 2, rel=2e-3)
    assert end.particle_qd.numpy()[high, 0].mean() == pytest.approx(1 - 0.25 * 9.81 * (t - DT / 2), rel=1e-4)


def test_of_two_objects_the_mean_friction_counts() -> None:
    """As one number for both, to the last bit; and half of each one's derivative."""
    made = sheets(THICKNESS, 0.2, (0.012, 0.007), (1.0, 0, 0), friction={"low": 0.125, "high": 0.375}, held=True)
    same = sheets(THICKNESS, 0.2, (0.012, 0.007), (1.0, 0, 0), friction=0.25, held=True)
    ends, of = [], []
    for model in (made, same):
        with sim.Tape() as tape:
            end = sim.rollout(sim.SolverXPBD(model), model.state(), 20, DT).final
        tape.backward(grads={end.particle_q: sim.array(weights(model), dtype=sim.vec3d)})
        ends.append(end.particle_q.numpy())
        of.append({path: a.grad.numpy()[0] for path, a in model.materials.items() if "friction" in path})
    np.testing.assert_array_equal(*ends)
    assert of[0]["contact.friction.low"] == pytest.approx(0.5 * of[1]["contact.friction"], rel=1e-9)
    assert of[0]["contact.friction.high"] == pytest.approx(0.5 * of[1]["contact.friction"], rel=1e-9)


def test_gradients_are_those_of_differences() -> None:
    """Through falling, closing pairs, friction, and the ground; a step of 1e-8 is one between the switches."""
    model = sliding()
    found = gradients(model)
    steps = {"contact.friction": 1e-5, "contact.thickness": 1e-8, "high.velocity": 1e-7, "high.position": 1e-8,
             "low.bend.compliance": 1e-6}  # fmt: skip
    for path, h in steps.items():
        base = model[path].numpy().copy()
        direction = np.zeros_like(base)
        direction[0] = 1.0
        ends = []
        for side in (1, -1):
            model[path].assign(base + side * h * direction)
            ends.append(value(model))
        model[path].assign(base)
        wanted = (ends[0] - ends[1]) / (2 * h)
        assert np.sum(found[path] * direction) == pytest.approx(wanted, rel=1e-6, abs=1e-8), path


def test_the_same_bits_whatever_is_kept_and_whenever_pairs_are_found() -> None:
    model = sliding()
    stored, end = gradients(model), value(model)
    for strategy in (sim.Checkpointed(every=7), sim.Checkpointed(every=16)):
        for path, grad in gradients(model, strategy).items():
            np.testing.assert_array_equal(grad, stored[path])
    before = sim.get_num_threads()
    sim.set_num_threads(2)
    assert value(model) == end
    sim.set_num_threads(before)
    for other in (sliding(every=1), sliding(every=13, margin=0.04, capacity=3000), sliding(capacity=1777)):
        assert value(other) == end
        for path, grad in gradients(other).items():
            np.testing.assert_array_equal(grad, stored[path])


def test_steps_by_hand_and_worlds_are_the_same() -> None:
    model, two = sliding(), sliding(worlds=2)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 40, DT).final.particle_q.numpy()
    a, b = model.state(), model.state()
    solver = sim.SolverXPBD(model)
    for _ in range(40):
        solver.step(a, b, None, None, DT)
        a, b = b, a
    np.testing.assert_array_equal(a.particle_q.numpy(), end)
    both = sim.rollout(sim.SolverXPBD(two), two.state(), 40, DT).final.particle_q.numpy()
    for world in range(2):
        rows = np.concatenate([two.groups[name].of_world(world) for name in ("low", "high")])
        np.testing.assert_array_equal(both[rows], end)


def test_several_iterations_have_one_cone() -> None:
    """Multipliers add up over the sweeps; in float32 too, to its digits."""
    model = sliding()
    results = [sim.rollout(sim.SolverXPBD(model, iterations=k), model.state(), 40, DT) for k in (1, 3)]
    assert results[1].penetration.worst < results[0].penetration.worst
    assert results[1].penetration.crossed == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ContactError, match=r"margin to 0\.\d+ m or more"):
        fast = sheets(0.01, velocity=(0, -5, 0), margin=1e-3, every=20, capacity=9000)
        sim.rollout(sim.SolverXPBD(fast), fast.state(), 40, DT)
    with pytest.raises(sim.ModelError, match="closer than their thickness allows"):
        sheets(0.003)
    with pytest.raises(sim.ModelError, match="friction"):
        sheets(0.01, friction=-0.1)
    model = sheets(0.01)
    for solver in (lambda: sim.SolverXPBD(model, order="jacobi"), lambda: sim.SolverSemiImplicit(model)):
        with pytest.raises(ValueError, match="low, high"):
            solver()
    made = sim.ModelBuilder()
    made.add_cloth_grid(dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.2, label="thin")
    made.add_self_contact(["thin"])
    with pytest.raises(sim.ModelError, match="'thin' collides with itself and has no thickness"):
        made.finalize()
