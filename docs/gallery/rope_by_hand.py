# %% [markdown]
# # A rope driven by hand
#
# Somebody holds a rope and shakes it. Nobody can write down what the hand does, but a marker on it
# was recorded with those on the rope: the recording *drives* the model (`motion: {follow: ...}`) at
# one end and is *compared* with it along the rest. What is its Young's modulus, and how fast does
# the material lose a swing?

# %%
from pathlib import Path

import numpy as np

import sim

TRUTH = {"young": 20e6, "damping": 8e-3}  # Pa, s
NOISE = 0.3e-3  # m

folder = Path("runs/gallery/rope_by_hand")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## The rope
#
# Rigid segments with elastic joints between them, solved together (`direct`). What drives its first
# end stands in another file, so that two scenes can have the same rope.

# %%
ROPE = """
format: 2
time: {duration: 0.8, fps: 50, substeps: 20}
solver: {xpbd: {direct: [rope]}}
objects:
  rope:
    rod:
      {points: [[0, 0, 0], [0.4, 0, 0]], segments: 8, radius: 4 mm, density: 1200 kg/m^3, young: 8 MPa, poisson: 0.4,
       damping: 3 ms, clamp: {start: hand}}
markers:
  dots: {on: rope, at: [[0.1, 0, 0], [0.2, 0, 0], [0.3, 0, 0], [0.4, 0, 0]]}
"""
(folder / "rope.yaml").write_text(ROPE)

# %% [markdown]
# ## The take
#
# A simulation with twice the frames and short steps plays the real rope: its hand moves by formulas
# which the fit will never see. Recorded are a marker on the hand and four dots on the rope, with
# noise, at 100 Hz.

# %%
SHAKEN = """
format: 2
include: [rope.yaml]
objects:
  hand:
    body:
      mass: 0
      sites: {palm: [0, 0, 0]}
      motion: [{swing: [0, 50 mm, 0], frequency: 2 Hz}, {swing: [10 mm, 0, 60 mm], frequency: 1.3 Hz}]
markers:
  palm: {on: hand, where: {all: true}}
"""
(folder / "shaken.yaml").write_text(SHAKEN)
values = {f"objects.rope.rod.{name}": value for name, value in TRUTH.items()}
real = sim.load_scene(folder / "shaken.yaml", {**values, "time.fps": 100, "time.substeps": 40}).build()
motion = real.simulate()["main"]
places = np.concatenate([motion.start[None], motion.positions])  # from t = 0 on
seen = {name: markers.at(places) for name, markers in real.markers.items()}
rng = np.random.default_rng(3)
seen = {name: x + rng.normal(scale=NOISE if name == "dots" else 0.1e-3, size=x.shape) for name, x in seen.items()}
np.savez(folder / "take.npz", **seen, rate=100.0)
print({name: x.shape for name, x in seen.items()})

# %% [markdown]
# ## The fit

# %%
FIT = """
format: 2
name: rope-by-hand
include: [rope.yaml]
objects:
  hand: {body: {mass: 0, motion: {follow: {file: take.npz, key: palm}}}}
experiments:
  shaken: {target: {file: take.npz, key: dots, noise: 0.3 mm}}
parameters:
  young: {of: objects.rope.rod.young, transform: log, bounds: [1e6, 1e9]}
  damping: {of: objects.rope.rod.damping, transform: log, bounds: [0.1 ms, 1]}
loss: [{match: dots}]
optimize: {rollout: {checkpointed: {every: 10}}, numerics: [step]}
"""
(folder / "fit.yaml").write_text(FIT)

# %% [markdown]
# ## The answer
#
# A step of first order damps by itself, as a material would: steps of 1 ms hide most of a
# millisecond of the damping, twelve standard errors. The numerical error by the step says so: with
# it the damping is 3 % off instead of 6 %. Shorter steps would make both smaller.

# %%
outcome = sim.identify.run_problem(sim.load_scene(folder / "fit.yaml").build())
for name, true in TRUTH.items():
    row = outcome.result["parameters"][name]
    found, error, by_step = row["final"], row["standard_error"], row["numerical_error"]["step"]
    print(f"{name}: found {found:.4g} +- {error:.1g}, {by_step / found:+.1%} by the step, true {true:.4g}")
    assert abs(found + by_step - true) < 3 * error + 0.5 * abs(by_step)
