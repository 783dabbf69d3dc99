# %% [markdown]
# # Fabric by region
#
# A panel of a garment is sewn from two fabrics: a stiff yoke along its upper edge, and below it a
# soft one. It hangs by its upper corners and is shaken. One parameter with `per: region` finds a
# value for each of the two, with the errors of both and the correlation between them.

# %%
from pathlib import Path

import numpy as np

import sim

TRUTH = {"young.yoke": 30e3, "young.body": 12e3}  # Pa
NOISE = 1e-3  # m

folder = Path("runs/gallery/fabric_regions")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## The panel
#
# `regions` are choices of points; a value of a material may then be a table, one number for each.
# The start does not know that there are two fabrics: it is 6 kPa everywhere.

# %%
PANEL = """
format: 2
time: {duration: 0.6, fps: 50, substeps: 16}
solver: {xpbd: {iterations: 4, integrator: bdf2}}
objects:
  panel:
    cloth:
      grid: {size: [0.3, 0.4], cells: [6, 8]}
      density: 0.2
      material:
        membrane_stvk: {young: {regions: {yoke: 6 kPa, body: 6 kPa}}, poisson: 0.3, thickness: 0.5 mm, damping: 5 ms}
        bend: {compliance: 2000, damping: 5 ms}
    regions:
      yoke: {y: [0.29, null]}
      body: {y: [null, 0.29]}
attachments:
  corners:
    on: panel
    where: {near: [[0, 0.4, 0], [0.3, 0.4, 0]]}
    motion: {swing: [0, 20 mm, 60 mm], frequency: 2.5 Hz}
markers:
  dots: {on: panel, farthest: 24}
"""
(folder / "panel.yaml").write_text(PANEL)

# %% [markdown]
# ## The take
#
# The same panel with the true values and a quarter of the step.

# %%
values = {
    f"objects.panel.cloth.material.membrane_stvk.{name.replace('.', '.regions.')}": v for name, v in TRUTH.items()
}
real = sim.load_scene(folder / "panel.yaml", {**values, "time.substeps": 64}).build()
motion = real.simulate()["main"]
seen = real.markers["dots"].at(motion.positions)
seen += np.random.default_rng(4).normal(scale=NOISE, size=seen.shape)
np.savez(folder / "take.npz", dots=seen, dots_time=motion.times)

# %% [markdown]
# ## The fit

# %%
FIT = """
format: 2
name: fabric-regions
include: [panel.yaml]
experiments:
  shaken: {target: {file: take.npz, key: dots, noise: 1 mm}}
parameters:
  young: {of: objects.panel.cloth.material.membrane_stvk.young, per: region, transform: log, bounds: [1e3, 1e6]}
loss: [{match: dots}]
optimize: {rollout: {checkpointed: {every: 8}}, numerics: [step]}
"""
(folder / "fit.yaml").write_text(FIT)
outcome = sim.identify.run_problem(sim.load_scene(folder / "fit.yaml").build())
for name, true in TRUTH.items():
    row = outcome.result["parameters"][name]
    found, error, by_step = row["final"], row["standard_error"], row["numerical_error"]["step"]
    print(f"{name}: found {found:.0f} +- {error:.0f} Pa, true {true:.0f}: {(found - true) / error:+.1f} errors off")
    print(f"  converged steps would move it by {by_step:+.0f} Pa")
    assert abs(found - true) < 3 * error
correlation = outcome.result["uncertainty"]["correlation"][0][1]
print(
    f"correlation {correlation:+.2f}: with a little less of one and more of the other the markers hang nearly as well"
)
