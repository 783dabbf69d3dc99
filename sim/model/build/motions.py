"""Prescribed motion of attached points and held bodies: reading what the user wrote, and the arrays of a model.

The displacement at time t is the sum over the motions of an attachment.  Move: d ease(s), s = (t - start) / (end -
start) clamped to [0, 1], ease(s) = 3 s^2 - 2 s^3 (smooth) or s (linear).  Swing: d (1 - cos(2 pi f t)) / 2.  Turn: of a
body, like a move, with a rotation vector theta; the body is turned by exp of the sum of them about its origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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
Motion = tuple[int, np.ndarray, float, float]
_KEYS = {"move": ("move", "start", "end", "ease"), "swing": ("swing", "frequency")}
_TURN = {"turn": ("turn", "start", "end", "ease")}
_EASES = {"smooth": MOVE_SMOOTH, "linear": MOVE_LINEAR}


def motion_key(kind: int) -> str:
    """The key of the displacement in what the user wrote: `move`, `swing` or `turn`."""
    return "turn" if kind >= TURN else "swing" if kind == SWING else "move"


def read_motions(motion: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None, of_body: bool = False) -> list[Motion]:
    """(kind, displacement (1, 3) [m] or [rad], start [s] or frequency [Hz], end [s] or 0) of each motion.  of_body:
    there are turns too."""
    if motion is None:
        return []
    entries = [motion] if isinstance(motion, Mapping) else list(motion)
    known = _KEYS | _TURN if of_body else _KEYS
    return [_read(f"motion[{k}]", checks.mapping(f"motion[{k}]", entry), known) for k, entry in enumerate(entries)]


def _read(where: str, entry: Mapping[str, Any], known: Mapping[str, tuple[str, ...]]) -> Motion:
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
    vector = checks.vec3(f"{where}[{kind!r}]", entry[kind])
    needed = _KEYS[kind][-1] if kind == "swing" else "end"
    if entry.get(needed) is None:
        raise ModelError(f"{where} needs {needed!r}", "In Hz" if kind == "swing" else "In s, when the move ends")
    if kind == "swing":
        return SWING, vector[None], checks.number(f"{where}['frequency']", entry["frequency"], positive=True), 0.0
    start = checks.number(f"{where}['start']", entry.get("start", 0.0))
    end = checks.number(f"{where}['end']", entry["end"])
    if end <= start:
        raise ModelError(f"{where}: end = {end:g} s is not after start = {start:g} s", "A move takes some time")
    ease = entry.get("ease", "smooth")
    checks.known(f"{where}: ease", ease, _EASES)
    return _EASES[ease] + TURN * (kind == "turn"), vector[None], start, end


# ------------------------------------------------------------------------------------------ in a model
class Moved(Protocol):
    """What has motions, with vectors for each of its worlds."""

    @property
    def label(self) -> str: ...
    @property
    def motions(self) -> list[Motion]: ...
    @property
    def worlds(self) -> int: ...


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
    return {"moved groups + 1": len(groups) + 1, "motions": len(motions)}, values


def derive_motions(
    moved: Sequence[Moved], motion_vector: array, materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """The vectors of the motions are material values."""
    made, number = [], 0
    for block in moved:
        for k, (kind, displacement, _, _) in enumerate(block.motions):
            value = materials.add(f"{block.label}.motion.{k}.{motion_key(kind)}", displacement)
            worlds = np.arange(block.worlds)
            slots = number + k + len(block.motions) * worlds
            made.append(broadcast(make, value, block.worlds, worlds, slots, motion_vector))
        number += len(block.motions) * block.worlds
    return made
