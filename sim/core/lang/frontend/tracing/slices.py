"""Slices of vectors and matrices: `v[1:3]`, `m[:, 0]`, `m[1:, :2] = ...`, with constant bounds."""

from __future__ import annotations

import ast
import math

from sim.core.lang.frontend.traced import Positional, TracedValue, VectorValue, describe, is_number, whole
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.types import Homogeneous, Matrix


def has_slice(keys: Positional) -> bool:
    """Whether one of the indices is a slice."""
    return any(isinstance(key, slice) for key in keys)


def positions(t: Context, ty: Homogeneous, keys: Positional, node: ast.AST) -> tuple[list[Positional], tuple[int, ...]]:
    """The indices of the components that are meant, in order, and the shape that they have together."""
    if len(keys) > len(ty.shape):
        raise t.error(node, f"{ty} has {len(ty.shape)} ind{'ex' if len(ty.shape) == 1 else 'ices'}, got {len(keys)}")
    found: list[Positional] = [()]
    shape = []
    for key, extent in zip((*keys, slice(None))[: len(ty.shape)], ty.shape, strict=True):
        at: list[TracedValue] = [key]
        if isinstance(key, slice):
            bounds = [None if part is None else whole(part) for part in (key.start, key.stop, key.step)]
            if any(
                b is None and given is not None
                for b, given in zip(bounds, (key.start, key.stop, key.step), strict=True)
            ):
                raise t.error(node, f"a slice of {ty} takes constants", "write a loop over the components")
            at = list(range(*slice(*bounds).indices(extent)))
            shape.append(len(at))
        found = [(*place, k) for place in found for k in at]
    return found, (0, 0) if len(shape) == 2 and 0 in shape else tuple(shape)


def flat_value(
    t: Context, ty: Homogeneous, shape: tuple[int, ...], value: TracedValue, node: ast.AST
) -> list[TracedValue]:
    """The numbers that go into a slice of this shape: those of a vector, matrix or tuple, or one for all."""
    count = math.prod(shape)
    value = t.load(value)
    if isinstance(value, VectorValue):
        given = value.type.shape
        if given != shape or (len(shape) == 2) != isinstance(value.type, Matrix):
            raise t.error(node, f"a slice of {ty} of shape {shape} cannot be set to {describe(value)}")
        return list(value.leaves)
    if isinstance(value, tuple) and len(value) == count and len(shape) == 1:
        return list(value)
    if isinstance(value, tuple) or not (is_number(value) or hasattr(value, "type")):
        raise t.error(node, f"a slice of {ty} of shape {shape} cannot be set to {describe(value)}")
    return [value] * count
