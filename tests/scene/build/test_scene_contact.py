"""The `contact` block of scenes: what it makes, and what is wrong with it, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from sim.scene import SceneError

SHEETS = """format: 2
time: {duration: 0.1, fps: 60, substeps: 10}
objects:
  low:
    cloth: &sheet
      grid: {size: [0.1, 0.1], cells: [2, 2]}
      density: 0.2
      thickness: 2 mm
      material: {distance: {compliance: 1e-4}}
  high:
    cloth: *sheet
    position: [0, 0, 0.01]
contact: {self: [low, high], friction: 0.25, margin: 5 mm, every: 3, capacity: 700}
"""


OTHERS = """\
  brick: {body: {shapes: {hull: {box: {half: [1 cm, 1 cm, 1 cm]}, density: 400}}}, position: [0, 0, -0.05]}
  cord: {rod: {points: [[0, 1, 0], [1, 1, 0]], segments: 2, radius: 1 mm, density: 900, young: 1 MPa}}
  beads: {particles: {positions: [[0, 2, 0]], mass: 1 g}}
"""


def built(tmp_path: Path, text: str) -> sim.Model:
    (tmp_path / "scene.yaml").write_text(text)
    return sim.load_scene(tmp_path / "scene.yaml").build(dtype=sim.float64).model


def test_the_block_is_what_the_model_has(tmp_path: Path) -> None:
    contact = built(tmp_path, SHEETS).contact
    assert contact.labels == ("low", "high")
    assert (contact.margin, contact.every, contact.capacity) == (0.005, 3, 700)
    assert (contact.friction.numpy() == 0.25).all()
    assert (contact.half_thickness.numpy() == 0.002).all()
    each = built(tmp_path, SHEETS.replace("friction: 0.25", "friction: {low: 0.1, high: 0.5}"))
    numbers = [each.contact.friction.numpy()[each.groups[name].points] for name in ("low", "high")]
    assert (numbers[0] == 0.1).all() and (numbers[1] == 0.5).all()
    thick = built(tmp_path, SHEETS.replace("friction: 0.25", "thickness: 3 mm")).contact
    assert (thick.half_thickness.numpy() == 0.0015).all()
    assert built(tmp_path, SHEETS.replace("self: [low, high]", "self: []")).contact is None


@pytest.mark.parametrize(
    ("old", "new", "path", "what"),
    [
        ("friction: 0.25", "friction: -0.1", "contact.friction", "-0.1"),
        ("friction: 0.25", "friction: {low: -0.1, high: 0}", "contact.friction.low", "-0.1"),
        ("friction: 0.25", "friction: {low: 0.1, hihg: 0}", "contact.friction.hihg", "high"),
        ("friction: 0.25", "friction: {low: 0.1}", "contact", "friction says nothing of 'high'"),
        ("[low, high]", "[low, hgih]", "contact.self", "high"),
        ("every: 3", "every: 0", "contact.every", "1"),
        ("[low, high]", "[low, low]", "contact", "names 'low' twice"),
        ("[low, high]", "[low, brick]", "contact.self.1", "`brick` is a body.* collides by its `shapes`"),
        ("[low, high]", "[cord, low]", "contact.self.0", "`cord` is a rod.* collides by its `surface`"),
        ("[low, high]", "[low, beads]", "contact", "'beads' has no surface"),
        ("thickness: 2 mm\n", "\n", "objects.low", "'low' collides with itself and has no thickness"),
        ("0, 0.01]", "0, 0.003]", "objects.", "0.001 m closer than their thickness allows"),
        ("margin: 5 mm, every: 3, capacity: 700", "margin: 9 cm, capacity: 2", "", "room for 2"),
        ("\ncontact", "\nsolver: {xpbd: {order: jacobi}}\ncontact", "solver.xpbd", "low, high"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, old: str, new: str, path: str, what: str) -> None:
    with pytest.raises(SceneError, match=f"(?s){what}") as found:
        built(tmp_path, SHEETS.replace("\ncontact", f"\n{OTHERS}contact").replace(old, new, 1))
    assert any(problem.path.startswith(path) for problem in found.value.problems)


@pytest.mark.parametrize(
    ("block", "idle"),
    [
        ("friction: 0.3", "`friction` without effect, since `self` names no object; friction of shapes and bodies is"),
        ("self: [], margin: 5 mm, every: 3", "`margin`, `every` without effect, since `self` names no object"),
        ("self: [], friction: 0, every: 10", ""),
    ],
)
def test_keys_that_do_nothing_are_told(tmp_path: Path, block: str, idle: str) -> None:
    (tmp_path / "scene.yaml").write_text(SHEETS.partition("contact:")[0] + f"contact: {{{block}}}\n")
    notes = sim.load_scene(tmp_path / "scene.yaml").build().description.notes
    assert [note for note in notes if "without effect" in note] == [note for note in notes if idle and idle in note]
    assert any(idle in note for note in notes) or not idle


def test_triangles_that_begin_in_a_shape_are_counted_once(tmp_path: Path) -> None:
    """Not by the corners of the box that meet them, and not as points."""
    sheets = SHEETS.partition("contact:")[0].replace("thickness: 2 mm", "thickness: 12 mm")
    brick = OTHERS.partition("  cord")[0].replace("position: [0, 0, -0.05]", "position: [0.05, 0.05, -0.015]")
    (tmp_path / "scene.yaml").write_text(sheets + brick)
    notes = [n for n in sim.load_scene(tmp_path / "scene.yaml").build().description.notes if "start inside" in n]
    assert sorted(note.partition(" start")[0] for note in notes) == [
        "1 points of `low`", "6 edges of `low`", "6 triangles of `low`"
    ]  # fmt: skip
    assert all("inside the shape `brick.hull`, at most 0.007 m deep" in note for note in notes)


def test_the_friction_of_an_object_is_a_parameter(tmp_path: Path) -> None:
    (tmp_path / "scene.yaml").write_text(SHEETS.replace("friction: 0.25", "friction: {low: 0.1, high: 0.5}"))
    found = sim.load_scene(tmp_path / "scene.yaml").find("contact.friction.high")
    assert (found.value, found.model_path, found.line.may_vary) == (0.5, "contact.friction.high", True)


BALLS = """\
format: 2
name: balls
time: {duration: 0.1, fps: 10, substeps: 100}
objects:
  low: {body: {shapes: {hull: {sphere: {radius: 5 cm}, density: 400}}}}
  high: {body: {shapes: {hull: {sphere: {radius: 5 cm}, density: 400}}}, position: [0, 0.2, 0]}
"""


def test_how_bodies_are_found(tmp_path: Path) -> None:
    """By the block, else as many pairs need it; the block may be empty."""
    assert built(tmp_path, BALLS).near is None
    near = built(tmp_path, BALLS + "contact: {bodies: {margin: 2 cm, capacity: 3}}\n").near
    assert near is not None and (near.margin, near.capacity) == (0.02, 3)
    near = built(tmp_path, BALLS + "contact: {bodies: {}}\n").near
    assert near is not None and near.margin == pytest.approx(0.005)
