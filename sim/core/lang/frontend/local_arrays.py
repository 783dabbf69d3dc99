"""Small arrays of a thread, made by `zeros(shape=..., dtype=...)` in a kernel (Warp's `fixedarray`).

They are no memory: the content is a row of values, a variable of the function that is traced, so that branches, loops
and derivatives treat it as any other.  An index of the run is a row of choices.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.lang.frontend.traced import LocalArray, LValue
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Value
from sim.core.lang.types import int32, leaves_of

LIMIT = 256
"""Numbers of one at most."""

Content = tuple[Value, ...]
"""The leaves of all elements, in order."""


def read(b: Builder, x: LValue, content: Content) -> list[Value]:
    """The leaves of a place in a local array."""
    at, step = _place(b, x)
    return [_chosen(b, at, content[k::step]) for k in _first_leaves(x, step)]


def written(b: Builder, x: LValue, content: Content, values: Sequence[Value], add: bool) -> Content:
    """The content with other leaves at a place; `add`: with these added to them."""
    at, step = _place(b, x)
    out = list(content)
    for first, value in zip(_first_leaves(x, step), values, strict=False):
        for k in range(first, len(out), step):
            new = b.emit("add", out[k], value) if add else value
            here = b.emit("eq", at, (k - first) // step)
            out[k] = b.emit("select", here, new, out[k])
    return tuple(out)


def _first_leaves(x: LValue, step: int) -> range:
    """Where the leaves of a place are counted from: those of the element, or one, where a component is chosen."""
    return range(1) if step == 1 else range(x.first, x.first + len(leaves_of(x.type)))


def _place(b: Builder, x: LValue) -> tuple[Value, int]:
    """Number of the element, and leaves of one; where a component is chosen at run time, number of the leaf, and 1."""
    array = x.array
    assert isinstance(array, LocalArray)
    at = b.const(0, int32)
    for index, n in zip(x.index, array.shape, strict=True):
        index = b.emit("in_bounds", b.emit("cast", index, type=int32), n)
        at = b.emit("add", b.emit("mul", at, n), index)
    count = len(leaves_of(array.type.dtype))
    if x.offset is None:
        return at, count
    leaf = b.emit("add", b.emit("cast", x.offset, type=int32), x.first)
    return b.emit("add", b.emit("mul", at, count), leaf), 1


def _chosen(b: Builder, at: Value, column: Content) -> Value:
    """column[at]; the last one for all that is beyond."""
    if at.const is not None and 0 <= at.const < len(column):
        return column[int(at.const)]
    out = column[-1]
    for k in range(len(column) - 2, -1, -1):
        out = b.emit("select", b.emit("eq", at, k), column[k], out)
    return out
