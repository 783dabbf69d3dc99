"""The command: run folders, results, exit status, resuming, interruption."""

import json
import re
import signal
import sys
import time

import numpy as np
import pytest
from tools.command import command
from tools.places import ROOT
from tools.scenes.problems import ROPE, SHEET, write_scene, write_target

from sim.cli import main
from sim.cli.terminal import watch

FILES = {
    "scene.resolved.yaml",
    "log.jsonl",
    "state.npz",
    "result.json",
    "trajectory.npz",
    "geometry.npz",
    "report.html",
}


def files(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def sheet(tmp_path):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    return write_scene(tmp_path, SHEET)


def test_chain_meets_what_it_expects(tmp_path, capsys):
    assert main(["run", str(ROOT / "scenes" / "chain.yaml"), "--out", str(tmp_path / "run")]) == 0
    assert files(tmp_path / "run") == FILES
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["parameters"]["compliance"]["final"] == pytest.approx(0.01, rel=1e-4)
    assert result["expect"] == [
        {
            "path": "parameters.compliance",
            "want": "0.01 within 0.01 %",
            "ok": True,
            "got": result["parameters"]["compliance"]["final"],
        }
    ]
    assert "parameters.compliance" in capsys.readouterr().out


def test_cloth_meets_what_it_expects(tmp_path):
    assert main(["run", str(ROOT / "scenes" / "cloth.yaml"), "--out", str(tmp_path / "run"), "--json"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert len(result["expect"]) == 3 and all(row["ok"] for row in result["expect"])
    assert result["parameters"]["young"]["start"] == pytest.approx(6e4)
    for row in result["parameters"].values():  # the truth is that of finer steps, and within what is told of the steps
        error = {cause: abs(e) / row["final"] for cause, e in row["numerical_error"].items()}
        assert error.keys() == {"step", "iterations"} and max(error.values()) < 0.01


def test_run_folder(sheet, tmp_path, capsys):
    assert main(["run", str(sheet), "--out", str(tmp_path / "run"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert shown == {**result, "folder": str(tmp_path / "run")}
    assert {
        "parameters",
        "loss",
        "experiments",
        "expect",
        "iterations",
        "stopped_because",
        "wall_s",
        "peak_memory_mb",
        "device",
        "dtype",
        "versions",
    } <= result.keys()
    assert result["experiments"]["one"]["use"] == "fit" and result["dtype"] == "float64"
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [entry["iteration"] for entry in log] == list(range(result["iterations"] + 1))
    assert log[0]["loss"] == result["loss"]["initial"] and min(e["loss"] for e in log) == result["loss"]["final"]
    with np.load(tmp_path / "run" / "trajectory.npz") as recorded:
        assert recorded["one"].shape == (4, 16, 3) and recorded["one_time"].tolist() == [0.05, 0.1, 0.15, 0.2]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "stretch" in page and not re.search(r"(src|href)=.https?:", page)


@pytest.mark.parametrize(("slow", "told"), [(0.0, True), (1e9, False)])
def test_a_slow_run_says_what_it_does_after_its_search(sheet, tmp_path, capsys, monkeypatch, slow, told):
    """The errors of a cloth took twice as long as its search, without a word."""
    monkeypatch.setattr(watch, "SLOW", slow)
    main(["run", str(sheet), "--out", str(tmp_path / "run"), "--iterations", "1"])
    shown = capsys.readouterr().out
    assert ("now: standard errors\n" in shown) == ("now: numerical error by step, iterations, mesh\n" in shown) == told


def test_resolved_scene_gives_the_same_run(sheet, tmp_path, capsys):
    main(["run", str(sheet), "--out", str(tmp_path / "run"), "--iterations", "1"])
    (tmp_path / "again.yaml").write_text((tmp_path / "run" / "scene.resolved.yaml").read_text())
    main(["run", str(tmp_path / "again.yaml"), "--out", str(tmp_path / "second"), "--iterations", "1"])
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("run", "second")]
    for first, second in zip(*([json.loads(line) for line in log] for log in logs), strict=True):
        assert {**first, "wall_s": 0} == {**second, "wall_s": 0}


def test_resume_continues_to_the_bit(sheet, tmp_path, capsys):
    assert main(["run", str(sheet), "--out", str(tmp_path / "whole"), "--iterations", "3"]) == 0
    assert main(["run", str(sheet), "--out", str(tmp_path / "parts"), "--iterations", "1"]) == 0
    assert main(["run", str(sheet), "--resume", str(tmp_path / "parts"), "--iterations", "3"]) == 0
    for name in ("log.jsonl",):
        entries = [
            [{**json.loads(line), "wall_s": 0} for line in (tmp_path / run / name).read_text().splitlines()]
            for run in ("whole", "parts")
        ]
        assert entries[0] == entries[1] and len(entries[0]) == 4
    results = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("whole", "parts")]
    for key in ("parameters", "loss", "experiments", "iterations", "evaluations"):
        assert results[0][key] == results[1][key]


def test_resume_of_another_scene_is_refused_with_the_difference(sheet, tmp_path, capsys):
    main(["run", str(sheet), "--out", str(tmp_path / "run"), "--iterations", "1"])
    before = {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")}
    for extra, shown in (
        (["--set", "time.substeps=6"], ["-  substeps: 5", "+  substeps: 6"]),
        (["--dtype", "float32"], ["-dtype: float64", "+dtype: float32"]),
    ):
        assert main(["run", str(sheet), "--resume", str(tmp_path / "run"), *extra]) == 2
        said = capsys.readouterr().err
        assert all(text in said for text in shown), said
    assert before == {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")}


def test_scene_without_parameters_is_simulated(tmp_path, capsys):
    scene = write_scene(tmp_path, ROPE)
    assert main(["run", str(scene), "--out", str(tmp_path / "run"), "--set", "output.record.every=2"]) == 0
    assert files(tmp_path / "run") == FILES - {"log.jsonl", "state.npz"}
    with np.load(tmp_path / "run" / "trajectory.npz") as recorded:
        assert recorded["main"].shape == (2, 4, 3) and recorded["main_time"] == pytest.approx([0.1, 0.2])
    assert json.loads((tmp_path / "run" / "result.json").read_text())["stopped_because"] == "simulated"


def test_expectation_that_is_not_met(sheet, tmp_path, capsys):
    text = SHEET + "expect:\n  parameters.stretch: {value: 0.04, within: 1 %}\n  loss.final: {below: 1}\n"
    assert main(["run", str(write_scene(tmp_path, text)), "--out", str(tmp_path / "run")]) == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["ok"] for row in result["expect"]] == [False, True]
    assert "NOT MET" in capsys.readouterr().out


def test_breakdown_is_status_1_and_says_where(sheet, tmp_path, capsys):
    text = SHEET.replace(
        "stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}",
        "v: {of: objects.sheet.velocity, start: [0, 1e30, 0]}",
    )
    line = ["run", str(write_scene(tmp_path, text)), "--dtype", "float32", "--out", str(tmp_path / "run")]
    assert main(line) == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["stopped_because"] == "non_finite" and "in step 1 of 20" in result["error"]


@pytest.mark.parametrize("arguments, said", [
    (["run", "nothing.yaml"], "cannot read `nothing.yaml`"),
    (["run", "scene.yaml", "--set", "time.substep=3"], "did you mean `time.substeps`?"),
    (["run", "scene.yaml", "--set", "objects.sheet.cloth.density=-1"], "not positive"),
    (["run", "scene.yaml", "--device", "cuda"], "cuda"),
    (["run", "scene.yaml", "--out", "scene.yaml/run"], "cannot write into|is a file"),
    (["run", "scene.yaml", "--resume", "runs/none"], "there is no run folder"),
    (["--import", "no_such_module", "check", "scene.yaml"], "no such module"),
    (["gradcheck", "rope.yaml"], "no `parameters`"),
    (["show-ir", "kernels.py:nothing"], "no file kernels.py"),
    (["show-ir", "kernel"], "FILE:KERNEL"),
    (["compare", "runs/a"], "two runs or more"),
    (["check", "take.csv"], "simopt new KIND --from take.csv"),
])  # fmt: skip
def test_bad_input_is_status_2_and_writes_nothing(sheet, tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rope.yaml").write_text(ROPE)
    (tmp_path / "take.csv").write_text("time,a.x,a.y,a.z\n0,0,0,0\n")
    before = files(tmp_path)
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert re.search(said, output.err) and output.out == ""
    assert files(tmp_path) == before


@pytest.mark.parametrize("dtype", ["float16", "int32", "double precision"])
def test_a_precision_that_no_solver_has(sheet, capsys, dtype):
    with pytest.raises(SystemExit, match="2"):
        main(["run", str(sheet), "--dtype", dtype])
    assert "choose float32 or float64" in capsys.readouterr().err


def test_problems_as_json(sheet, tmp_path, capsys):
    assert main(["check", str(write_scene(tmp_path, SHEET.replace("density: 0.2", "densty: 0.2"))), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [p["path"] for p in problems][0].startswith("objects.sheet.cloth")
    assert "density" in problems[0]["hint"] and "scene.yaml:8" in problems[0]["where"]


def test_folder_that_holds_a_run_is_left_alone(sheet, tmp_path, capsys):
    assert main(["run", str(sheet), "--out", str(tmp_path / "run"), "--iterations", "1"]) == 0
    before = (tmp_path / "run" / "result.json").read_bytes()
    assert main(["run", str(sheet), "--out", str(tmp_path / "run")]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def wait_for_line(process, text, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stdout.readline()
        if text in line:
            return
    process.kill()
    raise AssertionError(f"`{text}` was not printed within {seconds} s")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
def test_ctrl_c_saves_and_the_run_can_be_resumed(sheet, tmp_path, capsys):
    slow = [str(sheet), "--set", "time.substeps=100", "--set", "optimize.adam.iterations=500"]
    process = command("run", *slow, "--out", tmp_path / "run")
    wait_for_line(process, "   2  loss")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert files(tmp_path / "run") == FILES
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["stopped_because"] == "interrupted" and result["iterations"] >= 2
    count = result["iterations"] + 1
    assert main(["run", *slow, "--resume", str(tmp_path / "run"), "--iterations", str(count)]) == 0
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == count + 1


def test_killed_run_loses_at_most_one_iteration(sheet, tmp_path, capsys):
    slow = [str(sheet), "--set", "time.substeps=100", "--set", "optimize.adam.iterations=500"]
    process = command("run", *slow, "--out", tmp_path / "run")
    wait_for_line(process, "   2  loss")
    process.kill()
    process.communicate(timeout=60)
    done = len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) - 1
    assert main(["run", *slow, "--resume", str(tmp_path / "run"), "--iterations", str(done + 1)]) == 0
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [entry["iteration"] for entry in log] == list(range(done + 2))
