"""The damping that the step itself brings, as docs/physics.md states it."""

import numpy as np
import pytest

import sim

OMEGA, MASS = 20.0, 0.1


def pole(step, iterations=1, start="zero", damping=0.0, make=None):
    """Decay rate [1/s] and frequency [rad/s] of a mass on a spring, from three positions that follow each other, after
    the first steps."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    material = {"distance": {"compliance": 1 / (MASS * OMEGA**2), "damping": damping}}
    group = builder.add_chain([0, 0, 0], [1, 0, 0], 2, 2 * MASS, label="spring", material=material, vel=(0.1, 0, 0))
    builder.add_attachment(group.points[:1], None, 0.0, label="wall")
    model = builder.finalize(dtype=sim.float64)
    solver = make(model) if make else sim.SolverXPBD(model, iterations=iterations, start=start)
    x = sim.rollout(solver, model.state(), steps=100, dt=step, frame_every=1).particle_q.numpy()[40:, 1, 0] - 1.0
    factors = np.linalg.lstsq(np.stack([x[1:-1], x[:-2]], axis=1), x[2:], rcond=None)[0]
    s = np.log(np.roots([1, *-factors]).astype(complex)[0]) / step
    return -s.real, abs(s.imag)


@pytest.mark.parametrize("iterations, start", [(1, "zero"), (1, "elastic"), (4, "zero")])
@pytest.mark.parametrize("turn", [0.05, 0.2, 1.0])
def test_decay_and_frequency_of_a_step(turn, iterations, start):
    step = turn / OMEGA
    decay, frequency = pole(step, iterations, start)
    assert decay == pytest.approx(np.log(1 + turn**2) / (2 * step), rel=1e-6)
    assert frequency == pytest.approx(np.arctan(turn) / step, rel=1e-6)


def test_it_adds_to_the_damping_of_the_material():
    step, time = 0.05 / OMEGA, 3e-3
    decay, frequency = pole(step, damping=time)
    assert decay / np.hypot(decay, frequency) == pytest.approx(OMEGA * (step + time) / 2, rel=0.01)


INTEGRATIONS = {
    "euler": sim.SolverXPBD,
    "bdf2": lambda model: sim.SolverXPBD(model, integrator="bdf2"),
    "newton": lambda model: sim.SolverNewton(model, integrator="bdf2", tolerance=1e-10),
    "explicit": sim.SolverSemiImplicit,
}


@pytest.mark.parametrize("name", INTEGRATIONS)
@pytest.mark.parametrize("turn", [0.05, 0.2, 0.8])
def test_a_solver_says_what_it_damps(name, turn):
    """`damping_time`, at the frequency of the spring, is that of the decay; the explicit one neither damps nor
    excites."""
    step = turn / OMEGA
    builder = sim.ModelBuilder()
    builder.add_particle((0, 0, 0), mass=1.0)
    told = INTEGRATIONS[name](builder.finalize(dtype=sim.float64)).damping_time(OMEGA, step)
    decay, _ = pole(step, make=INTEGRATIONS[name])
    assert OMEGA**2 * told / 2 == pytest.approx(decay, rel=2e-4, abs=1e-7 * OMEGA)
