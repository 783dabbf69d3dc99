# %% [markdown]
# # Two models compared
#
# A weight on a rubber band again, let go once and thrown once. Rubber relaxes: right after it is
# stretched it is stiffer than a second later. Does the recording tell that, or would a damped
# spring have done? Two scenes are fitted to the same takes, and `simopt compare` puts them side by
# side. The truth is a standard linear solid, solved exactly: a matrix exponential.

# %%
from pathlib import Path

import numpy as np
from scipy.linalg import expm

import sim
from sim.cli import main as simopt

TRUTH = {"compliance": 0.05, "branch": 0.4, "time": 80e-3}  # m/N; stiffness over the lasting one; s
MASS, NOISE = 0.2, 1e-3  # kg, m

folder = Path("runs/gallery/two_models")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Two takes
#
# The state is the stretch x, its velocity v, and the stretch z of the dashpot: `m x'' = m g - k x -
# s k (x - z)`, `z' = (x - z) / t`.

# %%
k, s, t = 1 / TRUTH["compliance"], TRUTH["branch"], TRUTH["time"]
rates = np.array([[0, 1, 0, 0], [-k * (1 + s) / MASS, 0, s * k / MASS, 9.81], [1 / t, 0, -1 / t, 0], [0, 0, 0, 0]])
time = np.arange(1, 121) / 60
rng = np.random.default_rng(5)
takes = {}
for name, pull in {"released": 0.0, "thrown": 0.8}.items():  # m/s downwards at first
    stretch = np.array([(expm(rates * moment) @ [0.0, pull, 0.0, 1.0])[0] for moment in time])
    places = np.stack([0 * time, -0.3 - stretch, 0 * time], axis=1)[:, None]
    takes[name] = places + rng.normal(scale=NOISE, size=places.shape)
    takes[f"{name}_time"] = time
np.savez(folder / "takes.npz", **takes)

# %% [markdown]
# ## Two scenes
#
# The same band, but for what it is made of.

# %%
BAND = """
format: 2
name: {name}
time: {{duration: 2, fps: 60, substeps: 8}}
solver: {{xpbd: {{integrator: bdf2}}}}
objects:
  band:
    chain: {{from: [0, 0, 0], to: [0, -0.3, 0], points: 2, mass: 0.1 g, material: {{distance: {material}}}}}
attachments: {{hook: {{on: band, where: {{y: [-0.01, null]}}}}}}
loads: {{weight: {{on: band, where: {{y: [null, -0.29]}}, mass: 200 g}}}}
markers: {{weight: {{on: band, where: {{y: [null, -0.29]}}}}}}
experiments:
  released: {{target: {{file: takes.npz, key: released, noise: 1 mm}}}}
  thrown: {{target: {{file: takes.npz, key: thrown, noise: 1 mm}}, set: {{objects.band.velocity: [0, -0.8, 0]}}}}
parameters:
  compliance: {{of: objects.band.chain.material.distance.compliance, transform: log, bounds: [1e-3, 1]}}
{parameters}
loss: [{{match: weight}}]
optimize: {{rollout: {{checkpointed: {{every: 48}}}}, numerics: [step]}}
"""
MODELS = {
    "spring": (
        "{compliance: 0.1, damping: 5 ms}",
        "  damping: {of: objects.band.chain.material.distance.damping, transform: log, bounds: [1e-4, 1]}",
    ),
    "relaxing": (
        "{compliance: 0.1, branches: [{stiffness: 0.2, time: 0.1 s}]}",
        "  branch: {of: objects.band.chain.material.distance.branches.0.stiffness, transform: log, bounds: [0.01, 3]}\n"
        "  time: {of: objects.band.chain.material.distance.branches.0.time, transform: log, bounds: [1e-3, 1]}",
    ),
}
for name, (material, parameters) in MODELS.items():
    (folder / f"{name}.yaml").write_text(BAND.format(name=name, material=material, parameters=parameters))

# %%
runs = {name: sim.identify.run_problem(sim.load_scene(folder / f"{name}.yaml").build()) for name in MODELS}
simopt(["compare", *(str(run.folder) for run in runs.values())])

# %% [markdown]
# The spring leaves residuals that are alike from frame to frame, so the effective number of
# observations is far below the number of coordinates; the criteria count with that. What the better
# model found:

# %%
for name, true in TRUTH.items():
    row = runs["relaxing"].result["parameters"][name]
    found, error = row["final"], row["standard_error"]
    print(f"{name}: found {found:.5f} +- {error:.5f}, true {true:.5f}: {(found - true) / error:+.1f} errors off")
    assert abs(found - true) < 3 * error
wrong = runs["spring"].result["parameters"]["compliance"]
off = (wrong["final"] - TRUTH["compliance"]) / wrong["standard_error"]
print(f"the damped spring's compliance is {wrong['final']:.4f} +- {wrong['standard_error']:.4f}: {off:+.0f} errors off")
