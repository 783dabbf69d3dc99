"""Writes `scenes/data/slide.npz`: where a block is that slides to rest, by the closed form, with noise.

A block with velocity v on a table with a coefficient of friction mu slows down by mu g: it is at v t - mu g t^2 / 2
until it stops after v / (mu g).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim.io import Recording, write_recording

FRICTION, SPEED, G = 0.3, 2.1, 9.81
RATE, SECONDS, NOISE = 60, 1.0, 0.5e-3


def main() -> None:
    rng = np.random.default_rng(7)
    time = np.arange(round(SECONDS * RATE) + 1) / RATE
    sliding = np.minimum(time, SPEED / (FRICTION * G))
    block = np.zeros((len(time), 1, 3))
    block[:, 0, 0] = SPEED * sliding - 0.5 * FRICTION * G * sliding**2
    block[:, 0, 1] = 0.02
    block += NOISE * rng.normal(size=block.shape)
    path = Path(__file__).parents[1] / "scenes" / "data" / "slide.npz"
    write_recording(path, block=Recording(block, time))
    print(f"written: {path}")


if __name__ == "__main__":
    main()
