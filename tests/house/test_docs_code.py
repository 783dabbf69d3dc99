"""Code that pages show does what it says: programs run, scenes are read."""

import re
import runpy

import numpy as np
import pytest
from gallery import DOCS
from tools.places import ROOT

import sim


def fences(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_program_of_the_readme(tmp_path):
    [program] = fences(ROOT / "README.md", "python")
    (tmp_path / "program.py").write_text(program)
    names = runpy.run_path(str(tmp_path / "program.py"))
    gradient = names["model"]["sheet.distance.compliance"].grad.numpy()
    assert gradient.shape == (1,) and np.isfinite(gradient).all() and gradient[0] != 0


def test_the_first_kernel_of_the_reference(tmp_path):
    [program] = fences(DOCS / "reference/language.md", "python")
    (tmp_path / "program.py").write_text(program)
    names = runpy.run_path(str(tmp_path / "program.py"))
    assert names["out"].numpy() == pytest.approx([12.5, 12.5, 0.0])


def test_the_first_scene_of_the_reference(tmp_path):
    """It is read, simulated, and finds what its own recording was made with."""
    [text] = fences(DOCS / "reference/scene.md", "yaml")
    (tmp_path / "scene.yaml").write_text(text)
    (tmp_path / "made.yaml").write_text(text.partition("experiments:")[0])
    made = sim.load_scene(tmp_path / "made.yaml", {"objects.rope.chain.material.distance.compliance": 0.04}).build()
    motion = made.simulate()["main"]
    take = sim.io.Recording(made.markers["end"].at(motion.positions), motion.times)
    sim.io.write_recording(tmp_path / "take.csv", end=take)
    found = sim.load_scene(tmp_path / "scene.yaml").build().optimize()
    assert found.parameters["compliance"] == pytest.approx(0.04, rel=1e-6)
