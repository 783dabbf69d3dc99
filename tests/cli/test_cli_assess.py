"""The verbs about what can be trusted, on runs of a small scene."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sim.cli.command import main

SCENES = Path(__file__).parents[2] / "scenes"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of the chain: as it is, and from another start."""
    folder = tmp_path_factory.mktemp("runs")
    for name, start in (("a", "0.05"), ("b", "0.02")):
        place = f"objects.rope.chain.material.distance.compliance={start}"
        assert main(["run", str(SCENES / "chain.yaml"), "--out", str(folder / name), "--set", place, "-q"]) == 0
    return folder


def test_likelihood_of_a_run(runs, capsys):
    assert main(["likelihood", str(runs / "a"), "--level", "0.9"]) == 0
    shown = capsys.readouterr().out
    assert "profile likelihoods, 90 %" in shown and "closed" in shown
    row = json.loads((runs / "a" / "likelihood.json").read_text())["parameters"]["compliance"]
    assert row["verdict"] == "closed" and row["interval"][0] < 0.01 < row["interval"][1]
    assert "profile likelihoods" in (runs / "a" / "likelihood.html").read_text()


def test_compare_puts_runs_side_by_side(runs, capsys):
    assert main(["compare", str(runs / "a"), str(runs / "b")]) == 0
    shown = capsys.readouterr().out
    assert "compliance" in shown and "hang [x noise]" in shown and "AICc" in shown
    assert main(["--json", "compare", str(runs / "a"), str(runs / "b")]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["sought"] for row in rows] == [1, 1] and rows[0]["numbers"] == 15


def test_what_is_no_run_is_refused(runs, tmp_path, capsys):
    assert main(["likelihood", str(tmp_path)]) == 2
    assert "there is no finished run in" in capsys.readouterr().err
    assert main(["likelihood", str(runs / "a"), "--of", "stiffness"]) == 2
    assert "no parameter is called 'stiffness'" in capsys.readouterr().err
    bare = tmp_path / "bare"
    shutil.copytree(runs / "a", bare)
    found = json.loads((bare / "result.json").read_text())
    (bare / "result.json").write_text(json.dumps({**found, "parameters": {}}))
    assert main(["likelihood", str(bare)]) == 2
    assert "has found nothing" in capsys.readouterr().err


def test_design_tells_what_takes_and_markers_are_worth(capsys):
    assert main(["--json", "design", str(SCENES / "chain.yaml")]) == 0
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(found["another"]["hang"], [2**-0.5], rtol=1e-6)  # twice the observations
    # The k-th link hangs from k stretched ones: sums of what hangs below them, 15, 14, 12, 9 and 5 weights.
    hangs = np.cumsum([5, 4, 3, 2, 1.0])
    for k in range(5):
        expected = np.sqrt((hangs**2).sum() / ((hangs**2).sum() - hangs[k] ** 2))
        np.testing.assert_allclose(found["without"][f"links {k}"], [expected], rtol=5e-3)
    assert main(["design", str(SCENES / "chain.yaml")]) == 0
    assert "links 4 is missed most" in capsys.readouterr().out


def test_rehearsals_find_their_truth(capsys):
    assert main(["--json", "rehearse", str(SCENES / "chain.yaml"), "--takes", "30", "--seed", "3"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["parameters"]
    assert np.isclose(row["true"], 0.05) and abs(row["mean"] / 0.05 - 1) < 0.01
    assert 0.8 < row["predicted"] < 1.7 and row["coverage"] > 0.8  # the larger of two accounts, of 15 numbers
    assert main(["rehearse", str(SCENES / "chain.yaml"), "--takes", "2"]) == 0
    assert "in 95 % intervals" in capsys.readouterr().out


def test_a_scene_without_recordings_is_not_rehearsed(capsys):
    assert main(["rehearse", str(SCENES / "throw.yaml")]) == 2
    assert "no fitted experiment has a recording" in capsys.readouterr().err
