"""Writes scenes/data/cloth_markers.npz: the markers of scenes/cloth.yaml with the true fabric, and 1 mm of noise."""

import argparse
from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"
MATERIAL = "objects.skirt.cloth.material"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretch", type=float, default=0.01, help="true membrane compliance [m/N]")
    parser.add_argument("--bend", type=float, default=1000.0 / 3.0, help="true bending compliance [1/(N m)]")
    parser.add_argument("--noise", type=float, default=1e-3, help="standard deviation of one coordinate [m]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=SCENES / "data" / "cloth_markers.npz")
    options = parser.parse_args()
    truth = {f"{MATERIAL}.distance.compliance": options.stretch, f"{MATERIAL}.bend.compliance": options.bend}
    scene = sim.load_scene(SCENES / "cloth.yaml", overrides=truth)
    problem = scene.without("experiments", "parameters", "loss", "expect").build(dtype=sim.float64)
    simulation = problem.simulate()["main"]
    seen = simulation.positions[:, problem.markers["fabric"].points]
    noise = options.noise * np.random.default_rng(options.seed).normal(size=seen.shape)
    write_recording(options.out, fabric=Recording(seen + noise, simulation.times))
    print(f"{options.out}: {seen.shape[0]} frames of {seen.shape[1]} markers, noise {options.noise:g} m")


if __name__ == "__main__":
    main()
