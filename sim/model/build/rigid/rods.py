"""Rods: a line of points as rigid segments, and the elastic joints between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.slots.pattern import Slots
from sim.geometry import IDENTITY_TURN, Placed, quaternion_between, quaternion_product, rotated
from sim.model.build.blocks import ConstraintBlock, constraint_values
from sim.model.build.bodies import SlotPlace
from sim.model.errors import ModelError


def frames_along(points: np.ndarray, normal: np.ndarray | None = None) -> np.ndarray:
    """Rotations (n, 4) of segments between points (n + 1, 3): axis 1 along each, the others carried from the first
    without twist (J. Bergou et al., "Discrete Elastic Rods", 2008).  normal: axis 2 of the first."""
    along = np.diff(points, axis=0)
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    first = _perpendicular(along[0], normal)
    turns = [_quaternion(np.stack([along[0], first, np.cross(along[0], first)], axis=1))]
    for a, b in zip(along, along[1:], strict=False):
        turn = quaternion_between(a, b)
        if turn is None:
            raise ModelError("two segments of the rod point against each other", "Give points without a fold")
        turns.append(quaternion_product(turn, turns[-1]))
    return np.array(turns)


def _perpendicular(along: np.ndarray, normal: np.ndarray | None) -> np.ndarray:
    given = np.eye(3)[np.argmin(np.abs(along))] if normal is None else normal
    across = given - (given @ along) * along
    if np.linalg.norm(across) < 1e-9:
        raise ModelError("normal is along the first segment", "Give a direction across it")
    return np.asarray(across / np.linalg.norm(across))


def _quaternion(m: np.ndarray) -> np.ndarray:
    """Of a rotation matrix, as an eigenvector (I. Y. Bar-Itzhack, J. Guidance Control Dyn. 23, 2000)."""
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
            [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
            [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
        ]
    )
    return np.asarray(np.linalg.eigh(k)[1][:, -1])


@dataclass(frozen=True, eq=False)
class RodEnd:
    """What the end of a rod is clamped to: a body and its pose, or the world, body -1."""

    body: int
    pose: Placed

    def seen(self, at: np.ndarray, turn: np.ndarray) -> SlotPlace:
        """A frame of the world as the body sees it."""
        return SlotPlace(self.pose.seen(at)[None], self.pose.turn_seen(turn)[None])


@dataclass(frozen=True, eq=False)
class Segments:
    """Rigid segments from body `start` on: poses of their middles (n, 7), lengths (n,)."""

    start: int
    base: np.ndarray
    lengths: np.ndarray
    closed: bool

    @classmethod
    def along(cls, start: int, points: np.ndarray, normal: np.ndarray | None, closed: bool) -> Segments:
        """Between neighbours of points (n + 1, 3)."""
        middles = 0.5 * (points[:-1] + points[1:])
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        return cls(start, np.concatenate([middles, frames_along(points, normal)], axis=1), lengths, closed)

    def place(self, segments: np.ndarray, side: float) -> SlotPlace:
        """The end of segments, side 1, or their start, -1, in their frames."""
        at = np.zeros((len(segments), 3))
        at[:, 0] = 0.5 * side * self.lengths[segments]
        return SlotPlace(at, np.tile(IDENTITY_TURN, (len(segments), 1)))

    def beside(self, segment: int, radius: float) -> frozenset[int]:
        """The bodies of those so near along the rod that it cannot touch them: the least turn back, a half circle of
        the radius, is longer."""
        middles = np.cumsum(self.lengths) - 0.5 * self.lengths
        apart = np.abs(middles - middles[segment])
        if self.closed:
            apart = np.minimum(apart, self.lengths.sum() - apart)
        free = apart - 0.5 * (self.lengths + self.lengths[segment])
        return frozenset((self.start + np.flatnonzero(free < np.pi * radius)).tolist())

    def in_world(self, segment: int, side: float) -> tuple[np.ndarray, np.ndarray]:
        """The same of one segment, in the world."""
        q = self.base[segment, 3:]
        return self.base[segment, :3] + rotated(q, np.array([0.5 * side * self.lengths[segment], 0, 0])), q


def rod_joints(
    label: str, law: str, segments: Segments, spec: Mapping[str, Any], start: RodEnd | None, end: RodEnd | None
) -> list[ConstraintBlock]:
    """The elastic joints of a rod: each stands for the length between two middles, and where an end is clamped, for
    half a segment.  law: `rod` or `cable`; spec: its values."""
    n, constraint = len(segments.lengths), REGISTRY[law]
    values, _ = constraint_values(f"add_rod({law})", constraint, spec, 1)
    first = np.arange(n if segments.closed else n - 1)
    second = (first + 1) % n
    places = {0: segments.place(first, 1.0), 1: segments.place(second, -1.0)}
    size = 0.5 * (segments.lengths[first] + segments.lengths[second])
    inner = segments.start + np.stack([first, second], axis=1)
    parts = [("", "ab", inner, places, size)] if len(first) else []
    for name, clamp, segment, side in (("start", start, 0, -1.0), ("end", end, n - 1, 1.0)):
        if clamp is None:
            continue
        own, other = segments.place(np.array([segment]), side), clamp.seen(*segments.in_world(segment, side))
        held = "w" if clamp.body < 0 else "b"
        pair = [max(clamp.body, 0), segments.start + segment]
        turned = slice(None) if side < 0 else slice(None, None, -1)
        kinds = Slots.of([None if held == "w" else clamp.body, pair[1]][turned]).kinds
        ends = dict(enumerate([other, own][turned]))
        parts.append((f".{name}", kinds, np.array([pair[turned]]), ends, 0.5 * segments.lengths[[segment]]))
    return [
        ConstraintBlock(f"{label}{name}", label, constraint, points.astype(np.int32), np.ones(len(points)), values,
                        size=sizes, slots=Slots(kinds), places=placed)
        for name, kinds, points, placed, sizes in parts
    ]  # fmt: skip
