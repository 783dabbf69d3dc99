"""Writes scenes/data/chain_target.npz: where the points of scenes/chain.yaml hang, from the closed form.

Link k of n, counted from the top, carries the points below it, m (n - k + 1) g, and gives by compliance times that.
"""

import argparse
from pathlib import Path

import numpy as np

import sim
from sim.io import Recording, write_recording

SCENES = Path(__file__).resolve().parent.parent / "scenes"


def hanging_points(scene: sim.Scene, compliance: float) -> np.ndarray:
    """Rest positions (n, 3) [m] of the points below the first one, for links of this compliance [m/N]."""
    chain, gravity = scene.get("objects.rope.chain"), np.array(scene.get("world.gravity"))
    links = chain["points"] - 1
    length = np.linalg.norm(np.subtract(chain["to"], chain["from"])) / links
    force = chain["mass"] / chain["points"] * np.linalg.norm(gravity) * np.arange(links, 0, -1)
    depth = np.cumsum(length + compliance * force)
    return np.array(chain["from"]) + depth[:, None] * gravity / np.linalg.norm(gravity)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compliance", type=float, default=0.01, help="of one link [m/N]")
    parser.add_argument("--out", type=Path, default=SCENES / "data" / "chain_target.npz")
    options = parser.parse_args()
    scene = sim.load_scene(SCENES / "chain.yaml")
    positions = np.stack([hanging_points(scene, options.compliance)] * 2)
    write_recording(options.out, links=Recording(positions, np.array([0.0, scene.get("time.duration")])))
    print(f"{options.out}: {positions.shape[1]} points")


if __name__ == "__main__":
    main()
