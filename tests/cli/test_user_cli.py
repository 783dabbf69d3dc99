"""The command with other people's code and with too much of everything."""

import pytest
from tools.places import ROOT

import sim
from sim.cli import main

CHAIN = (ROOT / "scenes" / "chain.yaml").read_text().partition("experiments:")[0]
OWN = '''
import sim

@sim.constraint(points=2)
def cli_tether(x, rest: float, slack: float = 0.25):
    """Distance minus its rest value and some slack."""
    return sim.length(x[1] - x[0]) - rest - slack
'''
BROKEN = {
    "bad_syntax": ("def f(:\n", "bad_syntax.py:1: invalid syntax"),
    "bad_run": ("raise RuntimeError('boo')\n", "bad_run.py:1: RuntimeError: boo"),
    "bad_import": (
        "import nothing_of_that_name\n",
        "bad_import.py:1: ModuleNotFoundError: No module named 'nothing_of_that_name'",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "chain.yaml").write_text(CHAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    return tmp_path


@pytest.mark.parametrize("name", BROKEN)
def test_imported_modules_that_do_not_run(name, folder, capsys):
    text, message = BROKEN[name]
    (folder / f"{name}.py").write_text(text)
    assert main(["--import", name, "check", "chain.yaml"]) == 2
    shown = capsys.readouterr().err
    assert message in shown and f"--import {name}" in shown
    assert main(["show-ir", f"{name}.py:kernel"]) == 2
    assert message in capsys.readouterr().err


def test_show_ir_of_a_file_with_neighbours(folder, capsys):
    (folder / "neighbour_of_kernels.py").write_text("FACTOR = 3.0\n")
    (folder / "kernels_here.py").write_text(
        "import sim\nfrom neighbour_of_kernels import FACTOR\n\n"
        "@sim.kernel\ndef scale(x: sim.array[float]):\n    x[sim.tid()] *= FACTOR\n"
    )
    assert main(["show-ir", "kernels_here.py:scale", "--stage", "ir"]) == 0
    assert "const 3.0" in capsys.readouterr().out


def test_more_frames_than_fit(folder, capsys):
    (folder / "chain.yaml").write_text(CHAIN.replace("duration: 2.5", "duration: 1e9"))
    assert main(["run", "chain.yaml", "--out", "run"]) == 2
    shown = capsys.readouterr().err
    assert "chain.yaml:9:18: time.duration: 1e+09 s at 20 Hz are 20,000,000,000 frames" in shown and "lower" in shown
    assert not (folder / "run").exists()


def test_more_steps_than_memory(folder, capsys, monkeypatch):
    def exhausted(*args: object) -> None:
        raise MemoryError("Unable to allocate 149. GiB")

    monkeypatch.setattr("sim.cli.verbs.run.run_problem", exhausted)
    assert main(["run", "chain.yaml"]) == 2
    assert "not enough memory: Unable to allocate 149. GiB" in capsys.readouterr().err


def test_parameters_of_own_constraints_have_defaults(folder):
    (folder / "own_tether.py").write_text(OWN)
    (folder / "chain.yaml").write_text(CHAIN.replace("distance: {", "cli_tether: {"))
    assert main(["--import", "own_tether", "check", "chain.yaml"]) == 0
    problem = sim.load_scene("chain.yaml").build()
    assert problem.model["rope.cli_tether.slack"].numpy() == pytest.approx(0.25)
