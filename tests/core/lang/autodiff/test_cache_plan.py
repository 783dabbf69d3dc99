"""What adjoints record: the fewest bytes from which the rest can be computed again."""

import numpy as np
import pytest

import sim
from sim.core.runtime.launch.binding import bind

f64 = sim.float64


@sim.kernel
def pull(pairs: sim.array2d[int], x: sim.array[sim.vec3d], k: sim.array[f64]):
    """The adjoint looks at the difference of two points only."""
    i = sim.tid()
    a, b = pairs[i, 0], pairs[i, 1]
    d = x[a] - x[b]
    f = k[i] * d / (1.0 + sim.dot(d, d))
    x[a] -= f
    x[b] += f


@sim.kernel
def branch(pairs: sim.array2d[int], x: sim.array[sim.vec3d], k: sim.array[f64]):
    """Inside of a branch one number is enough; the branch itself has to be known."""
    i = sim.tid()
    a, b = pairs[i, 0], pairs[i, 1]
    s = sim.dot(x[a], x[b])
    if s > 0.0:
        x[a] += sim.vec3d(s * s * k[i], 0.0, 0.0)


@sim.kernel
def looped(pairs: sim.array2d[int], x: sim.array[sim.vec3d], k: sim.array[f64], n: int):
    """What a loop needs is recorded before it."""
    i = sim.tid()
    a, b = pairs[i, 0], pairs[i, 1]
    d = x[a] - x[b]
    s = d[0] * d[1]
    for _ in range(n):
        s = sim.sin(s) * k[i] + 0.1
    x[a] += sim.vec3d(s, 0.0, 0.0)


CASES = {"pull": (pull, (), 24), "branch": (branch, (), 48), "looped": (looped, (40,), 24)}


@pytest.mark.parametrize("name", CASES)
def test_the_fewest_bytes_and_the_right_gradient(name):
    kernel, more, size = CASES[name]
    rng = np.random.default_rng(3)
    start, k = rng.normal(size=(12, 3)), rng.uniform(0.5, 1.0, 6)
    pairs = sim.array(rng.permutation(12).reshape(6, 2).astype(np.int32))

    def arguments(x, stiffness):
        return [
            pairs,
            sim.array(x, dtype=sim.vec3d, requires_grad=True),
            sim.array(stiffness, dtype=f64, requires_grad=True),
            *more,
        ]

    call = bind(kernel, (6,), arguments(start, k), 9, None)
    tbr = call.spec.differentiated(frozenset(call.spec.active(call.args)), call.spec.aliases(call.args)).tbr
    assert tbr.bytes_per_thread(frozenset((1,))) <= size

    weights = rng.normal(size=(12, 3))
    args = arguments(start, k)
    with sim.Tape() as tape:
        sim.launch(kernel, 6, args)
        sim.launch(kernel, 6, args)  # what the first one left is overwritten
    tape.backward(grads={args[1]: sim.array(weights, dtype=sim.vec3d)})

    def functional(x, stiffness):
        values = arguments(x, stiffness)
        for _ in range(2):
            sim.launch(kernel, 6, values)
        return float((values[1].numpy() * weights).sum())

    h, dx, dk = 1e-6, rng.normal(size=(12, 3)), rng.normal(size=6)
    slope = (functional(start + h * dx, k + h * dk) - functional(start - h * dx, k - h * dk)) / (2 * h)
    found = (args[1].grad.numpy() * dx).sum() + (args[2].grad.numpy() * dk).sum()
    assert found == pytest.approx(slope, rel=1e-7)


def test_a_distance_constraint_keeps_twelve_bytes():
    builder = sim.ModelBuilder()
    builder.add_particles(np.random.default_rng(0).normal(size=(40, 3)), mass=1.0)
    builder.add_constraints("distance", np.arange(40).reshape(20, 2), compliance=1e-3)
    model = builder.finalize(requires_grad=True)
    solver, a, b = sim.SolverXPBD(model), model.state(), model.state()
    with sim.Tape() as tape:
        solver.step(a, b, None, None, 0.01)
    assert [entry.nbytes for entry in tape.memory() if entry.kind == "record"] == [20 * 12]
