"""One projection of a few constraints by the interpreter, in all variants that the solver uses, against NumPy."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from tools.constraints.projection import projection_inputs, reference
from tools.constraints.samples import sample
from tools.library.traced import calling
from tools.tapes.gradients import backend

import sim
from sim.constraints.projection import make_projection, parameter_struct, solve, value_type
from sim.core.backends.interp import evaluate
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import float64, matrix, vector

NAMES = ("distance", "contact_plane", "own_pair", "neo_hookean", "volume")
DT = 0.2


@pytest.fixture(autouse=True)
def interpreted():
    with backend("interp", sys.modules[__name__]):
        yield


def projected(s, host, first, damped, averaged, own=False, start=0):
    """(positions or corrections, multipliers) after a launch over the constraints from `start` on."""
    a = s.arrays(**{n: host[n] for n in ("x", "w", "compliance", *s.parameters)})
    kinds = {"x_before": sim.vec3d, "damping": float64, "split": float64, "multiplier": value_type(s.c, float64)}
    a |= {n: sim.array(host[n], dtype=t) for n, t in kinds.items()}
    moved = sim.zeros(len(s.x), dtype=sim.vec3d) if averaged else a["x"]
    kernel = make_projection.__wrapped__(
        s.c, float64, first, damped, averaged, own
    )  # one of our own: others are kept, compiled
    data = [start, a["points"], a["data"], a["compliance"], a["damping"], a["weights"], a["split"], a["x_before"], DT]
    sim.launch(kernel, s.count - start, [*data, a["x"]], [moved, a["multiplier"]])
    if averaged:
        np.testing.assert_array_equal(
            a["x"].numpy(), host["x"], "corrections are gathered, and applied by somebody else"
        )
    return a["x"].numpy() + (moved.numpy() if averaged else 0.0), a["multiplier"].numpy(), kernel


@pytest.mark.parametrize(("first", "damped", "averaged"), list(product((True, False), repeat=3)))
@pytest.mark.parametrize("name", NAMES)
def test_projection(name, first, damped, averaged):
    s = sample(name, count=4)
    host = projection_inputs(s)
    x, multiplier, _ = projected(s, host, first, damped, averaged)
    wanted, wanted_multiplier = reference(s, host, (first, damped, averaged), DT)
    np.testing.assert_allclose(x, wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(multiplier, wanted_multiplier, rtol=1e-12, atol=1e-13)
    assert np.abs(wanted - s.x).max() > 1e-3


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("name", ["distance", "own_pair"])
def test_constraints_of_a_launch_that_share_nothing(name, averaged):
    """The variant that promises it gives the same, and says which arrays the promise is of."""
    s = sample(name, count=4)
    host = projection_inputs(s)
    plain, own = (projected(s, host, False, True, averaged, promised) for promised in (False, True))
    np.testing.assert_allclose(own[0], plain[0], rtol=1e-15)
    np.testing.assert_array_equal(own[1], plain[1])
    assert not plain[2].exclusive
    assert own[2].exclusive == {"particle", "correction", "x_ref", "weights", "valence", "multiplier"}
    assert plain[2].race_free and own[2].race_free and plain[2].name == f"project_{name}"


@pytest.mark.parametrize("name", ["distance", "own_pair"])
def test_a_launch_begins_where_its_colour_does(name):
    s = sample(name, count=4)
    host = projection_inputs(s)
    x, multiplier, _ = projected(s, host, False, False, False, start=1)
    wanted, wanted_multiplier = reference(s, host, (False, False, False), DT)
    touched = s.points[1:].ravel()
    np.testing.assert_allclose(x[touched], wanted[touched], rtol=1e-12)
    np.testing.assert_array_equal(x[s.points[0]], s.x[s.points[0]])
    np.testing.assert_array_equal(multiplier[0], host["multiplier"][0])
    np.testing.assert_allclose(multiplier[1:], wanted_multiplier[1:], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_happens_where_everything_is_pinned_and_stiff(name):
    s = sample(name, count=2)
    s.w, s.compliance = np.zeros(len(s.x)), np.zeros_like(s.compliance)
    host = projection_inputs(s)
    x, multiplier, _ = projected(s, host, False, False, False)
    np.testing.assert_array_equal(x, s.x)
    np.testing.assert_array_equal(multiplier, host["multiplier"])


def test_a_pinned_constraint_with_compliance_relaxes_its_multiplier():
    """-(C + alpha lambda) / alpha: what its compliance asks for, though nothing moves."""
    s = sample("distance", count=2)
    s.w = np.zeros(len(s.x))
    host = projection_inputs(s)
    _, multiplier, _ = projected(s, host, False, False, False)
    np.testing.assert_allclose(multiplier, [-s.of(k)[0] * DT**2 / s.compliance[k] for k in range(2)], rtol=1e-12)


def test_a_contact_pushes_and_never_pulls():
    s = sample("contact_plane", count=4)
    host = projection_inputs(s)
    for k in range(s.count):
        assert (s.of(k)[0] < 0) == (k % 2 == 0), "every second one is violated"
    _, multiplier, _ = projected(s, host, True, False, False)
    movable = s.w[s.points[:, 0]] > 0
    assert (multiplier >= 0).all() and (multiplier[1::2] == 0).all() and (multiplier[::2][movable[::2]] > 0).all()
    _, multiplier, _ = projected(s, host, False, False, False)
    assert (multiplier >= 0).all(), "a multiplier that was there is given back, and no more"


def test_parameters_are_an_array_each():
    made = parameter_struct(sample("own_tetrahedron", count=1).c, float64)
    assert [(name, str(kind)) for name, kind in made.fields.items()] == [
        ("near", "array[vec3<float64>]"),
        ("far", "array[vec3<float64>]"),
    ]


def test_types_of_values():
    assert value_type(sample("distance", count=1).c, float64) is float64 and value_type(
        sample("own_pair", count=1).c, float64
    ) is vector(2, float64)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_small_system_is_solved_and_so_is_its_adjoint(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    a, b, ct = root @ root.T + np.eye(n), rng.normal(size=n), rng.normal(size=n)

    traced = trace_function(calling(solve, 2), [matrix((n, n), float64), vector(n, float64)], real=float64)
    x = np.array(evaluate(inline(traced), *a.ravel(), *b))
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-11)
    back = np.array(evaluate(inline(vjp(traced)), *a.ravel(), *b, *ct))
    t = np.linalg.solve(a.T, ct)
    np.testing.assert_allclose(back[: n * n].reshape(n, n), -np.outer(t, x), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(back[n * n :], t, rtol=1e-10)
