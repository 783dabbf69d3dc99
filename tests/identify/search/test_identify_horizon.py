"""A growing horizon: it finds the truth where the whole recording has other minima; resumed to the bit; what it leaves
out."""

import json
import re

import numpy as np
import pytest
from tools.scenes.identification import GROWING, TRUTH, spring
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.identify.data.experiments import Experiment, Target, TimeGrid
from sim.identify.losses.terms import Match, Prior, Reach, Slow
from sim.identify.search.horizon import Horizon
from sim.scene import SceneError


def test_the_truth_where_the_whole_recording_leads_elsewhere(tmp_path):
    at_once = spring(tmp_path).optimize()
    assert at_once.parameters["compliance"] > 1.4 * TRUTH and at_once.loss > 10  # another minimum
    grown = spring(tmp_path, GROWING).optimize()
    assert grown.parameters["compliance"] == pytest.approx(TRUTH, rel=0.02) and grown.loss < 1.3
    assert grown.initial_loss == at_once.initial_loss  # of the start, on everything
    first, _, last = grown.stages
    assert (first.label, last.label) == ("10 %", "all") and last.loss == grown.loss
    assert first.initial_loss > 10 > first.loss


def test_resumed_on_any_horizon_to_the_bit(tmp_path):
    log, states = [], []
    whole = spring(tmp_path, GROWING).optimize(log=log.append, save=states.append)
    assert [entry["iteration"] for entry in log] == list(range(len(log)))
    horizons = [entry["horizon"] for entry in log]
    assert list(dict.fromkeys(horizons)) == ["10 %", "30 %", "all"]
    for k in (
        horizons.index("10 %") + 1,
        horizons.index("30 %") - 1,
        horizons.index("30 %"),
        horizons.index("all") + 1,
    ):
        again = []
        resumed = spring(tmp_path, GROWING).optimize(log=again.append, resume_state=states[k])
        assert [(e["iteration"], e["loss"], e["evaluations"], e["horizon"]) for e in again] == [
            (e["iteration"], e["loss"], e["evaluations"], e["horizon"]) for e in log[k + 1 :]
        ]
        assert resumed.search.x.tobytes() == whole.search.x.tobytes() and resumed.stages == whole.stages


def test_interrupted_and_resumed_by_the_command(tmp_path, capsys):
    spring(tmp_path, GROWING)
    scene, out = str(tmp_path / "scene.yaml"), str(tmp_path / "run")
    assert main(["run", scene, "--out", out, "--iterations", "5"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    rows = result["horizons"]
    assert [row["horizon"] for row in rows] == ["10 %", "30 %", "all"] and result["iterations"] == rows[-1]["iteration"]
    assert rows[-1]["stopped_because"] == "iterations"
    shown = capsys.readouterr().out
    assert "growing horizons" in (tmp_path / "run" / "report.html").read_text() and "growing horizons" in shown
    assert "horizon 10 %  loss" in shown and "all iterations were used up" in shown
    assert main(["run", scene, "--resume", out, "--iterations", "30"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert len(result["horizons"]) == 3 and result["horizons"][:2] == rows[:2]
    assert result["horizons"][2]["stopped_because"] in ("gradient", "line_search")
    assert result["parameters"]["compliance"]["final"] == pytest.approx(TRUTH, rel=0.02)


def test_interrupted_on_a_short_horizon(tmp_path):
    problem = spring(tmp_path, GROWING)
    log = []
    found = problem.optimize(log=log.append, should_stop=lambda: len(log) == 3)
    assert found.search.stopped_because == "interrupted" and [stage.label for stage in found.stages] == ["10 %"]
    assert (
        found.loss == problem.value(found.search.x) != found.search.loss
    )  # the loss of a result is counted on everything


@pytest.mark.parametrize(
    ("horizon", "frames", "label"),
    [
        (Horizon(), 50, "all"),
        (Horizon(0.1), 5, "10 %"),
        (Horizon(0.11), 6, "11 %"),
        (Horizon(1e-6), 1, "0.0001 %"),
        (Horizon(time=0.4), 10, "0.4 s"),
        (Horizon(time=0.01), 1, "0.01 s"),
        (Horizon(time=9.0), 50, "9 s"),
    ],
)
def test_frames_and_labels(horizon, frames, label):
    assert horizon.frames(TimeGrid(50, 25.0, 4)) == frames and horizon.label == label


def test_what_lies_within():
    seen = np.zeros((10, 2, 3))
    seen[:4, 0] = np.nan
    seen[:, 1] = np.nan
    e = Experiment("one", TimeGrid(10, 10.0, 1), targets={"m": Target(seen, 1e-3)})
    other = Experiment("two", TimeGrid(10, 10.0, 1), targets={"m": Target(np.zeros((10, 2, 3)), 1e-3)})

    def names(term, fraction):
        return [t.experiments for t in Horizon(fraction).terms([term], [e, other])]

    match = Match("match", markers="m")
    assert names(match, 0.4) == [("two",)] and names(match, 0.5) == [("one", "two")]
    assert names(Match("match", markers="m", compare="velocity"), 0.5) == [
        ("two",)
    ]  # a step needs two frames that are seen
    assert names(Match("match", markers="m", at="last"), 0.9) == [] and names(
        Match("match", markers="m", at="last"), 1.0
    ) == [("one", "two")]
    assert names(Match("match", markers="m", at=(0.7, 0.9)), 0.6) == []
    for goal in (Reach("goal", markers="m", at=0.5), Slow("goal", markers="m", at=0.5)):
        assert names(goal, 0.4) == [] and names(goal, 0.5) == [("one", "two")]
    assert names(Reach("goal", markers="m"), 0.9) == []
    prior = Prior("prior", parameter="p", sd=1.0)
    assert Horizon(0.1).terms([prior], [e]) == [prior]


@pytest.mark.parametrize(
    ("horizon", "said"),
    [
        ("[0.1, 0.3]", "the last horizon leaves out a part of the recordings"),
        ("[0.3, 0.3, all]", "the horizon 30 % is not longer than the one before"),
        ("[0.5, 50 ms, all]", "the horizon 0.05 s is not longer than the one before"),
        ("[1.5, all]", "1.5 is no fraction of the duration"),
        ("[-1 s, all]", "-1 s is not positive"),
        ("[5 mm, all]", "expected a fraction of the duration (0.1, 10 %), a time with its unit (0.2 s), or `all`"),
        ("[soon, all]", "expected a fraction of the duration"),
        ("0.1", "expected a list"),
    ],
)
def test_horizons_that_cannot_be(tmp_path, horizon, said):
    write_target(tmp_path, SHEET)
    with pytest.raises(SceneError, match=re.escape(said)):
        sim.load_scene(write_scene(tmp_path, SHEET + f"  horizon: {horizon}\n")).build()


def test_a_horizon_without_anything_to_compare(tmp_path):
    write_target(tmp_path, SHEET)
    text = SHEET.replace("{match: corners}", "{match: corners, at: last}") + "  horizon: [50 %, all]\n"
    with pytest.raises(SceneError, match="nothing that the loss compares lies within the horizon 50 %"):
        sim.load_scene(write_scene(tmp_path, text)).build()


def test_times_and_percent_survive_the_resolved_scene(tmp_path):
    write_target(tmp_path, SHEET)
    scene = sim.load_scene(write_scene(tmp_path, SHEET + "  horizon: [25 %, 0.1 s, all]\n"))
    assert scene.get("optimize.horizon") == [0.25, {"time": 0.1}, 1.0]
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(scene.resolved_yaml())
    assert sim.load_scene(resolved).data == scene.data
    assert scene.build().method.horizons == (Horizon(0.25), Horizon(time=0.1), Horizon())
