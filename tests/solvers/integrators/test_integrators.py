"""How steps add up: float32 gives float64's motions and gradients."""

from __future__ import annotations

import functools
import importlib.util
import sys

import numpy as np
import pytest
from tools.physics.pendulum import pendulum, swings
from tools.places import ROOT

import sim

GRAVITY = (0.0, -9.81, 0.0)


@functools.cache
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_precision", ROOT / "benchmarks" / "precision.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("integrator", ["euler", "bdf2"])
@pytest.mark.parametrize("rate", [6_000, 20_000])
def test_free_fall_in_single_precision(rate, integrator):
    """h = 1/6000 put a point 9 cm off after a second when velocities were differences of positions."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    builder.add_particles([[0.3, 1.0, -0.7]], mass=1.0)
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float32), integrator=integrator)
    end = sim.rollout(solver, solver.model.state(), rate // 2, 1.0 / rate).final
    fallen = 9.81 / 8 * (1 + (2 / rate if integrator == "euler" else 0.0))
    np.testing.assert_allclose(1.0 - end.particle_q.numpy()[0, 1], fallen, rtol=2e-4)
    np.testing.assert_allclose(end.particle_qd.numpy()[0, 1], -9.81 / 2, rtol=2e-4)


def test_a_slow_point_creeps():
    """A tenth of the resolution of its position in each step is not lost."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[1.5, 0, 0]], mass=1.0, vel=[[1e-4, 0, 0]])
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float32))
    end = sim.rollout(solver, solver.model.state(), 10_000, 1e-4).final
    moved = float(end.particle_q.numpy()[0, 0]) - 1.5 + float(end.history["particle_q_low"].numpy()[0, 0])
    assert moved == pytest.approx(1e-4, rel=1e-4)


def chain(dtype, compliance: float, heavy: float = 1.0, damping: float = 1e-3) -> sim.ModelBuilder:
    builder = sim.ModelBuilder(gravity=GRAVITY)
    x = np.stack([0.1 * np.arange(11), np.ones(11), np.zeros(11)], axis=1)
    mass = np.r_[0.0, np.full(9, 0.01), 0.01 * heavy]
    builder.add_particles(x, mass=mass)
    builder.add_constraints(
        "distance",
        np.stack([np.arange(10), np.arange(1, 11)], 1),
        compliance=compliance,
        damping=damping,
        label="links",
    )
    return builder


@pytest.mark.parametrize(
    ("compliance", "heavy", "dt", "steps"), [(1e-2, 1.0, 1 / 12_000, 3000), (1e-5, 1000.0, 1 / 6_000, 1500)]
)
def test_chains_in_single_precision(compliance, heavy, dt, steps):
    """Small steps, and mass ratios: float32 follows float64."""
    found = []
    for dtype in (sim.float64, sim.float32):
        solver = sim.SolverXPBD(chain(dtype, compliance, heavy).finalize(dtype=dtype))
        found.append(sim.rollout(solver, solver.model.state(), steps, dt).final.particle_q.numpy().astype(float))
    links = [np.linalg.norm(np.diff(x, axis=0), axis=1) for x in found]
    np.testing.assert_allclose(found[1], found[0], atol=1e-3 * np.abs(found[0] - found[0][0]).max())
    np.testing.assert_allclose(links[1], links[0], rtol=1e-3)


@pytest.mark.parametrize("integrator", ["euler", "bdf2"])
def test_a_pendulum_swings_in_single_precision(integrator):
    """At 400 substeps a frame it never moved; and BDF2 drifted where it multiplied by a rounded 1 / h~."""
    single, double = (swings(pendulum(dtype, integrator), 400, 5.0) for dtype in (sim.float32, sim.float64))
    np.testing.assert_allclose(single, double, rtol=2e-5)


def test_a_turning_block_in_single_precision():
    """Angular momentum: half of it was lost at h = 5e-4."""
    for name in ("xpbd", "bdf2"):
        assert benchmark().spinning(benchmark().SOLVERS[name], 5e-4, 0.5)[0].off < 3e-5, name


def test_gradients_in_single_precision_after_many_steps():
    """By position, velocity and compliance of a hanging chain after 10 000 steps: float64's within 1 %."""
    found = []
    for dtype in (sim.float64, sim.float32):
        builder = chain(dtype, 1e-2)
        solver = sim.SolverXPBD(builder.finalize(dtype=dtype, requires_grad=True))
        with sim.Tape() as tape:
            end = sim.rollout(
                solver, solver.model.state(), 10_000, 5e-5, strategy=sim.Checkpointed(every=100)
            ).final.particle_q
        seed = np.zeros((11, 3))
        seed[-1] = 1.0, 2.0, 0.0
        tape.backward(grads={end: sim.array(seed, dtype=end.dtype)})
        model = solver.model
        found.append([model[p].grad.numpy().astype(float) for p in ("links.compliance", "gravity")])
    for single, double in zip(found[1], found[0], strict=True):
        assert np.abs(single - double).max() < 1e-2 * np.abs(double).max()


@pytest.mark.parametrize("integrator", ["euler", "bdf2"])
@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_what_falls_through_air_comes_to_its_terminal_speed_whatever_the_step(integrator, dt):
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    group = builder.add_particles([(0, 0, 0)], mass=0.01, label="hail")
    builder.set_drag(group, 0.5)
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64), integrator=integrator)
    final = sim.rollout(solver, solver.model.state(), max(100, round(4.0 / dt)), dt).final
    np.testing.assert_allclose(final.particle_qd.numpy()[0], [0, -np.sqrt(9.81 / 0.5), 0], rtol=1e-4)
