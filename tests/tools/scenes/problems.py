"""Small scenes for the tests of problems and of the command."""

from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SHEET = """\
format: 2
name: sheet
time: {duration: 0.2, fps: 20, substeps: 5}
objects:
  sheet:
    cloth:
      grid: {size: [1, 1], cells: [3, 3]}
      density: 0.2
      material:
        distance: {compliance: 0.05, damping: 5 ms}
        bend: {compliance: 33.333333333333336}
shapes:
  ball: {sphere: {center: [0.36, 0.17, 0.01], radius: 0.15}}
attachments:
  top:
    on: sheet
    where: {y: [0.999, null]}
    motion:
      - {swing: [0, 0, -0.4], frequency: 2 Hz}
markers:
  corners: {on: sheet, farthest: 4}
experiments:
  one: {target: {file: target.npz, key: corners, noise: 10 mm}}
parameters:
  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}
loss:
  - {match: corners}
optimize:
  lbfgs: {iterations: 4}
"""

HANGING_ROPE = """\
objects:
  rope:
    chain: {from: [0, 0, 0], to: [0, -0.5, 0], points: 5, mass: 200 g,
            material: {distance: {compliance: 0.02, damping: 50 ms}}}
attachments:
  top: {on: rope, where: {y: [-0.001, null]}}
markers:
  upper: {on: rope, where: {y: [-0.3, -0.1]}}
  lower: {on: rope, where: {y: [null, -0.3]}}
"""
"""Part of a scene: a rope on a nail, with two sets of two markers."""

ROPE = """\
format: 1
name: rope
time: {duration: 0.2, fps: 20, substeps: 10}
objects:
  rope:
    chain:
      from: [0, 0, 0]
      to: [1, 0, 0]
      points: 4
      mass: 0.1
      material: {distance: {compliance: 1e-3 m/N, damping: 2 ms}}
attachments:
  hold: {on: rope, where: {x: [null, 0]}}
"""


def write_scene(folder: Path, text: str, **edits: str) -> Path:
    """Writes scene.yaml; each edit is `old=new` applied to the text, and has to apply."""
    for old, new in edits.items():
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "scene.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def write_target(
    folder: Path, text: str, key: str = "corners", file: str = "target.npz", noise: float = 0.0, overrides=()
) -> None:
    """Simulates the scene and records its markers as the target that the scene names."""
    path = folder / "truth.yaml"
    path.write_text(text, encoding="utf-8")
    scene = sim.load_scene(path, overrides=overrides).without("experiments", "parameters", "loss", "expect")
    problem = scene.build(dtype=sim.float64)
    made = problem.simulate()["main"]
    seen = made.positions[:, problem.markers[key].points]
    seen = seen + noise * np.random.default_rng(0).normal(size=seen.shape)
    write_recording(folder / file, **{key: Recording(seen, made.times)})


def sheet(folder: Path, text: str = SHEET, dtype=sim.float64, overrides=()):
    """The problem of the sheet, whose target has a stretch of 0.02."""
    write_target(folder, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    return sim.load_scene(write_scene(folder, text), overrides=overrides).build(dtype=dtype)
