"""Identification problems that tests share: a mass on a spring, and two balls in flight."""

import numpy as np

import sim
from sim.identify.assess.estimate import estimate
from sim.io import Recording, write_recording
from tools.scenes.problems import write_scene, write_target

TRUTH, START = 0.02, 0.1
GROWING = "optimize: {horizon: [0.1, 0.3, all]}\n"
SPRING = """\
format: 1
name: spring
world: {gravity: [0, 0, 0]}
time: {duration: 1.2, fps: 30, substeps: 8}
objects:
  spring:
    velocity: [0, -1, 0]
    chain:
      from: [0, 0, 0]
      to: [0, -1, 0]
      points: 2
      mass: 0.2
      material: {distance: {compliance: 0.1 m/N}}
attachments:
  hold: {on: spring, where: {y: [-0.1, null]}}
markers:
  end: {on: spring, where: {y: [null, -0.9]}}
experiments:
  main: {target: {file: target.npz, key: end, noise: 5 mm}}
parameters:
  compliance: {of: objects.spring.chain.material.distance.compliance, transform: log, bounds: [1e-4, 10]}
loss:
  - {match: end}
"""
"""A mass on a spring, let go with a push: with a frequency that is wrong by a factor the whole record fits nowhere near
the truth."""


def spring(folder, more=""):
    write_target(
        folder, SPRING, key="end", noise=0.005, overrides={"objects.spring.chain.material.distance.compliance": TRUTH}
    )
    return sim.load_scene(write_scene(folder, SPRING + more)).build(dtype=sim.float64)


NOISE = 0.02
FLIGHT = """\
format: 1
world: {gravity: [0, 0, 0]}
time: {duration: 0.5, fps: 20, substeps: 4}
objects:
  balls:
    velocity: [0.1, 0.2, 0.3]
    particles: {positions: [[0, 0, 0], [1, 0, 0]], mass: 1}
markers:
  balls: {on: balls, where: {all: true}}
experiments:
  main: {target: {file: flight.npz, key: balls, noise: 20 mm}}
parameters:
  v: {of: objects.balls.velocity}
loss:
  - {match: balls}
"""


def write_flight(folder, frames=10, seed=0):
    times = (np.arange(frames) + 1) / 20
    seen = times[:, None, None] * np.array([0.5, 0.0, -0.5]) + np.array([[0, 0, 0], [1, 0, 0]])
    seen = seen + NOISE * np.random.default_rng(seed).normal(size=seen.shape)
    write_recording(folder / "flight.npz", balls=Recording(seen, times))


def flight(folder, text=FLIGHT, **options):
    write_flight(folder)
    (folder / "flight.yaml").write_text(text)
    return sim.load_scene(folder / "flight.yaml", **options).build(dtype=sim.float64)


def known(problem, x):
    found = estimate(problem, x, problem.simulate(x))
    assert not isinstance(found, str), found
    return found
