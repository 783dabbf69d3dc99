"""The builder: what it collects, what the model then holds, and every error it can make."""

import numpy as np
import pytest
from tools.places import SKIRT

from sim.constraints import bend, constraint, distance
from sim.core.lang.library.vector import cross, length
from sim.core.lang.types import float32, float64, int32, vec3
from sim.geometry import load_mesh
from sim.model import MODEL_FIELDS, ModelBuilder, ModelError, UnknownPathError

SOFT = {"distance": {"compliance": 0.1}, "bend": {"compliance": 10.0, "damping": 1e-3}}


def grid(builder: ModelBuilder, n: int = 3, **more):
    given = {"density": 0.2} if "mass" not in more and "density" not in more else {}
    return builder.add_cloth_grid(dim_x=n, dim_y=n, cell_x=0.1, cell_y=0.1, **{"label": "sheet", **given, **more})


@constraint(points=3)
def triangle_area(x, rest: float):
    """Area of a triangle minus its rest value."""
    return 0.5 * length(cross(x[1] - x[0], x[2] - x[0])) - rest


@constraint(points=2)
def stretch_limit(x, limit: float, rest: float):
    """Distance minus rest, scaled by a limit that has to be given."""
    return (length(x[0] - x[1]) - rest) / limit


# ------------------------------------------------------------------------------------------ what is there
def test_fields_have_their_shapes_and_types():
    builder = ModelBuilder()
    grid(builder, 3, material=SOFT, fix_top=True)
    builder.add_chain((0, 0, 1), (1, 0, 1), points=5, mass=0.1, material={"distance": {"compliance": 1e-3}})
    builder.add_attachment([0, 1], motion={"swing": (0, 1, 0), "frequency": 2.0}, label="hand")
    model = builder.finalize(dtype=float64, requires_grad=True)
    counts = {
        "particles": 16 + 5,
        "triangles": 18,
        "edges": 33,
        "springs": 4,
        "tetrahedra": 0,
        "attached": 4 + 2,
        "moved groups + 1": 3,
        "moved groups": 2,
        "motions": 1,
    }
    for field in MODEL_FIELDS:
        a = getattr(model, field.name)
        assert a.shape == tuple(
            counts.get(n, int(n.endswith("+ 1"))) if isinstance(n, str) else n for n in field.shape
        ), field.name
        assert a.dtype is field.dtype(float64)
        assert a.requires_grad == (a.dtype is not int32 and not field.constant), field.name
        assert field.doc
    assert model.particle_count == 21 and model.tri_count == 18
    assert model.dtype is float64
    with pytest.raises(AttributeError, match="did you mean 'particle_mass'"):
        _ = model.particle_masses


def test_distance_and_shear_of_a_grid():
    plain, with_shear = ModelBuilder(), ModelBuilder()
    grid(plain, 3, material={"distance": {"compliance": 0.1}})
    grid(with_shear, 3, material={"distance": {"compliance": 0.1}, "shear": {"compliance": 0.2}})
    assert plain.finalize().constraint_sets["distance"].count == 24
    sets = with_shear.finalize().constraint_sets
    assert sets["distance"].count == 24 and sets["shear"].count == 9
    np.testing.assert_allclose(sets["distance"].parameters["rest"].numpy(), 0.1, rtol=1e-6)
    np.testing.assert_allclose(sets["shear"].parameters["rest"].numpy(), 0.1 * np.sqrt(2), rtol=1e-6)


def test_cloth_mesh_from_a_file_and_from_arrays():
    mesh = load_mesh(SKIRT)
    builder = ModelBuilder()
    skirt = builder.add_cloth_mesh(mesh=mesh, density=0.2, material=SOFT, label="skirt", pos=(0, 0, 1))
    other = builder.add_cloth_mesh(mesh.positions, mesh.triangles.ravel(), density=0.2, material=SOFT)
    assert (skirt.count, len(skirt.triangles), other.start) == (681, 1252, 681)
    waist = skirt.choose({"boundary": True, "y": [1.12, None]})
    assert len(waist) == 26
    np.testing.assert_allclose(skirt.positions[:, 2], mesh.positions[:, 2] + 1)
    assert np.array_equal(other.triangles, mesh.triangles + 681)
    assert skirt.file_to_point is not None and np.array_equal(skirt.file_to_point, mesh.file_to_point)
    model = builder.finalize()
    area = model.particle_mass.numpy()[:681].sum() / 0.2
    corners = mesh.positions[mesh.triangles]
    want = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    assert area == pytest.approx(want, rel=1e-5)
    assert (
        set(skirt.elements) == {"distance", "bend"}
        and len(skirt.elements["bend"]) == model.constraint_sets["bend"].count / 2
    )


def test_particles_in_a_row_are_one_group_with_values_for_each():
    builder = ModelBuilder()
    assert [builder.add_particle((k, 0, 0), vel=(0, k, 0), mass=1.0 + k) for k in range(3)] == [0, 1, 2]
    builder.add_chain((0, 1, 0), (1, 1, 0), points=2, mass=1.0)
    assert builder.add_particle((9, 0, 0), mass=0.0) == 5
    builder.add_spring(0, 1, compliance=0.5)
    builder.add_spring(1, 2, compliance=0.25, rest_length=3.0, damping=0.1)
    builder.add_spring(0, 5, label="long")
    model = builder.finalize()
    assert list(model.groups) == ["particles", "chain", "particles_1"]
    np.testing.assert_allclose(model["particles.mass"].numpy(), [1, 2, 3])
    np.testing.assert_allclose(model.particle_qd.numpy()[:3, 1], [0, 1, 2])
    assert model.particle_inv_mass.numpy()[5] == 0 and model.particle_free.numpy()[5] == 0
    springs = model.constraint_sets["distance"]
    rows = springs.index_of["springs"]
    np.testing.assert_allclose(springs.compliance.numpy()[rows], [0.5, 0.25])
    np.testing.assert_allclose(springs.parameters["rest"].numpy()[rows], [1.0, 3.0])
    np.testing.assert_allclose(model["springs.rest"].numpy(), [1.0, 3.0])
    assert springs.damping is not None
    np.testing.assert_allclose(springs.damping.numpy()[rows], [0.0, 0.1])
    assert springs.parameters["rest"].numpy()[springs.index_of["long"]] == pytest.approx(9.0)
    assert model.spring_indices.shape == (1 + 3, 2)
    assert [a.label for a in model.attachments] == ["(mass 0)"]


def test_placement_turns_scales_and_moves():
    builder = ModelBuilder()
    quarter = (0, 0, np.sqrt(0.5), np.sqrt(0.5))  # 90 degrees about z: x becomes y
    group = builder.add_particles([[1, 0, 0], [0, 0, 2]], mass=1.0, rot=quarter, scale=2.0, pos=(0, 0, 5), label="p")
    np.testing.assert_allclose(group.positions, [[0, 2, 5], [0, 0, 9]], atol=1e-12)
    matrix = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    same = builder.add_particles([[1, 0, 0], [0, 0, 2]], mass=1.0, rot=matrix, scale=2.0, pos=(0, 0, 5))
    np.testing.assert_allclose(same.positions, group.positions, atol=1e-12)
    np.testing.assert_allclose(builder.finalize().state().particle_q.numpy()[:2], group.positions, atol=1e-6)


def test_user_constraints_measure_what_is_not_given():
    builder = ModelBuilder()
    grid(builder, 2)
    assert builder.add_constraints(triangle_area, points=builder.tri_indices, compliance=1e-4) == "triangle_area"
    builder.add_constraints("distance", [[0, 1], [1, 2]], compliance=[0.1, 0.2], rest=0.5, label="pairs")
    builder.add_constraints(stretch_limit, [[0, 8]], compliance=0.0, limit=2.0)
    model = builder.finalize(dtype=float64)
    assert model.constraint_sets["triangle_area"].count == 8
    np.testing.assert_allclose(model.constraint_sets["triangle_area"].parameters["rest"].numpy(), 0.005, rtol=1e-12)
    np.testing.assert_allclose(model["pairs.rest"].numpy(), [0.5])
    np.testing.assert_allclose(model.constraint_sets["distance"].parameters["rest"].numpy(), 0.5)
    assert model["pairs.compliance"].shape == (2,)
    # rest is C with rest = 0 and the parameters that were given: the distance over the limit
    assert model.constraint_sets["stretch_limit"].parameters["rest"].numpy()[0] == pytest.approx(np.sqrt(0.08) / 2)
    with pytest.raises(KeyError):
        _ = model["triangle_area.rest"]


def test_own_rest_function_measures_all_parameters():
    @constraint(points=2)
    def frame(x, anchor: vec3, scale: float):
        """Something with two measured parameters."""
        return length(x[1] - x[0] - anchor) * scale

    @frame.rest
    def _(x):
        return x[1] - x[0], 2.0 * length(x[1] - x[0])

    builder = ModelBuilder()
    builder.add_particles([[0, 0, 0], [3, 4, 0], [0, 0, 2]], mass=1.0)
    builder.add_constraints(frame, [[0, 1], [1, 2]], compliance=0.0)
    made = builder.finalize(dtype=float64).constraint_sets["frame"]
    order = made.index_of["frame"]
    np.testing.assert_allclose(made.parameters["anchor"].numpy()[order], [[3, 4, 0], [-3, -4, 2]])
    np.testing.assert_allclose(made.parameters["scale"].numpy()[order], [10, 2 * np.sqrt(29)])


def test_shapes_and_potential_contacts():
    builder = ModelBuilder()
    grid(builder, 2, fix_left=True, thickness=0.01)
    builder.add_particles([[0, 1, 0]], mass=1.0, label="dot")
    builder.add_ground_plane(-0.5, normal=(0, 2, 0))
    builder.add_shape_sphere(pos=(0, 1, 0), radius=0.2, touches=["dot"], compliance=1e-3, label="ball")
    model = builder.finalize(dtype=float64)
    plane, ball = model.shapes
    assert (plane.kind, ball.kind) == ("plane", "sphere")
    np.testing.assert_allclose(plane.values["point"].numpy(), [[0, -0.5, 0]])
    planes, spheres = model.constraint_sets["contact_plane"], model.constraint_sets["contact_sphere"]
    assert (planes.count, planes.color_count, spheres.count) == (6 + 1, 1, 1)
    np.testing.assert_allclose(planes.parameters["normal"].numpy(), np.tile([0, 1, 0], (7, 1)))
    thickness = dict(zip(planes.points.numpy()[:, 0].tolist(), planes.parameters["thickness"].numpy(), strict=True))
    assert thickness == {1: 0.01, 2: 0.01, 4: 0.01, 5: 0.01, 7: 0.01, 8: 0.01, 9: 0.0}
    np.testing.assert_allclose(spheres.compliance.numpy(), 1e-3)
    contacts = model.collide(model.state())
    assert contacts is not None and contacts.count == 8
    assert contacts.points["ball"].tolist() == [9]


def test_state_and_control():
    builder = ModelBuilder()
    grid(builder, 2, vel=(1, 0, 0), fix_left=True)
    model = builder.finalize(requires_grad=True)
    state = model.state()
    assert state.time == 0 and state.model is model
    free = np.tile([0, 1, 1], 3)
    np.testing.assert_allclose(state.particle_qd.numpy()[:, 0], free)
    state.particle_q.fill_(2.0)
    assert np.abs(model.particle_q.numpy()).max() < 1  # a state has memory of its own
    copy = state.clone()
    copy.time = 3.0
    copy.particle_f.fill_(1.0)
    other = model.state()
    other.assign(copy)
    assert other.time == 3.0 and (other.particle_q.numpy() == 2).all() and (other.particle_f.numpy() == 1).all()
    other.clear_forces()
    assert not other.particle_f.numpy().any()
    assert model.control().motion_vector is model.motion_vector
    with pytest.raises(AttributeError, match="did you mean 'particle_q'"):
        _ = state.particle_p
    second = ModelBuilder()
    second.add_particle((0, 0, 0))
    stranger = second.finalize()
    with pytest.raises(ModelError, match="another model"):
        stranger.state().assign(state)
    with pytest.raises(ModelError, match="another model"):
        stranger.collide(state)
    assert stranger.collide(stranger.state()) is None


# ------------------------------------------------------------------------------------------ errors
def two(builder):
    return builder.add_particles([[0, 0, 0], [1, 0, 0]], mass=1.0, label="two")


ADDING = {
    "mass and density": (lambda b: grid(b, mass=1.0, density=1.0), "either mass .* or density"),
    "neither mass nor density": (
        lambda b: b.add_cloth_grid(dim_x=1, dim_y=1, cell_x=1, cell_y=1), "either mass .* or density"),
    "negative mass": (lambda b: b.add_particle((0, 0, 0), mass=-1.0), "mass = -1 is not zero or positive"),
    "negative mass of one": (
        lambda b: b.add_particles([[0, 0, 0], [1, 0, 0]], mass=[1, -2]), r"mass = -2 at index 1 is not zero"),
    "zero density": (lambda b: grid(b, density=0.0), "density = 0 is not positive"),
    "negative compliance": (
        lambda b: grid(b, material={"distance": {"compliance": -0.1}}), r"material\['distance'\]\.compliance = -0.1"),
    "negative damping": (
        lambda b: grid(b, material={"distance": {"compliance": 0.1, "damping": -1}}), "damping = -1 is not zero"),
    "negative radius": (lambda b: b.add_shape_sphere((0, 0, 0), -0.1), "radius = -0.1 is not positive"),
    "no center": (lambda b: b.add_shape_sphere(radius=0.1), "needs its center"),
    "normal without length": (lambda b: b.add_ground_plane(normal=(0, 0, 0)), "normal has no length"),
    "height and point": (lambda b: b.add_ground_plane(1.0, point=(0, 0, 0)), "height and point"),
    "position of two numbers": (lambda b: b.add_particle((0, 0)), r"pos is \(0, 0\)\. Give three numbers"),
    "not finite": (lambda b: b.add_particle((0, 0, np.nan)), "pos .* is not finite"),
    "text for a number": (lambda b: b.add_particle(("a", 0, 0)), "pos is .*Give numbers"),
    "positions of the wrong shape": (lambda b: b.add_particles([[0, 0]], mass=1), r"positions has shape \(1, 2\)"),
    "masses of the wrong number": (
        lambda b: b.add_particles([[0, 0, 0], [1, 0, 0]], mass=[1, 1, 1]),
        r"mass has shape \(3,\)\. Give one number, or 2"),
    "velocities of the wrong number": (lambda b: grid(b, vel=[[0, 0, 0]] * 2), r"vel has shape \(2, 3\)"),
    "no rotation": (lambda b: grid(b, rot=np.ones((3, 3))), "rot = .* is no rotation"),
    "rotation of length zero": (lambda b: grid(b, rot=(0, 0, 0, 0)), "rot: .* is no rotation"),
    "scale": (lambda b: grid(b, scale=-1.0), "scale -1.0 must be positive"),
    "cells": (lambda b: b.add_cloth_grid(dim_x=0, dim_y=1, cell_x=1, cell_y=1, mass=1), "dim_x = 0"),
    "unknown constraint": (
        lambda b: grid(b, material={"distanse": {"compliance": 1}}), "'distanse' is unknown.*did you mean 'distance'"),
    "unknown key": (
        lambda b: grid(b, material={"bend": {"complience": 1}}), "unknown key 'complience'.*did you mean 'compliance'"),
    "no compliance": (lambda b: grid(b, material={"bend": {}}), r"material\['bend'\] needs a compliance"),
    "compliance by another key": (
        lambda b: grid(b, material={"bend": {"compliance": {"all": 1}}}), "Give a number, an array, or {'each'"),
    "material is no dict": (lambda b: grid(b, material=[1]), r"material is \[1\]\. Give a dict"),
    "contact as a material": (lambda b: grid(b, material={"contact_sphere": {"compliance": 1}}),
        "Use add_shape_sphere"),
    "volume of a chain of two": (
        lambda b: b.add_chain((0, 0, 0), (1, 0, 0), 2, 1.0, material={"volume": {"compliance": 1}}),
        "needs 4 neighbouring"),
    "bend of a chain": (
        lambda b: b.add_chain((0, 0, 0), (1, 0, 0), 5, 1.0, material={"bend": {"compliance": 1}}),
        "'bend' is for cloth"),
    "distance of particles": (
        lambda b: b.add_particles([[0, 0, 0]], mass=1, material={"distance": {"compliance": 1}}), "cannot give it"),
    "shear of a mesh": (
        lambda b: b.add_cloth_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], mass=1,
                                   material={"shear": {"compliance": 1}}), "a mesh has none"),
    "mesh and vertices": (lambda b: b.add_cloth_mesh(), "either mesh, or vertices and indices"),
    "vertices without indices": (lambda b: b.add_cloth_mesh([[0, 0, 0]], mass=1), "indices are missing"),
    "indices of the wrong shape": (
        lambda b: b.add_cloth_mesh([[0, 0, 0]], [[0, 1]], mass=1), r"indices have shape \(1, 2\)"),
    "mesh in pieces": (
        lambda b: b.add_cloth_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]],
                                   [[0, 1, 2], [3, 4, 5]], mass=1), "2 pieces"),
    "chain of one point": (lambda b: b.add_chain((0, 0, 0), (1, 0, 0), 1, 1.0), "at least 2"),
    "chain of no length": (lambda b: b.add_chain((0, 0, 0), (0, 0, 0), 3, 1.0), "the same place"),
    "label twice": (lambda b: (two(b), two(b)), "label 'two' is taken"),
    "label with a dot": (lambda b: grid(b, label="a.b"), "'a.b' is no name"),
    "spring to itself": (lambda b: (two(b), b.add_spring(1, 1)), "repeats a point"),
    "spring to nobody": (lambda b: (two(b), b.add_spring(0, 2)), "there is no point 2; points are numbered 0 to 1"),
    "constraint without points": (lambda b: b.add_constraints(distance, [[0, 1]], 0.0), "there are no points yet"),
    "arity": (lambda b: (grid(b), b.add_constraints(bend, b.tri_indices, 1.0)), r"shape \(18, 3\)\. Give \(n, 4\)"),
    "repeated point in a row": (
        lambda b: (grid(b), b.add_constraints(triangle_area, [[0, 1, 2], [3, 4, 3]], 1.0)),
        r"row 1 repeats a point: \(3, 4, 3\)"),
    "points that are no numbers": (
        lambda b: (two(b), b.add_constraints(distance, [[0.5, 1.0]], 1.0)), "points has the type float64"),
    "a plain function": (
        lambda b: (two(b), b.add_constraints(lambda x: 0, [[0, 1]], 1.0)), "constraint is a function.*sim.constraint"),
    "unknown constraint by name": (
        lambda b: (two(b), b.add_constraints("distanc", [[0, 1]], 1.0)), "did you mean 'distance'"),
    "missing parameter": (
        lambda b: (two(b), b.add_constraints(stretch_limit, [[0, 1]], 1.0)), "needs the parameter 'limit'"),
    "unknown parameter": (
        lambda b: (two(b), b.add_constraints(distance, [[0, 1]], 1.0, rst=1.0)),
        "unknown key 'rst'.*did you mean 'rest'"),
    "parameter of the wrong shape": (
        lambda b: (two(b), b.add_constraints(distance, [[0, 1]], 1.0, rest=[1.0, 2.0])), r"rest has shape \(2,\)"),
    "attached twice": (
        lambda b: (grid(b, fix_left=True), b.add_attachment([1, 4], label="hook")),
        "point 4 is attached twice: by 'sheet' and by 'hook'"),
    "attached twice at once": (lambda b: (two(b), b.add_attachment([1, 1])), "names point 1 twice"),
    "pinned and soft at once": (lambda b: (two(b), b.add_attachment([0, 1], compliance=[0, 1.0])),
        "some of the points have 0"),
    "motion without a kind": (lambda b: (two(b), b.add_attachment([0], [{"start": 1}])),
        "needs one of 'move', 'swing', 'follow'"),
    "motion with two kinds": (
        lambda b: (two(b), b.add_attachment([0], {"move": (0, 0, 0), "swing": (0, 0, 0)})), "needs one of"),
    "move without an end": (lambda b: (two(b), b.add_attachment([0], {"move": (1, 0, 0)})), r"motion\[0\] needs 'end'"),
    "move of no time": (
        lambda b: (two(b), b.add_attachment([0], {"move": (1, 0, 0), "start": 1, "end": 1})), "is not after start"),
    "unknown ease": (
        lambda b: (two(b), b.add_attachment([0], {"move": (1, 0, 0), "end": 1, "ease": "smoth"})),
        "did you mean 'smooth'"),
    "unknown key of a motion": (
        lambda b: (two(b), b.add_attachment([0], {"swing": (1, 0, 0), "frequensy": 1})), "did you mean 'frequency'"),
    "frequency": (
        lambda b: (two(b), b.add_attachment([0], {"swing": (1, 0, 0), "frequency": 0})), "= 0 is not positive"),
}  # fmt: skip

FINALIZING = {
    "no points": (lambda b: None, "the model has no points"),
    "nothing free": (lambda b: b.add_attachment(two(b)), "nothing is free to move"),
    "all without mass": (lambda b: b.add_particle((0, 0, 0), mass=0.0), "nothing is free to move"),
    "unknown object in touches": (
        lambda b: (two(b), b.add_ground_plane(touches=["tow"])),
        "touches of 'ground': object 'tow' is unknown.*did you mean 'two'"),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDING)
def test_errors_when_adding(name):
    action, message = ADDING[name]
    builder = ModelBuilder()
    with pytest.raises(ModelError, match=message) as caught:
        action(builder)
    assert caught.value.what and str(caught.value).startswith(caught.value.what)


@pytest.mark.parametrize("name", FINALIZING)
def test_errors_at_finalize(name):
    action, message = FINALIZING[name]
    builder = ModelBuilder()
    action(builder)
    with pytest.raises(ModelError, match=message):
        builder.finalize()


def test_precision_has_to_be_one():
    builder = ModelBuilder()
    two(builder)
    with pytest.raises(ModelError, match="int32 is no precision"):
        builder.finalize(dtype=int32)


@pytest.mark.parametrize("method, args", [
    ("add_particle", ((0, 0, 0),)), ("add_particles", ([[0, 0, 0]], 1.0)), ("add_spring", (0, 1)),
    ("add_chain", ((0, 0, 0), (1, 0, 0), 2, 1.0)), ("add_cloth_mesh", ()), ("add_attachment", ([0],)),
    ("add_constraints", (distance, [[0, 1]], 0.0)), ("add_ground_plane", ()), ("add_shape_sphere", ((0, 0, 0),)),
    ("finalize", ()),
])  # fmt: skip
def test_nothing_after_finalize(method, args):
    builder = ModelBuilder()
    two(builder)
    builder.finalize()
    with pytest.raises(ModelError, match=f"{method} after finalize"):
        getattr(builder, method)(*args)


def test_a_failed_call_leaves_nothing_behind():
    builder = ModelBuilder()
    with pytest.raises(ModelError):
        grid(builder, material={"distance": {"compliance": -1.0}})
    with pytest.raises(ModelError):
        grid(builder, density=-1.0)
    assert builder.particle_count == 0
    grid(builder, material=SOFT)
    with pytest.raises(ModelError):
        builder.add_attachment([0, 1, 99], label="hook")
    builder.add_attachment([0, 1], label="hook")
    assert builder.finalize().particle_count == 16


def test_two_constraints_of_one_name():
    @constraint(points=2)
    def twin(x, rest: float):
        """One."""
        return length(x[0] - x[1]) - rest

    first = twin

    @constraint(points=2, name="twin")
    def second(x, rest: float):
        """Another."""
        return 2.0 * length(x[0] - x[1]) - rest

    builder = ModelBuilder()
    two(builder)
    builder.add_constraints(first, [[0, 1]], 0.0)
    builder.add_constraints(second, [[0, 1]], 0.0)
    with pytest.raises(ModelError, match="two different constraints are called 'twin'"):
        builder.finalize()


@pytest.mark.parametrize("path, hint", [
    ("sheet.distance.complience", "did you mean 'sheet.distance.compliance'"),
    ("shet.bend.compliance", "did you mean 'sheet.bend.compliance'"),
    ("sheet", "There are: sheet.distance.compliance"),
])  # fmt: skip
def test_unknown_paths(path, hint):
    builder = ModelBuilder()
    grid(builder, material=SOFT)
    model = builder.finalize(dtype=float32)
    with pytest.raises(UnknownPathError) as caught:
        _ = model[path]
    assert isinstance(caught.value, KeyError)
    assert hint in str(caught.value) and "\\" not in str(caught.value)
