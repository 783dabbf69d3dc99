"""Programs about functions, structs and control flow; each returns the numbers that are compared.

`import sim as wp` is what the oracle replaces.  There each function is a module of its own, with this file's imports.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from oracle_helpers import values_and_gradients, values_only

import sim as wp


def overloads_by_type():
    @wp.func
    def twice(x: float):
        return x + x

    @wp.func
    def twice(x: wp.vec3):  # noqa: F811
        return 2.0 * x + wp.vec3(1.0, 0.0, 0.0)

    @wp.func
    def twice(x: int):  # noqa: F811
        return x * 2 + 100

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        v = twice(wp.vec3(x[i], 1.0, 2.0))
        out[i] = twice(x[i]) * v[0] + float(twice(i))

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def default_arguments():
    @wp.func
    def affine(x: float, slope: float = 2.0, offset: float = -1.0):
        return slope * x + offset

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = affine(x[i]) + affine(x[i], 3.0) * affine(x[i], offset=x[i])

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def keyword_arguments():
    @wp.func
    def minus(a: float, b: float):
        return a - b * b

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = minus(b=x[i], a=3.0) + minus(x[i], b=2.0)

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def several_results():
    @wp.func
    def both(a: float, b: float):
        return a * b, a + b, wp.vec2(a, b)

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        p, s, v = both(x[i], 3.0)
        out[i] = p * s - v[0]

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def functions_as_arguments():
    def make(f: Any, k: float):
        @wp.kernel(module="unique")
        def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = k * f(x[i])

        return work

    @wp.func
    def cube(x: float):
        return x * x * x

    x = [np.float32([0.5, 1.5, 2.0])]
    return values_and_gradients(wp, make(cube, 2.0), x) + values_and_gradients(wp, make(wp.sin, 3.0), x)


def function_parameter():
    @wp.func
    def square(x: float):
        return x * x

    @wp.func
    def apply_twice(f: wp.Function, x: float):
        return f(f(x))

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = apply_twice(square, x[i]) + apply_twice(wp.sin, x[i])

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def closures_of_constants():
    degree = 3
    weights = wp.constant(wp.vec3(1.0, -2.0, 0.5))

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        total = float(0.0)
        for k in range(degree):
            total += weights[k] * x[i] ** float(k + 1)
        out[i] = total

    return values_and_gradients(wp, work, [np.float32([0.5, 1.5, 2.0])])


def generic_function():
    @wp.func
    def square(x: Any):
        return x * x + x

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        n = square(i)
        d = square(wp.float64(x[i]))
        out[i] = square(x[i]) + float(n) + float(d)

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def generic_kernel():
    @wp.kernel
    def work(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = x[i] * x[i] + x[i]

    x = np.array([0.5, -1.5, 2.0])
    return values_and_gradients(wp, work, [x.astype(np.float32)]) + values_and_gradients(wp, work, [x])


def generic_kernel_overload():
    @wp.kernel
    def scale(x: wp.array(dtype=Any), s: Any, out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = s * x[i]

    of_floats = wp.overload(scale, [wp.array(dtype=wp.float32), wp.float32, wp.array(dtype=wp.float32)])
    wp.overload(scale, {"x": wp.array(dtype=wp.vec3), "s": wp.float32, "out": wp.array(dtype=wp.vec3)})
    x = wp.array([1.0, 2.0, 4.0], dtype=wp.float32)
    y = wp.zeros(3, dtype=wp.float32)
    wp.launch(of_floats, dim=3, inputs=[x, 2.5], outputs=[y])
    v = wp.array([[1.0, 2.0, 4.0]], dtype=wp.vec3)
    w = wp.zeros(1, dtype=wp.vec3)
    wp.launch(scale, dim=1, inputs=[v, 0.5], outputs=[w])
    return [y.numpy(), w.numpy()]


def static_expressions():
    table = [3.0, 1.0, 4.0]

    def make(n):
        @wp.kernel(module="unique")
        def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            total = wp.static(sum(table)) * x[i]
            for k in range(wp.static(n)):
                total += x[i] * wp.static(float(n)) * float(k)
            out[i] = total

        return work

    x = [np.float32([0.5, -1.5, 2.0])]
    return values_and_gradients(wp, make(2), x) + values_and_gradients(wp, make(4), x)


def enumerations():
    class Mode(IntEnum):
        SINE = 0
        SQUARE = 3

    @wp.kernel
    def work(x: wp.array(dtype=float), mode: int, out: wp.array(dtype=float)):
        i = wp.tid()
        if mode == Mode.SQUARE:
            out[i] = x[i] * x[i]
        elif mode == Mode.SINE:
            out[i] = wp.sin(x[i])

    x = np.float32([0.5, -1.5, 2.0])
    return values_and_gradients(wp, work, [x, Mode.SQUARE]) + values_and_gradients(wp, work, [x, Mode.SINE])


def tuples_in_kernels():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        pair = (x[i], 2.0)
        a, b = pair
        b, a = a, b
        out[i] = a * b + pair[0] * float(len(pair))

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def struct_argument():
    @wp.struct
    class Spring:
        stiffness: float
        rest: float
        anchor: wp.vec3
        count: int

    @wp.kernel
    def work(x: wp.array(dtype=wp.vec3), s: Spring, out: wp.array(dtype=float)):
        i = wp.tid()
        d = wp.length(x[i] - s.anchor) - s.rest
        out[i] = 0.5 * s.stiffness * d * d + float(s.count)

    s = Spring()
    s.stiffness = 3.0
    s.rest = 0.5
    s.anchor = wp.vec3(0.0, 1.0, 0.0)
    s.count = 7
    return values_and_gradients(wp, work, [np.float32([[1, 2, 3], [0, -1, 1]]), s], types=[wp.vec3])


def struct_nested():
    @wp.struct
    class Inner:
        scale: float
        axis: wp.vec3

    @wp.struct
    class Outer:
        inner: Inner
        offset: float

    @wp.func
    def apply(o: Outer, x: float):
        return o.inner.scale * x * o.inner.axis[1] + o.offset

    @wp.kernel
    def work(x: wp.array(dtype=float), o: Outer, out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = apply(o, x[i])

    o = Outer()
    o.inner.scale = 2.0
    o.inner.axis = wp.vec3(1.0, 3.0, 5.0)
    o.offset = 0.25
    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0]), o])


def struct_with_arrays():
    @wp.struct
    class State:
        x: wp.array(dtype=float)
        weights: wp.array2d(dtype=float)

    @wp.kernel
    def work(s: State, out: wp.array(dtype=float)):
        i = wp.tid()
        total = float(0.0)
        for k in range(s.weights.shape[1]):
            total += s.weights[i, k] * s.x[k] * s.x[k]
        out[i] = total

    s = State()
    s.x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    s.weights = wp.array(np.float32([[1, 2, 3], [4, 5, 6]]), dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(work, dim=2, inputs=[s], outputs=[out])
    tape.backward(grads={out: wp.array([1.0, -0.5], dtype=float)})
    return [out.numpy(), s.x.grad.numpy(), s.weights.grad.numpy()]


def struct_made_in_kernel():
    @wp.struct
    class Pair:
        a: float
        b: wp.vec2

    @wp.func
    def make(x: float):
        p = Pair()
        p.a = x * x
        p.b = wp.vec2(x, 1.0)
        p.b[1] = p.b[0] + 2.0
        return p

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        p = make(x[i])
        p.a += 1.0
        out[i] = p.a * p.b[0] + p.b[1]

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def struct_arrays():
    @wp.struct
    class Particle:
        x: wp.vec3
        mass: float

    @wp.kernel
    def work(ps: wp.array(dtype=Particle), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        p = ps[i]
        ps[i].mass = p.mass * 2.0
        out[i] = p.x * p.mass

    made = []
    for k in range(3):
        p = Particle()
        p.x = wp.vec3(float(k), 1.0, 2.0)
        p.mass = 0.5 + float(k)
        made.append(p)
    ps = wp.array(made, dtype=Particle)
    out = wp.zeros(3, dtype=wp.vec3)
    wp.launch(work, dim=3, inputs=[ps], outputs=[out])
    return [out.numpy(), ps.numpy()["mass"]]


def dynamic_loop():
    @wp.kernel
    def work(x: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
        i = wp.tid()
        total = x[i]
        for k in range(n):
            if k == 5:
                break
            if k % 2 == 1:
                continue
            total = total * 0.5 + wp.sin(total) * float(k)
        out[i] = total

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0]), 9])


def while_loop():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        v = x[i]
        n = int(0)
        while v > 1.0:
            v = v * 0.5
            n += 1
        out[i] = n

    return values_only(wp, work, [np.float32([0.5, 9.0, 200.0])], wp.int32)


def range_forms():
    @wp.kernel
    def work(n: int, out: wp.array(dtype=int)):
        i = wp.tid()
        total = int(0)
        for k in range(2, n):
            total = total * 3 + k
        for k in range(n, 0, -2):
            total = total * 3 + k
        for k in range(0, n, 3):
            total += k
        out[i] = total

    return [o for n in (0, 1, 7) for o in values_only(wp, work, [n], wp.int32)]


def early_return():
    @wp.func
    def root(x: float):
        if x < 0.0:
            return 0.0
        return wp.sqrt(x)

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        if x[i] > 100.0:
            return
        out[i] = root(x[i]) + 1.0

    return values_and_gradients(wp, work, [np.float32([4.0, -1.5, 200.0])])


def augmented_assignments():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        a = x[i]
        a += 2.0
        a *= x[i]
        a -= 0.5
        a /= 3.0
        v = wp.vec3(a)
        v += wp.vec3(1.0, 2.0, 3.0)
        v *= 2.0
        out[i] += wp.dot(v, v)
        out[i] -= x[i]

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def augmented_bits():
    @wp.kernel
    def work(x: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        a = x[i]
        a |= 8
        a &= 29
        a ^= 3
        a <<= 2
        a >>= 1
        a %= 37
        out[i] = a

    return values_only(wp, work, [np.int32([5, 77, 1000])], wp.int32)


def thread_indices():
    @wp.kernel
    def work(out: wp.array(dtype=int, ndim=4)):
        i, j, k, m = wp.tid()
        out[i, j, k, m] = ((i * 10 + j) * 10 + k) * 10 + m

    @wp.kernel
    def flat(out: wp.array(dtype=int)):
        i, j = wp.tid()
        wp.atomic_add(out, 0, i * j)
        wp.atomic_max(out, 1, i + j)

    a = wp.zeros((2, 2, 3, 2), dtype=int)
    wp.launch(work, dim=(2, 2, 3, 2), inputs=[a])
    b = wp.zeros(2, dtype=int)
    wp.launch(flat, dim=(4, 5), inputs=[b])
    return [a.numpy(), b.numpy()]


def logical_operators():
    @wp.func
    def positive(x: float):
        return x > 0.0

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        flag = positive(x[i]) and not x[i] > 1.5 or x[i] == -3.0
        if flag:
            out[i] = 1
        else:
            out[i] = -1

    return values_only(wp, work, [np.float32([0.5, -1.5, 2.0, -3.0])], wp.int32)


def compile_time_branches():
    def make(use_square):
        @wp.kernel(module="unique")
        def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            if wp.static(use_square):
                out[i] = x[i] * x[i]
            else:
                out[i] = x[i]

        return work

    x = [np.float32([0.5, -1.5, 2.0])]
    return values_and_gradients(wp, make(True), x) + values_and_gradients(wp, make(False), x)


def string_annotations():
    @wp.kernel
    def work(x: "wp.array(dtype=wp.vec2)", out: "wp.array(dtype=float)"):
        i = wp.tid()
        out[i] = x[i][0] * x[i][1]

    return values_and_gradients(wp, work, [np.float32([[1, 2], [3, 4]])], types=[wp.vec2])


def subscript_annotations():
    @wp.kernel
    def work(x: wp.array[wp.float32], out: wp.array[wp.float32]):
        i = wp.tid()
        out[i] = x[i] * x[i]

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def two_dimensional_annotation():
    @wp.kernel
    def work(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        row = x[i]
        out[i] = row[0] * row[1] + x[i, 1]

    return values_and_gradients(wp, work, [np.float32([[1, 2], [3, 4]])])


def local_array():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        stack = wp.zeros(shape=(4,), dtype=float)
        for k in range(4):
            stack[k] = x[i] * float(k)
        out[i] = stack[1] * stack[3]

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def expectations():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.expect_eq(i, i)
        wp.expect_neq(x[i], x[i] + 1.0)
        wp.expect_near(x[i], x[i] + 1.0e-7, 1.0e-3)
        wp.expect_eq(wp.vec3(x[i]), wp.vec3(x[i]))
        assert x[i] < 99.0, "small"
        out[i] = x[i]

    return values_only(wp, work, [np.float32([0.5, -1.5, 2.0])], wp.float32)
