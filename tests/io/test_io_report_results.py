"""What a run found can be used again: the fragment loads as a scene, `--set` gives the same motion, every number is
shown."""

import hashlib
import json
import re
import shlex

import numpy as np
import pytest
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.cli.terminal.result import show_result
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import make_transform
from sim.identify.report.found import found_values, fragment, set_options
from sim.identify.run import run_problem
from sim.io.report_parameters import ParameterRow, found_text, parameter_section

STRETCH = "  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}"
DISTANCE = "objects.sheet.cloth.material.distance.compliance"
TWO = """experiments:
  one: {target: {file: target.npz, key: corners, noise: 10 mm}}
  two: {set: {objects.sheet.velocity: [0, 0, 0.2]}, target: {file: target.npz, key: corners, noise: 10 mm}}
"""
ONE = "experiments:\n  one: {target: {file: target.npz, key: corners, noise: 10 mm}}\n"
REGIONS = "{compliance: {regions: {upper: 0.05, lower: 0.04}}, damping: 5 ms}"


def found_in(tmp_path, text, iterations=2):
    """The outcome of a short run of a scene, and its problem."""
    write_target(tmp_path, SHEET, overrides={DISTANCE: 0.02})
    problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)
    return problem, run_problem(problem, tmp_path / "run", iterations=iterations)


def sought(parameters):
    return SHEET.replace(STRETCH, parameters)


SCENES = {
    "number": SHEET,
    "vector": sought("  v: {of: objects.sheet.velocity, bounds: [-3, 3]}"),
    "component": sought("  g: {of: world.gravity.1, bounds: [-20, 0]}"),
    "in a list": sought("  swing: {of: attachments.top.motion.0.swing, bounds: [-1, 1]}"),
    "start": sought(STRETCH.removesuffix("}") + ", start: 0.04}"),
    "tied": sought("  s: {of: {objects.sheet.velocity.0: 2, objects.sheet.velocity.2: -1}, start: 0.03}"),
    "experiments": sought("  v: {of: objects.sheet.velocity, per: experiment}").replace(ONE, TWO),
    "elements": sought(f"  s: {{of: {DISTANCE}, per: element, transform: log, bounds: [1e-4, 10]}}"),
    "regions": (
        sought(f"  s: {{of: {DISTANCE}, per: region, transform: log}}")
        .replace("{compliance: 0.05, damping: 5 ms}", REGIONS)
        .replace("    cloth:", "    regions: {upper: {y: [0.5, null]}, lower: {y: [null, 0.5]}}\n    cloth:", 1)
    ),
}


@pytest.mark.parametrize("kind", SCENES)
def test_what_was_found_loads_again(kind, tmp_path):
    """A scene made of the fragment starts where the run ended, and so does one with the `--set` options."""
    problem, outcome = found_in(tmp_path, SCENES[kind])
    after = {
        e: s.positions
        for e, s in problem.simulate(
            problem.space.pack({name: p["final"] for name, p in outcome.result["parameters"].items()})
        ).items()
    }
    (tmp_path / "found.yaml").write_text(fragment(problem, outcome.result))
    for file in outcome.folder.glob("found.*.npy"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    again = [sim.load_scene(tmp_path / "found.yaml")]
    options = set_options(problem, outcome.result)
    assert (
        len(found_values(problem, outcome.result))
        == sum(len(p.places) * max(1, len(p.experiments)) for p in problem.sought)
        > 0
    )
    assert bool(options) == (kind not in ("elements", "experiments"))
    if options:
        texts = [word for word in shlex.split(options) if word != "--set"]
        again.append(sim.load_scene(tmp_path / "scene.yaml", texts))
    for scene in again:
        for name, simulation in scene.build(dtype=sim.float64).simulate().items():
            np.testing.assert_allclose(simulation.positions, after[name], rtol=1e-12, atol=1e-14)


def test_the_report_holds_the_copyable_result(tmp_path):
    problem, outcome = found_in(tmp_path, SCENES["vector"])
    page = (outcome.folder / "report.html").read_text()
    final = outcome.result["parameters"]["v"]["final"].tolist()
    assert f"velocity: [{', '.join(map(repr, final))}]" in page and "--set" in page
    assert found_values(problem, outcome.result) == {"objects.sheet.velocity": final}
    for name, value in zip("xyz", final, strict=True):
        assert re.search(rf"<code>v\.{name}</code>.*?<strong>", page) and f"{value:.3g}".replace("-", "−")[:4] in page
    assert "… " not in page.split("<h2>Parameters</h2>")[1].split("</table>")[0].replace("−3 … 3", "")


def test_the_page_says_with_what_it_was_made(tmp_path):
    _, outcome = found_in(tmp_path, SHEET)
    page, result = (
        (outcome.folder / "report.html").read_text(),
        json.loads((outcome.folder / "result.json").read_text()),
    )
    assert set(result["files"]) == {"scene.yaml", "target.npz"}
    for name, digest in result["files"].items():
        assert digest == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() and digest[:16] in page
    assert result["started"].replace("T", " ").replace("+00:00", " UTC") in page and "<dt>command</dt>" in page


@pytest.mark.parametrize("start, per, experiments, labels", [
    (1.0, "scene", (), ["p"]),
    ([1, 2, 3], "scene", (), ["p.x", "p.y", "p.z"]),
    ([1, 2, 3], "element", (), ["p[0]", "p[1]", "p[2]"]),
    ([1, 2], "experiment", ("a", "b"), ["p[a]", "p[b]"]),
    ([1, 2, 3], "experiment", ("a", "b", "c"), ["p[a]", "p[b]", "p[c]"]),
    ([[1, 2, 3], [4, 5, 6]], "experiment", ("a", "b"), ["p[a].x", "p[a].y", "p[a].z", "p[b].x", "p[b].y", "p[b].z"]),
    ([[1, 2, 3]], "point", (), ["p[0].x", "p[0].y", "p[0].z"]),
])  # fmt: skip
def test_every_number_of_a_parameter_has_a_name(start, per, experiments, labels):
    start = np.array(start, float)
    assert Parameter("p", start, [], make_transform("none", start), per=per, experiments=experiments).labels == labels


def test_numbers_of_a_vector_have_their_own_errors_and_notes():
    row = ParameterRow(
        "v",
        [0, 0, 0],
        [1.234567, 2.0, 3.0],
        "m/s",
        [1e-3, 0, 0],
        true=[1.0, 2.0, 4.0],
        error=[0.012, float("inf"), float("nan")],
        labels=["v.x", "v.y", "v.z"],
        note="`v.y` is not identifiable",
        numerics="step up to +1 %, mesh not estimated; reference: as found",
        by_cause={"step": [0.01, 0.0, -0.003]},
    )
    x, y, z = parameter_section([row]).split("<tbody>")[1].split("</tr>")[:3]
    assert "1.235" in x and "0.012 (0.97 %)" in x and "+23.46 %" in x and "remark" not in x
    assert "not identifiable</div>" in y and y.count("not identifiable") == 2 and "0 %" in y
    assert "not identifiable" not in z and "−25.00 %" in z
    assert ">step +0.01 m/s<" in x and ">step -0.003 m/s<" in z and "reference: as found" in z  # each its own
    assert found_text(row.final, row.error, "m/s") == "(1.235 ± 0.012, 2 (not identifiable), 3) m/s"


def test_many_numbers_are_summed_up(capsys, tmp_path):
    final = np.linspace(1.0, 3.0, 201)
    row = ParameterRow("k", np.ones(201), final, "m/N", error=np.full(201, 0.1), log=True)
    page = parameter_section([row])
    assert page.count("<tr>") == 2 and "<strong>2<" in page and "1 … 3" in page and "0.1 (median)" in page
    assert "All 201 numbers" in page and "parameters.k.final" in page and '<rect class="bar"' in page
    result = {
        "parameters": {"k": {"start": np.ones(201), "final": final, "unit": "m/N"}},
        "experiments": {},
        "expect": [],
        "starts": None,
        "horizons": None,
        "loss": {"final": None},
        "stopped_because": "gradient",
        "wall_s": 1.0,
    }
    show_result(result, tmp_path)
    shown = capsys.readouterr().out
    assert "1 ... 2 ... 3" in shown and "201 numbers" in shown and "result.json" in shown


def test_tables_in_a_terminal_fit_into_80_columns(tmp_path, capsys):
    measure = {"simulated": 0.0216431, "measured": 0.0257974, "error": -0.161, "unit": "m"}
    result = {
        "parameters": {"velocity": {
            "start": [0, 0, 0], "final": [2.7012, -3.2648, 0.71474], "unit": "m/s",
            "standard_error": [1e-3, 2e-3, 3e-3], "labels": ["velocity.x", "velocity.y", "velocity.z"],
        }},
        "experiments": {"load101_a": {"use": "predict", "drop": measure}},
        "expect": [{"path": "experiments.load101_a.drop", "want": "0.025797, as measured, within 19 %",
                    "got": 0.0216431, "ok": False}],
        "starts": None, "horizons": None, "method": "lbfgs",
        "loss": {"final": 1.0, "initial": 2.0}, "iterations": 3, "evaluations": 4, "stopped_because": "gradient",
        "wall_s": 1.0}  # fmt: skip
    show_result(result, tmp_path)
    shown = capsys.readouterr().out
    tables = shown.splitlines()[:-2]
    assert max(len(line.rstrip()) for line in tables) <= 80
    assert "velocity.y       0   -3.2648   0.0020 (0.061 %)   m/s" in shown
    assert "0.021643 m" in shown and "NOT MET" in shown and "-16.1%" in shown


def test_set_options_work_on_the_command_line(tmp_path, capsys):
    problem, outcome = found_in(tmp_path, SCENES["number"])
    options = shlex.split(set_options(problem, outcome.result))
    assert (
        main(["run", str(tmp_path / "scene.yaml"), *options, "--out", str(tmp_path / "again"), "--iterations", "1"])
        == 0
    )
    result = json.loads((tmp_path / "again" / "result.json").read_text())
    assert result["loss"]["initial"] == pytest.approx(outcome.result["loss"]["final"], rel=1e-9)
