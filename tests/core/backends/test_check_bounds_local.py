"""Indices into vectors, matrices, tuples and local arrays that are outside: found with `set_check_bounds`, in adjoints
too."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tools.tapes.gradients import backend

import sim

f64, vec3, mat33, mat23 = sim.float64, sim.vec3d, sim.mat33d, sim.types.matrix((2, 3), sim.float64)


@pytest.fixture(autouse=True, params=["interp", "llvm", "cuda"])
def on_backend(request):
    sim.set_check_bounds(True)
    with backend(request.param, sys.modules[__name__]):
        yield
    sim.set_check_bounds(False)


@sim.struct
class Body:
    v: vec3
    m: mat33


@sim.func
def part(v: vec3, k: int):
    return v[k]


@sim.kernel
def read(x: sim.array[f64], k: int, y: sim.array[f64]):
    v = vec3(x[0], x[1], x[2])
    y[0] = v[k] * v[k]


@sim.kernel
def read_in_a_function(x: sim.array[f64], k: int, y: sim.array[f64]):
    y[0] = part(vec3(x[0], x[1], x[2]), k)


@sim.kernel
def assign(x: sim.array[f64], k: int, y: sim.array[f64]):
    v = vec3(x[0], x[1], x[2])
    v[k] = x[3] * x[4]
    y[0] = sim.dot(v, v)


@sim.kernel
def add(x: sim.array[f64], k: int, y: sim.array[f64]):
    v = vec3(x[0], x[1], x[2])
    v[k] += x[3] * x[4]
    y[0] = sim.dot(v, v)


@sim.kernel
def row(x: sim.array[f64], k: int, y: sim.array[f64]):
    m = mat33(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
    y[0] = sim.dot(m[k], m[k])


@sim.kernel
def column(x: sim.array[f64], k: int, y: sim.array[f64]):
    m = mat33(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
    y[0] = m[0, k] * m[k, 0]


@sim.kernel
def assign_an_entry(x: sim.array[f64], k: int, y: sim.array[f64]):
    m = mat33(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
    m[1, k] = x[0] * x[1]
    m[2, 1] += m[1, 1]
    y[0] = m[2, 1] * m[1, 0] + m[1, 2]


@sim.kernel
def assign_a_row(x: sim.array[f64], k: int, y: sim.array[f64]):
    m = mat33(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
    m[k] = vec3(x[0], x[0] * x[1], x[2])
    y[0] = sim.determinant(m)


@sim.kernel
def local_array(x: sim.array[f64], k: int, y: sim.array[f64]):
    a = sim.zeros(shape=3, dtype=f64)
    for j in range(3):
        a[j] = x[j] * x[j]
    a[k] = a[k] * x[3]
    y[0] = a[0] + a[1] * a[2]


@sim.kernel
def choice_from_a_tuple(x: sim.array[f64], k: int, y: sim.array[f64]):
    y[0] = (x[0] * x[1], x[2], x[3] * x[3])[k]


@sim.kernel
def field_of_a_struct(x: sim.array[f64], k: int, y: sim.array[f64]):
    s = Body(v=vec3(x[0], x[1], x[2]))
    s.v[k] = x[3]
    s.m[k, 0] = x[4]
    y[0] = s.v[k] * s.v[0] + s.m[k, 0]


@sim.kernel
def in_a_loop(x: sim.array[f64], k: int, y: sim.array[f64]):
    v = vec3(x[0], x[1], x[2])
    total = f64(0.0)
    for j in range(k + 1):
        total = total + v[j] * x[3]
    y[0] = total


@sim.kernel
def entry_in_memory(x: sim.array[f64], m: sim.array[mat23], k: int, y: sim.array[f64]):
    y[0] = x[0] * m[0][0, k] * m[0][0, k]


LOCAL = [
    read,
    read_in_a_function,
    assign,
    add,
    row,
    column,
    assign_an_entry,
    assign_a_row,
    local_array,
    choice_from_a_tuple,
    field_of_a_struct,
    in_a_loop,
]


def arguments() -> tuple[sim.array, sim.array]:
    return sim.array(np.linspace(0.5, 1.5, 9), dtype=f64, requires_grad=True), sim.zeros(
        1, dtype=f64, requires_grad=True
    )


def line_of(kernel: sim.Kernel, part: str) -> int:
    """The line of a file where a kernel says this."""
    code = kernel.function.python.__code__
    with open(__file__) as file:
        lines = file.read().splitlines()
    return next(n for n in range(code.co_firstlineno, len(lines) + 1) if part in lines[n - 1])


@pytest.mark.parametrize("kernel", LOCAL, ids=lambda k: k.name)
def test_an_index_outside_of_a_value_of_the_thread(kernel):
    x, y = arguments()
    for k in (0, 1, 2):
        with sim.Tape() as tape:
            sim.launch(kernel, 1, inputs=[x, k], outputs=[y])
        tape.backward(grads={y: np.ones(1)})
    for k in (3, 7) if kernel is in_a_loop else (3, 100, -4, -6):
        # the way back meets the last one first; what counts from the end is named from the beginning
        outside = f"[3-{k}]" if kernel is in_a_loop else k if k > 0 else k + 3
        for adjoint in (False, True):
            with pytest.raises(
                sim.KernelFault,
                match=rf"index {outside} is outside of 0 \.\. 2, in thread 0 of kernel '.*{kernel.name}",
            ):
                sim.launch(kernel, 1, inputs=[x, k], outputs=[y], adjoint=adjoint)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [(read, "y[0] = v[k]"), (assign, "v[k] = "), (add, "v[k] += "), (read_in_a_function, "part(")],
    ids=str,
)
def test_the_error_names_the_line(kernel, text):
    x, y = arguments()
    line = line_of(kernel, text) if kernel is not read_in_a_function else part.python.__code__.co_firstlineno + 2
    with pytest.raises(sim.KernelFault, match=rf"test_check_bounds_local.py:{line}:\d+: index 5 is outside"):
        sim.launch(kernel, 1, inputs=[x, 5], outputs=[y])


def test_each_index_of_a_matrix_in_memory():
    x, y = arguments()
    m = sim.array(np.ones((1, 2, 3)), dtype=mat23, requires_grad=True)
    sim.launch(entry_in_memory, 1, inputs=[x, m, 2], outputs=[y])
    for adjoint in (False, True):
        for k, place in ((3, 3), (-4, -1)):  # 3 would be the first entry of the next row
            with pytest.raises(sim.KernelFault, match=rf"index {place} is outside of 0 \.\. 2"):
                sim.launch(entry_in_memory, 1, inputs=[x, m, k], outputs=[y], adjoint=adjoint)


def test_a_check_that_is_switched_on_for_the_way_back():
    x, y = arguments()
    sim.set_check_bounds(False)
    with sim.Tape() as tape:
        sim.launch(read, 1, inputs=[x, 3], outputs=[y])
    assert y.numpy()[0] == x.numpy()[2] ** 2  # without the check an index outside is the last component
    sim.set_check_bounds(True)
    with pytest.raises(sim.KernelFault, match=r"index 3 is outside of 0 \.\. 2"):
        tape.backward(grads={y: np.ones(1)})


@sim.kernel
def guarded(x: sim.array[f64], index: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    k = index[i]
    v = vec3(x[i], x[i] * x[i], 1.0)
    total = f64(0.0)
    if 0 <= k and k < 3:
        total = total + v[k]
        v[k] = total * x[i]
    if k >= 0 and k < 3 and v[k] > 0.0:
        total = total + v[k]
    total = total + (v[k] if k >= 0 and k < 3 else f64(0.0))
    total = total + sim.where(k >= 0 and k < 3, v[sim.clamp(k, 0, 2)], x[i])
    j = k
    while j >= 0 and j < 3:
        total = total + v[j] * x[i]
        j = j + 1
    for n in range(10):
        if n == 3:
            break
        total = total * 0.5 + v[n]
    if k < 0 or k > 2:
        y[i] = total
        return
    y[i] = total + v[k] / x[i]


def test_what_is_not_reached_is_not_reported():
    x = sim.array([0.5, 0.75, 1.25, 1.5, 0.3], dtype=f64, requires_grad=True)
    index, y = sim.array([0, 2, 3, -1, 7]), sim.zeros(5, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(guarded, 5, inputs=[x, index], outputs=[y])
    tape.backward(grads={y: np.ones(5)})
    found = y.numpy().copy(), x.grad.numpy().copy()
    assert np.isfinite(found).all()
    sim.set_check_bounds(False)
    x.grad.zero_()
    with sim.Tape() as tape:
        sim.launch(guarded, 5, inputs=[x, index], outputs=[y])
    tape.backward(grads={y: np.ones(5)})
    np.testing.assert_array_equal(found, (y.numpy(), x.grad.numpy()))
