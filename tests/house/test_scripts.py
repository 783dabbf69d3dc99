"""Programs that the documentation shows run as they stand, with the assertions that they end with."""

import os
import subprocess
import sys

import pytest
from tools.places import ROOT

SLOW = pytest.mark.slow


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=600
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_research_example():
    assert "compliance 0.02" in run("scripts/research_example.py")


def test_optimize_scene():
    assert "0.01" in run("scripts/optimize_scene.py", "scenes/chain.yaml")
    lines = (ROOT / "scripts" / "optimize_scene.py").read_text().splitlines()
    assert len(lines) < 60


ELSEWHERE, QUICK = {"chain", "cloth"}, {"cable", "slide", "throw"}
"""Scenes that other tests run, and those that take seconds."""

SHIPPED = sorted(path.stem for path in (ROOT / "scenes").glob("*.yaml"))


@pytest.mark.parametrize(
    "scene", [pytest.param(name, marks=[SLOW] * (name not in QUICK)) for name in SHIPPED if name not in ELSEWHERE]
)
def test_expectations(scene, tmp_path):
    """Shipped scenes meet what they expect: `simopt run` fails otherwise.

    Without the numerical error, which takes twice the time of a search.
    """
    out = run("-m", "sim.cli", "run", f"scenes/{scene}.yaml", "--no-numerics", "--out", str(tmp_path / "run"))
    assert "NOT MET" not in out
