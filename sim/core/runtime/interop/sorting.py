"""Sorting of pairs, and runs of equal values.

The order is found on the host, in a captured graph at each replay anew; the elements are moved by launches, so that
their gradients move with them.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Scalar, int32
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import add_whole_node
from sim.core.runtime.interop.reductions import UtilityError
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

MOST = 2**31 - 1
"""Elements that an int32 counts."""


@kernel
def _permute(source: array[Any], order: array[int], target: array[Any]):
    i = tid()
    target[i] = source[order[i]]


@kernel
def _encode(values: array[Any], n: int, run_values: array[Any], run_lengths: array[int], run_count: array[int]):
    runs = 0
    for i in range(n):
        fresh = True
        if i > 0:
            fresh = values[i] != values[i - 1]
        if fresh:
            run_values[runs] = values[i]
            run_lengths[runs] = 0
            runs += 1
        run_lengths[runs - 1] = run_lengths[runs - 1] + 1
    run_count[0] = runs


def radix_sort_pairs(keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sorts the first `count` keys, ascending, stable, with the values, in place.  Gradients move with the elements.

    begin_bit, end_bit: the bits of a key that count (None: up to its last); a sign comes first in the order.
    (In Warp the arrays need room for twice as many elements; here they do not.)
    """
    _check("radix_sort_pairs", keys, values, count)
    kind = keys.dtype
    bits = 8 * kind.np.itemsize
    last = bits if end_bit is None else end_bit
    if not 0 <= begin_bit <= last <= bits:
        raise UtilityError(f"radix_sort_pairs: Invalid radix sort bit range [{begin_bit}, {last}) for {bits}-bit keys")

    def order(host: np.ndarray) -> np.ndarray:
        ranks = _ranks(host) >> np.uint64(begin_bit)
        mask = (1 << (last - begin_bit)) - 1
        return np.argsort(ranks & np.uint64(mask), kind="stable")

    if count and begin_bit < last:
        _sort(keys[:count], values[:count], order, [])


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """As `radix_sort_pairs`, in each of the segments start ... end - 1 of the first `count` pairs.

    segment_end_indices: None: a segment ends where the next begins; the last of the starts is the end of the last one.
    Raises ValueError for a segment that is not within the pairs, before anything is moved.
    """
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"segmented_sort_pairs: count must be an integer, not {count!r}")
    if index(count) < 0:
        raise ValueError(f"count must be non-negative, got {count}")
    if count > MOST:
        raise ValueError(f"count must not exceed {MOST}, got {count}")
    bounds = [segment_start_indices] if segment_end_indices is None else [segment_start_indices, segment_end_indices]
    for name, a in zip(("segment_start_indices", "segment_end_indices"), bounds, strict=False):
        if a.ndim != 1:
            raise UtilityError(f"segmented_sort_pairs: {name} must be one-dimensional, not of shape {a.shape}")
        if a.dtype is not int32:
            raise UtilityError(f"segmented_sort_pairs: {name} has elements of {a.dtype}; expected int32")
        if a.device is not keys.device:
            raise UtilityError(f"segmented_sort_pairs: {name} lies on {a.device}, the keys on {keys.device}")
    if len(bounds) == 2 and bounds[0].size != bounds[1].size:
        sizes = f"must have the same size ({bounds[0].size} vs {bounds[1].size})"
        raise UtilityError(f"segmented_sort_pairs: segment_start_indices and segment_end_indices {sizes}")
    _check("segmented_sort_pairs", keys, values, count)

    def order(host: np.ndarray) -> np.ndarray:
        ranks, found = _ranks(host), np.arange(len(host))
        for low, high in _segments(bounds, count):
            found[low:high] = low + np.argsort(ranks[low:high], kind="stable")
        return found

    _segments(bounds, count)
    if count:
        _sort(keys[:count], values[:count], order, bounds)


def _segments(bounds: list[array], count: int) -> list[tuple[int, int]]:
    host = [a.device.numpy(a).tolist() for a in bounds]
    starts, ends = (host[0][:-1], host[0][1:]) if len(host) == 1 else host
    found = list(zip(starts, ends, strict=True))
    for k, (low, high) in enumerate(found):
        if not 0 <= low <= high <= count:
            raise ValueError(f"Invalid segment range at index {k}: {low} to {high} of {count} pairs")
    return found


def _check(name: str, keys: array, values: array, count: int) -> None:
    for what, a in (("keys", keys), ("values", values)):
        if a.ndim != 1 or not 0 <= count <= a.shape[0]:
            raise UtilityError(
                f"{name}: {what} of shape {a.shape}; expected one dimension and at least count={count} elements"
            )
    if keys.device is not values.device:
        raise UtilityError(f"{name}: the keys lie on {keys.device}, the values on {values.device}")
    if not isinstance(keys.dtype, Scalar):
        raise UtilityError(f"{name}: keys of {keys.dtype}; expected numbers")


def _ranks(host: np.ndarray) -> np.ndarray:
    """Unsigned numbers in the order of the keys: of negative floats all bits are turned, else the sign (Herf 2001)."""
    kind = host.dtype
    bits = np.ascontiguousarray(host).view(f"u{kind.itemsize}").astype(np.uint64)
    sign = np.uint64(1 << (8 * kind.itemsize - 1))
    if kind.kind == "i":
        return bits ^ sign
    if kind.kind == "f":
        everything = np.uint64((1 << 8 * kind.itemsize) - 1)
        return np.where(bits & sign, ~bits & everything, bits | sign)
    return bits


def _sort(keys: array, values: array, order: Any, bounds: list[array]) -> None:
    """Moves pairs into the order that `order` finds for the keys as they are then."""
    device, places = keys.device, zeros(keys.shape[0], int32, keys.device)

    def find() -> None:
        device.write(places, order(device.numpy(keys)).astype(np.int32))

    add_whole_node(find, [keys, *bounds], [places])
    for a in (keys, values):
        launch(_permute, a.shape[0], [clone(a), places, a], device=device)


def runlength_encode(
    values: array,
    run_values: array,
    run_lengths: array,
    run_count: array | None = None,
    value_count: int | None = None,
) -> array | int:
    """Runs of equal numbers: the number of each run in `run_values`, how often it stands there in `run_lengths`.

    value_count: of the first so many (None: all); both results need room for as many.
    Returns how many runs there are: `run_count`, an array of one int32, or a number where that is not given.
    """
    count = values.size if value_count is None else int(value_count)
    if count < 0:
        raise UtilityError(f"value_count must be non-negative, got {count}")
    if count > values.size:
        raise UtilityError(f"runlength_encode: value_count is {count}, there are {values.size} values")
    results = [run_values, run_lengths] if run_count is None else [run_values, run_lengths, run_count]
    for a in results:
        if a.device is not values.device:
            raise UtilityError(f"runlength_encode: the values lie on {values.device}, a result on {a.device}")
    if min(run_values.size, run_lengths.size) < count:
        sizes = f"Output array storage sizes must be at least equal to value_count ({count})"
        raise UtilityError(f"runlength_encode: got {run_values.size} and {run_lengths.size}: {sizes}")
    if run_values.dtype != values.dtype:
        types = f"data types do not match ({values.dtype} vs {run_values.dtype})"
        raise UtilityError(f"runlength_encode: values and run_values {types}")
    if not isinstance(values.dtype, Scalar):
        raise UtilityError(f"runlength_encode: values of {values.dtype}; expected numbers")
    for name, a in zip(("run_lengths", "run_count"), results[1:], strict=False):
        if a.dtype is not int32:
            raise UtilityError(f"runlength_encode: got elements of {a.dtype}: {name} array must be of type int32")
    found = zeros(1, int32, values.device) if run_count is None else run_count
    launch(_encode, 1, [values, count, run_values, run_lengths, found], device=values.device)
    return int(found.numpy()[0]) if run_count is None else found
