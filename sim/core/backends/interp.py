"""The reference interpreter: the living definition of the IR.

One thread at a time, on NumPy scalars; the meaning of a primitive is the `numpy` column of its row.  Slow and plain on
purpose: the other back ends are tested against it, and races show up by running the threads in another `order`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.backends.base import (
    ASSERT_FAILED,
    ERROR_SLOT,
    FIRST_PARAM,
    OUT_OF_BOUNDS,
    Record,
    Site,
    error_sites,
    int64_view,
    leaf_offsets,
    param_slots,
    print_text,
    slots_of,
)
from sim.core.lang.errors import SimError
from sim.core.lang.ir.core import Block, Func, Op, Value, moved_scalars, split_memory
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import ArrayType, Scalar, Type, float16, size_of

Order = Callable[[int], Iterable[int]]
_ATOMIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "min": np.fmin, "max": np.fmax, "exch": lambda old, new: new,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@dataclass(frozen=True)
class _Array:
    """An array as a kernel sees it: an address, a shape, byte strides."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Fault:
    """A failed assertion or an access outside of an array."""

    op: Op
    kind: int
    index: int
    bound: int


def convert(value: Any, kind: Scalar) -> Any:
    """`cast`: floats to integers truncate and saturate, a NaN becomes 0; to bool: not equal to zero; integers wrap."""
    if kind.is_int and isinstance(value, np.floating):
        limits = np.iinfo(kind.np)
        if np.isnan(value):
            return kind.np.type(0)
        if np.isinf(value):
            return kind.np.type(limits.max if value > 0 else limits.min)
        return kind.np.type(min(max(int(value), limits.min), limits.max))
    if kind is float16:  # by way of single precision, as hardware does
        value = np.asarray(value).astype(np.float32)
    return np.asarray(value).astype(kind.np)[()]


def apply(name: str, args: Sequence[Any], kind: Scalar) -> Any:
    """One primitive on NumPy scalars; the result has type `kind`."""
    if name == "cast":
        return convert(args[0], kind)
    if name == "reinterpret":
        return np.asarray(args[0]).view(kind.np)[()]
    return np.asarray(OPS[name].numpy(*args)).astype(kind.np)[()]


class Thread:
    """Runs blocks for one thread index.  `fault` decides what a failure does."""

    def __init__(self, linear: int, coords: Sequence[int], fault: Callable[[_Fault, int], None]) -> None:
        self.linear, self.coords, self.fault = linear, coords, fault
        self.env: dict[Value, Any] = {}

    def get(self, values: Iterable[Value]) -> list[Any]:
        return [self.env[v] for v in values]

    def set(self, values: Iterable[Value], results: Iterable[Any]) -> None:
        for v, r in zip(values, results, strict=True):
            self.env[v] = r

    def block(self, block: Block, params: Iterable[Any] = ()) -> list[Any]:
        """Executes a block; the values that it yields."""
        self.set(block.params, params)
        for op in block.ops:
            if op.is_primitive:
                kind = op.results[0].type
                assert isinstance(kind, Scalar)
                args = self.get(op.operands)
                if op.name == "in_bounds" and not 0 <= args[0] < args[1]:
                    self.fault(_Fault(op, OUT_OF_BOUNDS, int(args[0]), int(args[1])), self.linear)
                self.set(op.results, [apply(op.name, args, kind)])
            else:
                self.set(op.results, getattr(self, f"do_{op.name}")(op))
        return self.get(block.yields)

    # -- control flow
    def do_const(self, op: Op) -> list[Any]:
        return [op.results[0].type.np.type(op.attrs["value"])]  # type: ignore[attr-defined]

    def do_if(self, op: Op) -> list[Any]:
        return self.block(op.regions[0 if self.env[op.operands[0]] else 1])

    def do_for(self, op: Op) -> list[Any]:
        n, *carried = self.get(op.operands)
        steps = range(int(n))
        for k in reversed(steps) if op.reverse else steps:
            carried = self.block(op.regions[0], [n.dtype.type(k), *carried])
        return carried

    def do_while(self, op: Op) -> list[Any]:
        carried = self.get(op.operands)
        while self.block(op.regions[0], carried)[0]:
            carried = self.block(op.regions[1], carried)
        return carried

    def do_call(self, op: Op) -> list[Any]:
        callee = Thread(self.linear, self.coords, self.fault)
        return callee.block(op.callee.body, self.get(op.operands))

    # -- memory
    def address(self, op: Op) -> tuple[list[int], list[Value], bool]:
        """Addresses of the scalars that a memory operation touches, its value operands, whether all is inside."""
        array_value, index, leaf, values = split_memory(op)
        array: _Array = self.env[array_value]
        at, inside = array.data, True
        checks = list(zip((int(self.env[i]) for i in index), array.shape, strict=True))
        offsets = list(leaf_offsets(op))
        if leaf is not None:
            checks.append((int(self.env[leaf]), len(offsets)))
        for i, bound in checks:
            if inside and not 0 <= i < bound:
                inside = False
                self.fault(_Fault(op, OUT_OF_BOUNDS, i, bound), self.linear)
        if not inside:
            return [], values, False
        at += sum(i * stride for (i, _), stride in zip(checks, array.strides, strict=False))
        if leaf is not None:
            offsets = [offsets[checks[-1][0]]]
        return [at + o for o in offsets], values, True

    def do_load(self, op: Op) -> list[Any]:
        kinds = moved_scalars(op)
        places, _, inside = self.address(op)
        return [_read(p, k) for p, k in zip(places, kinds, strict=True)] if inside else [k.np.type(0) for k in kinds]

    def do_store(self, op: Op) -> list[Any]:
        places, values, inside = self.address(op)
        if inside:
            for place, value in zip(places, self.get(values), strict=True):
                _write(place, value)
        return []

    def do_accum(self, op: Op) -> list[Any]:
        self.update(op, np.add)
        return []

    def do_atomic(self, op: Op) -> list[Any]:
        if op.how != "cas":
            return self.update(op, _ATOMIC[op.how])
        compared = iter(self.get(op.compared))
        return self.update(op, lambda old, new: new if old == next(compared) else old)

    def update(self, op: Op, how: Callable[[Any, Any], Any]) -> list[Any]:
        kinds = moved_scalars(op)
        places, values, inside = self.address(op)
        if not inside:
            return [k.np.type(0) for k in kinds]
        old = []
        for place, kind, value in zip(places, kinds, self.get(values), strict=True):
            old.append(_read(place, kind))
            _write(place, how(old[-1], value).astype(kind.np))
        return old

    def do_peek(self, op: Op) -> list[Any]:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        return [_read(int(self.env[op.operands[0]]), kind)]

    def do_tape(self, op: Op) -> list[Any]:
        return [np.zeros(op.attrs["slots"], op.attrs["scalar"].np)]

    def do_tape_load(self, op: Op) -> list[Any]:
        tape, k = self.get(op.operands)
        return [tape[self.slot(tape, k)]]

    def do_tape_store(self, op: Op) -> list[Any]:
        tape, k, value = self.get(op.operands)
        tape[self.slot(tape, k)] = value
        return []

    @staticmethod
    def slot(tape: np.ndarray, k: Any) -> int:
        if not 0 <= k < len(tape):
            raise IndexError(f"tape slot {k} of {len(tape)}: a bug of the compiler")
        return int(k)

    # -- the launch, and the world
    def do_tid(self, op: Op) -> list[Any]:
        axis = op.axis
        return [np.int64(self.linear if axis < 0 else self.coords[axis]).astype(np.int32)]

    def do_shape(self, op: Op) -> list[Any]:
        return [np.int64(self.env[op.operands[0]].shape[op.axis]).astype(np.int32)]

    def do_address(self, op: Op) -> list[Any]:
        return [np.uint64(self.env[op.operands[0]].data)]

    def do_load_at(self, op: Op) -> list[Any]:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        return [_read(int(self.env[op.operands[0]]), kind)]

    def do_store_at(self, op: Op) -> list[Any]:
        _write(int(self.env[op.operands[0]]), self.env[op.operands[1]])
        return []

    def do_print(self, op: Op) -> list[Any]:
        sys.stdout.write(print_text(op.attrs["format"], self.get(op.operands)))
        return []

    def do_assert(self, op: Op) -> list[Any]:
        if not self.env[op.operands[0]]:
            self.fault(_Fault(op, ASSERT_FAILED, 0, 0), self.linear)
        return []


def _read(address: int, kind: Scalar) -> Any:
    return np.frombuffer(ctypes.string_at(address, kind.size), kind.np)[0]


def _write(address: int, value: Any) -> None:
    raw = value.tobytes()
    ctypes.memmove(address, raw, len(raw))


def _argument(kind: Type, value: Any) -> Any:
    if not isinstance(kind, ArrayType):
        assert isinstance(kind, Scalar)
        return kind.np.type(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected a NumPy array for {kind}, got {type(value).__name__}")
    return _Array(value.ctypes.data, value.shape[: kind.ndim], value.strides[: kind.ndim])


def _raise(fault: _Fault, linear: int) -> None:
    where = f"{fault.op.span}: " if fault.op.span else ""
    if fault.kind == ASSERT_FAILED:
        raise SimError(f"{where}assertion failed: {fault.op.attrs.get('message') or ''}")
    if fault.op.name == "in_bounds":
        raise IndexError(f"{where}index {fault.index} is outside of 0 .. {fault.bound - 1} (thread {linear})")
    access = f"{fault.op.name} of '{fault.op.operands[0].name}'"
    raise IndexError(f"{where}{access} at {fault.index}, outside of 0 .. {fault.bound - 1} (thread {linear})")


def evaluate(func: Func, *args: Any) -> tuple:
    """The results of a pure function (NumPy scalars), for scalars and NumPy arrays as arguments.

    A kernel can be evaluated too: it runs thread 0, and its effects happen.  Failures raise at once.
    """
    if len(args) != len(func.params):
        raise TypeError(f"{func.name} takes {len(func.params)} arguments, got {len(args)}")
    with np.errstate(all="ignore"):
        values = [_argument(p.type, a) for p, a in zip(func.params, args, strict=True)]
        return tuple(Thread(0, (0, 0, 0, 0), _raise).block(func.body, values))


class InterpExecutable:
    """A kernel that the interpreter runs."""

    record = None

    def __init__(self, func: Func, check: bool, order: Order) -> None:
        self.func, self.check, self.order = func, check, order
        self.sites: list[Site]
        self.sites, self.numbers = error_sites(func, check)
        self.slots = param_slots(func)

    def run(self, block: int, begin: int, end: int) -> None:
        count = self.slots[-1] + slots_of(self.func.params[-1].type) if self.slots else FIRST_PARAM
        slots = int64_view(block, count)
        args = [self.read(p.type, slots[at:]) for p, at in zip(self.func.params, self.slots, strict=True)]
        dims = [int(d) for d in slots[:4]]
        record = int64_view(int(slots[ERROR_SLOT]), 8) if slots[ERROR_SLOT] else None

        def fault(what: _Fault, linear: int) -> None:
            number = self.numbers.get(what.op)
            if number is None and what.op.name == "in_bounds":
                return
            if number is None:  # an unchecked access outside of its array: native code would crash or corrupt memory
                _raise(what, linear)
            elif record is not None and not record[0]:
                index = (what.index + 2**63) % 2**64 - 2**63  # an uint64 keeps its bits
                record[:6] = 1, what.kind, number, linear, index, what.bound

        with np.errstate(all="ignore"):
            for k in self.order(end - begin):
                linear = begin + int(k)
                coords = [int(c) for c in np.unravel_index(linear, dims)]
                Thread(linear, coords, fault).block(self.func.body, args)

    @staticmethod
    def read(kind: Type, slots: np.ndarray) -> Any:
        if isinstance(kind, ArrayType):
            data, *rest = (int(s) for s in slots[: slots_of(kind)])
            return _Array(data, tuple(rest[: kind.ndim]), tuple(rest[kind.ndim :]))
        return np.frombuffer(slots[:1].tobytes()[: size_of(kind)], kind.np)[0]  # type: ignore[attr-defined]


class InterpBackend:
    """The interpreter behind the seam.  `order(n)` gives the order in which n threads run (default: ascending)."""

    name, few_apart, kept_as = "interp", False, ""

    def __init__(self, order: Order = range) -> None:
        self.order = order

    def again(self, record: Record) -> None:
        """See `Backend`: nothing is kept."""

    def begin(self, func: Func, check: bool = False, soon: bool = False) -> None:
        """See `Backend`: there is no such way."""

    def compile(self, func: Func, check: bool = False) -> InterpExecutable:
        return InterpExecutable(func, check, self.order)
