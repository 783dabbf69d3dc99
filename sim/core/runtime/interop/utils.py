"""Sums, inner products, scans, sorting of arrays, as kernels: recorded and differentiated like any other launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.vector import dot
from sim.core.lang.types import Homogeneous, Scalar
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch


@kernel
def _sum(values: array[Any], out: array[Any]):
    total = values.dtype()
    for i in range(values.shape[0]):
        total += values[i]
    out[0] = total


@kernel
def _inner_of_scalars(a: array[Any], b: array[Any], out: array[Any]):
    total = out.dtype()
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    out[0] = total


@kernel
def _inner_of_vectors(a: array[Any], b: array[Any], out: array[Any]):
    total = out.dtype()
    for i in range(a.shape[0]):
        total += dot(a[i], b[i])
    out[0] = total


@kernel
def _scan(values: array[Any], out: array[Any], inclusive: bool):
    total = values.dtype()
    for i in range(values.shape[0]):
        before = total
        total += values[i]
        if inclusive:
            out[i] = total
        else:
            out[i] = before


@kernel
def _cast(values: array[Any], out: array[Any]):
    i = tid()
    out[i] = out.dtype(values[i])


def _result(out: array | None, dtype: Any, name: str, *sources: array) -> array:
    if out is not None:
        return out
    if recording.current() is not None and any(s.requires_grad for s in sources):
        what = f"{name} on an open tape returns a number, which has no gradient"
        raise GradientError(what, hint="pass out=, an array of one element with requires_grad=True")
    return zeros(1, dtype, sources[0].device)


def _line(a: array) -> array:
    """All elements in one dimension; a strided array of one dimension is taken as it is."""
    return a if a.ndim == 1 else a.flatten()


def array_sum(values: array, out: array | None = None) -> Any:
    """Sum of the elements of an array, in order.  Into `out` (one element), or returned as a number or vector."""
    result = _result(out, values.dtype, "array_sum", values)
    launch(_sum, 1, [_line(values)], [result])
    return out if out is not None else result.item()


def array_inner(a: array, b: array, out: array | None = None) -> Any:
    """Sum of a[i] * b[i] (vectors: of dot products), in order.  Into `out` (one element), or returned as a number."""
    vectors = isinstance(a.dtype, Homogeneous)
    scalar = a.dtype.dtype if isinstance(a.dtype, Homogeneous) else a.dtype
    result = _result(out, scalar, "array_inner", a, b)
    launch(_inner_of_vectors if vectors else _inner_of_scalars, 1, [_line(a), _line(b)], [result])
    return out if out is not None else result.item()


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Running sums of a 1-d array: out[i] = in[0] + ... + in[i] (inclusive), or without in[i]."""
    if in_array.shape != out_array.shape or in_array.dtype is not out_array.dtype:
        raise ValueError(
            f"array_scan: the arrays differ: {in_array.shape} of {in_array.dtype}, {out_array.shape} of"
            f" {out_array.dtype}"
        )
    launch(_scan, 1, [in_array, out_array, bool(inclusive)])


def array_cast(in_array: array, out_array: array) -> None:
    """Converts the elements of a 1-d array to the type of another."""
    if in_array.shape != out_array.shape:
        raise ValueError(f"array_cast: the arrays differ in shape: {in_array.shape}, {out_array.shape}")
    launch(_cast, in_array.shape[0], [in_array, out_array])


@kernel
def _permute(source: array[Any], order: array[int], target: array[Any]):
    i = tid()
    target[i] = source[order[i]]


def radix_sort_pairs(keys: array, values: array, count: int) -> None:
    """Sorts the first `count` keys, ascending, stable, with the values, in place.  Gradients move with the elements.

    The order is found on the host: in a captured graph it would stay as it was, so capturing it is an error.
    """
    for name, a in (("keys", keys), ("values", values)):
        if a.ndim != 1 or not 0 <= count <= a.shape[0]:
            raise ValueError(
                f"radix_sort_pairs: {name} of shape {a.shape}; expected one dimension and at least count={count}"
                " elements"
            )
    if not isinstance(keys.dtype, Scalar):
        raise TypeError(f"radix_sort_pairs: keys of {keys.dtype}; expected numbers")
    if capturing() is not None:
        raise GradientError(
            "radix_sort_pairs in a captured graph would always give the order of the keys that it was captured with",
            hint="sort outside of it",
        )
    if not count:
        return
    order = array(np.argsort(keys.device.numpy(keys[:count]), kind="stable").astype(np.int32), device=keys.device)
    for a in (keys, values):
        launch(_permute, count, [clone(a[:count]), order, a[:count]])
