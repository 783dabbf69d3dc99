"""`match`: markers that should follow a recording.

Dimensionless: 1 where the simulation meets the recording up to its noise.
"""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.identify.data.experiments import Experiment, Markers, NothingRecorded
from sim.identify.data.motion import Motion
from sim.identify.losses.noise import LEAST_NUMBERS, groups_of, with_noise_found
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import REQUIRED, Draft, MarkerTerm, PreparedTerm, Term, TermContext, line
from sim.identify.losses.terms.kernels import marker_table, place_functions, vec3d
from sim.io.report_tracks import Track
from sim.model import Model
from sim.schema.containers import Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, NameOf, Number, Tuple
from sim.schema.reading import SchemaLine

HUBER = Table((line("huber", Number("", POSITIVE), "in units of noise", REQUIRED),))


@dataclass(frozen=True)
class Match(MarkerTerm):
    """Markers that should follow the recording.

    The mean over frames, markers and axes of rho((x - target) / noise), rho(r) = r^2, or beyond `huber` its tangent
    (P. Huber, 1964).
    compare: "position"; "displacement" from the first frame in which the marker counts; "velocity": the step from one
    frame to the next, whose noise is sqrt(2) times as large.  at: frames that count: "all", "last" or (t0, t1) [s].
    """

    compare: str = "position"
    at: str | tuple[float, float] = "all"
    huber: float = math.inf
    compares_recordings: ClassVar[bool] = True
    key: ClassVar[str] = "match"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("match", NameOf("markers"), "markers that should follow the recording"),
        line("compare", Choice(("position", "displacement", "velocity")),
             "displacement: from the first frame that is used", "position", only_with=("match",)),
        line("at", Union((Choice(("all", "last")), Tuple(2, "s", NOT_NEGATIVE))),
             "frames that count: all, last, or [t0, t1]", "all", only_with=("match",)),
        line("norm", Union((Choice(("square",)), HUBER)),
             "square, or {huber: 3}: linear beyond three times the noise", "square", only_with=("match",)),
    )  # fmt: skip

    @classmethod
    def check(cls, draft: Draft) -> None:
        """A span of time goes forward, and what is fitted has a recording."""
        super().check(draft)
        span = draft.entry.get("at")
        if isinstance(span, list) and span[0] >= span[1]:
            draft.problem(f"the time {span[0]:g} s is not before {span[1]:g} s", "write [t0, t1]", at=("at",))
        cls.needs_recording(draft, "target", "target to match")

    @classmethod
    def settings(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What is compared, when, and how."""
        huber = math.inf if entry["norm"] == "square" else entry["norm"]["huber"]
        at = entry["at"] if isinstance(entry["at"], str) else tuple(entry["at"])
        return {"compare": entry["compare"], "at": at, "huber": huber}

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Self]:
        """As every term of markers; notes what is only known once recordings are read."""
        terms = super().build(entry, name, context)
        for term in terms:
            for experiment in filter(term.counts, context.experiments):
                term._check_recording(experiment, context)
        return terms

    def _check_recording(self, experiment: Experiment, context: TermContext) -> None:
        if self.markers not in experiment.targets:
            if experiment.targets and (experiment.name, self.markers) not in context.unread:
                what = f"the recording of `{experiment.name}` has no markers `{self.markers}`"
                where = f"experiments.{experiment.name}.target"
                hint = f"name them in `{where}.planned.markers`" if experiment.planned else ""
                context.problem("", what, hint or f"name their columns in `{where}.markers`")
            return
        try:
            frames = experiment.recorded_frames_at(self.at)
        except ValueError as error:
            context.problem("at", str(error), "widen the span")
            return
        if not experiment.targets[self.markers].seen[frames].any():
            what = f"no marker of `{self.markers}` is seen in the frames that count"
            context.problem("", what, "let other frames count")
            return
        if not self.counted(experiment)[0].any():
            what = f"a {self.compare} takes two frames in which a marker is seen, and of those that count none is left"
            context.problem("at" if self.at != "all" else "compare", what, "let more frames count")
            return
        self._check_numbers(experiment, context)

    def _check_numbers(self, experiment: Experiment, context: TermContext) -> None:
        """Noise is estimated from enough: of a few numbers that parameters can meet exactly, the likelihood has no
        end."""
        few = self._fewest(experiment)
        if few < LEAST_NUMBERS:
            what = f"the noise of `{self.markers}` in `{experiment.name}` would be estimated from {few} numbers"
            all_of_them = experiment.targets[self.markers].estimated == "all"
            instead = "a longer take, or" if all_of_them else "`estimated: all`, a longer take, or"
            context.problem("", what, f"it takes {LEAST_NUMBERS}: {instead} a `noise` that is known")

    def _fewest(self, experiment: Experiment) -> int:
        """The fewest numbers from which noise of the markers is estimated; as many as it takes, where it is known."""
        by = experiment.targets[self.markers].estimated
        if not by:
            return LEAST_NUMBERS
        counted = np.repeat(self.counted(experiment)[0][..., None], 3, axis=2)
        group = groups_of(by, counted.shape[1:])
        numbers = [int(counted[:, group == k].sum()) for k in range(int(group.max()) + 1)]
        return min((n for n in numbers if n), default=0)

    def is_defined_for(self, experiment: Experiment) -> bool:
        """Where there is a recording of its markers."""
        return self.markers in experiment.targets

    def counted(self, experiment: Experiment) -> tuple[np.ndarray, np.ndarray]:
        """Where a recording is compared (frames, markers) bool, and the first frame used of each marker (markers,)."""
        frames, target = experiment.recorded_frames_at(self.at), experiment.targets[self.markers]
        counted = np.zeros(target.seen.shape, bool)
        counted[frames] = target.seen[frames]
        first = np.argmax(counted, axis=0)
        if self.compare == "displacement":
            counted[first, np.arange(len(first))] = False
        elif self.compare == "velocity":
            counted[1:] &= target.seen[:-1]
            counted[0] = False
        return counted, first

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment.  Raises ValueError where nothing is left to compare, NothingRecorded where it is
        only planned."""
        target = experiment.targets[self.markers]
        if target.planned:
            raise NothingRecorded(experiment.name)
        frames, used, reference = self._compared(experiment)
        if not used.any():
            raise ValueError(f"no marker of `{self.markers}` is seen in a frame that counts")
        wanted, noise = target.positions[frames], target.deviations
        relative = reference >= 0
        marker = np.broadcast_to(np.arange(used.shape[1]), used.shape)
        wanted[relative] -= target.positions[reference[relative], marker[relative]]
        if self.compare == "velocity":
            noise = noise * math.sqrt(2.0)
        weight = used / (3.0 * used.sum())
        wanted = np.where(used[..., None], wanted, 0.0)
        return PreparedMatch(
            self, model, markers[self.markers], experiment.name, frames, reference, wanted, weight, noise,
            target.estimated,
        )  # fmt: skip

    def lies_within(self, whole: Experiment, part: Experiment) -> bool:
        """Whether a marker is seen in a frame that counts; the last frame is that of the whole experiment.  Noise that
        is estimated takes enough of them."""
        if self.at == "last" and part.schedule.frames < whole.schedule.frames:
            return False
        try:
            return bool(self._compared(part)[1].any()) and self._fewest(part) >= LEAST_NUMBERS
        except ValueError:
            return False

    def _compared(self, experiment: Experiment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The frames that count (k,), which observations do (k, markers), the frame each is relative to or -1."""
        target = experiment.targets[self.markers]
        frames = experiment.recorded_frames_at(self.at)
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

    def track(self, motion: Motion, markers: Markers) -> Track:
        """Every marker, as the loss compares it: its position, its way from where it first counts, or its velocity."""
        e = motion.experiment
        target, seen = e.targets[markers.name], motion.seen(markers)
        after, before = motion.at(markers)
        counted, first = self.counted(e)
        times, noise, unit = motion.times, target.typical_noise, "m"
        counted = np.concatenate([np.zeros((1, markers.count), bool), counted])
        shown = [after, before, seen]
        if self.compare == "displacement":
            shown = [None if x is None else x - x[first + 1, np.arange(markers.count)] for x in shown]
            noise = np.sqrt(2.0) * noise
        elif self.compare == "velocity":
            shown = [None if x is None else np.diff(x, axis=0) * e.schedule.fps for x in shown]
            times, counted, noise, unit = times[1:], counted[1:], np.sqrt(2.0) * noise * e.schedule.fps, "m/s"
        after, before, seen = shown
        assert after is not None
        about = f"markers {markers.name} ({'in the loss' if self.counts(e) else 'predicted'})"
        axes = tuple(axis if self.compare == "position" else f"{self.compare} {axis}" for axis in "xyz")
        labels = [str(i) for i in range(markers.count)]
        return Track(e.name, about, times, after, before, seen, counted, axes, unit, float(noise), labels)


def matches(terms: Iterable[Term], markers: str) -> list[Match]:
    """The terms that compare some markers with recordings."""
    return [t for t in terms if isinstance(t, Match) and t.markers == markers]


def compared_by(terms: Iterable[Term], e: Experiment, markers: str) -> Match:
    """The term that compares markers with a recording: the first that counts the experiment, else as others are."""
    own = matches(terms, markers)
    return next((t for t in own if t.counts(e)), own[0] if own else Match(f"match_{markers}", markers=markers))


class PreparedMatch:
    """A `Match` for one experiment, with what its kernels read on the device.

    noise: (markers, 3) [m] of what is compared, or a guess of it; estimated: as in `Target`.
    """

    def __init__(
        self, term: Match, model: Model, markers: Markers, experiment: str, frames: np.ndarray, reference: np.ndarray,
        wanted: np.ndarray, weight: np.ndarray, noise: np.ndarray, estimated: str = "",
    ) -> None:  # fmt: skip
        device = model.device
        self.term, self.markers, self.experiment, self.noise = term, markers, experiment, noise
        self.estimated = estimated
        self.compare, self.add_up = _kernels(model.dtype)
        self.table = marker_table(model, markers)
        self.frames = array(frames, dtype=int, device=device)
        self.reference = array(reference, dtype=int, device=device)
        self.wanted = array(wanted, dtype=vec3d, device=device)
        self.weight = array(weight, dtype=float64, device=device)
        self._noise = array(np.array(noise), dtype=vec3d, device=device)
        self.parts = zeros(weight.shape, float64, device, requires_grad=True)

    def launch(self, q: array, out: array, slot: int) -> None:
        noise, offset = self._noise, 0.0
        if self.estimated:  # a constant of the gradient: at what is found of it the loss is least
            found = self.residuals(q.device.numpy(q).astype(np.float64))
            noise, offset = array(np.asarray(found.noise), dtype=vec3d, device=q.device), found.offset
        inputs = [self.frames, self.reference, self.wanted, self.weight, noise, self.term.huber]
        launch(self.compare, self.parts.shape, [q, *self.table, *inputs], [self.parts])
        launch(self.add_up, 1, [self.parts, slot, offset], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        return self.of_places(self.markers.at(positions))

    def at_noise_of(self, places: np.ndarray) -> Self:
        """The same with the noise that it has with markers at places (frames, markers, 3), as if that were known."""
        fixed = copy(self)
        fixed.noise, fixed.estimated = np.asarray(self.of_places(places).noise), ""
        return fixed

    def difference(self, places: np.ndarray) -> np.ndarray:
        """What is compared of the markers' places (frames, markers, 3), a linear function: (k, markers, 3)."""
        moved = places[self.frames.numpy()]
        reference = self.reference.numpy()
        relative = reference >= 0
        marker = np.broadcast_to(np.arange(reference.shape[1]), reference.shape)
        moved[relative] -= places[reference[relative], marker[relative]]
        return moved

    def of_places(self, places: np.ndarray) -> Residuals:
        """The residuals of markers at places (frames, markers, 3)."""
        weight = self.weight.numpy()
        values = np.where(weight[..., None] > 0, (self.difference(places) - self.wanted.numpy()) / self.noise, 0.0)
        observation_noise = math.sqrt(0.5) if self.term.compare == "velocity" else 1.0
        found = Residuals(
            self.term.name, self.experiment, values, weight, self.frames.numpy(), self.reference.numpy(),
            self.markers.name, self.noise, self.term.huber, observation_noise,
        )  # fmt: skip
        return with_noise_found(found, self.estimated) if self.estimated else found


@cache
def _kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """For rollouts in float32 or float64: what each observation adds, and their sum."""
    vec3 = vector(3, real)
    place, _ = place_functions(real)

    @kernel
    def compare(q: array2d[vec3], points: array2d[int], weights: array2d[float64], frames: array[int],
                reference: array2d[int], wanted: array2d[vec3d], weight: array2d[float64], noise: array[vec3d],
                huber: float64, parts: array2d[float64]):  # fmt: skip
        k, m = tid()
        d = place(q, frames[k], points, weights, m) - wanted[k, m]
        if reference[k, m] >= 0:
            d = d - place(q, reference[k, m], points, weights, m)
        total = float64(0.0)
        for axis in range(3):
            r = abs(d[axis]) / noise[m][axis]
            if r <= huber:
                total = total + r * r
            else:
                total = total + huber * (2.0 * r - huber)
        parts[k, m] = weight[k, m] * total

    @kernel
    def add_up(parts: array2d[float64], slot: int, offset: float64, out: array[float64]):
        total = offset
        for k in range(parts.shape[0]):
            for m in range(parts.shape[1]):
                total = total + parts[k, m]
        out[slot] = total

    return compare, add_up
