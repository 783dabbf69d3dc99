"""What the tests of rollouts share: small systems of every kind, a rollout with everything that has a gradient,
exceptions at any line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from tools.physics.steps import central
from tools.tapes.interruptions import out_of_reach

SEED = 20261122
STEPS, DT = 7, 1 / 200
STRATEGIES = {"all": sim.StoreAll(), "every 3": sim.Checkpointed(every=3), "budget": sim.Checkpointed(budget=3000)}
SIM = str(Path(sim.__file__).parent)


def cloth(real: Any = sim.float64, worlds: int = 1) -> sim.Model:
    """A sheet of 2 x 2 cells, held at a soft and a hard attachment that both move, above a floor."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    material = {"distance": {"compliance": 0.02, "damping": 2e-3}, "bend": {"compliance": 5.0}}
    sheet = builder.add_cloth_grid(
        (0, 0, 0),
        dim_x=2,
        dim_y=2,
        cell_x=0.1,
        cell_y=0.1,
        density=0.2,
        label="sheet",
        material=material,
        thickness=0.01,
        vel=(0.1, 0, 0.2),
    )
    builder.add_attachment(sheet.points[:1], motion=[{"move": (0, 0.1, 0), "end": 0.02}], compliance=1e-3, label="soft")
    builder.add_attachment(sheet.points[2:3], motion={"swing": (0.05, 0, 0), "frequency": 9.0}, label="hard")
    builder.add_ground_plane(-0.01, normal=(0, 1, 0.1), compliance=1e-4, touches=[sheet], label="floor")
    if worlds > 1:
        builder = builder.replicate(worlds)
    return builder.finalize(dtype=real, requires_grad=True)


def solid() -> sim.Model:
    """A hanging cell of a material that remembers."""
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    group = builder.add_soft_grid(
        dim_x=1,
        dim_y=1,
        dim_z=1,
        cell_x=0.03,
        cell_y=0.03,
        cell_z=0.03,
        density=1000.0,
        label="block",
        material={"viscoelastic": {"young": 1e5, "poisson": 0.3, "relaxing": 0.5, "time": 0.02}},
    )
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


SYSTEMS: dict[str, Callable[[], sim.SolverXPBD | sim.SolverSemiImplicit]] = {
    "cloth": lambda: sim.SolverXPBD(cloth()),
    "iterated": lambda: sim.SolverXPBD(cloth(), iterations=3),
    "jacobi": lambda: sim.SolverXPBD(cloth(), 2, "jacobi"),
    "elastic": lambda: sim.SolverXPBD(solid(), start="elastic"),
    "solid": lambda: sim.SolverXPBD(solid()),
    "float32": lambda: sim.SolverXPBD(cloth(sim.float32)),
    "worlds": lambda: sim.SolverXPBD(cloth(worlds=2)),
    "semi-implicit": lambda: sim.SolverSemiImplicit(cloth()),
}


SYSTEM_MOTION = np.array([[0, 0.1, 0], [0.05, 0, 0], [0, 0.1, 0], [0.05, 0, 0]])


@dataclass(eq=False)
class Case:
    """A solver, and a start, forces and motions drawn at random."""

    solver: Any
    state: sim.State = field(init=False)
    control: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        vectors = self.model.motion_vector
        self.motion = sim.array(vectors.numpy(), dtype=vectors.dtype, requires_grad=True)
        self.renew()

    @property
    def model(self) -> sim.Model:
        return self.solver.model

    @property
    def dt(self) -> float:
        return DT if isinstance(self.solver, sim.SolverXPBD) else DT / 50

    def renew(self) -> None:
        """A new start and control, of the same values every time; the motions stay in their array, and rollouts of one
        kind."""
        rng, model = np.random.default_rng(SEED), self.model
        self.state, self.control = model.state(), model.control()
        for a, size in ((self.state.particle_q, 1e-3), (self.state.particle_qd, 1e-2), (self.state.particle_f, 1e-2)):
            a.assign(a.numpy() + size * rng.normal(size=a.numpy().shape))
        motion = SYSTEM_MOTION[: self.motion.size]
        self.motion.assign(motion + 0.01 * rng.normal(size=motion.shape))
        self.control.motion_vector = self.motion
        if not motion.size:
            self.control = None

    def record(self, strategy: Any = None, steps: int = STEPS) -> Recorded:
        """The rollout on a tape of its own."""
        with sim.Tape() as tape:
            made = self.rollout(strategy, steps)
        return Recorded(self, tape, made, {**self.sources, "frames": made.particle_q, **outputs(made)})

    def rollout(self, strategy: Any = None, steps: int = STEPS) -> sim.Trajectory:
        return sim.rollout(self.solver, self.state, steps, self.dt, self.control, frame_every=3, strategy=strategy)

    @property
    def sources(self) -> dict[str, sim.array]:
        """All that a gradient goes to."""
        found = {f"d {path}": a for path, a in self.model.materials.items()}
        found |= {f"d {name}": a for name, a in self.state.arrays.items()} | {
            f"d {name}": a for name, a in self.state.internal_variables.items()
        }
        return found | ({"d motion": self.control.motion_vector} if self.control is not None else {})

    def result(self, strategy: Any = None, steps: int = STEPS) -> dict[str, np.ndarray]:
        """Positions and gradients of a new rollout from a new start."""
        self.renew()
        return self.record(strategy, steps).result()


def outputs(made: sim.Trajectory) -> dict[str, sim.array]:
    final = made.final
    return {"q": final.particle_q, "qd": final.particle_qd, **final.internal_variables}


@dataclass(eq=False)
class Recorded:
    """A rollout on a tape, and the arrays that it was made of."""

    case: Case
    tape: sim.Tape
    made: sim.Trajectory
    arrays: dict[str, sim.array]

    def weights(self) -> dict[sim.array, sim.array]:
        rng = np.random.default_rng(SEED)
        out = [a for name, a in self.arrays.items() if not name.startswith("d ")]
        return {a: sim.array(rng.normal(size=a.numpy().shape), dtype=a.dtype) for a in out}

    def result(self) -> dict[str, np.ndarray]:
        """Positions, and the gradients of a weighted sum of them; clears the gradients before and after."""
        values = {name: a.numpy().copy() for name, a in self.arrays.items() if not name.startswith("d ")}
        for name, a in self.arrays.items():
            if a.grad is not None and name.startswith("d "):
                a.grad.zero_()
        self.tape.backward(grads=self.weights())
        values |= {
            name: a.grad.numpy().copy()
            for name, a in self.arrays.items()
            if name.startswith("d ") and a.grad is not None
        }
        self.tape.zero()
        return values


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Equal to the bit."""
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


_references: dict[Any, dict[str, np.ndarray]] = {}


def reference(system: str, steps: int = STEPS) -> dict[str, np.ndarray]:
    """What a new solver gives, which nothing has happened to."""
    key = system, steps
    if key not in _references:
        _references[key] = Case(SYSTEMS[system]()).result(sim.StoreAll(), steps)
        assert all(np.isfinite(values).all() for values in _references[key].values())
    return _references[key]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C."""


def interrupted(action: Callable[[], Any], at: int | None, event: str = "line", inside: str = SIM) -> int:
    """Call `action`, and raise at the `at`-th event of its kind (a line begins, a function returns) in the code of
    `sim`, or the next one at which Ctrl-C could.

    Returns how many events there were.
    """
    count, waiting = 0, at is not None

    def trace(frame: Any, kind: str, arg: Any) -> Any:
        nonlocal count, waiting
        if not frame.f_code.co_filename.startswith(inside):
            return None
        if kind == event:
            count += 1
            if waiting and count > (at or 0) and not (kind == "line" and out_of_reach(frame)):
                waiting = False
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        action()
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
    return count


def check_model_gradients(
    model: sim.Model,
    final: Callable[[], sim.State],
    paths: Iterable[str],
    step: float = 2e-5,
    direction: Callable[[np.ndarray], np.ndarray] | None = None,
    **tolerance: float,
) -> None:
    """Gradients of weighted final positions by each of the model's values, against central differences along
    `direction(value)`: by default each value's own size, ones where all are zero."""
    along = direction or (lambda value: np.abs(value) + (not value.any()))
    weights = np.random.default_rng(5).normal(size=(model.particle_count, 3))
    with sim.Tape() as tape:
        state = final()
    tape.backward(grads={state.particle_q: sim.array(weights, dtype=sim.vec3d)})
    found = {path: model[path].grad.numpy().copy() for path in paths}
    for path, gradient in found.items():
        value = model[path].numpy().copy()

        def loss(values: np.ndarray, path: str = path) -> float:
            model[path].assign(values)
            return float(np.sum(weights * final().particle_q.numpy()))

        ray = along(value)
        want = central(loss, value, ray, step)
        model[path].assign(value)
        assert abs(want) > 1e-6, path
        assert np.sum(gradient * ray) == pytest.approx(want, **tolerance), path
