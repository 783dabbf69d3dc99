"""Lists of pairs that may touch, and what is known of them: made by `Detection.run`, read by solvers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.positions.sweep import CROSSED, EDGE_EDGE, PIECES, POINT_TRIANGLE, WORST
from sim.core.lang.types import as_scalar, int32, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.hash_grid import HashGrid
from sim.core.spatial.sorting import Scan
from sim.model.collision.kernels import BEYOND, candidate_kernels, placing_kernels
from sim.model.collision.pair_kernels import pair_kernels
from sim.model.collision.surfaces import SelfContact
from sim.model.errors import ModelError

MOST_CELLS = 64
"""Cells of a grid along an axis."""
APART = 17.0, 11.0, 5.0
"""Cells between two worlds."""
SAMPLE = 256
"""Points of a world, at most twice as many, whose mean says how it moves as a whole."""


class ContactError(ModelError, FloatingPointError):
    """Lists of pairs that are not complete: points have gone too far since, or there was no room.

    A search that meets it backs off, as where a simulation breaks down.
    """


@dataclass(eq=False)
class SurfaceOverlap:
    """How deep surfaces have been in each other at the ends of the steps of a rollout.

    worst [m]: by how much a pair was closer than its thickness; crossed: how many times a point was on the other side
    of a triangle than as the step began, or an edge of an edge; pairs: the most of a kind that might have touched.
    """

    worst: float = 0.0
    crossed: int = 0
    pairs: int = 0

    def take(self, lists: PairLists) -> None:
        """What lists have seen."""
        self.worst, self.crossed, self.pairs = lists.worst, lists.crossed, int(max(lists.needed.numpy()))


@dataclass(eq=False)
class PairLists:
    """Pairs of a model that may touch, up to `capacity` points and triangles, then as many edges.

    rows: (2 capacity, 4) int32 particles; limit: (2 capacity,) half of their distance at rest [m]; count: (2,) how many
    there are of each kind; offset (particles + 1,), slots: of each particle where it stands in them, 4 row + point.
    detected: (particles,) where the points were; allowed: (particles,) [m] how far they may go from there.
    needed: (2,) the most pairs that any detection has found; moved: (particles,) [m] how much further than allowed each
    point was at most; report: see `sim.constraints.contact.positions.sweep`.  These three go on until `begin`.
    deep: (2 capacity,) how deep each pair was as the last step ended.
    """

    of: SelfContact

    def __post_init__(self) -> None:
        of = self.of
        device, real = of.friction.device, as_scalar(of.friction.dtype)
        vec3, n, edges, triangles = vector(3, real), of.world.size, of.edges.shape[0], of.triangles.shape[0]
        room = of.capacity

        def make(count: int | tuple[int, ...], kind: object = int32) -> array:
            return zeros(count, kind, device, requires_grad=False)

        self.rows, self.limit, self.slots = make((2 * room, 4)), make(2 * room, real), make(8 * room)
        self.count, self.needed, self.offset = make(2), make(2), make(n + 1)
        self.detected, self.allowed, self.drift = make(n, vec3), make(n, real), make(of.worlds, vec3)
        self.moved, self.report, self.deep = make(n, real), make((PIECES, 2), real), make(2 * room, real)
        self._at = make(of.points.size, vec3), make(edges, vec3)
        self._parts = make(triangles + 1), make(edges + 1)
        self._seen, self._free = (make(triangles), make(edges)), (make(triangles + 1), make(edges + 1))
        self._found, self._next = make(room), make(n + 1)
        self._furthest, self._longest = make(1, real), (make(3, real), make(3, real))  # points have no sides
        every = max(of.points.shape[1] // SAMPLE, 1)
        self._sample = array(of.points.numpy()[:, ::every], dtype=int32, device=device)
        self._scans = Scan(triangles + 1, device), Scan(edges + 1, device), Scan(n + 1, device)
        self._flat = of.points.flatten()
        self._others = self._flat, array(np.arange(edges), dtype=int32, device=device)
        self._placing, self._searching, self._listed = (
            placing_kernels(real),
            candidate_kernels(real),
            pair_kernels(real),
        )
        self._apart = vec3(*(of.cell * cells if of.worlds > 1 else 0.0 for cells in APART))
        self._grids, self._dims = [], []
        for at in self._at:
            size = next(d for d in (8, 16, 32, MOST_CELLS) if d == MOST_CELLS or d**3 >= 8 * at.size)
            self._dims.append(size)
            self._grids.append(HashGrid(size, size, size, device, real))
            self._grids[-1].reserve(at.size)
        at = make(of.points.size, vec3)
        self._boxes = (at, at), (make(edges, vec3), make(edges, vec3))  # that of a point is its place

    @property
    def arrays(self) -> list[array]:
        """All that detection and steps write."""
        grids = [a for grid in self._grids for a in grid.memory]
        lists = [self.rows, self.limit, self.slots, self.count, self.needed, self.offset]
        bounds = [self.detected, self.allowed, self.moved, self.report, self.deep, self.drift]
        scratch = [
            *self._at,
            *(a for boxes in self._boxes for a in boxes),
            *self._parts,
            *self._seen,
            *self._free,
            self._found,
            self._next,
            self._furthest,
            *self._longest,
        ]
        return [*lists, *bounds, *scratch, *grids]

    def begin(self) -> None:
        """Forgets what was reported."""
        for a in (self.needed, self.moved, self.report):
            a.zero_()

    # ------------------------------------------------------------------------------------------ detection
    def detect(self, x: array, v: array, interval: float) -> None:
        """Lists all pairs that may touch within `interval` seconds from where points are, with these velocities."""
        with recording.paused():
            self._bound(x, v, interval)
            self._list_pairs(x)
            self._list_slots()

    def _bound(self, x: array, v: array, interval: float) -> None:
        of, k, n = self.of, self._placing, self.of.points.size
        self._longest[EDGE_EDGE].zero_()
        self._furthest.zero_()
        launch(k.place, n, [self._flat, of.world, self._apart, x], [self._at[0], self.detected])
        launch(
            k.middle, of.edges.shape[0], [of.edges, of.world, self._apart, x], [self._at[1], self._longest[EDGE_EDGE]]
        )
        launch(k.mean, of.worlds, [self._sample, v], [self.drift])
        moving = [v, self.drift, of.half_thickness, of.margin, interval]
        launch(k.reach, n, [self._flat, of.world, *moving], [self.allowed, self._furthest])

    def _list_pairs(self, x: array) -> None:
        of, room, placing, k = self.of, self.of.capacity, self._placing, self._searching
        self.offset.zero_()
        for kind, parts in ((POINT_TRIANGLE, of.triangles), (EDGE_EDGE, of.edges)):
            grid, offset, count = self._grids[kind], self._parts[kind], parts.shape[0]
            grid.build(self._at[kind], of.cell)
            _, order, _, starts = grid.memory
            low, high = self._boxes[kind]
            if kind == EDGE_EDGE:
                launch(placing.take_boxes, count, [order, of.edges, of.world, self._apart, x], [low, high])
            else:
                launch(placing.take, self._at[kind].size, [order, self._at[kind]], [low])
            cells = [starts, order, low, high, 1.0 / of.cell, self._dims[kind], self._apart]
            bounds = [of.world, x, of.half_thickness, self.allowed, self._furthest]
            inputs = [*cells, parts, self._others[kind], *bounds, self._longest[kind], room]
            counting, filling = k.near[kind]
            offset.zero_()
            launch(counting, count, inputs, [self._seen[kind], offset, self._found])
            self._scans[kind].run(offset)
            launch(k.take_total, count, [offset, kind, room], [self.count, self.needed])
            copy(self._free[kind], offset)
            launch(filling, count, inputs, [self._seen[kind], self._free[kind], self._found])
            begin = kind * room
            given = [begin, parts, offset, self._found, room, of.owner, of.rest]
            launch(self._listed.describe[kind], count, given, [self.rows, self.limit, self.offset])

    def _list_slots(self) -> None:
        k, room = self._listed, self.of.capacity
        self._scans[2].run(self.offset)
        copy(self._next, self.offset)
        for kind in (POINT_TRIANGLE, EDGE_EDGE):
            offset = self._parts[kind]
            launch(k.fill_slots, len(offset) - 1, [kind * room, offset, room, self.rows, self._next], [self.slots])
        launch(k.sort_slots, len(self.offset) - 1, [self.offset], [self.slots])

    # ------------------------------------------------------------------------------------------ how long they hold
    def check(self, particle: array) -> None:
        """Notes whether points have gone further than the lists allow, beside what all have in common."""
        of = self.of
        with recording.paused():
            launch(self._placing.mean_moved, of.worlds, [self._sample, particle, self.detected], [self.drift])
            inputs = [self._flat, of.world, particle, self.detected, self.drift, self.allowed]
            launch(self._listed.check, of.points.size, inputs, [self.moved])

    def deepest(self, x: array) -> tuple[float, int, float]:
        """Of the pair that is closer than its thickness by most: how much [m], its row, and its distance [m]."""
        of, k, room = self.of, self._listed, self.of.capacity
        deep, apart = (zeros(2 * room, of.friction.dtype, x.device, requires_grad=False) for _ in range(2))
        deep.fill_(-1.0)
        with recording.paused():
            for kind in (POINT_TRIANGLE, EDGE_EDGE):
                given = [kind * room, kind, self.count, self.rows, self.limit, of.half_thickness, x]
                launch(k.depth[kind], room, given, [deep, apart])
        row = int(np.argmax(deep.numpy()))
        return float(deep.numpy()[row]), row, float(apart.numpy()[row])

    def refuse_incomplete(self, when: str = "") -> None:
        """Raises ContactError where a pair may have been missed since `begin`.  Waits for the device."""
        of = self.of
        needed, moved = max(self.needed.numpy().tolist()), float(self.moved.numpy().max(initial=0.0))
        if needed == BEYOND:
            raise ContactError(
                f"contact: more pairs may touch{when} than have numbers of 32 bits",
                f"Set a smaller margin, or detect more often (margin {of.margin:g} m, every {of.every} steps now)",
            )
        if needed > of.capacity:
            raise ContactError(
                f"contact: {needed} pairs may touch{when}, and there is room for {of.capacity}",
                f"Set capacity to {2 * needed} (or a smaller margin, {of.margin:g} m now)",
            )
        if not moved <= 0.0:
            often = f", or detect more often (every {of.every} steps now)" if of.every > 1 else ""
            wider = max(of.margin + 2.5 * moved, 1.1 * of.margin)  # two digits of which are more than the margin
            raise ContactError(
                f"contact: points have moved {moved:.3g} m further between two detections than their margin allows"
                f"{when}, so that pairs may have been missed",
                f"Set margin to {wider:.2g} m or more ({of.margin:g} m now){often}",
            )

    @property
    def worst(self) -> float:
        """The deepest penetration [m] at the end of a step since `begin`; 0 where there was none."""
        return float(self.report.numpy()[:, WORST].max())

    @property
    def crossed(self) -> int:
        """How many times parts have been on the other side of each other at the end of a step."""
        return int(self.report.numpy()[:, CROSSED].sum())
