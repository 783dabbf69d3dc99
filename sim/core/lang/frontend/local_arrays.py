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
    at, step = _element(b, x)
    if x.offset is None:
        return [_chosen(b, at, content[k::step]) for k in _leaves(x)]
    components = tuple(_chosen(b, at, content[k::step]) for k in range(x.first, x.first + x.extent))
    return [_chosen(b, _component(b, x, c), components) for c in range(len(leaves_of(x.type)))]


def written(b: Builder, x: LValue, content: Content, values: Sequence[Value], add: bool) -> Content:
    """The content with other leaves at a place; `add`: with these added to them."""
    at, step = _element(b, x)
    out = list(content)
    for c, value in enumerate(values):
        for leaf in (_leaves(x)[c],) if x.offset is None else range(x.first, x.first + x.extent):
            chosen = None if x.offset is None else b.emit("eq", _component(b, x, c), leaf - x.first)
            for k in range(leaf, len(out), step):
                here = b.emit("eq", at, k // step)
                here = here if chosen is None else b.emit("and", here, chosen)
                out[k] = b.emit("select", here, b.emit("add", out[k], value) if add else value, out[k])
    return tuple(out)


def _leaves(x: LValue) -> range:
    """Which leaves of an element a place is, where no component is chosen at run time."""
    return range(x.first, x.first + len(leaves_of(x.type)))


def _component(b: Builder, x: LValue, c: int) -> Value:
    """Component c of a place whose components are chosen at run time: its number among `x.extent` leaves."""
    assert x.offset is not None
    return b.emit("add", b.emit("cast", x.offset, type=int32), c)


def _element(b: Builder, x: LValue) -> tuple[Value, int]:
    """Number of the element, and leaves of one."""
    array = x.array
    assert isinstance(array, LocalArray)
    at = b.const(0, int32)
    for index, n in zip(x.index, array.shape, strict=True):
        index = b.emit("in_bounds", b.emit("cast", index, type=int32), n)
        at = b.emit("add", b.emit("mul", at, n), index)
    return at, len(leaves_of(array.type.dtype))


def _chosen(b: Builder, at: Value, column: Content) -> Value:
    """column[at]; the last one for all that is beyond."""
    if at.const is not None and 0 <= at.const < len(column):
        return column[int(at.const)]
    out = column[-1]
    for k in range(len(column) - 2, -1, -1):
        out = b.emit("select", b.emit("eq", at, k), column[k], out)
    return out
