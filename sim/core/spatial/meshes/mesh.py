"""`Mesh`: triangles, the tree around them, and the number by which kernels know them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.errors import entry_point
from sim.core.lang.types import float32, float64, int32, uint64
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty, empty_like, zeros
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.launch.structures import add_structure
from sim.core.spatial.bvh import Bvh, BvhConstructor, check_groups, constructor_of
from sim.core.spatial.meshes.layout import LANES, MESH, WORDS, Box, Lanes, Moments, TreeRow, Triangle, vec3
from sim.core.spatial.meshes.tree import (
    build_tree,
    face_boxes,
    face_centres,
    firsts_of_leaves,
    leaves_of_tree,
    refit_tree,
    sum_edges,
)
from sim.core.spatial.meshes.wide import BLOCK, NODE, WideTree, number_blocks, refit_wide
from sim.core.spatial.meshes.winding import refit_moments

LEAF_SIZE = 8
"""Faces in a leaf, at most, where nobody says."""


class Mesh:
    """Triangles that kernels ask by `mesh.id`: `mesh_query_point`, `mesh_query_ray`, `mesh_query_aabb` and others.

    points: array of n vec3; kept, not copied: queries see it as it is, the tree as it was at the last `refit`.
        With `requires_grad` it gets gradients from queries.
    indices: int32 array of 3 m numbers of points, corners of m faces, counterclockwise seen from outside.
    velocities: array of n vec3, for `mesh_eval_velocity`.
    support_winding_number: prepare `mesh_query_point_sign_winding_number`.
    bvh_constructor: None or a name that Warp knows; there is one way to build the tree, whatever it says.
    bvh_leaf_size: faces in a leaf of the tree for points and boxes, at most; that for rays has eight.
    groups: int32 per face, for queries among the faces of one group (`mesh_get_group_root`).
    The mesh has to live as long as kernels are launched with its `id`.
    Raises RuntimeError for arrays that do not fit, ValueError for an unknown constructor.
    """

    handle_kind = MESH

    @entry_point
    def __init__(
        self,
        points: array,
        indices: array,
        velocities: array | None = None,
        support_winding_number: bool = False,
        bvh_constructor: BvhConstructor | str | None = None,
        bvh_leaf_size: int | None = None,
        groups: array | None = None,
    ) -> None:
        self.device = _checked(points, "points", vec3).device
        _checked(indices, "indices", int32, points)
        if indices.size % 3:
            raise RuntimeError(f"indices has {indices.size} entries; expected three for each face")
        if velocities is not None:
            _same_size(_checked(velocities, "velocities", vec3, points), points, "velocities")
        if constructor_of(bvh_constructor) is BvhConstructor.CUBQL and (groups is not None or support_winding_number):
            raise RuntimeError("'cubql' has neither groups nor winding numbers; leave the constructor out")
        if groups is not None:
            check_groups(groups, indices.size // 3, self.device, "indices")
        if bvh_leaf_size is not None and bvh_leaf_size < 1:
            raise RuntimeError(f"bvh_leaf_size is {bvh_leaf_size}; expected 1 or more")
        self._points, self._velocities, self.indices, self.groups = points, velocities, indices, groups
        self._bvh: Bvh | None = None
        self._rows: list[tuple[int, ...]] = []
        self._wide: list[tuple[list[int], tuple[int, int]]] = []
        self._build(bvh_leaf_size or LEAF_SIZE, support_winding_number)
        self._header = zeros(3 * len(WORDS), uint64, self.device)
        self._write_header()
        self.id = int(self._header.ptr)
        add_structure(self.id, self)
        self.refit()

    def __del__(self) -> None:
        """Warp's programs call it; the memory goes with the last reference."""

    @property
    def memory(self) -> list[array]:
        """All arrays that queries read."""
        parts = [getattr(self, part) for part in WORDS]
        return [self._header, *(a for a in parts if isinstance(a, array))]

    def _write_header(self) -> None:
        """What kernels find at the address `id`, where they have loaded it (`HandleKind.words`)."""
        words = np.zeros(3 * len(WORDS), np.uint64)
        for part, place in WORDS.items():
            value = getattr(self, part)
            if isinstance(value, array):
                words[place : place + 3] = value.ptr or 0, value.strides[0], value.size
            elif value is not None:
                words[place : place + 1].view(np.float32)[0] = value
        self._header.assign(words)

    @property
    def points(self) -> array:
        """The points.  Assigning another array of the same size refits the tree."""
        return self._points

    @points.setter
    def points(self, points: array) -> None:
        _same_size(_checked(points, "points", vec3, self._points), self._points, "points")
        self._points = points
        self._write_header()
        self.refit()

    @property
    def velocities(self) -> array | None:
        """The velocities of the points, or None."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: array) -> None:
        _same_size(_checked(velocities, "velocities", vec3, self._points), self._points, "velocities")
        self._velocities = velocities
        self._write_header()

    @entry_point
    def refit(self) -> None:
        """Follow a change of `points`, with the tree as it is: by launches, which a graph can capture."""
        with recording.paused():
            for row in self._rows:
                refit_tree(self, row)
            for levels, blocks in self._wide:
                refit_wide(self, levels, blocks)
            if self.areas is not None:
                refit_moments(self, self._rows[0][1])
            if self._bvh is not None:
                self._fill_boxes(self._bvh)
                self._bvh.refit()

    @property
    def bvh_id(self) -> int:
        """The id of a `Bvh` of the boxes around the faces: made when first asked for, refitted with the mesh."""
        if self._bvh is None:
            with recording.paused():
                lowers = empty(self.indices.size // 3, vec3, self.device)
                made = Bvh(lowers, empty_like(lowers))
                self._fill_boxes(made)
                made.rebuild()
                self._bvh = made
        assert self._bvh.id is not None
        return self._bvh.id

    def _fill_boxes(self, bvh: Bvh) -> None:
        launch(face_boxes, len(bvh.lowers), [self._points, self.indices], [bvh.lowers, bvh.uppers])

    def _build(self, leaf_size: int, support_winding_number: bool) -> None:
        count, on = self.indices.size // 3, self.device
        numbers, chosen = [-1], [np.arange(count)]
        if self.groups is not None:
            of_face = self.groups.numpy().ravel()
            numbers += np.unique(of_face).tolist()
            chosen += [np.flatnonzero(of_face == group) for group in numbers[1:]]
        firsts, node, entry, place = [np.zeros(0, np.int32)], 0, 0, 0
        self.faces = array(np.concatenate(chosen).astype(np.int32), int32, device=on)
        centres = empty(count, vec3, on)
        with recording.paused():
            roots = self._build_wide(chosen if count else [])
            launch(face_centres, count, [self._points, self.indices], [centres], device=on)
            for group, faces, root in zip(numbers, chosen, roots, strict=False):
                leaves = leaves_of_tree(len(faces), leaf_size)
                build_tree(centres, self.faces[place : place + len(faces)], leaves)
                self._rows.append((node, leaves, entry, group, root))
                firsts.append(firsts_of_leaves(len(faces), leaves) + np.int32(place))
                node, entry, place = node + 2 * leaves, entry + leaves + 1, place + len(faces)
            total = zeros(1, float64, on)
            launch(sum_edges, 1, [self._points, self.indices], [total], device=on)
        self.mean_edge = float(total.numpy()[0]) / max(3 * count, 1)
        self.firsts = array(np.concatenate(firsts), int32, device=on)
        self.trees = array(np.array(self._rows, np.int32).reshape(-1, 5), TreeRow, device=on)
        self.boxes, self.triangles = empty(node, Box, on), empty(place, Triangle, on)
        wound = 2 * self._rows[0][1] if support_winding_number and self._rows else 0
        self.moments = empty(wound, Moments, on)
        self.areas = empty(wound, float32, on) if wound else None

    def _build_wide(self, chosen: list[np.ndarray]) -> list[int]:
        """The trees for rays over these faces, made on the host; the root of each."""
        points, indices = (a.to("cpu") for a in (self._points, self.indices))
        corners = empty(indices.size // 3, vec3, "cpu"), empty(indices.size // 3, vec3, "cpu")
        launch(face_boxes, indices.size // 3, [points, indices], corners, device="cpu")
        nodes, items, roots, node, block = [np.zeros((0, LANES), np.int32)], [np.zeros((0, LANES), int)], [], 0, 0
        for faces in chosen:
            boxes = corners if len(faces) == len(corners[0]) else [array(a.numpy()[faces], vec3) for a in corners]
            tree = WideTree(*boxes)
            nodes.append(tree.rows(NODE * node, BLOCK * block))
            items.append(faces[tree.items])
            roots.append(2 * NODE * node)
            self._wide.append(([node + k for k in tree.levels], (block, len(tree.items))))
            node, block = node + len(tree.children), block + len(tree.items)
        self.nodes = array(np.concatenate(nodes).view(np.float32), Lanes, device=self.device)
        self.blocks = empty(BLOCK * block, Lanes, self.device)
        numbers = array(np.concatenate(items).astype(np.int32).ravel(), int32, device=self.device)
        launch(number_blocks, numbers.size, [numbers, self.indices], [self.blocks], device=self.device)
        return roots


def _checked(a: Any, name: str, kind: Any, beside: array | None = None) -> array:
    if not isinstance(a, array) or a.dtype is not kind or a.ndim != 1:
        found = f"{a.shape} of {a.dtype}" if isinstance(a, array) else type(a).__name__
        raise RuntimeError(f"{name} is {found}; expected a one-dimensional array of {kind}")
    if beside is not None and a.device is not beside.device:
        raise RuntimeError(f"{name} lies on {a.device}, the points on {beside.device}; expected one device")
    return a


def _same_size(a: array, points: array, name: str) -> None:
    if a.shape != points.shape:
        raise RuntimeError(f"{name} has {a.size} entries; expected {points.size}, one for each point")
