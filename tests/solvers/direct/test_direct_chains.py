"""The direct solve of chains of particles and of rods: what it is good for, beside what is projected one by one."""

import numpy as np
import pytest
from tools.scenes.problems import ROPE, write_scene

import sim
from sim.solvers.base import SolverError
from sim.solvers.steplength import step_warnings

G = 9.81


def chain(points=9, compliance=1e-4, damping=1e-3, real=sim.float64, grad=False, ground=False, thickness=0.0):
    """A rope held at its first point."""
    b = sim.ModelBuilder(gravity=(0, -G, 0))
    rope = b.add_chain((0, 0, 0), (1, 0, 0.2), points, mass=1.0, label="rope", thickness=thickness,
                       material={"distance": {"compliance": compliance, "damping": damping}})  # fmt: skip
    b.add_attachment(rope.points[:1])
    if ground:
        b.add_ground_plane(-0.2, compliance=0.0, touches=["rope"], label="floor")
    return b.finalize(dtype=real, requires_grad=grad)


def run(model, steps, dt, **settings):
    return sim.rollout(sim.SolverXPBD(model, **settings), model.state(), steps, dt).final


@sim.kernel
def heights(x: sim.array[sim.vec3d], loss: sim.array[sim.float64]):
    i = sim.tid()
    sim.atomic_add(loss, 0, x[i][1] * x[i][1] + x[i][0])


def loss_of(model, steps=3, **settings):
    out = sim.zeros(1, sim.float64, requires_grad=True)
    sim.launch(heights, model.particle_count, [run(model, steps, 1 / 60, **settings).particle_q], [out])
    return out


def test_a_step_of_a_chain_is_that_of_its_tridiagonal_system():
    """From rest by hand: distances along x of points in a row, pulled apart by gravity along them."""
    n, alpha, h = 6, 2e-3, 0.02
    b = sim.ModelBuilder(gravity=(G, 0, 0))
    rope = b.add_chain(
        (0, 0, 0), (1, 0, 0), n + 1, mass=1.4, label="rope", material={"distance": {"compliance": alpha}}
    )
    b.add_attachment(rope.points[:1])
    model = b.finalize(dtype=sim.float64)
    solver, before, after = sim.SolverXPBD(model, direct=["rope"]), model.state(), model.state()
    solver.step(before, after, None, None, h)
    J, w, free = np.zeros((n, n + 1)), np.full(n + 1, (n + 1) / 1.4), G * h * h
    for k in range(n):
        J[k, k], J[k, k + 1] = -1.0, 1.0
    w[0] = 0.0
    C = J @ np.append(0.0, np.full(n, free))
    lam = np.linalg.solve(J @ np.diag(w) @ J.T + alpha / h**2 * np.eye(n), -C)
    np.testing.assert_allclose(np.sort(solver.multipliers("distance").numpy()), np.sort(lam), rtol=1e-12)
    wanted = np.append(0.0, np.full(n, free)) + w * (J.T @ lam)
    np.testing.assert_allclose((after.particle_q.numpy() - before.particle_q.numpy())[:, 0], wanted, atol=1e-15)


@pytest.mark.slow
def test_gradients_and_second_derivatives_are_differences():
    model = chain(grad=True)
    value = model["rope.distance.compliance"]

    def gradient():
        value.grad.zero_()
        with sim.Tape() as tape:
            loss = loss_of(model, direct=["rope"])
        tape.backward(loss)
        return loss.numpy()[0], value.grad.numpy()[0]

    slope, given, found = gradient()[1], value.numpy().copy(), []
    second = sim.autograd.hvp(lambda _: loss_of(model, direct=["rope"]), [value], [1.0])[0].numpy()[0]
    for factor in (1 - 1e-4, 1 + 1e-4):
        value.assign(factor * given)
        found.append(gradient())
    for k, wanted in enumerate((slope, second)):
        assert (found[1][k] - found[0][k]) / (2e-4 * given[0]) == pytest.approx(wanted, rel=1e-6)


def test_many_iterations_of_projections_come_to_the_same():
    """A soft chain: Gauss-Seidel converges to the solution of a few Newton steps."""
    model = chain(compliance=1e-2, damping=0.0)
    swept, direct = (
        run(model, 1, 1 / 60, iterations=k, direct=names).particle_q.numpy() for k, names in ((4000, ()), (8, ["rope"]))
    )
    np.testing.assert_allclose(direct, swept, atol=1e-9)


def test_float32_is_float64_rounded():
    one, other = (
        run(chain(points=40, real=real, compliance=1e-6), 20, 1 / 240, direct=["rope"])
        for real in (sim.float64, sim.float32)
    )
    np.testing.assert_allclose(other.particle_q.numpy(), one.particle_q.numpy(), atol=2e-5)


def test_beside_contacts_that_are_projected():
    """A rope that lies on a floor, at rest: it is on it, and as long as it was."""
    model = chain(compliance=0.0, damping=0.0, ground=True)
    state = run(model, 600, 1 / 120, direct=["rope"])
    x = state.particle_q.numpy()
    links = np.linalg.norm(np.diff(x, axis=0), axis=1)
    assert x[:, 1].min() > -0.2 - 2e-3
    np.testing.assert_allclose(links, links.mean(), rtol=1e-3)


def heavy_end(ratio, gravity, n=10):
    """Links of 1 kg together in a row, with ball joints, and at the end a ball of so many times their mass."""
    b, length = sim.ModelBuilder(gravity=gravity), 1.0 / n
    inertia = np.array([0.1, 1.0, 1.0]) * length**2 / (12 * n)
    links = [b.add_body(((k + 0.5) * length, 0, 0), 1.0 / n, inertia, label=f"link{k}") for k in range(n)]
    left, right = (-0.5 * length, 0, 0), (0.5 * length, 0, 0)
    rows = [[b.point_of(one, right), b.point_of(next_, left)] for one, next_ in zip(links, links[1:], strict=False)]
    rows.append([b.point_of(links[-1], right), b.point_of(b.add_body((1.0, 0, 0), ratio, (0.01, 0.01, 0.01)))])
    b.add_constraints("ball", [[b.point_of(-1), b.point_of(links[0], left)]], 0.0, label="root")
    b.add_constraints("ball", rows, 0.0, label="chain")
    return b.finalize(dtype=sim.float64)


def longest(model, names):
    """Of a second, 10 substeps of 60 Hz: from the first joint to the ball."""
    end = sim.rollout(sim.SolverXPBD(model, direct=names), model.state(), 600, 1 / 600, frame_every=2)
    return np.linalg.norm(end.body_q.numpy()[:, -1, :3], axis=1).max()


@pytest.mark.filterwarnings("ignore::sim.NumericsWarning")
def test_a_heavy_ball_does_not_stretch_the_links_that_it_hangs_on():
    """100 times the mass of all of them; then 100 times that of one, swung from the horizontal."""
    hung, swung = heavy_end(100.0, (G, 0, 0)), heavy_end(10.0, (0, -G, 0))
    assert longest(hung, ()) > 1.5
    assert longest(hung, ["root", "chain"]) == pytest.approx(1.0, abs=1e-12)
    assert longest(swung, ()) > 1.05
    assert longest(swung, ["root", "chain"]) == pytest.approx(1.0, abs=1e-3)


def cantilever(n, load, stiffness):
    """x, y and angle of the end of n rigid links of length 1 / n with springs, the first one clamped over half a link,
    under their weight: by Newton's method."""
    link, theta = 1.0 / n, np.zeros(n)
    K = stiffness / link * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    K[0, 0], K[-1, -1] = 3 * stiffness / link, stiffness / link
    moment = load * link**2 * (np.arange(n)[::-1] + 0.5)
    for _ in range(30):
        theta -= np.linalg.solve(K + np.diag(moment * np.sin(theta)), K @ theta - moment * np.cos(theta))
    return link * np.cos(theta).sum(), link * np.sin(theta).sum(), theta[-1]


@pytest.mark.slow
def test_a_rod_sags_as_the_discrete_truth_in_steps_of_a_second():
    """D2: w L^3 / E I = 4.  No damping but that of implicit Euler."""
    n, radius, density = 20, 0.005, 1000.0
    load = density * np.pi * radius**2 * G
    stiffness = load / 4.0
    b = sim.ModelBuilder(gravity=(0, -G, 0))
    line = np.stack([np.linspace(0, 1, n + 1), np.zeros(n + 1), np.zeros(n + 1)], axis=1)
    bending = {"stretch": np.inf, "torsion": stiffness, "bend_2": stiffness, "bend_3": stiffness}
    b.add_rod(line, radius=radius, density=density, stiffness=bending, clamp_start=-1, label="wire")
    model = b.finalize(dtype=sim.float64)
    x, y, z, *q = run(model, 60, 1.0, direct=["wire"]).body_q.numpy()[-1]
    angle = 2 * np.arctan2(q[2], q[3])
    found = x + 0.5 / n * np.cos(angle), -y - 0.5 / n * np.sin(angle), -angle
    np.testing.assert_allclose(found, cantilever(n, load, stiffness), atol=1e-9)
    assert found[1] == pytest.approx(0.426080, abs=1e-6)


# ------------------------------------------------------------------------------------------ what cannot be
def test_what_is_refused():
    model = chain(ground=True)
    with pytest.raises(SolverError, match="no constraints have this label .did you mean 'rope'"):
        sim.SolverXPBD(model, direct=["ropes"])
    with pytest.raises(SolverError, match="one text"):
        sim.SolverXPBD(model, direct="rope")
    with pytest.raises(SolverError, match="order='colored'"):
        sim.SolverXPBD(model, direct=["rope"], order="jacobi")
    with pytest.raises(SolverError, match="one-sided or have a largest force"):
        sim.SolverXPBD(model, direct=["floor"])
    b = sim.ModelBuilder()
    b.add_cloth_grid((0, 0, 0), dim_x=40, dim_y=40, cell_x=0.1, cell_y=0.1, density=0.2, label="sheet",
                     material={"distance": {"compliance": 0.1}})  # fmt: skip
    with pytest.raises(SolverError, match="no trees, but nets"):
        sim.SolverXPBD(b.finalize(), direct=["sheet"])


def test_settings_may_change_between_steps():
    model = chain()
    solver, now = sim.SolverXPBD(model), model.state()
    wanted = run(model, 2, 1 / 60, direct=["rope"]).particle_q.numpy()
    sim.rollout(solver, now, 2, 1 / 60)
    solver.direct = ["rope"]
    np.testing.assert_array_equal(sim.rollout(solver, now, 2, 1 / 60).particle_q.numpy()[-1], wanted)


def test_redundant_rows_are_named():
    """Two rigid ties of the same two points: the step has no solution, and says where."""
    b = sim.ModelBuilder(gravity=(0, -G, 0))
    b.add_particles([[0, 0, 0], [1, 0, 0], [2, 0, 0]], mass=[0.0, 1.0, 1.0])
    b.add_constraints("distance", [[0, 1], [1, 2]], compliance=0.0, label="once")
    b.add_constraints("distance", [[1, 2]], compliance=0.0, label="twice")
    model = b.finalize(dtype=sim.float64)
    with pytest.raises(sim.NonFiniteState, match="moved by the constraint 'distance'"):
        run(model, 2, 1 / 60, direct=["once", "twice"])


def test_a_scene_names_what_is_solved_directly(tmp_path):
    text = ROPE.replace("format: 1", "format: 2") + "solver: {xpbd: {direct: [NAME]}}\n"
    problem = sim.load_scene(write_scene(tmp_path, text.replace("NAME", "rope"))).build()
    assert list(problem.solver.direct) == ["rope"]
    with pytest.raises(sim.SceneError, match="no constraints have this label .did you mean 'rope'") as error:
        sim.load_scene(write_scene(tmp_path, text.replace("NAME", "ropes"))).build()
    assert error.value.problems[0].path == "solver.xpbd" and error.value.problems[0].hint


@pytest.mark.parametrize("start", ["zero", "elastic"])
def test_a_part_of_a_set_is_solved_directly_and_the_rest_is_projected(start):
    """Two ropes that have nothing to do with each other, as if each were alone."""

    def ropes(*labels):
        b = sim.ModelBuilder(gravity=(0, -G, 0))
        for label in labels:
            rope = b.add_chain(
                (0, 0, 0), (1, 0, 0.2), 6, mass=1.0, label=label, material={"distance": {"compliance": 1e-3}}
            )
            b.add_attachment(rope.points[:1])
        return b.finalize(dtype=sim.float64)

    settings = {"iterations": 2, "start": start}
    both = run(ropes("one", "two"), 5, 1 / 60, direct=["two"], **settings).particle_q.numpy()
    projected = run(ropes("one"), 5, 1 / 60, **settings).particle_q.numpy()
    solved = run(ropes("two"), 5, 1 / 60, direct=["two"], **settings).particle_q.numpy()
    np.testing.assert_allclose(both, np.concatenate([projected, solved]), atol=1e-14)
    assert np.abs(projected - solved).max() > 1e-4


def test_a_ring_keeps_its_shape():
    """A loop of rigid links: its factor fills in along the last one only, and all distances hold."""
    n = 12
    angle = 2 * np.pi * np.arange(n) / n
    b = sim.ModelBuilder(gravity=(0, -G, 0))
    rim = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    b.add_particles(rim, mass=[0.0] + [1.0] * (n - 1))
    pairs = [[k, (k + 1) % n] for k in range(n)]
    b.add_constraints("distance", pairs, compliance=0.0, label="ring")
    state = run(b.finalize(dtype=sim.float64), 30, 1 / 120, direct=["ring"], iterations=6)
    x = state.particle_q.numpy()
    found = np.linalg.norm(x[[j for _, j in pairs]] - x[[i for i, _ in pairs]], axis=1)
    np.testing.assert_allclose(found, 2 * np.sin(np.pi / n), rtol=1e-9)
    assert np.abs(x - rim).max() > 0.1


def test_swept_rods_are_told():
    """What sweeps cannot settle is said before it is simulated; a direct solve has nothing to say."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    line = np.linspace([0, 0, 0], [0.5, 0, 0], 11)
    builder.add_rod(line, radius=4e-3, density=1300.0, young=5e7, poisson=0.3, clamp_start=-1, label="wire")
    model = builder.finalize(dtype=sim.float64)
    (told,) = step_warnings(sim.SolverXPBD(model, iterations=2), [1e-3])
    assert told.startswith("9 joints of rods are solved by 2 sweep(s)") and "`direct`" in told
    assert not step_warnings(sim.SolverXPBD(model, direct=["wire"]), [1e-3])
