"""npz: all positions and poses as arrays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.moving import Rigid
from sim.io.run_folder import npz_bytes, write_atomically
from sim.io.scenery import BODY_KEYS, RIGID_KEYS


class Npz(ExportFormat):
    """One file: `<experiment>` (frames, particles, 3) [m] and `<experiment>_time` [s]; `<experiment>.<markers>` and
    `<experiment>.<markers>_time`, a recording; `<body>.points`, `.weights`, `.triangles`, `.segments` as in
    `sim.io.Body`.

    Where there are rigid bodies `<experiment>_body_q` (frames, bodies, 7), position and quaternion x y z w, `bodies`,
    their names, and `<object>.bodies`, `.points`, `.triangles`, `.segments` as in `sim.io.Rigid`."""

    name = "npz"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """The one file."""
        return {f"{job.stem}.npz": partial(_write, job)}


def _write(job: ExportJob, path: Path) -> None:
    scenery, arrays = job.run.scenery, dict[str, np.ndarray]()
    for name, take in job.takes.items():
        arrays |= {name: take.positions, f"{name}_time": take.time}
        for markers, places in scenery.markers.items():  # with their times, as recordings are read
            arrays |= {f"{name}.{markers}": places.over(take), f"{name}.{markers}_time": take.time}
        if take.body_q.size:
            arrays[f"{name}_body_q"] = take.body_q
    for thing in scenery.drawn:
        keys = RIGID_KEYS if isinstance(thing, Rigid) else BODY_KEYS
        arrays |= {f"{thing.name}.{key}": getattr(thing, key) for key in keys}
    if scenery.labels:
        arrays["bodies"] = np.array(scenery.labels, dtype=str)
    write_atomically(path, npz_bytes(arrays))
