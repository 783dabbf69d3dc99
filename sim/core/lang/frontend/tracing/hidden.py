"""Hidden parameters: parts of objects of the host that a kernel knows by a number, its handle, as a mesh by its `id`.

A query asks for the parts of such an object, which are arrays and numbers.  Each becomes a parameter of the kernel that
its callers do not see: at a launch the runtime looks the object up by the number, and passes its part
(`runtime/launch/hidden.py`).  So parts are memory like any other to the tape, to graphs and to derivatives.

A handle that is loaded from an array, or chosen in the kernel, is an address: that of a header from which the parts are
read.  Those have no derivatives.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sim.core.lang.frontend.traced import ArrayRef, PointerArray, StructValue, TracedValue, describe
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.ir.core import Value, walk
from sim.core.lang.types import ArrayType, Struct, Type, int32, int64, uint64


@dataclass(frozen=True, eq=False)
class HandleKind:
    """What handles of one kind stand for.

    parts: the type of each part; the host's object has them as attributes.
    words: where a part stands in the header at the address that the handle is, in words of 8 bytes: a number takes one,
        an array three, its address, bytes per step and extent.
    """

    name: str
    parts: Mapping[str, Type]
    words: Mapping[str, int]


class HiddenParameter(NamedTuple):
    """A parameter of a kernel that is a part of an object; `source`: the number of the parameter with its handle."""

    source: int
    kind: HandleKind
    part: str


def opened(t: Context, kind: HandleKind, form: Struct, handle: TracedValue, node: ast.AST) -> StructValue:
    """The object that a handle stands for, as a struct of some of its parts."""
    return StructValue(form, {part: part_of(t, kind, handle, part, node) for part in form.fields})


def part_of(t: Context, kind: HandleKind, handle: TracedValue, part: str, node: ast.AST) -> TracedValue:
    """One part of the object that a handle stands for."""
    if not isinstance(handle, Value) or handle.type is not uint64:
        raise t.error(
            node,
            f"expected the id of a {kind.name}, got {describe(handle)}",
            f"declare a parameter of type sim.uint64, and launch with the `id` of the {kind.name}",
        )
    if not t.is_kernel or handle not in t.block.params:
        return _at_address(t, kind, handle, part, node)
    found = t.hidden.get((handle, kind, part))
    if found is None:
        found = t.hidden[handle, kind, part] = Value(kind.parts[part], f"{handle.name}.{part}")
        t.block.params.append(found)
    return ArrayRef(found) if isinstance(found.type, ArrayType) else found


def _at_address(t: Context, kind: HandleKind, handle: Value, part: str, node: ast.AST) -> TracedValue:
    """A part of an object whose handle has been loaded or computed: from the header at that address."""
    place = kind.words.get(part)
    if place is None:
        raise t.error(
            node,
            f"the id of a {kind.name} has to be an argument of the kernel here, or a field of one",
            "it says at the launch which memory the kernel reads, so it cannot be loaded from an array or computed",
        )
    t.by_address[kind] = None
    ty = kind.parts[part]

    def word(k: int, as_type: Type) -> Value:
        return t.b.peek(t.b.emit("add", handle, 8 * (place + k)), as_type)

    if not isinstance(ty, ArrayType):
        return word(0, ty)
    return ArrayRef(PointerArray(word(0, uint64), ty, (word(2, int32),), (word(1, int64),), part, constant=True))


def hidden_parameters(t: Context) -> tuple[HiddenParameter, ...]:
    """The hidden parameters of a traced kernel, in order; those that nothing looks at are taken out."""
    used = {v for op in walk(t.block) for v in op.operands}
    t.block.params = [p for p in t.block.params if p in used or p not in t.hidden.values()]
    number = {p: k for k, p in enumerate(t.block.params)}
    return tuple(
        HiddenParameter(number[source], kind, part) for (source, kind, part), p in t.hidden.items() if p in used
    )
