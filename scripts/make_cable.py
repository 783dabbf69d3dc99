"""Writes scenes/data/cable_markers.npz: the markers of scenes/cable.yaml on the true cable, and 0.5 mm of noise.

They are simulated with three times as many segments and steps of an eighth: as near to the cable itself as its rigid
segments and steps need be, so that a run which finds the truth does so in spite of its own.
"""

import argparse
from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"
ROD = "objects.cable.rod"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--young", type=float, default=50e6, help="true Young's modulus [Pa]")
    parser.add_argument("--damping", type=float, default=0.01, help="true ratio of damping to stiffness [s]")
    parser.add_argument("--noise", type=float, default=0.5e-3, help="standard deviation of one coordinate [m]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=SCENES / "data" / "cable_markers.npz")
    options = parser.parse_args()
    scene = sim.load_scene(SCENES / "cable.yaml")
    truth = {f"{ROD}.young": options.young, f"{ROD}.damping": options.damping}
    finer = {f"{ROD}.segments": 3 * scene.get(f"{ROD}.segments"), "time.substeps": 8 * scene.get("time.substeps")}
    scene = sim.load_scene(SCENES / "cable.yaml", overrides={**truth, **finer})
    problem = scene.without("experiments", "parameters", "loss", "expect").build(dtype=sim.float64)
    simulation = problem.simulate()["main"]
    seen = simulation.positions[:, problem.markers["dots"].points]
    noise = options.noise * np.random.default_rng(options.seed).normal(size=seen.shape)
    write_recording(options.out, dots=Recording(seen + noise, simulation.times))
    print(f"{options.out}: {seen.shape[0]} frames of {seen.shape[1]} markers, noise {options.noise:g} m")


if __name__ == "__main__":
    main()
