"""The op table: what passes, analyses and back ends know of an operation stands in its row.

Two kinds of operations:

* *primitives* (`OPS`, filled by `ops.py`): pure functions of scalars, one `OpDef` each;
* *structural* operations (`STRUCTURAL`, below): constants, control flow, memory, launch indices.

Nobody else keeps lists of names: whoever has to tell operations apart asks for a trait of `op.row`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.core.lang.types import Scalar, bool_


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What may be asked of any operation.

    loads, writes: its results come from an array; it changes one.
    effect: it does more than give results.
    free: its value is at hand everywhere: nothing is saved by keeping it.
    expensive: better kept than computed twice.
    first_carried: of a loop, the number of the first operand (and parameter of its regions) that it carries.
    linear: the derivative by one operand does not depend on the others.
    singular: a value or derivative is infinite somewhere.
    choice: it gives one of its last two operands; those before are conditions.
    """

    loads: bool = False
    writes: bool = False
    effect: bool = False
    free: bool = False
    expensive: bool = False
    first_carried: int | None = None
    linear: bool = False
    singular: bool = False
    choice: bool = False

    @property
    def memory(self) -> bool:
        """Whether it touches an array."""
        return self.loads or self.writes

    @property
    def loop(self) -> bool:
        return self.first_carried is not None


@dataclass(frozen=True)
class Instruction:
    """LLVM: an instruction for floats, signed, and unsigned integers (bools too): a name, or a text with {0}, {1}, ...

    {t}: the type of the operands, {b}: that of bools; {zero}, {ones}: constants of the type with no, and all bits set.
    """

    float: str
    signed: str
    unsigned: str


@dataclass(frozen=True)
class Intrinsic:
    """LLVM: an intrinsic; one for all kinds of scalars, or one for floats, signed, and unsigned integers."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Libm:
    """LLVM: a function of the C library, called thread by thread."""

    name: str


@dataclass(frozen=True)
class Special:
    """LLVM: more than one instruction; the back end has a rule (`SPECIAL` of `llvm/writer.py`)."""


@dataclass(frozen=True)
class OpDef(Traits):
    """A row of the table of primitives.

    accepts: kinds of scalars ("f", "iu", "fiub", ...) that the operands may have; all operands have one type, except
             conditions, which are bools.
    result:  "same" (as the operands), "bool", or "free" (the caller says: casts).
    numpy:   the meaning, on NumPy scalars or arrays: the reference that back ends are tested against.
    vjp:     (ct, y, *operands) -> cotangents of the operands, written in IR (hence differentiable again);
             `ZERO`: the derivative is zero; None: differentiating it is an error that names the op.
    cuda:    C text with {0}, {1}, ..., for floats; after it those for integers and for bools, where they differ.
             {f} is "f" for float32 and empty for float64, {t} the type, {u} the unsigned one in which arithmetic wraps,
             {low} a conversion to types below 32 bits (C computes in int), {last} the number of the highest bit.
    domain:  where tests sample the operands.
    folds:   (*constants) -> whether the compiler may compute it; None: never.
    simplify: (*operands) -> the value that it equals whatever the operands are, or None.
    builtin: whether the language has a function of this name that is this primitive, element by element.
    """

    name: str
    arity: int
    accepts: str
    result: str
    doc: str
    numpy: Callable[..., Any]
    vjp: Any
    llvm: Instruction | Intrinsic | Libm | Special
    cuda: tuple[str, ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    folds: Callable[..., bool] | None = None
    simplify: Callable[..., Any] | None = None
    builtin: bool = True

    @property
    def conditions(self) -> int:
        """How many of the operands are conditions."""
        return self.arity - 2 if self.choice else 0

    def operand_types(self, kind: Scalar) -> list[Scalar]:
        """Types of the operands, where those that are no conditions have type `kind`."""
        return [bool_ if k < self.conditions else kind for k in range(self.arity)]


@dataclass(frozen=True)
class Structural(Traits):
    """The row of a structural operation; form: operands, {attributes}, | regions -> results."""

    name: str
    form: str


ZERO = "zero"
OPS: dict[str, OpDef] = {}
"""The primitives.  `ops.py` fills it; the IR only looks rows up, so that rows can be written in terms of values."""

# With `dynamic` the last index operand is a leaf number at run time: it counts from `leaves[0]`, and all leaves of
# `leaves` have one scalar type.  `exclusive`: no other thread touches that element in this launch.
# fmt: off
STRUCTURAL = {row.name: row for row in (
    Structural("const", "{value} -> 1", free=True),
    Structural("if", "cond | then, else (no parameters) -> what both blocks yield"),
    # k = 0 .. n-1 (int32), downwards if reverse
    Structural("for", "n, *init {reverse} | body(k, *carried) -> carried", first_carried=1),
    Structural("while", "*init | cond(*carried) -> bool, body(*carried) -> carried -> carried", first_carried=0),
    Structural("load", "array, *index[, leaf] {leaves, dynamic} -> one value per leaf", loads=True),
    Structural("store", "array, *index[, leaf], *values {leaves, dynamic}", writes=True, effect=True),
    # array element += values
    Structural("accum", "array, *index[, leaf], *values {leaves, dynamic, exclusive}", writes=True, effect=True),
    # how: add, min, max, exch, cas, and, or, xor; cas has as many values again, to compare with
    Structural("atomic", "array, *index[, leaf], *values {leaves, dynamic, how} -> the old values",
               loads=True, writes=True, effect=True),
    # axis -1: the linear index of the thread
    Structural("tid", "{axis} -> int32", free=True),
    Structural("shape", "array {axis} -> int32", free=True),
    # memory by its address, of which nothing else is known: such kernels have no derivative
    Structural("address", "array -> uint64", free=True),
    Structural("load_at", "address -> value", effect=True),
    Structural("store_at", "address, value", effect=True),
    # what a structure keeps at this address (uint64): constant while the launch runs, and not differentiated
    Structural("peek", "address -> value"),
    # storage of one thread (bounded: checkpoints of loops)
    Structural("tape", "{slots, scalar} -> tape"),
    Structural("tape_load", "tape, index -> value"),
    Structural("tape_store", "tape, index, value", effect=True),
    # a function with a closed-form adjoint
    Structural("call", "*args {callee: Func, vjp[, separated]} -> results"),
    # in a launch nothing: results as they are given; going back, `vjp` instead of the derivative of the operations
    # before it that have made them, and of the writes marked `by_rule`
    Structural("rule", "*args, *results {callee, vjp} -> results", effect=True),
    Structural("print", "*values {format}", effect=True),
    Structural("assert", "cond {message[, derivative]}", effect=True),
    # an optimisation barrier: the same value, of which the compiler of a device knows nothing
    Structural("opt_barrier", "value {number} -> value"),
)}
# fmt: on
ROWS: dict[str, OpDef | Structural] = dict(STRUCTURAL)
"""Every row, by name."""


def define(row: OpDef) -> None:
    """Add a primitive to the table."""
    OPS[row.name] = ROWS[row.name] = row
