"""The state of one trace, given to every part of the tracer: builder, inlined calls, conversions, memory, errors."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.core.lang.errors import KernelError, Span
from sim.core.lang.frontend import chosen_arrays, local_arrays, pointers
from sim.core.lang.frontend.captures import Captures
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.lower_bounds import LowerBounds
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.traced import (
    AnyMemory,
    ArrayRef,
    ChosenArray,
    LocalArray,
    LValue,
    Mismatch,
    PointerArray,
    Range,
    StructValue,
    TracedValue,
    Undefined,
    VectorValue,
    constant,
    describe,
    extents,
    flatten,
    is_number,
    is_traced,
    like_views,
    rebuild,
    same,
    type_of,
)
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.types import (
    ArrayType,
    Composite,
    Homogeneous,
    HostNumber,
    HostStruct,
    Scalar,
    Struct,
    Type,
    array_type,
    bool_,
    float32,
    from_numpy,
    in_memory,
    int32,
    int64,
    leaves_of,
    public_name,
)

RETURNED, BROKE, CONTINUED, VALUE = "$returned", "$broke", "$continued", "$value"
FLAGS = (RETURNED, BROKE, CONTINUED)
LOCAL = "$local"
"""What the names of the contents of local arrays begin with."""

OUTSIDE = ("outside",)
"""The key of the frame that stands for whoever calls from outside of kernels."""


class Frame:
    """One function on the stack of inlined calls: its variables, and the node of the caller that called it."""

    def __init__(self, function: Function, call: ast.AST | None, key: Any) -> None:
        self.function, self.call, self.key = function, call, key
        self.env: dict[str, TracedValue] = dict.fromkeys(FLAGS, False)
        self.env[VALUE] = Undefined("is not returned")
        self.loops: dict[int, list[str]] = {}  # variables that a loop (by its node) turned out to carry
        # of the iteration that is traced: variables without a value where it was left early, and why they have none
        self.skipped: dict[str, str] = {}


@dataclass(frozen=True)
class Syntax:
    """How syntax becomes operations: what calls, branches and loops come back to for the syntax inside of them.

    evaluate: the value of an expression; elements of arrays stay places.
    execute:  a block of statements.
    """

    evaluate: Callable[[Context, ast.expr], TracedValue]
    execute: Callable[[Context, Sequence[ast.stmt]], None]


class Context:
    """State of one trace.  `real`: what `float` and lone weak floats are."""

    def __init__(self, syntax: Syntax, real: Scalar = float32) -> None:
        self.syntax = syntax
        self.block = Block()
        self.b = Builder(self.block)
        self.real = real
        self.frames: list[Frame] = []
        self.captures = Captures()
        self.dims = 1  # of the launch
        self.single_tids: list[Value] = []  # of `i = tid()`: how many dimensions there are shows later
        self.unpack: tuple[ast.AST | None, int] = (None, 1)  # a call whose result is unpacked into so many names
        self.unused: ast.AST | None = None  # a call whose result nobody reads
        self._local_arrays = 0
        self.is_kernel = False
        self.hidden: dict[Any, Value] = {}  # parameters that callers do not see (`hidden.py`)
        self.by_address: dict[Any, None] = {}  # kinds of objects that are known by an address of the run only
        self.lower_bounds = LowerBounds()
        self.copies = 1  # how many times the unrolled loops around here repeat it

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def env(self) -> dict[str, TracedValue]:
        return self.frames[-1].env

    @env.setter
    def env(self, env: dict[str, TracedValue]) -> None:
        self.frames[-1].env = env

    def may_be_negative(self, *numbers: Value) -> bool:
        """Whether one of these integers may be negative, as far as is known."""
        trusting = not own_module(self.frame.function.__module__)
        return not all(self.lower_bounds.not_negative(k, trusting) for k in numbers)

    def from_end(self, index: Value, count: Callable[[], Value]) -> Value:
        """An index; a negative one counts from the end, except in functions of the package, which use none."""
        assert isinstance(index.type, Scalar)
        if own_module(self.frame.function.__module__) or not self.may_be_negative(index):
            return index
        wide = self.b.emit("cast", index, type=int64 if index.type.bits == 64 else int32)
        return self.b.emit("from_end", wide, self.b.emit("cast", count(), type=wide.type))

    def local_array(self, dtype: Type, shape: tuple[int, ...], content: tuple[Value, ...]) -> ArrayRef:
        """A small array of the thread with this content."""
        self._local_arrays += 1
        made = LocalArray(f"{LOCAL}{self._local_arrays}", array_type(dtype, len(shape)), shape)
        self.env[made.name] = content
        return ArrayRef(made)

    def share_local_arrays(self, source: dict[str, TracedValue], target: dict[str, TracedValue]) -> None:
        """What one function has written to local arrays, the other sees: before and after a call."""
        target.update((name, content) for name, content in source.items() if name.startswith(LOCAL))

    # -- syntax
    def lazy(self, node: ast.expr) -> TracedValue:
        """The value of an expression; elements of arrays stay places until they are needed."""
        return self.syntax.evaluate(self, node)

    def eval(self, node: ast.expr) -> TracedValue:
        """The value of an expression."""
        return self.load(self.syntax.evaluate(self, node))

    def execute(self, body: Sequence[ast.stmt]) -> None:
        """Traces a block of statements."""
        self.syntax.execute(self, body)

    # -- places and errors
    def at(self, node: ast.AST) -> None:
        """Operations from here on belong to this node (in a library function: to the user's call)."""
        if not self.frame.function.internal or len(self.frames) == 1:
            self.b.span = self.frame.function.source.span(node)

    def error(
        self, node: ast.AST | None, what: str, hint: str = "", kind: type[KernelError] = KernelError
    ) -> KernelError:
        """The error to raise for a node of the current function; names the calls that led here."""
        level, names = len(self.frames) - 1, []
        while level > 0 and self.frames[level].function.internal:
            names.append(self.frames[level].function.name)
            node = self.frames[level].call
            level -= 1
        if names:
            what = f"in `{names[-1]}`: {what}"
        chain = []
        for k in range(level, 0, -1):
            call = self.frames[k].call
            if call is not None and self.frames[k - 1].key != OUTSIDE:
                chain.append(
                    f"called from `{self.frames[k - 1].function.name}` at"
                    f" {self.frames[k - 1].function.source.span(call)}"
                )
        if chain:
            what += f" ({'; '.join(chain)})"
        source = self.frames[level].function.source
        return kind(what, source.span(node if node is not None else source.node), hint)

    def spelled(self, ty: Type) -> str:
        """How a user writes a scalar type here."""
        return "float" if ty is self.real else "int" if ty is int32 else f"sim.{ty.name}"

    def _cast_hint(self, ty: Type) -> str:
        return f"write {self.spelled(ty)}(...) to convert" if isinstance(ty, Scalar) else ""

    # -- weak numbers
    def as_value(self, x: TracedValue, ty: Type | None = None, node: ast.AST | None = None) -> Value:
        """A scalar as a `Value` of scalar type `ty` (None: its own; weak numbers: int32 or `real`)."""
        try:
            return self.typed(x, ty)
        except Mismatch as problem:
            raise self.error(node, *_what_and_hint(problem)) from None

    def typed(self, x: TracedValue, ty: Type | None = None) -> Value:
        """`as_value` that raises `Mismatch`."""
        if isinstance(x, Value):
            if ty is None or x.type is ty:
                return x
            raise Mismatch(f"expected {ty}, got {x.type}", self._cast_hint(ty))
        if not is_number(x):
            raise Mismatch(f"expected {ty or 'a number'}, got {describe(x)}")
        if ty is None:
            ty = type_of(x, self.real)
        if not isinstance(ty, Scalar):
            raise Mismatch(f"expected {ty}, got {describe(x)}")
        if isinstance(x, bool) != (ty is bool_):
            raise Mismatch(
                f"expected {ty}, got {describe(x)}", "write True or False" if ty is bool_ else self._cast_hint(ty)
            )
        if isinstance(x, float) and ty.is_int:
            raise Mismatch(f"expected {ty}, got {describe(x)}", self._cast_hint(ty))
        if ty.is_int and not np.iinfo(ty.np).min <= x <= np.iinfo(ty.np).max:
            raise Mismatch(f"the number {x} does not fit into {ty}", "use a wider type, as in sim.int64(...)")
        return self.b.const(x.value if isinstance(x, enum.Enum) else x, ty)

    def zero(self, ty: Type) -> TracedValue:
        """The zero of a type (structs: all fields zero, arrays None)."""
        if isinstance(ty, Struct):
            return StructValue(
                ty, {k: None if isinstance(t, ArrayType) else self.zero(t) for k, t in ty.fields.items()}
            )
        values = [self.b.const(0, leaf.scalar) for leaf in leaves_of(ty)]
        return values[0] if isinstance(ty, Scalar) else self.compose(ty, iter(values))

    # -- between values and leaves
    def compose(self, ty: Type, values: Iterator[Value]) -> TracedValue:
        """The traced value of a type from its leaves, in order."""
        if isinstance(ty, Scalar):
            return next(values)
        if isinstance(ty, Struct):
            return StructValue(ty, {k: self.compose(t, values) for k, t in ty.fields.items()})
        if isinstance(ty, Homogeneous):
            return VectorValue(ty, tuple(next(values) for _ in ty.leaves))
        if isinstance(ty, ArrayType):
            return pointers.array_at(self.b, ty, values)
        raise Mismatch(f"{ty} is not made of scalars")

    def fit(self, x: TracedValue, ty: Type) -> TracedValue:
        """x as a value of a type: weak numbers converted, anything else has to have that type already (`Mismatch`)."""
        if isinstance(ty, Scalar):
            return self.typed(x, ty)
        if isinstance(ty, ArrayType):
            return self._fit_array(x, ty)
        if type_of(x) is ty:
            return x
        made_of = isinstance(x, tuple) and isinstance(ty, Homogeneous)
        raise Mismatch(f"expected {ty}, got {describe(x)}", f"write {public_name(ty)}(...)" if made_of else "")

    def fit_or_error(self, x: TracedValue, ty: Type, what: str, node: ast.AST) -> TracedValue:
        """x as a value of a type, or an error that says `what` does not fit."""
        try:
            return self.fit(x, ty)
        except Mismatch as problem:
            found, hint = _what_and_hint(problem)
            raise self.error(node, f"{what}: {found}", hint) from None

    @staticmethod
    def _fit_array(x: TracedValue, ty: ArrayType) -> TracedValue:
        if not isinstance(x, ArrayRef):
            raise Mismatch(f"expected {ty}, got {describe(x)}")
        if x.ndim != ty.ndim or ty.dtype not in (Any, x.dtype):
            raise Mismatch(f"expected {ty}, got {type_of(x)}")
        return x

    def unify(self, a: TracedValue, b: TracedValue) -> tuple[TracedValue, TracedValue]:
        """Both values in one shape and type, so that a run-time choice between them is a value (`Mismatch` if not)."""
        if same(a, b):
            return a, a
        if is_number(a) and is_number(b):
            if isinstance(a, bool) != isinstance(b, bool):
                raise Mismatch(f"{describe(a)} and {describe(b)}")
            ty = bool_ if isinstance(a, bool) else int32 if isinstance(a, int) and isinstance(b, int) else self.real
            return self.typed(a, ty), self.typed(b, ty)
        if isinstance(a, Value) and (is_number(b) or isinstance(b, Value)):
            return a, self._or_mismatch(a, b, a.type)
        if isinstance(b, Value) and is_number(a):
            return self._or_mismatch(b, a, b.type), b
        if isinstance(a, VectorValue) and isinstance(b, VectorValue) and a.type is b.type:
            return a, b
        if isinstance(a, StructValue) and isinstance(b, StructValue) and a.type is b.type:
            pairs = {k: self.unify(a.values[k], b.values[k]) for k in a.values}
            return StructValue(a.type, {k: p[0] for k, p in pairs.items()}), StructValue(
                a.type, {k: p[1] for k, p in pairs.items()}
            )
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            both = [self.unify(x, y) for x, y in zip(a, b, strict=True)]
            return tuple(x for x, _ in both), tuple(y for _, y in both)
        if isinstance(a, ArrayRef) and isinstance(b, ArrayRef):
            a, b = chosen_arrays.as_choices(self.b, self.block.params, a, b)
        if isinstance(a, ArrayRef) and isinstance(b, ArrayRef) and like_views(a, b):
            rows = [self.unify(x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]
            return rebuild(a, iter([x for x, _ in rows])), rebuild(b, iter([y for _, y in rows]))
        if isinstance(a, ArrayRef) and isinstance(b, ArrayRef):
            raise Mismatch("two different arrays, or parts of them", "choose between elements: `a[i] if c else b[i]`")
        raise Mismatch(f"{describe(a)} and {describe(b)}")

    def _or_mismatch(self, typed: Value, other: TracedValue, ty: Type) -> Value:
        try:
            return self.typed(other, ty)
        except Mismatch:
            raise Mismatch(f"{describe(typed)} and {describe(other)}") from None

    # -- what Python knows
    def static(self, x: TracedValue, name: str, node: ast.AST) -> TracedValue:
        """A captured Python object as a traced value."""
        if isinstance(x, np.generic):
            # the kinds that NumPy makes by default are as weak as Python's own numbers
            return x.item() if isinstance(x, (np.bool_, np.int64, np.float64)) else self.b.const(x, from_numpy(x.dtype))
        if isinstance(x, enum.Enum):
            return x
        if isinstance(x, HostNumber):
            return self.b.const(x.value, x.type)
        if is_number(x):
            return bool(x) if isinstance(x, bool) else int(x) if isinstance(x, int) else float(x)
        if isinstance(x, Composite):
            return VectorValue(x.type, tuple(self.b.const(v, x.type.dtype) for v in x.data.ravel()))
        if isinstance(x, HostStruct):
            return self._static_struct(x, name, node)
        if isinstance(x, (list, tuple)) and not is_traced(x):
            return tuple(self.static(v, name, node) for v in x)
        if isinstance(x, type) or isinstance(x, (Type, Function)):
            return x
        if hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
            raise self.error(
                node,
                f"`{name}` is an array from outside of the kernel",
                f"pass it as an argument: `{name}: sim.array(dtype=...)`",
            )
        return x

    def of_static(self, x: TracedValue, node: ast.AST) -> TracedValue:
        """What `static(...)` stands for."""
        return x if isinstance(x, range) else self.static(x, "static(...)", node)

    def _static_struct(self, x: HostStruct, name: str, node: ast.AST) -> StructValue:
        ty: Struct = x._sim_struct_
        values = {}
        for key, field in ty.fields.items():
            held = getattr(x, key)
            part = self.static(bool(held) if field is bool_ else held, f"{name}.{key}", node)
            values[key] = None if part is None else self.fit(part, field)
        return StructValue(ty, values)

    # -- memory
    def load(self, x: TracedValue) -> TracedValue:
        """The value of a `LValue`; other values as they are."""
        if not isinstance(x, LValue):
            return x
        return self.compose(x.type, iter(self._leaves(x)))

    def _leaves(self, x: LValue) -> Sequence[Value]:
        count = len(leaves_of(in_memory(x.type)))
        if isinstance(x.array, ChosenArray):
            return chosen_arrays.by_option(self.b, x.array, lambda option: self._leaves(replace(x, array=option)))
        if isinstance(x.array, LocalArray):
            values: Sequence[Value] = local_arrays.read(self.b, x, self.env[x.array.name])
        elif isinstance(x.array, PointerArray):
            values = pointers.read(self.b, x)
        elif x.offset is None:
            values = self.b.load(x.array, x.index, range(x.first, x.first + count))
        else:
            leaves = range(x.first, x.first + x.extent)
            values = [self.b.load(x.array, x.index, leaves, self.leaf(x.offset, c))[0] for c in range(count)]
        return values

    def write(self, x: LValue, values: Sequence[Value], how: Callable[..., Any]) -> None:
        """Store or accumulate leaves; `how`: `Builder.store` or `Builder.accum`."""
        if isinstance(x.array, ChosenArray):
            chosen_arrays.by_option(self.b, x.array, lambda option: self.write(replace(x, array=option), values, how))
            return
        if isinstance(x.array, LocalArray):
            content = self.env[x.array.name]
            self.env[x.array.name] = local_arrays.written(self.b, x, content, values, how == self.b.accum)
            return
        if isinstance(x.array, PointerArray):
            if x.array.constant:
                raise self.error(None, f"`{x.array.name}` is an array of a structure, which kernels only read")
            pointers.write(self.b, x, values, how == self.b.accum)
            return
        if x.offset is None:
            how(x.array, x.index, range(x.first, x.first + len(values)), values)
            return
        leaves = range(x.first, x.first + x.extent)
        for c, v in enumerate(values):
            how(x.array, x.index, leaves, [v], self.leaf(x.offset, c))

    def accumulate(self, x: LValue, values: Sequence[Value]) -> None:
        """Add to leaves.  A literal 0 adds nothing: that leaf is left alone."""
        if isinstance(x.array, ChosenArray):
            chosen_arrays.by_option(self.b, x.array, lambda option: self.accumulate(replace(x, array=option), values))
            return
        adds = [c for c, v in enumerate(values) if constant(v) != 0.0] if x.offset is None else []
        if len(adds) == len(values) or not adds or not isinstance(x.array, Value):
            self.write(x, values, self.b.accum)
        else:
            self.b.accum(x.array, x.index, [x.first + c for c in adds], [values[c] for c in adds])

    def leaf(self, offset: Value, c: int) -> Value:
        return self.b.emit("add", offset, c) if c else offset

    def fit_lvalue(self, x: LValue, value: TracedValue, node: ast.AST) -> list[Value]:
        """The leaves of a value that goes into an array element, which has to have its type."""
        try:
            value = self.load(value)
            empty = value is None and isinstance(x.type, ArrayType)
            return pointers.stored(self.b, value if empty else self.fit(value, x.type), x.type)
        except Mismatch as problem:
            what, hint = _what_and_hint(problem)
            raise self.error(node, f"an element of `{self._shown(x.array)}` is {x.type}: {what}", hint) from None

    def _shown(self, array: AnyMemory) -> str:
        """The name of an array in a message."""
        if not isinstance(array, LocalArray):
            return array.name
        return next(
            (name for name, x in self.env.items() if isinstance(x, ArrayRef) and x.array is array), "a local array"
        )

    def logical(self, x: TracedValue, node: ast.AST) -> TracedValue:
        """x as a condition: a Python bool if it is known, else a bool `Value`."""
        x = self.load(x)
        if isinstance(x, Value):
            known = constant(x)
            if known is not None:
                return bool(known)
            return x if x.type is bool_ else self.b.emit("ne", x, self.b.const(0, x.type))
        if isinstance(x, ArrayRef):  # as in Warp: false where None has been passed
            return self.b.emit("gt", extents(self.b, x)[0], 0)
        if is_traced(x) or isinstance(x, Range):
            raise self.error(node, f"{describe(x)} is neither true nor false", "compare it with something")
        return bool(x)

    def logical_not(self, x: TracedValue) -> TracedValue:
        """Logical not of a bool or a bool `Value`."""
        return self.b.emit("not", x) if isinstance(x, Value) else not x

    def finish(self, name: str, span: Span | None, values: Sequence[Value]) -> Func:
        self.block.yields = list(values)
        if self.dims > 1:
            for v in self.single_tids:
                v.op.attrs["axis"] = 0  # type: ignore[union-attr]
        return Func(name, self.block, span, self.dims, {"captures": self.captures})

    def inline(self, func: Func, args: Sequence[Value]) -> list[Value]:
        """The results of a traced function for these arguments; what it has captured, this trace has too."""
        self.captures.include(func.captures)
        return inline_call(self.b, func, args)


def _what_and_hint(problem: Mismatch) -> tuple[str, str]:
    return str(problem.args[0]), str(problem.args[1]) if len(problem.args) > 1 else ""
