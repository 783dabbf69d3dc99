"""Closed forms that particles and springs have to show.  Tolerances follow from the order of the integrator.

An XPBD step of one linear spring is implicit Euler exactly; in general the scheme is of first order, and dissipative.
"""

import numpy as np
import pytest
from tools.physics.models import G, hanging_chain, relaxed
from tools.physics.steps import momentum, positions, random_rotation, take_steps

import sim
from sim.model.energy import constraint_energy


def one_spring(alpha: float, mass: float, x0: float, gravity: float = 0.0, damping: float = 0.0) -> sim.Model:
    """A particle on a spring of rest length 1 along x, with `gravity` along x."""
    builder = sim.ModelBuilder(gravity=(gravity, 0, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((x0, 0, 0), mass=mass)
    builder.add_spring(0, 1, compliance=alpha, damping=damping, rest_length=1.0)
    return builder.finalize(dtype=sim.float64)


def final_x(model: sim.Model, steps: int, dt: float, iterations: int = 1) -> float:
    return float(
        sim.rollout(sim.SolverXPBD(model, iterations), model.state(), steps, dt).final.particle_q.numpy()[1, 0]
    )


# ------------------------------------------------------------------------------------------ flight
def test_free_fall_and_projectile():
    """Semi-implicit Euler in free flight: x(T) = x0 + v0 T - g T^2 / 2 - g h T / 2, without any other error."""
    T, v0 = 1.0, np.array([3.0, 2.0, -1.0])
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particles([[0, 0, 0], [1, 2, 3]], mass=[1.0, 5.0], vel=[[0, 0, 0], v0])
    model = builder.finalize(dtype=sim.float64)
    errors = []
    for steps in (60, 120, 240):
        h = T / steps
        final = sim.rollout(sim.SolverXPBD(model), model.state(), steps, h).final
        q, v = final.particle_q.numpy(), final.particle_qd.numpy()
        fall = np.array([0, -G * T * T / 2 - G * h * T / 2, 0])
        np.testing.assert_allclose(q, [fall, [1, 2, 3] + v0 * T + fall], rtol=0, atol=1e-12 * steps)
        np.testing.assert_allclose(v, [[0, -G * T, 0], v0 - [0, G * T, 0]], rtol=0, atol=1e-11 * steps)
        assert final.time == pytest.approx(T, rel=1e-12)
        errors.append(abs(q[0, 1] + G * T * T / 2))
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1.0, atol=1e-8)


def test_external_forces():
    """f = m a: particle_f acts like gravity does; a state carries it from step to step only where it is told to."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0, 0, 0]], mass=2.0)
    model = builder.finalize(dtype=sim.float64)
    state = model.state()
    state.particle_f.fill_((6.0, 0.0, 0.0))
    final = sim.rollout(sim.SolverXPBD(model), state, 100, 0.01).final
    np.testing.assert_allclose(final.particle_q.numpy(), [[3.0 * (1 + 0.01) / 2, 0, 0]], rtol=1e-12)


# ------------------------------------------------------------------------------------------ one spring
def implicit_euler(alpha: float, mass: float, x0: float, steps: int, h: float, damping: float = 0.0) -> float:
    """x after `steps` of implicit Euler with stiffness 1 / alpha and damping coefficient damping / alpha."""
    k, c = 1 / (alpha * mass), damping / (alpha * mass)
    step = np.linalg.inv([[1.0, -h], [h * k, 1.0 + h * c]])
    return 1.0 + (np.linalg.matrix_power(step, steps) @ [x0 - 1.0, 0.0])[0]


@pytest.mark.parametrize("h", [1 / 60, 1 / 600, 1 / 6000])
@pytest.mark.parametrize("damping", [0.0, 0.01])
def test_oscillator_is_implicit_euler(h, damping):
    """XPBD 2016, section 6.1; whatever the number of iterations, because the first one solves a linear spring."""
    model = one_spring(1e-3, 1.0, 1.5, damping=damping)
    for steps in (1, 7, 100):
        want = implicit_euler(1e-3, 1.0, 1.5, steps, h, damping)
        for iterations in (1, 100):
            assert final_x(model, steps, h, iterations) == pytest.approx(want, abs=1e-12)


def test_two_free_particles_swing_with_their_reduced_mass():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0, 0, 0], [1.5, 0, 0]], mass=[1.0, 3.0])
    builder.add_spring(0, 1, compliance=1e-3, rest_length=1.0)
    model = builder.finalize(dtype=sim.float64)
    q = sim.rollout(sim.SolverXPBD(model), model.state(), 50, 1 / 600).final.particle_q.numpy()
    assert q[1, 0] - q[0, 0] == pytest.approx(implicit_euler(1e-3, 0.75, 1.5, 50, 1 / 600), abs=1e-12)


def test_logarithmic_decrement():
    """Damping time d [s] is a coefficient c = d / alpha: zeta = d omega / 2, decrement 2 pi zeta / sqrt(1 - zeta^2) per
    period.  Implicit Euler adds (to first order) omega h / 2 to zeta, which the step size tells apart."""
    alpha, d = 1e-3, 0.005
    omega = 1 / np.sqrt(alpha)
    found = []
    for h in (1 / 12000, 1 / 24000):
        solver = sim.SolverXPBD(one_spring(alpha, 1.0, 1.5, damping=d))
        steps = int(4 * 2 * np.pi / omega / h)
        x = sim.rollout(solver, solver.model.state(), steps, h, frame_every=1).particle_q.numpy()[:, 1, 0] - 1.0
        peaks = [x[k] for k in range(1, len(x) - 1) if x[k - 1] < x[k] >= x[k + 1]]
        found.append(np.log(peaks[0] / peaks[2]) / 2)
    zeta = d * omega / 2
    want = 2 * np.pi * zeta / np.sqrt(1 - zeta**2)
    errors = np.array(found) / want - 1
    assert (0 < errors).all() and errors[0] == pytest.approx(1 / 12000 / d, rel=0.1)  # (omega h / 2) / zeta = h / d
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert 2 * found[1] - found[0] == pytest.approx(want, rel=1e-3)


@pytest.mark.parametrize(("mass", "want"), [(1.0, 0.1), (0.125, 0.0125)])
@pytest.mark.parametrize(("steps", "h", "iterations"), [(400, 1 / 60, 1), (400, 1 / 60, 20), (2000, 1 / 300, 1)])
def test_weight_on_a_spring(mass, want, steps, h, iterations):
    """Mueller 2020, fig. 4: compliance .01 m/N stretches by alpha m g, whatever the steps and iterations.  The swing
    dies with exp(-t d omega^2 / 2), or exp(-t / d) where it is overdamped: e^-33 within 6.7 s."""
    model = one_spring(0.01, mass, 1.0, gravity=10.0, damping=0.2)
    assert final_x(model, steps, h, iterations) - 1.0 == pytest.approx(want, rel=1e-6)


# ------------------------------------------------------------------------------------------ chains


@pytest.mark.parametrize(("substeps", "iterations", "got"), [(1, 20, 1.2e-3), (20, 1, 6.3e-3), (100, 1, 2.5e-4)])
def test_hanging_chain(substeps, iterations, got):
    """Stretch m g alpha N (N + 1) / 2, force on link k of those below it.  What a Gauss-Seidel that is not iterated to
    the end leaves falls with h^2; `got` is what another program had (physics-truths, 5)."""
    n, m, alpha, h = 20, 0.1, 1e-3, 1 / 60 / substeps
    model = hanging_chain(n, m, alpha)
    solver = sim.SolverXPBD(model, iterations)
    final = relaxed(solver, model.state(), h, 0.2, 60)
    assert np.abs(final.particle_qd.numpy()).max() < 1e-7
    want = m * G * alpha * n * (n + 1) / 2
    error = (-final.particle_q.numpy()[n, 1] - n * 0.05) / want - 1
    print(f"{substeps} x {iterations}: stretch {error:+.4%}")
    assert error == pytest.approx(got, rel=0.15)
    row = model.constraint_sets["distance"].index_of["chain"]
    force = -solver.multipliers("distance").numpy()[row] / h**2
    np.testing.assert_allclose(force, np.arange(n, 0, -1) * m * G, rtol=1e-5)  # statics: exact once at rest


def test_damping_delays_the_convergence_of_a_static_shape():
    """With damping, one Gauss-Seidel sweep per step corrects less by 1 + gamma, gamma = d / h: the error that a chain
    at rest is left with is of order h d instead of h^2.  It is there, and it vanishes: halves with h."""
    errors = []
    for substeps in (100, 200, 400):
        model, h = hanging_chain(damping=0.01), 1 / 60 / substeps
        final = relaxed(sim.SolverXPBD(model), model.state(), h, 0.2, 40)
        errors.append((-final.particle_q.numpy()[20, 1] - 1.0) / (0.1 * G * 1e-3 * 210) - 1)
    print("stretch with damping:", errors)
    assert 0.005 < errors[0] < 0.05
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1.0, atol=0.2)


def sag_of_links(n: int, length: float, width: float) -> float:
    """Sag of n (even) rigid links with equal masses at their joints, ends `width` apart: the slope of link j from the
    middle is (j - 1/2) r, with r found by bisection; n to infinity is the catenary (.292344 at 1.2 and 1)."""
    slopes, low, high = np.arange(n // 2) + 0.5, 1e-6, 1e6
    for _ in range(200):
        r = np.sqrt(low * high)
        wide = 2 * length / n * np.sum(1 / np.hypot(1, slopes * r)) > width
        low, high = (r, high) if wide else (low, r)
    return float(length / n * np.sum(slopes * r / np.hypot(1, slopes * r)))


def test_catenary():
    """20 stiff links 1.2 long between ends 1 apart.  One sweep per step: the error of the sag falls with h^2."""
    n, length = 20, 1.2
    assert sag_of_links(2000, 1.2, 1.0) == pytest.approx(0.292344, abs=1e-6)
    exact = sag_of_links(n, length, 1.0)
    a, s = 0.469542, np.linspace(-length / 2, length / 2, n + 1)
    start = np.stack([a * np.arcsinh(s / a), 0.5 * np.abs(s), 0 * s], axis=1)  # a V of about the right shape
    errors = []
    for substeps in (20, 100):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        builder.add_particles(start, mass=0.05)
        builder.add_constraints(
            "distance", np.stack([np.arange(n), np.arange(1, n + 1)], axis=1), compliance=0.0, rest=length / n
        )
        builder.add_attachment([0, n])
        model, h = builder.finalize(dtype=sim.float64), 1 / 60 / substeps
        q = relaxed(sim.SolverXPBD(model), model.state(), h, 0.12, 120).particle_q.numpy()
        errors.append((q[0, 1] - q[n // 2, 1]) / exact - 1)
    print("sag", errors)
    assert abs(errors[0]) < 6.2e-3 and abs(errors[1]) < 6e-4
    assert errors[0] / errors[1] == pytest.approx(25, rel=0.1)


# ------------------------------------------------------------------------------------------ pendula
def pendulum(angle: float, links: int = 1) -> sim.Model:
    direction = np.array([np.sin(angle), -np.cos(angle), 0.0])
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    for k in range(links + 1):
        builder.add_particle(direction * k / links, mass=1.0 if k else 0.0)
    for k in range(links):
        builder.add_spring(k, k + 1, compliance=0.0)
    return builder.finalize(dtype=sim.float64)


def energy(state: sim.State) -> float:
    m, q, v = (a.numpy() for a in (state.model.particle_mass, state.particle_q, state.particle_qd))
    return float(np.sum(m * (G * q[:, 1] + 0.5 * (v * v).sum(axis=1))))


def test_pendulum_period():
    """T = 4 sqrt(L / g) K(sin(theta / 2)) = 2.139138 s at 1 rad.  First order: -4.3, -1.6, -.49, -.10 % at 1, 5, 20,
    100 substeps (mean of six periods), energy left .084, .56, .857, .969."""
    exact, errors, left = 2.139138, [], []
    for substeps in (5, 20, 100):
        model = pendulum(1.0)
        h = 1 / 60 / substeps
        solver = sim.SolverXPBD(model)
        frames = sim.rollout(solver, model.state(), int(6.2 * exact / h), h, frame_every=1)
        x = np.concatenate([model.state().particle_q.numpy()[None, 1, 0], frames.particle_q.numpy()[:, 1, 0]])
        k = np.flatnonzero((x[:-1] > 0) & (x[1:] <= 0))  # downward zero crossings, interpolated
        crossing = (k + x[k] / (x[k] - x[k + 1])) * h
        errors.append((crossing[5] - crossing[0]) / 5 / exact - 1)
        start, bottom = energy(model.state()), -G
        final = sim.rollout(solver, model.state(), int(6 * exact / h), h).final
        left.append((energy(final) - bottom) / (start - bottom))
    print("period", errors, "energy left", left)
    np.testing.assert_allclose(errors, [-0.016, -0.0049, -0.0010], rtol=0.2)
    np.testing.assert_allclose(left, [0.56, 0.857, 0.969], rtol=0.05)


def test_substeps_not_iterations_conserve_energy():
    """Small Steps and Mueller 2020, figs. 8 and 9, with a triple pendulum, in small: n substeps lose what is of order
    h."""

    def loss(substeps: int, iterations: int) -> float:
        model = pendulum(np.pi / 2, links=3)
        final = sim.rollout(sim.SolverXPBD(model, iterations), model.state(), 30 * substeps, 1 / 60 / substeps).final
        return (energy(model.state()) - energy(final)) / (3 * G)

    many_iterations, substeps = loss(1, 40), loss(40, 1)
    print("energy lost:", many_iterations, substeps)
    assert many_iterations > 10 * substeps > 0
    assert np.log2(loss(100, 1) / loss(200, 1)) == pytest.approx(1, abs=0.1)


# ------------------------------------------------------------------------------------------ conservation
def free_sheet(order: str, dtype=sim.float64, iterations: int = 1) -> tuple[sim.SolverXPBD, sim.State]:
    """A sheet that flies, turns, is stretched and shaken; no gravity."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    material = {
        "distance": {"compliance": 0.01, "damping": 2e-3},
        "shear": {"compliance": 0.05},
        "bend": {"compliance": 10.0},
    }
    builder.add_cloth_grid(
        dim_x=5,
        dim_y=4,
        cell_x=0.1,
        cell_y=0.1,
        density=0.3,
        label="sheet",
        material=material,
        vel=(1, 2, 3),
        spin=(3, -2, 4),
    )
    model = builder.finalize(dtype=dtype)
    state, rng = model.state(), np.random.default_rng(5)
    state.particle_q.assign(state.particle_q.numpy() + 0.01 * rng.normal(size=(30, 3)))
    state.particle_qd.assign(state.particle_qd.numpy() + rng.normal(size=(30, 3)))
    return sim.SolverXPBD(model, iterations, order), state


@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("order", ["colored", "jacobi"])
def test_momentum(order, iterations):
    """Linear momentum is conserved to rounding in either order.  Angular momentum is not, because C and J are of the
    predicted positions while the arms are those before: it drifts with the order of h."""
    solver, state = free_sheet(order, iterations=iterations)
    linear, angular = momentum(state)
    drift = []
    for steps in (50, 100):
        p, L = momentum(take_steps(solver, state, steps, 0.05 / steps))
        np.testing.assert_allclose(p, linear, rtol=1e-12, atol=1e-12)
        drift.append(np.abs(L - angular).max() / np.abs(angular).max())
    print("drift of the angular momentum:", drift)
    assert drift[0] < 5e-3 and drift[1] < 0.65 * drift[0]


def test_momentum_in_float32():
    solver, state = free_sheet("colored", sim.float32)
    linear, angular = momentum(state)
    p, L = momentum(take_steps(solver, state, 50, 0.001))
    np.testing.assert_allclose(p, linear, rtol=5e-4)
    np.testing.assert_allclose(L, angular, rtol=5e-3, atol=5e-3 * np.abs(angular).max())


def test_a_moved_and_turned_sheet_feels_nothing():
    solver, _ = free_sheet("colored")
    model, rng = solver.model, np.random.default_rng(3)
    state = model.state()
    q = model.particle_q.numpy() @ random_rotation(rng).T + rng.normal(size=3)
    state.particle_q.assign(q)
    state.particle_qd.zero_()
    assert all(constraint_energy(model, state, name) < 1e-24 for name in model.constraint_sets)
    np.testing.assert_allclose(positions(take_steps(solver, state, 20, 0.01)), q, rtol=0, atol=1e-12)
