"""Takes that are only planned: rehearsed and designed before there is a recording, and never fitted to nothing."""

from dataclasses import replace

import numpy as np
import pytest
from tools.scenes.problems import HANGING_ROPE

from sim.cli import main
from sim.identify.assess.design import design
from sim.identify.assess.rehearsal import rehearse
from sim.identify.data.experiments import NothingRecorded
from sim.identify.run import run_problem
from sim.scene import load_scene
from sim.schema.errors import SceneError

PLAN = (
    """
format: 2
name: plan
world: {gravity: [0, -9.81, 0]}
time: {duration: 1, fps: 50, substeps: 10}
solver: {xpbd: {}}
"""
    + HANGING_ROPE
    + """experiments:
  hang: {target: {planned: {rate: 25 Hz}, noise: 1 mm}}
  pull: {use: predict, set: {objects.rope.velocity: [0, -1, 0]}, target: {planned: {markers: [lower]}, noise: 2 mm}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-5, 1]}
  damping: {of: objects.rope.chain.material.distance.damping, transform: log, bounds: [1e-5, 1]}
loss:
  - {match: lower}
  - {match: upper}
"""
)


def plan(folder, *changes):
    text = PLAN
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def recorded(problem):
    """The problem with what its planned takes would show, exactly."""
    made, out = problem.simulate(), []
    for e in problem.experiments:
        targets = {}
        lead = 0 if e.registration is None else e.registration.lead
        frames = np.maximum(np.arange(1, e.schedule.frames + 1) - lead, 0)  # before its start it was there, too
        for name, t in e.targets.items():
            path = np.concatenate([made[e.name].start[None], made[e.name].positions])
            seen = problem.markers[name].at(path[frames])
            targets[name] = replace(t, positions=np.where(t.seen[..., None], seen, np.nan), planned=False)
        out.append(replace(e, targets=targets))
    return replace(problem, experiments=out)


@pytest.mark.parametrize("align", ["", ", align: {time: true, frame: true}"])
def test_a_design_is_that_of_recordings_that_the_scene_makes(tmp_path, align):
    problem = load_scene(plan(tmp_path, ("noise: 1 mm", "noise: 1 mm" + align))).build()
    planned, made = design(problem), design(recorded(problem))
    assert planned.errors == pytest.approx(made.errors, rel=1e-6)
    assert list(planned.another) == ["hang", "pull"]
    for name, factors in planned.another.items():
        assert factors == pytest.approx(made.another[name], rel=1e-6)
    assert len(planned.without) == 4


def test_a_camera_sees_its_own_frames(tmp_path):
    problem = load_scene(plan(tmp_path, ("{rate: 25 Hz}", "{rate: 25 Hz}, duration: 0.5 s"))).build()
    hang, pull = problem.experiments
    assert np.flatnonzero(hang.targets["upper"].seen[:, 0]).tolist() == list(range(1, 25, 2))
    assert pull.targets["lower"].seen.all() and list(pull.targets) == ["lower"]


def test_a_rehearsal_finds_the_truth(tmp_path):
    problem = load_scene(plan(tmp_path, ("noise: 1 mm", "noise: {estimated: axes, guess: 1 mm}"))).build()
    found = rehearse(problem, takes=8)
    assert found.failed == 0 and all(abs(row.bias) < 2 for row in found.rows)
    assert np.abs(found.estimates - problem.start).max() < 0.1
    assert problem.experiments[0].planned


def test_nothing_is_fitted_to_what_is_not_there(tmp_path, capsys):
    path = plan(tmp_path)
    problem = load_scene(path).build()
    for compare in (problem.value, problem.value_and_grad):
        with pytest.raises(NothingRecorded, match="experiments.hang.target: the take is only `planned`"):
            compare(problem.start)
    with pytest.raises(NothingRecorded):
        run_problem(problem, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for verb in ("run", "gradcheck"):
        assert main([verb, str(path)]) == 2
        assert "`simopt rehearse` and `simopt design`" in capsys.readouterr().err
    simulated = run_problem(problem, tmp_path / "simulated", search=False)
    assert simulated.status == 0 and simulated.result["experiments"]["hang"]["residuals"] == {}


def test_a_planned_take_may_stand_beside_recorded_ones(tmp_path):
    problem = recorded(load_scene(plan(tmp_path)).build())
    mixed = replace(problem, experiments=[problem.experiments[0], load_scene(plan(tmp_path)).build().experiments[1]])
    done = run_problem(mixed, tmp_path / "run", iterations=1)
    assert done.result["parameters"]["damping"]["standard_error"] > 0
    assert set(design(mixed).another) == {"hang", "pull"}


@pytest.mark.parametrize("before, after, told", [
    ("rate: 25 Hz", "rate: 30 Hz", "a camera of 30 Hz has frames between those of 50 Hz"),
    ("rate: 25 Hz", "rate: 0.5 Hz", "no frame of the camera lies in the experiment"),
    ("planned: {rate: 25 Hz}", "planned: {}, file: a.csv", "`planned` and `file` exclude each other"),
    ("planned: {rate: 25 Hz}, ", "", "missing key: one of `file`, `planned`"),
    ("planned: {rate: 25 Hz}", "planned: {}, start: frame 3", "`start` belongs to `file`"),
    ("planned: {rate: 25 Hz}", "planned: {}, markers: {upper: [0]}", "`markers` belongs to `file`"),
    ("planned: {rate: 25 Hz}", "planned: {markers: [lowr]}", "unknown marker `lowr`"),
    ("planned: {rate: 25 Hz}", "planned: {markers: [lower]}", "name them in `experiments.hang.target.planned.markers`"),
    ("planned: {rate: 25 Hz}, noise: 1 mm", "planned: {}, noise: {each: [1 mm]}", "1 noises of 4 markers"),
    ("planned: {rate: 25 Hz}, noise: 1 mm", "planned: {rate: 2 Hz}, noise: estimated",
     "would be estimated from 12 numbers"),
])  # fmt: skip
def test_plans_that_are_none(tmp_path, before, after, told):
    with pytest.raises(SceneError) as error:
        load_scene(plan(tmp_path, (before, after))).build()
    assert told in str(error.value)
