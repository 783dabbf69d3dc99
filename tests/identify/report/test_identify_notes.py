"""Notes on a result: each once, for every kind of loss, and with what to do next."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from tools.scenes.identification import FLIGHT, GROWING, SPRING, flight, known, spring
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.identify.assess.misfit import misfits
from sim.identify.numerics.numerical_error import NumericalError, Shift
from sim.identify.report.notes import notes_on
from sim.identify.report.rows import parameter_rows

REACH = "loss:\n  - {reach: {marker: balls, point: [3, 0, 0], scale: 10 mm}}\n"
AIM = FLIGHT.replace("loss:\n  - {match: balls}\n", REACH)


def notes(problem, found, uncertain=True, limit=30):
    uncertainty = known(problem, found.search.x) if uncertain else None
    return notes_on(problem, found, uncertainty, misfits(problem, problem.simulate(found.search.x)), limit, "runs/one")


def named(found, words):
    return [note for note in found if re.search(words, note)]


# ------------------------------------------------------------------------------------------------ bounds
def test_on_a_bound_with_standard_errors(tmp_path):
    problem = flight(
        tmp_path, FLIGHT.replace("{of: objects.balls.velocity}", "{of: objects.balls.velocity, bounds: [-1, 0.35]}")
    )
    found = problem.optimize()
    assert found.parameters["v"][0] == 0.35  # the truth is 0.5
    assert len(named(notes(problem, found), r"^`v\.x` ended on its upper bound, 0.35: .*no standard error")) == 1


@pytest.mark.parametrize("bounds", ["bounds: [-1, 1]", "bounds: [-1, 1], transform: logit"])
def test_on_a_bound_of_an_objective(tmp_path, bounds):
    """Only 6 m/s would reach the place; the loss has no recording, and so no standard errors."""
    problem = flight(tmp_path, AIM.replace("{of: objects.balls.velocity}", f"{{of: objects.balls.velocity, {bounds}}}"))
    found = problem.optimize()
    told = notes(problem, found, uncertain=False)
    assert len(named(told, r"^`v\.x` ended on its upper bound, 1: the best value may lie beyond")) == 1
    assert not named(told, "standard error")


def test_a_note_on_markers_is_none_on_the_parameter_of_that_name(tmp_path):
    of_markers, own = "experiment `main`: the noise of `v` is estimated: 3 mm", "`v` is poorly known"
    problem = flight(tmp_path, FLIGHT)
    assert "note" not in parameter_rows(problem, None, None, [of_markers])["v"]
    assert parameter_rows(problem, None, None, [of_markers, own])["v"]["note"] == own


def test_a_start_on_a_bound_moves_inside(tmp_path):
    problem = flight(
        tmp_path, FLIGHT.replace("{of: objects.balls.velocity}", "{of: objects.balls.velocity, bounds: [0.1, 0.6]}")
    )
    assert problem.physical()["v"] == pytest.approx([0.105, 0.2, 0.3])
    assert named(problem.description.notes, "`v` starts on its lower bound; the search begins beside it, at 0.105")
    assert problem.optimize().parameters["v"][0] == pytest.approx(0.5, abs=0.05)
    mass = FLIGHT.replace(
        "{of: objects.balls.velocity}", "{of: objects.balls.particles.mass, transform: log, bounds: [1e-2, 1]}"
    )
    assert flight(tmp_path, mass).physical()["v"] == pytest.approx(10**-0.02)


# ------------------------------------------------------------------------------------------------ what the loss does
# not see
def test_without_influence_is_said_once(tmp_path, capsys):
    flight(tmp_path, FLIGHT.replace("loss:", "  m: {of: objects.balls.particles.mass, transform: log}\nloss:"))
    assert main(["run", str(tmp_path / "flight.yaml"), "--out", str(tmp_path / "run")]) == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())["notes"]
    assert len(named(found, "`m`")) == 1 and "does not depend on `m`" in named(found, "`m`")[0]
    assert len(found) == len(set(found)) and capsys.readouterr().out.count("`m`") == 1


def test_a_value_for_an_experiment_that_is_only_predicted(tmp_path):
    text = FLIGHT.replace("experiments:", "experiments:\n  later: {use: predict}").replace(
        "velocity}", "velocity, per: experiment}"
    )
    problem = flight(tmp_path, text)
    found = problem.optimize()
    told = notes(problem, found)
    assert len(named(told, r"`v\[later\]` keeps its start: `later` is only predicted")) == 1 and not named(
        told, "does not depend|not identifiable"
    )


# ------------------------------------------------------------------------------------------------ pairs
def test_parameters_that_are_alike_matter_only_where_they_are_uncertain(tmp_path):
    """Velocity and gravity of a flight have a correlation of -0.97; with a hundredth of the noise both are known
    well."""
    text = FLIGHT.replace(
        "  v: {of: objects.balls.velocity}", "  v: {of: objects.balls.velocity}\n  g: {of: world.gravity}"
    )
    problem = flight(tmp_path, text)
    told = known(problem, problem.optimize().search.x)
    assert abs(told.correlation[0, 3]) > 0.95
    assert (
        len(named(told.notes, "can hardly be told apart .* standard error were 4 times smaller")) == 1
    )  # once, not for each component
    sharp = flight(tmp_path, text.replace("noise: 20 mm", "noise: 0.2 mm"))
    exact = sharp.simulate(sharp.space.pack({"v": [0.5, 0.0, -0.5], "g": [0.0, 0.0, 0.0]}))["main"].positions
    sharp.experiments[0].targets["balls"].positions[:] = exact
    found = known(sharp, sharp.optimize().search.x)
    assert abs(found.correlation[0, 3]) > 0.95 and not named(found.notes, "told apart")


# ------------------------------------------------------------------------------------------------ the end of the search
def test_iterations_that_ran_out(tmp_path):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    problem = sim.load_scene(write_scene(tmp_path, SHEET.replace("10 mm", "0.1 mm"))).build()
    told = notes(problem, problem.optimize(1), limit=1)
    assert (
        len(
            named(
                told,
                "standard errors away from the optimum, because its 1 iterations were used up: go on with "
                "`--resume runs/one --iterations 2`, or try `optimize: {gauss_newton: {}}`",
            )
        )
        == 1
    )
    assert not named(notes(problem, problem.optimize(20)), "the search ended")


@pytest.mark.parametrize(("dtype", "advice"), [(sim.float32, "--dtype float64"), (sim.float64, "--starts 8")])
def test_a_search_that_is_stuck(tmp_path, dtype, advice):
    """Double precision is no advice for a search in double precision."""
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    text = re.sub(r"lbfgs: \{[^}]*\}", "gauss_newton: {}", SHEET.replace("10 mm", "0.1 mm"))
    problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=dtype)
    found = problem.optimize(1)
    stuck = replace(found, search=replace(found.search, stopped_because="line_search"))
    (told,) = named(notes(problem, stuck), "no step lowered the loss any further")
    assert [text for text in ("--dtype float64", "--starts 8") if text in told] == [advice]


def test_iterations_of_an_objective_that_ran_out(tmp_path):
    problem = flight(tmp_path, AIM + "optimize: {adam: {rate: 0.001}}\n")
    told = notes(problem, problem.optimize(3), uncertain=False, limit=3)
    assert (
        len(
            named(told, "while the loss was still falling, because its 3 iterations were used up: go on with `--resume")
        )
        == 1
    )


def test_another_minimum(tmp_path):
    problem = spring(tmp_path)
    told = notes(problem, problem.optimize())
    assert (
        len(
            named(
                told,
                r"the misfit is \S+ times the noise: .*another minimum.*`optimize: \{starts: 8\}` or a growing"
                r" horizon, "
                r"`optimize: \{horizon: \[0.1, 0.3, all\]\}`",
            )
        )
        == 1
    )
    grown = spring(tmp_path, GROWING)
    assert not named(notes(grown, grown.optimize()), "the misfit is")


@pytest.mark.parametrize(("scatter", "alike", "told"), [
    (1.3, 2.5, 1), (1.3, 1.2, 0), (1.1, 2.5, 0), (1.6, 1.2, 1), (1.6, 2.5, 1),
])  # fmt: skip
def test_a_misfit_that_is_no_noise_is_told_sooner(tmp_path, scatter, alike, told):
    """A tossed tetrahedron found e = .33 for .4 with residuals 1.4 times the noise, one frame like the next."""
    problem = spring(tmp_path, GROWING)
    found = problem.optimize(0)
    uncertainty = replace(known(problem, found.search.x), scatter=scatter, alike=alike)
    assert len(named(notes_on(problem, found, uncertainty, [], 1, "run"), "the misfit is")) == told


@pytest.mark.parametrize(("by_refining", "told"), [(2.0, 1), (0.1, 0)])
def test_a_misfit_by_steps_that_are_too_long(tmp_path, by_refining, told):
    problem = spring(tmp_path, GROWING)
    found = problem.optimize(0)
    zero = {p.name: np.zeros(problem.space.shapes[p.name]) for p in problem.sought}
    numerics = NumericalError(zero, {"step": Shift("step", zero, zero, 2.0, by_refining)}, {})
    uncertainty = replace(known(problem, found.search.x), scatter=2.0, alike=1.0)
    text = notes_on(problem, found, uncertainty, [], 1, "run", numerics)
    wanted = (
        r"2 times the noise: steps are too long .* by 4 times the noise.*\(try shorter steps \(`time.substeps`\) or"
    )
    assert len(named(text, "the misfit is")) == 1 and len(named(text, wanted)) == told


@pytest.mark.parametrize(("more", "told"), [("", True), (", norm: {huber: 3}", False)])
def test_a_misfit_of_few_positions(tmp_path, more, told):
    """Of a recording in which the tracker went astray once; a norm that bears it needs no advice."""
    spring(tmp_path)
    path = tmp_path / "target.npz"
    recording = np.load(path)["end"]
    recording[25] += [0.2, 0, 0.1]
    np.savez(path, **{**np.load(path), "end": recording})
    text = (SPRING + GROWING).replace("match: end", f"match: end{more}")
    problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)
    found = problem.optimize()
    uncertainty = replace(known(problem, found.search.x), scatter=6.0)
    wanted = r"1 of 36 positions lie far beside .*\(`end` at 0.8667 s in `main`\).*empty cells.*huber"
    assert bool(named(notes_on(problem, found, uncertainty, [], 1, "run"), wanted)) == told


# ------------------------------------------------------------------------------------------------ starts
def test_where_every_start_began_and_went(tmp_path, capsys):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    scene = write_scene(tmp_path, SHEET + "  starts: 3\n  seed: 3\n")
    assert main(["run", str(scene), "--out", str(tmp_path / "run"), "--iterations", "2"]) == 0
    starts = json.loads((tmp_path / "run" / "result.json").read_text())["starts"]
    problem = sim.load_scene(scene).build()
    drawn = [problem.physical(x)["stretch"] for x in problem.space.starts(3, 3)]
    rows = starts["rows"]
    assert [row["start"]["stretch"] for row in rows] == drawn
    assert [row["chosen"] for row in rows].index(True) == starts["chosen"] and sum(row["chosen"] for row in rows) == 1
    for row in rows:
        assert row["loss"] == pytest.approx(
            problem.value(problem.space.pack({"stretch": np.array(row["start"]["stretch"])}))
        )
        assert row["reached"] == pytest.approx(
            problem.value(problem.space.pack({"stretch": np.array(row["end"]["stretch"])}))
        )
    assert rows[starts["chosen"]]["reached"] == min(row["reached"] for row in rows)
    assert "starts (* chosen" in capsys.readouterr().out
    assert (
        main(["run", str(scene), "--resume", str(tmp_path / "run"), "--iterations", "3"]) == 0
    )  # a resumed run still knows them
    assert json.loads((tmp_path / "run" / "result.json").read_text())["starts"] == starts
