"""How a recording lies in time and space beside its simulation: an offset of its clock, and a rigid frame.

The recording keeps its samples, and their noise; the simulation is looked at as the recording sees it.  Of a place x(t)
of the simulation, with the offset tau of the clock, the rotation R and the shift d about a fixed pivot c, the recording
has in its frame k

    y_k = c + R^T (x(t_k + tau) - c - d)

Between frames of the simulation x is a cubic Hermite spline with slopes from differences of fourth order.  (Samples of
a recording between which one interpolates have less noise halfway: a fit would draw offsets there.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

LEAST_FRAMES = 8
"""Of a simulation that offsets of time are sought for: less tell no slopes."""

SLOPES = {0: (-25, 48, -36, 16, -3), 1: (-3, -10, 18, -6, 1), 2: (1, -8, 0, 8, -1), 3: (-1, 6, -18, 10, 3),
          4: (3, -16, 36, -48, 25)}  # fmt: skip
"""Twelve times the derivative at each of five places one apart, from the values there."""


@dataclass(frozen=True)
class Alignment:
    """Where a recording lies.  time: tau [s]; turn: rotation vector [rad] of R; shift: d [m]."""

    time: float = 0.0
    turn: np.ndarray = field(default_factory=lambda: np.zeros(3))
    shift: np.ndarray = field(default_factory=lambda: np.zeros(3))

    @property
    def rotation(self) -> np.ndarray:
        """R (3, 3), by Rodrigues' formula."""
        angle = float(np.linalg.norm(self.turn))
        x, y, z = self.turn
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        if angle < 1e-6:
            return np.eye(3) + cross + 0.5 * cross @ cross
        return np.eye(3) + math.sin(angle) / angle * cross + (1.0 - math.cos(angle)) / angle**2 * cross @ cross

    @property
    def numbers(self) -> dict[str, float]:
        """Its seven numbers by name, `alignment.turn.x`."""
        own = {f"alignment.{word}.{axis}": float(v) for word, value in (("turn", self.turn), ("shift", self.shift))
               for axis, v in zip("xyz", value, strict=True)}  # fmt: skip
        return {"alignment.time": self.time} | own

    def turned(self, further: np.ndarray) -> np.ndarray:
        """The rotation vector of R exp(further)."""
        return rotation_vector(self.rotation @ Alignment(turn=further).rotation)


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """That (3,) [rad] of a rotation (3, 3), of at most half a turn."""
    sine = 0.5 * np.array([rotation[k - 1, k - 2] - rotation[k - 2, k - 1] for k in range(3)])
    size, cosine = float(np.linalg.norm(sine)), 0.5 * (float(np.trace(rotation)) - 1.0)
    if size < 1e-6 and cosine < 0.0:  # half a turn: the axis is what stays
        axis = np.linalg.svd(rotation - np.eye(3))[2][2]
        return np.pi * axis
    return sine if size < 1e-12 else math.atan2(size, cosine) / size * sine


@dataclass(frozen=True, eq=False)
class Registration:
    """What of an alignment is to be found in an experiment.

    time: the largest offset of the clock [s] either way; 0: it is known.  frame: whether rotation and shift are sought.
    pivot: c (3,) [m].  at_rest: whether the simulation begins at rest: then it was so before.  lead: how many frames
    before t = 0 are compared with the start of what begins at rest; entry k of recorded positions is then the frame
    k + 1 - `lead` of the simulation's clock, and the entry before the first (a target's `start`) the frame -`lead`.
    So it does not depend on the guess of t = 0 which part of a motion is compared, as long as that is within reach.
    """

    time: float = 0.0
    frame: bool = False
    pivot: np.ndarray = field(default_factory=lambda: np.zeros(3))
    at_rest: bool = True
    lead: int = 0

    def within_reach(self, positions: np.ndarray, fps: float) -> np.ndarray:
        """Recorded positions (frames, markers, 3) without those frames that the simulation has none for at every
        offset: at the end, and at the start of what begins in motion.  Where frames before t = 0 lead, the last are
        within reach at every offset; if there are no others, they say nothing."""
        lost = frames_within(self.time, fps)
        out = positions.copy()
        if self.lead:
            out[: len(out) if len(out) <= self.lead else 0] = np.nan
        elif lost:
            out[-lost:] = np.nan
            out[: 0 if self.at_rest else lost - 1] = np.nan
        return out

    def in_model(self, recorded: np.ndarray, fps: float, found: Alignment) -> np.ndarray:
        """Recorded positions (frames + 1, markers, 3) in the clock and the frame of the simulation, for people to look
        at: linear between samples, NaN where there is none."""
        seen = self.pivot + found.shift + (recorded - self.pivot) @ found.rotation.T
        at = np.arange(len(seen)) + self.lead - found.time * fps
        if self.at_rest:
            first = int(np.argmax(np.isfinite(seen[: self.lead + 1, :, 0]).any(axis=1)))
            at[0] = max(at[0], first)  # before its first sample it was there, too
        at = np.where(np.abs(at - np.rint(at)) < 1e-9, np.rint(at), at)
        low = np.clip(np.floor(at).astype(int), 0, len(seen) - 2)
        part = (at - low)[:, None, None]
        out = np.where(part == 0.0, seen[low], (1.0 - part) * seen[low] + part * seen[low + 1])
        out = np.where(part == 1.0, seen[low + 1], out)
        out[(at < 0.0) | (at > len(seen) - 1)] = np.nan
        return out


def frames_within(time: float, fps: float) -> int:
    """How many frames the largest offset of time [s] takes, begun ones too."""
    return math.ceil(time * fps - 1e-6)


@dataclass(frozen=True, eq=False)
class TimeStencil:
    """Which frames of a simulation its places at other times are made of: entry (k, j) is `weights` times the place in
    frame `frames`, 0 being the start; `slopes` of their velocities.  All (times, width)."""

    frames: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray

    def at(self, path: np.ndarray) -> np.ndarray:
        """Places (times, n, 3) from those of all frames with the start (frames + 1, n, 3)."""
        return np.einsum("kj,kjnx->knx", self.weights, path[self.frames])

    def velocity(self, path: np.ndarray) -> np.ndarray:
        """Velocities (times, n, 3) there."""
        return np.einsum("kj,kjnx->knx", self.slopes, path[self.frames])


def stencil(count: int, fps: float, time: float, at_rest: bool, lead: int = 0) -> TimeStencil:
    """That of `count` frames of a simulation, the first of them frame 1 - `lead`, `time` [s] later.

    Before the start what begins at rest is where it begins; else, and behind the end, it goes on as it went there.
    Raises ValueError below `LEAST_FRAMES`.
    """
    if count < LEAST_FRAMES:
        raise ValueError(f"{count} frames; an offset of time takes {LEAST_FRAMES}")
    nodes = count + 1
    at = np.arange(1 - lead, nodes - lead) + time * fps
    cell = np.clip(np.floor(at).astype(int), 0, nodes - 2)
    s = np.clip(at - cell, 0.0, 1.0)
    # of the values and slopes at both ends of a cell: the Hermite polynomials, and their derivatives
    value = [(1 + 2 * s) * (1 - s) ** 2, s * s * (3 - 2 * s)]
    slope = [s * (1 - s) ** 2, s * s * (s - 1)]
    value_rate = [6 * s * (s - 1), 6 * s * (1 - s)]
    slope_rate = [(1 - s) * (1 - 3 * s), s * (3 * s - 2)]
    beyond = at - np.clip(at, 0.0, nodes - 1.0)  # on along the tangent
    for end, outside in ((0, beyond < 0), (1, beyond > 0)):
        slope[end] = np.where(outside, beyond, slope[end])
        slope_rate[end] = np.where(outside, 1.0, slope_rate[end])
    weights, rates = np.zeros((nodes - 1, nodes)), np.zeros((nodes - 1, nodes))
    row = np.arange(nodes - 1)
    for end in range(2):
        node = cell + end
        weights[row, node] += value[end]
        rates[row, node] += value_rate[end]
        for k, around in enumerate(_slope_rows(nodes, at_rest)[node].T):
            base = np.clip(node - 2, 0, nodes - 5)
            weights[row, base + k] += slope[end] * around
            rates[row, base + k] += slope_rate[end] * around
    first = np.clip(cell - 2, 0, nodes - 6)
    frames = first[:, None] + np.arange(6)
    return TimeStencil(frames, np.take_along_axis(weights, frames, 1), fps * np.take_along_axis(rates, frames, 1))


def _slope_rows(nodes: int, at_rest: bool) -> np.ndarray:
    """(nodes, 5): of each node the weights of the five nodes around it, in units of the value per interval."""
    rows = np.tile(np.array(SLOPES[2]) / 12.0, (nodes, 1))
    for k in (0, 1):
        rows[k], rows[nodes - 2 + k] = np.array(SLOPES[k]) / 12.0, np.array(SLOPES[3 + k]) / 12.0
    if at_rest:
        rows[0] = 0.0
    return rows
