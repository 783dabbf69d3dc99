"""What a kernel holds of a structure: the address of its header, and what it reads from there.

A structure lives as long as its Python object: a launch that is given the id of one that is gone reads freed memory.
"""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import Keywords, Positional, StructValue, describe, is_number
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import ADVANCE, Builtin, argument_node, register
from sim.core.lang.types import Struct, Type, leaves_of, uint64


def _peek(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    kind, address = args
    assert isinstance(kind, Type)
    base = t.as_value(address, uint64, node)
    values = [
        t.b.peek(t.b.emit("add", base, leaf.offset) if leaf.offset else base, leaf.scalar) for leaf in leaves_of(kind)
    ]
    return t.compose(kind, iter(values))


peek = Builtin("peek", _peek, "peek(kind, address): the value of this type that a structure keeps at an address.")


def _hidden(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    (number,) = args
    assert is_number(number)
    return number


def advancing(name: str, kind: Struct, function: Function, doc: str) -> Builtin:
    """A builtin `name(query, index, ...)`: calls `function(query, ...) -> (query, index, found)`, and assigns the first
    two to the variables that it was given, the index only where something was found.  Loops over queries use it."""

    def handler(t: Context, node: ast.Call, args: Positional, kwargs: Keywords) -> Any:
        nodes = [argument_node(node, k, key) for k, key in enumerate(("query", "index"))]
        places = [place.id if isinstance(place, ast.Name) and place.id in t.env else None for place in nodes]
        if None in places:
            raise t.error(
                node,
                f"{name} changes a query and an index, so it needs two local variables",
                f"write `index = int(0)` and `while {name}(query, index):`",
            )
        named = ("query", "index")[len(args) :]
        args = (*args, *(kwargs[key] for key in named))
        kwargs = {key: value for key, value in kwargs.items() if key not in named}
        if not isinstance(args[0], StructValue) or args[0].type is not kind:
            raise t.error(node, f"{name} takes a {kind}, got {describe(args[0])}")
        query, index, found = call_function(t, function, (args[0], *args[2:]), kwargs, node)
        t.env[places[0]] = query
        before = t.as_value(args[1], index.type, node)
        t.env[places[1]] = t.b.emit("select", found, index, before)
        return found

    made = Builtin(name, handler, doc)
    register({name: made})
    ADVANCE[kind] = made
    return made
