"""The intermediate representation: typed SSA over scalars, with structured control flow (D1).

A `Func` has parameters (scalars, arrays, tapes), one `Block` of operations, and for functions the values it yields.
Vectors, matrices and structs exist in the front end only: here they are rows of scalars.  Memory operations name an
element and the leaves of it that they touch, so that a back end can still move a whole element at once.

Two kinds of operations:

* *primitives*, one row each in the op table (`ops.py`): pure functions of scalars;
* *structural* operations, listed in `STRUCTURAL`: constants, control flow, memory, launch indices.

    const  {value}                                   -> 1
    if     cond | then, else (no parameters)         -> what both blocks yield
    for    n, *init {reverse} | body(k, *carried)    -> carried      k = 0 .. n-1 (int32), downwards if reverse
    while  *init | cond(*carried) -> bool, body(*carried) -> carried      -> carried
    load   array, *index[, leaf] {leaves, dynamic}   -> one value per leaf
    store  array, *index[, leaf], *values {leaves, dynamic}
    accum  array, *index[, leaf], *values {leaves, dynamic, exclusive}    array element += values
    atomic array, *index[, leaf], *values {leaves, dynamic, how}          -> the old values; how: add, min, max, exch
    tid    {axis}                                    -> int32        axis -1: the linear index of the thread
    shape  array {axis}                              -> int32
    tape   {slots, scalar}                           -> storage of one thread (bounded: checkpoints of loops)
    tape_load tape, index -> value;   tape_store tape, index, value
    call   *args {callee: Func, vjp[, separated]}    -> results       a function with a closed-form adjoint
    print  *values {format};   assert cond {message}

With `dynamic` the last index operand is a leaf number at run time: it counts from `leaves[0]`, and all leaves of
`leaves` have one scalar type.  `exclusive` on an accumulation: no other thread touches that element in this launch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.lang.errors import Span
from sim.core.lang.types import Scalar, Type, bool_, int32

STRUCTURAL = frozenset(
    "const if for while load store accum atomic tid shape tape tape_load tape_store call print assert".split()
)
EFFECTS = frozenset(("store", "accum", "atomic", "tape_store", "print", "assert"))


@dataclass(frozen=True)
class OpDef:
    """A row of the op table.

    accepts: kinds of scalars ("f", "iu", "fiub", ...) that the operands may have; all operands have one type.
    result:  "same" (as the operands), "bool", or "free" (the caller says: casts).
    numpy:   the meaning, on NumPy scalars or arrays: the reference that back ends are tested against.
    vjp:     (ct, y, *operands) -> cotangents of the operands, written in IR (hence differentiable again);
             `ZERO`: the derivative is zero; None: differentiating it is an error that names the op.
    llvm:    ("instr", float, signed, unsigned), ("intrinsic", name), ("libm", name) or ("special",).
    cuda:    C text with {0}, {1}, ...; {f} is "f" for float32 and empty for float64.
    domain:  where tests sample the operands.
    """

    name: str
    arity: int
    accepts: str
    result: str
    doc: str
    numpy: Callable[..., Any]
    vjp: Any
    llvm: tuple[str, ...]
    cuda: str
    domain: tuple[float, float] = (-2.0, 2.0)


ZERO = "zero"
OPS: dict[str, OpDef] = {}
"""The op table.  `ops.py` fills it; the IR only looks rows up, so that rows can be written in terms of values."""


class TapeType(Type):
    """Per-thread storage of `slots` scalars."""

    def __init__(self, scalar: Scalar, slots: int) -> None:
        self.scalar, self.slots = scalar, slots
        self.name = f"tape[{scalar.name} x {slots}]"


class Value:
    """An SSA value.  Arithmetic operators emit into the innermost open builder."""

    __slots__ = ("type", "name", "op")

    def __init__(self, kind: Type, name: str = "", op: Op | None = None) -> None:
        self.type, self.name, self.op = kind, name, op

    @property
    def const(self) -> Any:
        """The Python value of a constant, else None."""
        return self.op.attrs["value"] if self.op is not None and self.op.name == "const" else None

    def __repr__(self) -> str:
        return f"<{self.name or 'value'}: {self.type}>"

    def __add__(self, other: Any) -> Value:
        return emit("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return emit("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return emit("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return emit("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return emit("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return emit("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return emit("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return emit("div", other, self)

    def __neg__(self) -> Value:
        return emit("neg", self)


@dataclass(eq=False)
class Op:
    name: str
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    span: Span | None = None


@dataclass(eq=False)
class Block:
    params: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Func:
    """A kernel (yields nothing, has effects) or a pure function (body.yields are its results).

    `params` are `body.params`.  `dims`: number of launch dimensions that the kernel's `tid()` asks for.
    """

    name: str
    body: Block
    span: Span | None = None
    dims: int = 1
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def params(self) -> list[Value]:
        return self.body.params

    @property
    def captures(self) -> Any:
        """Of a traced function: the `Captures` of its trace."""
        return self.attrs["captures"]

    def __str__(self) -> str:
        return to_text(self)


def walk(block: Block) -> Iterator[Op]:
    """All operations, regions included, in program order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


def has_effect(op: Op) -> bool:
    return op.name in EFFECTS or any(has_effect(inner) for region in op.regions for inner in region.ops)


def split_memory(op: Op) -> tuple[Value, list[Value], Value | None, list[Value]]:
    """Operands of load/store/accum/atomic: array, indices, the run-time leaf number (or None), values."""
    array, ndim = op.operands[0], op.operands[0].type.ndim  # type: ignore[attr-defined]
    rest = op.operands[1 + ndim :]
    leaf = rest[0] if op.attrs.get("dynamic") else None
    return array, op.operands[1 : 1 + ndim], leaf, rest[1:] if leaf is not None else rest


# ------------------------------------------------------------------------------------------------ building
class _Open(threading.local):
    """The builders that are open in a thread, the innermost last."""

    def __init__(self) -> None:
        self.builders: list[Builder] = []


_open = _Open()
_FOLDED = frozenset("add sub mul div neg min max and or not lt le gt ge eq ne select cast".split())


def current() -> Builder:
    return _open.builders[-1]


def emit(name: str, *operands: Any, type: Type | None = None) -> Value:
    """Emit a primitive into the innermost open builder; Python numbers take the type of the other operand."""
    return current().emit(name, *operands, type=type)


class Builder:
    """Appends to a block, opening regions on a stack.  Folds constants and reuses equal pure values in scope.

    Used as a context manager it becomes the builder that operators on values and `emit` write to.
    """

    def __init__(self, block: Block) -> None:
        self.blocks = [block]
        self.scopes: list[dict[Any, Value]] = [{}]
        self.span: Span | None = None

    def __enter__(self) -> Builder:
        _open.builders.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _open.builders.pop()

    def append(self, op: Op) -> Op:
        op.span = op.span or self.span
        for r in op.results:
            r.op = op
        self.blocks[-1].ops.append(op)
        return op

    def _known(self, key: Any) -> Value | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

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
        row = OPS[name]
        kind = next((x.type for x in reversed(operands) if isinstance(x, Value)), None)
        args = [x if isinstance(x, Value) else self.const(x, kind or type or int32) for x in operands]
        if name == "select":
            args[0] = operands[0] if isinstance(operands[0], Value) else self.const(operands[0], bool_)
        result = type if row.result == "free" else bool_ if row.result == "bool" else args[-1].type
        assert result is not None
        simple = self._fold(name, args, result)
        if simple is not None:
            return simple
        key = (name, id(result), *map(id, args))
        found = self._known(key)
        if found is None:
            found = self.append(Op(name, args, [Value(result)])).results[0]
            self.scopes[-1][key] = found
        return found

    def _fold(self, name: str, args: list[Value], result: Type) -> Value | None:
        """Constants and neutral elements.  Products with zero stay: they may carry a NaN."""
        consts = [a.const for a in args]
        if name in _FOLDED and all(c is not None for c in consts) and not (name == "div" and not consts[1]):
            exact = [a.type.np.type(c) for a, c in zip(args, consts, strict=True)]  # type: ignore[attr-defined]
            if name == "cast":
                whole = isinstance(result, Scalar) and result.is_int and args[0].type.is_float  # type: ignore[attr-defined]
                low = 0 if not whole or result.kind == "u" else -(2.0 ** (result.bits - 1))  # type: ignore[attr-defined]
                if not whole or low <= consts[0] < 2.0 ** (result.bits - 1):  # type: ignore[attr-defined]
                    return self.const(exact[0].astype(result.np), result)  # type: ignore[attr-defined]
            elif name == "div" and result.is_int:  # type: ignore[attr-defined]
                return None
            else:
                with np.errstate(all="ignore"):  # wrapping and infinities are what the language defines
                    return self.const(OPS[name].numpy(*exact), result)
        if name == "cast" and args[0].type is result:
            return args[0]
        if name == "add":
            return args[1] if consts[0] == 0 else args[0] if consts[1] == 0 else None
        if name == "sub":
            return args[0] if consts[1] == 0 else None
        if name == "mul":
            return args[1] if consts[0] == 1 else args[0] if consts[1] == 1 else None
        if name == "div":
            return args[0] if consts[1] == 1 else None
        if name == "in_bounds":
            return args[0] if None not in consts and 0 <= consts[0] < consts[1] else None
        if name == "neg" and args[0].op is not None and args[0].op.name == "neg":
            return args[0].op.operands[0]
        if name == "not" and args[0].op is not None and args[0].op.name == "not":
            return args[0].op.operands[0]
        if name == "select":
            return args[1] if consts[0] is True or args[1] is args[2] else args[2] if consts[0] is False else None
        if name == "and" and result is bool_:
            return args[1] if consts[0] is True else args[0] if consts[1] is True or consts[0] is False else None
        if name == "or" and result is bool_:
            return args[1] if consts[0] is False else args[0] if consts[1] is False or consts[0] is True else None
        return None

    # -- regions
    def region(
        self, types: Sequence[Type], fill: Callable[..., Iterable[Value] | None], names: Sequence[str] = ()
    ) -> Block:
        """A new block with parameters of these types; `fill(*params)` emits its operations and returns what it
        yields."""
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
    ) -> list[Value]:
        results = [Value(v.type) for v in values]
        attrs = {**self._touch(leaves, leaf), "how": how}
        return self.append(Op("atomic", [*self._address(array, index, leaf), *values], results, attrs)).results

    @staticmethod
    def _address(array: Value, index: Sequence[Value], leaf: Value | None) -> list[Value]:
        return [array, *index] + ([leaf] if leaf is not None else [])

    @staticmethod
    def _touch(leaves: Sequence[int], leaf: Value | None) -> dict[str, Any]:
        return {"leaves": tuple(leaves), "dynamic": leaf is not None}

    def leaf_op(self, name: str, operands: Sequence[Value], kind: Type, **attrs: Any) -> Value:
        """tid, shape, tape, tape_load: one result of a given type.  tid and shape are reused when equal."""
        key = (name, *map(id, operands), *sorted(attrs.items())) if name in ("tid", "shape") else None
        found = self._known(key) if key else None
        if found is None:
            found = self.append(Op(name, list(operands), [Value(kind)], attrs)).results[0]
            if key:
                self.scopes[-1][key] = found
        return found

    def tid(self, axis: int) -> Value:
        return self.leaf_op("tid", (), int32, axis=axis)

    def shape(self, array: Value, axis: int) -> Value:
        return self.leaf_op("shape", (array,), int32, axis=axis)


def element_leaves(array: Value) -> tuple:
    """Leaves of an array's element type."""
    from_type = array.type.dtype  # type: ignore[attr-defined]
    return from_type.leaves if hasattr(from_type, "leaves") else (_ScalarLeaf(from_type),)


@dataclass(frozen=True)
class _ScalarLeaf:
    scalar: Scalar
    path: str = ""
    offset: int = 0


# ------------------------------------------------------------------------------------------------ text
def to_text(func: Func, spans: bool = False) -> str:
    """Readable, deterministic text: the identity of a function (cache keys), golden tests, `show-ir`."""
    numbers: dict[int, str] = {}
    lines: list[str] = []

    def ref(v: Value) -> str:
        if id(v) not in numbers:
            numbers[id(v)] = f"%{len(numbers)}"
        return numbers[id(v)]

    def typed(v: Value) -> str:
        return f"{ref(v)}: {v.type}"

    def block(b: Block, indent: str) -> None:
        for op in b.ops:
            if op.name == "const":
                lines.append(f"{indent}{typed(op.results[0])} = const {op.attrs['value']!r}")
                continue
            left = ", ".join(typed(r) for r in op.results)
            attrs = {k: v for k, v in op.attrs.items() if k not in ("callee", "vjp", "separated")}
            right = " ".join([op.name, ", ".join(ref(v) for v in op.operands), str(attrs) if attrs else ""]).rstrip()
            where = f"   ; line {op.span.line}" if spans and op.span else ""
            lines.append(f"{indent}{left} = {right}{where}" if left else f"{indent}{right}{where}")
            if "callee" in op.attrs:
                lines.append(indent + "  " + to_text(op.attrs["callee"]).replace("\n", "\n" + indent + "  "))
            for region in op.regions:
                lines.append(f"{indent}  ({', '.join(typed(p) for p in region.params)})")
                block(region, indent + "    ")
                lines.append(f"{indent}    yield {', '.join(ref(v) for v in region.yields)}")

    params = ", ".join(f"{typed(p)} '{p.name}'" for p in func.params)
    lines.append(f"func {func.name}({params}) dims={func.dims}")
    block(func.body, "  ")
    if func.body.yields:
        lines.append("  return " + ", ".join(ref(v) for v in func.body.yields))
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ verifier
class InvalidIR(AssertionError):
    """A compiler pass produced something malformed: a bug of ours, never of the user."""


def verify(func: Func) -> Func:
    """Every operand is defined in scope, every row gets what it accepts, regions yield what their operation
    promises."""

    def check(ok: bool, op: Op, what: str) -> None:
        if not ok:
            raise InvalidIR(f"{func.name}: {op.name}: {what}\n{to_text(func)}")

    def types(values: Sequence[Value]) -> list[Type]:
        return [v.type for v in values]

    def block(b: Block, scope: set[int]) -> None:
        scope = scope | {id(p) for p in b.params}
        for op in b.ops:
            check(op.name in OPS or op.name in STRUCTURAL, op, "unknown operation")
            for v in op.operands:
                check(id(v) in scope, op, f"operand {v!r} is not defined here")
            if op.name in OPS:
                row = OPS[op.name]
                args = op.operands[1:] if op.name == "select" else op.operands
                check(len(op.operands) == row.arity, op, f"takes {row.arity} operands")
                check(len({id(t) for t in types(args)}) == 1, op, f"operands of several types {types(args)}")
                kind = args[0].type
                check(isinstance(kind, Scalar) and kind.kind in row.accepts, op, f"does not accept {kind}")
            for region in op.regions:
                block(region, scope)
            if op.name == "if":
                check(all(types(r.yields) == types(op.results) for r in op.regions), op, "branches yield other types")
            elif op.name == "for":
                body = op.regions[0]
                check(
                    types(body.yields) == types(op.results) == types(op.operands[1:]) == types(body.params[1:]),
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
            elif op.name in ("load", "store", "accum", "atomic"):
                array, index, leaf, values = split_memory(op)
                scalars = [element_leaves(array)[k].scalar for k in op.attrs["leaves"]]
                moved = types(op.results if op.name == "load" else values)
                check(
                    moved == (scalars[:1] if leaf is not None else scalars), op, f"moves {moved}, element has {scalars}"
                )
                check(all(i.type.is_int for i in index), op, "index is not an integer")  # type: ignore[attr-defined]
            scope = scope | {id(r) for r in op.results}
        for v in b.yields:
            if id(v) not in scope:
                raise InvalidIR(f"{func.name}: yields {v!r}, which is not defined\n{to_text(func)}")

    block(func.body, set())
    return func
