"""Queries of a mesh: closest points with and without a sign, rays, boxes; here, in Warp on a CPU, rays in Embree.

    python benchmarks/meshes.py [--queries 1000000] [--faces 80000] [--rounds 3] [--warp PYTHON] [--embree PYTHON]

One thread each; the processor time of the best round, so that other processes matter little.  What is found is added
up, and the sums are compared.  --warp, --embree: interpreters that have warp-lang, and embreex (rays only).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

IN = next((name for name in ("warp", "embree") if f"--in-{name}" in sys.argv), "sim")
os.environ.setdefault("SIM_NUM_THREADS", "1")
Case = tuple[float, float]
"""Seconds, and the sum of what was found."""


def bumpy_sphere(faces: int) -> tuple[np.ndarray, np.ndarray]:
    """A surface with bumps around the origin: points, and corners of about so many faces."""
    n = int(np.sqrt(faces / 2))
    theta, phi = np.meshgrid(np.linspace(0, np.pi, n + 1), np.arange(n) * 2 * np.pi / n, indexing="ij")
    r = 1 + 0.1 * np.sin(7 * theta) * np.sin(9 * phi)
    x = np.stack([r * np.sin(theta) * np.cos(phi), r * np.sin(theta) * np.sin(phi), r * np.cos(theta)], -1)
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + (j + 1) % n, i * n + (j + 1) % n
    corners = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    return x.reshape(-1, 3).astype(np.float32), corners.astype(np.int32)


def best(action: Callable[[], Any], rounds: int) -> float:
    """Processor time of the best round [s], after one that is not counted."""
    action()
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return min(times)


def with_kernels(
    wp: Any, points: np.ndarray, corners: np.ndarray, q: np.ndarray, along: np.ndarray, rounds: int
) -> Any:
    """The cases of a library that takes kernels."""

    @wp.kernel
    def closest(
        mesh: wp.uint64, q: wp.array(dtype=wp.vec3), along: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)
    ):
        i = wp.tid()
        r = wp.mesh_query_point_no_sign(mesh, q[i], 1.0e3)
        out[i] = wp.length(wp.mesh_eval_position(mesh, r.face, r.u, r.v) - q[i])

    @wp.kernel
    def signed(mesh: wp.uint64, q: wp.array(dtype=wp.vec3), along: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.mesh_query_point(mesh, q[i], 1.0e3).sign

    @wp.kernel
    def rays(mesh: wp.uint64, q: wp.array(dtype=wp.vec3), along: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.mesh_query_ray(mesh, q[i], along[i], 1.0e3).t

    @wp.kernel
    def boxes(mesh: wp.uint64, q: wp.array(dtype=wp.vec3), along: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        face = int(0)  # noqa: UP018 Warp's variables that a loop changes begin like this
        count = float(0.0)  # noqa: UP018
        query = wp.mesh_query_aabb(mesh, q[i] - wp.vec3(0.05, 0.05, 0.05), q[i] + wp.vec3(0.05, 0.05, 0.05))
        while wp.mesh_query_aabb_next(query, face):
            count += 1.0
        out[i] = count

    x, indices = wp.array(points, dtype=wp.vec3), wp.array(corners.ravel(), dtype=int)
    mesh = wp.Mesh(x, indices)
    inputs = [mesh.id, wp.array(q, dtype=wp.vec3), wp.array(along, dtype=wp.vec3)]
    out = wp.zeros(len(q), dtype=float)

    def run(kernel: Any) -> Case:
        seconds = best(lambda: wp.launch(kernel, len(q), inputs, [out], device="cpu"), rounds)
        return seconds, float(out.numpy().sum(dtype=float))

    return {
        "building": (best(lambda: wp.Mesh(x, indices), rounds), float(len(corners))),
        "refitting": (best(mesh.refit, rounds), float(len(corners))),
        "closest points": run(closest),
        "with a sign by rays": run(signed),
        "rays": run(rays),
        "boxes": run(boxes),
    }


def with_embree(points: np.ndarray, corners: np.ndarray, q: np.ndarray, along: np.ndarray, rounds: int) -> Any:
    """Rays in Embree, one call for all of them, with Embree's defaults."""
    scene = import_module("embreex.rtcore_scene").EmbreeScene()
    import_module("embreex.mesh_construction").TriangleMesh(scene, points, corners)
    found: dict[str, np.ndarray] = scene.run(q, along, query="INTERSECT", output=True)
    hit = found["primID"] >= 0
    seconds = best(lambda: scene.run(q, along, query="INTERSECT", output=True), rounds)
    return {"rays": (seconds, float(found["tfar"][hit].sum(dtype=float)))}


def cases(queries: int, faces: int, rounds: int) -> Any:
    rng = np.random.default_rng(0)
    q = rng.uniform(-1.3, 1.3, (queries, 3)).astype(np.float32)
    along = rng.normal(size=(queries, 3)).astype(np.float32)
    points, corners = bumpy_sphere(faces)
    if IN == "embree":
        return with_embree(points, corners, q, along, rounds)
    return with_kernels(import_module(IN), points, corners, q, along, rounds)


def elsewhere(python: str, name: str, options: argparse.Namespace) -> Any:
    """The cases in another interpreter."""
    command = [python, __file__, f"--in-{name}"]
    command += [f"--{key}={getattr(options, key)}" for key in ("queries", "faces", "rounds")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("queries", 1_000_000), ("faces", 80_000), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("warp", "embree"):
        parser.add_argument(f"--{name}")
        parser.add_argument(f"--in-{name}", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    mine = cases(options.queries, options.faces, options.rounds)
    if IN != "sim":
        print(json.dumps(mine))
        return
    others = {n: elsewhere(getattr(options, n), n, options) for n in ("warp", "embree") if getattr(options, n)}
    print("| | sim [s] |" + "".join(f" {name} [s] | ratio |" for name in others))
    print("|---|---|" + "---|---|" * len(others))
    for case, (seconds, total) in mine.items():
        row = f"| {case} | {seconds:.3f} |"
        for found in others.values():
            theirs, their_total = found.get(case, (None, total))
            row += " | |" if theirs is None else f" {theirs:.3f} | {seconds / theirs:.2f} |"
            if abs(their_total - total) > 1e-4 * abs(total):
                row += f" found {total:g} and {their_total:g}"
        print(row)


if __name__ == "__main__":
    main()
