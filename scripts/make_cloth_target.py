"""Writes scenes/data/cloth_markers.npz: the markers of scenes/cloth.yaml with the true fabric, and 1 mm of noise.

They are simulated with steps of a quarter and four times the iterations of the scene: as near to the fabric itself as
steps need be, so that a run which finds the truth does so in spite of its own steps.
"""

import argparse
from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"
MATERIAL = "objects.skirt.cloth.material"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--young", type=float, default=20e3, help="true Young's modulus [Pa]")
    parser.add_argument("--bend", type=float, default=3000.0, help="true bending compliance [1/(N m)]")
    parser.add_argument("--noise", type=float, default=1e-3, help="standard deviation of one coordinate [m]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=SCENES / "data" / "cloth_markers.npz")
    options = parser.parse_args()
    scene = sim.load_scene(SCENES / "cloth.yaml")
    truth = {f"{MATERIAL}.membrane_stvk.young": options.young, f"{MATERIAL}.bend.compliance": options.bend}
    finer = {"time.substeps": 4 * scene.get("time.substeps"), "optimize.horizon": ["all"]}
    finer["solver.xpbd.iterations"] = 4 * scene.get("solver.xpbd.iterations")
    scene = sim.load_scene(SCENES / "cloth.yaml", overrides={**truth, **finer})
    problem = scene.without("experiments", "parameters", "loss", "expect", "optimize").build(dtype=sim.float64)
    simulation = problem.simulate()["main"]
    seen = simulation.positions[:, problem.markers["fabric"].points]
    noise = options.noise * np.random.default_rng(options.seed).normal(size=seen.shape)
    write_recording(options.out, fabric=Recording(seen + noise, simulation.times))
    print(f"{options.out}: {seen.shape[0]} frames of {seen.shape[1]} markers, noise {options.noise:g} m")


if __name__ == "__main__":
    main()
