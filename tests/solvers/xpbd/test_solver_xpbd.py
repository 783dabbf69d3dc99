"""The solver: colours, pinned and prescribed points, orders, precisions, threads, and wrong use."""

import numpy as np
import pytest
from tools.constraints.samples import SEED
from tools.physics.models import G, hanging_chain, swung_sheet
from tools.physics.steps import positions, take_steps

import sim
from sim.core.runtime.ambient import threads
from sim.geometry import GeometryError
from sim.geometry.coloring import Coloring
from sim.model.build.order import row_order
from sim.solvers.batch import Rows


# ------------------------------------------------------------------------------------------ colours
def test_no_two_constraints_of_a_colour_share_a_free_point():
    model = swung_sheet().model
    free = model.particle_inv_mass.numpy() > 0
    assert not free.all()
    for name, made in model.constraint_sets.items():
        points = made.points.numpy()
        assert made.offsets[0] == 0 and made.offsets[-1] == made.count
        for begin, end in zip(made.offsets, made.offsets[1:], strict=False):
            used = points[begin:end][free[points[begin:end]]]
            assert len(used) == len(np.unique(used)), name


def test_a_broken_colouring_is_caught_at_finalize(monkeypatch):
    def broken(points, free):
        """Everything one colour."""
        n = len(points)
        return Coloring(np.zeros(n, np.int32), np.arange(n, dtype=np.int32), np.array([0, n], np.int32))

    monkeypatch.setattr(row_order, "color_constraints", broken)
    with pytest.raises(GeometryError, match="constraints 0 and 1 have the same colour 0 and share the free point 1"):
        hanging_chain()


def test_the_order_within_a_colour_does_not_matter():
    """Rows of a colour run in any order, hence side by side: one launch from the last row to the first gives the same
    bits."""
    solver = swung_sheet()
    made = solver.model.constraint_sets["distance"]
    batch = next(b for b in solver.batches if b.set is made)
    rng = np.random.default_rng(SEED)
    start = solver.model.particle_q.numpy() + 0.01 * rng.normal(size=solver.model.particle_q.numpy().shape)
    results = []
    for backwards in (False, True):
        before, after = solver.model.state(), solver.model.state()
        before.particle_q.assign(start)
        before.particle_qd.zero_()
        step = solver._substep(before, after, None, 0.01)
        solver._predict(step)
        for begin, end in zip(made.offsets, made.offsets[1:], strict=False):
            rows = range(begin, end)[:: -1 if backwards else 1]
            for row in rows:
                solver._project(batch, Rows(row, 1, False), 0, step)
        solver._finish(step)
        results.append(after.particle_q.numpy().copy())
    assert np.array_equal(*results)
    assert np.abs(results[0] - start).max() > 1e-4


@pytest.mark.parametrize("order", ["colored", "jacobi"])
def test_threads_do_not_change_a_bit(order, monkeypatch):
    """Small pieces for several threads: the same positions and gradients as on one."""
    builder = sim.ModelBuilder()
    material = {
        "distance": {"compliance": 0.02, "damping": 2e-3},
        "shear": {"compliance": 0.1},
        "bend": {"compliance": 50.0},
    }
    builder.add_cloth_grid(
        dim_x=24,
        dim_y=24,
        cell_x=0.05,
        cell_y=0.05,
        density=0.2,
        label="sheet",
        material=material,
        fix_top=True,
        spin=(1, 2, 3),
    )
    builder.add_shape_sphere((0.5, 0.5, 0.02), 0.2, compliance=1e-3)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    monkeypatch.setattr(threads, "LEAST", 64)
    monkeypatch.setattr(threads, "WORTH", 0)
    found, before = [], threads.get_num_threads()
    try:
        for count in (1, 4):
            threads.set_num_threads(count)
            solver, state = sim.SolverXPBD(model, 1, order), model.state()
            with sim.Tape() as tape:
                a, b = state.clone(), model.state()
                for _ in range(8):
                    solver.step(a, b, None, None, 1 / 600)
                    a, b = b, a
            tape.backward(
                grads={a.particle_q: sim.ones_like(a.particle_q), a.particle_qd: sim.ones_like(a.particle_qd)}
            )
            found.append([positions(a), *(v.grad.numpy().copy() for v in model.materials.values())])
            tape.zero()
    finally:
        threads.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------------------------------ pinned and prescribed
# points
@pytest.mark.parametrize("order", ["colored", "jacobi"])
@pytest.mark.parametrize("dtype", [sim.float32, sim.float64])
def test_pinned_points_never_move_by_a_bit(order, dtype):
    """Held by fix_left, by an attachment, and by having no mass; pushed by gravity, forces, a ball they stick in, and
    given velocities that nobody may take seriously."""
    builder = sim.ModelBuilder()
    material = {
        "distance": {"compliance": 0.001, "damping": 2e-3},
        "shear": {"compliance": 0.1},
        "bend": {"compliance": 50.0},
    }
    builder.add_cloth_grid(
        (0.3, 0.7, 0.1),
        dim_x=5,
        dim_y=5,
        cell_x=0.1,
        cell_y=0.1,
        density=0.2,
        material=material,
        fix_left=True,
        vel=(5, 5, 5),
        spin=(3, 3, 3),
    )
    builder.add_attachment([10, 35])
    builder.add_particle((0.1, 0.2, 0.3), vel=(1, 1, 1), mass=0.0)
    builder.add_spring(36, 7, compliance=0.0)
    builder.add_shape_sphere((0.3, 0.9, 0.1), 0.3, compliance=1e-3)
    builder.add_ground_plane(0.72)
    model = builder.finalize(dtype=dtype)
    state = model.state()
    state.particle_f.fill_((1.0, 2.0, 3.0))
    pinned = np.array([0, 6, 12, 18, 24, 30, 10, 35, 36])
    start = positions(state)
    moved = np.zeros(model.particle_count, bool)

    def check(s):
        assert np.array_equal(positions(s)[pinned], start[pinned])
        assert not s.particle_qd.numpy()[pinned].any()
        moved[:] |= (positions(s) != start).any(axis=1)

    take_steps(sim.SolverXPBD(model, 2, order), state, 60, 1 / 120, each=check)
    assert moved.sum() == model.particle_count - len(pinned)


def ease(s: float) -> float:
    s = min(max(s, 0.0), 1.0)
    return s * s * (3 - 2 * s)


def test_prescribed_motion_is_exact():
    """Positions are the anchor and the sum of the displacements at the time after the step; velocities their
    differences."""
    builder = sim.ModelBuilder()
    chain = builder.add_chain(
        (0, 0, 0), (1, 0, 0), 11, mass=1.0, pos=(0.1, 0.2, 0.3), material={"distance": {"compliance": 1e-3}}
    )
    builder.add_attachment(
        chain.points[:2],
        label="hand",
        motion=[
            {"move": (0.5, 0, -0.1), "start": 0.1, "end": 0.4},
            {"swing": (0, 0.3, 0), "frequency": 1.5},
            {"move": (0, 0, 0.7), "end": 0.2, "ease": "linear"},
        ],
    )
    builder.add_attachment(chain.points[-1:], label="still")
    model = builder.finalize(dtype=sim.float64)
    h, before = 1 / 100, positions(model.state())

    def want(t: float) -> np.ndarray:
        return (
            np.array([0.5, 0, -0.1]) * ease((t - 0.1) / 0.3)
            + np.array([0, 0.3, 0]) * (1 - np.cos(2 * np.pi * 1.5 * t)) / 2
            + np.array([0, 0, 0.7]) * min(t / 0.2, 1.0)
        )

    last, times = [before[:2]], []

    def check(state):
        q = positions(state)
        times.append(state.time)
        np.testing.assert_allclose(q[:2], before[:2] + want(len(times) * h), rtol=0, atol=1e-14)
        np.testing.assert_allclose(state.particle_qd.numpy()[:2], (q[:2] - last[0]) / h, rtol=0, atol=1e-13)
        assert np.array_equal(q[-1], before[-1])
        last[0] = q[:2]

    take_steps(sim.SolverXPBD(model), model.state(), 60, h, each=check)
    np.testing.assert_allclose(times, h * np.arange(1, 61), rtol=1e-13)


def test_a_control_replaces_the_motion():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0, 0, 0], [1, 0, 0]], mass=1.0)
    builder.add_attachment([0], motion={"move": (1, 0, 0), "end": 1.0, "ease": "linear"})
    model = builder.finalize(dtype=sim.float64)
    control = model.control()
    control.motion_vector = sim.array([[0, 2.0, 0]], dtype=sim.vec3d)
    solver = sim.SolverXPBD(model)
    np.testing.assert_allclose(
        positions(take_steps(solver, model.state(), 10, 0.05, control))[0], [0, 1, 0], atol=1e-14
    )
    np.testing.assert_allclose(
        sim.rollout(solver, model.state(), 10, 0.05, control).final.particle_q.numpy()[0], [0, 1, 0], atol=1e-14
    )
    np.testing.assert_allclose(positions(take_steps(solver, model.state(), 10, 0.05))[0], [0.5, 0, 0], atol=1e-14)


def test_a_soft_attachment_gives_way():
    """A weight m at an attachment of compliance a hangs a m g below its place, which is where the motion has brought
    it."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particles([[0, 0, 0], [1, 0, 0]], mass=[0.5, 2.0])
    builder.add_attachment([0, 1], compliance=[0.02, 0.01], motion={"move": (0.3, 0, 0), "end": 0.1}, label="hook")
    model = builder.finalize(dtype=sim.float64)
    q = sim.rollout(sim.SolverXPBD(model), model.state(), 4000, 1 / 20).final.particle_q.numpy()
    np.testing.assert_allclose(q, [[0.3, -0.02 * 0.5 * G, 0], [1.3, -0.01 * 2 * G, 0]], atol=1e-9)


# ------------------------------------------------------------------------------------------ orders and precisions
def test_both_orders_converge_to_the_same_step():
    """Colored and averaged iterations solve one system: where all C are linear (a straight chain, pressed on the
    ground) a step has one result, however it is reached.  Elsewhere J changes on the way, and the end depends on it a
    little."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    chain = builder.add_chain(
        (0, 0, 0),
        (0, -0.5, 0),
        6,
        mass=0.6,
        label="chain",
        vel=[(0, v, 0) for v in (0, 1, -2, 0.5, 3, -4)],
        material={"distance": {"compliance": 1e-3, "damping": 2e-3}},
    )
    builder.add_attachment(chain.points[:1], compliance=1e-4)
    builder.add_ground_plane(-0.49, compliance=1e-3)
    model = builder.finalize(dtype=sim.float64)
    ends = {}
    for order in ("colored", "jacobi"):
        for iterations in (20, 2000):
            ends[order, iterations] = positions(
                take_steps(sim.SolverXPBD(model, iterations, order), model.state(), 3, 1 / 100)
            )
    assert (
        ends["colored", 2000][5, 1] > -0.5
        and np.abs(ends["colored", 2000][:, 1] - model.particle_q.numpy()[:, 1]).max() > 0.004
    )
    np.testing.assert_allclose(ends["jacobi", 2000], ends["colored", 2000], rtol=0, atol=1e-12)
    assert np.abs(ends["jacobi", 20] - ends["jacobi", 2000]).max() > 1e-6


def test_precisions_agree():
    """float32 follows float64 to its own rounding, grown over 100 steps: h^2 g is 3e-5 of a cell here, 4e2
    roundings."""
    ends = {}
    for dtype in (sim.float32, sim.float64):
        builder = sim.ModelBuilder()
        material = {
            "distance": {"compliance": 0.02, "damping": 2e-3},
            "shear": {"compliance": 0.1},
            "bend": {"compliance": 50.0},
        }
        builder.add_cloth_grid(dim_x=8, dim_y=8, cell_x=0.1, cell_y=0.1, density=0.2, material=material, fix_top=True)
        builder.add_shape_sphere((0.4, 0.4, -0.1), 0.1)
        model = builder.finalize(dtype=dtype)
        state = model.state()
        state.particle_qd.fill_((0.0, 0.0, -1.0))
        final = sim.rollout(sim.SolverXPBD(model), state, 100, 1 / 500).final
        ends[dtype] = final.particle_q.numpy().astype(np.float64)
    assert np.abs(ends[sim.float32] - ends[sim.float64]).max() < 2e-5
    assert np.abs(ends[sim.float64][:, 2]).max() > 0.1


# ------------------------------------------------------------------------------------------ contracts and wrong use
def test_state_in_is_never_written():
    solver = swung_sheet(iterations=2)
    state = solver.model.state()
    state.particle_qd.fill_((0.1, 0.2, 0.3))
    before = {n: a.numpy().copy() for n, a in state.arrays.items()}
    out = solver.model.state()
    solver.step(state, out, None, None, 0.01)
    for name, a in state.arrays.items():
        np.testing.assert_array_equal(a.numpy(), before[name])
    assert state.time == 0.0 and out.time == 0.01
    assert not np.array_equal(positions(out), before["particle_q"])


def test_changed_material_values_are_used_by_the_next_step():
    model = hanging_chain(3)
    solver, state = sim.SolverXPBD(model), model.state()
    stiff = positions(take_steps(solver, state, 50, 0.01))
    model["chain.distance.compliance"].fill_(0.1)
    model["gravity"].fill_((0.0, -1.0, 0.0))
    soft = hanging_chain(3, alpha=0.1)
    soft["gravity"].fill_((0.0, -1.0, 0.0))
    changed = positions(take_steps(solver, state, 50, 0.01))
    assert np.array_equal(changed, positions(take_steps(sim.SolverXPBD(soft), soft.state(), 50, 0.01)))
    assert np.abs(changed - stiff).max() > 0.01


def test_multipliers_are_forces():
    """lambda / dt^2 is the force along the gradient: a spring stretched by its own motion only."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0, 0, 0], [1.1, 0, 0]], mass=[0.0, 1.0])
    builder.add_spring(0, 1, compliance=0.01, rest_length=1.0)
    model, h = builder.finalize(dtype=sim.float64), 1 / 100
    solver = sim.SolverXPBD(model)
    stretch = positions(take_steps(solver, model.state(), 1, h))[1, 0] - 1.0
    assert solver.multipliers("distance").numpy()[0] / h**2 == pytest.approx(-stretch / 0.01, rel=1e-12)


@pytest.mark.parametrize("dt", [0.0, -0.01, float("nan")])
def test_no_step_without_time(dt):
    model = hanging_chain(2)
    with pytest.raises(sim.SolverError, match=f"dt={dt}; expected a positive"):
        sim.SolverXPBD(model).step(model.state(), model.state(), None, None, dt)


def test_wrong_states():
    model, other = hanging_chain(2), hanging_chain(2)
    solver, state = sim.SolverXPBD(model), model.state()
    with pytest.raises(sim.SolverError, match="state_in belongs to another model"):
        solver.step(other.state(), state, None, None, 0.01)
    with pytest.raises(sim.SolverError, match="state_out belongs to another model"):
        solver.step(state, other.state(), None, None, 0.01)
    with pytest.raises(sim.SolverError, match="are the same state"):
        solver.step(state, state, None, None, 0.01)


def test_wrong_settings():
    model = hanging_chain(2)
    with pytest.raises(sim.SolverError, match="did you mean 'colored'"):
        sim.SolverXPBD(model, order="coloured")
    with pytest.raises(sim.SolverError, match="iterations=0"):
        sim.SolverXPBD(model, iterations=0)
    with pytest.raises(sim.SolverError, match="did you mean 'distance'"):
        sim.SolverXPBD(model).multipliers("distanc")
