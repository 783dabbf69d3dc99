"""Which array arguments of a launch overlap in memory, where one of them is written: adjoints are made for that."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sim.core.runtime.compiled.argument_packing import FlatArguments
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.spans import extent_of

Aliases = tuple[frozenset[int], ...]
"""Groups of parameters whose arrays overlap, in order."""


def overlaps(args: FlatArguments, numbers: Sequence[int], writes: Collection[int]) -> Aliases:
    """The groups among the arrays with these numbers, of which those in `writes` are written."""
    by_buffer: dict[Buffer, list[int]] = {}
    for k in numbers:
        by_buffer.setdefault(args[k].buffer, []).append(k)
    groups: list[set[int]] = []
    for here in by_buffer.values():
        if len(here) > 1 and any(k in writes for k in here):
            groups += _touching(args, here)
    return tuple(sorted((frozenset(g) for g in groups if len(g) > 1 and any(k in writes for k in g)), key=min))


def _touching(args: FlatArguments, numbers: Sequence[int]) -> list[set[int]]:
    """Arrays of one buffer by groups: two whose extents meet are in the same one, directly or through others."""
    groups: list[set[int]] = []
    for k in numbers:
        low, high = extent_of(args[k])
        met = [g for g in groups if any(extent_of(args[j])[0] < high and low < extent_of(args[j])[1] for j in g)]
        groups = [g for g in groups if g not in met] + [{k}.union(*met)]
    return groups
