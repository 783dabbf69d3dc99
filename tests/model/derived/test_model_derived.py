"""Derived data: formulas, gradients back to what the user wrote, and when it is brought up to date."""

import gc
from contextlib import nullcontext

import numpy as np
import pytest

from sim.constraints import bend, distance
from sim.core.lang.frontend.builtins import exp, tid
from sim.core.lang.types import float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import from_numpy, ones_like, zeros
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.tape.tape import Tape
from sim.geometry import check_coloring, cloth_grid, mesh_topology
from sim.model import ModelBuilder

SEED = 20261120


def rich_builder() -> ModelBuilder:
    """A model with every kind of material value."""
    builder = ModelBuilder()
    material = {
        "distance": {"compliance": np.linspace(0.1, 0.5, 24), "damping": 2e-3},
        "shear": {"compliance": 0.3},
        "bend": {"compliance": 20.0},
    }
    sheet = builder.add_cloth_grid(
        (0.1, 0.2, 0.3),
        dim_x=3,
        dim_y=3,
        cell_x=0.1,
        cell_y=0.2,
        density=0.4,
        vel=(1, 2, 3),
        spin=(0.5, -1, 2),
        fix_left=True,
        material=material,
        label="sheet",
        thickness=0.02,
    )
    builder.add_chain(
        (1, 0, 0),
        (2, 0.5, 0),
        5,
        mass=0.7,
        label="rope",
        spin=(0, 0, 3),
        vel=(0, 1, 0),
        material={"distance": {"compliance": 1e-3}},
    )
    builder.add_particle((5, 5, 5), vel=(1, 0, 0), mass=0.5)
    builder.add_particle((6, 5, 5), vel=(0, 1, 0), mass=1.5)
    builder.add_spring(21, 22, compliance=0.1, damping=0.2)
    builder.add_attachment(
        [16, 17],
        motion=[{"move": (0, 1, 0), "end": 2.0}, {"swing": (1, 0, 0), "frequency": 3.0}],
        compliance=0.05,
        label="soft",
    )
    builder.add_attachment([20], motion={"move": (0, 0, 1), "start": 1, "end": 2.0, "ease": "linear"}, label="hard")
    builder.add_ground_plane(-1.0, normal=(0.1, 2.0, 0.2), compliance=1e-4, touches=[sheet])
    builder.add_shape_sphere((0, 0, 1), 0.3, label="ball")
    return builder


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


# ------------------------------------------------------------------------------------------ when
class Counter:
    """Counts the derivations that `refresh` runs, or records on a tape; inside: of these, is one at work?"""

    def __init__(self, model, monkeypatch):
        self.count, self.inside = 0, False
        for derivation in model._derivations:
            monkeypatch.setattr(derivation, "run", self.counting(derivation.run))
            monkeypatch.setattr(derivation, "record", self.counting(derivation.record))

    def counting(self, run):
        def counted():
            outer, self.inside = self.inside, True
            self.count += not outer
            run()
            self.inside = outer

        return counted

    def of(self, action) -> int:
        before = self.count
        action()
        return self.count - before


@pytest.fixture
def counted(monkeypatch):
    model = rich_builder().finalize(requires_grad=True)
    return model, Counter(model, monkeypatch)


def test_refresh_runs_what_is_due(counted):
    model, counter = counted
    everything = len(model._derivations)
    assert counter.of(model.refresh) == 0
    assert counter.of(lambda: model.refresh(force=True)) == everything
    assert counter.of(model.state) == 0
    model["ball.radius"].fill_(0.5)
    assert counter.of(model.refresh) == 2  # that of its contact, and that of the shape
    np.testing.assert_allclose(model.constraint_sets["contact_sphere"].parameters["radius"].numpy(), 0.5)
    model["sheet.density"].assign([0.8])
    weighed = sum(s.weights is not None for s in model.constraint_sets.values())
    # together with what else has a mass, and the inverse masses, of the points and beside constraints
    assert counter.of(model.refresh) == 3 + weighed
    model["rope.position"].fill_((1.0, 0.0, 0.0))
    assert counter.of(model.refresh) == 2  # and the anchors
    np.testing.assert_allclose(model.attachment_anchor.numpy()[-1], [3, 0.5, 0])
    values = model["sheet.distance.compliance"].numpy()
    assert counter.of(model.refresh) == 2  # from now on the values themselves are compared
    assert counter.of(model.refresh) == 0
    made = model.constraint_sets["distance"]
    row = made.index_of["sheet"][3]
    before, old = float(made.compliance.numpy()[row]), float(values[3])
    values[3] = 9.0  # through NumPy: no tape sees it, but a refresh does
    assert counter.of(model.refresh) == 2
    assert made.compliance.numpy()[row] == pytest.approx(before * 9.0 / old)
    bound = model.bound()
    model["ball.radius"].fill_(0.6)
    assert counter.of(bound.refresh) == 0
    assert counter.of(model.refresh) == 2


def test_renewing_on_a_tape_runs_what_a_gradient_flows_through(counted):
    model, counter = counted
    everything = len(model._derivations)
    model.renew()
    for path, expected in ((None, everything), ("ball.radius", 2), (None, everything)):
        with model.gradients_of([path]) if path else nullcontext(), Tape() as tape:
            assert counter.of(model.renew) == expected
            assert len(tape.records) == expected
            assert counter.of(model.renew) == expected  # the steps that follow begin with these
    model["sheet.density"].assign([0.8])
    weighed = sum(s.weights is not None for s in model.constraint_sets.values())
    with model.gradients_of(["ball.radius"]), Tape() as tape:
        assert counter.of(model.renew) == 2 + 3 + weighed  # and what is due
        assert len(tape.records) == 2
    model.particle_inv_mass.zero_()
    with model.gradients_of(["ball.radius"]), Tape():
        assert counter.of(model.renew) == everything  # somebody has written there
    assert model.particle_inv_mass.numpy().any()


def test_renewing_runs_all_where_others_have_written_to_derived_data(counted):
    model, counter = counted
    everything, kept = len(model._derivations), model.particle_inv_mass.numpy().copy()
    assert counter.of(model.renew) == everything  # through NumPy somebody may have written there
    assert counter.of(model.renew) == 0
    model.particle_inv_mass.fill_(7.0)
    assert 0 < counter.of(model.refresh) < everything  # what follows from the masses, not these
    assert counter.of(model.renew) == everything
    np.testing.assert_array_equal(model.particle_inv_mass.numpy(), kept)
    assert counter.of(model.renew) == everything
    view = model.particle_inv_mass.numpy()
    for _ in range(2):  # for as long as there is a way to write unseen
        view[:] = 7.0
        assert counter.of(model.renew) == everything
        np.testing.assert_array_equal(view, kept)
    view[:] = 7.0
    del view
    assert counter.of(model.renew) == everything
    assert counter.of(model.renew) == 0
    model.particle_inv_mass.fill_(7.0)
    model["ball.radius"].fill_(0.5)
    assert 2 < counter.of(model.refresh) < everything
    assert counter.of(model.renew) == everything
    model["ball.radius"].fill_(0.6)
    assert counter.of(model.renew) == 2
    assert counter.of(model.renew) == 0
    with Tape():
        assert counter.of(model.renew) == everything
        assert counter.of(model.renew) == everything


def test_refresh_records_once_on_each_tape(counted):
    model, counter = counted
    everything = len(model._derivations)
    with Tape() as tape:
        assert counter.of(model.refresh) == everything
        assert counter.of(model.refresh) == 0
        model["ball.radius"].fill_(0.4)
        assert counter.of(model.refresh) == 2
    assert counter.of(model.refresh) == 0  # up to date without a tape
    with tape:
        assert counter.of(model.refresh) == 0
    tape.reset()
    with tape:
        assert counter.of(model.refresh) == everything  # the tape has forgotten
    with Tape():
        assert counter.of(model.refresh) == everything
    del tape
    gc.collect()
    with Tape():
        assert counter.of(model.refresh) == everything


def test_a_change_outside_of_the_tape_is_recorded_when_it_is_open_again(counted):
    model, counter = counted
    with Tape() as tape:
        model.refresh()
    model["ball.radius"].fill_(0.4)
    model.refresh()
    with tape:
        assert counter.of(model.refresh) == len(model._derivations)


def test_without_gradients_tapes_do_not_matter(monkeypatch):
    model = rich_builder().finalize()
    counter = Counter(model, monkeypatch)
    with Tape():
        assert counter.of(model.refresh) == 0


def test_two_refreshes_on_one_tape_give_both_gradients():
    """A value that changes in the middle: what was derived before the change keeps its own gradient."""
    builder = ModelBuilder()
    builder.add_particles([[0, 0, 0]], mass=2.0, label="p")
    model = builder.finalize(dtype=float64, requires_grad=True)
    first, second = (array([m], dtype=float64, requires_grad=True) for m in (2.0, 4.0))
    kept = zeros(2, dtype=float64, requires_grad=True)
    with Tape() as tape:
        for k, value in enumerate((first, second)):
            model["p.mass"].assign(value)
            model.refresh()
            kept[k : k + 1].assign(model.particle_inv_mass)
    tape.backward(grads={kept: ones_like(kept)})
    np.testing.assert_allclose(kept.numpy(), [0.5, 0.25])
    np.testing.assert_allclose(first.grad.numpy(), [-0.25])
    np.testing.assert_allclose(second.grad.numpy(), [-1 / 16])


def test_finalize_under_a_tape_leaves_nothing_on_it():
    with Tape() as tape:
        model = rich_builder().finalize(requires_grad=True)
    assert not tape.records
    assert model.particle_mass.numpy().sum() > 0
