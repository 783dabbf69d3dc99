# %% [markdown]
# # Rehearsal and design
#
# Before anybody goes to the laboratory: a rope will be filmed, to find how much its links give and
# how much the air slows it down. Which experiment tells which of the two? How well will they be
# known? A scene with a guess for each answers, at the cost of minutes of simulation instead of days
# of filming.

# %%
from pathlib import Path

import numpy as np

import sim
from sim.cli import main as simopt

folder = Path("runs/gallery/rehearsal")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Two experiments
#
# The rope is let go from where it hangs unstretched, or it is thrown to the side. Nothing is
# recorded yet: `planned` says so, and what a camera would see of it.

# %%
ROPE = """
format: 2
name: rope
time: {duration: 1, fps: 50, substeps: 8}
solver: {xpbd: {iterations: 4, integrator: bdf2}}
objects:
  rope:
    chain:
      {from: [0, 0, 0], to: [0, -0.6, 0], points: 5, mass: 0.3,
       material: {distance: {compliance: 0.02, damping: 10 ms}}}
    drag: 0.2
attachments: {top: {on: rope, where: {y: [-0.01, null]}}}
markers:
  dots: {on: rope, where: {y: [null, -0.1]}}
experiments:
  let_go: {}
  thrown: {set: {objects.rope.velocity: [1.5, 0, 0]}}
"""
(folder / "rope.yaml").write_text(ROPE)

# %% [markdown]
# ## Which one?
#
# In the plan only the first is fitted. `simopt design` tells what one more take of either would
# leave of each standard error, and how much larger they would be without one of the dots.

# %%
PLAN = """
format: 2
name: plan
include: [rope.yaml]
experiments:
  let_go: {target: {planned: {}, noise: 1 mm}}
  thrown: {use: predict, target: {planned: {}, noise: 1 mm}, set: {objects.rope.velocity: [1.5, 0, 0]}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-4, 1]}
  drag: {of: objects.rope.drag, transform: log, bounds: [1e-3, 10]}
loss: [{match: dots}]
optimize: {rollout: {checkpointed: {every: 20}}}
"""
(folder / "plan.yaml").write_text(PLAN)
simopt(["design", str(folder / "plan.yaml")])

# %% [markdown]
# ## How well?
#
# So both are made. `simopt rehearse` takes the guesses for the truth, makes recordings with the
# stated noise, fits each, and counts.

# %%
(folder / "plan.yaml").write_text(PLAN.replace("use: predict, ", ""))
simopt(["rehearse", str(folder / "plan.yaml"), "--takes", "50"])

# %% [markdown]
# ## The experiment
#
# The real rope is not quite what was guessed. Short steps and noise of the stated size play it.

# %%
TRUTH = {"compliance": 0.025, "drag": 0.3}  # m/N, 1/m
values = {"objects.rope.chain.material.distance.compliance": TRUTH["compliance"], "objects.rope.drag": TRUTH["drag"]}
real = sim.load_scene(folder / "rope.yaml", {**values, "time.substeps": 32}).build()
rng = np.random.default_rng(9)
for name, motion in real.simulate().items():
    seen = real.markers["dots"].at(motion.positions)
    take = sim.io.Recording(seen + rng.normal(scale=1e-3, size=seen.shape), motion.times)
    sim.io.write_recording(folder / f"rope.{name}.dots.csv", dots=take)

for name in ("let_go", "thrown"):
    PLAN = PLAN.replace("{planned: {}", f"{{file: rope.{name}.dots.csv", 1)
(folder / "made.yaml").write_text(PLAN.replace("use: predict, ", ""))
outcome = sim.identify.run_problem(sim.load_scene(folder / "made.yaml").build())
for name, true in TRUTH.items():
    row = outcome.result["parameters"][name]
    found, error = row["final"], row["standard_error"]
    print(f"{name}: found {found:.6f} +- {error:.6f}, true {true:g}: {(found - true) / error:+.1f} errors off")
    assert abs(found - true) < 3 * error
