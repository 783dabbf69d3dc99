"""`simopt demo`: the scenes that come with the package, in a checkout and in a wheel."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import numpy
import pytest
from tools.places import ROOT

from sim.cli import main
from sim.cli.begin.shipped import SHIPPED, copy


def test_the_wheel_carries_the_files_of_the_demos():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    files = {name for shipped in SHIPPED for name in (shipped.scene, *shipped.files)}
    assert wheel == {f"scenes/{name}": f"sim/demos/{name}" for name in files}


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.name)
def test_a_copy_has_all_that_its_scene_reads(shipped, tmp_path, capsys):
    assert main(["check", str(copy(shipped, tmp_path))]) == 0
    assert "ok" in capsys.readouterr().out


def test_a_demo_is_copied_and_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "compliance" in said and "report.html" in said and "simopt run demo/chain.yaml" in said.replace("\\", "/")
    (page,) = tmp_path.glob("runs/chain/*/report.html")
    assert page.stat().st_size > 10_000
    assert main(["demo", "chain", "--copy"]) == 0  # it is there, and the same


def test_a_file_is_no_folder(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["demo", "-o", str(tmp_path / "notes.txt")]) == 2
    assert "notes.txt is a file, and `-o` names a folder" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_was_changed_is_left_alone(tmp_path, capsys):
    scene = copy(SHIPPED[0], tmp_path)
    text = scene.read_text() + "# mine\n"
    scene.write_text(text)
    (tmp_path / "data" / "chain_target.npz").unlink()
    assert main(["demo", "chain", "-o", str(tmp_path)]) == 2
    assert "differs from that of the demo" in capsys.readouterr().err
    assert scene.read_text() == text and not (tmp_path / "data" / "chain_target.npz").exists()


@pytest.mark.slow
def test_an_installed_wheel_runs_its_demo(tmp_path):
    """Built, installed into a new environment, run outside of the checkout, with nothing compiled before."""
    wheels, home = tmp_path / "wheels", tmp_path / "venv"
    _do([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, ROOT], tmp_path)
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    (wheel,) = wheels.glob("*.whl")
    _do([python, "-m", "pip", "install", "-q", "--no-deps", wheel], tmp_path)
    site = Path(_do([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip())
    (site / "dependencies.pth").write_text(str(Path(numpy.__file__).parent.parent))
    where = _do([python, "-c", "import sim; print(sim.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    said = _do([python, "-m", "sim.cli", "demo", "chain"], tmp_path)
    assert "ok" in said and (tmp_path / "demo" / "chain.yaml").is_file()
    assert list(tmp_path.glob("runs/chain/*/report.html"))


def _do(words, folder):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"SIM_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
