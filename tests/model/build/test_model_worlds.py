"""Many worlds in one model: each does what a model of its own does, bit for bit, and has its own parameters and
gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.models import builder

import sim
from sim.model import ModelError

WORLDS, STEPS, DT = 3, 12, 1 / 240
VALUES = {
    "sheet.distance.compliance": (0.02, 0.05, 0.3), "sheet.distance.damping": (1e-3, 2e-3, 5e-3),
    "sheet.density": (0.2, 0.3, 0.1),
    "sheet.position": ((0, 0, 0), (0, 0.1, 0), (0.2, 0, 0)), "sheet.spin": ((0, 0, 1), (1, 0, 0), (0, 0, 0)),
    "block.stvk.young": (2e4, 4e4, 1e4), "block.velocity": ((0, 0, 0), (0, 1, 0), (1, 0, 1)),
    "block.drag": (0.5, 0.0, 2.0),
    "grip.motion.0.move": ((0.1, 0, 0), (0, 0.2, 0), (0, 0, -0.1)),
    "grip.motion.1.swing": ((0, 0.1, 0), (0.1, 0, 0), (0, 0, 0.2)),
    "soft.compliance": (0.1, 0.2, 0.01), "bag.mass": (0.05, 0.0, 0.2),
    "ball.radius": (0.2, 0.25, 0.3), "ball.center": ((0.2, -0.3, 0.1), (0.1, -0.2, 0.1), (0, 0, 0)),
}  # fmt: skip


def run(model: sim.Model, seed: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Final positions and velocities, and the gradients of their sum with weights by all material values."""
    solver = sim.SolverXPBD(model, iterations=2)
    with sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), STEPS, DT, strategy=sim.Checkpointed(every=5)).final
    ends = {"q": final.particle_q, "qd": final.particle_qd}
    tape.backward(grads={a: sim.array(seed[k], dtype=a.dtype, device=a.device) for k, a in ends.items()})
    return {k: a.numpy().copy() for k, a in ends.items()}, {
        path: a.grad.numpy().copy() for path, a in model.materials.items()
    }


def points_of(model: sim.Model, world: int) -> np.ndarray:
    """Particle numbers of a world in the order that they have in a model of their own."""
    return np.concatenate([g.of_world(world) for g in model.groups.values()])


def set_values(model: sim.Model, pick) -> None:
    for path, values in VALUES.items():
        host = np.asarray(values, float)
        model[path].assign(host if pick is None else host[pick : pick + 1])


@pytest.mark.parametrize("order", ["colored", "jacobi"])
def test_worlds_are_models_of_their_own(order, monkeypatch):
    together = builder().replicate(WORLDS).finalize(dtype=sim.float64, requires_grad=True)
    set_values(together, None)
    n = together.particle_count // WORLDS
    rng = np.random.default_rng(4)
    weights = {k: rng.normal(size=(together.particle_count, 3)) for k in ("q", "qd")}
    solve = sim.SolverXPBD
    monkeypatch.setattr(sim, "SolverXPBD", lambda model, iterations: solve(model, iterations=iterations, order=order))
    ends, gradients = run(together, weights)
    for world in range(WORLDS):
        alone = builder().finalize(dtype=sim.float64, requires_grad=True)
        set_values(alone, world)
        mine = points_of(together, world)
        assert len(mine) == n == alone.particle_count
        wanted, slopes = run(alone, {k: w[mine] for k, w in weights.items()})
        for key in wanted:
            np.testing.assert_array_equal(ends[key][mine], wanted[key])
        for path, slope in slopes.items():
            if path != "gravity":
                found = gradients[path].reshape(WORLDS, *slope.shape)[world]
                np.testing.assert_allclose(
                    found, slope, rtol=1e-11, atol=1e-11 * (1 + np.abs(slope).max()), err_msg=path
                )
    assert all(np.abs(gradients[p]).max() > 0 for p in VALUES if p != "sheet.distance.damping")


def test_a_rod_over_a_cloth_in_worlds():
    """A rod has several bodies for each world, whose places are asked for where it may begin through a surface."""

    def made() -> sim.ModelBuilder:
        b = sim.ModelBuilder()
        sheet = {"material": {"distance": {"compliance": 1e-3}}, "thickness": 0.003}
        b.add_cloth_grid((0, 0, 0), dim_x=2, dim_y=1, cell_x=0.1, cell_y=0.1, density=0.2, label="sheet", **sheet)
        line = np.array([[0.03, 0.04, 0.02], [0.09, 0.05, 0.02], [0.15, 0.06, 0.02]])
        b.add_rod(line, radius=0.005, density=1000, young=1e6, poisson=0.3, cfg=b.default_shape_cfg, label="rod")
        return b

    one = made().finalize(dtype=sim.float64)
    many = made().replicate(WORLDS).finalize(dtype=sim.float64)
    assert "contact_capsule_edge@aapp" in many.constraint_sets
    ends = [sim.rollout(sim.SolverXPBD(model), model.state(), STEPS, DT).final for model in (one, many)]
    (q, b), (qs, bs) = ((end.particle_q.numpy(), end.body_q.numpy()) for end in ends)
    for world in range(WORLDS):
        np.testing.assert_array_equal(qs[points_of(many, world)], q)
        np.testing.assert_array_equal(bs[2 * world : 2 * world + 2], b)


def test_one_launch_for_each_colour_of_all_worlds():
    one, many = builder().finalize(), builder().replicate(5).finalize()
    for name, alone in one.constraint_sets.items():
        together = many.constraint_sets[name]
        assert together.count == 5 * alone.count and together.offsets == [5 * o for o in alone.offsets]
    assert many.worlds == 5 and many["bag.mass"].shape == (5,) and many["springs.compliance"].shape == (15,)
    np.testing.assert_allclose(many.particle_mass.numpy().sum(), 5 * one.particle_mass.numpy().sum(), rtol=1e-6)
    assert many.groups["sheet"].of_world(2)[0] == many.groups["sheet"].start + 2 * one.groups["sheet"].count


def test_errors():
    b = builder()
    for bad in (0, 2.5, True, float("nan"), "3"):
        with pytest.raises(ModelError, match="worlds = .*whole number"):
            b.replicate(bad)
    b.replicate(2)
    with pytest.raises(ModelError, match="add_particle after replicate"):
        b.add_particle((0, 0, 0))
    with pytest.raises(ModelError, match="replicate is called twice"):
        b.replicate(2)
