"""Neighbours of points and boxes that overlap: our grids and trees, SciPy's cKDTree, and Warp on a CPU.

    python benchmarks/spatial.py [--queries 1000000] [--items 200000] [--rounds 3] [--warp PYTHON]

One thread each; the processor time of the best round, so that other processes matter little.  Every query counts what
it finds, and the counts are compared.  --warp: an interpreter that has warp-lang, for the same kernels there.
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

LIBRARY = "warp" if "--in-warp" in sys.argv else "sim"
os.environ.setdefault("SIM_NUM_THREADS", "1")
wp = import_module(LIBRARY)

NEIGHBOURS = 30
"""Points within the radius of a point, on average."""
BOX = 0.02
"""Edge of the largest box, in a cube of edge 1."""


@wp.kernel
def near_points(grid: wp.uint64, radius: float, x: wp.array(dtype=wp.vec3), counts: wp.array(dtype=int)):
    i = wp.hash_grid_point_id(grid, wp.tid())
    p = x[i]
    count = int(0)  # noqa: UP018 Warp's variables that a loop changes begin like this
    for j in wp.hash_grid_query(grid, p, radius):
        if wp.length(p - x[j]) <= radius:
            count += 1
    counts[i] = count


@wp.kernel
def in_boxes(tree: wp.uint64, a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), counts: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_aabb(tree, a[i], b[i])
    item = int(0)  # noqa: UP018
    count = int(0)  # noqa: UP018
    while wp.bvh_query_next(query, item):
        count += 1
    counts[i] = count


@wp.kernel
def on_rays(tree: wp.uint64, a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), counts: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_ray(tree, a[i], b[i] - a[i] - wp.vec3(0.0151, 0.0149, 0.0150))
    item = int(0)  # noqa: UP018
    count = int(0)  # noqa: UP018
    while wp.bvh_query_next(query, item):
        count += 1
    counts[i] = count


@wp.kernel
def in_balls(tree: wp.uint64, a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), counts: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_sphere(tree, a[i], 0.02)
    item = int(0)  # noqa: UP018
    count = int(0)  # noqa: UP018
    while wp.bvh_query_next(query, item):
        count += 1
    counts[i] = count


def best(action: Callable[[], Any], rounds: int) -> float:
    """Processor time of the best round [s], after one that is not counted."""
    action()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def radius_of(count: int) -> float:
    """The radius within which a point of a unit cube with so many has `NEIGHBOURS`."""
    return float((0.75 * NEIGHBOURS / (np.pi * count)) ** (1.0 / 3.0))


def measured(queries: int, items: int, rounds: int) -> dict[str, tuple[float, int]]:
    """Seconds and what was found, by case, of the library that was imported."""
    rng = np.random.default_rng(0)
    points = rng.random((queries, 3)).astype(np.float32)
    lowers, starts = rng.random((items, 3)).astype(np.float32), rng.random((queries, 3)).astype(np.float32)
    uppers = lowers + (BOX * rng.random((items, 3))).astype(np.float32)
    ends = starts + (0.03 * rng.random((queries, 3))).astype(np.float32)
    device, radius = "cpu", radius_of(queries)
    x, low, high, a, b = (wp.array(v, dtype=wp.vec3, device=device) for v in (points, lowers, uppers, starts, ends))
    counts = wp.zeros(queries, dtype=int, device=device)
    cells = min(int(1.0 / radius) + 1, 128)
    grid, tree = wp.HashGrid(cells, cells, cells, device), wp.Bvh(low, high)

    def run(kernel: Any, *inputs: Any) -> tuple[float, int]:
        seconds = best(lambda: wp.launch(kernel, queries, [*inputs, counts], device=device), rounds)
        return seconds, int(counts.numpy().sum(dtype=np.int64))

    return {
        "grid, building": (best(lambda: grid.build(x, radius), rounds), queries),
        "grid, neighbours": run(near_points, wp.uint64(grid.id), radius, x),
        "tree, building": (best(tree.rebuild, rounds), items),
        "tree, refitting": (best(tree.refit, rounds), items),
        "tree, boxes": run(in_boxes, wp.uint64(tree.id), a, b),
        "tree, balls": run(in_balls, wp.uint64(tree.id), a, b),
        "tree, rays": run(on_rays, wp.uint64(tree.id), a, b),
    }


def of_scipy(queries: int, rounds: int) -> dict[str, tuple[float, int]]:
    """The same of cKDTree, which knows points only."""
    tree_class = import_module("scipy.spatial").cKDTree
    points = np.random.default_rng(0).random((queries, 3)).astype(np.float32).astype(float)
    tree, radius, found = tree_class(points), radius_of(queries), []

    def count() -> None:
        found[:] = [tree.query_ball_point(points, radius, return_length=True).sum()]

    return {
        "grid, building": (best(lambda: tree_class(points), 1), queries),
        "grid, neighbours": (best(count, 1), int((count(), found[0])[1])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("queries", 1_000_000), ("items", 200_000), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--warp", metavar="PYTHON")
    parser.add_argument("--in-warp", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.in_warp:
        print(json.dumps(measured(args.queries, args.items, args.rounds)))
        return
    columns = {"sim": measured(args.queries, args.items, args.rounds), "cKDTree": of_scipy(args.queries, args.rounds)}
    if args.warp:
        sizes = [f"--{name}={getattr(args, name)}" for name in ("queries", "items", "rounds")]
        command = [args.warp, __file__, "--in-warp", *sizes]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        columns["Warp"] = json.loads(printed.strip().splitlines()[-1])
    print(f"{args.queries} queries, {args.items} boxes; seconds of one core, and how often ours is the faster one")
    for case, (ours, found) in columns["sim"].items():
        others = [(name, *column[case]) for name, column in columns.items() if name != "sim" and case in column]
        text = "".join(f"   {name} {seconds:.3f} ({seconds / ours:.1f} x)" for name, seconds, _ in others)
        odd = [f"{name} finds {n}, ours {found}" for name, _, n in others if abs(n - found) > 1e-6 * found]
        print(f"{case:18} {ours:.3f}{text}{'   ' + '; '.join(odd) if odd else ''}")


if __name__ == "__main__":
    main()
