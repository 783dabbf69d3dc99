"""Programs of the kinds that users write, each against central differences: solvers, particles, grids, structs,
in-place loops."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient

import sim as wp

f64 = wp.float64
vec2, vec3, mat33 = wp.vec2d, wp.vec3d, wp.mat33d
rng = np.random.default_rng(7)


def zeros(shape: object, dtype: object = f64) -> wp.array:
    return wp.zeros(shape, dtype=dtype, requires_grad=True)


@wp.kernel
def weighted(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i] * x[i] * f64(i + 1) + wp.sin(x[i]))


def end(x: wp.array) -> wp.array:
    """A number that everything in x goes into."""
    flat = x.view(f64).flatten() if x.dtype is not f64 else x.flatten()
    out = zeros(1)
    wp.launch(weighted, dim=flat.size, inputs=[flat], outputs=[out])
    return out


def spd(n: int) -> np.ndarray:
    m = rng.normal(size=(n, n))
    return m @ m.T + n * np.eye(n)


# ---- linear algebra, one system per thread, in place
@wp.kernel
def cholesky(a: wp.array3d(dtype=f64), n: int):
    t = wp.tid()
    for j in range(n):
        for k in range(j):
            a[t, j, j] -= a[t, j, k] * a[t, j, k]
        a[t, j, j] = wp.sqrt(a[t, j, j])
        for i in range(j + 1, n):
            for k in range(j):
                a[t, i, j] -= a[t, i, k] * a[t, j, k]
            a[t, i, j] /= a[t, j, j]


@wp.kernel
def solve_with_pivots(a: wp.array3d(dtype=f64), b: wp.array2d(dtype=f64), x: wp.array2d(dtype=f64), n: int):
    t = wp.tid()
    for k in range(n):
        pivot = int(k)
        best = wp.abs(a[t, k, k])
        for i in range(k + 1, n):
            if wp.abs(a[t, i, k]) > best:
                best = wp.abs(a[t, i, k])
                pivot = i
        if pivot != k:
            for j in range(n):
                a[t, k, j], a[t, pivot, j] = a[t, pivot, j], a[t, k, j]
            b[t, k], b[t, pivot] = b[t, pivot], b[t, k]
        for i in range(k + 1, n):
            f = a[t, i, k] / a[t, k, k]
            for j in range(k, n):
                a[t, i, j] = a[t, i, j] - f * a[t, k, j]
            b[t, i] = b[t, i] - f * b[t, k]
    for back in range(n):
        i = n - 1 - back
        s = b[t, i]
        for j in range(i + 1, n):
            s -= a[t, i, j] * x[t, j]
        x[t, i] = s / a[t, i, i]


@wp.kernel
def tridiagonal(a: wp.array2d(dtype=f64), b: wp.array2d(dtype=f64), d: wp.array2d(dtype=f64)):
    t = wp.tid()
    n = a.shape[1]
    for i in range(1, n):
        w = a[t, i] / b[t, i - 1]
        b[t, i] = b[t, i] - w * a[t, i - 1]
        d[t, i] = d[t, i] - w * d[t, i - 1]
    d[t, n - 1] = d[t, n - 1] / b[t, n - 1]
    for i in range(n - 2, -1, -1):
        d[t, i] = (d[t, i] - a[t, i] * d[t, i + 1]) / b[t, i]


def factorise(a: wp.array) -> wp.array:
    wp.launch(cholesky, dim=2, inputs=[a, 4])
    return end(a)


def pivoted(a: wp.array, b: wp.array) -> wp.array:
    x = zeros((2, 4))
    wp.launch(solve_with_pivots, dim=2, inputs=[a, b, x, 4])
    return end(x)


def thomas(a: wp.array, b: wp.array, d: wp.array) -> wp.array:
    wp.launch(tridiagonal, dim=2, inputs=[a, b, d])
    return end(d)


# ---- data-dependent exits and orders
@wp.kernel
def bubble_sort(x: wp.array2d(dtype=f64)):
    t = wp.tid()
    swapped = True
    while swapped:
        swapped = False
        for i in range(x.shape[1] - 1):
            if x[t, i] > x[t, i + 1]:
                x[t, i], x[t, i + 1] = x[t, i + 1], x[t, i]
                swapped = True


@wp.kernel
def relax_until_still(x: wp.array2d(dtype=f64)):
    t = wp.tid()
    for _ in range(50):
        moved = f64(0.0)
        for i in range(1, x.shape[1] - 1):
            v = f64(0.5) * (x[t, i - 1] + x[t, i + 1]) + f64(0.05) * wp.sin(x[t, i])
            moved += wp.abs(v - x[t, i])
            x[t, i] = v
            if v > 100.0:
                return
        if moved < 1e-2:
            return


@wp.func
def march(origin: vec3, direction: vec3, radius: f64):
    t = f64(0.0)
    for _ in range(64):
        distance = wp.length(origin + direction * t) - radius
        if distance < 1e-13:
            return t
        if t > 20.0:
            return f64(-1.0)
        t += distance
    return t


@wp.kernel
def render(rays: wp.array(dtype=vec3), radius: wp.array(dtype=f64), image: wp.array(dtype=f64)):
    i = wp.tid()
    eye, ray = vec3(f64(0.0), f64(0.1), f64(-3.0)), wp.normalize(rays[i])
    t = march(eye, ray, radius[0])
    image[i] = f64(0.1)
    if t > 0.0:
        image[i] = wp.max(wp.dot(wp.normalize(eye + ray * t), vec3(f64(0.0), f64(0.6), f64(-0.8))), f64(0.0))


def sorted_rows(x: wp.array) -> wp.array:
    wp.launch(bubble_sort, dim=2, inputs=[x])
    return end(x)


def relaxed(x: wp.array) -> wp.array:
    wp.launch(relax_until_still, dim=2, inputs=[x])
    return end(x)


def rendered(rays: wp.array, radius: wp.array) -> wp.array:
    image = zeros(rays.size)
    wp.launch(render, dim=rays.size, inputs=[rays, radius], outputs=[image])
    return end(image)


# ---- particles, springs, grids, reused buffers
@wp.kernel
def spring_forces(
    x: wp.array(dtype=vec3), ends: wp.array2d(dtype=int), k: wp.array(dtype=f64), f: wp.array(dtype=vec3)
):
    s = wp.tid()
    i, j = ends[s, 0], ends[s, 1]
    d = x[i] - x[j]
    size = wp.length(d)
    force = d * (k[s] * (size - f64(1.0)) / size)
    wp.atomic_sub(f, i, force)
    wp.atomic_add(f, j, force)


@wp.kernel
def integrate(x: wp.array(dtype=vec3), f: wp.array(dtype=vec3)):
    i = wp.tid()
    x[i] += f[i] * f64(0.1)


@wp.kernel
def xpbd_in_one_thread(
    x: wp.array(dtype=vec3), ends: wp.array2d(dtype=int), rest: wp.array(dtype=f64), multiplier: wp.array(dtype=f64)
):
    for _ in range(3):
        for c in range(ends.shape[0]):
            i, j = ends[c, 0], ends[c, 1]
            d = x[i] - x[j]
            size = wp.length(d)
            change = (rest[c] - size - f64(0.1) * multiplier[c]) / f64(2.1)
            multiplier[c] = multiplier[c] + change
            x[i] = x[i] + d * (change / size)
            x[j] = x[j] - d * (change / size)


@wp.kernel
def wave(now: wp.array2d(dtype=f64), before: wp.array2d(dtype=f64), k: wp.array(dtype=f64)):
    i, j = wp.tid()
    if i < 1 or j < 1 or i >= now.shape[0] - 1 or j >= now.shape[1] - 1:
        return
    bend = now[i + 1, j] + now[i - 1, j] + now[i, j + 1] + now[i, j - 1] - f64(4.0) * now[i, j]
    before[i, j] = f64(2.0) * now[i, j] - before[i, j] + k[0] * bend * f64(0.09)


ENDS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])


def springs(x: wp.array, k: wp.array) -> wp.array:
    f, ends = zeros(4, vec3), wp.array(ENDS, dtype=int)
    for _ in range(4):
        f.zero_()
        wp.launch(spring_forces, dim=5, inputs=[x, ends, k], outputs=[f])
        wp.launch(integrate, dim=4, inputs=[x, f])
    return end(x)


def xpbd(x: wp.array, rest: wp.array) -> wp.array:
    multiplier, ends = zeros(5), wp.array(ENDS, dtype=int)
    for _ in range(2):
        multiplier.zero_()
        wp.launch(xpbd_in_one_thread, dim=1, inputs=[x, ends, rest, multiplier])
    return end(x)


def waves(start: wp.array, k: wp.array) -> wp.array:
    now, before = wp.clone(start), wp.clone(start)
    for _ in range(6):
        wp.launch(wave, dim=now.shape, inputs=[now, before, k])
        now, before = before, now
    return end(now)


# ---- arrays of structs, read and written in loops
@wp.struct
class Particle:
    x: vec3
    mass: f64
    hits: int
    old: bool
    heat: wp.float32


@wp.kernel
def to_particles(x: wp.array(dtype=vec3), p: wp.array(dtype=Particle)):
    i = wp.tid()
    p[i].x = x[i]
    p[i].mass = f64(1.0) + x[i][0] * x[i][0]
    p[i].heat = wp.float32(0.5)


@wp.kernel
def age(p: wp.array(dtype=Particle), steps: int):
    i = wp.tid()
    for k in range(steps):
        q = p[i]
        q.x = q.x * f64(0.9) + vec3(q.mass, f64(q.hits) * f64(0.01), f64(q.heat))
        q.hits = (q.hits + 1) % 7
        if q.hits == 3 and not q.old:
            q.mass *= f64(1.01)
            p[i].heat = q.heat * wp.float32(0.5)
            q.heat = p[i].heat
        q.old = k % 3 == 0
        p[i] = q
        if wp.length(p[i].x) > 9.0:
            p[i].x *= f64(0.8)


@wp.kernel
def from_particles(p: wp.array(dtype=Particle), y: wp.array(dtype=vec3)):
    i = wp.tid()
    y[i] = p[i].x * p[i].mass


def aged(steps: int):
    def program(x: wp.array) -> wp.array:
        p, y = zeros(3, Particle), zeros(3, vec3)
        wp.launch(to_particles, dim=3, inputs=[x], outputs=[p])
        wp.launch(age, dim=3, inputs=[p, steps])
        wp.launch(from_particles, dim=3, inputs=[p], outputs=[y])
        return end(y)

    return program


CASES = {
    "cholesky": (factorise, [(np.array([spd(4), spd(4)]), f64)]),
    "pivoted": (
        pivoted,
        [(rng.normal(size=(2, 4, 4)) + 2.0 * np.eye(4)[[1, 0, 3, 2]], f64), (rng.normal(size=(2, 4)), f64)],
    ),
    "thomas": (
        thomas,
        [(rng.normal(size=(2, 5)), f64), (rng.normal(size=(2, 5)) + 5.0, f64), (rng.normal(size=(2, 5)), f64)],
    ),
    "sorted": (sorted_rows, [(rng.normal(size=(2, 6)), f64)]),
    "relaxed": (relaxed, [(rng.normal(size=(2, 6)), f64)]),
    "rendered": (rendered, [([[0.1, 0.05, 1.0], [0.0, 0.2, 1.0], [2.0, 0.0, 1.0]], vec3), ([1.0], f64)]),
    "springs": (springs, [(rng.normal(size=(4, 3)), vec3), (rng.uniform(1.0, 2.0, 5), f64)]),
    "xpbd": (xpbd, [(rng.normal(size=(4, 3)), vec3), (rng.uniform(0.5, 1.5, 5), f64)]),
    "waves": (waves, [(rng.normal(size=(4, 5)), f64), ([0.7], f64)]),
    "mixed structs": (aged(12), [(rng.normal(size=(3, 3)), vec3)]),
    "mixed structs, more steps than checkpoints": (aged(1300), [(rng.normal(size=(3, 3)), vec3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_user_programs(name):
    program, inputs = CASES[name]
    assert_gradient(program, *[array(values, dtype) for values, dtype in inputs], tolerance=3e-6)


def test_what_they_compute():
    x, a = rng.normal(size=(2, 6)), np.array([spd(4), spd(4)])
    rows = array(x)
    sorted_rows(rows)
    np.testing.assert_array_equal(rows.numpy(), np.sort(x, axis=1))
    lower = array(a)
    factorise(lower)
    np.testing.assert_allclose(np.tril(lower.numpy()), np.linalg.cholesky(a), rtol=1e-12)
    m, b = CASES["pivoted"][1][0][0], CASES["pivoted"][1][1][0]
    left, right, found = array(m), array(b), zeros((2, 4))
    wp.launch(solve_with_pivots, dim=2, inputs=[left, right, found, 4])
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(m, b[..., None])[..., 0], rtol=1e-10)
