"""What a tape keeps beside the arrays, as a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remembered:
    """One piece of memory that a tape keeps: a `copy` of a range before it was overwritten, or a `record` of loads."""

    nbytes: int
    kind: str
    reason: str


class TapeMemory(list[Remembered]):
    """What a tape keeps beside the arrays."""

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self)

    def __str__(self) -> str:
        totals: dict[tuple[str, str], list[int]] = {}
        for entry in self:
            totals.setdefault((entry.kind, entry.reason), []).append(entry.nbytes)
        rows = sorted(((sum(sizes), len(sizes), *key) for key, sizes in totals.items()), reverse=True)
        lines = [f"{size:>12} bytes, {count:>5} x {kind:<7} {reason}" for size, count, kind, reason in rows]
        return "\n".join([*lines, f"{self.nbytes:>12} bytes in all"])
