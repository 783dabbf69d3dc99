"""What has to hold of every function between passes."""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.lang.ir.core import Block, Func, Op, Value, moved_scalars, split_memory
from sim.core.lang.ir.printer import to_text
from sim.core.lang.ir.table import OPS, ROWS
from sim.core.lang.types import Scalar, Type, bool_


class InvalidIR(AssertionError):
    """A compiler pass produced something malformed: a bug of ours, never of the user."""


def verify(func: Func) -> Func:
    """Every operand is defined in scope, every row gets what it accepts, regions yield what their op promises."""

    def check(ok: bool, op: Op, what: str) -> None:
        if not ok:
            raise InvalidIR(f"{func.name}: {op.name}: {what}\n{to_text(func)}")

    def types(values: Sequence[Value]) -> list[Type]:
        return [v.type for v in values]

    def block(b: Block, scope: set[Value]) -> None:
        scope = scope.union(b.params)
        for op in b.ops:
            check(op.name in ROWS, op, "unknown operation")
            for v in op.operands:
                if v not in scope:
                    check(False, op, f"operand {v!r} is not defined here")
            if op.is_primitive:
                row = OPS[op.name]
                args = op.operands[row.conditions :]
                check(len(op.operands) == row.arity, op, "takes another number of operands")
                kind = args[0].type
                check(all(v.type is kind for v in args), op, "operands of several types")
                check(isinstance(kind, Scalar) and kind.kind in row.accepts, op, "does not accept this type")
            for region in op.regions:
                block(region, scope)
            if op.name == "if":
                check(all(types(r.yields) == types(op.results) for r in op.regions), op, "branches yield other types")
            elif op.name == "for":
                body = op.regions[0]
                check(
                    types(body.yields) == types(op.results) == types(op.carried_init) == types(op.carried_params),
                    op,
                    "carried types",
                )
            elif op.name == "while":
                cond, body = op.regions
                same = (
                    types(body.yields)
                    == types(op.results)
                    == types(op.operands)
                    == types(body.params)
                    == types(cond.params)
                )
                check(same and types(cond.yields) == [bool_], op, "carried types")
            elif op.row.memory:
                _, index, _, values = split_memory(op)
                scalars = moved_scalars(op)
                moved = types(op.results if op.name == "load" else values)
                check(moved == scalars, op, f"moves {moved}, element has {scalars}")
                check(all(i.type.is_int for i in index), op, "index is not an integer")  # type: ignore[attr-defined]
            scope.update(op.results)
        for v in b.yields:
            if v not in scope:
                raise InvalidIR(f"{func.name}: yields {v!r}, which is not defined\n{to_text(func)}")

    block(func.body, set())
    return func
