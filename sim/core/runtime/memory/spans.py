"""Which bytes of one buffer: where the elements of a view lie, and sets of bytes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Protocol

from sim.core.lang.types import Type, size_of

Run = tuple[int, int]
"""Bytes from the first number up to, but not including, the second."""


class StridedLayout(Protocol):
    """Where the elements of a view lie in its buffer.  `offset` and `strides` in bytes."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type

    @property
    def is_contiguous(self) -> bool: ...

    @property
    def nbytes(self) -> int: ...


def packed_strides(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Byte strides of packed elements of so many bytes, the last dimension fastest."""
    strides, step = [], size
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def is_packed(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    """Whether elements of so many bytes lie packed in order; dimensions of one element may have any stride."""
    step = size
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return 0 in shape
        step *= n
    return True


def reach(shape: Iterable[int], strides: Iterable[int]) -> Run:
    """The lowest and the highest start of an element, relative to the first one; there has to be one."""
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def extent_of(view: StridedLayout) -> Run:
    """From the first to the end of the last byte that a view touches (a strided one does not touch all of it)."""
    if 0 in view.shape:
        return view.offset, view.offset
    if view.is_contiguous:
        return view.offset, view.offset + view.nbytes
    low, high = reach(view.shape, view.strides)
    return view.offset + low, view.offset + high + size_of(view.dtype)


class Spans:
    """A set of bytes, as sorted runs that do not touch.  Never changed."""

    __slots__ = ("runs",)

    def __init__(self, runs: tuple[Run, ...] = ()) -> None:
        self.runs = runs

    @classmethod
    def of(cls, view: StridedLayout) -> Spans:
        """The bytes of the elements of a view: those between the elements of a strided one are not in it."""
        if view.is_contiguous:
            begin, nbytes = view.offset, view.nbytes
            return cls(((begin, begin + nbytes),)) if nbytes else NOTHING
        if 0 in view.shape:
            return NOTHING
        size, outer = size_of(view.dtype), list(zip(view.shape, view.strides, strict=True))
        while outer and outer[-1][1] == size:  # packed inner dimensions are one run
            size *= outer.pop()[0]
        starts = (
            view.offset + sum(k * stride for k, (_, stride) in zip(at, outer, strict=True))
            for at in product(*(range(n) for n, _ in outer))
        )
        return cls.union((start, start + size) for start in starts)

    @classmethod
    def union(cls, runs: Iterable[Run]) -> Spans:
        """Of runs in any order."""
        merged: list[Run] = []
        for low, high in sorted(runs):
            if merged and low <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            elif low < high:
                merged.append((low, high))
        return cls(tuple(merged))

    def __or__(self, other: Spans) -> Spans:
        if not self.runs or self.runs == other.runs:
            return other
        return Spans.union((*self.runs, *other.runs)) if other.runs else self

    def __and__(self, other: Spans) -> Spans:
        if self.runs == other.runs:
            return self
        return Spans(tuple(run for low, high in self.runs for run in other.within(low, high)))

    def __sub__(self, other: Spans) -> Spans:
        if self.runs == other.runs:
            return NOTHING
        left: list[Run] = []
        for start, end in self.runs:
            for low, high in other.within(start, end):
                if start < low:
                    left.append((start, low))
                start = high
            if start < end:
                left.append((start, end))
        return Spans(tuple(left))

    def within(self, low: int, high: int) -> Iterator[Run]:
        """What of it lies in one run."""
        for k in range(max(bisect_right(self.runs, (low, math.inf)) - 1, 0), len(self.runs)):
            start, end = self.runs[k]
            if start >= high:
                return
            if end > low:
                yield max(start, low), min(end, high)

    def shifted(self, by: int) -> Spans:
        """The same bytes so much further on."""
        return Spans(tuple((low + by, high + by) for low, high in self.runs)) if by else self

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"Spans({', '.join(f'{low}..{high}' for low, high in self.runs)})"


NOTHING = Spans()
