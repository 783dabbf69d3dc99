"""Which bytes of its memory an array touches."""

from __future__ import annotations

from sim.core.lang.types import size_of
from sim.core.runtime.arrays.array import array


def span_of(a: array) -> tuple[int, int]:
    """The bytes of its buffer, from low to high, that an array touches (a strided one touches less)."""
    if a.size == 0:
        return a.offset, a.offset
    if a.is_contiguous:
        return a.offset, a.offset + a.nbytes
    low = high = a.offset
    for n, stride in zip(a.shape, a.strides, strict=True):
        low, high = (low + (n - 1) * stride, high) if stride < 0 else (low, high + (n - 1) * stride)
    return low, high + size_of(a.dtype)


def is_whole(a: array) -> bool:
    """Is it all of its memory?"""
    return a.nbytes == a.buffer.nbytes and span_of(a) == (0, a.nbytes)
