"""What every term of a loss says about itself: how a scene writes it, how it is made, what it adds to the loss.

A `TrajectoryTerm` is computed from simulations, by kernels under the tape; a `Penalty` from the parameters alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.identify.data.experiments import Experiment, Markers
from sim.identify.data.motion import Motion
from sim.identify.losses.residuals import Residuals
from sim.identify.parameters.parameters import Parameter
from sim.io.report_tracks import Track
from sim.model import Model
from sim.schema.containers import Union
from sim.schema.kinds import NOT_NEGATIVE, Choice, NameOf, Number
from sim.schema.reading import Default, Kind, Reading, SchemaLine, Steps

line = SchemaLine  # what the lines of a term begin with

REQUIRED = Default.REQUIRED
TIME_OR_LAST = Union((Choice(("last",)), Number("s", NOT_NEGATIVE)))
Values = Mapping[str, np.ndarray]
"""Physical values of parameters by name."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A term as a scene writes it, before anything is built: what its `check` looks at.

    steps: where it stands.  entry: its keys and values, without those that could not be read.  data: of the whole
    scene.  units: parameter -> unit of its values, where that is known.
    read_deferred(key, kind): reads a value whose unit had to be found out first; None where there is none.
    """

    steps: Steps
    entry: dict[str, Any]
    data: Mapping[str, Any]
    units: Mapping[str, str]
    reading: Reading
    read_deferred: Callable[[str, Kind], Any]

    def problem(self, what: str, hint: str = "", at: Steps = ()) -> None:
        """Notes a problem with the term, or with what stands somewhere in it."""
        self.reading.problem((*self.steps, *at), what, hint)

    def lacks(self, key: str) -> bool:
        """Whether a key is missing, and not only broken."""
        return key not in self.entry and not self.reading.is_broken((*self.steps, key))


@dataclass(frozen=True, eq=False)
class TermContext:
    """What terms are made from: the model (None: it could not be built), and what is observed and identified.

    modules: those that a scene may take functions from.  unread: (experiment, markers) whose recording could not be
    read, which is noted.  problem(key, what, hint): notes what is wrong with a key of
    the term, or with all of it (no key).
    """

    model: Model | None
    markers: Mapping[str, Markers]
    experiments: Sequence[Experiment]
    parameters: Sequence[Parameter]
    modules: Mapping[str, Any]
    problem: Callable[[str, str, str], None]
    unread: Set[tuple[str, str]] = frozenset()

    def parts_of(self, name: str) -> list[Parameter]:
        """The parameter of a name, or those of its regions, `name.region`."""
        return [p for p in self.parameters if p.name == name or p.name.startswith(f"{name}.")]


@dataclass(frozen=True)
class Term(ABC):
    """A term of a loss: a name for the log, and a weight.

    key: the word for it in a scene.  lines: the schema of its keys; one that several terms have belongs to all of them,
    with the meaning that the last one states.  has_residuals: whether it is a sum of squares whose residuals are known.
    """

    name: str
    weight: float = 1.0
    key: ClassVar[str]
    lines: ClassVar[tuple[SchemaLine, ...]]
    has_residuals: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def check(cls, draft: Draft) -> None:
        """Notes what is wrong with a term of a scene, as far as that is known without a model."""

    @classmethod
    def about(cls, entry: Mapping[str, Any]) -> str:
        """What the term is about: the markers, the parameter or the function that a scene names in it."""
        return entry[cls.key]

    @classmethod
    @abstractmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Term]:
        """The terms that an entry of a scene stands for; none where something is wrong, which is noted."""

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.name

    def up_to(self, parts: Sequence[tuple[Experiment, Experiment]]) -> Self | None:
        """The term on the first parts of experiments, (whole, part) each; None where it finds nothing there."""
        return self


class PreparedTerm(Protocol):
    """A term made ready for one experiment: launches kernels that leave its value in `out[slot]` (float64)."""

    def launch(self, q: array, out: array, slot: int) -> None:
        """q: (frames, points) vec3, the rollout."""

    def residuals(self, positions: np.ndarray) -> Residuals:
        """The same on the host, residual by residual.  positions: (frames, points, 3) [m]."""


class Goal(NamedTuple):
    """A point [m] that the mean of some markers should reach."""

    markers: str
    point: tuple[float, float, float]


@dataclass(frozen=True)
class TrajectoryTerm(Term):
    """A term of simulations: the mean over the experiments that it counts (None: all that are fitted).

    compares_recordings: whether its residuals have the noise of recordings.
    """

    experiments: tuple[str, ...] | None = None
    compares_recordings: ClassVar[bool] = False

    @classmethod
    def counted_names(cls, draft: Draft) -> list[str]:
        """The experiments that an entry of a scene names, or all of them."""
        known = draft.data.get("experiments", {})
        return [name for name in draft.entry.get("experiments", []) if name in known] or list(known)

    @classmethod
    def check(cls, draft: Draft) -> None:
        """Only what is fitted can be counted."""
        known = draft.data.get("experiments", {})
        for i, name in enumerate(draft.entry.get("experiments", [])):
            if known.get(name, {}).get("use") == "predict":
                draft.problem(f"`{name}` is only predicted", "make it `use: fit`", at=("experiments", str(i)))

    @classmethod
    def common(cls, entry: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The arguments that every such term takes from an entry of a scene."""
        named = entry.get("experiments")
        return {"name": name, "weight": entry["weight"], "experiments": None if named is None else tuple(named)}

    def counts(self, experiment: Experiment) -> bool:
        """Whether the experiment enters the loss by this term."""
        return experiment.fit and (self.experiments is None or experiment.name in self.experiments)

    def is_defined_for(self, experiment: Experiment) -> bool:
        """Whether it can be computed for an experiment, counted or not."""
        return True

    def predicts(self, experiment: Experiment) -> bool:
        """Whether it compares with a recording that an experiment has, counted or not."""
        return self.compares_recordings and self.is_defined_for(experiment)

    @abstractmethod
    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment.  Raises ValueError where there is nothing to compute it from."""

    def lies_within(self, whole: Experiment, part: Experiment) -> bool:
        """Whether what it looks at in an experiment is there in its first part.  By default it looks at everything."""
        return part.schedule.frames == whole.schedule.frames

    def up_to(self, parts: Sequence[tuple[Experiment, Experiment]]) -> Self | None:
        """With the experiments in which it finds something."""
        names = tuple(e.name for e, part in parts if self.counts(e) and self.lies_within(e, part))
        return replace(self, experiments=names) if names else None

    @property
    def goal(self) -> Goal | None:
        """For the player: where markers should come, if it is about that."""
        return None

    def goal_track(self, motion: Motion, markers: Mapping[str, Markers]) -> Track | None:
        """For the report: what it wants over time, if that is no recording of markers."""
        return None


@dataclass(frozen=True)
class MarkerTerm(TrajectoryTerm):
    """A term that looks at the places of some markers: those that its key names, or `marker` in its table."""

    markers: str = ""

    @classmethod
    def about(cls, entry: Mapping[str, Any]) -> str:
        """Its markers."""
        own = entry[cls.key]
        return own["marker"] if isinstance(own, dict) else own

    @classmethod
    @abstractmethod
    def settings(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Its own arguments, from an entry of a scene."""

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Self]:
        """One term, where its markers could be made."""
        markers = cls.about(entry)
        if markers not in context.markers:
            return []
        term = cls(**cls.common(entry, name), markers=markers, **cls.settings(entry))
        term.check_experiments(context)
        return [term]

    def check_experiments(self, context: TermContext) -> None:
        """Notes the experiments that it counts and cannot be computed for; as a rule there are none."""

    def check_moment(self, at: str | float, context: TermContext) -> None:
        """Notes the experiments that it counts and that end before the time it looks at."""
        for experiment in filter(self.counts, context.experiments):
            schedule = experiment.schedule
            if not isinstance(at, str) and at > schedule.times[-1] + 0.5 / schedule.fps:
                what = f"{at:g} s are after the end of `{experiment.name}`, {schedule.times[-1]:g} s"
                hint = "give a time within it, or `last`; `experiments` says which experiments count"
                context.problem(f"{self.key}.at", what, hint)

    @classmethod
    def needs_recording(cls, draft: Draft, key: str, what: str) -> None:
        """Notes the fitted experiments that it counts and that have no recording under `key`."""
        for name in cls.counted_names(draft):
            experiment = draft.data["experiments"][name]
            broken = draft.reading.is_broken(("experiments", name, key))
            if experiment.get("use") == "fit" and key not in experiment and not broken:
                hint = f"give `experiments.{name}.{key}` a recording"
                draft.problem(f"experiment `{name}` is fitted and has no {what}", hint, at=(cls.key,))


@dataclass(frozen=True)
class Penalty(Term):
    """A term that needs no simulation."""

    @abstractmethod
    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        """The term without its weight, and its gradient by the physical values of the parameters that it looks at."""

    @abstractmethod
    def residuals(self, values: Values) -> Residuals:
        """The term residual by residual, without its weight."""


def trajectory_terms(terms: Iterable[Term]) -> list[TrajectoryTerm]:
    """Those that need simulations."""
    return [term for term in terms if isinstance(term, TrajectoryTerm)]


def penalties(terms: Iterable[Term]) -> list[Penalty]:
    """Those that need none."""
    return [term for term in terms if isinstance(term, Penalty)]


def marker_line(doc: str) -> SchemaLine:
    """The line of a key that names markers."""
    return line("marker", NameOf("markers"), doc, REQUIRED)
