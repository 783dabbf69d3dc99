"""Making operations: constants fold, equal pure values in scope are reused (local value numbering)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sim.core.lang.errors import Span
from sim.core.lang.ir.core import Block, Op, Value, element_leaves, open_builders
from sim.core.lang.ir.table import OPS, ROWS, OpDef
from sim.core.lang.types import Scalar, Type, bool_, int32, uint64


class Builder:
    """Appends to a block, opening regions on a stack.

    Used as a context manager it becomes the builder that operators on values and `emit` write to.
    """

    def __init__(self, block: Block) -> None:
        self.blocks = [block]
        self.scopes: list[dict[Any, Value]] = [{}]
        self.span: Span | None = None

    def __enter__(self) -> Builder:
        open_builders().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        open_builders().pop()

    def append(self, op: Op) -> Op:
        op.span = op.span or self.span
        for r in op.results:
            r.op = op
        self.blocks[-1].ops.append(op)
        return op

    def _known(self, key: Any) -> Value | None:
        for scope in reversed(self.scopes):
            if key in scope:
                found: Value = scope[key]
                return found
        return None

    # -- constants and primitives
    def const(self, value: Any, kind: Type) -> Value:
        assert isinstance(kind, Scalar)
        exact = kind.np.type(value)
        key = ("const", id(kind), exact.tobytes())
        found = self._known(key)
        if found is None:
            plain = bool(exact) if kind is bool_ else float(exact) if kind.is_float else int(exact)
            found = self.append(Op("const", [], [Value(kind)], {"value": plain})).results[0]
            self.scopes[-1][key] = found
        return found

    def emit(self, name: str, *operands: Any, type: Type | None = None) -> Value:
        """A primitive.  Python numbers take the type of the last operand that is a value."""
        row = OPS[name]
        kind = next((x.type for x in reversed(operands) if isinstance(x, Value)), None) or type or int32
        args = [
            x if isinstance(x, Value) else self.const(x, bool_ if k < row.conditions else kind)
            for k, x in enumerate(operands)
        ]
        result = type if row.result == "free" else bool_ if row.result == "bool" else args[-1].type
        assert isinstance(result, Scalar)
        return self._made(name, row, args, result)

    def again(self, op: Op, args: list[Value]) -> Value:
        """A primitive like another one, of other values."""
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        return self._made(op.name, OPS[op.name], args, kind)

    def _made(self, name: str, row: OpDef, args: list[Value], result: Scalar) -> Value:
        simple = self._simplified(row, args, result)
        if simple is not None:
            return simple
        key = (name, id(result), *args)
        found = self._known(key)
        if found is None:
            found = self.append(Op(name, args, [Value(result)])).results[0]
            self.scopes[-1][key] = found
        return found

    def _simplified(self, row: OpDef, args: list[Value], result: Scalar) -> Value | None:
        """Constants and neutral elements.  Products with zero stay: they may carry a NaN."""
        if row.folds is not None and args[-1].const is not None:
            consts = [a.const for a in args]
            if None not in consts and row.folds(*consts):
                exact = [a.type.np.type(c) for a, c in zip(args, consts, strict=True)]  # type: ignore[attr-defined]
                if row.result != "free":
                    with np.errstate(all="ignore"):  # wrapping and infinities are what the language defines
                        return self.const(row.numpy(*exact), result)
                if _fits(exact[0], result):
                    return self.const(exact[0].astype(result.np), result)
        if row.result == "free" and args[0].type is result:
            return args[0]
        return None if row.simplify is None else row.simplify(*args)

    # -- regions
    def region(
        self, types: Sequence[Type], fill: Callable[..., Iterable[Value] | None], names: Sequence[str] = ()
    ) -> Block:
        """A new block with parameters of these types; `fill(*params)` emits its operations, returns what it yields."""
        names = names or [""] * len(types)
        block = Block([Value(t, n) for t, n in zip(types, names, strict=True)])
        self.blocks.append(block)
        self.scopes.append({})
        try:
            block.yields = list(fill(*block.params) or ())
        finally:
            self.blocks.pop()
            self.scopes.pop()
        return block

    def if_(
        self, cond: Value, then: Callable[[], Iterable[Value] | None], orelse: Callable[[], Iterable[Value] | None]
    ) -> list[Value]:
        blocks = [self.region((), then), self.region((), orelse)]
        results = [Value(v.type) for v in blocks[0].yields]
        return self.append(Op("if", [cond], results, {}, blocks)).results

    def for_(
        self, n: Value, init: Sequence[Value], body: Callable[..., Iterable[Value]], reverse: bool = False
    ) -> list[Value]:
        block = self.region([n.type, *(v.type for v in init)], body)
        results = [Value(v.type) for v in init]
        return self.append(Op("for", [n, *init], results, {"reverse": reverse}, [block])).results

    def while_(
        self, init: Sequence[Value], cond: Callable[..., Value], body: Callable[..., Iterable[Value]]
    ) -> list[Value]:
        types = [v.type for v in init]
        blocks = [self.region(types, lambda *c: [cond(*c)]), self.region(types, body)]
        results = [Value(v.type) for v in init]
        return self.append(Op("while", list(init), results, {}, blocks)).results

    # -- memory and the rest
    def load(
        self, array: Value, index: Sequence[Value], leaves: Sequence[int], leaf: Value | None = None
    ) -> list[Value]:
        scalars = [element_leaves(array)[k].scalar for k in leaves]
        results = [Value(s) for s in (scalars[:1] if leaf is not None else scalars)]
        return self.append(Op("load", self._address(array, index, leaf), results, self._touch(leaves, leaf))).results

    def store(
        self,
        array: Value,
        index: Sequence[Value],
        leaves: Sequence[int],
        values: Sequence[Value],
        leaf: Value | None = None,
    ) -> Op:
        return self.append(Op("store", [*self._address(array, index, leaf), *values], [], self._touch(leaves, leaf)))

    def accum(
        self,
        array: Value,
        index: Sequence[Value],
        leaves: Sequence[int],
        values: Sequence[Value],
        leaf: Value | None = None,
        exclusive: bool = False,
    ) -> Op:
        attrs = {**self._touch(leaves, leaf), "exclusive": exclusive}
        return self.append(Op("accum", [*self._address(array, index, leaf), *values], [], attrs))

    def atomic(
        self,
        how: str,
        array: Value,
        index: Sequence[Value],
        leaves: Sequence[int],
        values: Sequence[Value],
        leaf: Value | None = None,
        compared: Sequence[Value] = (),
    ) -> list[Value]:
        results = [Value(v.type) for v in values]
        attrs = {**self._touch(leaves, leaf), "how": how}
        operands = [*self._address(array, index, leaf), *values, *compared]
        return self.append(Op("atomic", operands, results, attrs)).results

    @staticmethod
    def _address(array: Value, index: Sequence[Value], leaf: Value | None) -> list[Value]:
        return [array, *index] + ([leaf] if leaf is not None else [])

    @staticmethod
    def _touch(leaves: Sequence[int], leaf: Value | None) -> dict[str, Any]:
        return {"leaves": tuple(leaves), "dynamic": leaf is not None}

    def leaf_op(self, name: str, operands: Sequence[Value], kind: Type, **attrs: Any) -> Value:
        """tid, shape, tape, tape_load: one result of a given type.  tid and shape are reused when equal."""
        key = (name, *operands, *sorted(attrs.items())) if ROWS[name].free else None
        found = self._known(key) if key else None
        if found is None:
            found = self.append(Op(name, list(operands), [Value(kind)], attrs)).results[0]
            if key:
                self.scopes[-1][key] = found
        return found

    def tid(self, axis: int) -> Value:
        return self.leaf_op("tid", (), int32, axis=axis)

    def address(self, array: Value) -> Value:
        return self.leaf_op("address", (array,), uint64)

    def load_at(self, address: Value, kind: Scalar) -> Value:
        return self.append(Op("load_at", [address], [Value(kind)])).results[0]

    def store_at(self, address: Value, value: Value) -> None:
        self.append(Op("store_at", [address, value], []))

    def shape(self, array: Value, axis: int) -> Value:
        return self.leaf_op("shape", (array,), int32, axis=axis)

    def peek(self, address: Value, kind: Type) -> Value:
        return self.leaf_op("peek", (address,), kind)


def _fits(value: Any, target: Scalar) -> bool:
    """Can a constant be converted by the compiler?  Not floats outside of an integer type, where devices saturate."""
    if not target.is_int or not isinstance(value, np.floating):
        return True
    low = 0 if target.kind == "u" else -(2.0 ** (target.bits - 1))
    return bool(low <= value < 2.0 ** (target.bits - 1))
