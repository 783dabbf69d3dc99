"""Arrays that a kernel makes of an address: `array(ptr=..., shape=..., dtype=...)`.

Nothing is known of that memory: no tape sees what is read and written there, so recording such a launch is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.lang.frontend.traced import LValue, PointerArray
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Value
from sim.core.lang.types import Leaf, int64, leaves_of, uint64


def read(b: Builder, x: LValue) -> list[Value]:
    """The leaves of an element."""
    at, leaves = _element(b, x)
    return [b.load_at(_moved(b, at, leaf.offset), leaf.scalar) for leaf in leaves[: len(leaves_of(x.type))]]


def write(b: Builder, x: LValue, values: Sequence[Value], add: bool) -> None:
    """Stores leaves of an element, or adds to them."""
    at, leaves = _element(b, x)
    for leaf, value in zip(leaves, values, strict=False):
        place = _moved(b, at, leaf.offset)
        b.store_at(place, b.emit("add", b.load_at(place, leaf.scalar), value) if add else value)


def _element(b: Builder, x: LValue) -> tuple[Value, tuple[Leaf, ...]]:
    """The address of an element, and the leaves from the first one that is meant on."""
    array = x.array
    assert isinstance(array, PointerArray)
    at = array.address
    for index, n, stride in zip(x.index, array.shape, array.strides, strict=True):
        inside = b.emit("cast", b.emit("in_bounds", b.emit("cast", index, type=n.type), n), type=int64)
        at = b.emit("add", at, b.emit("cast", b.emit("mul", inside, stride), type=uint64))
    leaves = leaves_of(array.type.dtype)  # type: ignore[arg-type]
    if x.offset is not None:  # components lie side by side
        size = leaves[x.first].scalar.size
        moved = b.emit("mul", b.emit("cast", x.offset, type=int64), size)
        at = b.emit("add", at, b.emit("cast", moved, type=uint64))
    return at, leaves[x.first :]


def _moved(b: Builder, at: Value, offset: int) -> Value:
    return b.emit("add", at, offset) if offset else at
