"""Errors of rigid joints in result.json, in the report and in the terminal; what a model consists of."""

import json

from tools.scenes.problems import write_scene

import sim
from sim.cli.terminal.result import show_result
from sim.identify.run import REPORT, run_problem
from sim.model.counts import model_counts

CHAIN = """
format: 2
time: {duration: 0.2, fps: 10 Hz, substeps: 1}
objects:
  upper: {body: {shapes: {bar: {box: {half: [0.5, 0.05, 0.05]}, mass: 0.1}}}, position: [0.5, 0, 0]}
  ball: {body: {shapes: {ball: {sphere: {radius: 0.1}, mass: 20}}}, position: [1.1, 0, 0]}
joints:
  hook: {ball: {}, child: upper, at: [0, 0, 0]}
  knot: {ball: {}, parent: upper, child: ball, at: [1, 0, 0]}
"""


def test_joints_that_come_apart_are_told(tmp_path, capsys):
    problem = sim.load_scene(write_scene(tmp_path, CHAIN)).build()
    outcome = run_problem(problem, tmp_path / "run")
    row = json.loads((tmp_path / "run" / "result.json").read_text())["joints"]["main"]
    assert row["worst"] in ("hook", "knot") and row["time"] in (0.1, 0.2)
    assert row["max_distance"] > 0.01 > row["max_angle"] == 0.0 and row["rms_distance"] < row["max_distance"]
    assert any("more substeps" in note for note in outcome.result["notes"])
    page = (tmp_path / "run" / REPORT).read_text()
    assert "Errors of rigid joints" in page and f"<code>{row['worst']}</code>" in page
    show_result(outcome.result, tmp_path)
    said = capsys.readouterr().out
    assert "errors of rigid joints" in said and f"{row['max_distance']:.2g} ({row['rms_distance']:.2g})" in said


def test_what_a_model_consists_of(tmp_path):
    text = (
        CHAIN
        + """  slide: {prismatic: {axis: [1, 0, 0]}, parent: ball, child: sled, at: [2, 0, 0]}
  soft: {fixed: {}, parent: ball, child: sled, at: [2, 0, 0], compliance: 1e-3}
  rod: {distance: {length: 1}, parent: upper, child: sled, at: [2, 0, 0]}
  rope: {distance: {most: 2}, parent: upper, child: sled, at: [2, 0, 0]}
"""
    )
    sled = "objects:\n  sled: {body: {mass: 1, inertia: [1, 1, 1]}, position: [2, 0, 0]}\n"
    wire = "  wire: {rod: {points: [[0, 1, 0], [1, 1, 0]], segments: 3, radius: 1 cm, density: 1, young: 1 MPa}}\n"
    dot = "  dot: {particles: {positions: [[0, 5, 0]], mass: 1}}\n"
    model = sim.load_scene(write_scene(tmp_path, text.replace("objects:\n", sled + wire + dot))).build().model
    free = 3 + 6 * (3 + 3)
    assert model_counts(model) == {"points": 1, "bodies": 6, "rods": 1, "joints": 6, "shapes": 2,
                                   "degrees of freedom": free - 3 - 3 - 5 - 1}  # fmt: skip
