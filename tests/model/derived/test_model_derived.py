"""Derived data: formulas, sets of constraints, and gradients back to what the user wrote."""

import numpy as np
import pytest
from tools.physics.rich_model import rich_builder

from sim.constraints import bend, distance
from sim.core.lang.frontend.builtins import exp, tid
from sim.core.lang.types import float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import from_numpy, ones_like
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.tape.tape import Tape
from sim.geometry import check_coloring, cloth_grid, mesh_topology
from sim.model import ModelBuilder

SEED = 20261120


def outputs_of(model) -> dict[str, array]:
    """Everything that is derived."""
    out = {
        n: getattr(model, n)
        for n in (
            "particle_q",
            "particle_qd",
            "particle_mass",
            "particle_inv_mass",
            "attachment_anchor",
            "motion_vector",
            "shape_transform",
            "shape_scale",
            "shape_material_mu",
            "shape_material_restitution",
        )
    }
    for name, made in model.constraint_sets.items():
        out[f"{name}.compliance"] = made.compliance
        if made.damping is not None:
            out[f"{name}.damping"] = made.damping
        out |= {f"{name}.{p}": a for p, a in made.parameters.items()}
    return out


# ------------------------------------------------------------------------------------------ formulas
def test_masses():
    model = rich_builder().finalize(dtype=float64)
    mass = model.particle_mass.numpy()
    grid = cloth_grid(3, 3, 0.1, 0.2)
    np.testing.assert_allclose(mass[:16], 0.4 * mesh_topology(grid.positions, grid.triangles).point_area, rtol=1e-14)
    assert mass[:16].sum() == pytest.approx(0.4 * 0.3 * 0.6)
    np.testing.assert_allclose(mass[16:21], 0.7 / 5)
    np.testing.assert_allclose(mass[21:], [0.5, 1.5])
    pinned = np.zeros(23, bool)
    pinned[[0, 4, 8, 12, 20]] = True
    np.testing.assert_allclose(model.particle_inv_mass.numpy(), np.where(pinned, 0, 1 / mass))
    np.testing.assert_allclose(model.particle_free.numpy(), ~pinned)


def test_initial_state_turns_about_the_centre_of_mass():
    state = rich_builder().finalize(dtype=float64).state()
    q, v = state.particle_q.numpy(), state.particle_qd.numpy()
    grid = cloth_grid(3, 3, 0.1, 0.2).positions
    np.testing.assert_allclose(q[:16], grid + [0.1, 0.2, 0.3], rtol=1e-14)
    free = np.arange(16) % 4 != 0
    want = np.array([1, 2, 3]) + np.cross([0.5, -1, 2], grid - [0.15, 0.3, 0])
    np.testing.assert_allclose(v[:16], want * free[:, None], atol=1e-14)
    rope = np.linspace([1, 0, 0], [2, 0.5, 0], 5)
    np.testing.assert_allclose(q[16:21], rope, rtol=1e-14)
    np.testing.assert_allclose(v[16:20], ([0, 1, 0] + np.cross([0, 0, 3], rope - [1.5, 0.25, 0]))[:4], atol=1e-14)
    np.testing.assert_allclose(v[21:], [[1, 0, 0], [0, 1, 0]])


def test_spin_adds_no_momentum():
    builder = ModelBuilder()
    rng = np.random.default_rng(SEED)
    mass = rng.uniform(0.1, 2, 20)
    builder.add_particles(rng.normal(size=(20, 3)), mass=mass, spin=(1, 2, 3), label="cloud")
    grid = builder.add_cloth_grid(dim_x=2, dim_y=5, cell_x=0.2, cell_y=0.1, density=0.3, spin=(3, 1, 2))
    v = builder.finalize(dtype=float64).state().particle_qd.numpy()
    area = mesh_topology(grid.positions, grid.triangles - 20).point_area
    np.testing.assert_allclose(area @ v[20:], 0, atol=1e-15)
    # For loose particles the mass itself is the value, and the centre is that of their places.
    np.testing.assert_allclose(v[:20].sum(axis=0), 0, atol=1e-13)


@pytest.mark.parametrize("cells", [(4, 4), (7, 3)])
def test_compliance_of_elements_from_the_one_of_the_material(cells):
    builder = ModelBuilder()
    size = 1.0 / np.array(cells)
    group = builder.add_cloth_grid(
        dim_x=cells[0],
        dim_y=cells[1],
        cell_x=size[0],
        cell_y=size[1],
        density=0.2,
        label="s",
        material={"distance": {"compliance": 0.3}, "bend": {"compliance": 7.0}, "shear": {"compliance": {"each": 0.9}}},
    )
    model = builder.finalize(dtype=float64)
    topology = mesh_topology(group.positions, group.triangles)
    for name, c in (("distance", 0.3), ("bend", 7.0)):
        made = model.constraint_sets[name]
        points, alpha = made.points.numpy(), made.compliance.numpy()
        edge = topology.find_edges(points if name == "distance" else points[:, 2:])
        length, area = topology.edge_length[edge], topology.edge_area[edge]
        want = c * length**2 / area if name == "distance" else c * area / length**2
        np.testing.assert_allclose(alpha, want, rtol=1e-13)
    np.testing.assert_allclose(model.constraint_sets["shear"].compliance.numpy(), 0.9)
    # The energy of a uniform strain e along x, e^2 l^2 / (2 alpha) per edge, is the same at every resolution.
    made = model.constraint_sets["distance"]
    ends = group.positions[made.points.numpy()]
    along_x = np.abs(ends[:, 0, 0] - ends[:, 1, 0]) > 1e-9
    energy = (made.parameters["rest"].numpy() ** 2 / (2 * made.compliance.numpy()))[along_x].sum()
    assert energy == pytest.approx(1 / (2 * 0.3))  # each triangle has one edge along x: together they stand for 1 m^2


def test_values_for_each_element_go_to_their_constraints():
    model = rich_builder().finalize(dtype=float64)
    made, sheet = model.constraint_sets["distance"], model.groups["sheet"]
    rows, points = made.index_of["sheet"], sheet.elements["distance"]
    kept = rows >= 0
    assert (~kept).sum() == 3  # the edges of the fixed side
    assert np.array_equal(made.points.numpy()[rows[kept]], points[kept])
    fixed = np.isin(points, [0, 4, 8, 12]).all(axis=1)
    assert np.array_equal(~kept, fixed)
    topology = mesh_topology(sheet.positions, sheet.triangles)
    edge = topology.find_edges(points)
    want = np.linspace(0.1, 0.5, 24) * topology.edge_length[edge] ** 2 / topology.edge_area[edge]
    np.testing.assert_allclose(made.compliance.numpy()[rows[kept]], want[kept], rtol=1e-13)
    np.testing.assert_allclose(made.compliance.numpy()[made.index_of["rope"]], 1e-3)
    np.testing.assert_allclose(made.damping.numpy()[made.index_of["rope"][:-1]], 0)
    np.testing.assert_allclose(made.damping.numpy()[rows[kept]], 2e-3)


def test_attachments_and_shapes():
    model = rich_builder().finalize(dtype=float64)
    assert model.attachment_point.numpy().tolist() == [0, 4, 8, 12, 16, 17, 20]
    assert model.attachment_group.numpy().tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert model.motion_offset.numpy().tolist() == [0, 0, 2, 3]
    assert model.motion_kind.numpy().tolist() == [0, 2, 1]
    np.testing.assert_allclose(model.motion_vector.numpy(), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(model.motion_a.numpy(), [0, 3, 1])
    np.testing.assert_allclose(model.motion_b.numpy(), [2, 0, 2])
    soft = model.constraint_sets["attachment"]
    slot = model.attachment_slot.numpy()
    assert slot[:4].tolist() == [-1] * 4 and slot[6] == -1
    assert soft.points.numpy()[slot[4:6], 0].tolist() == [16, 17]
    np.testing.assert_allclose(soft.compliance.numpy(), np.full((2, 3), 0.05))
    np.testing.assert_allclose(soft.parameters["target"].numpy()[slot[4:6]], model.particle_q.numpy()[[16, 17]])
    np.testing.assert_allclose(
        model.attachment_anchor.numpy(), model.particle_q.numpy()[model.attachment_point.numpy()]
    )
    plane = model.constraint_sets["contact_plane"]
    normal = np.array([0.1, 2.0, 0.2]) / np.linalg.norm([0.1, 2.0, 0.2])
    np.testing.assert_allclose(plane.parameters["normal"].numpy(), np.tile(normal, (12, 1)), rtol=1e-14)
    np.testing.assert_allclose(plane.parameters["point"].numpy(), np.tile(-normal, (12, 1)), rtol=1e-14)
    np.testing.assert_allclose(plane.parameters["thickness"].numpy(), 0.02)
    np.testing.assert_allclose(plane.compliance.numpy(), 1e-4)
    np.testing.assert_allclose(model.constraint_sets["contact_sphere"].parameters["radius"].numpy(), 0.3)


def test_rest_shape_is_at_rest():
    model = rich_builder().finalize(dtype=float64)
    q = model.particle_q.numpy()
    made = model.constraint_sets["distance"]
    ends = q[made.points.numpy()]
    np.testing.assert_allclose(
        made.parameters["rest"].numpy(), np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), rtol=1e-14
    )
    np.testing.assert_allclose(model.constraint_sets["bend"].parameters["rest"].numpy(), 0, atol=1e-14)


# ------------------------------------------------------------------------------------------ sets
@pytest.mark.parametrize("trial", range(3))
def test_colours_share_no_free_point_and_sets_are_sorted_by_them(trial):
    rng = np.random.default_rng(SEED + trial)
    builder = ModelBuilder()
    builder.add_cloth_grid(
        dim_x=6,
        dim_y=5,
        cell_x=0.1,
        cell_y=0.1,
        density=0.1,
        fix_top=True,
        material={"distance": {"compliance": 0.1}, "bend": {"compliance": 1.0}},
    )
    pairs = np.array([rng.choice(42, 2, replace=False) for _ in range(60)])
    builder.add_constraints(distance, pairs, 0.1, label="random")
    builder.add_constraints(bend, [rng.choice(42, 4, replace=False) for _ in range(30)], 1.0, label="random_bend")
    builder.add_shape_sphere((0, 0, 0), 0.1)
    builder.add_shape_sphere((1, 0, 0), 0.1)
    model = builder.finalize()
    free = model.particle_free.numpy() > 0
    assert model.constraint_sets["contact_sphere"].color_count == 2
    for made in model.constraint_sets.values():
        assert made.offsets[0] == 0 and made.offsets[-1] == made.count
        assert all(type(o) is int for o in made.offsets)
        sizes = np.diff(made.offsets)
        assert (sizes > 0).all()
        color = np.repeat(np.arange(made.color_count), sizes)
        check_coloring(made.points.numpy(), color, free)
        rows = np.concatenate([r[r >= 0] for r in made.index_of.values()])
        assert sorted(rows.tolist()) == list(range(made.count))
        assert free[made.points.numpy()].any(axis=1).all()
    rows = model.constraint_sets["distance"].index_of["random"]
    kept = rows >= 0
    assert np.array_equal(model.constraint_sets["distance"].points.numpy()[rows[kept]], pairs[kept])
    assert np.array_equal(~kept, ~free[pairs].any(axis=1))


# ------------------------------------------------------------------------------------------ gradients
def test_every_material_value_has_the_right_gradient():
    """A random linear functional of everything derived, against central differences in float64, value by value."""
    model = rich_builder().finalize(dtype=float64, requires_grad=True)
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    outputs = outputs_of(model)
    weights = {n: from_numpy(rng.normal(size=a.numpy().shape), dtype=a.dtype) for n, a in outputs.items()}
    with Tape() as tape:
        model.refresh()
    tape.backward(grads={a: weights[n] for n, a in outputs.items()})

    def functional() -> float:
        model.refresh()
        return sum(float((weights[n].numpy() * a.numpy()).sum()) for n, a in outputs.items())

    reached = 0
    for path, value in model.materials.items():
        host = value.numpy().copy()
        got = value.grad.numpy()
        want = np.zeros_like(host)
        for index in np.ndindex(host.shape):
            step = 1e-5 * max(abs(host[index]), 1.0)
            ends = []
            for sign in (1, -1):
                moved = host.copy()
                moved[index] += sign * step
                value.assign(moved)
                ends.append(functional())
            want[index] = (ends[0] - ends[1]) / (2 * step)
        value.assign(host)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7, err_msg=path)
        reached += np.any(got != 0)
    assert reached == len(model.materials) - 1  # gravity is read by the solver itself


def test_gradient_through_a_kernel_before_and_a_state_after():
    @kernel
    def from_log(log_value: array[float64], value: array[float64]):
        i = tid()
        value[i] = exp(log_value[0])

    builder = ModelBuilder()
    builder.add_cloth_grid(dim_x=2, dim_y=2, cell_x=0.5, cell_y=0.5, density=0.3, label="sheet", spin=(0, 0, 1))
    model = builder.finalize(dtype=float64, requires_grad=True)
    log_density = array([np.log(0.7)], dtype=float64, requires_grad=True)
    with Tape() as tape:
        launch(from_log, dim=1, inputs=[log_density], outputs=[model["sheet.density"]])
        state = model.state()
    np.testing.assert_allclose(model.particle_mass.numpy().sum(), 0.7)
    tape.backward(
        grads={model.particle_mass: ones_like(model.particle_mass), state.particle_q: ones_like(state.particle_q)}
    )
    assert log_density.grad.numpy()[0] == pytest.approx(0.7)
    np.testing.assert_allclose(model["sheet.position"].grad.numpy(), [[9, 9, 9]])


def test_states_are_copied_differentiably():
    builder = ModelBuilder()
    builder.add_particles([[0, 0, 0], [1, 2, 3]], mass=1.0, label="p")
    model = builder.finalize(dtype=float64, requires_grad=True)
    target = model.state()
    with Tape() as tape:
        state = model.state()
        copy = state.clone()
        target.assign(copy)
        state.particle_q.zero_()
    tape.backward(
        grads={
            target.particle_q: ones_like(target.particle_q),
            target.particle_qd: ones_like(target.particle_qd),
            state.particle_q: ones_like(state.particle_q),
        }
    )
    np.testing.assert_allclose(model["p.position"].grad.numpy(), [[2, 2, 2]])
    np.testing.assert_allclose(model["p.velocity"].grad.numpy(), [[2, 2, 2]])
