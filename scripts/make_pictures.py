"""Draws the pictures of the README: docs/cloth.png, the skirt of scenes/cloth.yaml before (wrong parameters) and after
(identified), and docs/throw.png, the flight of scenes/throw.yaml with the velocity that was found.

    python scripts/make_pictures.py
"""

from pathlib import Path

import numpy as np

import sim
from sim.geometry.raster import Ball, frame_camera, render, write_png

ROOT = Path(__file__).resolve().parent.parent
TRUTH = {"young": 20e3, "bend": 3000.0}  # what the markers were made with
FRAMES = (10, 40, 64)
VELOCITY = (2.7012, 3.2648, 0.71474)  # [m/s], as `simopt run scenes/throw.yaml` finds it


def cloth() -> None:
    problem = sim.load_scene(ROOT / "scenes/cloth.yaml").build()
    triangles = problem.model.tri_indices.numpy()
    x = problem.space.pack(TRUTH)
    takes = [next(iter(problem.simulate(at).values())).positions for at in (problem.start, x)]
    lower = np.concatenate([take[list(FRAMES)].reshape(-1, 3) for take in takes])
    camera = frame_camera(lower, direction=(0.7, 0.25, 1.0), up=(0, 1, 0), margin=1.05)
    ball = Ball(center=(0.0, 0.86, 0.02), radius=0.128, color=(0.62, 0.64, 0.70))
    rows = []
    for take, color in zip(takes, ((0.93, 0.60, 0.20), (0.24, 0.51, 0.96)), strict=True):
        pictures = [
            render(
                take[k],
                triangles,
                size=(420, 420),
                camera=camera,
                color=color,
                spheres=[ball],
                ground=float(lower[:, 1].min()) - 0.01,
            )
            for k in FRAMES
        ]
        rows.append(np.concatenate(pictures, axis=1))
    write_png(ROOT / "docs/cloth.png", np.concatenate(rows, axis=0))


def throw() -> None:
    problem = sim.load_scene(ROOT / "scenes/throw.yaml").build()
    x = problem.space.pack({"velocity": VELOCITY})
    flight = next(iter(problem.simulate(x).values())).positions
    chosen = flight[np.linspace(0, len(flight) - 1, 5).astype(int)]
    triangles = problem.model.tri_indices.numpy()
    bodies = np.concatenate([triangles + k * flight.shape[1] for k in range(len(chosen))])
    points = chosen.reshape(-1, 3)
    camera = frame_camera(points, direction=(-0.25, 0.15, 1.0), up=(0, 1, 0), margin=0.5)
    write_png(
        ROOT / "docs/throw.png", render(points, bodies, size=(1260, 620), camera=camera, color=(0.24, 0.51, 0.96))
    )


def main() -> None:
    cloth()
    throw()


if __name__ == "__main__":
    main()
