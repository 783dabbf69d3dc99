"""The command where something outside of it goes wrong: places that cannot be written, readers that go away, code that
fails."""

import json
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from tools.command import command
from tools.places import ROOT
from tools.scenes.problems import ROPE, SHEET, write_scene, write_target

from sim.cli import main
from sim.cli.arguments import make_parser
from sim.cli.verbs.run import resume_command

KERNELS = """
import sim

@sim.kernel
def scale(x: sim.array[sim.vec3], s: float, y: sim.array[sim.vec3]):
    i = sim.tid()
    y[i] = s * x[i] * sim.length(x[i])
"""

LOSSES = """
import sim

CALLS = []

@sim.kernel
def lowest(q: sim.array2d[sim.vec3d], loss: sim.array[sim.float64]):
    for i in range(q.shape[1]):
        loss[0] += q[0, i][1]

def low(take):
    loss = sim.zeros(1, sim.float64, requires_grad=True)
    CALLS.append(1)
    sim.launch(lowest, 1, [take.positions] if len(CALLS) < LAST else [], [loss])   # line 14
    return loss
"""


@pytest.fixture
def sheet(tmp_path):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    return write_scene(tmp_path, SHEET)


@pytest.fixture
def rope(tmp_path):
    return write_scene(tmp_path, ROPE)


def test_version(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and re.fullmatch(
        r"simopt (\d\S*|of a source tree .*) \(Python 3\.\S+\)\n", capsys.readouterr().out
    )


@pytest.mark.parametrize("place", ["nope/schema.json", "file/schema.json", "."])
def test_schema_that_cannot_be_written(tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["schema", "--out", place]) == 2
    said = capsys.readouterr()
    assert (
        said.out == ""
        and said.err.startswith("cannot read or write ")
        and place in said.err
        and "Traceback" not in said.err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes that break")
@pytest.mark.parametrize(
    "arguments",
    [["show-ir", "kernels.py:scale", "--stage", "llvm"], ["schema"], ["check", str(ROOT / "scenes" / "chain.yaml")]],
)
def test_a_reader_that_goes_away(tmp_path, arguments):
    (tmp_path / "kernels.py").write_text(KERNELS)
    process = command(*arguments, cwd=tmp_path)
    process.stdout.close()
    errors = process.stderr.read()
    assert (process.wait(timeout=60), errors) == (141, "")


def test_quiet(rope, tmp_path, capsys):
    for arguments in (
        ["run", str(rope), "--out", str(tmp_path / "run")],
        ["check", str(rope)],
        ["export", str(tmp_path / "run"), "--to", "csv", "--out", str(tmp_path)],
        ["view", str(tmp_path / "run"), "--no-browser"],
    ):
        assert main([*arguments, "--quiet"]) == 0
        said = capsys.readouterr()
        assert said.out == said.err == "", arguments
    assert main(["-q", "check", str(tmp_path / "nothing.yaml")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_simulate_searches_nothing_and_shows_the_recording(sheet, tmp_path, capsys):
    scene = write_scene(
        tmp_path,
        SHEET.replace("bounds: [1e-4, 10]", "bounds: [1e-4, 10], start: 0.03")
        + "expect:\n  parameters.stretch: {value: 0.04, within: 1 %}\n  experiments.one.loss: {below: 1e9}\n",
    )
    assert main(["run", str(scene), "--simulate", "--out", str(tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["stopped_because"] == "simulated" and result["iterations"] == 0 and result["loss"]["final"] is None
    assert (
        result["parameters"]["stretch"]["start"] == pytest.approx(0.03)
        and result["parameters"]["stretch"]["final"] is None
    )
    assert [row["path"] for row in result["expect"]] == ["experiments.one.loss"] and result["experiments"]["one"][
        "loss"
    ] > 0
    assert {path.name for path in (tmp_path / "run").iterdir()}.isdisjoint({"state.npz", "log.jsonl"})
    with np.load(tmp_path / "run" / "geometry.npz") as shown:
        assert "target.one.corners" in shown.files
    assert "target corners" in (tmp_path / "run" / "report.html").read_text()
    capsys.readouterr()
    for more in (["--resume", "x"], ["--iterations", "3"]):
        assert main(["run", str(scene), "--simulate", *more]) == 2
        assert "--simulate searches nothing" in capsys.readouterr().err


def test_simulate_without_anything_sought(rope, tmp_path):
    assert main(["run", str(rope), "--simulate", "--out", str(tmp_path / "run"), "-q"]) == 0
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
def test_ctrl_c_says_that_it_saves_and_how_to_go_on(sheet, tmp_path):
    arguments = [
        "run",
        sheet,
        "--set",
        "time.substeps=100",
        "--set",
        "optimize.adam.iterations=500",
        "--out",
        tmp_path / "my run",
    ]
    process = command(*arguments)
    while "   2  loss" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "saving... (Ctrl-C again stops at once)" in errors
    expected = (
        f"continue with: simopt run {sheet} --resume '{tmp_path / 'my run'}' --set time.substeps=100 --set"
        " optimize.adam.iterations=500"
    )
    assert expected in errors


def test_resume_command_has_every_option_that_counts():
    words = [
        "run",
        "s.yaml",
        "--set",
        "a.b=5 mm",
        "--dtype",
        "float32",
        "--seed",
        "3",
        "--threads",
        "2",
        "--device",
        "cpu",
        "--allow-outside",
        "--import",
        "mine",
        "--iterations",
        "9",
        "--out",
        "x",
    ]
    options = make_parser().parse_args(words)
    assert (
        resume_command(options, Path("x"))
        == "simopt run s.yaml --resume x --set 'a.b=5 mm' --import mine --dtype float32 --device cpu --seed 3 "
        "--threads 2 --iterations 9 --allow-outside"
    )


@pytest.mark.parametrize("last, when", [(1, "when it is tried"), (8, "in the middle of the search")])
def test_a_loss_of_ones_own_names_its_line_wherever_it_fails(tmp_path, monkeypatch, capsys, last, when):
    write_target(tmp_path, SHEET)
    name = f"losses_failing_{last}"
    (tmp_path / f"{name}.py").write_text(LOSSES.replace("LAST", str(last)))
    write_scene(tmp_path, SHEET.replace("- {match: corners}", f"- {{match: corners}}\n  - {{custom: {name}:low}}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert main(["--import", name, "run", "scene.yaml", "--out", "run", "-q"]) == 2
    said = capsys.readouterr().err
    assert f"{name}.py:14" in said and f"`{name}:low` fails for the experiment `one`: LaunchError" in said, (when, said)


def test_counts_that_no_memory_holds_are_problems_with_a_line(tmp_path, capsys):
    for edit, path in (
        (("points: 4", "points: 100000000000"), "objects.rope.chain.points"),
        (("points: 4", "points: 2000000000"), "objects.rope.chain.points"),
        (("substeps: 10", "substeps: 10000000000"), "time.substeps"),
    ):
        assert main(["check", str(write_scene(tmp_path, ROPE.replace(*edit)))]) == 2
        said = capsys.readouterr().err
        assert re.search(r"scene.yaml:\d+:\d+: " + re.escape(path) + r": [\d,]+ is above", said), said


@pytest.mark.parametrize(
    "number",
    [
        "1e400",
        "-1e999",
        ".inf",
        "-.INF",
        ".nan",
        ".NaN",
        "1e400 m",
        "-1e400 mm",
        "1e308 km",
        "0x" + "f" * 300,
        "9" * 400,
    ],
)
def test_numbers_that_are_none(tmp_path, capsys, number):
    for old, new in (("to: [1, 0, 0]", f"to: [{number}, 0, 0]"), ("x: [null, 0]", f"x: [null, {number}]")):
        assert main(["check", str(write_scene(tmp_path, ROPE.replace(old, new)))]) == 2
        assert re.search(r"scene.yaml:\d+:\d+: ", capsys.readouterr().err)


def test_values_per_element_that_are_none(tmp_path, capsys):
    text = ROPE.replace("compliance: 1e-3 m/N", "compliance: {file: soft.npy}")
    for content, said in (
        ([1e-3, np.nan, 1e-3], "value 1 is not finite"),
        ([1e-3, np.inf, -np.inf], "as are 2 in all"),
    ):
        np.save(tmp_path / "soft.npy", np.array(content))
        assert main(["check", str(write_scene(tmp_path, text))]) == 2
        shown = capsys.readouterr().err
        assert said in shown and "scene.yaml:11" in shown
    (tmp_path / "soft.npy").write_text("1e-3\n")
    assert main(["check", str(write_scene(tmp_path, text))]) == 2
    assert "no .npy array: it is a text that begins with `1e-3`" in capsys.readouterr().err
