"""Evolution of the viscoelastic constraints: over a step it is the closed form for a strain that stays."""

import numpy as np
import pytest

import sim
from sim.constraints.base import REGISTRY
from sim.core.backends.interp import evaluate
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import float64, vector

VEC3 = vector(3, float64)
NAMES = ("viscoelastic", "viscoelastic_shape")


def evolved(name, x, gradients, internal, share, time, dt):
    """The internal variables after a step of dt."""
    c = REGISTRY[name]
    kinds = [(VEC3,) * 4, *(p.type(float64) for p in c.parameters.values()), float64]
    traced = inline(trace_function(c.evolution, kinds, real=float64))
    return np.array(evaluate(traced, *np.ravel(x), *np.ravel(gradients), *internal, share, time, dt))


def cell():
    rng = np.random.default_rng(4)
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    return rest + 0.2 * rng.normal(size=(4, 3)), np.eye(3), rng.normal(size=6)


def strain(x):
    """Green's strain of the unit cell."""
    f = (x[1:] - x[0]).T
    return 0.5 * (f.T @ f - np.eye(3))


def rows_of(e):
    """The deviator of a strain in the basis of the rows, which keeps the norm."""
    return np.array(
        [
            (e[0, 0] - e[1, 1]) / 2**0.5,
            (e[0, 0] + e[1, 1] - 2 * e[2, 2]) / 6**0.5,
            2**0.5 * e[0, 1],
            2**0.5 * e[1, 2],
            2**0.5 * e[2, 0],
        ]
    )


def as_internal(rows):
    """`normal`, whose third component is unused, then `shear`."""
    return np.array([rows[0], rows[1], 0.0, *rows[2:]])


@pytest.mark.parametrize("name", NAMES)
def test_internal_variables_decay_towards_the_deviator_of_the_strain(name):
    x, gradients, internal = cell()
    internal[2] = 0.0
    limit = as_internal(rows_of(strain(x)))
    for dt in (0.0, 1e-3, 0.02, 0.05, 0.3, 50.0):
        kept = np.exp(-dt / 0.05)
        found = evolved(name, x, gradients, internal, 0.4, 0.05, dt)
        np.testing.assert_allclose(found, kept * internal + (1 - kept) * limit, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_what_has_not_relaxed_pulls_back(name):
    """The rows are dev E - share q, after that of the volume where there is one."""
    x, gradients, internal = cell()
    traced = inline(REGISTRY[name].traced(float64))
    rows = np.array(evaluate(traced, *np.ravel(x), *np.ravel(gradients), *internal, 0.4, 0.05))
    np.testing.assert_allclose(rows[-5:], rows_of(strain(x)) - 0.4 * np.delete(internal, 2), rtol=1e-12)
    if name == "viscoelastic":
        assert rows[0] == pytest.approx(np.trace(strain(x)) / 3**0.5, rel=1e-12)


def test_both_relax_alike():
    x, gradients, internal = cell()
    one, other = (evolved(name, x, gradients, internal, 0.4, 0.05, 0.02) for name in NAMES)
    np.testing.assert_array_equal(one, other)


def test_a_step_of_the_solver_moves_internal_variables_by_the_strain_at_its_start():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    group = builder.add_soft_grid(
        dim_x=1,
        dim_y=1,
        dim_z=1,
        cell_x=1.0,
        cell_y=1.0,
        cell_z=1.0,
        density=1.0,
        label="block",
        material={"viscoelastic_shape": {"young": 10.0, "poisson": 0.3, "relaxing": 0.5, "time": 0.05}},
    )
    model = builder.finalize(dtype=sim.float64)
    start, after = model.state(), model.state()
    start.particle_q.assign(group.positions @ np.diag([1.1, 1.0, 0.95]))
    sim.SolverXPBD(model).step(start, after, None, None, 0.02)
    strain = 0.5 * (np.diag([1.1, 1.0, 0.95]) ** 2 - np.eye(3))
    size = (1 - np.exp(-0.02 / 0.05)) ** 2 * np.sum((strain - np.trace(strain) / 3 * np.eye(3)) ** 2)
    squares = sum(np.sum(a.numpy() ** 2, axis=-1) for a in after.internal_variables.values())
    np.testing.assert_allclose(squares, size, rtol=1e-10)
