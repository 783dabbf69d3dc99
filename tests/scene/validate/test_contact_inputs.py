"""Contacts of scenes that cannot be: solvers without friction, particles inside of the shape of a body."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sim
from sim.schema.errors import SceneError

SCENE = """\
format: 2
name: bad
time: {duration: 0.1, fps: 10, substeps: 10}
objects:
  crate: {body: {shapes: {hull: {box: {half: [0.1, 0.05, 0.08]}, density: 400}}}, position: [0, 0.05, 0]}
  cloth:
    cloth: {grid: {size: [0.4, 0.4], cells: [4, 4]}, density: 0.2, thickness: 4 mm, material: {}}
    position: [-0.2, 0.05, 0]
shapes:
  floor: {plane: {normal: [0, 1, 0]}, friction: 0.3}
"""


def problems(tmp_path: Path, text: str) -> dict[str, str]:
    """Path -> what is wrong."""
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SceneError) as error:
        sim.load_scene(tmp_path / "bad.yaml").build()
    return {p.path: f"{p.what} {p.hint}" for p in error.value.problems}


def test_particles_inside_of_the_shape_of_a_body(tmp_path: Path) -> None:
    """How many, how deep with their thickness, and what to move; a little deeper than touching is a note."""
    found = problems(tmp_path, SCENE)
    assert list(found) == ["objects.cloth"]
    assert "3 points of `cloth` start inside the shape `crate.hull`, at most 0.054 m deep" in found["objects.cloth"]
    (tmp_path / "near.yaml").write_text(SCENE.replace("position: [-0.2, 0.05, 0]", "position: [-0.2, 0, 0.082]"))
    notes = sim.load_scene(tmp_path / "near.yaml").build().description.notes
    assert any("inside the shape `crate.hull`, at most 0.002 m deep: the contact pushes them out" in n for n in notes)


@pytest.mark.parametrize("solver", ["xpbd: {integrator: bdf2}", "newton: {}", "semi_implicit: {}"])
def test_a_solver_says_at_once_all_that_it_has_not(tmp_path: Path, solver: str) -> None:
    text = SCENE.replace("position: [-0.2, 0.05, 0]", "position: [-0.2, 0.5, 0]")
    (said,) = problems(tmp_path, f"{text}solver: {{{solver}}}\n").values()
    assert "steps no rigid bodies, and the model has 1" in said and re.search(r"contacts of .*floor.* have", said)
    assert "`order: colored` and `integrator: euler`" in said


def test_a_body_is_not_called_as_the_world_is(tmp_path: Path) -> None:
    """`parent: world` would name it, and mean what does not move."""
    (found,) = problems(tmp_path, SCENE.replace("crate: {body", "world: {body")).items()
    assert found[0] == "objects.world" and "what joints and clamps hold to" in found[1]


@pytest.mark.parametrize(
    ("contact", "thickness", "place"),
    [("{self: [cloth], thickness: 4}", "4 mm", "contact"), ("{self: [cloth]}", "0.6", "objects.cloth.cloth")],
)
def test_a_surface_is_thinner_than_it_is_large(tmp_path: Path, contact: str, thickness: str, place: str) -> None:
    """4 m for 4 mm: nothing else of the cloth is as far away, so nothing said so."""
    text = SCENE.replace("position: [-0.2, 0.05, 0]", "position: [2, 1, 0]").replace("4 mm", thickness)
    found = problems(tmp_path, f"{text}contact: {contact}\n")
    assert "m is more than the whole surface measures, 0.566 m" in found[place]


@pytest.mark.parametrize(("thickness", "said"), [("0.15", True), ("0.14", False)])
def test_a_surface_thicker_than_its_edges_is_a_note(tmp_path: Path, thickness: str, said: bool) -> None:
    """Of 141 mm, the diagonals of its cells."""
    text = SCENE.replace("position: [-0.2, 0.05, 0]", "position: [2, 1, 0]")
    (tmp_path / "thick.yaml").write_text(f"{text}contact: {{self: [cloth], thickness: {thickness}}}\n")
    notes = sim.load_scene(tmp_path / "thick.yaml").build().description.notes
    assert any("keeps 150 mm from itself, and none of its edges is longer than 141 mm" in n for n in notes) == said


@pytest.mark.parametrize(("of", "said"), [
    ("shapes.floor.friction", "a key that was left out: give it a value there, `friction: ...`"),
    ("objects.crate.body.shapes.hull.restitution", "a key that was left out: give it a value there, `restitution"),
    ("shapes.floor.frictoin", "known here|did you mean"),
    ("shapes.flor.restitution", r"did you mean `(shapes\.)?floor"),
])  # fmt: skip
def test_a_coefficient_without_a_value_is_asked_for(tmp_path: Path, of: str, said: str) -> None:
    """`shapes.floor.restitution` was proposed for a friction that the scene only had no value for."""
    text = SCENE.replace("friction: 0.3", "restitution: 0.5")
    seek = f"parameters: {{mu: {{of: {of}}}}}\nmarkers: {{m: {{on: crate, where: {{all: true}}}}}}\n"
    told = problems(tmp_path, text + seek + "loss: [{slow: {marker: m, scale: 1 m/s}}]\n")
    assert re.search(said, told["parameters.mu.of"]), told
