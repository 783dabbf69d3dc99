"""Writes scenes/data/contactnets_cube.npz, the centre of a tossed cube, and prints the experiments of scenes/cube.yaml.

S. Pfrommer, M. Halm, M. Posa, "ContactNets: Learning Discontinuous Contact Dynamics with Smooth, Implicit
Representations", CoRL 2020 (github.com/DAIRLab/contact-nets, BSD-3-Clause).  SOURCE is their processed tosses in one
file: `state` (frames, 13), position of the centre in half lengths of the cube, quaternion w x y z, velocity (backward
differences), angular velocity in the axes of the cube; `start`, the first frame of each toss; `half_width_m`, `dt`.
"""

import argparse
from pathlib import Path

import numpy as np

from sim.geometry import rotated
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"
FIRST = 1
"""The frame that a toss begins with: that before has no velocity."""
MOST = 100
"""Frames of a toss: then it lies still, or nearly."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the processed tosses")
    parser.add_argument("--count", type=int, default=12, help="tosses, half of them to fit")
    parser.add_argument("--seed", type=int, default=0, help="of which tosses are drawn")
    parser.add_argument("--gravity", type=float, default=9.61, help="[m/s^2]")
    options = parser.parse_args()
    source = np.load(options.source)
    start, half, dt = source["start"], float(source["half_width_m"]), float(source["dt"])
    chosen = sorted(np.random.default_rng(options.seed).choice(len(start) - 1, options.count, replace=False))
    takes = {}
    for k, toss in enumerate(chosen):
        states = source["state"][start[toss] : start[toss + 1]].astype(float)[FIRST : FIRST + MOST + 1]
        places = half * states[:, :3]
        takes[f"toss_{toss}"] = Recording(places[:, None], dt * np.arange(len(states)))
        # a backward difference is the velocity half a frame before
        velocity = half * states[0, 7:10] - [0, 0, 0.5 * options.gravity * dt]
        spin = rotated(states[0, [4, 5, 6, 3]], states[0, 10:13])
        w, *axis = states[0, 3:7]
        angle = 2 * np.arctan2(np.linalg.norm(axis), w)
        values = {"position": places[0], "velocity": velocity, "spin": spin}
        print(f"  toss_{toss}:")
        print(f"    use: {'fit' if k % 2 == 0 else 'predict'}")
        print(f"    target: {{<<: *take, key: toss_{toss}}}")
        print("    set:")
        print(f"      time.duration: {dt * (len(states) - 1):.8g}")
        for name, value in values.items():
            print(f"      objects.cube.{name}: [{', '.join(f'{v:.6g}' for v in value)}]")
        print(f"      objects.cube.rotation: {{axis: [{', '.join(f'{v:.6g}' for v in axis)}], angle: {angle:.6g}}}")
    write_recording(SCENES / "data" / "contactnets_cube.npz", **takes)


if __name__ == "__main__":
    main()
