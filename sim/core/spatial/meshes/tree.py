"""The tree of a mesh: built on the host, refitted by kernels (`layout.py` says how it lies in memory)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.frontend.builtins import max as larger
from sim.core.lang.frontend.builtins import min as smaller
from sim.core.lang.frontend.builtins import tid, where
from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.meshes.layout import Box, Triangle, vec3

Tree = tuple[np.ndarray, np.ndarray]
"""Which face stands at each place of the order of the leaves, and where each leaf begins, and the end."""


def build_tree(corners: np.ndarray, leaf_size: int) -> Tree:
    """Halves of equal numbers of faces, along the widest axis of their centres, down to `leaf_size` faces.

    corners: [n, 3, 3].  Ties go by the number of the face, so that the tree depends on nothing else.
    """
    n = len(corners)
    depth = min(max(n - 1, 0) // leaf_size, n).bit_length()
    while (1 << depth) > max(n, 1):
        depth -= 1
    centres = corners.min(1) + corners.max(1)
    by_rank = np.argsort(centres, axis=0, kind="stable").T
    rank = np.empty_like(by_rank)
    np.put_along_axis(rank, by_rank, np.broadcast_to(np.arange(n), (3, n)), 1)
    order = np.arange(n)
    for level in range(depth):
        parts = 1 << level
        firsts = np.arange(parts + 1) * n // parts
        part = np.repeat(np.arange(parts), np.diff(firsts))
        here = centres[order]
        width = np.maximum.reduceat(here, firsts[:-1]) - np.minimum.reduceat(here, firsts[:-1])
        axis = width.argmax(1)[part]
        keys = np.sort(part << 32 | rank[axis, order])
        order = by_rank[axis, keys & 0xFFFFFFFF]
    return order.astype(np.int32), (np.arange((1 << depth) + 1) * n // (1 << depth)).astype(np.int32)


@kernel
def refit_leaves(
    points: array[vec3],
    indices: array[int32],
    faces: array[int32],
    firsts: array[int32],
    first_leaf: int,
    first_entry: int,
    boxes: array[Box],
    triangles: array[Triangle],
):
    """The triangles of a leaf from the points of the mesh, and the box around them."""
    leaf = tid()
    box = Box()
    for k in range(firsts[first_entry + leaf], firsts[first_entry + leaf + 1]):
        face = faces[k]
        abc = Triangle()
        for c in range(3):
            x = points[indices[3 * face + c]]
            for axis in range(3):
                abc[3 * c + axis] = x[axis]
        triangles[k] = abc
        for c in range(3):
            for axis in range(3):
                x = abc[3 * c + axis]
                fresh = c == 0 and k == firsts[first_entry + leaf]
                box[axis] = where(fresh or x < box[axis], x, box[axis])
                box[axis + 3] = where(fresh or x > box[axis + 3], x, box[axis + 3])
    boxes[first_leaf + leaf] = box


@kernel
def refit_level(first: int, below: int, boxes: array[Box]):
    """The boxes of the nodes of a level, from the level below."""
    k = tid()
    left, right = boxes[below + 2 * k], boxes[below + 2 * k + 1]
    for axis in range(3):
        left[axis] = where(right[axis] < left[axis], right[axis], left[axis])
        left[axis + 3] = where(right[axis + 3] > left[axis + 3], right[axis + 3], left[axis + 3])
    boxes[first + k] = left


@kernel
def face_boxes(points: array[vec3], indices: array[int32], lowers: array[vec3], uppers: array[vec3]):
    """The corners of the boxes around the faces."""
    face = tid()
    a, b, c = points[indices[3 * face]], points[indices[3 * face + 1]], points[indices[3 * face + 2]]
    lowers[face] = smaller(smaller(a, b), c)
    uppers[face] = larger(larger(a, b), c)


def refit_tree(mesh: Any, row: tuple[int, int, int, int]) -> None:
    """Brings the boxes and triangles of one tree to where the points of the mesh are now."""
    base, leaves, entry, _ = row
    launch(
        refit_leaves,
        leaves,
        [mesh.points, mesh.indices, mesh.faces, mesh.firsts, base + leaves, entry],
        [mesh.boxes, mesh.triangles],
        record_tape=False,
    )
    width = leaves // 2
    while width:
        launch(refit_level, width, [base + width, base + 2 * width], [mesh.boxes], record_tape=False)
        width //= 2
