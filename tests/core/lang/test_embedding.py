"""`embed` and `value_and_grad`: traced functions as functions of the language."""

import numpy as np
import pytest

import sim
from sim.core.lang.embedding import embed, fields_at, traced, value_and_grad
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Struct, array_type, float64, int32, vector

vec3 = vector(3, float64)


@sim.func
def twist(x, k: float):
    """Two results of two points and a number."""
    return k * sim.dot(x[0], x[1]), sim.length_sq(x[0]) + k


def twist_of_points():
    return traced(twist, [(vec3, vec3), float64], float64)


def run(function, a, b, k, width):
    @sim.kernel
    def kernel(a: sim.array[vec3], b: sim.array[vec3], k: sim.array[float64], out: sim.array2d[float64]):
        i = tid()
        values = function((a[i], b[i]), k[i])
        for j in sim.static(range(width)):
            out[i, j] = values[j]

    out = sim.zeros((len(a), width), float64)
    sim.launch(kernel, len(a), [sim.array(a, dtype=vec3), sim.array(b, dtype=vec3), sim.array(k, dtype=float64)], [out])
    return out.numpy()


def points():
    rng = np.random.default_rng(3)
    return rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)


def test_an_embedded_function_gives_the_tuple_of_its_results():
    a, b, k = points()
    found = run(embed(twist_of_points, "twist"), a, b, k, 2)
    np.testing.assert_allclose(found, np.stack([k * (a * b).sum(1), (a * a).sum(1) + k], axis=1))


def test_gradients_have_the_form_of_the_first_argument():
    a, b, k = points()
    evaluate = value_and_grad(twist_of_points, "twist")

    @sim.func
    def rows(x, k):
        values, gradients = evaluate(x, k)
        return values[1], gradients[0][0][0], gradients[0][1][2], gradients[1][0][1], gradients[1][1][0]

    found = run(rows, a, b, k, 5)
    wanted = [(a * a).sum(1) + k, k * b[:, 0], k * a[:, 2], 2 * a[:, 1], 0 * k]
    np.testing.assert_allclose(found, np.stack(wanted, axis=1))


def test_an_element_of_every_array_of_a_struct():
    Data = Struct("Data", {"k": array_type(float64), "v": array_type(vec3)})

    @sim.kernel
    def kernel(data: Data, out: sim.array2d[float64]):
        i = tid()
        k, v = fields_at(data, i)
        _, last = fields_at(data, (i, 4 - i))
        out[i, 0] = k * v[1]
        out[i, 1] = last[1]

    a, _, k = points()
    data, out = Data(), sim.zeros((5, 2), float64)
    data.k, data.v = sim.array(k, dtype=float64), sim.array(a, dtype=vec3)
    sim.launch(kernel, 5, [data], [out])
    np.testing.assert_allclose(out.numpy(), np.stack([k * a[:, 1], a[::-1, 1]], axis=1))


def test_arguments_that_do_not_fit_are_named():
    both = (sim.vec3d(1, 2, 3), sim.vec3d(3, 2, 1))
    embedded = embed(twist_of_points, "twist")
    whole = value_and_grad(lambda: traced(whole_number, [int32], float64), "whole")

    @sim.func
    def too_few():
        return embedded(both)

    @sim.func
    def unknown():
        return embedded(x=both)

    @sim.func
    def of_integers():
        return whole(sim.int32(3))

    for function, message in (
        (too_few, "twist takes the components (float64, float64, float64, float64, float64, float64, float64), got"),
        (unknown, "twist takes no argument 'x'"),
        (of_integers, "whole has a gradient: its first argument and results are floats, not int32"),
    ):
        with pytest.raises(sim.KernelError) as problem:
            traced(function, [], float64)
        assert message in str(problem.value)


@sim.func
def whole_number(n):
    return n * n
