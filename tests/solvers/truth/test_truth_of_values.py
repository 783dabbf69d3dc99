"""benchmarks/truth.py finds the value of a twin, errors of the order of its integrator, and what is lost."""

import importlib
import sys

import numpy as np
import pytest
from tools.places import ROOT

import sim


@pytest.fixture(scope="module")
def truth():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("truth")
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def twin(truth):
    """A mass that rings on a spring: with one constraint a sweep of XPBD is the solution of its step."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_particles([[0, 0, 0], [0, -0.1, 0]], mass=[0.0, 0.1])
    builder.add_constraints("distance", [[0, 1]], compliance=1e-2, label="spring")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    return truth.Twin("", model, ("spring.compliance",), 1e-2, lambda path: path[:, 1:], 9, 30, 16, 8, 8)


@pytest.fixture(scope="module")
def errors(truth, twin):
    """Of a ladder, by the substeps of a frame."""
    known = truth.truth_of(twin)

    def of(method):
        made = truth.Ladder(twin, method)
        made.climb(known, 8)
        return list(made.errors.values())

    return of


def test_it_finds_the_value_that_the_markers_come_from(truth, twin):
    made = truth.Identification(twin, sim.SolverXPBD(twin.model))
    y = made.observed(0.0, 8)
    target, slope = made.observed(np.log(1.1), 8), made.slope(8, 0.0, y)
    assert made.found(target, slope, 8) == pytest.approx(np.log(1.1), abs=0.005)
    assert np.isnan(made.found(target, -slope, 8))


def test_errors_fall_as_the_order_of_the_integrator(truth, errors):
    euler, bdf2, one_sweep = (errors(m) for m in (truth.newton("euler"), truth.newton("bdf2"), truth.xpbd("euler", 1)))
    assert euler[-2] / euler[-1] == pytest.approx(2.0, abs=0.4)
    assert bdf2[-2] / bdf2[-1] == pytest.approx(4.0, abs=0.8)
    np.testing.assert_allclose(one_sweep, euler, rtol=1e-2)


def test_a_goal_is_reached_where_all_shorter_steps_reach_it(truth, twin):
    made = truth.Ladder(twin, truth.newton("euler"), {1: 0.2, 2: -0.001, 4: 0.02, 8: 0.009, 16: 0.004})
    assert [made._reached(goal) for goal in (0.1, 0.01, 0.001)] == [2, 8, None]
    made.errors[32] = np.nan
    assert made._reached(0.1) is None
