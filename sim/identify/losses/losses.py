"""Terms of a loss: kernels that compare a rollout with recordings.

All of them are dimensionless.  A `Match` is 1 where the simulation meets the recording up to its noise.
"""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.identify.data.experiments import Experiment, Markers, Schedule
from sim.identify.losses.residuals import Residuals, single
from sim.model import Model

vec3d = vector(3, float64)


class Measured(Protocol):
    """A term made ready for one experiment: launches kernels that leave its value in `out[slot]` (float64)."""

    def launch(self, q: array, out: array, slot: int) -> None:
        """q: (frames, points) vec3, the rollout."""

    def residuals(self, positions: np.ndarray) -> Residuals:
        """The same on the host, residual by residual.  positions: (frames, points, 3) [m]."""


@dataclass(frozen=True)
class Term:
    """What every term has: a name for the log, a weight, and the experiments that it counts (None: all fitted).

    has_residuals: whether it is a sum of squares whose residuals are known.  simulated: whether it looks at a
    simulation.
    """

    name: str
    weight: float = 1.0
    experiments: tuple[str, ...] | None = None
    has_residuals: ClassVar[bool] = True
    simulated: ClassVar[bool] = True

    def counts(self, experiment: Experiment) -> bool:
        """Whether the experiment enters the term."""
        return experiment.fit and (self.experiments is None or experiment.name in self.experiments)

    def lies_within(self, whole: Experiment, short: Experiment) -> bool:
        """Whether what the term looks at in an experiment is there in the first part of it.  By default it looks at
        everything."""
        return short.schedule.frames == whole.schedule.frames


@dataclass(frozen=True)
class Match(Term):
    """Markers that should follow the recording.

    The mean over frames, markers and axes of rho((x - target) / noise), rho(r) = r^2, or beyond `huber` its tangent.
    compare: "position"; "displacement" from the first frame in which the marker counts; "velocity": the step from one
    frame to the next, whose noise is sqrt(2) times as large.  at: frames that count: "all", "last" or (t0, t1) [s].
    """

    markers: str = ""
    compare: str = "position"
    at: str | tuple[float, float] = "all"
    huber: float = math.inf

    def counted(self, experiment: Experiment) -> tuple[np.ndarray, np.ndarray]:
        """Where a recording is compared (frames, markers) bool, and each marker's first frame that is used
        (markers,)."""
        frames, target = chosen_frames(experiment.schedule, self.at), experiment.targets[self.markers]
        counted = np.zeros(target.seen.shape, bool)
        counted[frames] = target.seen[frames]
        first = np.argmax(counted, axis=0)
        if self.compare == "displacement":
            counted[first, np.arange(len(first))] = False
        elif self.compare == "velocity":
            counted[1:] &= target.seen[:-1]
            counted[0] = False
        return counted, first

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> Measured:
        """The term for one experiment.  Raises ValueError where nothing is left to compare."""
        target = experiment.targets[self.markers]
        frames, used, reference = self._compared(experiment)
        if not used.any():
            raise ValueError(f"no marker of `{self.markers}` is seen in a frame that counts")
        wanted, noise = target.positions[frames], target.noise
        relative = reference >= 0
        marker = np.broadcast_to(np.arange(used.shape[1]), used.shape)
        wanted[relative] -= target.positions[reference[relative], marker[relative]]
        if self.compare == "velocity":
            noise = noise * math.sqrt(2.0)
        weight = used / (3.0 * used.sum())
        wanted = np.where(used[..., None], wanted, 0.0)
        return _PreparedMatch(
            self, model, markers[self.markers], experiment.name, frames, reference, wanted, weight, noise
        )

    def lies_within(self, whole: Experiment, short: Experiment) -> bool:
        """Whether a marker is seen in a frame that counts; the last frame is that of the whole experiment."""
        if self.at == "last" and short.schedule.frames < whole.schedule.frames:
            return False
        try:
            return bool(self._compared(short)[1].any())
        except ValueError:
            return False

    def _compared(self, experiment: Experiment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The frames that count (k,), which observations of them do (k, markers), and the frame that each is relative
        to, -1: none."""
        target = experiment.targets[self.markers]
        frames = chosen_frames(experiment.schedule, self.at)
        used = target.seen[frames]
        count = used.shape[1]
        reference = np.full(used.shape, -1, np.int32)
        if self.compare == "displacement":
            first = np.argmax(used, axis=0)
            reference = np.broadcast_to(frames[first], used.shape).astype(np.int32)
            used[first, np.arange(count)] = False  # zero by construction: it says nothing
        elif self.compare == "velocity":
            before = np.maximum(frames - 1, 0)
            used &= target.seen[before] & (frames > 0)[:, None]
            reference = np.repeat(before[:, None], count, axis=1).astype(np.int32)
        return frames, used, reference


@dataclass(frozen=True)
class Reach(Term):
    """Markers whose mean position should be at `point` [m] at a time: |mean - point|^2 / scale^2."""

    markers: str = ""
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    at: str | float = "last"
    scale: float = 1.0

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> Measured:
        """The term for one experiment."""
        frame = frame_at(experiment.schedule, self.at)
        return _PreparedReach(self, model, markers[self.markers], experiment.name, frame)

    def lies_within(self, whole: Experiment, short: Experiment) -> bool:
        """Whether its moment does."""
        return frame_at(whole.schedule, self.at) < short.schedule.frames


@dataclass(frozen=True)
class Slow(Term):
    """Markers whose mean should be slow at a time: |v|^2 / scale^2, v from the frame there and the one before [m/s]."""

    markers: str = ""
    at: str | float = "last"
    scale: float = 1.0

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> Measured:
        """The term for one experiment.  Raises ValueError where it has a single frame."""
        schedule = experiment.schedule
        if schedule.frames < 2:
            raise ValueError("a velocity needs two frames")
        return _PreparedSlow(
            self, model, markers[self.markers], experiment.name, max(1, frame_at(schedule, self.at)), schedule.fps
        )

    def lies_within(self, whole: Experiment, short: Experiment) -> bool:
        """Whether its moment does."""
        return max(1, frame_at(whole.schedule, self.at)) < short.schedule.frames


def frame_at(schedule: Schedule, at: str | float) -> int:
    """Number of the frame nearest to a time [s], or of the last one ("last")."""
    if isinstance(at, str):
        return schedule.frames - 1
    return int(np.clip(round(at * schedule.fps) - 1, 0, schedule.frames - 1))


def chosen_frames(schedule: Schedule, at: str | tuple[float, float]) -> np.ndarray:
    """Numbers (k,) int32 of the frames that count.  Raises ValueError if a span of time holds none."""
    frames = np.arange(schedule.frames, dtype=np.int32)
    if at == "all":
        return frames
    if at == "last":
        return frames[-1:]
    low, high = (float(t) for t in at)
    tolerance = 1e-6 / schedule.fps
    inside = (schedule.times >= low - tolerance) & (schedule.times <= high + tolerance)
    if not inside.any():
        raise ValueError(f"no frame lies between {low:g} s and {high:g} s; the last is at {schedule.times[-1]:g} s")
    return frames[inside]


class _PreparedMatch:
    """A `Match` for one experiment, with what its kernels read on the device."""

    def __init__(
        self,
        term: Match,
        model: Model,
        markers: Markers,
        experiment: str,
        frames: np.ndarray,
        reference: np.ndarray,
        wanted: np.ndarray,
        weight: np.ndarray,
        noise: float,
    ) -> None:
        device = model.device
        self.kernels, self.term, self.markers, self.experiment, self.noise = (
            _kernels(model.dtype),
            term,
            markers,
            experiment,
            noise,
        )
        self.points, self.weights = _table(model, markers)
        self.frames = array(frames, dtype=int, device=device)
        self.reference = array(reference, dtype=int, device=device)
        self.wanted = array(wanted, dtype=vec3d, device=device)
        self.weight = array(weight, dtype=float64, device=device)
        self.parts = zeros(weight.shape, float64, device, requires_grad=True)

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(
            self.kernels.compare,
            self.parts.shape,
            [
                q,
                self.points,
                self.weights,
                self.frames,
                self.reference,
                self.wanted,
                self.weight,
                self.noise,
                self.term.huber,
            ],
            [self.parts],
        )
        launch(self.kernels.add_up, 1, [self.parts, slot], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        followed = self.markers.at(positions)
        frames, reference, weight = self.frames.numpy(), self.reference.numpy(), self.weight.numpy()
        moved = followed[frames]
        relative = reference >= 0
        marker = np.broadcast_to(np.arange(reference.shape[1]), reference.shape)
        moved[relative] -= followed[reference[relative], marker[relative]]
        values = np.where(weight[..., None] > 0, (moved - self.wanted.numpy()) / self.noise, 0.0)
        share = math.sqrt(0.5) if self.term.compare == "velocity" else 1.0
        return Residuals(
            self.term.name,
            self.experiment,
            values,
            weight,
            frames,
            reference,
            self.markers.name,
            self.noise,
            self.term.huber,
            share,
        )


class _PreparedReach:
    """A `Reach` for one experiment, with what its kernel reads on the device."""

    def __init__(self, term: Reach, model: Model, markers: Markers, experiment: str, frame: int) -> None:
        self.kernels, self.term, self.markers, self.experiment = _kernels(model.dtype), term, markers, experiment
        self.frame = frame
        self.points, self.weights = _table(model, markers)
        self.goal = array(np.array(term.point)[None], dtype=vec3d, device=model.device)

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(
            self.kernels.reach, 1, [q, self.points, self.weights, self.frame, self.goal, self.term.scale, slot], [out]
        )

    def residuals(self, positions: np.ndarray) -> Residuals:
        mean = self.markers.at(positions[self.frame]).mean(axis=0)
        return single(self.term.name, self.experiment, (mean - np.array(self.term.point)) / self.term.scale, 1.0)


class _PreparedSlow:
    """A `Slow` for one experiment, with what its kernel reads on the device."""

    def __init__(self, term: Slow, model: Model, markers: Markers, experiment: str, frame: int, fps: float) -> None:
        self.kernels, self.term, self.markers, self.experiment = _kernels(model.dtype), term, markers, experiment
        self.frame, self.fps = frame, fps
        self.points, self.weights = _table(model, markers)

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(self.kernels.slow, 1, [q, self.points, self.weights, self.frame, self.fps, self.term.scale, slot], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        means = self.markers.at(positions[self.frame - 1 : self.frame + 1]).mean(axis=1)
        return single(self.term.name, self.experiment, (means[1] - means[0]) * self.fps / self.term.scale, 1.0)


@dataclass(frozen=True)
class _Kernels:
    compare: Kernel
    add_up: Kernel
    reach: Kernel
    slow: Kernel


def _table(model: Model, markers: Markers) -> tuple[array, array]:
    points, weights = markers.table
    return array(points, dtype=int, device=model.device), array(weights, dtype=float64, device=model.device)


@cache
def _kernels(real: Scalar) -> _Kernels:
    """The kernels for rollouts in float32 or float64; what they sum is float64 in any case.

    No atomics: the sums have one order, so that a resumed run meets the same bits.
    """
    vec3 = vector(3, real)

    @func
    def place(q: array2d[vec3], frame: int, points: array2d[int], weights: array2d[float64], m: int):
        at = vec3d()
        for j in range(points.shape[1]):
            p = q[frame, points[m, j]]
            at = at + weights[m, j] * vec3d(float64(p[0]), float64(p[1]), float64(p[2]))
        return at

    @func
    def mean_place(q: array2d[vec3], frame: int, points: array2d[int], weights: array2d[float64]):
        at = vec3d()
        for m in range(points.shape[0]):
            at = at + place(q, frame, points, weights, m)
        return at / float64(points.shape[0])

    @kernel
    def compare(
        q: array2d[vec3],
        points: array2d[int],
        weights: array2d[float64],
        frames: array[int],
        reference: array2d[int],
        wanted: array2d[vec3d],
        weight: array2d[float64],
        noise: float64,
        huber: float64,
        parts: array2d[float64],
    ):
        k, m = tid()
        d = place(q, frames[k], points, weights, m) - wanted[k, m]
        if reference[k, m] >= 0:
            d = d - place(q, reference[k, m], points, weights, m)
        total = float64(0.0)
        for axis in range(3):
            r = abs(d[axis]) / noise
            if r <= huber:
                total = total + r * r
            else:
                total = total + huber * (2.0 * r - huber)
        parts[k, m] = weight[k, m] * total

    @kernel
    def add_up(parts: array2d[float64], slot: int, out: array[float64]):
        total = float64(0.0)
        for k in range(parts.shape[0]):
            for m in range(parts.shape[1]):
                total = total + parts[k, m]
        out[slot] = total

    @kernel
    def reach(
        q: array2d[vec3],
        points: array2d[int],
        weights: array2d[float64],
        frame: int,
        goal: array[vec3d],
        scale: float64,
        slot: int,
        out: array[float64],
    ):
        d = (mean_place(q, frame, points, weights) - goal[0]) / scale
        out[slot] = dot(d, d)

    @kernel
    def slow(
        q: array2d[vec3],
        points: array2d[int],
        weights: array2d[float64],
        frame: int,
        fps: float64,
        scale: float64,
        slot: int,
        out: array[float64],
    ):
        step = mean_place(q, frame, points, weights) - mean_place(q, frame - 1, points, weights)
        v = step * (fps / scale)
        out[slot] = dot(v, v)

    return _Kernels(compare, add_up, reach, slow)
