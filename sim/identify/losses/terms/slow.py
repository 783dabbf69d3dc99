"""`slow`: markers that should be slow at a time."""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from sim.core.lang.library.vector import dot
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.identify.data.experiments import Experiment, Markers, TimeGrid
from sim.identify.data.motion import Motion
from sim.identify.losses.residuals import Residuals, single
from sim.identify.losses.terms.base import (
    REQUIRED,
    TIME_OR_LAST,
    MarkerTerm,
    PreparedTerm,
    TermContext,
    line,
    marker_line,
)
from sim.identify.losses.terms.kernels import marker_table, place_functions
from sim.io.html import quantity
from sim.io.report_tracks import Track
from sim.model import Model
from sim.schema.containers import Table
from sim.schema.kinds import POSITIVE, Number
from sim.schema.reading import SchemaLine


@dataclass(frozen=True)
class Slow(MarkerTerm):
    """Markers whose mean should be slow at a time: |v|^2 / scale^2, v from the frame there and the one before [m/s]."""

    at: str | float = "last"
    scale: float = 1.0
    key: ClassVar[str] = "slow"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("slow", Table((
            marker_line("markers; the velocity of their mean position is used"),
            line("at", TIME_OR_LAST, "when: a time, or last", "last"),
            line("scale", Number("m/s", POSITIVE), "the speed that counts as 1", REQUIRED),
        )), "markers that should be slow"),
    )  # fmt: skip

    @classmethod
    def settings(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """When, and how slow."""
        return {"at": entry["slow"]["at"], "scale": entry["slow"]["scale"]}

    def check_experiments(self, context: TermContext) -> None:
        """Experiments that end before its time, or are too short."""
        self.check_moment(self.at, context)
        for experiment in filter(self.counts, context.experiments):
            if experiment.schedule.frames < 2:
                what = f"a velocity takes two frames, and `{experiment.name}` has one"
                context.problem("slow", what, "raise its `time.duration` or `time.fps`")

    def frame(self, schedule: TimeGrid) -> int:
        """The frame that counts; the velocity is that since the one before."""
        return max(1, schedule.frame_at(self.at))

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment.  Raises ValueError where it has a single frame."""
        schedule = experiment.schedule
        if schedule.frames < 2:
            raise ValueError("a velocity needs two frames")
        return _PreparedSlow(self, model, markers[self.markers], experiment.name, self.frame(schedule), schedule.fps)

    def lies_within(self, whole: Experiment, part: Experiment) -> bool:
        """Whether its moment does."""
        return self.frame(whole.schedule) < part.schedule.frames

    def goal_track(self, motion: Motion, markers: Mapping[str, Markers]) -> Track:
        """The speed of the centre of its markers."""
        schedule = motion.experiment.schedule
        after, before = (
            None if x is None else np.linalg.norm(np.diff(x.mean(axis=1), axis=0), axis=1)[:, None, None] * schedule.fps
            for x in motion.at(markers[self.markers])
        )
        assert after is not None
        frame = self.frame(schedule)
        speed, when = float(after[frame, 0, 0]), float(schedule.times[frame])
        name, about, goals = motion.experiment.name, f"speed of the centre of {self.markers}", [(when, (0.0,))]
        headings = [f"centre of {self.markers}: {quantity(speed, 'm/s')} at {when:.6g} s"]
        return Track(
            name, about, schedule.times, after, before, axes=("speed",), unit="m/s", goals=goals, headings=headings
        )


class _PreparedSlow:
    """A `Slow` for one experiment, with what its kernel reads on the device."""

    def __init__(self, term: Slow, model: Model, markers: Markers, experiment: str, frame: int, fps: float) -> None:
        self.kernel, self.term, self.markers, self.experiment = _kernel(model.dtype), term, markers, experiment
        self.frame, self.fps, self.table = frame, fps, marker_table(model, markers)

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(self.kernel, 1, [q, *self.table, self.frame, self.fps, self.term.scale, slot], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        means = self.markers.at(positions[self.frame - 1 : self.frame + 1]).mean(axis=1)
        return single(self.term.name, self.experiment, (means[1] - means[0]) * self.fps / self.term.scale, 1.0)


@cache
def _kernel(real: Scalar) -> Kernel:
    vec3 = vector(3, real)
    _, mean_place = place_functions(real)

    @kernel
    def slow(q: array2d[vec3], points: array2d[int], weights: array2d[float64], frame: int, fps: float64,
             scale: float64, slot: int, out: array[float64]):  # fmt: skip
        step = mean_place(q, frame, points, weights) - mean_place(q, frame - 1, points, weights)
        v = step * (fps / scale)
        out[slot] = dot(v, v)

    return slow
