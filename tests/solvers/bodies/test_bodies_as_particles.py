"""C11: constraints on particles, and on bodies whose slots are their centres of mass: the same motion and gradients."""

import numpy as np
import pytest

import sim

PLACES = np.array([[0.0, 0, 0], [0.5, 0.1, 0], [0.2, 0.6, 0.1], [0.6, 0.5, -0.4]])
VELOCITIES = np.array([[0.1, 0, 0.3], [0, -0.2, 0.1], [0.3, 0.1, 0], [0, 0, -0.4]])


def moved(name, on_bodies, compliance, damping, direction):
    """Places and velocities after some steps of constraints, and gradients by masses, gravity and compliance."""
    builder, n = sim.ModelBuilder(gravity=(0, -9.81, 0)), 4 if name == "bend" else 2
    ends = []
    for k in range(n):
        if on_bodies:
            body = builder.add_body(
                PLACES[k], mass=1.0 + k, inertia=0.1, velocity=VELOCITIES[k], spin=(0, 0, 1), label=f"m{k}"
            )
            ends.append(builder.point_of(body))
        else:
            ends.append(builder.add_particles([PLACES[k]], mass=1.0 + k, vel=VELOCITIES[k], label=f"m{k}").start)
    builder.add_constraints(name, [ends], compliance=compliance, damping=damping, label="tie")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations=2, direction=direction)
    with sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), 30, 1 / 100).final
    q = final.body_q if on_bodies else final.particle_q
    weights = np.zeros((n, 7 if on_bodies else 3))
    weights[:, :3] = np.random.default_rng(3).normal(size=(n, 3))
    tape.backward(grads={q: sim.array(weights, dtype=q.dtype)})
    v = final.body_qd if on_bodies else final.particle_qd
    names = ["gravity", "tie.compliance", "tie.damping", *(f"m{k}.mass" for k in range(n))]
    gradients = [np.ravel(model[name].grad.numpy()) for name in names if name in model.materials]
    return np.concatenate([q.numpy()[:, :3].ravel(), v.numpy()[:, :3].ravel(), *gradients])


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("distance", "end"),
        pytest.param("distance", "start", marks=pytest.mark.slow),
        pytest.param("bend", "end", marks=pytest.mark.slow),
        pytest.param("bend", "start", marks=pytest.mark.slow),
    ],
)
def test_particles_and_centres_of_mass(name, direction):
    for compliance, damping in ((0.0, 0.01), (1e-3, 0.01)):
        with_particles, with_bodies = (moved(name, kind, compliance, damping, direction) for kind in (False, True))
        np.testing.assert_allclose(with_bodies, with_particles, rtol=1e-9, atol=1e-9)
