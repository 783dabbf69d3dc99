"""The cloth of `cloth.py` in other frameworks, each as its users would write it: those installed, on one thread."""

import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[int], tuple[float, np.ndarray]]
"""Steps -> process seconds, and final positions; or the gradient of their weighted sum by initial velocities."""


PEERS = ("numba", "warp", "taichi", "jax", "torch")


@dataclass(frozen=True)
class Peer:
    """A framework: how to run the cloth forward, and forward and backward where it differentiates it by itself."""

    forward: Run
    gradient: Run | None = None


def peers(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> dict[str, Peer]:
    """Name -> peer.  arrays, start, weights: as the C program takes them."""
    makers = (_numba, _warp, _taichi, _jax, _torch)
    return {
        name: make(arrays, start, weights, dt, gravity)
        for name, make in zip(PEERS, makers, strict=True)
        if importlib.util.find_spec(name) is not None
    }


def _numba(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> Peer:
    """One compiled function for the whole rollout, one thread."""
    import numba

    step, pull = np.float32(dt), np.array(gravity, np.float32)
    points, offsets, rest, softness, w = (arrays[k] for k in ("points", "offsets", "rest", "softness", "inverse_mass"))
    one = np.float32(1)

    @numba.njit
    def rollout(x: Any, v: Any, q: Any, steps: int) -> None:
        for _ in range(steps):
            for i in range(len(x)):
                for a in range(3):
                    q[i, a] = x[i, a] + step * (v[i, a] + step * pull[a]) if w[i] > 0 else x[i, a]
            for c in range(len(offsets) - 1):
                for k in range(offsets[c], offsets[c + 1]):
                    i, j = points[k, 0], points[k, 1]
                    dx, dy, dz = q[i, 0] - q[j, 0], q[i, 1] - q[j, 1], q[i, 2] - q[j, 2]
                    s = (one - rest[k] / np.sqrt(dx * dx + dy * dy + dz * dz)) / (w[i] + w[j] + softness[k])
                    si, sj = w[i] * s, w[j] * s
                    q[i, 0] -= si * dx
                    q[i, 1] -= si * dy
                    q[i, 2] -= si * dz
                    q[j, 0] += sj * dx
                    q[j, 1] += sj * dy
                    q[j, 2] += sj * dz
            for i in range(len(x)):
                for a in range(3):
                    v[i, a] = (q[i, a] - x[i, a]) / step
                    x[i, a] = q[i, a]

    def run(steps: int) -> tuple[float, np.ndarray]:
        x, v = (a.copy() for a in start)
        q = np.empty_like(x)
        begun = time.process_time()
        rollout(x, v, q, steps)
        return time.process_time() - begun, x

    run(1)
    return Peer(run)


def _warp(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> Peer:
    """Recorded launches, one per colour."""
    import warp as wp

    wp.config.quiet = True
    wp.init()

    @wp.kernel
    def predict(
        x: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.vec3),
        w: wp.array(dtype=float),
        g: wp.vec3,
        h: float,
        q: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        if w[i] > 0.0:
            q[i] = x[i] + h * (v[i] + h * g)
        else:
            q[i] = x[i]

    @wp.kernel
    def project(
        begin: int,
        points: wp.array2d(dtype=int),
        rest: wp.array(dtype=float),
        soft: wp.array(dtype=float),
        w: wp.array(dtype=float),
        q: wp.array(dtype=wp.vec3),
    ):
        k = begin + wp.tid()
        i, j = points[k, 0], points[k, 1]
        a, b = q[i], q[j]
        d = a - b
        s = (1.0 - rest[k] / wp.length(d)) / (w[i] + w[j] + soft[k])
        q[i] = a - (w[i] * s) * d
        q[j] = b + (w[j] * s) * d

    @wp.kernel
    def finish(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3), h: float):
        i = wp.tid()
        v[i] = (q[i] - x[i]) / h
        x[i] = q[i]

    n = len(start[0])
    x, v, q = (wp.zeros(n, dtype=wp.vec3, device="cpu") for _ in range(3))
    points = wp.array(arrays["points"], dtype=int, device="cpu")
    rest, soft, w = (wp.array(arrays[k], dtype=float, device="cpu") for k in ("rest", "softness", "inverse_mass"))
    offsets = arrays["offsets"]
    commands = [wp.launch(predict, n, [x, v, w, wp.vec3(*gravity), dt, q], device="cpu", record_cmd=True)]
    for begin, end in zip(offsets, offsets[1:], strict=False):
        commands.append(
            wp.launch(project, int(end - begin), [int(begin), points, rest, soft, w, q], device="cpu", record_cmd=True)
        )
    commands.append(wp.launch(finish, n, [x, v, q, dt], device="cpu", record_cmd=True))

    def run(steps: int) -> tuple[float, np.ndarray]:
        x.assign(start[0])
        v.assign(start[1])
        begun = time.process_time()
        for _ in range(steps):
            for command in commands:
                command.launch()
        return time.process_time() - begun, x.numpy().copy()

    return Peer(run)


def _taichi(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> Peer:
    """Fields, and one kernel per substep with a loop per colour."""
    import taichi as ti

    ti.init(arch=ti.cpu, cpu_max_num_threads=1, default_fp=ti.f32, log_level=ti.ERROR, fast_math=False)
    n, m = len(start[0]), len(arrays["rest"])
    x, v, q = (ti.Vector.field(3, ti.f32, n) for _ in range(3))
    w, rest, soft, points = ti.field(ti.f32, n), ti.field(ti.f32, m), ti.field(ti.f32, m), ti.Vector.field(2, ti.i32, m)
    for field, name in ((w, "inverse_mass"), (rest, "rest"), (soft, "softness"), (points, "points")):
        field.from_numpy(arrays[name])
    pull = ti.Vector(list(gravity))

    colors = [(int(begin), int(end)) for begin, end in zip(arrays["offsets"], arrays["offsets"][1:], strict=False)]

    @ti.kernel
    def substep():
        for i in x:
            q[i] = x[i]
            if w[i] > 0.0:
                q[i] = x[i] + dt * (v[i] + dt * pull)
        for c in ti.static(range(len(colors))):
            for k in range(colors[c][0], colors[c][1]):
                i, j = points[k][0], points[k][1]
                d = q[i] - q[j]
                s = (1.0 - rest[k] / d.norm()) / (w[i] + w[j] + soft[k])
                q[i] = q[i] - w[i] * s * d  # `-=` would be atomic
                q[j] = q[j] + w[j] * s * d
        for i in x:
            v[i] = (q[i] - x[i]) / dt
            x[i] = q[i]

    def run(steps: int) -> tuple[float, np.ndarray]:
        x.from_numpy(start[0])
        v.from_numpy(start[1])
        ti.sync()
        begun = time.process_time()
        for _ in range(steps):
            substep()
        ti.sync()
        return time.process_time() - begun, x.to_numpy()

    run(1)
    return Peer(run)


def _substep(
    index: Any,
    norm: Any,
    add: Any,
    where: Any,
    arrays: dict[str, Any],
    colors: list[tuple[Any, Any, Any, Any]],
    dt: float,
    pull: Any,
) -> Any:
    """(x, v) -> (x, v) on whole arrays, with the operations of a framework."""
    w = arrays["inverse_mass"]

    def step(x: Any, v: Any) -> tuple[Any, Any]:
        q = where(w[:, None] > 0, x + dt * (v + dt * pull), x)
        for i, j, rest, soft in colors:
            d = index(q, i) - index(q, j)
            s = (1.0 - rest / norm(d)) / (index(w, i) + index(w, j) + soft)
            q = add(q, i, -(index(w, i) * s)[:, None] * d)
            q = add(q, j, (index(w, j) * s)[:, None] * d)
        return q, (q - x) / dt

    return step


def _colors(arrays: dict[str, Any]) -> list[tuple[Any, Any, Any, Any]]:
    """Both points, rest lengths and softness of every colour."""
    ranges = [slice(int(begin), int(end)) for begin, end in zip(arrays["offsets"], arrays["offsets"][1:], strict=False)]
    return [(arrays["points"][r, 0], arrays["points"][r, 1], arrays["rest"][r], arrays["softness"][r]) for r in ranges]


def _jax(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> Peer:
    """Scatters on whole arrays, a scan over the steps, one compiled function."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_platforms", "cpu")
    held = {name: jnp.asarray(a) for name, a in arrays.items() if name != "offsets"} | {"offsets": arrays["offsets"]}
    step = _substep(
        lambda a, i: a[i],
        lambda d: jnp.linalg.norm(d, axis=1),
        lambda q, i, change: q.at[i].add(change, unique_indices=True),
        jnp.where,
        held,
        _colors(held),
        np.float32(dt),
        jnp.asarray(gravity, jnp.float32),
    )

    def final(v: Any, x: Any, steps: int) -> Any:
        return jax.lax.scan(lambda state, _: (step(*state), None), (x, v), length=steps)[0][0]

    forward = jax.jit(final, static_argnums=2)
    backward = jax.jit(jax.grad(lambda v, x, steps: jnp.vdot(final(v, x, steps), weights)), static_argnums=2)
    x, v = (jnp.asarray(a) for a in start)

    def timed(function: Any, steps: int) -> tuple[float, np.ndarray]:
        function(v, x, steps).block_until_ready()  # compiled for this number of steps
        begun = time.perf_counter()  # it computes in a thread of its own, whose processor time arrives late
        found = function(v, x, steps).block_until_ready()
        return time.perf_counter() - begun, np.asarray(found)

    return Peer(lambda steps: timed(forward, steps), lambda steps: timed(backward, steps))


def _torch(
    arrays: dict[str, np.ndarray], start: list[np.ndarray], weights: np.ndarray, dt: float, gravity: tuple[float, ...]
) -> Peer:
    """Eager operations on whole arrays, and autograd."""
    import torch

    torch.set_num_threads(1)
    held = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items() if name != "offsets"} | {
        "offsets": arrays["offsets"]
    }
    step = _substep(
        lambda a, i: a[i],
        lambda d: d.norm(dim=1),
        lambda q, i, change: q.index_add(0, i, change),
        torch.where,
        held,
        _colors(held),
        dt,
        torch.tensor(gravity, dtype=torch.float32),
    )

    def final(steps: int, v: Any) -> Any:
        x = torch.from_numpy(start[0].copy())
        for _ in range(steps):
            x, v = step(x, v)
        return x

    def forward(steps: int) -> tuple[float, np.ndarray]:
        begun = time.process_time()
        with torch.no_grad():
            x = final(steps, torch.from_numpy(start[1].copy()))
        return time.process_time() - begun, x.numpy()

    def gradient(steps: int) -> tuple[float, np.ndarray]:
        v = torch.from_numpy(start[1].copy()).requires_grad_()
        begun = time.process_time()
        (final(steps, v) * torch.from_numpy(weights)).sum().backward()
        return time.process_time() - begun, v.grad.numpy()

    return Peer(forward, gradient)
