"""The cloth of `cloth.py` in other frameworks, forward only, each as its users would write it: those that are installed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[int], tuple[float, np.ndarray]]
"""Steps -> process seconds, and the final positions."""


def peers(arrays: dict[str, np.ndarray], start: list[np.ndarray], dt: float, gravity: tuple[float, ...]) -> dict[str, Run]:
    """Name -> how to run it.  arrays, start: as the C program takes them."""
    known = {"numba": _numba, "warp": _warp}
    return {name: make(arrays, start, dt, gravity) for name, make in known.items() if importlib.util.find_spec(name) is not None}


def _numba(arrays: dict[str, np.ndarray], start: list[np.ndarray], dt: float, gravity: tuple[float, ...]) -> Run:
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
    return run


def _warp(arrays: dict[str, np.ndarray], start: list[np.ndarray], dt: float, gravity: tuple[float, ...]) -> Run:
    """Recorded launches, one per colour."""
    import warp as wp

    wp.config.quiet = True
    wp.init()

    @wp.kernel
    def predict(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), w: wp.array(dtype=float), g: wp.vec3, h: float, q: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        if w[i] > 0.0:
            q[i] = x[i] + h * (v[i] + h * g)
        else:
            q[i] = x[i]

    @wp.kernel
    def project(
        begin: int, points: wp.array2d(dtype=int), rest: wp.array(dtype=float), soft: wp.array(dtype=float), w: wp.array(dtype=float),
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
        commands.append(wp.launch(project, int(end - begin), [int(begin), points, rest, soft, w, q], device="cpu", record_cmd=True))
    commands.append(wp.launch(finish, n, [x, v, q, dt], device="cpu", record_cmd=True))

    def run(steps: int) -> tuple[float, np.ndarray]:
        x.assign(start[0])
        v.assign(start[1])
        begun = time.process_time()
        for _ in range(steps):
            for command in commands:
                command.launch()
        return time.process_time() - begun, x.numpy().copy()

    return run
