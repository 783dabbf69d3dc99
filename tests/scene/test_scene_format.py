"""Versions of the scene format: an older one means what it meant."""

import numpy as np
import pytest
from tools.scenes.problems import SHEET, write_scene

import sim
from sim.model.energy import constraint_energy

OLD = SHEET.replace("format: 2", "format: 1").replace(
    "bend: {compliance: 33.333333333333336}", "bend: {compliance: 100}"
)


def bent(folder, scene):
    """Energy of bending of a sheet that is folded a little, and the warnings of the scene."""
    loaded = sim.load_scene(write_scene(folder, scene))
    problem = loaded.without("experiments", "parameters", "loss", "expect").build()
    model = problem.model
    state = model.state()
    q = state.particle_q.numpy()
    state.particle_q.assign(q + [0, 0, 0.1] * np.cos(20 * q[:, :1]))
    return constraint_energy(model, state, "bend"), [w for w in problem.description.notes if "format" in w]


def test_bend_of_format_1_is_three_times_that_of_format_2(tmp_path):
    old, warned = bent(tmp_path, OLD)
    assert len(warned) == 1 and "material.bend: compliances of format 1 are three times those of format 2" in warned[0]
    new, silent = bent(tmp_path, SHEET)
    assert new == pytest.approx(old, rel=1e-14) and not silent


def test_files_of_two_formats_do_not_mix(tmp_path):
    write_scene(tmp_path, OLD).rename(tmp_path / "base.yaml")
    (tmp_path / "top.yaml").write_text("format: 2\ninclude: [base.yaml]\n")
    with pytest.raises(sim.SceneError, match=r"`base.yaml` has format 1, this file 2(?s:.*)bring both to one"):
        sim.load_scene(tmp_path / "top.yaml")
    (tmp_path / "part.yaml").write_text("include: [base.yaml]\n")
    assert sim.load_scene(tmp_path / "part.yaml").get("format") == 1
