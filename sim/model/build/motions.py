"""Prescribed motion of attached points and held bodies: reading what the user wrote, and the arrays of a model.

The displacement at time t is the sum over the motions of an attachment.  Move: d ease(s), s = (t - start) / (end -
start) clamped to [0, 1], ease(s) = 3 s^2 - 2 s^3 (smooth) or s (linear).  Swing: d (1 - cos(2 pi f t)) / 2.  Turn: of a
body, like a move, with a rotation vector theta; the body is turned by exp of the sum of them about its origin.
Follow: what was recorded, displacements of a place and rotation vectors about it, a cubic spline between the samples;
held where it was before the first and after the last.  With T(t) what was recorded, `delay` tau and `frame` Q make it
Q T(t + tau) T(tau)^-1 Q^-1, which begins where things are.  Release: attached points are let go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.model.build import checks
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.derivation import Derivation, broadcast
from sim.model.errors import ModelError
from sim.model.materials import Materials

MOVE_SMOOTH, MOVE_LINEAR, SWING = 0, 1, 2
TURN = 3
"""Added to the kind of a move: a turn that goes like it."""
FOLLOW, RELEASE = 6, 7
"""What was recorded, and the moment after which nothing holds; their displacements as moves are none."""
_KEYS = {
    "move": ("move", "start", "end", "ease"),
    "swing": ("swing", "frequency"),
    "follow": ("follow",),
    "release": ("release",),
}
_TURN = {"turn": ("turn", "start", "end", "ease")}
_EASES = {"smooth": MOVE_SMOOTH, "linear": MOVE_LINEAR}


@dataclass(frozen=True, eq=False)
class RecordedMotion:
    """What was recorded: at times (n,) [s] displacements `move` (n, 3) [m] of the place `about` (3,), and rotation
    vectors `turn` (n, 3) [rad] about it.  delay (1,) [s], frame (1, 3) [rad]: by how much its clock is late, and the
    rotation vector of its axes, for each world; None: both are known to be zero, and no material values."""

    time: np.ndarray
    move: np.ndarray
    turn: np.ndarray
    about: np.ndarray
    delay: np.ndarray | None = None
    frame: np.ndarray | None = None

    @cached_property
    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of `move` and `turn` (n, 3) at the samples."""
        return spline_slopes(self.time, self.move), spline_slopes(self.time, self.turn)


class PrescribedMotion(NamedTuple):
    """A motion: its kind, displacement or rotation vector (1, 3) of each world, and what its kind takes: start and end
    [s], or frequency [Hz]; of one that follows a recording, that; of a release, when it is [s]."""

    kind: int
    vector: np.ndarray
    a: float
    b: float
    track: RecordedMotion | None = None
    release: float = np.inf


def spline_slopes(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivatives (n, m) at the knots t (n,) of the cubic splines through y (n, m), twice differentiable, the first two
    and the last two pieces being one polynomial each (C. de Boor, "A Practical Guide to Splines", 1978, ch. IV).

    Through three points the parabola, through two the line, of one nothing.
    """
    n = len(t)
    if n < 2:
        return np.zeros_like(y)
    h = np.diff(t)[:, None]
    d = np.diff(y, axis=0) / h
    if n == 2:
        return np.repeat(d, 2, axis=0)
    inner = (h[1:] * d[:-1] + h[:-1] * d[1:]) / (h[1:] + h[:-1])  # of the parabola through three
    if n == 3:
        return np.concatenate([2.0 * d[:1] - inner, inner, 2.0 * d[-1:] - inner])
    low, high = np.empty((n, 1)), np.empty((n, 1))
    middle, right = np.empty((n, 1)), np.empty_like(y)
    low[1:-1], middle[1:-1], high[1:-1] = h[1:], 2.0 * (h[:-1] + h[1:]), h[:-1]
    right[1:-1] = 3.0 * (h[1:] * d[:-1] + h[:-1] * d[1:])
    first, last = h[0] + h[1], h[-1] + h[-2]
    middle[0], high[0], low[-1], middle[-1] = h[1], first, last, h[-2]
    right[0] = ((h[0] + 2.0 * first) * h[1] * d[0] + h[0] ** 2 * d[1]) / first
    right[-1] = (h[-1] ** 2 * d[-2] + (2.0 * last + h[-1]) * h[-2] * d[-1]) / last
    for k in range(1, n):  # elimination: the matrix has three diagonals
        factor = low[k] / middle[k - 1]
        middle[k] -= factor * high[k - 1]
        right[k] -= factor * right[k - 1]
    out = np.empty_like(right)
    out[-1] = right[-1] / middle[-1]
    for k in range(n - 2, -1, -1):
        out[k] = (right[k] - high[k] * out[k + 1]) / middle[k]
    return out


def motion_key(kind: int) -> str:
    """The key of the displacement in what the user wrote: `move`, `swing` or `turn`."""
    return "turn" if kind >= TURN else "swing" if kind == SWING else "move"


def read_motions(
    motion: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None, of_body: bool = False
) -> list[PrescribedMotion]:
    """Of what the user wrote, each motion.  of_body: there are turns too.

    `{"follow": {"time": (n,) [s], "move": (n, 3) [m], "turn": (n, 3) [rad], "about": (3,) [m]}}` is a recording: how
    far a place has moved since the start, and the rotation vector about it since then; a body's place is its origin.
    Its `delay` [s] and `frame`, a rotation vector (3,), are material values where they are given.
    `{"release": s}`: attached points are free from then on.
    """
    if motion is None:
        return []
    entries = [motion] if isinstance(motion, Mapping) else list(motion)
    known = {key: keys for key, keys in (_KEYS | _TURN).items() if key != ("release" if of_body else "turn")}
    if sum("follow" in entry for entry in entries) > 1:
        raise ModelError("two recordings are followed", "One moves and turns all of it: add them up before")
    return [_read(f"motion[{k}]", checks.mapping(f"motion[{k}]", entry), known) for k, entry in enumerate(entries)]


def _read(where: str, entry: Mapping[str, Any], known: Mapping[str, tuple[str, ...]]) -> PrescribedMotion:
    kinds = [key for key in known if key in entry]
    if len(kinds) != 1:
        turn = ", {'turn': (x, y, z), 'end': s}" * ("turn" in known)
        raise ModelError(
            f"{where} = {dict(entry)!r} needs one of {', '.join(map(repr, known))}",
            f"Write {{'move': (x, y, z), 'end': s}}{turn} or {{'swing': (x, y, z), 'frequency': Hz}}",
        )
    kind = kinds[0]
    for key in entry:
        checks.known(f"{where}: key", key, known[kind])
    if kind == "follow":
        return PrescribedMotion(FOLLOW, np.zeros((1, 3)), 0.0, 1.0, _read_track(f"{where}['follow']", entry["follow"]))
    if kind == "release":
        moment = checks.number(f"{where}['release']", entry["release"])
        return PrescribedMotion(RELEASE, np.zeros((1, 3)), 0.0, 1.0, release=moment)
    vector = checks.vec3(f"{where}[{kind!r}]", entry[kind])
    needed = _KEYS[kind][-1] if kind == "swing" else "end"
    if entry.get(needed) is None:
        raise ModelError(f"{where} needs {needed!r}", "In Hz" if kind == "swing" else "In s, when the move ends")
    if kind == "swing":
        return PrescribedMotion(
            SWING, vector[None], checks.number(f"{where}['frequency']", entry["frequency"], positive=True), 0.0
        )
    start = checks.number(f"{where}['start']", entry.get("start", 0.0))
    end = checks.number(f"{where}['end']", entry["end"])
    if end <= start:
        raise ModelError(f"{where}: end = {end:g} s is not after start = {start:g} s", "A move takes some time")
    ease = entry.get("ease", "smooth")
    checks.known(f"{where}: ease", ease, _EASES)
    return PrescribedMotion(_EASES[ease] + TURN * (kind == "turn"), vector[None], start, end)


def _read_track(where: str, given: Any) -> RecordedMotion:
    entry = checks.mapping(where, given)
    for key in entry:
        checks.known(f"{where}: key", key, ("time", "move", "turn", "about", "delay", "frame"))
    if entry.get("time") is None or entry.get("move") is None:
        raise ModelError(
            f"{where} needs 'time' and 'move'", "Times (n,) [s] and displacements (n, 3) [m] since the start"
        )
    time = np.array(entry["time"], dtype=np.float64)
    if time.ndim != 1 or not len(time) or not np.isfinite(time).all() or (np.diff(time) <= 0).any():
        raise ModelError(f"{where}['time'] is not (n,) increasing times", "In s, the start of the simulation is 0")
    move = checks.vec3s(f"{where}['move']", entry["move"])
    turn = checks.vec3s(f"{where}['turn']", entry["turn"]) if entry.get("turn") is not None else np.zeros_like(move)
    if len(move) != len(time) or len(turn) != len(time):
        raise ModelError(
            f"{where}: {len(time)} times, {len(move)} displacements, {len(turn)} turns", "One of each for every sample"
        )
    about = checks.vec3(f"{where}['about']", entry.get("about", (0.0, 0.0, 0.0)))
    if "delay" not in entry and "frame" not in entry:
        return RecordedMotion(time, move, turn, about)
    delay = float(entry.get("delay", 0.0))
    if not np.isfinite(delay):
        raise ModelError(f"{where}['delay'] = {delay}", "A finite time in s")
    frame = checks.vec3(f"{where}['frame']", entry.get("frame", (0.0, 0.0, 0.0)))
    return RecordedMotion(time, move, turn, about, np.array([delay]), frame[None])


def read_force(force: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Times (k,) [s] and forces (k, 3) [N], checked.  Raises ModelError."""
    if force is None:
        return None
    time, values = np.array(force[0], dtype=np.float64), checks.vec3s("force", force[1])
    if time.shape != values.shape[:1] or not len(time) or not np.isfinite(time).all() or (np.diff(time) <= 0).any():
        raise ModelError(
            f"force has {time.size} times for {len(values)} forces, or times that do not increase",
            "Give (times (k,), forces (k, 3)), the times in s and increasing",
        )
    return time, values


# ------------------------------------------------------------------------------------------ in a model
class Moved(Protocol):
    """What has motions, with vectors for each of its worlds."""

    @property
    def label(self) -> str: ...
    @property
    def motions(self) -> list[PrescribedMotion]: ...
    @property
    def worlds(self) -> int: ...


class Attached(Moved, Protocol):
    """What is attached by those motions."""

    @property
    def pinned(self) -> bool: ...


def check_released(attachments: Sequence[Attached]) -> None:
    """Raises ModelError where points are let go that have no mass to move with."""
    for block in attachments:
        if block.pinned and any(motion.kind == RELEASE for motion in block.motions):
            raise ModelError(
                f"the points of {block.label!r} are pinned, which is for ever, and released",
                "Give the attachment a small compliance, such as 1e-7 m/N: a newton then moves it by 1e-7 m",
            )


def first_groups(moved: Sequence[Moved]) -> np.ndarray:
    """The first of the groups of motions of each; there is one for each of its worlds."""
    return np.cumsum([0, *(block.worlds for block in moved)])[:-1]


def motion_arrays(moved: Sequence[Moved]) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the arrays of motions."""
    groups = [block for block in moved for _ in range(block.worlds)]
    motions = [m for block in groups for m in block.motions]
    values = {
        "motion_offset": np.cumsum([0, *(len(block.motions) for block in groups)]),
        "motion_kind": np.array([m[0] for m in motions]),
        "motion_a": np.array([m[2] for m in motions]),
        "motion_b": np.array([m[3] for m in motions]),
    }
    tracks = [next((m.track for m in block.motions if m.track is not None), None) for block in groups]
    known = [track for track in tracks if track is not None]
    none = np.zeros((0, 3))
    values |= {
        "release_time": np.array([min([np.inf, *(m.release for m in block.motions)]) for block in groups]),
        "track_offset": np.cumsum([0, *(0 if track is None else len(track.time) for track in tracks)]),
        "track_about": np.array([none.sum(axis=0) if track is None else track.about for track in tracks]).reshape(
            -1, 3
        ),
        "track_free": np.array([track is not None and track.delay is not None for track in tracks], np.int32),
        "track_time": np.concatenate([none[:, 0], *(track.time for track in known)]),
        "track_move": np.concatenate([none, *(track.move for track in known)]),
        "track_turn": np.concatenate([none, *(track.turn for track in known)]),
        "track_move_rate": np.concatenate([none, *(track.rates[0] for track in known)]),
        "track_turn_rate": np.concatenate([none, *(track.rates[1] for track in known)]),
    }
    counts = {
        "moved groups + 1": len(groups) + 1, "moved groups": len(groups), "motions": len(motions),
        "samples": len(values["track_time"]),
    }  # fmt: skip
    return counts, values


class Loaded(Protocol):
    """Points that share a force over time."""

    @property
    def label(self) -> str: ...
    @property
    def points(self) -> np.ndarray: ...
    @property
    def force(self) -> tuple[np.ndarray, np.ndarray] | None: ...


def force_arrays(loads: Sequence[Loaded], worlds: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the arrays of forces over time.  Raises ModelError where two push a point."""
    pushed = [(load, load.force) for load in loads if load.force is not None]
    points = np.concatenate([np.zeros(0, np.int32), *(load.points for load, _ in pushed)])
    if np.bincount(points).max(initial=0) > 1:
        raise ModelError("a point has two forces over time", "Add them up, and give them by one load")
    values = {
        "push_point": points,
        "push_load": np.repeat(np.arange(len(pushed)), [len(load.points) for load, _ in pushed]),
        "push_share": np.concatenate(
            [np.zeros(0), *(np.full(len(b.points), worlds / len(b.points)) for b, _ in pushed)]
        ),
        "push_offset": np.cumsum([0, *(len(time) for _, (time, _) in pushed)]),
        "push_time": np.concatenate([np.zeros(0), *(time for _, (time, _) in pushed)]),
        "push_force": np.concatenate([np.zeros((0, 3)), *(force for _, (_, force) in pushed)]),
    }
    counts = {"pushed": len(points), "pushing loads + 1": len(pushed) + 1, "forces": len(values["push_time"])}
    return counts, values


def derive_motions(
    moved: Sequence[Moved], arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """The vectors of the motions are material values, and how recordings lie, where that may vary."""
    motion_vector = arrays["motion_vector"]
    made, number, group = [], 0, 0
    for block in moved:
        groups = group + np.arange(block.worlds)
        group += block.worlds
        for k, (kind, displacement, _, _, track, _) in enumerate(block.motions):
            if track is not None and track.delay is not None and track.frame is not None:
                for name, own in (("delay", track.delay), ("frame", track.frame)):
                    value = materials.add(f"{block.label}.motion.{k}.{name}", np.repeat(own, block.worlds, axis=0))
                    every = np.arange(block.worlds)
                    made.append(broadcast(make, value, block.worlds, every, groups, arrays[f"track_{name}"]))
            if kind >= FOLLOW:
                continue
            value = materials.add(f"{block.label}.motion.{k}.{motion_key(kind)}", displacement)
            worlds = np.arange(block.worlds)
            slots = number + k + len(block.motions) * worlds
            made.append(broadcast(make, value, block.worlds, worlds, slots, motion_vector))
        number += len(block.motions) * block.worlds
    return made
