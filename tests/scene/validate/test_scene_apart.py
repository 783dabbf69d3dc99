"""What collides begins apart in every experiment; where a default lies that none uses does not count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sim
from sim.identify.report.notes import inside_notes
from sim.schema.errors import SceneError

SCENE = """\
format: 2
name: apart
time: {duration: 0.1, fps: 10, substeps: 10}
objects:
  crate: {body: {shapes: {hull: {box: {half: [0.1, 0.05, 0.08]}, density: 400}}}, position: [0, 0, 0]}
  cloth:
    cloth: {grid: {size: [0.4, 0.4], cells: [4, 4]}, density: 0.2, thickness: 4 mm, material: {}}
    position: [2, 1, 0]
shapes:
  floor: {plane: {normal: [0, 1, 0]}}
  ball: {sphere: {center: [2.2, 0.5, 0.2], radius: 0.1}, touches: [cloth]}
experiments:
  one: {set: {objects.crate.position: [0, ONE, 0]}}
  two: {set: {objects.crate.position: [0, TWO, 0], objects.cloth.position: CLOTH}}
"""


def scene(folder: Path, one: float = 0.05, two: float = 0.3, cloth: str = "[2, 1, 0]") -> sim.scene.Document:
    """crate's heights and the cloth's place in experiments; the crate's own place is in the floor."""
    text = SCENE.replace("ONE", str(one)).replace("TWO", str(two)).replace("CLOTH", cloth)
    (folder / "apart.yaml").write_text(text)
    return sim.load_scene(folder / "apart.yaml")


def problems(folder: Path, **places: float | str) -> dict[str, str]:
    """Path -> what is wrong."""
    with pytest.raises(SceneError) as error:
        scene(folder, **places).build()
    return {p.path: f"{p.what} {p.hint}" for p in error.value.problems}


def test_a_default_that_none_uses_may_overlap(tmp_path: Path) -> None:
    """And the model keeps it."""
    problem = scene(tmp_path).build()
    assert problem.model.state().body_q.numpy()[0][1] == 0.0


def test_every_start_of_its_own_is_looked_at(tmp_path: Path) -> None:
    """Shapes of bodies in the floor, particles in shapes of bodies and of the world: each at its experiment."""
    found = problems(tmp_path, two=-0.2)
    assert list(found) == ["experiments.two.set"]
    assert "crate.hull and floor begin 0.25 m inside of each other" in found["experiments.two.set"]
    found = problems(tmp_path, two=0.3, cloth="[-0.2, 0.3, 0]")
    assert "points of `cloth` start inside the shape `crate.hull`" in found["experiments.two.set"]
    found = problems(tmp_path, cloth="[2, 0.5, 0.2]")
    assert "points of `cloth` start inside the shape `ball`" in found["experiments.two.set"]


def test_where_no_experiment_places_it_the_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "apart.yaml").write_text(SCENE[: SCENE.index("experiments:")])
    with pytest.raises(SceneError) as error:
        sim.load_scene(tmp_path / "apart.yaml").build()
    assert [p.path for p in error.value.problems] == ["objects.crate"]


def test_a_builder_looks_unless_things_are_placed_later() -> None:
    builder = sim.ModelBuilder()
    body = builder.add_body([0, -0.05, 0], label="b")
    builder.add_shape_sphere(body, radius=0.1, label="hull", cfg=builder.ShapeConfig(density=400))
    builder.add_ground_plane(0.0, label="floor")
    model = builder.assembled()
    with pytest.raises(sim.ModelError, match=r"b.hull and floor begin 0.15 m inside"):
        model.check_start()
    model["b.position"].assign([[0, 0.2, 0]])
    model.check_start()


FALL = """\
format: 2
name: fall
time: {duration: 0.1, fps: 10, substeps: 10}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [0.4, 0, 0], points: 5, mass: 0.1, material: {distance: {compliance: 0.01}}}
    position: [0, 0.05, 0]
shapes:
  floor: {plane: {normal: [0, 1, 0]}}
markers:
  all: {on: rope, where: {x: [null, 1]}}
parameters:
  height: {of: objects.rope.position.1, bounds: [-0.2, 0.2], start: 0.05}
loss:
  - {reach: {marker: all, point: [0.2, -0.1, 0], at: last, scale: 1 cm}}
"""


def test_a_search_that_ends_inside_of_a_shape_says_so(tmp_path: Path) -> None:
    (tmp_path / "fall.yaml").write_text(FALL)
    problem = sim.load_scene(tmp_path / "fall.yaml").build()
    assert problem.inside() == {} and inside_notes(problem, problem.start) == []
    (note,) = inside_notes(problem, problem.space.pack({"height": np.array(-0.1)}))
    assert "with the values found, 5 points of `rope` start inside the shape `floor`, at most 0.1 m deep" in note
    assert problem.model["rope.position"].numpy()[0][1] == pytest.approx(0.05)


def test_all_pairs_are_told_at_once(tmp_path: Path) -> None:
    """A scene with three balls in a row, each in the next, and the first in the floor."""
    rows = "\n".join(
        f"  b{k}: {{body: {{shapes: {{s: {{sphere: {{radius: 3 cm}}, density: 100}}}}}}, position: [{x}, {y}, 0]}}"
        for k, (x, y) in enumerate([(0.0, 0.02), (0.04, 0.04), (0.08, 0.05)])
    )
    text = f"format: 2\ntime: {{duration: 0.1, fps: 10, substeps: 10}}\nobjects:\n{rows}\n"
    (tmp_path / "row.yaml").write_text(text + "shapes:\n  floor: {plane: {normal: [0, 1, 0]}}\n")
    with pytest.raises(SceneError) as error:
        sim.load_scene(tmp_path / "row.yaml").build()
    told = [(p.path, p.what.partition(" begin ")[0]) for p in error.value.problems]
    assert told == [
        ("objects.b0", "b0.s and b1.s"), ("objects.b0", "b0.s and floor"), ("objects.b1", "b1.s and b2.s")
    ]  # fmt: skip
    builder = sim.ModelBuilder()
    for k in range(3):
        body = builder.add_body([0.04 * k, 0, 0], label=f"b{k}")
        builder.add_shape_sphere(body, radius=0.03, label="s", cfg=sim.ModelBuilder.ShapeConfig(density=100.0))
    with pytest.raises(sim.ModelError, match=r"(?s)b0.s and b1.s begin .* of the other\nb1.s and b2.s begin"):
        builder.finalize()


@pytest.mark.parametrize("how", ["mass: 0", "held: true"])
def test_what_no_step_moves_may_stand_in_the_floor(tmp_path: Path, how: str) -> None:
    """A ramp with its foot in the floor, and two that cross; what moves may still not begin in it."""
    ramp = f"{{body: {{{how}, shapes: {{r: {{box: {{half: [0.3, 0.05, 0.2]}}}}}}}}, turn: [0, 0, ANGLE]}}"
    ball = "{body: {shapes: {s: {sphere: {radius: 3 cm}, density: 100}}}, position: [0, HEIGHT, 0]}"
    objects = f"objects:\n  up: {ramp}\n  down: {ramp}\n  ball: {ball}\n".replace("ANGLE", "0.3", 1)
    text = "format: 2\ntime: {duration: 0.1, fps: 10, substeps: 10}\n" + objects.replace("ANGLE", "-0.3")
    text += "shapes:\n  floor: {plane: {normal: [0, 1, 0]}}\n"
    (tmp_path / "ramps.yaml").write_text(text.replace("HEIGHT", "0.5"))
    sim.load_scene(tmp_path / "ramps.yaml").build()
    (tmp_path / "ramps.yaml").write_text(text.replace("HEIGHT", "0.07"))
    with pytest.raises(SceneError, match=r"ball.s begin"):
        sim.load_scene(tmp_path / "ramps.yaml").build()
