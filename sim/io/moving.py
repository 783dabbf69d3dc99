"""What moves in a picture: particles and rigid bodies frame by frame, and what is drawn on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim.files import Archive
from sim.io.run_folder import npz_bytes, write_atomically

NO_TRIANGLES = np.zeros((0, 3), np.int32)
NO_SEGMENTS = np.zeros((0, 2), np.int32)
STILL = np.array([0.0, 0, 0, 0, 0, 0, 1])
"""The pose of the world."""


@dataclass(frozen=True, eq=False)
class Frames:
    """Where everything is over time: positions of all points, particles and sites, (frames, n, 3) [m], times (frames,)
    [s], and poses of the origins of all rigid bodies (frames, bodies, 7): position [m] and quaternion x y z w."""

    positions: np.ndarray
    time: np.ndarray
    body_q: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 7)))

    def __post_init__(self) -> None:
        positions, time = (np.array(a, dtype=np.float64) for a in (self.positions, self.time))
        body_q = np.array(self.body_q, dtype=np.float64)
        body_q = body_q if body_q.size else np.zeros((len(positions), 0, 7))
        if positions.ndim != 3 or positions.shape[2] != 3 or body_q.ndim != 3 or body_q.shape[2] != 7:
            raise ValueError(
                f"positions of the shape {positions.shape}, poses of {body_q.shape}; expected (frames, particles, 3)"
                " and (frames, bodies, 7)"
            )
        if time.shape != (len(positions),) or len(body_q) != len(positions) or positions.size + body_q.size == 0:
            raise ValueError(f"{time.size} times for {len(positions)} frames of particles and {len(body_q)} of bodies")
        if not (np.isfinite(time).all() and (np.diff(time) > 0).all()):
            raise ValueError("the times of the frames do not increase")
        for name, value in (("positions", positions), ("time", time), ("body_q", body_q)):
            object.__setattr__(self, name, value)

    @property
    def frame_count(self) -> int:
        """Number of frames."""
        return len(self.time)

    @property
    def interval(self) -> float:
        """Typical time between two frames [s]: their median; 0 for a single frame."""
        return float(np.median(np.diff(self.time))) if self.frame_count > 1 else 0.0

    def every(self, step: int, first: int = 0) -> Frames:
        """Each so-many-th frame from a first one on."""
        return Frames(self.positions[first::step], self.time[first::step], self.body_q[first::step])

    @property
    def finite_frames(self) -> int:
        """How many frames there are before the first that is not finite: there the simulation broke down."""
        whole = np.isfinite(self.positions).all(axis=(1, 2)) & np.isfinite(self.body_q).all(axis=(1, 2))
        return len(whole) if whole.all() else int(np.argmin(whole))

    def first(self, count: int) -> Frames:
        """The first frames; at least one."""
        return Frames(self.positions[:count], self.time[:count], self.body_q[:count])


@dataclass(frozen=True, eq=False)
class Body:
    """Something to draw: place k is the sum over j of weights[k, j] times the position of point points[k, j].

    points: (n, width) int32; weights: (n, width) float64; triangles (m, 3) and segments (k, 2) int32, of places.
    """

    name: str
    points: np.ndarray
    weights: np.ndarray
    triangles: np.ndarray = field(default_factory=NO_TRIANGLES.copy)
    segments: np.ndarray = field(default_factory=NO_SEGMENTS.copy)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Places (..., n, 3) from positions of all particles (..., particles, 3)."""
        return np.einsum("nk,...nkx->...nx", self.weights, positions[..., self.points, :])

    def over(self, frames: Frames) -> np.ndarray:
        """Places (frames, n, 3)."""
        return self.at(frames.positions)


def body(
    name: str, particles: np.ndarray, triangles: np.ndarray = NO_TRIANGLES, segments: np.ndarray = NO_SEGMENTS
) -> Body:
    """A body of particles themselves: their numbers (n,); triangles and segments count from the first of them."""
    points = np.asarray(particles, np.int32).reshape(-1, 1)
    return Body(name, points, np.ones(points.shape), triangles.astype(np.int32), segments.astype(np.int32))


@dataclass(frozen=True, eq=False)
class Rigid:
    """Something to draw on rigid bodies: place k is points[k] in the frame of body bodies[k].

    bodies: (n,) int32, -1: the world; points: (n, 3) [m]; triangles (m, 3) and segments (k, 2) int32, of places; those
    of a triangle are on one body, a segment may link two.
    """

    name: str
    bodies: np.ndarray
    points: np.ndarray
    triangles: np.ndarray = field(default_factory=NO_TRIANGLES.copy)
    segments: np.ndarray = field(default_factory=NO_SEGMENTS.copy)

    def at(self, poses: np.ndarray) -> np.ndarray:
        """Places (..., n, 3) from poses of all bodies (..., bodies, 7); IndexError where one is missing."""
        world = np.broadcast_to(STILL, (*poses.shape[:-2], 1, 7))
        own = np.concatenate([world, poses], axis=-2)[..., self.bodies + 1, :]
        p, u, w, v = own[..., :3], own[..., 3:6], own[..., 6:], self.points
        t = 2.0 * np.cross(u, v)
        return p + v + w * t + np.cross(u, t)

    def over(self, frames: Frames) -> np.ndarray:
        """Places (frames, n, 3)."""
        return self.at(frames.body_q)


Drawn = Body | Rigid
"""What is drawn, and follows the frames of a run."""


def write_frames(path: str | os.PathLike[str], takes: Mapping[str, Frames]) -> Path:
    """Writes an npz, atomically: of each take `<name>`, `<name>_time` and `<name>_labels`, a recording of all particles
    as `load_recording` reads it, and `<name>_body_q` where there are bodies."""
    arrays: dict[str, np.ndarray] = {}
    for name, take in takes.items():
        labels = [str(k) for k in range(take.positions.shape[1])]
        arrays |= {name: take.positions, f"{name}_time": take.time, f"{name}_labels": np.array(labels, dtype=str)}
        if take.body_q.size:
            arrays[f"{name}_body_q"] = take.body_q
    return write_atomically(path, npz_bytes(arrays))


def read_frames(archive: Archive) -> dict[str, Frames]:
    """The opposite of `write_frames`.  Raises ValueError or FileError for arrays that are none."""
    bodies = {name: f"{name}_body_q" for name in archive.names if f"{name}_time" in archive}
    return {
        name: Frames(archive[name], archive[f"{name}_time"], *([archive[key]] if key in archive else []))
        for name, key in bodies.items()
    }
