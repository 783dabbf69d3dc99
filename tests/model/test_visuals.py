"""What bodies look like: closed surfaces of the right size, and bodies of equal inertia where nothing is given."""

import numpy as np
import pytest

import sim
from sim.model.visuals import BoxForm, CapsuleForm, CylinderForm, SphereForm, equal_inertia, rotated


def volume(surface):
    """Of what a closed surface that looks outward encloses."""
    points, triangles = surface
    corner = points[triangles]
    return np.einsum("td,td->", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])) / 6


@pytest.mark.parametrize("form, expected, rel", [
    (BoxForm((0.1, 0.2, 0.3)), 8 * 0.006, 1e-12),
    (SphereForm(0.3), 4 / 3 * np.pi * 0.027, 0.03),
    (CapsuleForm(0.1, 0.4), np.pi * (0.01 * 0.8 + 4 / 3 * 0.001), 0.03),
    (CylinderForm(0.1, 0.4), np.pi * 0.01 * 0.8, 0.03),
])  # fmt: skip
def test_surfaces_are_closed_and_look_outward(form, expected, rel):
    points, triangles = form.surface()
    corner = points[triangles]
    flat = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert (np.linalg.norm(flat, axis=1) > 1e-12).all()
    assert (np.einsum("td,td->t", flat, corner.mean(axis=1)) > 0).all()
    assert flat.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)  # closed
    assert volume((points, triangles)) == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize("sides", [6, 12])
@pytest.mark.parametrize("form", [SphereForm(0.3), CapsuleForm(0.1, 0.4), CylinderForm(0.1, 0.4)])
def test_surfaces_of_few_sides(form, sides):
    points, triangles = form.surface(sides)
    fine, _ = form.surface()
    assert len(points) <= len(fine) / 2 and 0.6 * volume(form.surface()) < volume((points, triangles))
    corner = points[triangles]
    flat = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert (np.linalg.norm(flat, axis=1) > 1e-12).all() and flat.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)


def test_a_body_of_equal_inertia_has_it():
    half, mass = np.array([0.3, 0.2, 0.1]), 2.0
    moments = mass / 3 * (np.sum(half**2) - half**2)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    form, axes = equal_inertia(mass, turn @ np.diag(moments) @ turn.T)
    assert isinstance(form, BoxForm) and np.linalg.det(axes) == pytest.approx(1)
    found = mass / 3 * (np.sum(np.square(form.half)) - np.square(form.half))
    np.testing.assert_allclose(axes @ np.diag(found) @ axes.T, turn @ np.diag(moments) @ turn.T, rtol=1e-9)

    radius, length = 0.05, 1.0  # of a round stick along y
    across = mass * (radius**2 / 4 + length**2 / 12)
    form, axes = equal_inertia(mass, np.diag([across, mass * radius**2 / 2, across]))
    assert isinstance(form, CapsuleForm) and np.abs(axes[:, 2]) == pytest.approx([0, 1, 0])
    assert (form.radius, form.half_height + form.radius) == pytest.approx((radius, length / 2))

    form, _ = equal_inertia(1.0, np.diag([1.0, 1.0, 2.0]))  # a plate without thickness
    assert min(form.half) == pytest.approx(0.02 * max(form.half))


def test_builder_collects_what_is_drawn():
    builder = sim.ModelBuilder()
    a, b = (builder.add_body((k, 0, 0), 1.0, (1, 1, 1), label=name) for k, name in enumerate("ab"))
    quarter = (0, 0, np.sin(np.pi / 4), np.cos(np.pi / 4))
    builder.add_visual_box(a, (1, 0, 0, *quarter), 3, 1, 1)
    builder.add_visual_capsule(b, radius=0.1, half_height=0.0)
    builder.add_visual_cylinder(b, (0, 1, 0), 0.1, 1)
    builder.add_visual_mesh(-1, vertices=np.eye(3), indices=[[0, 1, 2]])
    for said, call in [
        ("no body 2", lambda: builder.add_visual_sphere(2)),
        ("radius = 0 is not positive", lambda: builder.add_visual_sphere(0, radius=0)),
        ("indices", lambda: builder.add_visual_mesh(0, vertices=np.eye(3), indices=[[0, 1, 3]])),
    ]:
        with pytest.raises(sim.ModelError, match=said):
            call()
    model = builder.replicate(2).finalize()
    assert [v.body for v in model.visuals] == [0, 1, 2, 3, 2, 3, -1]
    assert repr(model).startswith("Model(0 particles, 4 bodies; ")
    points, _ = model.visuals[0].surface()
    assert np.ptp(points, axis=0) == pytest.approx([2, 6, 2]) and points.mean(axis=0) == pytest.approx([1, 0, 0])
    assert rotated(np.array(quarter), np.array([1.0, 0, 0])) == pytest.approx([0, 1, 0])
