"""Named places that the reverse sweep of a program passes, as steps of a rollout, and who watches gradients there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from sim.core.runtime.arrays.array import array

Watcher = Callable[[str, Mapping[str, array]], None]
_watchers: list[Watcher] = []


def watched() -> bool:
    """Does anybody watch?"""
    return bool(_watchers)


def passing(name: str, arrays: Mapping[str, array]) -> None:
    """A reverse sweep is at the place `name`; gradients of `arrays` are with respect to their values there."""
    for watcher in _watchers:
        watcher(name, arrays)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Inside, `watcher` is told of every place that a reverse sweep passes."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@dataclass
class GradientNorms:
    """Norms of gradients at the places of a program, in program order.

    places: their names.  norms: name of an array ("particle_q") -> (places,) Euclidean norms of its gradient there.
    """

    places: list[str] = field(default_factory=list)
    norms: dict[str, np.ndarray] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max([len(p) for p in self.places] + [5])
        lines = [f"{'place':{width}}  " + "  ".join(f"{name:>12}" for name in self.norms)]
        lines += [
            f"{p:{width}}  " + "  ".join(f"{v[k]:12.4e}" for v in self.norms.values())
            for k, p in enumerate(self.places)
        ]
        return "\n".join(lines)


@contextmanager
def gradient_norms() -> Iterator[GradientNorms]:
    """`with gradient_norms() as log: tape.backward(loss)`: how large the state's gradient is before each rollout step.

    Shows where gradients explode or vanish.  The log is complete when the block ends.
    """
    log, rows = GradientNorms(), list[tuple[str, dict[str, float]]]()

    def watcher(name: str, arrays: Mapping[str, array]) -> None:
        found = {key: _norm(a) for key, a in arrays.items() if a.grad is not None}
        rows.append((name, found))

    with watching(watcher):
        yield log
    rows.reverse()
    log.places += [name for name, _ in rows]
    for key in dict.fromkeys(key for _, found in rows for key in found):
        log.norms[key] = np.array([found.get(key, 0.0) for _, found in rows])


def _norm(a: array) -> float:
    assert a.grad is not None
    return float(np.linalg.norm(a.grad.device.numpy(a.grad).astype(np.float64).ravel()))
