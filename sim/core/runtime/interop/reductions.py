"""Sums, inner products, running sums and casts of arrays, as kernels: recorded and differentiated like any launch."""

from __future__ import annotations

from typing import Any

from sim.core.lang.errors import GradientError, SimError
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.vector import dot
from sim.core.lang.types import Homogeneous, Matrix, Transformation, bool_, scalar_of
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

MOST_DIMENSIONS = 4


class UtilityError(SimError, RuntimeError, ValueError, TypeError):
    """Arrays that do not fit a function of `sim.utils`, or each other."""


@kernel
def _sum(values: array(dtype=Any, ndim=4), out: array(dtype=Any, ndim=4), axis: int, count: int):
    i, j, k, m = tid()
    total = values.dtype()
    for n in range(count):
        if axis == 0:
            total += values[n, j, k, m]
        elif axis == 1:
            total += values[i, n, k, m]
        elif axis == 2:
            total += values[i, j, n, m]
        else:
            total += values[i, j, k, n]
    out[i, j, k, m] = total


@kernel
def _inner_of_scalars(
    a: array(dtype=Any, ndim=4), b: array(dtype=Any, ndim=4), out: array(dtype=Any, ndim=4), axis: int, count: int
):
    i, j, k, m = tid()
    total = out.dtype()
    for n in range(count):
        if axis == 0:
            total += a[n, j, k, m] * b[n, j, k, m]
        elif axis == 1:
            total += a[i, n, k, m] * b[i, n, k, m]
        elif axis == 2:
            total += a[i, j, n, m] * b[i, j, n, m]
        else:
            total += a[i, j, k, n] * b[i, j, k, n]
    out[i, j, k, m] = total


@kernel
def _inner_of_vectors(
    a: array(dtype=Any, ndim=4), b: array(dtype=Any, ndim=4), out: array(dtype=Any, ndim=4), axis: int, count: int
):
    i, j, k, m = tid()
    total = out.dtype()
    for n in range(count):
        if axis == 0:
            total += dot(a[n, j, k, m], b[n, j, k, m])
        elif axis == 1:
            total += dot(a[i, n, k, m], b[i, n, k, m])
        elif axis == 2:
            total += dot(a[i, j, n, m], b[i, j, n, m])
        else:
            total += dot(a[i, j, k, n], b[i, j, k, n])
    out[i, j, k, m] = total


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


# ------------------------------------------------------------------------------------------------ sums
def array_sum(values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """Sum of the elements of an array, in order; `axis`: of those along one axis, which keeps the length 1.

    value_count: of the first so many elements (along the axis).
    Returns a number of NumPy (of vectors: an array of their components), with an axis an array of ours; or `out`, where
    that is given (shape (1,) without an axis).
    Raises IndexError for an axis that is not there, UtilityError where `out` does not fit.
    """
    values, place, shape, count = _along("array_sum", values, value_count, axis)
    result = _result(out, values.dtype, shape, "array_sum", axis, values)
    launch(_sum, _four(result).shape, [_four(values), _four(result), place, count], device=values.device)
    return result if out is not None or axis is not None else result.numpy()[0]


def array_inner(a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None) -> Any:
    """Sum of a[i] * b[i] (vectors: of dot products), in order; otherwise as `array_sum`."""
    if a.device is not b.device:
        raise UtilityError(f"array_inner: the arrays lie on {a.device} and {b.device}")
    if a.shape != b.shape:
        raise UtilityError(f"array_inner() arguments must have the same shape, got {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise UtilityError(f"array_inner: A and b array data types do not match ({a.dtype} vs {b.dtype})")
    if isinstance(a.dtype, (Matrix, Transformation)):
        raise UtilityError(f"array_inner: elements of {a.dtype}; expected numbers, vectors or quaternions")
    scalar = a.dtype.dtype if isinstance(a.dtype, Homogeneous) else a.dtype
    a, place, shape, count = _along("array_inner", a, count, axis)
    b = _along("array_inner", b, count, axis)[0]
    result = _result(out, scalar, shape, "array_inner", axis, a, b)
    function = _inner_of_vectors if isinstance(a.dtype, Homogeneous) else _inner_of_scalars
    launch(function, _four(result).shape, [_four(a), _four(b), _four(result), place, count], device=a.device)
    return result if out is not None or axis is not None else result.numpy()[0]


def _along(name: str, a: array, count: int | None, axis: int | None) -> tuple[array, int, tuple[int, ...], int]:
    """The array that is summed, along which axis, the shape of the result, and over how many elements."""
    if axis is None:
        a, place = a if a.ndim == 1 else a.contiguous().flatten(), 0
    elif -a.ndim <= axis < a.ndim:
        place = axis % a.ndim
    else:
        raise IndexError(f"{name}() axis {axis} is out of bounds: the array has {a.ndim} dimensions")
    number = a.shape[place] if count is None else int(count)
    if not 0 <= number <= a.shape[place]:
        raise UtilityError(f"{name}: {number} of {a.shape[place]} elements")
    _refuse_what_has_no_sum(name, a)
    return a, place, (*a.shape[:place], 1, *a.shape[place + 1 :]), number


def _refuse_what_has_no_sum(name: str, a: array) -> None:
    if scalar_of(a.dtype) in (None, bool_):
        raise UtilityError(f"{name}: elements of {a.dtype}; expected numbers or vectors")


def _result(
    out: array | None, dtype: Any, shape: tuple[int, ...], name: str, axis: int | None, *sources: array
) -> array:
    if out is not None:
        if out.device is not sources[0].device:
            raise UtilityError(f"{name}: out lies on {out.device}, the values on {sources[0].device}")
        if out.dtype != dtype:
            raise UtilityError(f"{name}: got elements of {out.dtype}, the out array should have type {dtype}")
        if out.shape != shape:
            raise UtilityError(f"{name}: got shape {out.shape}, the out array should have shape {shape}")
        return out
    wanted = recording.current() is not None and any(s.requires_grad for s in sources)
    if wanted and axis is None:
        what = f"{name} on an open tape returns a number, which has no gradient"
        raise GradientError(what, hint="pass out=, an array of one element with requires_grad=True")
    return zeros(shape, dtype, sources[0].device, requires_grad=wanted)


def _four(a: array) -> array:
    """The same elements in four dimensions, the further ones of length 1."""
    more = MOST_DIMENSIONS - a.ndim
    return make_array(a.buffer, a.offset, a.shape + (1,) * more, a.strides + (0,) * more, a.dtype)


# ------------------------------------------------------------------------------------------------ scans, casts
def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Running sums of a 1-d array: out[i] = in[0] + ... + in[i] (inclusive), or without in[i]."""
    if in_array.device is not out_array.device:
        raise UtilityError(f"array_scan: the arrays lie on {in_array.device} and {out_array.device}")
    sizes, dtypes = (in_array.size, out_array.size), (in_array.dtype, out_array.dtype)
    for what, (given, taken) in (("storage sizes", sizes), ("data types", dtypes)):
        if given != taken:
            raise UtilityError(f"array_scan: In and out array {what} do not match ({given} vs {taken})")
    _refuse_what_has_no_sum("array_scan", in_array)
    launch(_scan, 1, [_line(in_array, "array_scan"), _line(out_array, "array_scan"), bool(inclusive)])


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Converts elements to the type of another array of the same shape.

    count: only so many, of arrays of one dimension.  Where the numbers of components or of dimensions differ, numbers
    are converted one by one in the order of memory (from (n,) of vec3 to (n, 3) of float64).
    """
    if in_array.device is not out_array.device:
        raise UtilityError(f"array_cast: the arrays lie on {in_array.device} and {out_array.device}")
    parts = _components(in_array)
    if in_array.ndim != out_array.ndim or parts != _components(out_array):
        in_array, out_array = _numbers(in_array), _numbers(out_array)
        count = None if count is None else count * parts
    number = in_array.size if count is None else int(count)
    if in_array.ndim > 1 and number < in_array.size:
        part = f"{number} of {in_array.size} elements, flatten the arrays first"
        raise UtilityError(f"array_cast: {part}: Partial cast is not supported for arrays with more than one dimension")
    if in_array.ndim > 1 and in_array.shape != out_array.shape:
        raise UtilityError(f"array_cast: Array shapes do not match ({in_array.shape} vs {out_array.shape})")
    if not 0 <= number <= min(in_array.size, out_array.size):
        sizes = f"the input size ({in_array.size}) or output size ({out_array.size})"
        raise UtilityError(f"array_cast: Cast count ({number}) exceeds {sizes}")
    source, target = _line(in_array, "array_cast")[:number], _line(out_array, "array_cast")[:number]
    if source.dtype == target.dtype:
        copy(target, source)
    else:
        launch(_cast, number, [source, target])


def _components(a: array) -> int:
    return len(a.dtype.leaves) if isinstance(a.dtype, Homogeneous) else 1


def _numbers(a: array) -> array:
    """The components of all elements, one after the other."""
    line = _line(a, "array_cast")
    return line.view(a.dtype.dtype).flatten() if isinstance(a.dtype, Homogeneous) else line


def _line(a: array, name: str) -> array:
    """The elements in one dimension, in place; a strided array of one dimension is taken as it is."""
    if a.ndim > 1 and not a.is_contiguous:
        raise UtilityError(f"{name}: an array of {a.ndim} dimensions is not contiguous; pass a.contiguous()")
    return a if a.ndim == 1 else a.flatten()
