"""Indices from the end, whole numbers divided, equal values: what a program silently computes something else with."""

import enum
import math

import numpy as np
from oracle_helpers import values_and_gradients

import sim as wp


def loaded_indices():
    @wp.kernel
    def work(x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[at[i]] + 2.0 * x[at[i] - 1]

    x = wp.array([1.0, 4.0, 9.0, 16.0, 25.0], dtype=float)
    at = wp.array([0, -1, -2, 4, -4, 1], dtype=int)
    out = wp.zeros(6, dtype=float)
    wp.launch(work, dim=6, inputs=[x, at], outputs=[out])
    return [out.numpy()]


def rows_and_components():
    @wp.kernel
    def work(t: wp.array2d(dtype=wp.vec3), at: wp.array(dtype=wp.vec2i), out: wp.array(dtype=float)):
        i = wp.tid()
        k = at[i]
        v = t[k[0], k[1]]
        m = wp.matrix_from_rows(v, t[0, 1], t[1][k[1]])
        found = v[k[0]] + 10.0 * t[k[0]][k[1]][k[1]] + 100.0 * m[k[0], k[1]]
        v[k[1]] = 1000.0
        out[i] = found + v[0] - v[2]

    t = wp.array(np.arange(27.0).reshape(3, 3, 3) ** 0.5, dtype=wp.vec3)
    at = wp.array([[-1, 0], [1, -2], [-2, -1], [2, 2], [-3, -3]], dtype=wp.vec2i)
    out = wp.zeros(5, dtype=float)
    wp.launch(work, dim=5, inputs=[t, at], outputs=[out])
    return [out.numpy()]


def stores_and_atomics():
    @wp.kernel
    def work(at: wp.array(dtype=int), grid: wp.array2d(dtype=float), sums: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        k = at[i]
        grid[k, k - 1] = float(i + 1)
        wp.atomic_add(sums, k, wp.vec2(1.0, float(i)))
        sums[k - 3] += wp.vec2(100.0, 0.0)

    grid, sums = wp.zeros((4, 3), dtype=float), wp.zeros(5, dtype=wp.vec2)
    wp.launch(work, dim=3, inputs=[wp.array([-1, 1, 0], dtype=int), grid, sums])
    return [grid.numpy(), sums.numpy()]


def numbers_of_a_launch():
    @wp.kernel
    def work(x: wp.array(dtype=float), width: int, by: int, out: wp.array(dtype=float)):
        i = wp.tid()
        row, column = i // width, i % width
        out[i] = x[row * width + column + by]

    found = []
    for by in (0, 1, -2):
        x, out = wp.array(np.arange(8.0), dtype=float), wp.zeros(6, dtype=float)
        wp.launch(work, dim=6, inputs=[x, 3, by], outputs=[out])
        found.append(out.numpy())
    return found


def equal_values():
    @wp.kernel
    def work(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        v = wp.min(wp.vec2(x[i], y[i]), wp.vec2(y[i], x[i]))
        out[i] = 3.0 * wp.max(x[i], y[i]) + wp.min(x[i], 1.0) + wp.max(0.0, y[i]) + 7.0 * v[0] + 11.0 * v[1]

    x, y = np.float32([1, 1, 2, 0, -3]), np.float32([1, 2, 1, 0, -3])
    return values_and_gradients(wp, work, [x, y])


def quotients_of_whole_numbers():
    count = 7

    class Size(enum.IntEnum):
        SMALL = 3

    @wp.kernel
    def work(n: int, out: wp.array(dtype=int)):
        out[0] = 1 / 2
        out[1] = count / 2
        out[2] = -count / 2
        out[3] = count // 2 + -7 // 2
        out[4] = Size.SMALL / 2 + n / 2
        out[5] = -n // 2 + -n % 4
        for i in range(count):
            if i < count / 2:
                out[6] += 1

    out = wp.zeros(7, dtype=int)
    wp.launch(work, dim=1, inputs=[9, out])
    return [out.numpy()]


def conversions_that_wrap():
    @wp.kernel
    def work(n: wp.int64, out: wp.array(dtype=wp.int64)):
        out[0] = wp.int64(wp.int8(200))
        out[1] = wp.int64(wp.uint8(-1))
        out[2] = wp.int64(wp.uint32(-1))
        out[3] = wp.int64(wp.int32(0x9E3779B9))
        out[4] = wp.int64(wp.int16(70000))
        out[5] = wp.int64(int(3000000000))
        out[6] = wp.int64(wp.uint64(-1) >> wp.uint64(1))
        out[7] = wp.int64(wp.int8(n)) + wp.int64(wp.int16(n))

    out = wp.zeros(8, dtype=wp.int64)
    wp.launch(work, dim=1, inputs=[wp.int64(123456), out])
    return [out.numpy()]


def a_struct_with_any_names():
    @wp.struct
    class Contact:
        kind: int
        value: float
        fields: wp.vec2

    @wp.kernel
    def work(contacts: wp.array(dtype=Contact)):
        i = wp.tid()
        contacts[i].kind = i * 2
        contacts[i].fields[1] = contacts[i].value

    made = Contact()
    made.kind, made.value, made.fields = 5, 2.5, wp.vec2(1.0, 2.0)
    contacts = wp.array([made, made], dtype=Contact)
    wp.launch(work, dim=2, inputs=[contacts])
    return [np.array([c.kind for c in contacts.list()]), contacts.numpy()["fields"], contacts.numpy()["kind"]]


def functions_of_other_modules():
    @wp.kernel
    def work(x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        a = np.sin(x[i]) + math.sin(x[i]) + np.pi * math.pi + np.abs(-x[i]) + abs(x[i]) + np.exp(x[i]) + math.sqrt(x[i])
        b = (
            np.dot(v[i], np.cross(v[i], wp.vec3(1.0, 2.0, 3.0)))
            + math.atan2(x[i], 1.0)
            + np.float32(i)
            + float(np.int32(x[i]))
        )
        out[i] = a + b + np.floor(3.0 * x[i]) + np.tanh(x[i]) + np.log10(x[i])

    x, v = wp.array([0.3, 1.7], dtype=float), wp.array([[1.0, 2.0, 0.5], [3.0, 1.0, 2.0]], dtype=wp.vec3)
    out = wp.zeros(2, dtype=float)
    wp.launch(work, dim=2, inputs=[x, v, out])
    return [out.numpy()]


def integers_beside_float_constants():
    @wp.kernel
    def work(
        n: wp.array(dtype=wp.int32),
        u: wp.array(dtype=wp.uint32),
        small: wp.array(dtype=wp.int8),
        wide: wp.array(dtype=wp.int64),
        out: wp.array2d(dtype=wp.int32),
    ):
        i = wp.tid()
        if n[i] > 2.0:
            out[i, 0] = 1
        if 1.5 >= n[i]:
            out[i, 1] = 1
        if n[i] == 3.0 or n[i] != 7.0:
            out[i, 2] = 1
        if u[i] < 2.5:
            out[i, 3] = 1
        while small[i] < -0.5:
            small[i] = small[i] + wp.int8(1)
        out[i, 4] = wp.where(wide[i] >= 1.0e6, 1, int(small[i]))

    n = np.int32([-7, 1, 2, 3, 7])
    out = wp.zeros((5, 5), dtype=wp.int32)
    arrays = [
        wp.array(n, dtype=wp.int32),
        wp.array(np.abs(n), dtype=wp.uint32),
        wp.array(n, dtype=wp.int8),
        wp.array(n.astype(np.int64) * 2**30, dtype=wp.int64),
    ]
    wp.launch(work, dim=5, inputs=arrays, outputs=[out])
    return [out.numpy()]
