"""BDF2: order, what it keeps of a swing, when it begins anew, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.pendulum import exact_period, pendulum, swings

import sim

GRAVITY = (0.0, -9.81, 0.0)


def test_a_pendulum_keeps_its_period_and_energy():
    """A hundred periods with five steps a frame: implicit Euler has lost half of the energy after ten."""
    period, energy = swings(pendulum(sim.float32, "bdf2"), 5, 100.5 * exact_period())
    assert period == pytest.approx(exact_period(), rel=1e-4)
    assert 0.999 < energy < 1.0


# ------------------------------------------------------------------------------------------ order
def chain(damping=0.0, across=False, drag=0.0, **options):
    """Eight links; across: and springs to the neighbours' neighbours, which make it a rod.  drag [1/m]: of the air."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    material = {"distance": {"compliance": 0.1, "damping": damping, **options}}
    group = builder.add_chain((0, 0, 0), (0.8, 0, 0), 9, mass=0.1, material=material, label="chain")
    builder.add_attachment(group.points[: 2 if across else 1])
    builder.set_drag(group, drag)
    if across:
        ends = np.stack([group.points[:-2], group.points[2:]], 1)
        builder.add_constraints("distance", ends, compliance=2e-2, damping=damping, label="across")
    return builder


def sheet(damping=0.0, wind=None, held=(0, 4)):
    builder = sim.ModelBuilder(gravity=GRAVITY, wind=wind or (0, 0, 0))
    material = {"distance": {"compliance": 0.3, "damping": damping}, "bend": {"compliance": 50.0}}
    group = builder.add_cloth_grid(
        (0, 1, 0), dim_x=4, dim_y=3, cell_x=0.25, cell_y=0.25, density=0.2, material=material, label="sheet"
    )
    builder.add_attachment(list(held))
    if wind:
        builder.set_air(group, 1.2, 0.1)
    return builder


def strip(damping=0.0):
    """A narrow cloth that sticks out and bends."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    material = {
        "distance": {"compliance": 0.05, "damping": damping},
        "bend": {"compliance": 20.0, "damping": damping},
    }
    group = builder.add_cloth_grid(
        dim_x=6, dim_y=1, cell_x=0.1, cell_y=0.1, density=0.2, material=material, rot=(0.7071068, 0, 0, 0.7071068),
        label="strip",
    )  # fmt: skip
    builder.add_attachment(group.choose({"x": [None, 0.1 + 1e-9]}))
    return builder


def solid(element, law, damping=0.0):
    builder = sim.ModelBuilder(gravity=GRAVITY)
    group = builder.add_soft_grid(
        dim_x=3, dim_y=1, dim_z=1, cell_x=0.05, cell_y=0.05, cell_z=0.05, density=1000.0, element=element,
        material={law: {"young": 2e4, "poisson": 0.3, "damping": damping}}, label="solid",
    )  # fmt: skip
    builder.add_attachment(group.choose({"x": [None, 1e-9]}))
    return builder


def order(solver, steps, seconds):
    """Observed, of positions and velocities at the end, by three step lengths."""
    ends = []
    for k in (1, 2, 4):
        end = sim.rollout(solver, solver.model.state(), steps * k, seconds / steps / k).final
        ends.append(np.stack([end.particle_q.numpy(), seconds * end.particle_qd.numpy()]))
    first, second = (np.linalg.norm(a - b) for a, b in zip(ends, ends[1:], strict=False))
    return float(np.log2(first / second))


RELAXES, YIELDS = {"stiffness": 0.5, "time": 0.03}, {"stiffness": 0.5, "yield": 2e-3}
MOTIONS = {
    "chain": (lambda: chain(), 1),
    "damped chain": (lambda: chain(2e-3), 6),
    "chain in air": (lambda: chain(drag=2.0), 1),
    "chain that relaxes": (lambda: chain(branches=[RELAXES]), 6),
    "chain that yields": (lambda: chain(branches=[YIELDS]), 6),
    "rod": (lambda: chain(across=True), 1),
    "damped rod": (lambda: chain(2e-3, across=True), 6),
    "damped strip": (lambda: strip(2e-3), 6),
    "damped sheet": (lambda: sheet(2e-3), 6),
    "damped sheet in the wind": (lambda: sheet(2e-3, wind=(1.0, 0.5, 3.0)), 8),
    "hexahedra": (lambda: solid("hexahedra", "stvk"), 1),
    "damped tetrahedra": (lambda: solid("tetrahedra", "neo_hookean", 2e-3), 6),
}
"""Name -> builder, sweeps: one is enough for springs; what it leaves of damping forces is of first order, and takes
more."""


@pytest.mark.parametrize("name", MOTIONS)
def test_second_order(name):
    make, iterations = MOTIONS[name]
    model = make().finalize(dtype=sim.float64)
    assert order(sim.SolverXPBD(model, iterations, integrator="bdf2"), 200, 0.2) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("name", ["damped rod", "damped sheet in the wind", "damped tetrahedra"])
def test_second_order_of_converged_steps(name):
    model = MOTIONS[name][0]().finalize(dtype=sim.float64)
    assert order(sim.SolverNewton(model, integrator="bdf2"), 50, 0.2) == pytest.approx(2.0, abs=0.25)


def test_air_that_is_thick_for_the_step():
    """Each point of a foil comes to rest in the wind, whatever the step."""
    for dt in (1e-3, 0.1, 100.0):
        wind = np.array([5.0, -3.0, 8.0])
        builder = sim.ModelBuilder(gravity=(0, 0, 0), wind=wind)
        group = builder.add_cloth_grid(dim_x=3, dim_y=3, cell_x=0.1, cell_y=0.1, density=1e-3, label="foil")
        builder.set_air(group, 2.0, 0.5)
        solver = sim.SolverXPBD(builder.finalize(dtype=sim.float64), integrator="bdf2")
        state = solver.model.state()
        state.particle_qd.assign(20 * np.random.default_rng(3).normal(size=(16, 3)) + wind)
        before = np.abs(state.particle_qd.numpy() - wind).max()
        speeds = [
            np.abs(sim.rollout(solver, state, n, dt).final.particle_qd.numpy() - wind).max() for n in (1, 2, 5, 20)
        ]
        assert max(speeds) <= before and speeds[-1] < speeds[0]


# ------------------------------------------------------------------------------------------ history
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


# ------------------------------------------------------------------------------------------ gradients
def in_contact():
    """A sheet with damping, led by a corner, falls on a plane."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    material = {"distance": {"compliance": 0.05, "damping": 4e-3}, "bend": {"compliance": 20.0}}
    builder.add_cloth_grid(
        (0, 0.02, 0), dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.3, material=material, label="sheet"
    )
    builder.add_ground_plane()
    builder.add_attachment([0], motion=[{"swing": [0.02, 0.03, 0.0], "frequency": 3.0}], label="hand")
    return builder, 2, "zero", [(23, 0.004)]


def warm():
    """A damped rod, whose multipliers begin with the forces at hand."""
    return chain(5e-3, across=True), 1, "elastic", [(17, 4e-3)]


def other_steps():
    """Steps of another length in between begin without a history."""
    return sheet(2e-3), 2, "zero", [(9, 0.004), (7, 0.002), (8, 0.004)]


def windy():
    return sheet(2e-3, wind=(1.0, 0.5, 3.0)), 2, "zero", [(15, 0.004)]


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=5)], ids=["stored", "checkpointed"])
@pytest.mark.parametrize("make", [in_contact, warm, other_steps, windy])
def test_gradients(make, strategy):
    """By start, material and outer forces: against central differences."""
    builder, iterations, start, parts = make()
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations, start=start, integrator="bdf2")
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(model.particle_count, 3))

    def run():
        state = model.state()
        for steps, dt in parts:
            state = sim.rollout(solver, state, steps, dt, strategy=strategy).final
        return state

    with sim.Tape() as tape:
        end = run()
    tape.backward(grads={end.particle_q: sim.array(weights, dtype=sim.vec3d)})
    if make is in_contact:
        assert (end.particle_q.numpy()[:, 1] < 1e-9).any()  # some points lie on the plane
    name = next(iter(model.groups))
    paths = ["gravity", f"{name}.velocity", f"{name}.position"]
    paths += [path for path in model.materials if path.endswith((".damping", ".compliance", ".young", "air.normal"))]
    for path in paths:
        value, gradient = model[path].numpy().astype(float).copy(), model[path].grad.numpy()
        way = rng.normal(size=value.shape)
        e, sums = 1e-5 * max(1.0, np.abs(value).max()), []
        for sign in (1, -1):
            model[path].assign(value + sign * e * way)
            sums.append(float((weights * run().particle_q.numpy()).sum()))
        model[path].assign(value)
        slope = (sums[0] - sums[1]) / (2 * e)
        assert (gradient * way).sum() == pytest.approx(slope, rel=1e-5, abs=1e-8), path
