"""Losses that are rough: exact gradients lead nowhere, secants of a wide stretch lead out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.identify.losses.secants import REACH
from sim.identify.search import search as module
from sim.identify.search.method import Method
from sim.identify.search.search import Stage, search

TOOTH, STEEP, TRUTH = 1e-3, 4.0, np.array([3.0, -1.0])
BOUNDS = np.full(2, -10.0), np.full(2, 10.0)
MIX = np.array([[1.0, 0.3], [0.3, 1.0]])


def residuals(x: np.ndarray) -> np.ndarray:
    """Of a line, with a saw on it: its slope is everywhere that of the teeth, which go down where the line goes up."""
    return MIX @ (x - TRUTH) - STEEP * (x - TOOTH * np.floor(x / TOOTH) - 0.5 * TOOTH)


def exact(x: np.ndarray) -> np.ndarray:
    return MIX - STEEP * np.eye(2)


def differences(reach: float):
    def jacobian(x: np.ndarray) -> np.ndarray:
        h = reach * np.eye(2)
        return np.stack([(residuals(x + step) - residuals(x - step)) / (2 * reach) for step in h], axis=1)

    return jacobian


def pair(jacobian):
    """Loss and gradient, and normal equations."""
    return (
        lambda x: (float(residuals(x) @ residuals(x)), 2.0 * jacobian(x).T @ residuals(x)),
        lambda x: (jacobian(x).T @ jacobian(x), -jacobian(x).T @ residuals(x)),
    )


def stage(secants: bool = True) -> Stage:
    (value_and_grad, normal), (near, near_normal) = pair(exact), pair(differences(1e-5))
    wide = pair(differences(REACH)) if secants else ()
    return Stage("all", value_and_grad, normal, lambda x: {"parameters": x.tolist()}, near, near_normal, *wide)


def found(secants: bool = True, method: str = "gauss_newton", **options):
    return search([stage(secants)], [np.array([1.0, 1.0])], BOUNDS, Method(method), **options)


def test_secants_lead_out_where_gradients_lead_nowhere() -> None:
    stuck, out = found(secants=False).last, found().last
    assert stuck.stopped_because == "line_search" and stuck.loss > 0.5
    assert out.loss < 1e-4 and np.abs(out.x - TRUTH) == pytest.approx(0.0, abs=0.05)
    assert out.initial_loss == stuck.initial_loss  # of the start, not of where the last detour led
    assert out.gradient == pytest.approx(2.0 * exact(out.x).T @ residuals(out.x))  # the exact one, after all


def test_iterations_are_counted_on() -> None:
    log: list[dict] = []
    last = found(log=log.append).last
    assert [entry["iteration"] for entry in log] == list(range(len(log))) and last.iterations == len(log) - 1
    assert all(later["evaluations"] >= entry["evaluations"] for entry, later in zip(log, log[1:], strict=False))


def test_a_detour_that_leads_nowhere_is_none() -> None:
    """A search that ends at its minimum, by a step that lowers nothing, stays there and is not told of one."""
    smooth = lambda x: (float((x - TRUTH) @ (x - TRUTH)), 2.0 * (x - TRUTH))  # noqa: E731
    normal = lambda x: (np.eye(2), TRUTH - x)  # noqa: E731
    calls: list[np.ndarray] = []
    rough = replace(
        stage(), value_and_grad=lambda x: (smooth(x)[0] + 1.0, smooth(x)[1] + 1e-3), gauss_newton=normal,
        approximate=smooth, approximate_gauss_newton=normal, secant=lambda x: (calls.append(x), smooth(x))[1],
        secant_gauss_newton=normal,
    )  # fmt: skip
    log: list[dict] = []
    last = search([rough], [np.array([1.0, 1.0])], BOUNDS, Method("gauss_newton"), log=log.append).last
    assert last.stopped_because == "line_search" and last.iterations == len(log) - 1
    assert len(calls) < 20


@pytest.mark.parametrize("when", range(1, 40, 3))
def test_interrupted_and_resumed_to_the_bit(when: int) -> None:
    whole_log: list[dict] = []
    whole = found(log=whole_log.append).last
    asked, states, log = [], [{}], []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > when

    first = found(log=log.append, save=states.append, should_stop=should_stop).last
    if first.stopped_because != "interrupted":
        assert first.x.tobytes() == whole.x.tobytes()
        return
    again: list[dict] = []
    state = states[-1] or None
    second = found(log=again.append, resume_state=state).last
    kept = [entry for entry in log if state is not None and entry["iteration"] <= int(state["iteration"])]
    assert second.x.tobytes() == whole.x.tobytes() and second.initial_loss == whole.initial_loss
    assert [e["loss"] for e in kept + again] == [e["loss"] for e in whole_log]


def test_of_lbfgs_there_is_none(monkeypatch) -> None:
    """It was asked to go by gradients alone."""
    monkeypatch.setattr(module, "DETOURS", 0)
    without = found(method="lbfgs").last
    monkeypatch.undo()
    assert found(method="lbfgs").last.x.tobytes() == without.x.tobytes()
