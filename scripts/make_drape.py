"""Writes `scenes/data/drape.npz`: the markers of scenes/drape.yaml with the true values, with noise.

They are simulated with the steps and the mesh of the scene: a sheet that buckles follows both, and what is sought here
are the values, not how well steps and mesh resolve it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"
TRUTH = {"objects.block.body.shapes.box.friction": 0.45, "objects.cloth.cloth.material.bend.compliance": 1.2e4}
NOISE = 2e-3


def main() -> None:
    scene = sim.load_scene(SCENES / "drape.yaml", overrides=TRUTH)
    problem = scene.without("experiments", "parameters", "loss", "expect", "optimize").build(dtype=sim.float64)
    simulation = problem.simulate()["main"]
    seen = simulation.positions[:, problem.markers["fabric"].points]
    noise = NOISE * np.random.default_rng(3).normal(size=seen.shape)
    path = SCENES / "data" / "drape.npz"
    write_recording(path, fabric=Recording(seen + noise, simulation.times))
    print(f"written: {path}, {seen.shape[0]} frames of {seen.shape[1]} markers")


if __name__ == "__main__":
    main()
