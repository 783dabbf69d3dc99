"""The intermediate representation: typed SSA over scalars, with structured control flow.

A `Func` has parameters (scalars, arrays, tapes), one `Block` of operations, and for functions the values it yields.
Vectors, matrices and structs exist in the front end only: here they are rows of scalars.  Memory operations name an
element and the leaves of it that they touch, so that a back end can still move a whole element at once.  What there is
of operations stands in `table.py`; `builder.py` makes them, `printer.py` shows and `verifier.py` checks them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from sim.core.lang.errors import Span
from sim.core.lang.ir.table import OPS, ROWS, OpDef, Structural
from sim.core.lang.types import Leaf, Scalar, Type


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


@dataclass(eq=False, slots=True)
class Op:
    """One operation; compared and hashed by identity."""

    name: str
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    span: Span | None = None

    @property
    def row(self) -> OpDef | Structural:
        """Its row of the table, where its traits are."""
        return ROWS[self.name]

    @property
    def is_primitive(self) -> bool:
        return self.name in OPS

    @property
    def first_carried(self) -> int:
        """Of a loop: the number of the first operand, and of the first parameter of its regions, that is carried."""
        first = self.row.first_carried
        assert first is not None
        return first

    @property
    def carried_init(self) -> list[Value]:
        """What a loop carries into its first trip."""
        return self.operands[self.first_carried :]

    @property
    def carried_params(self) -> list[Value]:
        """What a loop carries, as the parameters of its body."""
        return self.regions[-1].params[self.first_carried :]

    # -- attributes
    @property
    def leaves(self) -> tuple[int, ...]:
        """Of a memory operation: numbers of the leaves of the element that it touches, or one of which it touches."""
        leaves: tuple[int, ...] = self.attrs["leaves"]
        return leaves

    @property
    def dynamic(self) -> bool:
        """Of a memory operation: whether it touches one leaf, whose number is known at run time."""
        return bool(self.attrs.get("dynamic"))

    @property
    def exclusive(self) -> bool:
        """Of an accumulation: whether no other thread touches the element in the launch."""
        return bool(self.attrs.get("exclusive"))

    @property
    def by_rule(self) -> Any:
        """Of a write: the function in closed form that it belongs to, whose `rule` goes back in its place, or None."""
        return self.attrs.get("by_rule")

    @property
    def how(self) -> str:
        """Of an atomic: "add", "min", "max", "exch", "cas", "and", "or" or "xor"."""
        how: str = self.attrs["how"]
        return how

    @property
    def compared(self) -> Sequence[Value]:
        """Of an atomic compare-and-swap: for each value the one that the element has to have."""
        values = self.operands[1 + self.operands[0].type.ndim + self.dynamic :]  # type: ignore[attr-defined]
        return values[len(values) // 2 :] if self.how == "cas" else ()

    @property
    def axis(self) -> int:
        """Of `tid` and `shape`; -1: all, the linear index."""
        axis: int = self.attrs["axis"]
        return axis

    @property
    def reverse(self) -> bool:
        """Of a `for`: whether it counts downwards."""
        return bool(self.attrs.get("reverse"))

    @property
    def callee(self) -> Func:
        """Of a call."""
        callee: Func = self.attrs["callee"]
        return callee


@dataclass(eq=False, slots=True)
class Block:
    """One region: parameters, operations, yields; as in MLIR, but always a region of a single block."""

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


def walk(block: Block) -> Iterator[Op]:
    """All operations, regions included, in program order."""
    waiting: list[Block | Iterator[Op]] = [block]
    while waiting:
        top = waiting.pop()
        ops = iter(top.ops) if isinstance(top, Block) else top
        for op in ops:
            yield op
            if op.regions:
                waiting.append(ops)
                waiting.extend(reversed(op.regions))
                break


def walk_regions(op: Op) -> Iterator[Op]:
    """All operations in the regions of one, in program order."""
    for region in op.regions:
        yield from walk(region)


def has_effect(op: Op) -> bool:
    return op.row.effect or any(has_effect(inner) for region in op.regions for inner in region.ops)


# ------------------------------------------------------------------------------------------------ memory
class Access(NamedTuple):
    """The operands of a memory operation; leaf: the run-time leaf number, if there is one."""

    array: Value
    indices: list[Value]
    leaf: Value | None
    values: list[Value]

    @property
    def address(self) -> list[Value]:
        """What says where it goes: the indices, and the leaf."""
        return self.indices if self.leaf is None else [*self.indices, self.leaf]


def split_memory(op: Op) -> Access:
    """The operands of load/store/accum/atomic."""
    array, ndim = op.operands[0], op.operands[0].type.ndim  # type: ignore[attr-defined]
    rest = op.operands[1 + ndim :]
    if op.name == "atomic" and op.how == "cas":
        rest = rest[: len(rest) - len(op.compared)]
    leaf = rest[0] if op.dynamic else None
    return Access(array, op.operands[1 : 1 + ndim], leaf, rest[1:] if leaf is not None else rest)


def element_leaves(array: Value) -> tuple[Leaf, ...]:
    """Leaves of an array's element type."""
    kind = array.type.dtype  # type: ignore[attr-defined]
    return kind.leaves if hasattr(kind, "leaves") else (Leaf("", kind, 0),)


def moved_scalars(op: Op) -> list[Scalar]:
    """Types of the scalars that a memory operation moves."""
    kinds = [element_leaves(op.operands[0])[k].scalar for k in op.leaves]
    return kinds[:1] if op.dynamic else kinds


# ------------------------------------------------------------------------------------------------ emitting
class OpenBuilder(Protocol):
    """What takes primitives: a `Builder` that was entered."""

    def emit(self, name: str, *operands: Any, type: Type | None = None) -> Value: ...


class _Open(threading.local):
    def __init__(self) -> None:
        self.builders: list[OpenBuilder] = []


_open = _Open()


def open_builders() -> list[OpenBuilder]:
    """The builders that are open in this thread, the innermost last."""
    return _open.builders


def emit(name: str, *operands: Any, type: Type | None = None) -> Value:
    """Emit a primitive into the innermost open builder; Python numbers take the type of the other operand."""
    return _open.builders[-1].emit(name, *operands, type=type)
