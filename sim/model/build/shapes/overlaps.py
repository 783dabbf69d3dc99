"""Shapes that begin inside of each other: an error, since a step would throw them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.contact.solids.distances import FUNCTIONS, make_measure
from sim.core.lang.types import float64, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.launch import launch
from sim.geometry import rotation_from_quaternion
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.contacts import meets_world
from sim.model.build.shapes.pairs import CORNERS, EDGED, FACES, POINTS, RIMS, ROUND, collide
from sim.model.errors import ModelError
from sim.model.model import Model
from sim.model.visuals import MeshForm

ALLOWED = 0.1
"""How deep they may be, in parts of the least half width of the smaller one: contacts push them out at the start."""
TOLD = 20
"""Pairs after which nobody looks for more."""
HALVINGS, AROUND = 40, 16
"""Steps of the search for the deepest place of a line, and places of a rim that lines go to."""


class PlacedSolid:
    """A shape where it begins: kind, place (3,), axes (3, 3) in columns, size as in `shape_scale`; mesh: surface."""

    def __init__(
        self, kind: str, size: np.ndarray, frame: np.ndarray, pose: np.ndarray | None, mesh: MeshForm | None = None
    ) -> None:
        self.kind, self.size = kind, size
        self.triangles = np.zeros((0, 3, 3)) if mesh is None else (mesh.vertices * size)[mesh.triangles]
        self.at, self.axes = frame[:3], rotation_from_quaternion(frame[3:])
        if pose is not None:
            turn = rotation_from_quaternion(pose[3:])
            self.at, self.axes = pose[:3] + turn @ self.at, turn @ self.axes
        self.points = np.zeros((0, 3))
        places = RIMS if self.kind == "cylinder" else POINTS.get(self.kind)
        if places is not None:
            size = self.size[[0, 0, 1]] if self.kind in ("capsule", "cylinder") else self.size
            self.points = self.at + (places * size) @ self.axes.T
        self.radius = self.size[0] if self.kind in ROUND else 0.0
        self.half = self.size if self.kind == "box" else np.array([0.0, 0.0, self.size[1]])

    @property
    def around(self) -> float:
        """The radius of a ball about its place that holds it."""
        far = np.linalg.norm(self.size[:2]) if self.kind == "cylinder" else self.radius + np.linalg.norm(self.half)
        return np.inf if self.kind in ("plane", "mesh", "sdf") else float(far)

    @property
    def width(self) -> float:
        """The least half width."""
        if self.kind == "mesh":
            corners = self.triangles.reshape(-1, 3)
            return 0.5 * float(np.min(corners.max(axis=0) - corners.min(axis=0)))
        sizes = {"box": self.size, "cylinder": self.size[:2]}.get(self.kind, self.size[:1])
        return float(np.min(sizes))

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Of points (n, 3) from its surface, negative inside."""
        x = (points - self.at) @ self.axes
        if self.kind == "plane":
            return x[:, 2]
        if self.kind in ROUND:
            x[:, 2] -= np.clip(x[:, 2], -self.half[2], self.half[2])
            return np.linalg.norm(x, axis=1) - self.radius
        if self.kind == "mesh":
            return np.array([distance_from_surface(p, self.triangles) for p in x])
        if self.kind == "box":
            out = np.abs(x) - self.size
        else:
            out = np.stack([np.hypot(x[:, 0], x[:, 1]) - self.size[0], np.abs(x[:, 2]) - self.size[1]], axis=1)
        inside = np.minimum(out.max(axis=1), 0.0)
        return np.linalg.norm(np.maximum(out, 0.0), axis=1) + inside

    def depth_in(self, other: PlacedSolid) -> float:
        """How deep the deepest of its points is in another."""
        return float(np.max(self.radius - other.distance(self.points), initial=0.0))


def distance_from_surface(point: np.ndarray, triangles: np.ndarray) -> float:
    """Of a point (3,) from a closed surface of triangles (n, 3, 3), negative inside: that of the one next to it; of
    those that share an edge or a corner the one that sees it most directly says the side."""
    far, height = distances_from_triangles(point, triangles)
    nearest = np.flatnonzero(far <= far.min() * (1.0 + 1e-9))
    facing = nearest[np.argmax(np.abs(height[nearest]))]
    return float(np.copysign(far[facing], height[facing]))


def distances_from_triangles(point: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a point (3,) from triangles (n, 3, 3), and from their planes, negative behind them: (n,) each."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    height = np.einsum("ij,ij->i", point - triangles[:, 0], normals)
    over, far = np.ones(len(triangles), bool), np.full(len(triangles), np.inf)
    for k in range(3):
        begin, edge = triangles[:, k], triangles[:, (k + 1) % 3] - triangles[:, k]
        to = point - begin
        over &= np.einsum("ij,ij->i", np.cross(edge, to), normals) >= 0.0
        part = np.clip(np.einsum("ij,ij->i", to, edge) / np.einsum("ij,ij->i", edge, edge), 0.0, 1.0)
        far = np.minimum(far, np.linalg.norm(to - part[:, None] * edge, axis=1))
    return np.where(over, np.abs(height), far), height


def check_apart(model: Model, shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]]) -> None:
    """Raises ModelError where shapes that collide begin inside of each other, in the first world: of every pair, up to
    `TOLD` of them.  Two of which no step moves any may be: a ramp is let into the floor that it stands on."""
    moves = np.append(model.device.numpy(model.body_inv_mass) > 0, False)  # the world, -1, last
    read = model.device.numpy
    sizes, frames, poses = (
        read(a).astype(np.float64) for a in (model.shape_scale, model.shape_transform, model.body_q)
    )
    solids = [
        PlacedSolid(
            s.kind,
            sizes[k * model.worlds],
            frames[k * model.worlds],
            None if (b := s.bodies[0]) < 0 else poses[b],
            s.mesh,
        )
        for k, s in enumerate(shapes)
    ]
    if len(solids) < 2:
        return
    found: list[ModelError] = []
    places, around = np.array([s.at for s in solids]), np.array([s.around for s in solids])
    for i, j in _close(places, around):
        if not moves[shapes[i].bodies[0]] and not moves[shapes[j].bodies[0]]:
            continue
        meet = collide(shapes[i], shapes[j], joined) or any(
            shapes[a].bodies[0] < 0 and meets_world(shapes[a], shapes[b]) for a, b in ((i, j), (j, i))
        )
        if not meet:
            continue
        if "sdf" in (shapes[i].kind, shapes[j].kind):
            f, s = (i, j) if shapes[i].kind == "sdf" else (j, i)
            depth, least = _within(solids[s], solids[f], shapes[f].sdf), solids[s].width
        else:
            a, b = solids[i], solids[j]
            depth = max(a.depth_in(b), b.depth_in(a), _crossed(a, b), _pierced(a, b), _pierced(b, a))
            least = min(s.width for s in (a, b) if s.kind != "plane")
        if depth > ALLOWED * least:
            found.append(
                ModelError(
                    f"{shapes[i].label} and {shapes[j].label} begin {depth:.3g} m inside of each other",
                    "Move one of them, or leave it out of the `touches` of the other",
                    of=shapes[i].label,
                )
            )
        if len(found) == TOLD:
            break
    if found:
        raise ModelError(found[0].what, found[0].hint, found[0].of, found[1:])


def _within(solid: PlacedSolid, of: PlacedSolid, sdf: Constraint | None) -> float:
    """How deep a solid is in a signed distance: at its points, and with a ball about its middle that fits into it."""
    assert sdf is not None
    points = solid.points
    if solid.kind == "mesh":
        points = solid.at + solid.triangles.reshape(-1, 3) @ solid.axes.T
    seen = (np.concatenate([points, solid.at[None]]) - of.at) @ of.axes
    away = array(np.zeros(len(seen)), dtype=float64, device="cpu")
    inputs = [array(seen, dtype=vector(3, float64), device="cpu"), vector(3, float64)(*of.size)]
    with recording.paused():
        launch(make_measure(FUNCTIONS[sdf]), len(seen), inputs, [away], device="cpu")
    found = solid.radius - away.numpy()
    found[-1] = -np.inf if solid.kind == "mesh" else found[-1] - solid.radius + solid.width
    return float(np.max(found))


def _close(places: np.ndarray, around: np.ndarray) -> Iterator[tuple[int, int]]:
    """The pairs of balls, at places (n, 3) and of radii (n,), that overlap; infinite ones are everywhere."""
    for i in range(len(places) - 1):
        reach = around[i] + around[i + 1 :]
        apart = np.isfinite(reach) & (reach < np.linalg.norm(places[i + 1 :] - places[i], axis=1))
        yield from ((i, i + 1 + int(j)) for j in np.flatnonzero(~apart))


def _crossed(a: PlacedSolid, b: PlacedSolid) -> float:
    """How far two boxes, or lines of centres with a radius, would have to move to be apart, 0 where they are."""
    if a.kind not in EDGED or b.kind not in EDGED:
        return 0.0
    crosses = [np.cross(a.axes[:, i], b.axes[:, j]) for i in range(3) for j in range(3)]
    long = [c / np.linalg.norm(c) for c in crosses if np.linalg.norm(c) > 1e-3]
    normals = np.array([*a.axes.T, *b.axes.T, *long])
    reach = np.abs(normals @ a.axes) @ a.half + np.abs(normals @ b.axes) @ b.half
    apart = np.max(np.abs(normals @ (b.at - a.at)) - reach)
    return float(max(-apart, 0.0))


def _pierced(a: PlacedSolid, b: PlacedSolid) -> float:
    """How deep edges of one of two solids, a mesh at least among them, are in the other: at its ends, and half way
    between where it comes through one triangle and through the next one; of a round solid where it is deepest."""
    if "mesh" not in (a.kind, b.kind) or not {a.kind, b.kind} <= {"mesh", *EDGED, "cylinder"}:
        return 0.0
    if b.kind in ("capsule", "cylinder"):
        corners = _triangles(a)
        return float(np.max(-_least_along(np.concatenate([corners[:, [k, (k + 1) % 3]] for k in range(3)]), b)))
    edges, triangles = _lines(a), _triangles(b)
    places = [edges[:, 0]]
    for p, q in edges:
        parts = np.array([0.0, *comes_through(p, q, triangles), 1.0])
        if len(parts) > 2:
            places.append(p + (0.5 * (parts[1:] + parts[:-1]))[:, None] * (q - p))
    return float(np.max(a.radius * (a.kind == "capsule") - b.distance(np.concatenate(places)), initial=0.0))


def _least_along(lines: np.ndarray, solid: PlacedSolid) -> np.ndarray:
    """The least distance of each of some lines (n, 2, 3) from a convex solid, by the golden section."""
    low, high, golden = np.zeros(len(lines)), np.ones(len(lines)), 0.5 * (5.0**0.5 - 1.0)

    def away(part: np.ndarray) -> np.ndarray:
        return solid.distance(lines[:, 0] + part[:, None] * (lines[:, 1] - lines[:, 0]))

    for _ in range(HALVINGS):
        part = golden * (high - low)
        right = away(high - part) > away(low + part)
        low, high = np.where(right, high - part, low), np.where(right, high, low + part)
    return away(0.5 * (low + high))


def _lines(solid: PlacedSolid) -> np.ndarray:
    """Edges of a solid where it begins, (n, 2, 3); of a round one lines along it, and of a cylinder also its rims."""
    if solid.kind == "capsule":
        return solid.points[None]
    if solid.kind == "cylinder":
        turns = 2.0 * np.pi * np.arange(AROUND) / AROUND
        rim = solid.size[0] * np.stack([np.cos(turns), np.sin(turns), 0.0 * turns], axis=1)
        ends = [rim + [0.0, 0.0, up * solid.size[1]] for up in (1.0, -1.0)]
        own = [np.stack([end, np.roll(end, 1, axis=0)], axis=1) for end in ends] + [np.stack(ends, axis=1)]
        own.append(np.array([[[0.0, 0.0, solid.size[1]], [0.0, 0.0, -solid.size[1]]]]))
        return np.asarray(solid.at + np.concatenate(own) @ solid.axes.T)
    corners = _triangles(solid)
    return np.concatenate([corners[:, [k, (k + 1) % 3]] for k in range(3)])


def _triangles(solid: PlacedSolid) -> np.ndarray:
    """Those of a mesh or a box where it begins: (n, 3, 3)."""
    own = solid.triangles if solid.kind == "mesh" else (CORNERS * solid.size)[FACES]
    return np.asarray(solid.at + own @ solid.axes.T)


def comes_through(a: np.ndarray, b: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Where a line from a to b (3,) comes through triangles (n, 3, 3), in parts of it, in order: T. Moeller, B.
    Trumbore, "Fast, Minimum Storage Ray/Triangle Intersection", 1997."""
    p, e, f = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    across, other = np.cross(b - a, f), np.cross(a - p, e)
    det = np.einsum("ij,ij->i", e, across)
    with np.errstate(divide="ignore", invalid="ignore"):  # of what is parallel to a line
        u, v, s = (
            np.einsum("ij,ij->i", x, y) / det
            for x, y in ((a - p, across), (other, np.broadcast_to(b - a, other.shape)), (f, other))
        )
        return np.sort(s[(u >= 0) & (v >= 0) & (u + v <= 1) & (s > 0) & (s < 1)])
