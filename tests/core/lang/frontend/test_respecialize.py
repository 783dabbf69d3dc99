"""Kernels mean what Python means: what they capture is looked up again, and a tape keeps what it recorded."""

from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sim
from sim.constraints import base
from sim.constraints.damping.evolution import make_evolution
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.pattern import Slots
from sim.model.derived.derivation import Derivation
from sim.model.derived.law import _law_kernel, value_struct

SCALE = 2.0
TABLE = [1.0, 2.0]
NESTED = {"k": [1.0, (2.0, [3.0])]}
DIRECTION = sim.vec3(1.0, 0.0, 0.0)
FLAG = True


@dataclass
class Settings:
    gain: float = 2.0


SETTINGS = Settings()


@sim.struct
class Pair:
    a: float
    b: sim.vec3


PAIR = Pair(a=2.0)


def ones(n: int = 2) -> sim.array:
    return sim.ones(n, requires_grad=True)


def value_and_gradient(kernel: sim.Kernel) -> tuple[float, float]:
    """y = kernel(x) at x = 1, and dy/dx."""
    x, y = ones(1), sim.zeros(1, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(kernel, dim=1, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.ones(1)})
    assert x.grad is not None
    return float(y.numpy()[0]), float(x.grad.numpy()[0])


@sim.func
def scaled(x: float):
    return SCALE * x


@sim.func
def through(x: float):
    return scaled(x)


@sim.kernel
def of_a_name(x: sim.array[float], y: sim.array[float]):
    y[0] = SCALE * x[0]


@sim.kernel
def of_a_function_of_a_function(x: sim.array[float], y: sim.array[float]):
    y[0] = through(x[0])


@sim.kernel
def of_an_item(x: sim.array[float], y: sim.array[float]):
    y[0] = TABLE[0] * x[0]


@sim.kernel
def of_a_nested_item(x: sim.array[float], y: sim.array[float]):
    y[0] = NESTED["k"][1][1][0] * x[0]


@sim.kernel
def of_an_attribute(x: sim.array[float], y: sim.array[float]):
    y[0] = SETTINGS.gain * x[0]


@sim.kernel
def of_a_vector(x: sim.array[float], y: sim.array[float]):
    y[0] = DIRECTION[0] * x[0]


@sim.kernel
def of_a_struct(x: sim.array[float], y: sim.array[float]):
    y[0] = PAIR.a * x[0] + PAIR.b[1] * x[0]


@sim.kernel
def of_a_flag(x: sim.array[float], y: sim.array[float]):
    if FLAG:
        y[0] = 2.0 * x[0]
    else:
        y[0] = 3.0 * x[0]


def _set(**values: Any) -> Any:
    return lambda: globals().update(values)


CHANGES = {
    "a name": (of_a_name, _set(SCALE=5.0), (5.0, 5.0)),
    "a name in a called function": (of_a_function_of_a_function, _set(SCALE=5.0), (5.0, 5.0)),
    "a list": (of_an_item, lambda: TABLE.__setitem__(0, 5.0), (5.0, 5.0)),
    "a list in a tuple in a list in a dictionary": (
        of_a_nested_item,
        lambda: NESTED["k"][1][1].__setitem__(0, 5.0),
        (5.0, 5.0),
    ),
    "an attribute": (of_an_attribute, lambda: setattr(SETTINGS, "gain", 5.0), (5.0, 5.0)),
    "the object of an attribute": (of_an_attribute, _set(SETTINGS=Settings(5.0)), (5.0, 5.0)),
    "a component of a vector": (of_a_vector, lambda: setattr(DIRECTION, "x", 5.0), (5.0, 5.0)),
    "a field of a struct": (of_a_struct, lambda: setattr(PAIR, "a", 5.0), (5.0, 5.0)),
    "a component of a field of a struct": (of_a_struct, lambda: setattr(PAIR.b, "y", 3.0), (5.0, 5.0)),
    "a flag": (of_a_flag, _set(FLAG=False), (3.0, 3.0)),
}


@pytest.fixture(autouse=True)
def _as_before():
    """The module as it was, whatever a test changes."""
    kept = dict(globals())
    gain, table, inner = SETTINGS.gain, list(TABLE), list(NESTED["k"][1][1])
    yield
    globals().update(kept)
    SETTINGS.gain, TABLE[:], NESTED["k"][1][1][:], DIRECTION.x, PAIR.a, PAIR.b.y = gain, table, inner, 1.0, 2.0, 0.0


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_kernel_captures_is_what_it_is_at_the_launch(case):
    kernel, change, expected = CHANGES[case]
    before = value_and_gradient(kernel)
    assert before != expected
    change()
    assert value_and_gradient(kernel) == expected
    assert value_and_gradient(kernel) == expected


def test_static_is_what_it_was_where_the_kernel_was_defined():
    table, made, asked = [2.0], [], []

    def ask(value):
        asked.append(value)
        return value

    for factor in (2.0, 3.0):

        @sim.func
        def scaled(u: float):
            return sim.static(ask(factor)) * u  # noqa: B023 that is asked

        @sim.kernel(module="unique")
        def k(x: sim.array[float], y: sim.array[float]):
            n = 2
            one = sim.static(1.0 + sim.static(n / 2 - 1))
            y[0] = sim.static(factor * len(table)) * x[0] * one + scaled(x[0])  # noqa: B023

        made.append(k)
    table.append(4.0)
    assert asked == [2.0, 3.0]
    assert [value_and_gradient(k) for k in made] == [(5.0, 5.0), (6.0, 6.0)]
    assert asked == [2.0, 3.0]


def test_static_waits_for_names_that_are_not_there_yet():
    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = sim.static(later) * x[0]

    later = 3.0
    assert value_and_gradient(k) == (3.0, 3.0)


def test_a_closure():
    factor = 2.0

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = factor * x[0]

    assert value_and_gradient(k) == (2.0, 2.0)
    factor = 3.0
    assert value_and_gradient(k) == (3.0, 3.0)


def test_a_module(monkeypatch):
    constants = types.ModuleType("constants_of_a_test")
    constants.gain = 2.0
    monkeypatch.setitem(sys.modules, "constants_of_a_test", constants)

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = constants.gain * x[0]

    assert value_and_gradient(k) == (2.0, 2.0)
    constants.gain = 3.0
    assert value_and_gradient(k) == (3.0, 3.0)


def test_a_function_that_is_defined_again_and_derivatives_that_are_registered_later():
    @sim.func
    def f(x: float):
        return 2.0 * x

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = f(x[0])

    assert value_and_gradient(k) == (2.0, 2.0)

    @sim.func_grad(f)
    def _(x: float, ct: float):
        sim.adjoint[x] += 10.0 * ct

    assert value_and_gradient(k) == (2.0, 10.0)

    @sim.func_grad(f)
    def _(x: float, ct: float):
        sim.adjoint[x] += 20.0 * ct

    assert value_and_gradient(k) == (2.0, 20.0)

    @f.vjp
    def _(x, result, ct):
        return 30.0 * ct

    assert value_and_gradient(k) == (2.0, 30.0)

    @sim.func
    def f(x: float):
        return 3.0 * x

    assert value_and_gradient(k) == (3.0, 3.0)


def test_a_constant_of_a_derivative_in_closed_form():
    slope = 10.0

    @sim.func
    def f(x: float):
        return 2.0 * x

    @sim.func_grad(f)
    def _(x: float, ct: float):
        sim.adjoint[x] += slope * ct

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = f(x[0])

    assert value_and_gradient(k) == (2.0, 10.0)
    slope = 20.0
    assert value_and_gradient(k) == (2.0, 20.0)


def test_a_tape_keeps_what_it_recorded():
    slope = 10.0

    @sim.func
    def f(x: float):
        return SCALE * x

    @sim.func_grad(f)
    def _(x: float, ct: float):
        sim.adjoint[x] += slope * ct

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = SCALE * x[0] + f(x[0])

    x, y = ones(1), sim.zeros(1, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(k, dim=1, inputs=[x], outputs=[y])
    globals()["SCALE"] = 7.0
    slope = 100.0

    @sim.func_grad(f)
    def _(x: float, ct: float):
        sim.adjoint[x] += 1000.0 * ct

    tape.backward(grads={y: sim.ones(1)})
    assert (y.numpy()[0], x.grad.numpy()[0]) == (4.0, 12.0)
    assert value_and_gradient(k) == (14.0, 1007.0)


def test_recorded_launches_and_graphs_keep_what_they_captured():
    x, y = ones(1), sim.zeros(1)
    recorded = sim.launch(of_a_name, dim=1, inputs=[x], outputs=[y], record_cmd=True)
    with sim.capture() as graph:
        sim.launch(of_a_name, dim=1, inputs=[x], outputs=[y])
    assert not graph.stale
    globals()["SCALE"] = 5.0
    for again in (recorded.launch, graph.replay):
        y.zero_()
        again()
        assert y.numpy()[0] == 2.0
    assert graph.stale


def test_values_that_come_back_and_equal_ones_compile_nothing():
    value_and_gradient(of_a_name)
    first = next(iter(of_a_name.specialisations.values()))
    globals()["SCALE"] = float("2.0")  # another object
    value_and_gradient(of_a_name)
    assert next(iter(of_a_name.specialisations.values())) is first
    globals()["SCALE"] = 9.0
    assert value_and_gradient(of_a_name)[0] == 9.0
    globals()["SCALE"] = 2.0
    value_and_gradient(of_a_name)
    assert next(iter(of_a_name.specialisations.values())) is first


def test_attributes_that_are_made_anew_at_every_look():
    class Fresh:
        @property
        def inner(self) -> Settings:
            return Settings(2.0)

    fresh = Fresh()

    @sim.kernel
    def k(x: sim.array[float], y: sim.array[float]):
        y[0] = fresh.inner.gain * x[0]

    assert value_and_gradient(k) == value_and_gradient(k) == (2.0, 2.0)
    first = next(iter(k.specialisations.values()))
    value_and_gradient(k)
    assert next(iter(k.specialisations.values())) is first


def test_many_values_are_not_kept_for_ever():
    for step in range(30):
        globals()["SCALE"] = float(step)
        assert value_and_gradient(of_a_name) == (step, step)
    assert max(len(kept) for kept in of_a_name._earlier.values()) <= 8


def test_constraints_and_the_steps_that_solvers_remember(monkeypatch):
    monkeypatch.setattr(base, "REGISTRY", dict(base.REGISTRY))
    rest = 0.5

    @sim.constraint(points=2)
    def stretched_to_a_captured_length(x):
        return sim.length(x[0] - x[1]) - rest

    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for k in range(2):
        builder.add_particle(pos=(float(k), 0.0, 0.0), vel=(0.0, 0.0, 0.0), mass=1.0)
    builder.add_constraints(stretched_to_a_captured_length, [[0, 1]], compliance=0.0)
    model = builder.finalize()
    solver = sim.SolverXPBD(model, iterations=4)

    def distance(**options: Any) -> float:
        end = sim.rollout(solver, model.state(), steps=3, dt=0.01, **options).particle_q.numpy()[-1]
        return float(np.linalg.norm(end[0] - end[1]))

    for options in ({}, {"strategy": sim.StoreAll()}, {"strategy": sim.Checkpointed(every=2)}):
        rest = 0.5
        assert distance(**options) == pytest.approx(0.5, abs=1e-5)
        rest = 0.75
        assert distance(**options) == pytest.approx(0.75, abs=1e-5)


def test_the_memory_of_a_constraint(monkeypatch):
    monkeypatch.setattr(base, "REGISTRY", dict(base.REGISTRY))
    rate = 2.0

    @sim.constraint(points=2)
    def creeping(x, rest: float, crept: float):
        return sim.length(x[0] - x[1]) - rest - crept

    @creeping.evolves("crept")
    def _(x, rest, crept, dt):
        return crept + rate * dt

    data = parameter_struct(creeping, sim.float32)(rest=ones(1), crept=ones(1))
    x, after = sim.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=sim.vec3), sim.zeros(1)
    slots = Slots.of_particles(2)
    of_bodies = body_struct(sim.float32)(), sim.zeros(0, dtype=sim.types.vector(6, sim.float32))
    given = [sim.array([[0, 1]]), slot_struct(creeping, slots, sim.float32)(), data, x, x, *of_bodies, 0.5]
    for expected in (2.0, 3.0):
        sim.launch(make_evolution(creeping, slots, sim.float32, "crept"), 1, given, [after])
        assert after.numpy()[0] == expected
        rate = 4.0


def test_a_material_law(monkeypatch):
    monkeypatch.setattr(base, "REGISTRY", dict(base.REGISTRY))
    factor = 1.0

    @sim.constraint(points=2)
    def with_a_law(x, rest: float):
        return sim.length(x[0] - x[1]) - rest

    @with_a_law.material(base.ConstraintParameter("stiffness", "float"))
    def _(stiffness, size):
        return factor / stiffness

    values, index, out = (
        value_struct(with_a_law, sim.float32)(stiffness=sim.array([2.0], dtype=float)),
        sim.zeros((1, 1), dtype=int),
        sim.zeros(1),
    )
    kernel = _law_kernel(with_a_law, sim.float32, "compliance")
    derivation = Derivation(kernel, 1, [values, index, ones(1), sim.zeros(1, dtype=int)], [out])
    for expected in (0.5, 1.5):
        assert derivation.due()
        derivation.run()
        assert not derivation.due()
        assert out.numpy()[0] == expected
        factor = 3.0


def test_a_file_that_is_gone_by_the_first_launch(tmp_path):
    text = "import sim\n\n\n@sim.func\ndef f(x: float):\n    return x + 1.0\n\n\n"
    text += "@sim.kernel\ndef k(x: sim.array[float]):\n"
    file = tmp_path / "gone.py"
    file.write_text(text + "    x[0] = f(x[0])\n")
    spec = importlib.util.spec_from_file_location("gone", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.unlink()
    x = sim.zeros(1)
    sim.launch(module.k, 1, [x])
    assert x.list() == [1.0]
