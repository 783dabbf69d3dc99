"""The tree of a mesh: built on the host, refitted by kernels (`layout.py` says how it lies in memory)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.frontend.builtins import max as larger
from sim.core.lang.frontend.builtins import min as smaller
from sim.core.lang.frontend.builtins import tid, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import length
from sim.core.lang.types import float64, int32, int64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.meshes.layout import Box, Triangle, vec3


def leaves_of_tree(faces: int, leaf_size: int) -> int:
    """How many leaves a tree over so many faces has: a power of two, with one to `leaf_size` faces in each, or two."""
    depth = (max(faces - 1, 0) // leaf_size).bit_length()
    return 1 << min(depth, max(faces, 1).bit_length() - 1)


def firsts_of_leaves(faces: int, leaves: int) -> np.ndarray:
    """Where each leaf begins in the order of the faces, and the end."""
    return (np.arange(leaves + 1) * faces // leaves).astype(np.int32)


@kernel
def face_centres(points: array[vec3], indices: array[int32], centres: array[vec3]):
    """Twice the centres of the boxes around the faces."""
    face = tid()
    a, b, c = points[indices[3 * face]], points[indices[3 * face + 1]], points[indices[3 * face + 2]]
    centres[face] = smaller(smaller(a, b), c) + larger(larger(a, b), c)


@kernel
def sum_edges(points: array[vec3], indices: array[int32], total: array[float64]):
    """The lengths of the edges of all faces.  One thread."""
    for face in range(indices.shape[0] // 3):
        a, b, c = points[indices[3 * face]], points[indices[3 * face + 1]], points[indices[3 * face + 2]]
        total[0] += float64(length(b - a) + length(c - b) + length(a - c))


@func
def _comes_before(centres, axis, a, b):
    """Whether face a comes before face b along an axis; of two at one place, by their numbers."""
    x, y = centres[a][axis], centres[b][axis]
    return x < y or (x == y and a < b)


@func
def _widest_axis(centres, order, first, end):
    low, high = centres[order[first]], centres[order[first]]
    for k in range(first + 1, end):
        low, high = smaller(low, centres[order[k]]), larger(high, centres[order[k]])
    width = high - low
    axis = int32(0)
    if width[1] > width[0]:
        axis = int32(1)
    if width[2] > larger(width[0], width[1]):
        axis = int32(2)
    return axis


@kernel
def halve(centres: array[vec3], order: array[int32], parts: int):
    """Divides each of `parts` parts in two halves of equal numbers of faces, along the widest axis of their centres.

    By Hoare's selection ("Algorithm 65: Find", CACM 4(7), 1961), in place; a thread for each part.
    """
    count = int64(order.shape[0])
    first, end = int32(int64(tid()) * count / int64(parts)), int32(int64(tid() + 1) * count / int64(parts))
    middle = int32((2 * int64(tid()) + 1) * count / (2 * int64(parts)))
    axis = _widest_axis(centres, order, first, end)
    left, right = first, end - 1
    while left < right:
        pivot = order[middle]
        i, j = left, right
        while i <= j:
            while _comes_before(centres, axis, order[i], pivot):
                i += 1
            while _comes_before(centres, axis, pivot, order[j]):
                j -= 1
            if i <= j:
                face = order[i]
                order[i] = order[j]
                order[j] = face
                i += 1
                j -= 1
        if j < middle:
            left = i
        if middle < i:
            right = j


def build_tree(centres: array, order: array, leaves: int) -> None:
    """Puts faces into the order of the leaves of their tree."""
    parts = 1
    while parts < leaves:
        launch(halve, parts, [centres, order, parts])
        parts *= 2


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


def refit_tree(mesh: Any, row: tuple[int, ...]) -> None:
    """Brings the boxes and triangles of one tree to where the points of the mesh are now; nothing may record."""
    base, leaves, entry = row[:3]
    launch(
        refit_leaves,
        leaves,
        [mesh.points, mesh.indices, mesh.faces, mesh.firsts, base + leaves, entry],
        [mesh.boxes, mesh.triangles],
    )
    width = leaves // 2
    while width:
        launch(refit_level, width, [base + width, base + 2 * width], [mesh.boxes])
        width //= 2
