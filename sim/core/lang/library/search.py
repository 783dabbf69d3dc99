"""Searching sorted arrays."""

from __future__ import annotations

from sim.core.lang.library.export import export
from sim.core.lang.types import int32


@export
def lower_bound(arr, arr_begin=None, arr_end=None, value=None):
    """lower_bound(arr, value): the number (int32) of the first entry of an ascending array that is not below the value;
    of the last one, if all are.  lower_bound(arr, begin, end, value): of the entries begin .. end - 1."""
    low, high = int32(0), arr.shape[0] - 1
    sought = value
    if value is None:
        sought = arr_begin
    elif arr_begin is not None:
        low, high = int32(arr_begin), int32(arr_end) - 1
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < sought:
            low = middle + 1
        else:
            high = middle
    return low
