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
        ("thickness: 2 mm\n", "\n", "", "'low' collides with itself and has no thickness"),
        ("0, 0.01]", "0, 0.003]", "", "0.001 m closer than their thickness allows"),
        ("margin: 5 mm, every: 3, capacity: 700", "margin: 9 cm, capacity: 2", "", "room for 2"),
        ("\ncontact", "\nsolver: {xpbd: {order: jacobi}}\ncontact", "solver.xpbd", "low, high"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, old: str, new: str, path: str, what: str) -> None:
    with pytest.raises(SceneError, match=what) as found:
        built(tmp_path, SHEETS.replace(old, new, 1))
    assert path in str(found.value)


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
