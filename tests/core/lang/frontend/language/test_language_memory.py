"""Memory in the language, by the reference interpreter: components, structs, views of arrays, atomics, indices of
threads."""

from __future__ import annotations

import numpy as np
from tools.programs.interpreted import (
    atomic_add,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_sub,
    call,
    mat22,
    mat33,
    quat,
    run,
    tid,
    transform,
    vec3,
)

from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.ir.core import walk
from sim.core.lang.types import (
    array_type,
    float32,
    int8,
    int32,
    struct,
)


# ---- memory
def test_components_of_array_elements_in_every_form() -> None:
    def k(x: array_type(vec3), m: array_type(mat33), n: array_type(int)):
        i = tid()
        j = n[i]
        x[i].y = 5.0
        x[i][0] += 2.0
        x[i].z -= 1.0
        x[i][j] *= 3.0
        m[i][1, 2] = x[i].x
        m[i][j][0] = 7.0
        m[i][0] = x[i]
        m[i][2, j] += 10.0
        n[i] += 1
        n[i] *= 4

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    m, n = np.zeros((2, 3, 3), np.float32), np.array([2, 1], np.int32)
    want_x, want_m = x.copy(), m.copy()
    for i in range(2):
        want_x[i, 1] = 5.0
        want_x[i, 0] += 2.0
        want_x[i, 2] -= 1.0
        want_x[i, n[i]] *= 3.0
        want_m[i, 1, 2] = want_x[i, 0]
        want_m[i, n[i], 0] = 7.0
        want_m[i, 0] = want_x[i]
        want_m[i, 2, n[i]] += 10.0
    want_n = (n + 1) * 4
    run(k, 2, x, m, n)
    np.testing.assert_array_equal(x, want_x)
    np.testing.assert_array_equal(m, want_m)
    np.testing.assert_array_equal(n, want_n)


def test_components_of_local_values_in_every_form() -> None:
    def f(j: int, a: float):
        v = vec3(1.0, 2.0, 3.0)
        v[0] += a
        v.y = 10.0
        v[j] *= 2.0
        v[-1] -= 0.5
        m = mat33()
        m[0, 1] = a
        m[1] = v
        m[2][0] += 4.0
        m[j, j] += 100.0
        m[j][0] -= 1.0
        t = transform(v, quat(0.0, 0.0, 0.0, 1.0))
        t.p.x = -1.0
        t.q = quat(vec3(1.0, 2.0, 3.0), 4.0)
        w = m[j]
        return v, m, t, w[j], t.p.y, t.q.w

    for j in range(3):
        v = np.array([1.0, 2.0, 3.0])
        v[0] += 0.25
        v[1] = 10.0
        v[j] *= 2.0
        v[-1] -= 0.5
        m = np.zeros((3, 3))
        m[0, 1] = 0.25
        m[1] = v
        m[2, 0] += 4.0
        m[j, j] += 100.0
        m[j, 0] -= 1.0
        want = [*v, *m.ravel(), -1.0, v[1], v[2], 1.0, 2.0, 3.0, 4.0, m[j, j], v[1], 4.0]
        np.testing.assert_allclose(call(f, [int32, float32], j, 0.25), want)


def test_loading_one_component_loads_one_scalar() -> None:
    def k(x: array_type(vec3), y: array_type(float)):
        y[tid()] = x[tid()].y

    loads = [op for op in walk(trace_kernel(k, [array_type(vec3), array_type(float32)]).body) if op.name == "load"]
    assert [op.attrs["leaves"] for op in loads] == [(1,)]


@struct
class Inner:
    p: vec3
    tag: int8


@struct
class Particle:
    mass: float
    inner: Inner
    m: mat22


@struct
class Arguments:
    scale: float
    x: array_type(Particle)
    offset: vec3
    grid: array_type(float, 2)


def test_structs_in_arrays_in_arguments_and_as_locals() -> None:
    def k(s: Arguments, out: array_type(float)):
        i = tid()
        p = s.x[i]
        p.inner.p.y = p.mass * s.scale
        p.m[0, 1] = 3.0
        s.x[i] = p
        s.x[i].inner.tag += int8(2)
        s.x[i].inner.p += s.offset
        fresh = Particle(mass=2.0, inner=Inner(p=vec3(1.0)))
        fresh.inner.p[2] = 9.0
        out[i] = fresh.mass + fresh.inner.p.z + fresh.inner.p.x + fresh.m[1, 1] + s.grid[i, 1] + float(s.x.shape[0])

    x = np.zeros(2, Particle.np)
    x["mass"], x["inner"]["p"], x["inner"]["tag"] = [1.0, 2.0], [[1, 2, 3], [4, 5, 6]], [1, -1]
    out, grid = np.zeros(2, np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)
    traced = run(k, 2, 10.0, x, 1.0, 2.0, 3.0, grid, out)
    assert traced.attrs["signature"] == [("s", Arguments, 0, 6), ("out", array_type(float32), 6, 1)]
    assert [p.name for p in traced.params] == [
        "s.scale",
        "s.x",
        "s.offset.0",
        "s.offset.1",
        "s.offset.2",
        "s.grid",
        "out",
    ]
    np.testing.assert_array_equal(x["inner"]["p"], [[2, 12, 6], [5, 22, 9]])
    np.testing.assert_array_equal(x["inner"]["tag"], [3, 1])
    np.testing.assert_array_equal(x["m"][:, 0, 1], [3, 3])
    np.testing.assert_array_equal(out, [2 + 9 + 1 + 0 + 1 + 2, 2 + 9 + 1 + 0 + 3 + 2])


def test_rows_of_arrays_are_views() -> None:
    @func
    def total(row):
        s = row.dtype(0.0)
        for k in range(len(row)):
            s += row[k]
        return s

    def k(a: array_type(float, 3), out: array_type(float, 2)):
        i, j = tid()
        page = a[i]
        out[i, j] = total(page[j]) + float(page.shape[1] * 100 + a.ndim + page.ndim) + float(a.size)

    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    out = np.zeros((2, 3), np.float32)
    traced = run(k, (2, 3), a, out)
    assert traced.dims == 2
    np.testing.assert_array_equal(out, a.sum(axis=2) + 400 + 5 + 24)


def test_atomics_accumulate_or_give_the_old_value() -> None:
    def k(x: array_type(float), v: array_type(vec3), n: array_type(int, 2), old: array_type(float)):
        i = tid()
        atomic_add(x, 0, 1.5)
        atomic_sub(x, 1, 2.0)
        atomic_min(x, 2, float(i) - 2.0)
        atomic_max(x, 3, float(i))
        atomic_add(v, 0, vec3(1.0, 2.0, 3.0))
        before = atomic_add(n, 0, 1, 10)
        old[i] = float(before) + atomic_exch(x, 4, float(i))
        x[5] -= 1.0
        v[1] -= vec3(1.0)

    x, v, n, old = (
        np.zeros(6, np.float32),
        np.zeros((2, 3), np.float32),
        np.zeros((1, 2), np.int32),
        np.zeros(4, np.float32),
    )
    traced = run(k, 4, x, v, n, old)
    np.testing.assert_array_equal(x, [6, -8, -2, 3, 3, -4])
    np.testing.assert_array_equal(v, [[4, 8, 12], [-4, -4, -4]])
    np.testing.assert_array_equal(n, [[0, 40]])
    np.testing.assert_array_equal(old, [0 + 0, 10 + 0, 20 + 1, 30 + 2])
    names = [op.name for op in walk(traced.body)]
    assert names.count("accum") == 5 and names.count("atomic") == 4


def test_tid_in_several_dimensions() -> None:
    def k(out: array_type(int, 3)):
        i, j, m = tid()
        out[i, j, m] = tid() * 1000 + i * 100 + j * 10 + m

    out = np.zeros((2, 3, 4), np.int32)
    run(k, (2, 3, 4), out)
    i, j, m = np.indices(out.shape)
    np.testing.assert_array_equal(out, i * 1100 + j * 10 + m)  # one index is the first
