"""Bodies made of shapes in a scene: gradients by their sizes, meshes, what is drawn, what is refused."""

import numpy as np
import pytest
from tools.scenes.problems import write_scene

import sim
from sim.identify.assess.estimate import estimate
from sim.identify.report.rigid import rigid_bodies
from sim.scene import SceneError

TUMBLING = """
format: 2
time: {duration: 0.2, fps: 10 Hz, substeps: 4}
objects:
  hammer:
    body:
      shapes:
        head: {box: {half: [3 cm, 4 cm, 8 cm]}, at: [0.3, 0, 0], density: 2700}
        handle: {capsule: {radius: 2 cm, half_height: 0.2}, turn: [0, 90 deg, 0.1], mass: 0.7}
      sites: {end: [-0.2, 0, 0]}
    velocity: [1, 2, 0]
    spin: [3, 9, 5]
markers:
  end: {on: hammer, where: {all: true}}
loss:
  - {reach: {marker: end, point: [0.4, 0.3, 0.2], at: last, scale: 0.1}}
parameters:
  half: {of: objects.hammer.body.shapes.head.box.half, transform: log}
  density: {of: objects.hammer.body.shapes.head.density, transform: log}
  radius: {of: objects.hammer.body.shapes.handle.capsule.radius, transform: log}
  mass: {of: objects.hammer.body.shapes.handle.mass, transform: log}
  at: {of: objects.hammer.body.shapes.head.at}
"""
TETRAHEDRON = "v 0 0 0\nv 60 0 0\nv 0 50 0\nv 0 0 40\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def test_gradients_by_sizes_and_densities(tmp_path):
    problem = sim.load_scene(write_scene(tmp_path, TUMBLING)).build(dtype=sim.float64)
    x = problem.start
    value, gradient = problem.value_and_grad(x)
    assert value > 0.1 and np.abs(gradient).min() > 1e-7
    for i in range(x.size):
        ends = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[i] += step
            ends.append(problem.value(moved))
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-8), i


def test_meshes_and_visuals(tmp_path):
    (tmp_path / "wedge.obj").write_text(TETRAHEDRON)
    text = TUMBLING.partition("loss:")[0].replace(
        "box: {half: [3 cm, 4 cm, 8 cm]}", "mesh: {file: wedge.obj, unit: mm}"
    )
    scene = sim.load_scene(write_scene(tmp_path, text))
    model = scene.build(dtype=sim.float64).model
    assert model.body_mass.numpy()[0] == pytest.approx(0.7 + 2700 * 0.06 * 0.05 * 0.04 / 6)
    (drawn,) = rigid_bodies(model)
    middle = rigid_bodies(model)[0].points.max(axis=0)  # the corner of the mesh along x
    assert middle[0] == pytest.approx(0.36) and len(drawn.points) > 100
    seen = text.replace("      sites:", "      visuals: {ball: {sphere: {radius: 0.1}, at: [0, 1, 0]}}\n      sites:")
    (drawn,) = rigid_bodies(sim.load_scene(write_scene(tmp_path, seen)).build().model)
    assert drawn.points[:, 1].min() == pytest.approx(0.9)  # instead of its shapes
    again = sim.load_scene(write_scene(tmp_path, scene.build().description.resolved)).build()
    assert again.model.shape_label == ["hammer.head", "hammer.handle"]

    (tmp_path / "wedge.obj").write_text(TETRAHEDRON.partition("f 2")[0])
    with pytest.raises(SceneError, match=r"shapes\.head: the surface is not closed: 3 of its edges"):
        sim.load_scene(write_scene(tmp_path, text)).build()


def test_all_that_is_wrong_at_once(tmp_path):
    text = TUMBLING.partition("loss:")[0]
    for old, new in [
        ("density: 2700", "friction: 0.3, restitution: 0.1"),
        (", mass: 0.7", ""),
        ("half_height: 0.2", "half_height: -0.2"),
    ]:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SceneError) as error:
        sim.load_scene(write_scene(tmp_path, text)).build()
    assert {p.path for p in error.value.problems} == {"objects.hammer.body.shapes.handle.capsule.half_height"}
    with pytest.raises(SceneError) as error:
        sim.load_scene(write_scene(tmp_path, text.replace("-0.2", "0.2"))).build()
    paths = [p.path.removeprefix("objects.hammer.body") for p in error.value.problems]
    assert paths == [""] and "nothing gives it a mass" in str(error.value)
    held = TUMBLING.partition("loss:")[0].replace("      sites:", "      mass: 0\n      sites:")
    with pytest.raises(SceneError, match="`mass: 0` holds a body"):
        sim.load_scene(write_scene(tmp_path, held)).build()
    with pytest.raises(SceneError, match="`mass` and `density` exclude each other"):
        sim.load_scene(write_scene(tmp_path, TUMBLING.replace("mass: 0.7", "mass: 0.7, density: 100")))


GIVEN = TUMBLING.partition("parameters:")[0].replace("      sites", "      mass: 1.5\n      com: [0.1, 0, 0.02]\n"
    "      inertia: [0.01, 0.02, 0.025, 1e-3, 2e-3, -1e-3]\n      sites") + """parameters:
  inertia: {of: objects.hammer.body.inertia}
  com: {of: objects.hammer.body.com}
  mass: {of: objects.hammer.body.mass}
"""  # fmt: skip


def test_inertia_stays_physical(tmp_path):
    problem = sim.load_scene(write_scene(tmp_path, GIVEN)).build(dtype=sim.float64)
    kinds = {p.name: p.transform.name for p in problem.sought}
    assert kinds == {"inertia": "log-cholesky", "com": "none", "mass": "log"}
    assert problem.sought[0].labels == [f"inertia.{key}" for key in ("xx", "yy", "zz", "xy", "xz", "yz")]
    x = problem.start
    assert problem.physical(x)["inertia"] == pytest.approx([0.01, 0.02, 0.025, 1e-3, 2e-3, -1e-3])
    _, gradient = problem.value_and_grad(x)
    for i in range(x.size):
        ends = [problem.value(x + step * np.eye(x.size)[i]) for step in (1e-5, -1e-5)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-8), i
    again = sim.load_scene(write_scene(tmp_path, problem.description.resolved)).build()
    assert {p.name: p.transform.name for p in again.sought} == kinds


@pytest.mark.parametrize("old, new, said", [
    ("inertia}", "inertia, transform: log}", "`log` of an inertia"),
    ("inertia}", "inertia, bounds: [0, 1]}", "bounds of an inertia"),
    ("com}", "com, transform: log-cholesky}", "`log-cholesky` is for the inertia of a body as a whole"),
    ("inertia}", "inertia.2, bounds: [0.02, 0.04]}", "alone may become what no body has"),
    ("inertia}", "inertia.0}", "seek `objects.hammer.body.inertia` as a whole"),
])  # fmt: skip
def test_inertia_that_could_become_none(tmp_path, old, new, said):
    assert GIVEN.count(old) == 1
    with pytest.raises(SceneError, match=said):
        sim.load_scene(write_scene(tmp_path, GIVEN.replace(old, new)))
    sim.load_scene(write_scene(tmp_path, GIVEN.replace("inertia}", "inertia.2, bounds: [0.02, 0.028]}")))


SWUNG = """
format: 2
time: {duration: 1.0, fps: 50, substeps: 10}
solver: {xpbd: {direct: [pivot]}}
objects:
  body:
    body: {mass: 2, inertia: INERTIA, com: COM, sites: {a: [0.3, 0, 0], b: [0, 0.3, 0], c: [0, 0, -0.4]}}
    spin: [4, 2, 6]
joints:
  pivot: {ball: {}, child: body, at: [0, 0, 0]}
markers:
  dots: {on: body, where: {all: true}}
"""
SOUGHT = """
experiments:
  main: {target: {file: rec.csv, noise: 1 mm, markers: {dots: [a, b, c]}}}
loss: [{match: dots}]
parameters:
  inertia: {of: objects.body.body.inertia}
  com: {of: objects.body.body.com}
optimize: {gauss_newton: {iterations: 20}}
"""


@pytest.mark.slow
def test_inertia_is_found_within_its_standard_errors(tmp_path):
    """A body on a ball joint, three markers with noise of 1 mm: all six numbers, from a sphere as the start."""
    inertia, com = [0.05, 0.06, 0.03, 0.004, -0.006, 0.003], [0.05, 0.1, -0.2]
    text = SWUNG.replace("INERTIA", str(inertia)).replace("COM", str(com))
    there = sim.load_scene(write_scene(tmp_path, text)).build().simulate()["main"]
    rng = np.random.default_rng(20261123)
    places = np.concatenate([there.start[None], there.positions])
    seen = places + 1e-3 * rng.normal(size=places.shape)
    names = ",".join(f"{marker}.{axis}" for marker in "abc" for axis in "xyz")
    rows = [",".join(map(str, (t, *x.ravel()))) for t, x in zip([0.0, *there.times], seen, strict=True)]
    (tmp_path / "rec.csv").write_text("\n".join([f"time,{names}", *rows]))
    start = SWUNG.replace("INERTIA", "[0.08, 0.08, 0.08, 0, 0, 0]").replace("COM", "[0.04, 0.08, -0.18]")
    problem = sim.load_scene(write_scene(tmp_path, start + SOUGHT)).build()
    found = problem.optimize()
    known = estimate(problem, found.search.x, problem.simulate(found.search.x))
    for name, true in (("inertia", inertia), ("com", com)):
        error = known.errors[name]
        assert (error > 0).all() and (error < 0.02 * np.abs(true).max()).all(), name
        assert (np.abs(found.parameters[name] - true) < 4 * error).all(), name
    assert found.loss < 1.2


NOODLE = """
format: 2
time: {duration: 0.1, fps: 10 Hz, substeps: 4}
solver: {xpbd: {direct: [noodle]}}
objects:
  noodle:
    rod: {points: [[0, 0.1, 0], [0.4, 0.1, 0]], segments: 4, radius: 5 mm, density: 1000, young: 1e6SURFACE}
  block:
    body: {held: true, shapes: {hull: {box: {half: [0.02, 0.02, 0.02]}}}}
    position: [0, 0.03, 0]
shapes:
  table: {plane: {normal: [0, 1, 0]}}
"""


def test_a_rod_collides_with_its_surface_and_without_one_a_warning_says_so(tmp_path):
    bare = sim.load_scene(write_scene(tmp_path, NOODLE.replace("SURFACE", ""))).build()
    assert not any(name.startswith("contact") for name in bare.model.constraint_sets)
    (told,) = (text for text in bare.description.notes if "objects.noodle.rod" in text)
    assert "`table`, `block`" in told and "surface: {friction: 0.3}" in told
    surface = ", surface: {friction: 0.4, touches: [block]}"
    made = sim.load_scene(write_scene(tmp_path, NOODLE.replace("SURFACE", surface))).build()
    assert not any("objects.noodle.rod" in text for text in made.description.notes)
    assert made.model["noodle.mu"].numpy() == pytest.approx(0.4)
    assert {"contact_plane@a", "contact_box@ab"} <= set(made.model.constraint_sets)


ABOVE_A_CLOTH = """
format: 2
time: {duration: 0.1, fps: 10 Hz, substeps: 4}
objects:
  sheet:
    cloth: {grid: {size: [0.2, 0.2], cells: [5, 5]}, density: 0.2, material: {distance: {compliance: 1e-4}}}
  marble:
    body: {shapes: {hull: {SHAPE, density: 2000}}}
    position: [0.1, 0.1, 0.3]
"""


def warned_of_marble(tmp_path, shape: str) -> list[str]:
    notes = sim.load_scene(write_scene(tmp_path, ABOVE_A_CLOTH.replace("SHAPE", shape))).build().description.notes
    return [note for note in notes if note.startswith("marble.hull, ")]


def test_narrow_balls_meet_triangles(tmp_path):
    """So they fall through nothing, and nothing is to be said."""
    scene = ABOVE_A_CLOTH.replace("SHAPE", "sphere: {radius: 0.01}")
    built = sim.load_scene(write_scene(tmp_path, scene)).build()
    assert not [note for note in built.description.notes if note.startswith("marble.hull, ")]
    assert "contact_ball_triangle@appp" in built.model.constraint_sets


@pytest.mark.parametrize(("radius", "narrow"), [(0.01, True), (0.04, False)])
def test_what_fits_between_the_points_of_a_cloth_is_a_warning(tmp_path, radius, narrow):
    told = warned_of_marble(tmp_path, f"cylinder: {{radius: {radius}, half_height: 0.05}}")
    assert bool(told) == narrow
    assert not narrow or ("20 mm wide" in told[0] and "56.6 mm" in told[0])


@pytest.mark.parametrize(("half", "narrow"), [(0.01, True), (0.04, False)])
def test_so_is_a_narrow_mesh_however_it_lies_in_its_frame(tmp_path, half, narrow):
    """A plank whose file has it across all three axes, along which it extends by more than 8 cm."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * [half, 0.05, 0.1]
    turn = sim.quat_from_axis_angle(sim.normalize(sim.vec3(1.0, 2.0, 3.0)), 0.9)
    placed = [sim.quat_rotate(turn, sim.vec3(*c)) for c in corners.tolist()]
    assert np.ptp(np.array(placed), axis=0).min() > 0.08
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    lines = [f"v {x:.9f} {y:.9f} {z:.9f}" for x, y, z in placed]
    lines += [f"f {a + 1} {b + 1} {c + 1}\nf {a + 1} {c + 1} {d + 1}" for a, b, c, d in quads]
    (tmp_path / "plank.obj").write_text("\n".join(lines))
    told = warned_of_marble(tmp_path, "mesh: {file: plank.obj, unit: m}")
    assert bool(told) == narrow
    assert not narrow or "20 mm wide" in told[0]
