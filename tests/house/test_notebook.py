"""What a notebook shows of the main objects."""

import subprocess
import sys
from html import unescape

import pytest
from tools.places import ROOT
from tools.scenes.problems import sheet

import sim
from sim.display import html_table


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return sheet(tmp_path_factory.mktemp("notebook"))


def test_tables_of_models_problems_and_results(problem):
    model = problem.model._repr_html_()
    assert "<th" in model and "16" in model and "12 constraints of" in model
    shown = problem._repr_html_()
    assert "Problem sheet" in shown and "stretch = 0.05 m/N" in shown
    found = problem.optimize(1)
    assert f"{found.parameters['stretch']:.5g}" in found._repr_html_()
    assert "&lt;b&gt;" in html_table("<b>", [("a", "<b>")]) and "<b>" not in html_table("<b>", [("a", "<b>")])


def test_a_trajectory_is_the_player(problem):
    found = sim.rollout(problem.solver, problem.model.state(), 6, 0.01, frame_every=2)
    assert found.interval == pytest.approx(0.02)
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count("<") == 2
    page = unescape(shown.partition('srcdoc="')[2].rpartition('" style')[0])
    assert page.startswith("<!doctype html>") and "WebGL" in page and '"frames":3' in page.replace(" ", "")
    assert '"kind":"sphere"' in page.replace(" ", "")


def test_a_long_one_is_thinned(problem):
    found = sim.rollout(problem.solver, problem.model.state(), 500, 1e-4, frame_every=1)
    assert '"frames":167' in unescape(found._repr_html_()).replace(" ", "")


def test_the_player_is_not_loaded_before():
    code = "import sim, sys; print('sim.io' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
