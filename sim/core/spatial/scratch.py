"""Memory of a thread that walks keep what is still to be visited in.

Of arrays that kernels make (`zeros`) every number is a value, chosen by comparisons: right for a few, and they can be
differentiated.  This is plain storage: of whole numbers and of what nothing is differentiated by, read only where it
was written.
"""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.traced import Keywords, Positional
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.ir.core import Op, TapeType, Value
from sim.core.lang.types import Scalar, int32


def _scratch(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    slots, scalar = args
    assert isinstance(slots, int) and isinstance(scalar, Scalar)
    made = Op("tape", [], [Value(TapeType(scalar, slots))], {"slots": slots, "scalar": scalar})
    return t.b.append(made).results[0]


def _keep(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    memory, at, value = args
    assert isinstance(memory, Value) and isinstance(memory.type, TapeType)
    given = t.as_value(value, memory.type.scalar, node)
    t.b.append(Op("tape_store", [memory, t.as_value(at, int32, node), given], []))
    return None


def _kept(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    memory, at = args
    assert isinstance(memory, Value) and isinstance(memory.type, TapeType)
    return t.b.leaf_op("tape_load", (memory, t.as_value(at, int32, node)), memory.type.scalar)


scratch = Builtin("scratch", _scratch, "scratch(slots, scalar): so many numbers of this type, not set.")
keep = Builtin("keep", _keep, "keep(memory, k, value): sets number k.")
kept = Builtin("kept", _kept, "kept(memory, k): number k.")
