"""Every scene that comes with the project can be built."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim

SCENES = sorted((Path(__file__).resolve().parents[2] / "scenes").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENES, ids=lambda p: p.stem)
def test_it_builds(path):
    problem = sim.load_scene(path).build()
    assert problem.experiments and problem.model.particle_count + problem.model.body_count > 0
