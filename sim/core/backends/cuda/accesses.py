"""Loads, stores and accumulations as CUDA C++: wide where elements allow it, atomic where threads may meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.core.backends.base import OUT_OF_BOUNDS, leaf_offsets
from sim.core.backends.cuda.body import CudaBody
from sim.core.backends.cuda.writer import arithmetic, cuda_type, literal
from sim.core.lang.analysis.thread_locality import needs_atomics
from sim.core.lang.errors import KernelError
from sim.core.lang.ir.core import Op, Value, moved_scalars, split_memory
from sim.core.lang.ir.verifier import InvalidIR
from sim.core.lang.types import ArrayType, Homogeneous, Scalar, Type, size_of

_UPDATES = {
    "min": "sim_smaller()",
    "max": "sim_larger()",
    "exch": "sim_new()",
    "and": "sim_ands()",
    "or": "sim_ors()",
    "xor": "sim_xors()",
    "cas": "sim_new_if<{t}>{{{compared}}}",
}
_WIDE = {(4, 2): 2, (4, 4): 4, (8, 2): 2}
"""(bytes of a scalar, scalars) that one instruction moves -> scalars of the built-in vector type."""


def wide_size(kind: Type) -> int:
    """Bytes that one instruction can move of an element, if it is aligned to as many; 0: scalars only."""
    if not isinstance(kind, Homogeneous) or kind.dtype.kind == "b":
        return 0
    return next(
        (
            w
            for w in (16, 8)
            if w > kind.dtype.size and (kind.dtype.size, w // kind.dtype.size) in _WIDE and kind.size % w == 0
        ),
        0,
    )


class CudaAccesses(CudaBody):
    """Writes operations, those on memory too."""

    def stride(self, array: Value, axis: int) -> str:
        kind = array.type
        assert isinstance(kind, ArrayType) and kind.dtype is not Any
        if array in self.packed:
            if axis == kind.ndim - 1:
                return f"{size_of(kind.dtype)}LL"
            if axis == kind.ndim - 2 and array in self.narrow:
                return f"{self.narrow[array] * size_of(kind.dtype)}LL"
            if axis == kind.ndim - 2:
                return f"({self.member(array)}.n[{axis + 1}] * {size_of(kind.dtype)}LL)"
        return f"{self.member(array)}.s[{axis}]"

    def element(self, op: Op) -> str:
        """The address of the element that a memory operation touches, as a variable."""
        array, index, _, _ = split_memory(op)
        terms = [f"{self.ref(i)} * {self.stride(array, axis)}" for axis, i in enumerate(index)]
        place = self.fresh(f"at_{array.name}")
        self.put(f"char *const {place} = {self.member(array)}.data + {' + '.join(terms)};")
        return place

    def places(self, op: Op) -> list[str]:
        """Addresses of the scalars that a memory operation touches."""
        place, offsets, leaf = self.element(op), leaf_offsets(op), split_memory(op)[2]
        if leaf is not None:
            step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
            if any(o != offsets[0] + k * step for k, o in enumerate(offsets)):
                raise InvalidIR(f"{self.func.name}: {op.name} at a run-time leaf: the leaves are not evenly spaced")
            return [f"{place} + {offsets[0]} + {self.ref(leaf)} * {step}LL"]
        return [f"{place} + {o}" if o else place for o in offsets]

    def wide(self, op: Op) -> int:
        """Bytes per instruction if the operation moves whole aligned pieces of an element, else 0."""
        array = op.operands[0]
        size = wide_size(array.type.dtype)  # type: ignore[attr-defined]
        if self.careful or not size or array not in self.packed or op.dynamic:
            return 0
        kind = array.type.dtype  # type: ignore[attr-defined]
        return size if tuple(op.leaves) == tuple(range(len(kind.leaves))) else 0

    def access(self, op: Op, act: Callable[[], list[str]]) -> None:
        """`act() -> results` of a memory operation; in check mode, results are 0 if the index is outside."""
        if not self.check:
            self.name(op.results, act())
            return
        array, index, leaf, _ = split_memory(op)
        bounds = [(self.ref(i), f"{self.member(array)}.n[{axis}]") for axis, i in enumerate(index)]
        if leaf is not None:
            bounds.append((self.ref(leaf), f"{len(op.leaves)}"))
        results = self.variables(op.results, [literal(0, v.type) for v in op.results])  # type: ignore[arg-type]
        for k, (i, bound) in enumerate(bounds):
            self.put(
                f"{'} else ' if k else ''}if ((unsigned long long)(long long){i} >= (unsigned long long)(long"
                f" long){bound}) {{"
            )
            self.put(f"    sim_fail(args.error, {OUT_OF_BOUNDS}, {self.numbers[op]}, thread, {i}, {bound});")
        self.put("} else {")
        self.depth += 1
        for name, value in zip(results, act(), strict=True):
            self.put(f"{name} = {value};")
        self.depth -= 1
        self.put("}")
        self.name(op.results, results)

    def load(self, place: str, kind: Scalar, name: str) -> str:
        made = self.fresh(name)
        self.put(f"const {cuda_type(kind)} {made} = sim_at<{cuda_type(kind)}>({place});")
        return made

    def emit_peek(self, op: Op) -> None:
        t = cuda_type(op.results[0].type)
        self.define(op.results[0], f"*(const {t}*){self.ref(op.operands[0])}")

    def refuse_addresses(self, op: Op) -> None:
        """The order in which memory by its address is read and written would not be kept here."""
        raise KernelError("memory by its address (`a.ptr`, array(ptr=...)) is for kernels on the CPU", op.span)

    emit_address = emit_load_at = emit_store_at = refuse_addresses

    def emit_load(self, op: Op) -> None:
        def act() -> list[str]:
            size = self.wide(op)
            if not size:
                return [
                    self.load(p, k, v.name)
                    for p, k, v in zip(self.places(op), moved_scalars(op), op.results, strict=True)
                ]
            place, kind = self.element(op), moved_scalars(op)[0]
            count = size // kind.size
            out: list[str] = []
            for piece in range(len(op.results) // count):
                made = self.fresh("wide")
                self.put(
                    f"const {vector_type(kind, count)} {made} = sim_at<{vector_type(kind, count)}>({place} +"
                    f" {piece * size});"
                )
                out += [f"{made}.{c}" for c in "xyzw"[:count]]
            return out

        self.access(op, act)

    def emit_store(self, op: Op) -> None:
        def act() -> list[str]:
            values, size, kinds = [self.ref(v) for v in split_memory(op)[3]], self.wide(op), moved_scalars(op)
            if not size:
                for place, kind, value in zip(self.places(op), kinds, values, strict=True):
                    self.put(f"sim_at<{cuda_type(kind)}>({place}) = {value};")
                return []
            place, count = self.element(op), size // kinds[0].size
            t = vector_type(kinds[0], count)
            for first in range(0, len(values), count):
                parts = ", ".join(values[first : first + count])
                self.put(f"sim_at<{t}>({place} + {first * kinds[0].size}) = make_{t}({parts});")
            return []

        self.access(op, act)

    def emit_accum(self, op: Op) -> None:
        def act() -> list[str]:
            index = split_memory(op)[1]
            how = self.meeting(index) if not op.dynamic else "sim_atomic_add"
            for place, kind, value in zip(
                self.places(op), moved_scalars(op), map(self.ref, split_memory(op)[3]), strict=True
            ):
                t = cuda_type(kind)
                if self.func.attrs.get("serial") or not needs_atomics(op, self.own):
                    self.put(f"sim_at<{t}>({place}) = {arithmetic('add', kind, [f'sim_at<{t}>({place})', value])};")
                elif kind.is_float and kind.bits >= 32 and how != "sim_atomic_add":
                    self.put(f"{how}<{t}>({place}, {value});")
                else:
                    self.put(f"sim_atomic_add({place}, ({t}){value});")
            return []

        self.access(op, act)

    def meeting(self, index: Sequence[Value]) -> str:
        """How threads add here: all at one place, many at one (each material or world has one), or few."""
        if all(i in self.uniform for i in index):
            return "sim_add_shared"
        made = index[0].op if len(index) == 1 else None
        while made is not None and made.name in ("from_end", "cast"):  # a loaded index that may count from the end
            made = made.operands[0].op
        if made is not None and made.name == "load" and len(made.operands) == 2 and made.operands[1] in self.axes:
            return "sim_add_grouped"
        return "sim_atomic_add"

    def emit_atomic(self, op: Op) -> None:
        def act() -> list[str]:
            out = []
            moved = zip(self.places(op), moved_scalars(op), map(self.ref, split_memory(op)[3]), strict=True)
            for k, (place, kind, value) in enumerate(moved):
                t, how = cuda_type(kind), op.how
                if how == "add":
                    text = f"sim_atomic_add({place}, ({t}){value})"
                else:
                    compared = self.ref(op.compared[k]) if how == "cas" else ""
                    text = f"sim_update<{t}>({place}, {value}, {_UPDATES[how].format(t=t, compared=compared)})"
                out.append(self.fresh("old"))
                self.put(f"const {t} {out[-1]} = {text};")
            return out if op.results else []

        self.access(op, act)


def vector_type(kind: Scalar, count: int) -> str:
    """The built-in vector type of `count` scalars."""
    base = {
        "int32": "int",
        "uint32": "uint",
        "int64": "longlong",
        "uint64": "ulonglong",
        "float32": "float",
        "float64": "double",
    }
    return f"{base[kind.name]}{count}"
