"""Prescribed motion of attached points: reading what the user wrote.

The displacement at time t is the sum over the motions of an attachment.  Move: d ease(s), s = (t - start) / (end -
start) clamped to [0, 1], ease(s) = 3 s^2 - 2 s^3 (smooth) or s (linear).  Swing: d (1 - cos(2 pi f t)) / 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.model.build import checks
from sim.model.errors import ModelError

MOVE_SMOOTH, MOVE_LINEAR, SWING = 0, 1, 2
Motion = tuple[int, np.ndarray, float, float]
_KEYS = {"move": ("move", "start", "end", "ease"), "swing": ("swing", "frequency")}
_EASES = {"smooth": MOVE_SMOOTH, "linear": MOVE_LINEAR}


def motion_key(kind: int) -> str:
    """The key of the displacement in what the user wrote: `move` or `swing`."""
    return "swing" if kind == SWING else "move"


def read_motions(motion: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None) -> list[Motion]:
    """(kind, displacement (1, 3) [m], start [s] or frequency [Hz], end [s] or 0) of each motion."""
    if motion is None:
        return []
    entries = [motion] if isinstance(motion, Mapping) else list(motion)
    return [_read(f"motion[{k}]", checks.mapping(f"motion[{k}]", entry)) for k, entry in enumerate(entries)]


def _read(where: str, entry: Mapping[str, Any]) -> Motion:
    kinds = [key for key in _KEYS if key in entry]
    if len(kinds) != 1:
        raise ModelError(
            f"{where} = {dict(entry)!r} needs one of 'move' and 'swing'",
            "Write {'move': (x, y, z), 'end': s} or {'swing': (x, y, z), 'frequency': Hz}",
        )
    kind = kinds[0]
    for key in entry:
        checks.known(f"{where}: key", key, _KEYS[kind])
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
    return _EASES[ease], vector[None], start, end
