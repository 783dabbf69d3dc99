# %% [markdown]
# # A sheet from motion capture
#
# A sheet is held level by one edge and let go; a motion capture system follows sixteen markers on
# it and writes a TRC file. Its z points up, its lengths are millimetres, its axes are those of
# yesterday's calibration, and now and then a marker is hidden. How much does the sheet give in its
# plane, and how stiff is it in bending? C3D files (Vicon, Qualisys, OptiTrack) go the same way:
# `file: sheet.c3d`.

# %%
from pathlib import Path

import numpy as np

import sim
from sim.cli import main as simopt

TRUTH = {"young": 20e3, "bend": 400.0}  # Pa, 1 / (N m)
NOISE = 0.5e-3  # m

folder = Path("runs/gallery/mocap_sheet")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(2)

# %% [markdown]
# ## The sheet

# %%
SHEET = """
format: 2
time: {duration: 0.6, fps: 50, substeps: 12}
solver: {xpbd: {iterations: 3, integrator: bdf2}}
objects:
  sheet:
    cloth:
      grid: {size: [0.3, 0.3], cells: [6, 6]}
      density: 0.3                        # kg/m^2
      material:
        membrane_stvk: {young: 8 kPa, poisson: 0.3, thickness: 1 mm, damping: 5 ms}
        bend: {compliance: 1000, damping: 5 ms}      # 1 over the stiffness of a plate
    rotation: {axis: [1, 0, 0], angle: -90 deg}       # level; y is up
attachments:
  edge: {on: sheet, where: {x: [null, 0.01]}}
markers:
  dots: {on: sheet, farthest: 16}
"""
(folder / "sheet.yaml").write_text(SHEET)

# %% [markdown]
# ## The take
#
# No laboratory is at hand: a simulation with a quarter of the step and the true values plays the
# sheet. What it shows is turned by 2 degrees, shifted by 12 mm, given noise, and hidden here and
# there before it goes into the file.

# %%
material = "objects.sheet.cloth.material"
values = {f"{material}.membrane_stvk.young": TRUTH["young"], f"{material}.bend.compliance": TRUTH["bend"]}
real = sim.load_scene(folder / "sheet.yaml", {**values, "time.substeps": 24, "time.fps": 100}).build()
motion = real.simulate()["main"]
places = np.concatenate([motion.start[None], motion.positions])  # (frames, points, 3)
seen = real.markers["dots"].at(places)  # (frames, 16, 3)

turn = np.radians(2)
seen = seen @ np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]]).T + [0.012, 0, 0]
seen = 1e3 * (seen[..., [0, 2, 1]] * [1, -1, 1] + rng.normal(scale=NOISE, size=seen.shape))  # z up, mm
for marker, first in ((2, 10), (7, 25), (7, 40), (11, 30)):
    seen[first : first + 8, marker] = np.nan

names = [f"dot{k}" for k in range(seen.shape[1])]
rows = [
    ["PathFileType", "4", "(X/Y/Z)", "sheet.trc"],
    "DataRate CameraRate NumFrames NumMarkers Units OrigDataRate OrigDataStartFrame OrigNumFrames".split(),
    ["100", "100", str(len(seen)), str(len(names)), "mm", "100", "1", str(len(seen))],
    ["Frame#", "Time", *(cell for name in names for cell in (name, "", ""))],
    ["", "", *(f"{axis}{k + 1}" for k in range(len(names)) for axis in "XYZ")],
    [""],
]
for k, frame in enumerate(seen):
    rows.append([str(k + 1), f"{k / 100:.3f}", *("" if np.isnan(value) else f"{value:.3f}" for value in frame.ravel())])
(folder / "sheet.trc").write_text("\n".join("\t".join(row) for row in rows) + "\n")

# %%
simopt(["import", str(folder / "sheet.trc"), "--up", "z"])

# %% [markdown]
# ## The fit
#
# The scene includes the sheet and says what was recorded and what is sought. Gaps carry no weight.
# `align: {frame: true}` finds the calibration together with the material.

# %%
FIT = """
format: 2
name: mocap-sheet
include: [sheet.yaml]
experiments:
  drop: {target: {file: sheet.trc, up: z, noise: 0.5 mm, align: {frame: true}}}
parameters:
  young: {of: objects.sheet.cloth.material.membrane_stvk.young, transform: log, bounds: [1e3, 1e6]}
  bend: {of: objects.sheet.cloth.material.bend.compliance, transform: log, bounds: [10, 1e5]}
loss: [{match: dots}]
optimize: {rollout: {checkpointed: {every: 6}}, numerics: [step]}
"""
(folder / "fit.yaml").write_text(FIT)
outcome = sim.identify.run_problem(sim.load_scene(folder / "fit.yaml").build())
for name, true in TRUTH.items():
    row = outcome.result["parameters"][name]
    found, error, by_step = row["final"], row["standard_error"], row["numerical_error"]["step"]
    print(f"{name}: found {found:.5g} +- {error:.2g}, true {true:g}: {(found - true) / error:+.1f} errors off")
    print(f"  converged steps would move it by {by_step / found:+.2%}")
    assert abs(found - true) < 3 * error
print(outcome.result["notes"][-1])
