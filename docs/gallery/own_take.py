# %% [markdown]
# # Your own recording
#
# A weight hangs on a rubber band and is let go; a camera follows it. The tracker wrote a CSV in its
# own way: times in milliseconds, lengths in millimetres, z up, and a clock that started whenever
# the camera did. How stiff is the band, and how fast does it lose a swing? Here the "camera" is the
# closed form of a damped spring with noise, so that the answer is known.

# %%
from pathlib import Path

import numpy as np

import sim
from sim.cli import main as simopt

STIFFNESS, DAMPING = 20.0, 8e-3  # N/m and s: what is to be found
MASS, NOISE = 0.2, 0.5e-3  # kg, m

folder = Path("runs/gallery/own_take")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## The take
#
# Sixty frames a second for four seconds; the weight is let go 0.413 s after the camera was started.

# %%
time = np.arange(240) / 60
since = np.maximum(time - 0.413, 0.0)
omega = np.sqrt(STIFFNESS / MASS)
zeta = 0.5 * omega * DAMPING
damped = omega * np.sqrt(1 - zeta**2)
swing = np.exp(-zeta * omega * since) * (np.cos(damped * since) + zeta * omega / damped * np.sin(damped * since))
height = -9.81 / omega**2 * (1 - swing)  # above where it was let go
seen = np.stack([0 * time, 0 * time, height], axis=1) + np.random.default_rng(1).normal(scale=NOISE, size=(240, 3))

table = np.column_stack([1e3 * time, 1e3 * seen])
head = "time [ms],weight x [mm],weight y [mm],weight z [mm]"
np.savetxt(folder / "take.csv", table, fmt="%.3f", delimiter=",", header=head, comments="")

# %% [markdown]
# ## What is in it?
#
# `simopt import take.csv --up z` in a shell, or the same from Python. It says what the file holds
# and when something begins to move. Units are taken from the header; the axis that points up is
# said, for nothing is guessed.

# %%
simopt(["import", str(folder / "take.csv"), "--up", "z"])

# %% [markdown]
# ## A scene
#
# Two points and a link. `align: {time: true}` says that nobody knows exactly when the weight was
# let go: the offset is found with the rest, and the standard errors know of it.

# %%
SCENE = """
format: 2
time: {duration: 3, fps: 60, substeps: 8}
solver: {xpbd: {integrator: bdf2}}
objects:
  band:
    chain:
      {from: [0, 0, 0], to: [0, -0.3, 0], points: 2, mass: 0.1 g,
       material: {distance: {compliance: 0.1, damping: 20 ms}}}
attachments:
  hook: {on: band, where: {y: [-0.01, null]}}
loads:
  weight: {on: band, where: {y: [null, -0.29]}, mass: 200 g}
markers:
  weight: {on: band, where: {y: [null, -0.29]}}
experiments:
  drop:
    target: {file: take.csv, up: z, start: 0.4 s, noise: 0.5 mm, align: {time: true}}
parameters:
  compliance: {of: objects.band.chain.material.distance.compliance, transform: log, bounds: [1e-3, 1]}
  damping: {of: objects.band.chain.material.distance.damping, transform: log, bounds: [1e-4, 1]}
loss:
  - {match: weight, compare: displacement}
optimize:
  rollout: {checkpointed: {every: 48}}
"""
(folder / "band.yaml").write_text(SCENE)

# %% [markdown]
# ## The answer
#
# `simopt run band.yaml` finds it and writes a folder with a report; this is the same call from
# Python.

# %%
outcome = sim.identify.run_problem(sim.load_scene(folder / "band.yaml").build())
for name, true in {"compliance": 1 / STIFFNESS, "damping": DAMPING}.items():
    row = outcome.result["parameters"][name]
    found, error = row["final"], row["standard_error"]
    off = (found - true) / error
    print(f"{name}: found {found:.5f} +- {error:.5f} {row['unit']}, true {true:.5f}: {off:+.1f} errors off")
    assert abs(found - true) < 3 * error
