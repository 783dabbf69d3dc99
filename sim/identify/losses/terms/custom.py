"""A loss of the user's own: a Python function of a rollout, that launches kernels under the tape.

    from typing import Any

    import sim

    @sim.kernel
    def spread_of(q: sim.array2d[Any], frame: int, loss: sim.array[sim.float64]):
        # Any: vec3f or vec3d, as the run's --dtype
        for i in range(q.shape[1]):
            loss[0] += sim.float64(sim.dot(q[frame, i], q[frame, i]))

    def compact(take):
        loss = sim.zeros(1, sim.float64, requires_grad=True)
        sim.launch(spread_of, 1, [take.positions, take.positions.shape[0] - 1], [loss])
        return loss

It is called once for every experiment that counts and every evaluation of the loss.  Its gradient is what the tape
makes of the launches; numbers that go through NumPy lose it, and are refused (`Custom.try_out`).
"""

# Annotations of kernels are types: they are evaluated here, not postponed.
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from sim.core.lang.errors import SimError
from sim.core.lang.types import float64
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.tape.tape import Tape
from sim.identify.data.experiments import Experiment, Markers
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import Draft, PreparedTerm, TermContext, TrajectoryTerm, line
from sim.model import Model
from sim.schema.errors import word_hint
from sim.schema.kinds import Text
from sim.schema.reading import SchemaLine

NUDGE = 0.03
"""How far from rest points are when a loss is tried, relative to the size of everything: at rest it may have a kink."""

STEP = {"float64": (1e-6, 1e-3), "float32": (1e-3, 0.1)}
"""Step of the differences, relative to the size of everything, and how far they may be off, relative to the slope."""


class CustomLossError(SimError):
    """A loss of the user's own that returns what cannot be used, or whose gradient would be silently wrong."""

    def __init__(self, what: str, hint: str) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}\n    {hint}")


@dataclass(frozen=True, eq=False)
class LossInput:
    """What a loss of the user's own is given.

    positions: (frames, points) vec3 [m] in the model's precision, frame k at `experiment.schedule.times[k]`.
    model: with its material values.  experiment: name, schedule, and its recordings in `targets`.
    markers: by name, with the points that carry them.
    """

    positions: array
    model: Model
    experiment: Experiment
    markers: Mapping[str, Markers]


@dataclass(frozen=True)
class Custom(TrajectoryTerm):
    """function(take) returns an array of one float64, computed by kernels from `take.positions`; dimensionless."""

    function: Callable[[LossInput], Any] | None = None
    source: str = ""
    has_residuals: ClassVar[bool] = False
    key: ClassVar[str] = "custom"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("custom", Text("`module:function`", r"[\w.]+:\w+"), "own loss, from a module named with --import: "
             "function(take) launches kernels on `take.positions` (frames, points) and returns an array of one float64 "
             "(below)"),
    )  # fmt: skip

    @classmethod
    def check(cls, draft: Draft) -> None:
        """It must be a function of a module that was imported on purpose."""
        super().check(draft)
        module, _, function = draft.entry["custom"].partition(":")
        modules = draft.reading.modules
        if module not in modules:
            draft.problem(
                f"`{module}` is not imported, and a scene imports nothing by itself",
                f"allow it with `--import {module}`, or `load_scene(..., modules=[{module}])`",
                at=("custom",),
            )
        elif not callable(getattr(modules[module], function, None)):
            known = [name for name, item in vars(modules[module]).items() if callable(item) and name[0] != "_"]
            hint = word_hint(function, known, list_up_to=8)
            draft.problem(f"`{module}` has no function `{function}`", hint, at=("custom",))

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence["Custom"]:
        """The term, if its function passes a trial for every experiment that it counts."""
        module, _, function = entry["custom"].partition(":")
        found = getattr(context.modules[module], function)
        term = cls(**cls.common(entry, name), function=found, source=entry["custom"])
        model = context.model
        for experiment in context.experiments if model is not None and model.requires_grad else ():
            assert model is not None
            if not term.counts(experiment):
                continue
            try:
                term.try_out(model, context.markers, experiment)
            except CustomLossError as error:
                context.problem("custom", error.what, error.hint)
                return []
        return [term]

    @property
    def label(self) -> str:
        """The user's name for it."""
        return self.source

    def is_defined_for(self, experiment: Experiment) -> bool:
        """Where it is counted: of others the function may know nothing."""
        return self.counts(experiment)

    def prepare(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> PreparedTerm:
        """The term for one experiment."""
        return _PreparedCustom(self, model, markers, experiment)

    def try_out(self, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> None:
        """Tries the function on points near their rest, and raises CustomLossError where it cannot be used.

        Its gradient by the positions is compared with differences along a direction, and
        refused where it is off for two directions at two places: a detour through NumPy always is, a kink hardly ever.
        """
        rng = np.random.default_rng(0)
        for _ in range(2):
            try:
                slope, difference, close = self._try(model, markers, experiment, rng)
            except CustomLossError:
                raise
            except Exception as error:  # of the gradient: what the function raises itself is told already
                raise self.failed(experiment, error) from error
            if close:
                return
        raise CustomLossError(
            f"the gradient of `{self.source}` by the positions is wrong: along some direction the tape gives"
            f" {slope:.4g}, differences {difference:.4g}",
            hint="compute it by kernels from `take.positions`, with no NumPy in between",
        )

    def failed(self, experiment: Experiment, error: Exception) -> CustomLossError:
        """The error that says where the user's code is, for one that came out of it."""
        assert self.function is not None
        return CustomLossError(
            f"`{self.source}` fails for the experiment `{experiment.name}`: {type(error).__name__}: {error}",
            hint=f"raised in {_line(self.function, error)}",
        )

    def _try(
        self, model: Model, markers: Mapping[str, Markers], experiment: Experiment, rng: np.random.Generator
    ) -> tuple[float, float, bool]:
        """The slope along a random direction by the tape, by differences, and whether they agree as far as known."""
        ready = _PreparedCustom(self, model, markers, experiment)
        rest = np.tile(model.particle_q.numpy()[None], (experiment.schedule.frames, 1, 1)).astype(np.float64)
        size = max(float(np.ptp(rest)), 1e-6)
        step, tolerance = STEP[str(model.dtype)]
        x, way = rest + NUDGE * size * rng.normal(size=rest.shape), step * size * rng.normal(size=rest.shape)

        def positions(host: np.ndarray) -> array:
            return array(host, dtype=model.particle_q.dtype, device=model.device, requires_grad=True)

        q, out = positions(x), zeros(1, float64, model.device, requires_grad=True)
        with Tape() as tape:
            ready.launch(q, out, 0)
        tape.backward(grads={out: array([1.0], dtype=float64, device=model.device)})
        assert q.grad is not None
        slope = float(np.sum(q.grad.numpy().astype(np.float64) * way))
        coarse, fine = (
            (_number(ready.value(positions(x + h * way))) - _number(ready.value(positions(x - h * way)))) / (2 * h)
            for h in (1.0, 0.5)
        )
        rounding = 1e3 * float(np.finfo(str(model.dtype)).eps) * abs(_number(out))
        length = float(np.linalg.norm(way))
        return (
            slope / length,
            fine / length,
            not abs(fine - slope) > 10 * abs(coarse - fine) + tolerance * abs(fine) + rounding,
        )


def _number(value: array) -> float:
    return float(value.numpy()[0])


def _line(function: Callable[..., Any], error: Exception) -> str:
    """`file:line` of the user's code: the last line of a traceback that is in its file, else the function's own."""
    code = getattr(function, "__code__", None)
    if code is None:  # an object with a method __call__
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{last.filename}:{last.lineno}"
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code.co_filename]
    return f"{code.co_filename}:{own[-1] if own else code.co_firstlineno}"


_RETURN = "return sim.zeros(1, sim.float64, requires_grad=True), filled by kernels"


@cache
def _put() -> Kernel:
    @kernel
    def put(value: array[float64], slot: int, out: array[float64]):
        """out[slot] = value[0]."""
        out[slot] = value[0]

    return put


class _PreparedCustom:
    """A `Custom` for one experiment."""

    def __init__(self, term: Custom, model: Model, markers: Mapping[str, Markers], experiment: Experiment) -> None:
        self.term, self.model, self.markers, self.experiment = term, model, markers, experiment

    def value(self, q: array) -> array:
        value = self._call(LossInput(q, self.model, self.experiment, self.markers))
        if not isinstance(value, array):
            raise self._wrong(f"returns {type(value).__name__}, not an array")
        if value.dtype is not float64 or value.shape != (1,):
            raise self._wrong(f"returns {value.dtype} of shape {value.shape}, not one float64")
        if recording.current() is not None and not value.requires_grad:
            raise self._wrong("returns an array without a gradient")
        return value

    def _wrong(self, what: str) -> CustomLossError:
        code = getattr(self.term.function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return CustomLossError(f"`{self.term.source}` {what}", hint=_RETURN + place)

    def _call(self, take: LossInput) -> Any:
        """The function's answer; what it raises is an error that names the line of it."""
        assert self.term.function is not None
        try:
            return self.term.function(take)
        except (CustomLossError, FloatingPointError):
            raise
        except Exception as error:
            raise self.term.failed(self.experiment, error) from error

    def launch(self, q: array, out: array, slot: int) -> None:
        launch(_put(), 1, [self.value(q), slot], [out])

    def residuals(self, positions: np.ndarray) -> Residuals:
        raise CustomLossError(f"`{self.term.source}` is a loss without residuals", hint="search with lbfgs or adam")
