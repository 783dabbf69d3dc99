"""What is simulated and what it is compared with: time grids, markers, targets, experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.core.lang.errors import SimError
from sim.identify.data.angles import AngleTarget
from sim.identify.data.registration import Registration


@dataclass(frozen=True)
class TimeGrid:
    """Time steps of one experiment: `frames` frames at `fps` [Hz], each of `substeps` steps of the solver.

    Frame k is the state at the time (k + 1) / fps; the start, which nothing can change, is no frame.
    """

    frames: int
    fps: float
    substeps: int

    @property
    def steps(self) -> int:
        """Steps of the solver in all."""
        return self.frames * self.substeps

    @property
    def dt(self) -> float:
        """Length of one step [s]."""
        return 1.0 / (self.fps * self.substeps)

    @property
    def times(self) -> np.ndarray:
        """Time of each frame (frames,) [s]."""
        return (np.arange(self.frames) + 1.0) / self.fps

    def frame_at(self, at: str | float) -> int:
        """Number of the frame nearest to a time [s], or of the last one ("last")."""
        if isinstance(at, str):
            return self.frames - 1
        return int(np.clip(round(at * self.fps) - 1, 0, self.frames - 1))

    def frames_at(self, at: str | tuple[float, float]) -> np.ndarray:
        """Numbers (k,) int32 of the frames that count: "all", the "last", or those in (t0, t1) [s].

        Raises ValueError if a span of time holds none.
        """
        frames = np.arange(self.frames, dtype=np.int32)
        if at == "all":
            return frames
        if at == "last":
            return frames[-1:]
        low, high = (float(t) for t in at)
        tolerance = 1e-6 / self.fps
        inside = (self.times >= low - tolerance) & (self.times <= high + tolerance)
        if not inside.any():
            raise ValueError(f"no frame lies between {low:g} s and {high:g} s; the last is at {self.times[-1]:g} s")
        return frames[inside]


@dataclass(frozen=True, eq=False)
class Markers:
    """Places that are observed: place k is the sum over j of weights[k, j] times the position of particle points[k, j].

    of: the object.  points: (n, width) int32, or (n,) for particles themselves; weights: (n, width) float64, which add
    up to 1 for each place, None for particles.
    """

    name: str
    of: str
    points: np.ndarray
    weights: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Number of places."""
        return len(self.points)

    @property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, width) int32 and weights (n, width), whatever they were given as."""
        points = self.points.reshape(self.count, -1).astype(np.int32)
        return points, np.ones(points.shape) if self.weights is None else self.weights

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Places (..., n, 3) from positions of all particles (..., particles, 3)."""
        points, weights = self.table
        return np.einsum("nk,...nkx->...nx", weights, positions[..., points, :])


@dataclass(frozen=True, eq=False)
class Target:
    """Where markers were seen, sampled at the frames of the experiment.

    positions: (frames, markers, 3) float64 [m]; NaN in all three components where a marker was not seen.
    noise: standard deviation [m] of one coordinate, of each axis (3,), or of each marker and axis (markers, 3).
    start: (markers, 3), where they were at t = 0, NaN if not seen then.
    estimated: whose noise is found with the parameters, `noise` being a guess: "all" (one number), "axes" or "markers"
    (one for each); "": it is known.
    planned: nothing was recorded yet; positions say which markers would be seen when, and lie where they are at the
    start.
    """

    positions: np.ndarray
    noise: float | np.ndarray
    start: np.ndarray | None = None
    estimated: str = ""
    planned: bool = False

    @property
    def seen(self) -> np.ndarray:
        """(frames, markers) bool."""
        return np.isfinite(self.positions[..., 0])

    @property
    def deviations(self) -> np.ndarray:
        """The noise of each marker and axis, (markers, 3) [m]."""
        found: np.ndarray = np.broadcast_to(self.noise, self.positions.shape[1:])
        return found

    @property
    def typical_noise(self) -> float:
        """Root mean square of all of them [m]."""
        return float(np.sqrt(np.mean(self.deviations**2)))


class NothingRecorded(SimError, ValueError):
    """A take that is only planned cannot be compared with anything."""

    def __init__(self, experiment: str) -> None:
        super().__init__(
            f"experiments.{experiment}.target: the take is only `planned`: nothing is there to fit or to compare with\n"
            "  `simopt rehearse` and `simopt design` say what it would tell, `simopt run --simulate` what happens in"
            " it; else make it `use: predict`, or give its `file`"
        )


@dataclass(frozen=True, eq=False)
class Experiment:
    """One take of the common model.

    fit: whether the loss counts it.  settings: material path -> value that differs from the model's, in the shape of
    the array.  targets, angles: name of the markers -> recording of them, or of the angle of their line.
    registration: what is not known of how the targets lie in time and space.  relaxed: whether it begins at rest under
    the loads, and not where the model has its points.
    """

    name: str
    schedule: TimeGrid
    fit: bool = True
    settings: Mapping[str, np.ndarray] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    angles: Mapping[str, AngleTarget] = field(default_factory=dict)
    registration: Registration | None = None
    relaxed: bool = False

    @property
    def planned(self) -> bool:
        """Whether nothing of it has been recorded yet."""
        return any(target.planned for target in self.targets.values())

    def recorded_frames_at(self, at: str | tuple[float, float]) -> np.ndarray:
        """Numbers (k,) of the frames of targets that count: "all", the "last" of the simulation if it is among them, or
        those in (t0, t1) [s] of its clock.  Raises ValueError if a span of time holds none."""
        frames = self.schedule.frames_at(at)
        if self.registration is None or at == "all":
            return frames
        frames = frames + np.int32(self.registration.lead)
        return frames[frames < self.schedule.frames]

    def __repr__(self) -> str:
        seen = [f"{name} ({t.positions.shape[1]} markers)" for name, t in self.targets.items()]
        seen += [f"angle of {name}" for name in self.angles]
        return (
            f"Experiment({self.name}, {'fit' if self.fit else 'predict'}: {self.schedule.frames} frames at"
            f" {self.schedule.fps:g} Hz, {', '.join(seen) or 'no recording'})"
        )


@dataclass(frozen=True, eq=False)
class Simulation:
    """What one experiment does: positions (frames, points, 3) [m] of all points at `times` [s]; `start` at t = 0.

    body_q: poses (frames, bodies, 7) of the origins of all bodies; body_start (bodies, 7) at t = 0.
    """

    experiment: Experiment
    times: np.ndarray
    positions: np.ndarray
    start: np.ndarray
    body_q: np.ndarray
    body_start: np.ndarray

    @property
    def poses_from_start(self) -> np.ndarray:
        """Poses (frames + 1, bodies, 7): at t = 0, then those of the frames."""
        return np.concatenate([self.body_start[None], self.body_q])

    def __repr__(self) -> str:
        bodies = f" and {self.body_start.shape[0]} bodies" if self.body_start.size else ""
        return (
            f"Simulation({self.experiment.name}: {len(self.times)} frames of {self.start.shape[0]} points{bodies},"
            f" up to t={self.times[-1]:g} s)"
        )


def group_by_rollout(experiments: Sequence[Experiment], own: bool) -> list[list[Experiment]]:
    """Experiments that differ in nothing but their targets share a rollout; none does if each has `own` parameters."""
    groups: dict[object, list[Experiment]] = {}
    for experiment in experiments:
        settings = tuple(sorted((path, value.tobytes()) for path, value in experiment.settings.items()))
        key = experiment.name if own else (experiment.schedule, experiment.relaxed, settings)
        groups.setdefault(key, []).append(experiment)
    return list(groups.values())
