"""What a Python prompt shows of the main objects: a line or a small table, never arrays."""

import pytest
from tools.scenes.problems import sheet

import sim


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return sheet(tmp_path_factory.mktemp("reprs"))


def test_solvers_and_models(problem):
    assert repr(problem.model) == "Model(16 particles; 21 bend, 21 distance, 12 contact_sphere; float64 on cpu)"
    settings = "iterations=1, order='colored', start='zero', integrator='euler', direction='joints', direct=[]"
    assert repr(problem.solver) == f"SolverXPBD({settings}; {problem.model!r})"
    assert repr(sim.SolverSemiImplicit(problem.model)) == f"SolverSemiImplicit({problem.model!r})"


def test_builders():
    builder = sim.ModelBuilder()
    assert repr(builder) == "ModelBuilder(0 particles; nothing added)"
    builder.add_chain((0, 0, 0), (1, 0, 0), 3, 0.1, label="rope")
    builder.add_body(mass=1.0, inertia=(1, 1, 1), label="weight")
    assert repr(builder) == "ModelBuilder(3 particles, 1 bodies; rope, weight)"


def test_runs_of_a_solver(problem):
    with sim.Tape() as tape:
        found = sim.rollout(problem.solver, problem.model.state(), 6, 0.01, frame_every=2)
    assert repr(found) == "Trajectory(3 frames of 16 points, up to t=0.06 s)"
    assert repr(found.final) == "State(t=0.06 s, 16 particles)"
    assert repr(tape).startswith(f"Tape({len(tape.records)} operations since ") and len(repr(tape)) < 200
    assert repr(problem.simulate()["one"]) == "Simulation(one: 4 frames of 16 points, up to t=0.2 s)"


def test_a_problem_and_its_scene(problem):
    lines = repr(problem).splitlines()
    assert lines[0] == "Problem sheet" and lines[1] == f"  model       {problem.model!r}"
    assert lines[2:] == [
        "  solver      SolverXPBD",
        "  experiment  Experiment(one, fit: 4 frames at 20 Hz, corners (4 markers))",
        "  parameter   stretch = 0.05 m/N, 0.0001 to 10, transform log",
        "  loss        match_corners, weight 1",
        "  search      lbfgs, at most 4 iterations",
    ]
    assert repr(problem.space) == "ParameterSpace(stretch: Log)"


def test_a_scene(problem, tmp_path):
    sheet(tmp_path)
    scene = sim.load_scene(tmp_path / "scene.yaml")
    assert repr(scene) == f"Scene(sheet, {tmp_path / 'scene.yaml'}: 1 object, 1 experiment, 1 parameter, 1 loss term)"


def test_what_was_found(problem):
    found = problem.optimize(1)
    assert repr(found).splitlines() == [
        f"Result: loss {found.initial_loss:.6g} -> {found.loss:.6g} in 1 iterations; all iterations were used up",
        f"  stretch          {found.parameters['stretch']:.5g}",
    ]
    assert (
        repr(found.search)
        == f"OptimizeResult(loss {found.initial_loss:.6g} -> {found.loss:.6g} in 1 iterations; all iterations were"
        " used up)"
    )
    at = problem.evaluate(found.search.x)
    assert repr(at) == f"Evaluation(loss {at.loss:.6g}, gradient [{at.gradient[0]:.5g}])"
