"""Which method a search takes where nobody says, and that Gauss-Newton deserves to be it."""

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

import sim
from sim.core.optim.registry import MINIMIZERS
from sim.identify.losses.jacobian import linearise
from sim.identify.losses.terms import Custom, Match
from sim.identify.search.method import MOST_LINEARISED, Method

UNNAMED = SHEET.replace("optimize:\n  lbfgs: {iterations: 4}\n", "")
WITH_DAMPING = UNNAMED.replace(
    "loss:",
    "  damping: {of: objects.sheet.cloth.material.distance.damping, transform: log, bounds: [0.1 ms, 1]}\nloss:",
)


@pytest.mark.parametrize(
    ("terms", "size", "name"),
    [
        ([Match("match")], 1, "gauss_newton"),
        ([Match("match")], MOST_LINEARISED, "gauss_newton"),
        ([Match("match")], MOST_LINEARISED + 1, "lbfgs"),
        ([Match("match"), Custom("own")], 1, "lbfgs"),
    ],
)
def test_the_default(terms, size, name):
    chosen = Method().chosen(terms, size)
    assert chosen.name == name and chosen.limit == MINIMIZERS[name].iterations
    for other in MINIMIZERS:
        assert Method(other, 7).chosen(terms, size) == Method(other, 7)


def test_of_a_scene_and_in_what_its_run_keeps(tmp_path):
    problem = sheet(tmp_path, UNNAMED)
    assert problem.method.name == "gauss_newton" and "gauss_newton:\n    iterations: 30" in problem.description.resolved
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(problem.description.resolved)
    assert sim.load_scene(resolved).build().description.resolved == problem.description.resolved
    each = UNNAMED.replace("transform: log", "per: element, transform: log")
    assert sheet(tmp_path, each).method.name == "lbfgs"
    assert sheet(tmp_path, SHEET).method.name == "lbfgs"
    assert sheet(tmp_path, UNNAMED + "optimize: {starts: 2, adam: {}}\n").method.name == "adam"


@pytest.mark.parametrize("scene", ["chain", "cloth", "throw"])
def test_shipped_scenes_leave_it_to_the_default(scene):
    assert sim.load_scene(ROOT / "scenes" / f"{scene}.yaml").build().method.name == "gauss_newton"


def test_a_damping_that_the_loss_hardly_feels(tmp_path):
    """Stiffness and damping of one take: the default finds both."""
    write_target(
        tmp_path,
        SHEET,
        overrides={
            "objects.sheet.cloth.material.distance.compliance": 0.02,
            "objects.sheet.cloth.material.distance.damping": 0.02,
        },
    )
    problem = sim.load_scene(write_scene(tmp_path, WITH_DAMPING)).build()
    found = problem.optimize()
    assert found.parameters["stretch"] == pytest.approx(0.02, rel=1e-3)
    assert found.parameters["damping"] == pytest.approx(0.02, rel=1e-2)


def test_from_where_every_residual_is_beyond_huber(tmp_path):
    """The second derivative of such a loss is zero all over: a step by it would be none."""
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    text = UNNAMED.replace("{match: corners}", "{match: corners, at: last, norm: {huber: 0.001}}")
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    values = problem.residuals(problem.start, problem.simulate())[0].values
    moving = np.abs(values) > 1e-9
    assert moving.any() and np.all(np.abs(values[moving]) > 0.001)
    assert problem.optimize().parameters["stretch"] == pytest.approx(0.02, rel=1e-2)


def test_a_step_simulates_only_what_a_coordinate_can_change(tmp_path, monkeypatch):
    """Ten takes with a value each cost ten rollouts, not a hundred; the derivatives are the same."""
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    text = UNNAMED.replace(
        "  one:", "  two: {target: {file: target.npz, key: corners}, set: {objects.sheet.velocity: [0, 0, 1]}}\n  one:"
    )
    text = text.replace("loss:", "  v: {of: objects.sheet.velocity, per: experiment}\nloss:")
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    simulated = []
    simulate = problem.simulate
    monkeypatch.setattr(
        problem,
        "simulate",
        lambda x=None, experiments=None: simulated.append(len(experiments)) or simulate(x, experiments),
    )
    fast = linearise(problem, problem.start)
    assert simulated == [2, 2, 1, 1, 1, 1, 1, 1]
    monkeypatch.setattr(problem, "reaches", lambda i, e: True)
    slow = linearise(problem, problem.start)
    assert all(np.array_equal(a, b) for a, b in zip(fast.jacobians, slow.jacobians, strict=True))
