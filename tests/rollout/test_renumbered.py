"""Rollouts under other numbers of the points give the same bits, forward and back, by the numbers of the user.

One exception: what the way back through a step adds up over all points, the gradient by gravity.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tools.physics.models import builder, swung_sheet
from tools.physics.rollouts import DT, STEPS, STRATEGIES, SYSTEMS, Case, same

import sim
from sim.model.build import assembly
from sim.model.build.order.tiling import Tiling
from sim.rollout import renumbered as inner
from sim.rollout.trajectory import NonFiniteState

module = sys.modules["sim.rollout.rollout"]  # the package has a function of this name


@pytest.fixture(autouse=True)
def disorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model has points whose numbers do not go along memory, however few they are."""

    def tiling_of(position: np.ndarray) -> Tiling:
        count = len(position)
        return Tiling(np.zeros(count, np.int32), np.random.default_rng(count).permutation(count).astype(np.int32))

    monkeypatch.setattr(assembly, "tiling_of", tiling_of)
    monkeypatch.setattr(inner, "LEAST", 1)


def both(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What `make` gives with and without other numbers."""
    taken: list[object] = []
    monkeypatch.setattr(module, "renumbered", lambda *of: taken.append(inner.renumbered(*of)) or taken[-1])
    under_others = make()
    assert taken and all(found is not None for found in taken)
    monkeypatch.setattr(module, "renumbered", lambda *of: None)
    return under_others, make()


def alike(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """The same bits, and of the gradient by gravity the same up to rounding."""
    for name in [name for name in one if name in ("d gravity", "gravity")]:
        scale = np.abs(other[name]).max() * np.finfo(other[name].dtype).eps
        np.testing.assert_allclose(one.pop(name), other.pop(name), rtol=0, atol=50 * scale)
    same(one, other)


@pytest.mark.parametrize("strategy", ["all", "every 3"])
@pytest.mark.parametrize("system", ["cloth", "iterated", "jacobi", "elastic", "solid", "float32"])
def test_the_bits_are_the_same(system: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[dict[str, np.ndarray]]:
        case = Case(SYSTEMS[system]())
        found = []
        for _ in range(2):  # the second one takes what is known
            found.append(case.result(STRATEGIES[strategy]))
            label = next(iter(case.model.constraint_sets))
            found.append({"lambda": case.solver.multipliers(label).numpy().copy()})
        return found

    for one, other in zip(*both(results, monkeypatch), strict=True):
        alike(one, other)


@pytest.mark.parametrize("real", [sim.float32, sim.float64])
def test_of_a_model_with_a_bit_of_everything(real: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, np.ndarray]:
        model = builder().finalize(dtype=real, requires_grad=True)
        with sim.Tape() as tape:
            made = sim.rollout(sim.SolverXPBD(model, iterations=2), model.state(), 12, 1 / 240, frame_every=4)
        tape.backward(grads={a: sim.array(np.ones(a.numpy().shape), dtype=a.dtype) for a in made.frames})
        gradients = {path: a.grad.numpy().copy() for path, a in model.materials.items()}
        return {"q": made.particle_q.numpy(), "qd": made.final.particle_qd.numpy()} | gradients

    alike(*both(run, monkeypatch))


def test_values_that_change_between_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masses go to copies, compliances do not; settings are those of the user's solver."""

    def run() -> dict[str, np.ndarray]:
        solver = swung_sheet()
        model, found = solver.model, {}
        for k in range(3):
            model["sheet.density"].assign(0.2 + 0.1 * k)
            model["sheet.distance.compliance"].assign(0.02 + 0.1 * k)
            solver.iterations = 1 + k
            found[f"q{k}"] = sim.rollout(solver, model.state(), 5, 1 / 240).final.particle_q.numpy().copy()
        return found

    one, other = both(run, monkeypatch)
    same(one, other)
    assert (one["q0"] != one["q1"]).any() and (one["q1"] != one["q2"]).any()


def test_a_rollout_goes_on_from_the_end_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its history: in float32 the second part of positions, in BDF2 the step before."""

    def run() -> dict[str, np.ndarray]:
        found = {}
        for integrator, system in (("euler", "float32"), ("bdf2", "solid")):
            solver = SYSTEMS[system]()
            solver.integrator = integrator
            state = solver.model.state()
            for _ in range(3):
                state = sim.rollout(solver, state, 4, DT).final
            found |= {f"{integrator} {name}": a.numpy().copy() for name, a in state.history.items()}
            found[integrator] = state.particle_q.numpy().copy()
            assert state.time == pytest.approx(12 * DT) and state.model is solver.model
        return found

    same(*both(run, monkeypatch))


def test_only_what_is_asked_for_has_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, np.ndarray]:
        model = SYSTEMS["cloth"]().model
        solver, found = sim.SolverXPBD(model), {}
        for path in ("sheet.density", "sheet.distance.compliance"):
            for a in model.materials.values():
                a.grad.zero_()
            with model.gradients_of([path]):
                with sim.Tape() as tape:
                    q = sim.rollout(solver, model.state(), STEPS, DT).final.particle_q
                tape.backward(grads={q: sim.array(np.ones(q.numpy().shape), dtype=q.dtype)})
            found |= {f"{path}: {other}": a.grad.numpy().copy() for other, a in model.materials.items()}
        return found

    one, other = both(run, monkeypatch)
    same(one, other)
    assert one["sheet.density: sheet.density"].any()
    assert one["sheet.distance.compliance: sheet.distance.compliance"].any()


def test_a_captured_rollout_takes_the_present_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, np.ndarray]:
        solver = SYSTEMS["cloth"]()
        state = solver.model.state()
        with sim.capture() as graph:
            made = sim.rollout(solver, state, STEPS, DT)
        first = made.final.particle_q.numpy().copy()
        state.particle_qd.assign(state.particle_qd.numpy() + 0.1)
        graph.replay()
        return {"first": first, "second": made.final.particle_q.numpy().copy()}

    one, other = both(run, monkeypatch)
    same(one, other)
    assert (one["first"] != one["second"]).any()


def test_who_breaks_down_is_named_by_the_number_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> tuple[str, list[str]]:
        case = Case(SYSTEMS["cloth"]())
        q = case.state.particle_q.numpy().copy()
        q[7] = np.inf
        case.state.particle_q.assign(q)
        with sim.Tape() as tape, pytest.raises(NonFiniteState) as found:
            case.rollout()
        return str(found.value), [str(record) for record in tape.records]  # what derives data of the model alone

    one, other = both(run, monkeypatch)
    assert one == other and "point 7" in one[0]


def test_solvers_that_go_by_numbers_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = SYSTEMS["cloth"]()
    assert inner.renumbered(solver, 1) is not None
    solver.direct = ("sheet",)
    assert solver.renumbered(solver.model) is None
    assert inner.renumbered(SYSTEMS["semi-implicit"](), 1) is None


def test_a_few_steps_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = SYSTEMS["cloth"]()
    monkeypatch.setattr(inner, "LEAST", 5)
    assert inner.renumbered(solver, 4) is None
    assert inner.renumbered(solver, 5) is not None
