"""Small models of the workflow fuzzer, what a rollout of them gives, and a process of its own that computes it from
scratch."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sim
from tools.places import ROOT

TETRAHEDRON = 0.3 * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def _chain(points: int = 4, compliance: float = 0.0) -> sim.ModelBuilder:
    builder = sim.ModelBuilder(gravity=(0.5, -9.81, 0.0))
    builder.add_chain(
        (0, 0, 0), (1, 0.1, 0), points, 0.1, label="rope", material={"distance": {"compliance": 0.02, "damping": 0.01}}
    )
    builder.add_attachment(
        [0], motion=[{"swing": (0, 0.2, 0.1), "frequency": 2.0}], compliance=compliance, label="hold"
    )
    return builder


def _cloth() -> sim.ModelBuilder:
    builder = sim.ModelBuilder(gravity=(0.5, -9.81, 1.0))
    builder.add_cloth_grid(
        dim_x=2, dim_y=1, cell_x=0.3, cell_y=0.3, density=0.2, fix_top=True, label="sheet",
        material={"distance": {"compliance": 0.05, "damping": 0.01}, "shear": {"compliance": 0.1},
                  "bend": {"compliance": 50.0}},
    )  # fmt: skip
    return builder


def _solid(material: Mapping[str, Any]) -> sim.ModelBuilder:
    builder = sim.ModelBuilder(gravity=(0.5, -9.81, 1.0))
    builder.add_soft_mesh(TETRAHEDRON, [[0, 1, 2, 3]], density=100.0, label="block", material=material)
    builder.add_attachment([0, 1], motion=[{"move": (0, 0.05, 0.05), "start": 0.0, "end": 0.1}], label="hold")
    return builder


def _ball() -> sim.ModelBuilder:
    builder = sim.ModelBuilder(gravity=(0.5, -9.81, 0.0))
    builder.add_particles([[0, 0.02, 0], [0.5, 0.3, 0]], [0.1, 0.2], vel=(0.1, -0.5, 0), label="balls")
    builder.add_ground_plane(0.0, compliance=1e-3, label="floor")
    return builder


BUILDERS = {
    "chain": _chain,
    "soft_chain": lambda: _chain(3, 0.01),
    "cloth": _cloth,
    "solid": lambda: _solid({"neo_hookean": {"young": 1e4, "poisson": 0.3, "damping": 0.002}}),
    "viscoelastic": lambda: _solid({"viscoelastic": {"young": 1e4, "poisson": 0.3, "relaxing": 0.5, "time": 0.02}}),
    "balls": _ball,
}


def model(kind: str) -> sim.Model:
    """A fresh model of this kind."""
    return BUILDERS[kind]().finalize(dtype=sim.float64, requires_grad=True)


# ------------------------------------------------------------------------------------------ a rollout, as a function of
# values
@dataclass
class Task:
    """A rollout by its values.  start: q, qd, f, memory (None: that of `Model.state()`); motion: None: that of the
    model.

    cotangents: of what `values` returns, by the same names; None: values only.  steps 0: the start itself.
    """

    kind: str
    settings: dict[str, Any]
    materials: dict[str, np.ndarray]
    start: dict[str, np.ndarray] | None
    time: float
    motion: np.ndarray | None
    steps: int
    dt: float
    every: int
    cotangents: dict[str, np.ndarray] | None = None

    def carry_out(self) -> Outcome:
        return carry_out(self)


@dataclass
class Outcome:
    """values: q, qd, memory of the end, frames, time.  gradients: `material path`, q, qd, f, memory, motion ->
    cotangent."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    gradients: dict[str, np.ndarray] = field(default_factory=dict)


def parts(state: sim.State) -> dict[str, sim.array]:
    """What moves, by name."""
    return {"q": state.particle_q, "qd": state.particle_qd, **state.internal_variables}


def host(a: sim.array) -> np.ndarray:
    return np.array(a.numpy())


def carry_out(task: Task) -> Outcome:
    """With fresh objects, in a straight line."""
    made = model(task.kind)
    for path, value in task.materials.items():
        made[path].assign(value)
    given = dict(task.settings)
    solver = getattr(sim, given.pop("type"))(made, **given)
    tape = sim.Tape()
    inputs = {f"material {path}": a for path, a in made.materials.items()}
    if task.start is not None:
        state = made.state()
        inputs |= {**parts(state), "f": state.particle_f}
        for name, value in task.start.items():
            inputs[name].assign(value)
        state.time = task.time
    control = made.control()
    if task.motion is not None:
        control.motion_vector = inputs["motion"] = sim.array(task.motion, dtype=sim.vec3d, requires_grad=True)
    with tape:
        begin = made.state() if task.start is None else state
        if task.steps:
            trajectory = sim.rollout(solver, begin, task.steps, task.dt, control, task.every, sim.StoreAll())
            begin, outputs = trajectory.final, {"frames": trajectory.particle_q}
        else:
            outputs = {}
    outputs |= parts(begin)
    out = Outcome({name: host(a) for name, a in outputs.items()} | {"time": np.array(begin.time)})
    if task.cotangents is not None:
        tape.backward(grads={outputs[name]: c for name, c in task.cotangents.items()})
        out.gradients = {name: host(a.grad) for name, a in inputs.items()}
    return out


class Fresh:
    """Carries tasks out in a process of its own; remembers what it has been asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._known: dict[bytes, Any] = {}

    def __call__(self, task: Any) -> Any:
        text = pickle.dumps(task)
        if text not in self._known:
            if len(self._known) > 2000:
                self._known.clear()
            self._known[text] = self._ask(text)
        return self._known[text]

    def _ask(self, text: bytes) -> Any:
        if self._process is None:
            code = f"import sys; sys.path[:0] = {sys.path!r}; from tools.workflow import models; models.serve()"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(len(text).to_bytes(8, "little") + text)
        self._process.stdin.flush()
        size = int.from_bytes(self._process.stdout.read(8), "little")
        found = pickle.loads(self._process.stdout.read(size))
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Ends the process; the next question starts another one."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None
        self._known.clear()


def serve() -> None:
    """Answers tasks from standard input until it ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(8):
        task = pickle.loads(source.read(int.from_bytes(head, "little")))
        try:
            found: Any = task.carry_out()
        except Exception as problem:
            found = OracleError(f"{type(problem).__name__}: {problem}")
        text = pickle.dumps(found)
        sink.write(len(text).to_bytes(8, "little") + text)
        sink.flush()


class OracleError(Exception):
    """The straight-line program raises."""
