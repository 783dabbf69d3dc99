"""The min-cut cache: the fewest bytes from which the rest can be computed again, and their slots."""

import numpy as np
import pytest
from tools.adjoints.differences import traced

import sim
from sim.core.lang.autodiff.cache_plan import CacheLayout, min_cut_cache
from sim.core.lang.ir.core import walk
from sim.core.lang.types import float32, float64, int32
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


# ------------------------------------------------------------------------------------------------ on the IR
@sim.kernel
def difference(x: sim.array[f64], at: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    d = x[i] - x[i + 1]
    y[i] = sim.sin(d * f64(at[i])) + sim.exp(d)


def result(func, name, number=0):
    return [op for op in walk(func.body) if op.name == name][number].results[0]


def test_the_cut_is_between_the_loads_and_what_is_used_and_nearest_to_the_loads():
    func = traced(difference)
    loads = [op for op in walk(func.body) if op.name == "load" and op.operands[0].name == "x"]
    used = [result(func, "mul"), result(func, "exp")]
    assert min_cut_cache(func, loads, used, ()) == [result(func, "sub")], "one number instead of two"
    assert min_cut_cache(func, loads[:1], used, ()) == loads[0].results, "of equal cuts that next to the loads"
    assert min_cut_cache(func, loads, [], ()) == []


def test_what_is_computed_in_a_loop_cannot_be_cached():
    func = traced(difference)
    loads = [op for op in walk(func.body) if op.name == "load" and op.operands[0].name == "x"]
    inside = {op for op in walk(func.body) if op.name == "sub"}
    assert min_cut_cache(func, loads, [result(func, "exp")], inside) in (
        [r for op in loads for r in op.results],
        [result(func, "exp")],
    )


@sim.kernel
def of_several_types(p: sim.array[sim.vec3], at: sim.array[int], s: sim.array[f64]):
    i = sim.tid()
    s[i] = s[i] * f64(at[i]) + f64(p[i][0] * p[i][2])


def test_slots_are_counted_by_type_in_program_order():
    func = traced(of_several_types)
    loads = [op for op in walk(func.body) if op.name == "load"]
    cached = [r for op in loads for r in op.results]
    layout = CacheLayout.of(func, cached)
    assert dict(layout.arrays) == {float32: 2, float64: 1, int32: 1}
    assert [kind.name for kind in layout.parameters()] == ["float32", "float64", "int32"]
    entries = [entry for op in loads for entry in layout.entries[op]]
    assert sorted(slot for kind, slot in entries if kind is float32) == [0, 1]
    some = CacheLayout.of(func, cached[:1])
    assert list(some.entries) == loads[:1] and some.arrays == ((cached[0].type, 1),)
