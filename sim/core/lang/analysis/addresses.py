"""Memory that a kernel knows by its address alone: where it is used, and which argument says the address."""

from __future__ import annotations

from typing import NamedTuple

from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.types import Struct, in_memory, leaves_of


class _Source(NamedTuple):
    """The array in whose elements an address stands, the struct of those, and the field (`part.values`)."""

    array: Value
    struct: Struct
    field: str


def no_derivative(kernel: Func, what: str, otherwise: str = "") -> GradientError:
    """The error of a kernel that works on memory by its address; what: "gradient"; otherwise: another way out."""
    op = next(op for op in walk(kernel.body) if op.name in ("load_at", "store_at"))
    source = _source(op.operands[0])
    where, hint = "memory by its address", "pass the arrays as arguments"
    if source is not None:
        where += f", the array '{source.field}' in an element of '{source.array.name}'"
        hint += f", or a {source.struct.name} instead of an array of them"
    what = f"kernel '{kernel.name}' works on {where}: no {what} can be followed there"
    return GradientError(what, op.span, hint + otherwise)


def _source(address: Value) -> _Source | None:
    """Where an address was loaded; None where it is no part of an element."""
    waiting, seen = [address], set[Op]()
    while waiting:
        value = waiting.pop()
        op = value.op
        if op is None or op in seen:
            continue
        seen.add(op)
        if op.name == "load":
            array = op.operands[0]
            struct = getattr(array.type, "dtype", None)
            if not isinstance(struct, Struct):
                return None
            return _Source(array, struct, _field(struct, op.leaves[op.results.index(value)]))
        waiting += op.operands
    return None


def _field(struct: Struct, leaf: int) -> str:
    """The name of the field to which a leaf belongs."""
    for name, kind in struct.fields.items():
        count = len(leaves_of(in_memory(kind)))
        if leaf < count:
            return f"{name}.{_field(kind, leaf)}" if isinstance(kind, Struct) else name
        leaf -= count
    raise IndexError(leaf)
