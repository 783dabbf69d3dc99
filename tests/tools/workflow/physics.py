"""The stand-in of the workflow fuzzer for models, solvers and rollouts: pure functions of values, which `Fresh`
computes from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.workflow.models import BUILDERS, Fresh, Task, model, parts
from tools.workflow.reference import Array, Copy, Operation, World


class Rollout(Operation):
    """Steps of a solver, or (steps 0) a start state.  begin: None: `Model.state()`."""

    def __init__(self, model: Model, settings: dict[str, Any], begin: State | None, motion: Array | None, steps: int,
                 dt: float, every: int,
                 outputs: dict[str, Array], clock: Array) -> None:  # fmt: skip
        self.named = {f"material {path}": a for path, a in model.materials.items()}
        if begin is not None:
            self.named |= {**begin.parts, "f": begin.particle_f}
        if motion is not None:
            self.named["motion"] = motion
        self.start_clock, self.clock = begin.clock if begin is not None else None, clock
        self.task = dict(kind=model.kind, settings=dict(settings), steps=steps, dt=dt, every=every)
        self.outputs, self.vague = outputs, not steps
        self.reads, self.writes = list(self.named.values()), list(outputs.values())

    def values(self) -> list[Any]:
        time = float(self.start_clock.value[0]) if self.start_clock is not None else 0.0
        return [*super().values(), time]

    def ask(self, values: list[Any], cotangents: dict[str, np.ndarray] | None) -> Any:
        by_name = dict(zip(self.named, values, strict=False))
        materials = {name.removeprefix("material "): v for name, v in by_name.items() if name.startswith("material ")}
        motion = by_name.pop("motion", None)
        start = {name: v for name, v in by_name.items() if not name.startswith("material ")}
        world = self.writes[0].world
        return world.fresh(
            Task(
                materials=materials,
                start=start or None,
                time=values[-1],
                motion=motion,
                cotangents=cotangents,
                **self.task,
            )
        )

    def run(self, values: list[Any]) -> list[np.ndarray]:
        found = self.ask(values, None)
        self.clock.value = found.values["time"]
        return [found.values[name] for name in self.outputs]

    def back(self, values: list[Any], cotangents: list[np.ndarray]) -> list[np.ndarray]:
        found = self.ask(values, dict(zip(self.outputs, cotangents, strict=True))).gradients
        return [found[name] for name in self.named]


class Model:
    narrowed = 0

    def __init__(self, world: Sim, kind: str) -> None:
        self.world, self.kind = world, kind
        start, self.motions = world.start_of(kind)
        self.materials = {path: world.made(value, True, value.ndim - 1) for path, value in start.items()}

    def __getitem__(self, path: str) -> Array:
        return self.materials[path]

    def state(self) -> State:
        made = State(self)
        operation = Rollout(
            self,
            {"type": "SolverXPBD"},
            None,
            None,
            0,
            1.0,
            1,
            {"q": made.particle_q, "qd": made.particle_qd},
            made.clock,
        )
        self.world.perform(operation)
        for a in (made.particle_f, *made.internal_variables.values()):
            self.world.perform(Copy(a, None, np.zeros(a.at.shape), detached=True))
        return made

    def control(self) -> Control:
        return Control()

    @contextmanager
    def gradients_of(self, paths: list[str]) -> Iterator[None]:
        others = [a.cell for path, a in self.materials.items() if path not in paths and a.cell.requires]
        for cell in others:
            cell.requires = False
        self.narrowed += 1
        yield
        self.narrowed -= 1
        for cell in others:
            cell.requires = True


class Control:
    """motion_vector: None: that of the model."""

    motion_vector: Array | None = None


class State:
    """Arrays of a state."""

    def __init__(self, model: Model) -> None:
        self.model, world = model, model.world
        shapes = world.state_of(model.kind)
        made = {name: world.made(np.zeros(shape), True, len(shape) - 1) for name, shape in shapes.items()}
        self.particle_q, self.particle_qd = made.pop("q"), made.pop("qd")
        self.particle_f = world.made(np.zeros(shapes["q"]), not model.narrowed, 1)
        self.internal_variables, self.clock = made, world.made(np.zeros(1), False)

    @property
    def time(self) -> Array:
        return self.clock

    @time.setter
    def time(self, value: float) -> None:
        self.clock.fill_(value)

    def assign(self, other: State) -> None:
        for name, a in self.parts.items():
            a.assign(other.parts[name])
        self.clock.assign(other.clock)
        self.particle_f.assign(other.particle_f)

    def clone(self) -> State:
        made = State(self.model)
        made.particle_f.requires_grad = self.particle_f.requires_grad
        for name, a in self.parts.items():
            made.parts[name].requires_grad = a.requires_grad
        made.assign(self)
        return made

    def clear_forces(self) -> None:
        self.particle_f.zero_()

    @property
    def parts(self) -> dict[str, Array]:
        return {"q": self.particle_q, "qd": self.particle_qd, **self.internal_variables}


@dataclass(eq=False)
class Trajectory:
    particle_q: Array
    final: State


class Solver:
    """Settings are attributes."""

    def __init__(self, model: Model, **settings: Any) -> None:
        self.__dict__.update(settings)
        self.model = model

    @property
    def settings(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **{k: v for k, v in self.__dict__.items() if k != "model"}}

    def step(self, before: State, after: State, control: Control | None, contacts: None, dt: float) -> None:
        motion = control.motion_vector if control is not None else None
        self.model.world.perform(Rollout(self.model, self.settings, before, motion, 1, dt, 1, after.parts, after.clock))


class SolverXPBD(Solver):
    pass


class SolverSemiImplicit(Solver):
    pass


class Sim(World):
    """The stand-in for the module `sim`."""

    _starts: dict[str, tuple[dict[str, np.ndarray], int]] = {}
    _states: dict[str, dict[str, tuple[int, ...]]] = {}

    def __init__(self, fresh: Fresh) -> None:
        super().__init__()
        self.fresh = fresh

    @classmethod
    def start_of(cls, kind: str) -> tuple[dict[str, np.ndarray], int]:
        """Material values of a model, and the number of its motions."""
        if kind not in cls._starts:
            made = model(kind)
            cls._starts[kind] = (
                {path: np.array(a.numpy()) for path, a in made.materials.items()},
                made.motion_vector.size,
            )
            cls._states[kind] = {name: a.numpy().shape for name, a in parts(made.state()).items()}
        return cls._starts[kind]

    @classmethod
    def state_of(cls, kind: str) -> dict[str, tuple[int, ...]]:
        cls.start_of(kind)
        return cls._states[kind]

    def model(self, kind: str) -> Model:
        assert kind in BUILDERS
        return Model(self, kind)

    def SolverXPBD(self, model: Model, **settings: Any) -> Solver:  # noqa: N802
        return SolverXPBD(model, **settings)

    def SolverSemiImplicit(self, model: Model) -> Solver:  # noqa: N802
        return SolverSemiImplicit(model)

    def Checkpointed(self, **_: Any) -> None:  # noqa: N802
        return None

    StoreAll = Checkpointed

    def rollout(self, solver: Solver, state: State, steps: int, dt: float, control: Control | None = None,
                frame_every: int | None = None,
                strategy: None = None) -> Trajectory:  # fmt: skip
        every = steps if frame_every is None else frame_every
        final = State(solver.model)
        final.particle_f = state.particle_f
        frames = self.made(np.zeros((steps // every, *final.particle_q.at.shape)), True, 1)
        motion = control.motion_vector if control is not None else None
        outputs = {"frames": frames, **final.parts}
        self.perform(Rollout(solver.model, solver.settings, state, motion, steps, dt, every, outputs, final.clock))
        return Trajectory(frames, final)
