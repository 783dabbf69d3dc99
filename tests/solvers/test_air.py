"""The drag of faces: terminal velocities, wind, steps of any length, gradients.  float64."""

import numpy as np
import pytest
from tools.physics.rollouts import check_model_gradients
from tools.physics.steps import take_steps

import sim
from sim.geometry import rotation_from_axis_angle
from sim.model import UnknownPathError

AIR, SHEET, G = 1.2, 0.2, 9.81  # [kg/m^3], [kg/m^2], [m/s^2]
LYING = rotation_from_axis_angle([1.0, 0.0, 0.0], np.pi / 2)


def sheet(normal=1.2, tangential=0.05, wind=(0.0, 0.0, 0.0), g=G, worlds=1, cells=2, **options):
    """A free sheet of nearly rigid springs."""
    builder = sim.ModelBuilder(gravity=(0.0, -g, 0.0), wind=wind, air_density=AIR)
    stiff = {"compliance": 1e-6, "damping": 1e-3}
    group = builder.add_cloth_grid(
        dim_x=cells, dim_y=cells, cell_x=0.2 / cells, cell_y=0.2 / cells, density=SHEET, label="sheet",
        material={"distance": stiff, "shear": stiff, "bend": {"compliance": 1.0}}, **options,
    )  # fmt: skip
    builder.set_air(group, normal, tangential)
    return builder.replicate(worlds).finalize(dtype=sim.float64, requires_grad=True)


def velocities(state):
    return state.particle_qd.numpy().copy()


@pytest.mark.parametrize("dt", [0.1, 5e-3])
@pytest.mark.parametrize(("rot", "coefficient"), [(LYING, 1.2), (None, 0.05)])
def test_terminal_velocity_of_a_falling_sheet(rot, coefficient, dt):
    """sqrt(2 m g / (rho c A)), face-on by the normal coefficient, edge-on by the tangential one, at any step."""
    model = sheet(rot=rot)
    terminal = np.sqrt(2 * SHEET * G / (AIR * coefficient))
    state = model.state()
    state.particle_qd.assign(np.full((model.particle_count, 3), (0.0, -0.7 * terminal, 0.0)))
    final = take_steps(sim.SolverXPBD(model), state, round(8 * terminal / G / dt), dt)
    momentum = model.particle_mass.numpy() @ velocities(final) / model.particle_mass.numpy().sum()
    np.testing.assert_allclose(momentum, [0.0, -terminal, 0.0], atol=1e-4 * terminal)


def test_the_way_to_terminal_velocity():
    """v = v_t tanh(g t / v_t), of second order: v^2 is taken as the product of the speeds before and after the step."""
    model, errors = sheet(rot=LYING), []
    terminal, mass = np.sqrt(2 * SHEET * G / (AIR * 1.2)), model.particle_mass.numpy()
    for steps in (20, 40):
        final = take_steps(sim.SolverXPBD(model), model.state(), steps, 0.2 / steps)
        found = mass @ velocities(final)[:, 1] / mass.sum()
        errors.append(abs(found + terminal * np.tanh(G * 0.2 / terminal)))
    assert errors[0] < 0.02 * terminal
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.02)


def test_wind_carries_a_free_sheet():
    """Against a sheet at rest it pushes by rho c A u^2 / 2; in the end the sheet goes with it."""
    wind = (0.0, 0.0, 3.0)
    model = sheet(wind=wind, g=0.0)
    mass = model.particle_mass.numpy()
    first = take_steps(sim.SolverXPBD(model), model.state(), 1, 1e-6)
    push = mass @ velocities(first)[:, 2] / 1e-6
    assert push == pytest.approx(0.5 * AIR * 1.2 * 0.04 * 9.0, rel=1e-4)
    # m dv/dt = -k (v - u)^2: v - u = -u / (1 + k u t / m)
    later = take_steps(sim.SolverXPBD(model), model.state(), 400, 5e-3)
    rate = 0.5 * AIR * 1.2 / SHEET * 3.0
    assert mass @ velocities(later)[:, 2] / mass.sum() == pytest.approx(3.0 - 3.0 / (1 + rate * 2.0), rel=5e-3)


def test_drag_is_across_and_along_each_face():
    """Of a sheet that flies at an angle: -rho A / 2 (c_n |v_n| v_n, c_t |v_t| v_t), by NumPy."""
    model = sheet(normal=0.9, tangential=0.1, g=0.0)
    mass = model.particle_mass.numpy()
    v, dt = np.array([2.0, -1.0, 1.5]), 1e-5
    state = model.state()
    state.particle_qd.assign(np.tile(v, (model.particle_count, 1)))
    final = take_steps(sim.SolverXPBD(model), state, 1, dt)
    force = mass @ (velocities(final) - v) / dt
    along = v * [1, 1, 0]
    want = -0.5 * AIR * 0.04 * (0.1 * np.linalg.norm(along) * along + 0.9 * abs(v[2]) * v * [0, 0, 1])
    np.testing.assert_allclose(force, want, rtol=1e-4)


@pytest.mark.parametrize("dt", [1e-3, 1.0, 1e4])
def test_no_step_turns_a_motion_round(dt):
    """Each point comes closer to the velocity of the wind, whatever the step."""
    wind = np.array([5.0, -3.0, 8.0])
    builder = sim.ModelBuilder(gravity=(0, 0, 0), wind=wind)
    group = builder.add_cloth_grid(dim_x=3, dim_y=3, cell_x=0.1, cell_y=0.1, density=1e-3, label="foil")
    builder.set_air(group, 2.0, 0.5)
    model, rng = builder.finalize(dtype=sim.float64), np.random.default_rng(3)
    state = model.state()
    before = 20 * rng.normal(size=(16, 3)) + wind
    state.particle_qd.assign(before)
    after = velocities(take_steps(sim.SolverXPBD(model), state, 1, dt)) - wind
    before -= wind
    assert (np.sum(after * before, axis=1) > 0).all()
    assert (np.sum(after**2, axis=1) < np.sum(before**2, axis=1)).all()


def test_without_air_there_is_no_kernel_of_it():
    builder = sim.ModelBuilder(wind=(3.0, 0.0, 0.0))
    builder.add_cloth_grid(dim_x=1, dim_y=1, cell_x=0.1, cell_y=0.1, density=0.1)
    model = builder.finalize()
    assert not model.in_wind and "wind" not in model.materials
    assert sim.SolverXPBD(model)._face_drag is None
    with pytest.raises(UnknownPathError, match="wind"):
        model.wind.numpy()


def test_worlds_have_coefficients_of_their_own():
    model = sheet(rot=LYING, worlds=2)
    model["sheet.air.normal"].assign([1.2, 0.3])
    final = take_steps(sim.SolverXPBD(model), model.state(), 20, 0.02)
    slow, fast = (-velocities(final)[model.groups["sheet"].of_world(w), 1].mean() for w in (0, 1))
    assert slow < np.sqrt(2 * SHEET * G / (AIR * 1.2)) < fast


def test_gradients():
    """By coefficients, wind, density, positions and velocities, through XPBD steps; against differences."""
    model = sheet(wind=(1.0, 0.5, 2.0), rot=rotation_from_axis_angle([1.0, 2.0, 0.5], 0.8), cells=1)
    rng = np.random.default_rng(7)

    def final():
        return sim.rollout(sim.SolverXPBD(model), model.state(), 12, 5e-3).final

    paths = ("sheet.air.normal", "sheet.air.tangential", "wind", "air_density", "sheet.velocity", "sheet.spin")
    check_model_gradients(model, final, paths, 1e-4, lambda value: rng.normal(size=value.shape), rel=1e-6)


def test_checkpoints_and_branches_give_the_same_gradients():
    """Air and inner variables through segments that run again, bit for bit."""
    builder = sim.ModelBuilder(wind=(1.0, 0.0, 2.0))
    branches = [{"stiffness": 0.5, "time": 0.02}, {"stiffness": 0.5, "yield": 1e-3}]
    group = builder.add_cloth_grid(
        dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.1, label="sheet", fix_top=True,
        material={"distance": {"compliance": 1e-2, "branches": branches}},
    )  # fmt: skip
    builder.set_air(group, 1.2, 0.05)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    paths = ("wind", "sheet.air.normal", "sheet.distance.branches.0.time", "sheet.distance.branches.1.yield")
    found = []
    for strategy in (sim.StoreAll(), sim.Checkpointed(every=4)):
        with sim.Tape() as tape:
            end = sim.rollout(sim.SolverXPBD(model), model.state(), 15, 5e-3, strategy=strategy).final
        tape.backward(grads={end.particle_q: sim.ones(model.particle_count, sim.vec3d)})
        found.append([model[path].grad.numpy().copy() for path in paths])
        for path in paths:
            model[path].grad.zero_()
    for one, other in zip(*found, strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, other)
