"""What a launch refuses, and how it says so: the argument and the cure."""

import re
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.runtime.compiled.argument_packing import LaunchError


@sim.struct
class Material:
    stiffness: float
    rest: sim.array[float]


@sim.struct
class Other:
    stiffness: float


@sim.kernel
def mean_square(x: sim.array[sim.vec3], scale: float, loss: sim.array[float]):
    sim.atomic_add(loss, 0, sim.dot(x[sim.tid()], x[sim.tid()]) * scale)


@sim.kernel
def grid(x: sim.array2d[float]):
    i, j = sim.tid()
    x[i, j] = float(i + j)


@sim.kernel
def small(n: sim.int8, m: sim.uint16, flag: bool, y: sim.array[int]):
    y[sim.tid()] = int(n) + int(m)


@sim.kernel
def with_struct(m: Material, y: sim.array[float]):
    y[sim.tid()] = m.stiffness


@sim.kernel
def with_blocks(m: sim.types.matrix((2, 3), float), q: sim.quat, y: sim.array[float]):
    y[0] = m[1, 2] + q[3]


@sim.kernel
def with_place(v: sim.vec3i, y: sim.array[int]):
    y[0] = v[0]


@sim.kernel
def with_vector(v: sim.vec3, y: sim.array[float]):
    y[sim.tid()] = v.x


@sim.kernel
def generic(x: sim.array[Any], y: sim.array[Any]):
    y[sim.tid()] = x[sim.tid()]


def points(n: int = 4) -> sim.array:
    return sim.zeros(n, dtype=sim.vec3)


def one() -> sim.array:
    return sim.zeros(1)


def ints() -> sim.array:
    return sim.zeros(4, dtype=int)


def wrong_field() -> Material:
    m = Material()
    m.rest = np.zeros(3)
    return m


ROWS = [
    # kernel, dim, inputs, outputs, what the message says
    (mean_square, 4, lambda: [np.zeros((4, 3)), 1.0, one()],
     "inputs[0] ('x') of kernel 'mean_square' is a NumPy array; pass sim.array("),
    (mean_square, 4, lambda: [[[1.0, 2.0, 3.0]], 1.0, one()],
     "inputs[0] ('x') of kernel 'mean_square' is a list; expected array"),
    (mean_square, 4, lambda: [points(), 1.0, 3.0],
     "inputs[2] ('loss') of kernel 'mean_square' is a float; expected array"),
    (mean_square, 4, lambda: [sim.zeros(4), 1.0, one()],
     "inputs[0] ('x') of kernel 'mean_square' has dtype float32; expected vec3<float32>"),
    (mean_square, 4, lambda: [sim.zeros(4, dtype=sim.vec3d), 1.0, one()],
     "has dtype vec3<float64>; expected vec3<float32>"),
    (mean_square, 4, lambda: [sim.zeros((4, 2), dtype=sim.vec3), 1.0, one()],
     "inputs[0] ('x') of kernel 'mean_square' has 2 dimensions; expected 1"),
    (mean_square, 4, lambda: [points(), 1.0], "takes 3 arguments, got 2: 'loss' is missing from inputs or outputs"),
    (mean_square, 4, lambda: [], "takes 3 arguments, got 0: 'x', 'scale', 'loss' is missing"),
    (mean_square, 4, lambda: [points(), 1.0, one(), one()], "takes 3 arguments (x, scale, loss), got 4"),
    (mean_square, 4, lambda: [points(), "fast", one()],
     "inputs[1] ('scale') of kernel 'mean_square' is 'fast'; expected float32"),
    (mean_square, 4, lambda: [points(), np.zeros(3), one()],
     "inputs[1] ('scale') of kernel 'mean_square' is a NumPy array"),
    (mean_square, 4, lambda: [points(), points(), one()],
     "is an array of shape (4,) of vec3<float32>; expected a value of type float32"),
    (mean_square, 4, lambda: [points(), 1e300, one()],
     "inputs[1] ('scale') of kernel 'mean_square' is 1e+300; expected float32"),
    (mean_square, 4, lambda: [points(), None, one()],
     "inputs[1] ('scale') of kernel 'mean_square' is None; expected float32"),
    (grid, -1, lambda: [sim.zeros((4, 4))], "dim is -1; expected at most 4 dimensions, of non-negative integers"),
    (grid, (1, 1, 1, 1, 1), lambda: [sim.zeros((4, 4))], "expected at most 4 dimensions, of non-negative integers"),
    (grid, 2.5, lambda: [sim.zeros((4, 4))], "dim is 2.5; expected an integer or up to four of them"),
    (grid, (2, 2.5), lambda: [sim.zeros((4, 4))], "dim is (2, 2.5); expected an integer"),
    (grid, "44", lambda: [sim.zeros((4, 4))], "dim is '44'; expected an integer"),
    (grid, (1, (1 << 31) + 1), lambda: [sim.zeros((4, 4))],
     "dim=(1, 2147483649): kernel 'grid' asks for tid() in dimension 1, whose extent 2147483649 is more than 2^31"),
    (small, 1, lambda: [200, 1, True, ints()], "inputs[0] ('n') of kernel 'small' is 200; expected int8"),
    (small, 1, lambda: [np.int64(200), 1, True, ints()], "inputs[0] ('n') of kernel 'small' is np.int64(200)"),
    (small, 1, lambda: [1, -1, True, ints()], "inputs[1] ('m') of kernel 'small' is -1; expected uint16"),
    (small, 1, lambda: [1.5, 1, True, ints()], "inputs[0] ('n') of kernel 'small' is 1.5; expected int8"),
    (with_struct, 1, lambda: [3.0, one()],
     "inputs[0] ('m') of kernel 'with_struct' is a float; expected struct Material: make one with Material()"),
    (with_struct, 1, lambda: [Other(), one()], "expected struct Material"),
    (with_struct, 1, lambda: [wrong_field(), one()],
     "field 'rest' of inputs[0] ('m') of kernel 'with_struct' is a ndarray; expected array"),
    (with_vector, 1, lambda: [(1.0, 2.0), one()],
     "inputs[0] ('v') of kernel 'with_vector' has 2 components; expected vec3<float32>"),
    (with_vector, 1, lambda: ["abc", one()], "'with_vector' is 'abc'; expected vec3<float32>"),
    (with_vector, 1, lambda: [None, one()], "'with_vector' is None; expected vec3<float32>"),
    (with_vector, 1, lambda: [("a", "b", "c"), one()], "is ('a', 'b', 'c'); expected vec3<float32>"),
    (with_vector, 1, lambda: [(1e39, 0.0, 0.0), one()], "is (1e+39, 0.0, 0.0); expected vec3<float32>"),
    (with_blocks, 1, lambda: [np.ones((3, 2)), sim.quat(), one()],
     "inputs[0] ('m') of kernel 'with_blocks' has shape (3, 2); expected mat23<float32>"),
    (with_blocks, 1, lambda: [np.ones((2, 3)), sim.mat22(), one()], "('q') of kernel 'with_blocks' has shape (2, 2)"),
    (with_place, 1, lambda: [(1.5, 2.0, 3.0), ints()], "is (1.5, 2.0, 3.0); expected vec3<int32>"),
    (with_place, 1, lambda: [sim.vec3(1.5, 2.0, 3.0), ints()], "is vec3f([1.5, 2.0, 3.0]); expected vec3<int32>"),
    (with_place, 1, lambda: [(1 << 40, 2, 3), ints()], "is (1099511627776, 2, 3); expected vec3<int32>"),
    (with_vector, 1, lambda: [1.5, one()],
     "'v') of kernel 'with_vector' is a single value, 1.5; expected vec3<float32>: to fill it write vec3f(1.5)"),
    (with_struct, 1, lambda: [None, one()],
     "inputs[0] ('m') of kernel 'with_struct' is None; expected struct Material: make one with Material()"),
    (generic, 1, lambda: [None, one()],
     "inputs[0] ('x') of kernel 'generic' is None, and its element type cannot be guessed"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "dim", "arguments", "message"), ROWS, ids=[f"{r[0].name}-{k}" for k, r in enumerate(ROWS)]
)
def test_wrong_arguments(kernel, dim, arguments, message):
    with pytest.raises(LaunchError, match=re.escape(message)):
        sim.launch(kernel, dim, inputs=arguments())


def test_arguments_are_counted_from_inputs_and_outputs():
    with pytest.raises(LaunchError, match=re.escape("outputs[0] ('loss') of kernel 'mean_square' is a NumPy array")):
        sim.launch(mean_square, 4, inputs=[points(), 1.0], outputs=[np.zeros(1)])
    with pytest.raises(
        LaunchError, match=re.escape("inputs is an array; expected a list of arguments: inputs=[array]")
    ):
        sim.launch(generic, 4, inputs=one(), outputs=[one()])
    with pytest.raises(LaunchError, match=re.escape("decorate the function with @sim.kernel")):
        sim.launch(lambda x: x, 4, inputs=[one()])
    with pytest.raises(
        LaunchError, match=re.escape("cannot be called; use sim.launch(grid, dim=..., inputs=[...], outputs=[...])")
    ):
        grid(one())
    with pytest.raises(TypeError, match="takes no option 'fast'"):
        sim.kernel(fast=True)(lambda: None)


def test_a_refusal_changes_nothing_and_the_next_launch_works():
    """The types are known by then: the short way checks the range too."""

    @sim.kernel
    def sums(n: sim.int8, m: sim.uint16, y: sim.array[int]):
        y[sim.tid()] = int(n) + int(m)

    @sim.kernel
    def scaled(scale: float, y: sim.array[float]):
        y[sim.tid()] = scale

    y = ints()
    sim.launch(sums, 4, inputs=[5, 7], outputs=[y])
    for bad, said in (([300, 7], "'n' = 300, 'm' = 7"), ([5, 70000], "'n' = 5, 'm' = 70000")):
        with pytest.raises(LaunchError, match=f"kernel 'sums': a number does not fit its type, .*: {said}"):
            sim.launch(sums, 4, inputs=bad, outputs=[y])
    sim.launch(scaled, 1, inputs=[1.0], outputs=[one()])
    with pytest.raises(LaunchError, match="kernel 'scaled': a number does not fit its type, .*: 'scale' = 1e\\+300"):
        sim.launch(scaled, 1, inputs=[1e300], outputs=[one()])
    assert y.list() == [12] * 4
    sim.launch(sums, 4, inputs=[-5, 7], outputs=[y])
    assert y.list() == [2] * 4


def test_unknown_devices():
    with pytest.raises(sim.SimError, match="there is no device 'cpuu'.*did you mean 'cpu'"):
        sim.launch(grid, (2, 2), inputs=[sim.zeros((2, 2))], device="cpuu")
    with pytest.raises(sim.SimError, match="device 'cuda:0' is not available"):
        sim.launch(grid, (2, 2), inputs=[sim.zeros((2, 2))], device="cuda:0")


# ---- adjoint launches
@sim.kernel
def square(x: sim.array[sim.float64], scale: sim.float64, y: sim.array[sim.float64]):
    i = sim.tid()
    y[i] = scale * x[i] * x[i]


@sim.kernel
def square_twice(x: sim.array[sim.float64]):
    i = sim.tid()
    x[i] = x[i] * x[i]
    x[i] += 1.0
    x[0] = x[i] * x[i]


def doubles(n: int = 3, gradient: bool = True) -> sim.array:
    return sim.zeros(n, dtype=sim.float64, requires_grad=gradient)


ADJOINT_ROWS = [
    # x, adj_inputs, adj_outputs, message
    (doubles, lambda: [np.zeros(3)], list,
     "the adjoint of 'x' of kernel 'square' is a ndarray; expected an array like 'x', or None"),
    (doubles, lambda: [doubles(4)], list,
     "the adjoint of 'x' of kernel 'square' has shape (4,) of float64; expected (3,) of float64"),
    (doubles, lambda: [sim.zeros(3)], list, "has shape (3,) of float32; expected (3,) of float64"),
    (doubles, lambda: [None, doubles(1)], list,
     "the adjoint of 'scale' of kernel 'square' is given, but 'scale' is a float64"),
    (doubles, lambda: [None, None, doubles()], list, "adj_inputs has 3 entries, inputs has 2"),
    (doubles, list, lambda: [doubles(), doubles()], "adj_outputs has 2 entries, outputs has 1"),
    (lambda: None, lambda: [doubles()], list,
     "argument 'x' of kernel 'square' is None, and every thread uses its elements"),
]  # fmt: skip


@pytest.mark.parametrize(("x", "adj_inputs", "adj_outputs", "message"), ADJOINT_ROWS, ids=range(len(ADJOINT_ROWS)))
def test_wrong_gradient_arrays(x, adj_inputs, adj_outputs, message):
    with pytest.raises(LaunchError, match=re.escape(message)):
        sim.launch(
            square,
            3,
            inputs=[x(), 2.0],
            outputs=[doubles()],
            adj_inputs=adj_inputs(),
            adj_outputs=adj_outputs(),
            adjoint=True,
        )


def test_an_adjoint_launch_without_a_gradient_to_start_from():
    for x, y in ((doubles(), doubles(gradient=False)), (doubles(gradient=False), doubles(gradient=False))):
        with pytest.raises(
            LaunchError,
            match=(
                "it writes 'y', and no gradient of that to start from is given.*requires_grad=True, or pass adj_outputs"
            ),
        ):
            sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], adjoint=True)


def test_an_adjoint_that_needs_values_which_the_launch_destroys():
    with pytest.raises(LaunchError, match="overwrites values of 'x' that its own adjoint needs.*record it on a Tape"):
        sim.launch(square_twice, 1, outputs=[doubles()], adjoint=True)


def test_the_adjoint_of_a_number_is_taken_as_a_number():
    g = doubles(gradient=False)
    for number in (None, 0.0, 0, np.float64(0.0)):
        g.zero_()
        x, weights = sim.array(np.arange(3.0)), sim.array(np.ones(3))
        sim.launch(square, 3, [x, 2.0], [doubles()], adj_inputs=[g, number], adj_outputs=[weights], adjoint=True)
        assert g.list() == [0.0, 4.0, 8.0]


def test_an_adjoint_launch_on_an_open_tape():
    x, y, g, w, z = doubles(), doubles(), doubles(gradient=False), doubles(gradient=False), doubles()
    with sim.Tape():
        sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], adj_inputs=[g], adj_outputs=[w], adjoint=True)
        with pytest.raises(
            sim.GradientError, match="the gradient of 'x' in the adjoint launch of 'square'.*would be lost"
        ):
            sim.launch(square, 3, inputs=[g, 2.0], outputs=[z])
        with pytest.raises(
            sim.GradientError, match="adjoint launch of 'square' writes an array that requires a gradient"
        ):
            sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], adj_inputs=[z], adjoint=True)


RECORDED_ROWS = [
    (lambda c: c.set_param_at_index(3, 1.0), "kernel 'square' has 3 arguments; there is no index 3"),
    (lambda c: c.set_param_at_index(-1, 1.0), "there is no index -1"),
    (lambda c: c.set_param_by_name("z", 1.0), "kernel 'square' has no argument 'z'; it has x, scale, y"),
    (lambda c: c.set_param_at_index(0, sim.zeros(3)),
     "argument 0 ('x') of kernel 'square' has dtype float32; expected float64"),
    (lambda c: c.set_param_by_name("scale", "a"), "'scale' of kernel 'square' is 'a'; expected float64"),
    (lambda c: c.set_param_at_index(0, doubles(), adjoint=True), "this launch is a forward one"),
    (lambda c: c.set_dim((2, -2)), "expected at most 4 dimensions, of non-negative integers"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), RECORDED_ROWS, ids=range(len(RECORDED_ROWS)))
def test_wrong_changes_of_a_recorded_launch(change, message):
    x, y = doubles(), doubles()
    command = sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], record_cmd=True)
    with pytest.raises(LaunchError, match=re.escape(message)):
        change(command)
    x.fill_(3.0)
    command.launch()
    assert y.list() == [18.0] * 3


def test_a_recorded_adjoint_never_runs_with_gradient_arrays_of_another_shape():
    x, y = doubles(), doubles()
    command = sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], adj_inputs=[doubles()], adjoint=True, record_cmd=True)
    with pytest.raises(LaunchError, match=re.escape("expected (3,) of float64")):
        command.set_param_at_index(0, doubles(5), adjoint=True)
    command.set_param_by_name("x", doubles(2))
    with pytest.raises(LaunchError, match=r"'x' needs a gradient array of its shape, there is one of shape \(3,\)"):
        command.launch()
    own = sim.launch(square, 3, inputs=[x, 2.0], outputs=[y], adjoint=True, record_cmd=True)
    own.set_param_by_name("x", doubles(gradient=False))
    with pytest.raises(
        LaunchError,
        match="'x' needs a gradient array of its shape, there is none; make the array with requires_grad=True",
    ):
        own.launch()


def test_the_numbers_of_a_matrix_may_come_in_order_or_in_rows():
    y = sim.zeros(1)
    for m in (np.arange(6.0), np.arange(6.0).reshape(2, 3), [[0, 1, 2], [3, 4, 5]], np.arange(6.0).reshape(1, 6)):
        sim.launch(with_blocks, 1, [m, np.array([[1.0], [2.0], [3.0], [4.0]]), y])
        assert y.numpy()[0] == 9.0
