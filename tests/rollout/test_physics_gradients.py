"""Gradients through rollouts, against closed forms and against differences over long horizons."""

import numpy as np
import pytest
from tools.constraints.samples import SEED
from tools.physics.models import G, hanging_chain, swung_sheet
from tools.physics.steps import central

import sim

STRATEGIES = {"all": sim.StoreAll(), "checkpointed": sim.Checkpointed(every=7)}


def one(model: sim.Model, component: tuple[int, int]) -> sim.array:
    """A weight of 1 on one coordinate of one particle."""
    weights = np.zeros((model.particle_count, 3))
    weights[component] = 1.0
    return sim.array(weights, dtype=sim.vec3d)


# ------------------------------------------------------------------------------------------ closed forms
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_free_flight(strategy):
    """dx(T)/dx0 = 1, dx(T)/dv0 = T, dx(T)/dg = (T^2 + h T) / 2, dv(T)/dg = T."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particles([[0, 0, 0]], mass=2.0, vel=(1, 2, 3), label="p")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    T, steps = 0.7, 50
    with sim.Tape() as tape:
        final = sim.rollout(sim.SolverXPBD(model), model.state(), steps, T / steps, strategy=STRATEGIES[strategy]).final
    tape.backward(grads={final.particle_q: one(model, (0, 1))})
    np.testing.assert_allclose(model["p.position"].grad.numpy(), [[0, 1, 0]], rtol=1e-12)
    np.testing.assert_allclose(model["p.velocity"].grad.numpy(), [[0, T, 0]], rtol=1e-12)
    np.testing.assert_allclose(model["gravity"].grad.numpy(), [[0, (T * T + T / steps * T) / 2, 0]], rtol=1e-12)
    assert model["p.mass"].grad.numpy()[0] == 0
    tape.zero()
    tape.backward(grads={final.particle_qd: one(model, (0, 1))})
    np.testing.assert_allclose(model["gravity"].grad.numpy(), [[0, T, 0]], rtol=1e-12)
    np.testing.assert_allclose(model["p.position"].grad.numpy(), 0, atol=1e-12 * steps / T)


def spring_x(alpha: complex, mass: complex, damping: complex, steps: int, h: float) -> complex:
    """x after `steps` of implicit Euler from 1.5, in complex arithmetic: its derivative is exact by a complex step."""
    k, c = 1 / (alpha * mass), damping / (alpha * mass)
    step = np.linalg.inv(np.array([[1.0, -h], [h * k, 1.0 + h * c]], dtype=complex))
    return 1.0 + (np.linalg.matrix_power(step, steps) @ np.array([0.5, 0.0]))[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("iterations", [1, 3])
def test_oscillator(strategy, iterations):
    """Derivatives of the matrix power of physics-truths 3 by compliance, mass and damping."""
    values, steps, h = [1e-3, 1.3, 4e-3], 100, 1 / 600
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((1.5, 0, 0), mass=values[1])
    builder.add_spring(0, 1, compliance=values[0], damping=values[2], rest_length=1.0)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations)
    with sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), steps, h, strategy=STRATEGIES[strategy]).final
    assert final.particle_q.numpy()[1, 0] == pytest.approx(spring_x(*values, steps, h).real, abs=1e-12)
    tape.backward(grads={final.particle_q: one(model, (1, 0))})
    got = [model[p].grad.numpy()[-1] for p in ("springs.compliance", "particles.mass", "springs.damping")]
    want = []
    for k in range(3):
        moved = [v + (1e-30j if i == k else 0) for i, v in enumerate(values)]
        want.append(spring_x(*moved, steps, h).imag / 1e-30)
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_static_chain():
    """Once at rest, d stretch / d compliance = m g N (N + 1) / 2; by g and mass it follows from the same law.  Enough
    iterations that the sweeps converge: nothing is left of their error of order h^2."""
    n, m, alpha, h = 6, 0.1, 1e-3, 1 / 60
    model = hanging_chain(n, m, alpha, damping=0.05, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations=150)
    with sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), 500, h, strategy=sim.Checkpointed(every=25)).final
    stretch, law = -final.particle_q.numpy()[n, 1] - n * 0.05, m * G * n * (n + 1) / 2
    assert stretch == pytest.approx(alpha * law, rel=1e-6)
    tape.backward(grads={final.particle_q: one(model, (n, 1))})
    assert -model["chain.distance.compliance"].grad.numpy()[0] == pytest.approx(law, rel=1e-6)
    assert -model["gravity"].grad.numpy()[0, 1] == pytest.approx(-alpha * law / G, rel=1e-6)
    assert -model["chain.mass"].grad.numpy()[0] == pytest.approx(alpha * law / (m * (n + 1)), rel=1e-6)
    # an attached point's own start position is the anchor: the whole chain moves with it
    assert model["chain.position"].grad.numpy()[0, 1] == pytest.approx(1.0, rel=1e-6)


# ------------------------------------------------------------------------------------------ long horizons


@pytest.mark.parametrize(("order", "iterations"), [("colored", 1), ("colored", 2), ("jacobi", 2)])
def test_differences_over_three_hundred_steps(order, iterations):
    """Every material value there is, through 300 steps with contacts, attachments and motions, along random
    directions."""
    solver, rng = swung_sheet(order, iterations), np.random.default_rng(SEED)
    model, steps, dt = solver.model, 300, 1 / 600
    n = model.particle_count
    weights = rng.normal(size=(2, n, 3)) / n

    def value() -> float:
        final = sim.rollout(solver, model.state(), steps, dt).final
        return float(
            np.sum(weights[0] * final.particle_q.numpy()) + 0.1 * np.sum(weights[1] * final.particle_qd.numpy())
        )

    with sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), steps, dt, strategy=sim.Checkpointed(every=20)).final
    tape.backward(
        grads={
            final.particle_q: sim.array(weights[0], dtype=sim.vec3d),
            final.particle_qd: sim.array(0.1 * weights[1], dtype=sim.vec3d),
        }
    )
    for path, values in model.materials.items():
        host, got = values.numpy().copy(), values.grad.numpy().copy()
        direction = rng.normal(size=host.shape) * np.maximum(np.abs(host), 1e-3 if "compliance" in path else 0.01)
        if not host.any() and "compliance" in path:
            continue

        def along(at, values=values):
            values.assign(at)
            return value()

        # A contact that switches within the difference bends it, rounding spoils short ones: the best of three has to
        # agree.
        wanted = [central(along, host, direction, step=step) for step in (1e-4, 1e-5, 1e-6)]
        values.assign(host)
        directional = float(np.sum(got * direction))
        want = min(wanted, key=lambda w: abs(w - directional))
        print(f"{path:32s} {directional:+.9e} {want:+.9e}")
        assert directional == pytest.approx(want, rel=1e-4, abs=1e-9), path
        assert abs(directional) > 1e-7, f"{path} has no influence here: nothing was tested"
