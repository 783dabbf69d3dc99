"""Warp's names of arrays of so many dimensions, and of small arrays inside of kernels: annotations and constructors."""

from __future__ import annotations

from typing import Any

from sim.core.lang.types import array_type
from sim.core.runtime.arrays.array import array, indexedarray
from sim.core.runtime.arrays.placement import DType, ShapeLike, as_shape


class array1d(array):  # noqa: N801
    """`array` of one dimension: `array1d[float]`, `array1d(dtype=float)`."""

    _dimensions = 1


class array2d(array):  # noqa: N801
    """`array` of two dimensions."""

    _dimensions = 2


class array3d(array):  # noqa: N801
    """`array` of three dimensions."""

    _dimensions = 3


class array4d(array):  # noqa: N801
    """`array` of four dimensions."""

    _dimensions = 4


class fixedarray(array):  # noqa: N801
    """The annotation of a small array that a kernel makes by `zeros(shape=..., dtype=...)`; not for the host."""

    def __new__(cls, dtype: DType = Any, shape: ShapeLike | None = None) -> Any:
        return array_type(dtype, 1 if shape is None else len(as_shape(shape)))


class indexedarray1d(indexedarray):  # noqa: N801
    """`indexedarray` of one dimension."""

    _dimensions = 1


class indexedarray2d(indexedarray):  # noqa: N801
    """`indexedarray` of two dimensions."""

    _dimensions = 2


class indexedarray3d(indexedarray):  # noqa: N801
    """`indexedarray` of three dimensions."""

    _dimensions = 3


class indexedarray4d(indexedarray):  # noqa: N801
    """`indexedarray` of four dimensions."""

    _dimensions = 4
