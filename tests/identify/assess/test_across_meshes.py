"""Values of a sheet that were found on one mesh, where the recording comes from another and finer one."""

import sys

import pytest
from tools.places import ROOT

import sim
from sim.io import Recording, write_recording

sys.path.insert(0, str(ROOT / "scripts"))
from material_tables import strip

LENGTH, YOUNG, STIFFNESS = 0.3, 1e4, 5e-3
NEAR = [[LENGTH * k / 4, 0, 0] for k in (1, 2, 3, 4)]
SCENE = f"""format: 2
time: {{duration: 0.2, fps: 20, substeps: 4}}
solver: {{newton: {{integrator: bdf2}}}}
objects:
  strip:
    cloth:
      mesh: {{file: MESH}}
      density: 0.2
      material:
        membrane_stvk: {{young: 1.3e4, poisson: 0.3, thickness: 1 mm, damping: 2 ms}}
        plate: {{stiffness: 6e-3, poisson: 0.3, damping: 2 ms}}
attachments:
  clamp: {{on: strip, where: {{x: [null, 0.0001]}}}}
markers:
  edge: {{on: strip, where: {{near: {NEAR}}}}}
experiments:
  droop: {{target: {{file: target.npz, key: droop, noise: 0.1 mm}}, set: {{world.gravity: [0, 0, -9.81]}}}}
  hang: {{target: {{file: target.npz, key: hang, noise: 0.1 mm}}, set: {{world.gravity: [9.81, 0, 0]}}}}
parameters:
  young: {{of: objects.strip.cloth.material.membrane_stvk.young, transform: log}}
  bending: {{of: objects.strip.cloth.material.plate.stiffness, transform: log}}
loss:
  - {{match: edge}}
"""


def scene(folder, kind, cells):
    """The scene of a strip on a mesh from a file."""
    x, triangles = strip(kind, cells)
    lines = [f"v {a:.17g} {b:.17g} {c:.17g}\n" for a, b, c in LENGTH * x]
    lines += [f"f {a} {b} {c}\n" for a, b, c in triangles + 1]
    (folder / f"{cells}.obj").write_text("".join(lines))
    path = folder / f"{cells}.yaml"
    path.write_text(SCENE.replace("MESH", f"{cells}.obj"))
    return path


@pytest.mark.slow
def test_modulus_and_bending_of_a_strip_on_another_mesh(tmp_path):
    material = "objects.strip.cloth.material"
    truth = {f"{material}.membrane_stvk.young": YOUNG, f"{material}.plate.stiffness": STIFFNESS}
    fine = sim.load_scene(scene(tmp_path, "grid", 16), truth, open_files=False)
    seen = {}
    for name in ("droop", "hang"):
        gravity = fine.get(f"experiments.{name}.set")["world.gravity"]
        alone = sim.load_scene(tmp_path / "16.yaml", {**truth, "world.gravity": gravity})
        made = alone.without("experiments", "parameters", "loss").build(dtype=sim.float64)
        motion = made.simulate()["main"]
        seen[name] = Recording(motion.positions[:, made.markers["edge"].points], motion.times)
    write_recording(tmp_path / "target.npz", **seen)

    problem = sim.load_scene(scene(tmp_path, "equilateral", 8)).build(dtype=sim.float64)
    result = problem.optimize(6)
    with pytest.warns(sim.NumericsWarning):
        error = sim.numerical_error(problem, result, ["mesh"])
    off = {"young": YOUNG, "bending": STIFFNESS}
    off = {name: value / float(result.parameters[name]) - 1.0 for name, value in off.items()}
    told = {name: float(error.relative("mesh", name)) for name in off}
    for name, share in off.items():
        assert abs(share) < 0.06 and abs(share) < 1.2 * abs(told[name]), (name, off, told)
