"""Shapes of bodies: what they weigh, with gradients; their arrays, in several worlds; what is refused."""

import numpy as np
import pytest
import trimesh

import sim
from sim.core.runtime.arrays.creation import from_numpy
from sim.geometry import GeometryError, rotated, solid_moments
from sim.identify.report.rigid import solid_shapes
from sim.model.fields import SHAPE_TYPES
from sim.model.visuals import BoxForm, CapsuleForm, CylinderForm, SphereForm

TURN = np.array([0.3, -0.4, 0.5, 0.2]) / np.linalg.norm([0.3, -0.4, 0.5, 0.2])
CUBE = BoxForm((0.3, 0.2, 0.1)).surface()
WEDGE = (
    np.array([[0, 0, 0], [0.6, 0, 0], [0, 0.5, 0], [0, 0, 0.4]]),
    np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
)


def merged(surface):
    points, triangles = surface
    unique, rank = np.unique(np.round(points, 12), axis=0, return_inverse=True)
    return unique, rank.reshape(-1)[triangles]


def moments_of(parts):
    """Mass, centre, inertia about it, of (density, surface, pose) by surfaces of triangles."""
    mass, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for density, surface, pose in parts:
        points, triangles = merged(surface)
        found = solid_moments(rotated(pose[3:], points) + pose[:3], triangles)
        mass += density * found.volume
        first += density * found.volume * found.centre
        second += density * (found.second + found.volume * np.outer(found.centre, found.centre))
    centre = first / mass
    about = second - mass * np.outer(centre, centre)
    return mass, centre, np.trace(about) * np.eye(3) - about


def test_moments_of_a_tetrahedron():
    a, b, c = 0.6, 0.5, 0.4
    found = solid_moments(*WEDGE)
    assert found.volume == pytest.approx(a * b * c / 6)
    np.testing.assert_allclose(found.centre, np.array([a, b, c]) / 4)
    size = np.array([a, b, c])  # the integral of x_i x_j is V (1 + [i = j]) s_i s_j / 20
    about_corner = found.volume / 20 * np.outer(size, size) * (1 + np.eye(3))
    np.testing.assert_allclose(found.second + found.volume * np.outer(found.centre, found.centre), about_corner)


@pytest.mark.parametrize("surface, said", [
    ((WEDGE[0], WEDGE[1][:3]), "not closed: 3 of its edges.*Close its holes"),
    ((WEDGE[0], WEDGE[1][:, ::-1]), "looks inward.*Turn its triangles round"),
    ((WEDGE[0], np.concatenate([WEDGE[1][:3], WEDGE[1][3:, ::-1]])), "wound both ways"),
])  # fmt: skip
def test_surfaces_that_enclose_nothing(surface, said):
    with pytest.raises(GeometryError, match=said):
        solid_moments(*surface)


def add_all(builder, body):
    """One of each kind, turned and apart; its parts for `moments_of`, by the sides that round things have."""
    config = builder.ShapeConfig
    places = {name: np.array([*at, *TURN]) for name, at in {
        "box": (0.1, 0.2, -0.3), "sphere": (0.5, 0, 0), "capsule": (0, 0.6, 0), "cylinder": (0, 0, 0.7),
        "mesh": (-0.4, -0.3, 0.1)}.items()}  # fmt: skip
    builder.add_shape_box(body, places["box"], 0.3, 0.2, 0.1, config(density=800.0))
    builder.add_shape_sphere(body, places["sphere"], 0.2)
    builder.add_shape_capsule(body, places["capsule"], 0.1, 0.4, config(density=500.0), label="arm")
    builder.add_shape_cylinder(body, places["cylinder"], 0.2, 0.3, config(mass=7.0), "can")
    builder.add_shape_mesh(body, places["mesh"], vertices=WEDGE[0], indices=WEDGE[1], scale=(1.0, 2.0, 0.5))
    volume = np.pi * 0.04 * 0.6
    return lambda sides: [
        (800.0, CUBE, places["box"]), (1000.0, SphereForm(0.2).surface(sides), places["sphere"]),
        (500.0, CapsuleForm(0.1, 0.4).surface(sides), places["capsule"]),
        (7.0 / volume, CylinderForm(0.2, 0.3).surface(sides), places["cylinder"]),
        (1000.0, (WEDGE[0] * [1, 2, 0.5], WEDGE[1]), places["mesh"]),
    ]  # fmt: skip


def test_shapes_add_up():
    builder = sim.ModelBuilder()
    parts = add_all(builder, builder.add_body((1, 2, 3), label="robot"))
    other = builder.add_body(mass=2.0, inertia=(0.1, 0.2, 0.25), com=(0.1, 0, 0), label="other")
    builder.add_shape_box(other, cfg=builder.ShapeConfig(density=0.0, touches=()))  # weighs nothing
    alone = builder.add_body(mass=2.0, inertia=(0.1, 0.2, 0.25), com=(0.1, 0, 0))
    builder.add_shape_box(alone, (0.5, 0, 0), 0.1, 0.1, 0.1, builder.ShapeConfig(touches=()))
    model = builder.finalize(dtype=sim.float64)
    coarse, fine = (moments_of(parts(sides)) for sides in (24, 48))
    mass, centre, inertia = ((4 * b - a) / 3 for a, b in zip(coarse, fine, strict=True))  # errors ~ 1 / sides^2
    assert model.body_mass.numpy()[0] == pytest.approx(mass, rel=1e-4)
    np.testing.assert_allclose(model.body_com.numpy()[0], centre, atol=1e-4)
    np.testing.assert_allclose(model.body_inertia.numpy()[0], inertia, atol=1e-4 * np.abs(inertia).max())
    assert model.body_mass.numpy()[1] == 2.0
    np.testing.assert_array_equal(model.body_inertia.numpy()[1], np.diag([0.1, 0.2, 0.25]))
    # its own mass, and a cube of 8 kg
    assert model.body_mass.numpy()[2] == pytest.approx(10.0)
    np.testing.assert_allclose(model.body_com.numpy()[2], (0.42, 0, 0))
    reduced = 2.0 * 8.0 / 10.0 * 0.4**2
    cube = 8.0 * 0.02 / 3
    np.testing.assert_allclose(
        model.body_inertia.numpy()[2], np.diag([0.1 + cube, 0.2 + cube + reduced, 0.25 + cube + reduced])
    )
    assert model.shape_label == ["robot.box", "robot.sphere", "robot.arm", "robot.can", "robot.mesh", "other.box",
                                 "body.box"]  # fmt: skip
    kinds = [SHAPE_TYPES[s.kind] for s in model.shapes]
    assert model.shape_type.numpy().tolist() == kinds and kinds[:5] == [7, 3, 4, 6, 8]
    assert model.shape_body.numpy().tolist() == [0] * 5 + [1, 2]
    np.testing.assert_allclose(model.shape_density.numpy()[[0, 3, 5]], [800, 7.0 / (np.pi * 0.024), 0])
    np.testing.assert_allclose(model.shape_scale.numpy()[[1, 2, 4]], [[0.2, 0, 0], [0.1, 0.4, 0], [1, 2, 0.5]])
    assert "other.box.density" not in model.materials


def test_masses_have_gradients():
    """A random functional of mass, centre, inertia and their inverses, value by value against differences."""
    builder = sim.ModelBuilder()
    body = builder.add_body(mass=2.0, inertia=(3.0, 2.0, 2.5), com=(0.1, 0.2, 0), label="robot")
    add_all(builder, body)
    model = builder.replicate(2).finalize(dtype=sim.float64, requires_grad=True)
    rng = np.random.default_rng(20261123)
    names = ("body_mass", "body_com", "body_inertia", "body_inv_mass", "body_inv_inertia", "shape_density")
    outputs = {n: getattr(model, n) for n in names}
    weights = {n: rng.normal(size=a.numpy().shape) for n, a in outputs.items()}
    with sim.Tape() as tape:
        model.refresh()
    tape.backward(grads={a: from_numpy(weights[n], dtype=a.dtype) for n, a in outputs.items()})

    def functional() -> float:
        model.refresh()
        return sum(float((weights[n] * a.numpy()).sum()) for n, a in outputs.items())

    reached = []
    for path, value in model.materials.items():
        if not path.startswith("robot.") or path.endswith((".mu", ".restitution")):
            continue
        host, got = value.numpy().copy(), value.grad.numpy()
        for index in np.ndindex(host.shape):
            step, ends = 1e-5 * max(abs(host[index]), 0.1), []
            for sign in (1, -1):
                moved = host.copy()
                moved[index] += sign * step
                value.assign(moved)
                ends.append(functional())
            value.assign(host)
            want = (ends[0] - ends[1]) / (2 * step)
            assert got[index] == pytest.approx(want, rel=1e-6, abs=1e-6 * np.abs(got).max()), (path, index)
        reached += [path] * bool(np.any(got != 0))
    keys = ["box.half", "box.at", "box.density", "sphere.radius", "arm.half_height", "can.mass", "mesh.scale", "mass",
            "com", "inertia"]  # fmt: skip
    assert {f"robot.{key}" for key in keys} <= set(reached)


def test_worlds_and_shapes_of_the_world():
    builder = sim.ModelBuilder()
    body = builder.add_body((0, 0, 9), label="cube")
    builder.add_shape_plane((0, 0, 2, -1), label="table")
    builder.add_shape_box(body)
    builder.add_shape_plane(
        xform=(1, 0, 0, *TURN), body=body, width=2, length=3, label="side", cfg=builder.ShapeConfig(touches=())
    )
    builder.add_shape_capsule(-1, (0, 0, 1), label="pole")
    builder.add_shape_sphere(-1, (3, 0, 0), 0.5)
    builder.add_particle((0, 0, 5))
    model = builder.replicate(2).finalize(dtype=sim.float64)
    assert model.shape_label[::2] == ["table", "cube.box", "cube.side", "pole", "sphere"]
    assert model.shape_body.numpy().tolist() == [-1, -1, 0, 1, 0, 1, -1, -1, -1, -1]
    assert model.body_mass.numpy() == pytest.approx([1000.0, 1000.0])
    np.testing.assert_allclose(model.shape_transform.numpy()[[0, 4, 6]], [
        [0, 0, 0.5, 0, 0, 0, 1], [1, 0, 0, *rotating(TURN)], [0, 0, 1, 0, 0, 0, 1]])  # fmt: skip
    np.testing.assert_allclose(model.shape_scale.numpy()[4], [2, 3, 0])
    assert {shape.label for shape in solid_shapes(model)} == {"cube.box", "pole"}  # drawn as bodies
    assert model.constraint_sets["contact_plane"].count == 2


def rotating(q):
    """The shortest turn that takes z to where a quaternion takes it."""
    z = rotated(q, np.array([0.0, 0, 1]))
    out = np.array([-z[1], z[0], 0.0, 1.0 + z[2]])
    return out / np.linalg.norm(out)


def test_a_body_moves_as_its_shapes_weigh():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body(spin=(0, 0, 3.0))
    builder.add_shape_box(body, (0.2, 0, 0), 0.1, 0.1, 0.1)  # the centre of mass stays where it is
    model = builder.finalize(dtype=sim.float64)
    state, after = model.state(), model.state()
    sim.SolverXPBD(model).step(state, after, None, None, 0.01)
    angle = 0.03
    np.testing.assert_allclose(after.body_q.numpy()[0, :2], (0.2 - 0.2 * np.cos(angle), -0.2 * np.sin(angle)))


REFUSED = {
    "no mass": (lambda b, k: b.finalize(), "the body 'body' has no mass"),
    "a shape without weight": (
        lambda b, k: (b.add_shape_box(k, cfg=b.ShapeConfig(density=0)), b.finalize()), "has no mass"),
    "inertia without mass": (lambda b, k: b.add_body(inertia=1.0), "inertia of a body without a mass"),
    "centre without mass": (lambda b, k: b.add_body(com=(1, 0, 0)), "com of a body without a mass"),
    "a pose of two": (lambda b, k: b.add_body(((0, 0, 1), (0, 0, 0, 1))), r"xform is .*sim\.transform\(p, q\)"),
    "size": (lambda b, k: b.add_shape_box(k, hx=0.0), "hx = 0 is not positive"),
    "no body": (lambda b, k: b.add_shape_box(None), "there is no body None.*-1 is the world"),
    "no such body": (lambda b, k: b.add_shape_box(3), "there is no body 3"),
    "label": (lambda b, k: [b.add_shape_box(k, label="a") for _ in range(2)], "label 'a' is taken"),
    "restitution": (lambda b, k: b.add_shape_box(k, cfg=b.ShapeConfig(restitution=1.5)), "restitution = 1.5"),
    "open mesh": (
        lambda b, k: b.add_shape_mesh(k, vertices=WEDGE[0], indices=WEDGE[1][:3]), "not closed"),
    "mesh of trimesh": (
        lambda b, k: b.add_shape_mesh(k, mesh=trimesh.creation.box()), "mesh is Trimesh; .*indices=mesh.faces"),
    "mirrored": (
        lambda b, k: b.add_shape_mesh(k, vertices=WEDGE[0], indices=WEDGE[1], scale=-1), "scale = -1 is not positive"),
    "plane": (lambda b, k: b.add_shape_plane((0, 0, 0, 1)), r"plane is \(0, 0, 0, 1\)"),
    "compliance": (lambda b, k: b.add_shape_sphere(k, compliance=1e-3), "compliance of a shape of a body"),
    "two places": (lambda b, k: b.add_shape_sphere(k, center=(0, 0, 0)), "a body and a center"),
    "free and moved": (
        lambda b, k: (b.add_shape_box(k), b.add_shape_box(b.add_body(motion={"move": (1, 0, 0), "end": 1})),
                      b.finalize()), "motion of a body that is free"),
    "held and spinning": (
        lambda b, k: (b.add_shape_box(k), b.add_body(held=True, spin=(0, 0, 9), label="roller"),
                      b.finalize()), "the body 'roller' is held: its spin would move nothing"),
    "without mass, and thrown": (
        lambda b, k: (b.add_shape_box(k), b.add_body(mass=0.0, velocity=(1, 0, 0), label="wall"), b.finalize()),
        "the body 'wall' is held: its velocity would move nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, said = REFUSED[name]
    builder = sim.ModelBuilder()
    body = builder.add_body()
    with pytest.raises(sim.ModelError, match=said):
        call(builder, body)
