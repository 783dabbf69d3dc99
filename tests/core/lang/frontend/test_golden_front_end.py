"""What the front end makes of small kernels, as text in `golden/`: a change of the tracer shows as a diff there.

SIM_GOLDEN=write writes the texts anew.
"""

import os
from pathlib import Path

import pytest

import sim
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.ir.printer import to_text

FOLDER = Path(__file__).parent / "golden"
f64 = sim.float64


@sim.struct
class Ball:
    x: sim.vec3d
    radius: f64


@sim.func
def squared(v):
    return sim.dot(v, v)


@sim.func
def cube(x: f64):
    return x * x * x


@cube.vjp
def _cube_vjp(x, y, ct):
    return 3.0 * ct * x * x


@sim.kernel
def branch(x: sim.array[f64], y: sim.array[f64]):
    """Both sides assign `a`, one leaves early: an `if` with results, and what is left moves into the other side."""
    i = sim.tid()
    a = x[i]
    if a > 1.0:
        a = sim.sin(a)
    else:
        a = 2.0
        y[i] = a
    if a < 0.0:
        return
    y[i] += a


@sim.kernel
def selection(x: sim.array[f64], y: sim.array[f64], n: int):
    """Nothing happens in the branches, so they are a `select`; the right side of `and` is not to be evaluated first."""
    i = sim.tid()
    y[i] = x[i] if n > 0 and x[n - 1] > 0.0 else -1.0


@sim.kernel
def loop(x: sim.array2d[f64], y: sim.array[f64], n: int):
    """A loop of the run carries what its body changes, with the type that the body gives it."""
    i = sim.tid()
    total = 0.0
    last = 0
    for k in range(n):
        total += x[i, k]
        last = k
    y[i] = total + f64(last)


@sim.kernel
def early_exit(x: sim.array[f64], y: sim.array[f64], n: int):
    """A `break` makes a `while` of the loop: the flag is carried."""
    found = -1.0
    for k in range(n):
        if x[k] > 0.0:
            found = x[k]
            break
    y[0] = found


@sim.kernel
def unrolled(x: sim.array[sim.vec3d], y: sim.array[f64]):
    """A loop over a short constant range is gone; components of an element are loads of one leaf."""
    i = sim.tid()
    total = f64(0.0)
    for k in range(3):
        total += x[i][k]
    y[i] = total


@sim.kernel
def struct_argument(ball: Ball, y: sim.array[Ball]):
    i = sim.tid()
    moved = ball
    moved.x = ball.x + y[i].x * ball.radius
    y[i] = moved
    y[i].radius = 1.0


@sim.kernel
def local_array(x: sim.array[f64], at: sim.array[int]):
    """A small array of the thread is a value: writing at an index of the run is a row of selects."""
    i = sim.tid()
    window = sim.zeros(shape=3, dtype=f64)
    window[at[i]] = x[i]
    x[i] = window[0] + window[at[i]]


@sim.kernel
def calls(x: sim.array[sim.vec3d], y: sim.array[f64]):
    """A function is traced in place; one with a derivative in closed form stays a call."""
    i = sim.tid()
    y[i] = cube(squared(x[i]))


KERNELS = (branch, selection, loop, early_exit, unrolled, struct_argument, local_array, calls)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_what_the_front_end_makes(kernel: sim.Kernel) -> None:
    types = [p.type for p in kernel.parameters]
    path, text = FOLDER / f"{kernel.name}.ir", to_text(trace_kernel(kernel.function, types, kernel.name)) + "\n"
    if os.environ.get("SIM_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{kernel.name} has changed; look at the diff after SIM_GOLDEN=write"


def test_every_text_is_of_a_kernel() -> None:
    assert {path.stem for path in FOLDER.glob("*")} == {kernel.name for kernel in KERNELS}
