"""Where a new scene's object lies: around marks, those of a recording or made-up ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.cli.verbs.modules import UsageError

UP = np.array([0.0, 1.0, 0.0])
MARGIN = 0.05
"""An object reaches this part of its size further than its outer marks."""
BALL = 0.03
"""Radius [m] of a body that has a single mark."""
UPRIGHT = 0.8
"""A sheet whose normal has no larger vertical component hangs."""
SNAPPED = np.cos(np.radians(20.0))
"""A beam closer to an axis of the world lies along it."""
LEVEL = 5e-3
"""A turn [rad] that is left out: marks are put on by hand."""


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks on an object as it begins.

    at: (n, 3) [m].  travel: (n,) how far each goes in all of the recording [m]; lowest: the least height [m] of any.
    """

    at: np.ndarray
    travel: np.ndarray
    lowest: float

    @classmethod
    def still(cls, at: Sequence[Sequence[float]]) -> Marks:
        """Made-up marks."""
        points = np.array(at, dtype=float)
        return cls(points, np.zeros(len(points)), float(points[:, 1].min()))


@dataclass(frozen=True, eq=False)
class Layout:
    """values: texts for the places of a template.  on: (n, 3) where the marks are on the object [m]; away: how far [m]
    at most they were from there.  held: the mark nearest to where the object is held, or None."""

    values: Mapping[str, str]
    on: np.ndarray
    away: float
    held: int | None


def number(value: float) -> str:
    """For a scene, in metres: to 10 micrometres."""
    return f"{round(float(value), 5) + 0.0:.7g}"


def vector(values: Sequence[float] | np.ndarray) -> str:
    """A list for a scene."""
    return f"[{', '.join(number(v) for v in values)}]"


def lay_cloth(marks: Marks) -> Layout:
    """A flat rectangle through the marks; hung by its upper edge, or, lying, by its corners."""
    centre, axes, spread = _principal(marks.at)
    if len(marks.at) < 3 or spread[1] < 0.02 * spread[0]:
        raise UsageError(
            "a cloth takes three markers that are not on a line\n  `simopt new rope` takes those of a line"
        )
    normal = axes[2]
    hangs = abs(normal @ UP) < UPRIGHT
    if hangs:
        ey = UP - (UP @ normal) * normal
        ey /= np.linalg.norm(ey)
        normal = normal if normal[2] >= 0 else -normal
    else:
        normal = normal if normal[1] >= 0 else -normal
        ey = np.cross(normal, axes[0])
    frame = np.array([np.cross(ey, normal), ey, normal])
    flat = (marks.at - centre) @ frame.T
    low, high = _widened(flat[:, :2])
    size = high - low
    cells = _cells(size, 12)
    corner = centre + low @ frame[:2]
    on = marks.at - np.outer(flat[:, 2], normal)
    if hangs:
        top = corner[1] + size[1] * frame[1][1]
        where = f"{{y: [{number(top - 0.25 * size[1] / cells[1] * frame[1][1])}, null]}}"
        held = int(np.argmax(flat[:, 1]))
    else:
        corners = [
            corner + a * size[0] * frame[0] + b * size[1] * frame[1] for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))
        ]
        where = f"{{near: [{', '.join(vector(c) for c in corners)}]}}"
        held = int(np.argmin([min(np.linalg.norm(c - x) for c in corners) for x in on]))
    values = {
        "size": vector(size), "cells": str(list(cells)), "position": vector(corner), "rotation": _rotation(frame),
        "where": where, "edge": "its upper edge" if hangs else "its corners",
    }  # fmt: skip
    return Layout(values, on, float(np.abs(flat[:, 2]).max()), held)


def lay_rope(marks: Marks) -> Layout:
    """A rod from mark to mark, clamped at the end that moves less; where both do, at the upper one."""
    if len(marks.at) < 2:
        raise UsageError("a rope takes two markers at least")
    order = _along(marks.at)
    ends = [(marks.travel[order[k]], -marks.at[order[k]][1]) for k in (0, -1)]
    if ends[1] < ends[0]:
        order = order[::-1]
    line = marks.at[order]
    points = ",\n          ".join(vector(x) for x in line)
    values = {"points": points, "length": number(np.linalg.norm(np.diff(line, axis=0), axis=1).sum())}
    return Layout(values, marks.at, 0.0, int(order[0]))


def lay_beam(marks: Marks) -> Layout:
    """A block along the line of the marks, held at the end whose mark moves less."""
    if len(marks.at) < 2:
        raise UsageError("a beam takes two markers at least")
    centre, axes, _ = _principal(marks.at)
    first = axes[0]
    nearest = int(np.argmax(np.abs(first)))
    aligned = abs(first[nearest]) > SNAPPED
    if aligned:
        first = np.eye(3)[nearest]
    side = UP if abs(first @ UP) < SNAPPED else np.array([1.0, 0, 0])
    second = side - (side @ first) * first
    second /= np.linalg.norm(second)
    frame = np.array([first, second, np.cross(first, second)])
    local = (marks.at - centre) @ frame.T
    low, high = _widened(local)
    least = (high - low)[0] / 8
    thin = high - low < least
    middle = (low + high) / 2
    low, high = np.where(thin, middle - least / 2, low), np.where(thin, middle + least / 2, high)
    size, cells = high - low, np.array([8, 2, 2])
    ends = [int(np.argmin(local[:, 0])), int(np.argmax(local[:, 0]))]
    back = marks.travel[ends[1]] < marks.travel[ends[0]]
    face = (high if back else low)[0]
    if aligned:
        corners = np.array([low, high]) @ frame + centre
        origin, sides = corners.min(axis=0), np.abs(size @ frame)
        where = _slab(nearest, float(centre[nearest] + face), float(size[0] / cells[0]), back)
        values = {"origin": vector(origin), "size": vector(sides), "cells": str(_whole(np.abs(cells @ frame))),
                  "position": "[0, 0, 0]", "rotation": "{angle: 0}"}  # fmt: skip
    else:
        grid = [[face, low[1] + j * size[1] / 2, low[2] + k * size[2] / 2] for j in range(3) for k in range(3)]
        where = f"{{near: [{', '.join(vector(np.array(x) @ frame + centre) for x in grid)}]}}"
        values = {"origin": vector(low), "size": vector(size), "cells": str(_whole(cells)),
                  "position": vector(centre), "rotation": _rotation(frame)}  # fmt: skip
    return Layout(values | {"where": where}, marks.at, 0.0, ends[int(back)])


def lay_solid(marks: Marks) -> Layout:
    """A block around the marks that lies or falls on a floor as high as the lowest that any mark was seen."""
    if len(marks.at) < 3:
        raise UsageError("a solid takes three markers at least\n  a rigid body takes one: `simopt new body`")
    low, high = _widened(marks.at)
    least = (high - low).max() / 4
    thin = high - low < least
    middle = (low + high) / 2
    low, high = np.where(thin, middle - least / 2, low), np.where(thin, middle + least / 2, high)
    floor = min(marks.lowest, marks.at[:, 1].min())
    low[1] = max(low[1], floor)
    size = high - low
    values = {"origin": vector(low), "size": vector(size), "cells": str(_cells(size, 4)), "floor": number(floor)}
    return Layout(values, marks.at, 0.0, None)


def lay_body(marks: Marks) -> Layout:
    """A rigid box around the marks, of one alone a ball, over a floor that the lowest of them comes to."""
    low, high = _widened(marks.at)
    middle, half = (low + high) / 2, (high - low) / 2
    alone = not half.any()
    half = np.maximum(half, half.max() / 2)
    # a mark on a box may be anywhere on it, one in the middle of a ball comes no nearer to the floor than its radius
    floor = min(marks.lowest, float((middle - half)[1])) - BALL * alone
    shape = f"sphere: {{radius: {number(BALL)}}}" if alone else f"box: {{half: {vector(half)}}}"
    values = {"shape": shape, "position": vector(middle), "floor": number(floor)}
    return Layout(values, marks.at, 0.0, None)


LAYOUTS: Mapping[str, Callable[[Marks], Layout]] = {
    "cloth": lay_cloth, "rope": lay_rope, "beam": lay_beam, "solid": lay_solid, "body": lay_body,
}  # fmt: skip

MADE_UP: Mapping[str, Marks] = {
    "cloth": Marks.still([[x, y, 0] for y in (0.4, 0.2, 0) for x in (0, 0.2, 0.4)]),
    "rope": Marks.still([[0.1 * k, 0, 0] for k in range(6)]),
    "beam": Marks.still([[0.1, 0, 0], [0.2, 0, 0], [0.3, 0, 0]]),
    "solid": Marks.still([[x, y, z] for x in (-0.05, 0.05) for y in (0.1, 0.2) for z in (-0.05, 0.05)]),
    "body": Marks.still([[x, 0.3, z] for x in (-0.05, 0.05) for z in (-0.05, 0.05)]),
}
"""Marks of a scene that begins without a recording."""


def _principal(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middle, principal axes (3, 3) as rows of a right-handed frame, and the spread along each [m]."""
    centre = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - centre, full_matrices=True)
    axes[2] = np.cross(axes[0], axes[1])
    return centre, axes, np.concatenate([spread, np.zeros(3)])[:3]


def _widened(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = points.min(axis=0), points.max(axis=0)
    more = MARGIN * (high - low)
    return low - more, high + more


def _whole(values: np.ndarray) -> list[int]:
    return [round(float(v)) for v in values]


def _cells(size: np.ndarray, most: int) -> list[int]:
    """So many along the longest side, and about as long ones along the others."""
    return [max(2, round(float(most * s / size.max()))) for s in size]


def _slab(axis: int, face: float, cell: float, back: bool) -> str:
    """A choice of the points of a face across an axis of the world."""
    edge = number(face - 0.25 * cell if back else face + 0.25 * cell)
    return f"{{{'xyz'[axis]}: {f'[{edge}, null]' if back else f'[null, {edge}]'}}}"


def _rotation(frame: np.ndarray) -> str:
    """The turn of axes x, y, z into the rows of `frame`, as axis and angle."""
    turn = frame.T
    angle = float(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)))
    if angle < LEVEL:
        return "{angle: 0}"
    # the axis is the eigenvector of 1; its sign, where the angle is below pi, is that of the antisymmetric part
    axis = np.linalg.svd(turn - np.eye(3))[2][2]
    skew = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis = -axis if axis @ skew < 0 else axis
    return f"{{axis: {vector(axis)}, angle: {angle:.5g}}}"


def _along(points: np.ndarray) -> np.ndarray:
    """The order of marks along a line: from the one farthest from the middle to the nearest that is left, and so on."""
    left = set(range(len(points)))
    here = int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))
    order = [here]
    left.remove(here)
    while left:
        here = min(left, key=lambda k: float(np.linalg.norm(points[k] - points[order[-1]])))
        left.remove(here)
        order.append(here)
    return np.array(order)
