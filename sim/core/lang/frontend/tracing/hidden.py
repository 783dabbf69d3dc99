"""Hidden parameters: parts of objects of the host that a kernel knows by a number, its handle, as a mesh by its `id`.

A query asks for the parts of such an object, which are arrays and numbers.  Each becomes a parameter of the kernel that
its callers do not see: at a launch the runtime looks the object up by the number, and passes its part
(`runtime/launch/hidden.py`).  So parts are memory like any other to the tape, to graphs and to derivatives.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sim.core.lang.frontend.traced import ArrayRef, StructValue, TracedValue, constant, describe
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.ir.core import Value
from sim.core.lang.types import ArrayType, Struct, Type, uint64


@dataclass(frozen=True, eq=False)
class HandleKind:
    """What handles of one kind stand for.  `parts`: the type of each part; the host's object has them as attributes."""

    name: str
    parts: Mapping[str, Type]


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
    source = _parameter(t, kind, handle, node)
    found = t.hidden.get((source, kind, part))
    if found is None:
        ty = kind.parts[part]
        found = t.hidden[source, kind, part] = Value(ty, f"{source.name}.{part}")
        t.block.params.append(found)
    return ArrayRef(found) if isinstance(found.type, ArrayType) else found


def _parameter(t: Context, kind: HandleKind, handle: TracedValue, node: ast.AST) -> Value:
    """The parameter of the kernel that is this handle."""
    if not isinstance(handle, Value) or handle.type is not uint64:
        raise t.error(
            node,
            f"expected the id of a {kind.name}, got {describe(handle)}",
            f"declare a parameter of type sim.uint64, and launch with the `id` of the {kind.name}",
        )
    if handle.op is not None or constant(handle) is not None or not t.is_kernel:
        raise t.error(
            node,
            f"the id of a {kind.name} has to be an argument of the kernel, or a field of one",
            "it says at the launch which memory the kernel reads, so it cannot be loaded from an array or computed",
        )
    return handle


def hidden_parameters(t: Context) -> tuple[HiddenParameter, ...]:
    """The hidden parameters of a traced kernel, in order."""
    number = {p: k for k, p in enumerate(t.block.params)}
    return tuple(HiddenParameter(number[source], kind, part) for source, kind, part in t.hidden)
