"""The command's other verbs: check, gradcheck, schema, info, show-ir; the scripts."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import SHEET, write_scene, write_target

from sim.cli import STAGES, main
from sim.cli.arguments import VERBS, make_parser
from sim.cli.terminal.tables import number_text, print_columns

SCENES = ROOT / "scenes"

KERNELS = """
import sim

@sim.kernel
def scale(x: sim.array[sim.vec3], s: float, y: sim.array[sim.vec3]):
    i = sim.tid()
    y[i] = s * x[i] * sim.length(x[i])

@sim.kernel
def generic(x, y: sim.array[float]):
    y[0] = 1.0
"""

OWN = '''
import sim

@sim.constraint(points=3, units={"compliance": "m^2/N"})
def area(x, rest: float):
    """Area of a triangle minus its rest value."""
    return 0.5 * sim.length(sim.cross(x[1] - x[0], x[2] - x[0])) - rest
'''


def test_check_of_the_cloth(capsys):
    assert main(["check", str(SCENES / "cloth.yaml"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["points"] == {"skirt": 681, "waist (pinned)": 26, "fabric (markers)": 40}
    constraints = {name: c["count"] for name, c in facts["constraints"].items()}
    assert constraints["contact_sphere"] == 655 and constraints["membrane_stvk"] == 1252 and constraints["bend"] > 1800
    assert facts["experiments"]["swing"] == {"frames": 72, "steps": 720, "dt": 1 / 600, "unseen": 0}
    assert 1e6 < facts["gradient_bytes"] < 1e9 and facts["warnings"] == []
    assert main(["check", str(SCENES / "cloth.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "681" in shown and "1/(N m)" in shown and "cloth: ok" in shown


@pytest.mark.parametrize(("budget", "told"), [("1 kB", True), ("1 GB", False)])
def test_check_of_a_budget_that_is_too_small(tmp_path, capsys, budget, told):
    text = SHEET.replace("lbfgs: {iterations: 4}", f"rollout: {{checkpointed: {{budget: {budget}}}}}")
    write_target(tmp_path, SHEET)
    assert main(["check", str(write_scene(tmp_path, text))]) == 0
    assert ("budget: the gradient takes" in capsys.readouterr().out) == told


def test_gradcheck_of_the_chain(capsys):
    assert main(["gradcheck", str(SCENES / "chain.yaml"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["parameter"] == "compliance" and row["error"] < 1e-6 and row["switched"] == 0
    assert main(["gradcheck", str(SCENES / "chain.yaml")]) == 0
    assert "compliance" in capsys.readouterr().out


def test_schema_beside_the_scenes_is_current(tmp_path, capsys):
    assert main(["schema"]) == 0
    text = capsys.readouterr().out
    properties = json.loads(text)["properties"]
    assert {"world", "time", "objects", "parameters", "expect"} <= properties.keys()
    assert main(["schema", "--out", str(tmp_path / "schema.json")]) == 0
    assert (tmp_path / "schema.json").read_text() == text
    # Constraints that other tests declare are in the registry of this process; a fresh one has only ours.
    fresh = subprocess.run(
        [sys.executable, "-m", "sim.cli", "schema"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert json.loads((SCENES / "scene.schema.json").read_text(encoding="utf-8")) == json.loads(fresh.stdout)


def test_info(capsys):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["backend"] in ("llvm", "interp") and "distance" in facts["constraints"] and facts["numpy"]
    assert main(["info"]) == 0
    assert "kernel cache" in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_show_ir(tmp_path, capsys, stage):
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert main(["show-ir", f"{tmp_path / 'kernels.py'}:scale", "--stage", stage]) == 0
    text = capsys.readouterr().out
    llvm, cuda = stage.endswith(("llvm", "optimized")), stage.endswith("cuda")
    assert (
        ("define" in text) == llvm
        and ("__global__" in text) == cuda
        and ("func scale" in text) == (not llvm and not cuda)
    )
    assert ("adj_x" in text or "scale_adjoint" in text) == stage.startswith("adjoint")


def test_show_ir_of_a_generic_kernel(tmp_path, capsys):
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert main(["show-ir", f"{tmp_path / 'kernels.py'}:generic"]) == 2
    assert "generic in x" in capsys.readouterr().err


def test_own_constraint_in_a_scene(tmp_path):
    (tmp_path / "my_constraints.py").write_text(OWN)
    write_target(tmp_path, SHEET)
    write_scene(tmp_path, SHEET.replace("bend: {compliance: 33.333333333333336}", "area: {compliance: 1e-4}"))

    def check(*more):
        return subprocess.run(
            [sys.executable, "-m", "sim.cli", *more, "check", "scene.yaml", "--json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    without = check()
    assert without.returncode == 2 and "area" in without.stdout
    found = check("--import", "my_constraints")
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["constraints"]["area"]["count"] == 18


def test_optimize_scene_script():
    script = ROOT / "scripts" / "optimize_scene.py"
    assert len(script.read_text().splitlines()) < 60
    found = subprocess.run(
        [sys.executable, str(script), str(SCENES / "chain.yaml")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "compliance: 0.01, expected 0.01 within 0.01 %" in found.stdout


def test_chain_target_is_what_its_script_writes(tmp_path):
    import numpy as np

    out = tmp_path / "target.npz"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_chain_target.py"), "--out", str(out)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    with np.load(out) as fresh, np.load(SCENES / "data" / "chain_target.npz") as shipped:
        assert np.allclose(fresh["links"], shipped["links"], rtol=0, atol=1e-15)
        assert shipped["links"][0, -1].tolist() == pytest.approx([0, -1 - 0.01 * 0.05 * 9.81 * 15, 0])


def test_cloth_target_is_what_its_script_writes(tmp_path):
    import numpy as np

    out = tmp_path / "target.npz"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_cloth_target.py"), "--out", str(out)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    with np.load(out) as fresh, np.load(SCENES / "data" / "cloth_markers.npz") as shipped:
        assert np.abs(fresh["fabric"] - shipped["fabric"]).max() < 1e-6


def test_heads_of_tables_keep_their_units(capsys):
    print_columns("", [1.0], ("dt [s]", str))
    assert "dt [s]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"), [([[0.0, 1.0, 2.0]], "0, 1, 2"), (np.arange(6.0).reshape(2, 3), "0 ... 5 (6)"), (1.5, "1.5")]
)
def test_vectors_of_points_in_a_table(value, text):
    """`check` of a scene that seeks where each of one or two points begins was a TypeError."""
    assert number_text(np.array(value)) == text


def test_every_verb_is_said_once(capsys):
    assert len({verb.name for verb in VERBS}) == len(VERBS)
    for verb in VERBS:
        with pytest.raises(SystemExit):
            make_parser().parse_args([verb.name, "--help"])
        shown = capsys.readouterr().out
        assert verb.help in " ".join(shown.split()) and ("SCENE" in shown) == verb.takes_scene and "--json" in shown


def test_only_a_process_of_its_own_spares_the_collector():
    """What calls `main` with arguments goes on after it, and collects its garbage as before."""
    code = (
        "import gc, sys; from sim.cli import main\n"
        "sys.argv = ['simopt', '--quiet', 'schema']\n"
        "main(sys.argv[1:]); given = gc.get_freeze_count()\n"
        "main(); print(given, gc.get_freeze_count() > 10_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]
