"""How steps begin and end: float32 gives float64's motion, BDF2 is of second order, and gradients pass through both."""

from __future__ import annotations

import functools
import importlib.util
import sys

import numpy as np
import pytest
from places import ROOT

import sim

GRAVITY = (0.0, -9.81, 0.0)


def pendulum(dtype, integrator: str, angle: float = 0.5) -> sim.SolverXPBD:
    builder = sim.ModelBuilder(gravity=GRAVITY)
    builder.add_particles([[0, 0, 0], [np.sin(angle), -np.cos(angle), 0]], mass=[0.0, 1.0])
    builder.add_constraints("distance", [[0, 1]], compliance=0.0, label="rod")
    return sim.SolverXPBD(builder.finalize(dtype=dtype), integrator=integrator)


def swings(solver: sim.SolverXPBD, substeps: int, seconds: float) -> tuple[float, float]:
    """Mean period [s], and the energy at the end over that of the start."""
    every = max(1, substeps // 5)
    dt = 1.0 / 60.0 / substeps
    steps = int(round(seconds / dt))
    x = sim.rollout(solver, solver.model.state(), steps, dt, frame_every=every).particle_q.numpy()[:, 1]
    dt *= every
    angle = np.arctan2(x[:, 0], -x[:, 1])
    down = np.flatnonzero((angle[:-1] > 0) & (angle[1:] <= 0))
    crossings = (down + angle[down] / (angle[down] - angle[down + 1])) * dt
    period = float(np.diff(crossings).mean())
    last = np.abs(angle[-int(period / dt) :]).max()
    return period, float((1 - np.cos(last)) / (1 - np.cos(0.5)))


def exact_period(angle: float = 0.5) -> float:
    """Of a pendulum of length 1: by the arithmetic-geometric mean."""
    a, g = 1.0, np.cos(angle / 2)
    for _ in range(6):
        a, g = (a + g) / 2, np.sqrt(a * g)
    return float(2 * np.pi / np.sqrt(9.81) / a)


@functools.cache
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_precision", ROOT / "benchmarks" / "precision.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------ float32
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


# ------------------------------------------------------------------------------------------ BDF2
@pytest.mark.parametrize("dtype", [sim.float64, sim.float32])
def test_a_pendulum_keeps_its_period_and_energy(dtype):
    """Five steps a frame: implicit Euler is 0.45 % off and has lost half of the energy after 20 s."""
    period, energy = swings(pendulum(dtype, "bdf2"), 5, 20.0)
    assert period == pytest.approx(exact_period(), rel=5e-4)
    assert energy == pytest.approx(1.0, abs=2e-3)


def orders(make, steps: int, seconds: float, iterations: int = 1) -> float:
    """Observed order of convergence of the end positions, by three step sizes."""
    ends = []
    for k in (1, 2, 4):
        solver = sim.SolverXPBD(make(), iterations=iterations, integrator="bdf2")
        ends.append(sim.rollout(solver, solver.model.state(), steps * k, seconds / steps / k).final.particle_q.numpy())
    first, second = (np.linalg.norm(a - b) for a, b in zip(ends, ends[1:], strict=False))
    return float(np.log2(first / second))


def test_second_order_of_elastic_motions():
    """One sweep is enough for springs.  What it leaves of damping forces is of first order: that takes more sweeps."""

    def hanging():
        return chain(sim.float64, 0.2, damping=0.0).finalize(dtype=sim.float64)

    def damped():
        return chain(sim.float64, 0.2, damping=2e-3).finalize(dtype=sim.float64)

    def sheet():
        builder = sim.ModelBuilder(gravity=GRAVITY)
        material = {"distance": {"compliance": 0.3, "damping": 2e-3}, "bend": {"compliance": 50.0}}
        builder.add_cloth_grid(
            (0, 1, 0), dim_x=4, dim_y=3, cell_x=0.25, cell_y=0.25, density=0.2, material=material, label="sheet"
        )
        builder.add_attachment([0, 4])
        return builder.finalize(dtype=sim.float64)

    found = orders(hanging, 400, 0.3), orders(damped, 400, 0.3, 6), orders(sheet, 200, 0.2, 6)
    np.testing.assert_allclose(found, 2.0, atol=0.2)


def test_a_new_velocity_ends_the_history():
    """A point that somebody has thrown in between moves on with what it was given, and one left alone as before."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0, 0, 0], [0, 0, 0]], mass=1.0, vel=[[1, 0, 0], [1, 0, 0]])
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64), integrator="bdf2")
    a, b = solver.model.state(), solver.model.state()
    for _ in range(4):
        solver.step(a, b, None, None, 0.1)
        a, b = b, a
    a.particle_qd.assign([[0, 2, 0], [1, 0, 0]])
    for _ in range(4):
        solver.step(a, b, None, None, 0.1)
        a, b = b, a
    np.testing.assert_allclose(a.particle_q.numpy(), [[0.4, 0.8, 0], [0.8, 0, 0]], atol=1e-14)


def test_impacts_and_rest_on_a_plane():
    """What falls on a plane comes to rest on it, and does not rebound by its history."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    builder.add_particles([[0, 0.31, 0]], mass=1.0, vel=[[0.5, -1, 0]])
    builder.add_ground_plane()
    solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64), integrator="bdf2")
    q = sim.rollout(solver, solver.model.state(), 600, 1 / 600, frame_every=1).particle_q.numpy()[:, 0]
    lands = int(np.argmax(q[:, 1] < 1e-9))
    assert 0 < lands < 200
    np.testing.assert_allclose(q[lands:, 1], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.diff(q[:, 0]), 0.5 / 600, rtol=1e-9)


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=5)])
def test_gradients_through_bdf2(strategy):
    """Damping, a moving attachment, contact and external data: against central differences."""

    def run(values: dict[str, np.ndarray], record: bool):
        builder = sim.ModelBuilder(gravity=GRAVITY)
        material = {"distance": {"compliance": 0.05, "damping": 4e-3}, "bend": {"compliance": 20.0}}
        builder.add_cloth_grid(
            (0, 0.06, 0), dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.3, material=material, label="sheet"
        )
        builder.add_ground_plane()
        builder.add_attachment([0], motion=[{"swing": [0.02, 0.03, 0.0], "frequency": 3.0}], label="hand")
        solver = sim.SolverXPBD(
            builder.finalize(dtype=sim.float64, requires_grad=True), iterations=2, integrator="bdf2"
        )
        for path, value in values.items():
            solver.model[path].assign(value)
        with sim.Tape() as tape:
            end = sim.rollout(solver, solver.model.state(), 23, 0.004, strategy=strategy).final.particle_q
        weights = np.random.default_rng(3).normal(size=end.numpy().shape)
        if not record:
            return float((weights * end.numpy()).sum())
        tape.backward(grads={end: sim.array(weights, dtype=sim.vec3d)})
        return solver.model

    paths = ["sheet.distance.compliance", "sheet.distance.damping", "gravity", "sheet.velocity"]
    model = run({}, True)
    for path in paths:
        start, gradient = model[path].numpy().astype(float).copy(), model[path].grad.numpy()
        way = np.random.default_rng(5).normal(size=start.shape)
        e = 1e-5 * max(1e-2, np.abs(start).max())
        slope = (run({path: start + e * way}, False) - run({path: start - e * way}, False)) / (2 * e)
        assert (gradient * way).sum() == pytest.approx(slope, rel=2e-6, abs=1e-9), path
