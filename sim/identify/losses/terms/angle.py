"""`angle`: how far a line between two markers turns, as an encoder in a hinge measures it.

Dimensionless: 1 where the simulation meets the recording up to its noise.
"""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from sim.constraints.slots.rotations import nearest_angle
from sim.core.lang.frontend.builtins import atan2
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.identify.data.angles import AngleTarget
from sim.identify.data.experiments import Experiment, Markers
from sim.identify.data.motion import Motion
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import (
    REQUIRED,
    Draft,
    MarkerTerm,
    PreparedTerm,
    TermContext,
    line,
    marker_line,
)
from sim.identify.losses.terms.kernels import marker_table, place_functions, vec3d
from sim.io.report_tracks import Track
from sim.model import Model
from sim.schema.containers import Table, Union
from sim.schema.kinds import NameOf, Tuple
from sim.schema.reading import SchemaLine

Direction = tuple[float, float, float]


@dataclass(frozen=True)
class Angle(MarkerTerm):
    """The angle of the line from the first to the second of two markers, which should follow the recording.

    The mean over frames of ((angle - target) / noise)^2.  It is measured about `about`, from a direction, or from the
    line of another two markers, and counts whole turns: in the first frame that was recorded it is within half a turn
    of the recording, and from frame to frame it moves by less than that.
    """

    about_axis: Direction = (0.0, 0.0, 1.0)
    zero: Direction | str = (1.0, 0.0, 0.0)
    compares_recordings: ClassVar[bool] = True
    key: ClassVar[str] = "angle"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("angle", Table((
            marker_line("two markers: the line from the first to the second"),
            line("about", Tuple(3, nonzero=True), "axis in the world; angles are positive by the right-hand rule",
                 REQUIRED),
            line("from", Union((Tuple(3, nonzero=True), NameOf("markers"))),
                 "where the angle is 0: a direction, or two other markers, whose line may turn, too", REQUIRED),
        )), "a line between two markers that should turn as recorded, `experiments.<name>.angles`"),
    )  # fmt: skip

    @classmethod
    def check(cls, draft: Draft) -> None:
        """The axis leaves an angle, and what is fitted has a recording."""
        super().check(draft)
        own = draft.entry.get("angle", {})
        zero = own.get("from")
        if "about" in own and isinstance(zero, list) and not np.linalg.norm(np.cross(own["about"], zero)) > 1e-9:
            draft.problem("the axis has the direction from which the angle counts", at=("angle", "from"))
        cls.needs_recording(draft, "angles", "recording of angles")

    @classmethod
    def settings(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """About which axis, and from where."""
        own = entry["angle"]
        zero = own["from"]
        return {"about_axis": tuple(own["about"]), "zero": zero if isinstance(zero, str) else tuple(zero)}

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Self]:
        """As every term of markers; notes what is only known once markers are made and recordings are read."""
        terms = super().build(entry, name, context)
        for term in terms:
            for key, markers in (("marker", term.markers), ("from", term.zero)):
                if isinstance(markers, str) and markers in context.markers and context.markers[markers].count != 2:
                    what = f"`{markers}` has {context.markers[markers].count} markers; a line is between two"
                    context.problem(f"angle.{key}", what, "choose two points")
            if isinstance(term.zero, str) and term.zero not in context.markers:
                return []  # they could not be made
            for e in filter(term.counts, context.experiments):
                if e.angles and term.markers not in e.angles:
                    what = f"the recording of `{e.name}` has no angle `{term.markers}`"
                    context.problem("angle.marker", what, f"name its column in `experiments.{e.name}.angles.columns`")
        return terms

    def is_defined_for(self, experiment: Experiment) -> bool:
        """Where there is a recording of its angle."""
        return self.markers in experiment.angles

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment.  Raises ValueError where nothing is left to compare."""
        target = experiment.angles[self.markers]
        if not target.seen.any():
            raise ValueError(f"the angle of `{self.markers}` is seen in no frame")
        return _PreparedAngle(self, model, markers, experiment.name, target)

    def lies_within(self, whole: Experiment, part: Experiment) -> bool:
        """Whether the angle is seen there."""
        return bool(part.angles[self.markers].seen.any())

    def measured(self, markers: Mapping[str, Markers], positions: np.ndarray, near: np.ndarray) -> np.ndarray:
        """The angle (frames,) [rad] from positions of all points (frames, points, 3), near what was seen (frames,)."""
        axis = np.array(self.about_axis) / np.linalg.norm(self.about_axis)
        own = np.diff(markers[self.markers].at(positions), axis=1)[:, 0]
        if isinstance(self.zero, str):
            zero = np.diff(markers[self.zero].at(positions), axis=1)[:, 0]
        else:
            zero = np.broadcast_to(self.zero, own.shape)
        across = np.sum(zero * own, axis=1) - (zero @ axis) * (own @ axis)
        angle = np.unwrap(np.arctan2(np.cross(zero, own) @ axis, across))
        first = int(np.argmax(np.isfinite(near)))
        turns = np.rint((near[first] - angle[first]) / math.tau) if np.isfinite(near[first]) else 0.0
        return angle + math.tau * turns

    def goal_track(self, motion: Motion, markers: Mapping[str, Markers]) -> Track:
        """The angle over time."""
        e = motion.experiment
        target = e.angles[self.markers]
        seen = np.append(target.start, target.values)
        after, before = (
            None if s is None else
            self.measured(markers, np.concatenate([s.start[None], s.positions]), seen)[:, None, None]
            for s in (motion.after, motion.before)
        )  # fmt: skip
        assert after is not None
        counted = np.append(False, target.seen)[:, None]
        about = f"angle of {self.markers} ({'in the loss' if self.counts(e) else 'predicted'})"
        return Track(
            e.name, about, motion.times, after, before, seen[:, None, None], counted, ("angle",), "rad", target.noise,
            [self.markers],
        )  # fmt: skip


class _PreparedAngle:
    """An `Angle` for one experiment, with what its kernel reads on the device."""

    def __init__(
        self, term: Angle, model: Model, markers: Mapping[str, Markers], experiment: str, target: AngleTarget
    ) -> None:
        device = model.device
        self.kernel, self.term, self.markers, self.experiment = _kernel(model.dtype), term, markers, experiment
        self.target, self.weight = target, target.seen / target.seen.sum()
        self.first = int(np.argmax(target.seen))
        self.table = marker_table(model, markers[term.markers])
        moving = isinstance(term.zero, str)
        self.from_table = marker_table(model, markers[term.zero]) if isinstance(term.zero, str) else self.table
        zero = (0.0, 0.0, 0.0) if moving else term.zero
        axis = np.array(term.about_axis) / np.linalg.norm(term.about_axis)
        self.directions = array(np.array([axis, zero], np.float64), dtype=vec3d, device=device)
        self.turning = int(moving)
        self.wanted = array(np.where(target.seen, target.values, 0.0), dtype=float64, device=device)
        self.weights = array(self.weight, dtype=float64, device=device)

    def launch(self, q: array, out: array, slot: int) -> None:
        how = [self.directions, self.turning, self.first, self.wanted, self.weights, self.target.noise, slot]
        launch(self.kernel, 1, [q, *self.table, *self.from_table, *how], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        angle = self.term.measured(self.markers, positions, self.target.values)
        values = np.where(self.target.seen, (angle - self.target.values) / self.target.noise, 0.0)
        frames = np.arange(len(values), dtype=np.int32)
        none = np.full((len(values), 1), -1, np.int32)
        return Residuals(
            self.term.name, self.experiment, values[:, None, None], self.weight[:, None], frames, none,
            self.term.markers, self.target.noise,
        )  # fmt: skip


@cache
def _kernel(real: Scalar) -> Kernel:
    vec3 = vector(3, real)
    place, _ = place_functions(real)

    @kernel
    def angle(q: array2d[vec3], points: array2d[int], weights: array2d[float64], from_points: array2d[int],
              from_weights: array2d[float64], directions: array[vec3d], turning: int, first: int,
              wanted: array[float64], weight: array[float64], noise: float64, slot: int, out: array[float64]
    ):  # fmt: skip
        axis = directions[0]
        total = float64(0.0)
        before = wanted[first]
        for f in range(first, wanted.shape[0]):
            own = place(q, f, points, weights, 1) - place(q, f, points, weights, 0)
            zero = directions[1]
            if turning == 1:
                zero = place(q, f, from_points, from_weights, 1) - place(q, f, from_points, from_weights, 0)
            a = atan2(dot(cross(zero, own), axis), dot(zero, own) - dot(zero, axis) * dot(own, axis))
            a = nearest_angle(a, before)
            before = a
            r = (a - wanted[f]) / noise
            total = total + weight[f] * r * r
        out[slot] = total

    return angle
