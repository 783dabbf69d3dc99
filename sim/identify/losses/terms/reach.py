"""`reach`: markers that should arrive at a point."""

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
from sim.identify.data.experiments import Experiment, Markers
from sim.identify.data.motion import Motion
from sim.identify.losses.residuals import Residuals, single
from sim.identify.losses.terms.base import (
    REQUIRED,
    TIME_OR_LAST,
    Goal,
    MarkerTerm,
    PreparedTerm,
    TermContext,
    line,
    marker_line,
)
from sim.identify.losses.terms.kernels import marker_table, place_functions, vec3d
from sim.io.html import quantity
from sim.io.report_tracks import Track
from sim.model import Model
from sim.schema.containers import Table
from sim.schema.kinds import POSITIVE, Number, Tuple
from sim.schema.reading import SchemaLine


@dataclass(frozen=True)
class Reach(MarkerTerm):
    """Markers whose mean position should be at `point` [m] at a time: |mean - point|^2 / scale^2."""

    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    at: str | float = "last"
    scale: float = 1.0
    key: ClassVar[str] = "reach"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("reach", Table((
            marker_line("markers; their mean position is used"),
            line("point", Tuple(3, "m"), "where it should be", REQUIRED),
            line("at", TIME_OR_LAST, "when: a time, or last", "last"),
            line("scale", Number("m", POSITIVE), "the distance that counts as 1", REQUIRED),
        )), "markers that should arrive at a point"),
    )  # fmt: skip

    @classmethod
    def settings(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Where and when."""
        own = entry["reach"]
        return {"point": tuple(own["point"]), "at": own["at"], "scale": own["scale"]}

    def check_experiments(self, context: TermContext) -> None:
        """Experiments that end before its time."""
        self.check_moment(self.at, context)

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment."""
        return _PreparedReach(
            self, model, markers[self.markers], experiment.name, experiment.schedule.frame_at(self.at)
        )

    def lies_within(self, whole: Experiment, part: Experiment) -> bool:
        """Whether its moment does."""
        return whole.schedule.frame_at(self.at) < part.schedule.frames

    @property
    def goal(self) -> Goal:
        """Its point."""
        return Goal(self.markers, self.point)

    def goal_track(self, motion: Motion, markers: Mapping[str, Markers]) -> Track:
        """The centre of its markers, and its point."""
        after, before = (None if x is None else x.mean(axis=1, keepdims=True) for x in motion.at(markers[self.markers]))
        assert after is not None
        frame = motion.experiment.schedule.frame_at(self.at) + 1
        distance, when = float(np.linalg.norm(after[frame, 0] - np.array(self.point))), float(motion.times[frame])
        about = f"centre of {self.markers} and its goal"
        headings = [f"centre of {self.markers}: {quantity(distance, 'm')} from its goal at {when:.6g} s"]
        goals = [(when, self.point)]
        return Track(motion.experiment.name, about, motion.times, after, before, goals=goals, headings=headings)


class _PreparedReach:
    """A `Reach` for one experiment, with what its kernel reads on the device."""

    def __init__(self, term: Reach, model: Model, markers: Markers, experiment: str, frame: int) -> None:
        self.kernel, self.term, self.markers, self.experiment = _kernel(model.dtype), term, markers, experiment
        self.frame, self.table = frame, marker_table(model, markers)
        self.goal = array(np.array(term.point)[None], dtype=vec3d, device=model.device)

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(self.kernel, 1, [q, *self.table, self.frame, self.goal, self.term.scale, slot], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        mean = self.markers.at(positions[self.frame]).mean(axis=0)
        return single(self.term.name, self.experiment, (mean - np.array(self.term.point)) / self.term.scale, 1.0)


@cache
def _kernel(real: Scalar) -> Kernel:
    vec3 = vector(3, real)
    _, mean_place = place_functions(real)

    @kernel
    def reach(q: array2d[vec3], points: array2d[int], weights: array2d[float64], frame: int, goal: array[vec3d],
              scale: float64, slot: int, out: array[float64]):  # fmt: skip
        d = (mean_place(q, frame, points, weights) - goal[0]) / scale
        out[slot] = dot(d, d)

    return reach
