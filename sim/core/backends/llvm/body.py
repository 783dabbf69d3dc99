"""The operations of a kernel as LLVM text: what one thread does."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from sim.core.backends.base import (
    ASSERT_FAILED,
    OUT_OF_BOUNDS,
    Site,
    error_sites,
    leaf_offsets,
)
from sim.core.backends.llvm.elementary import ElementaryWriter
from sim.core.backends.llvm.machine_code.toolchain import PRINT_SYMBOL
from sim.core.backends.llvm.writer import literal, llvm_type, memory_type
from sim.core.lang.ir.core import Block, Func, Op, Value, moved_scalars, split_memory
from sim.core.lang.ir.lower_bounds import DEPTH, Bound, at_least_zero, made_bound
from sim.core.lang.ir.verifier import InvalidIR
from sim.core.lang.types import ArrayType, Scalar, bool_, size_of

_GROUP = ", !llvm.access.group !0"
"""Of plain accesses: see the loop over the threads."""
_CONSTANT = ", !invariant.load !{}"
"""Of what nothing writes while the launch runs."""


class BodyEmitter(ElementaryWriter):
    """Writes operations as lines; `sites`: the places that the error record of the kernel names."""

    def __init__(self, func: Func, check: bool = False) -> None:
        super().__init__()
        self.func, self.check = func, check
        self.sites: list[Site]
        self.sites, self.numbers = error_sites(func, check)
        self.names: dict[Value, str] = {}
        self.data: list[str] = []
        self.print_slots = 0
        self.tapes: list[str] = []
        self.not_negative: Set[Op] = frozenset()
        """The `from_end` whose index counts from the beginning in all threads of this body."""
        self.counters: set[Value] = set()
        self.jumps = False
        """Whether an index that counts from the end is jumped to: nothing here becomes vectors anyhow."""

    def ref(self, value: Value) -> str:
        return self.names[value]

    def name(self, values: Sequence[Value], names: Sequence[str]) -> None:
        for v, n in zip(values, names, strict=True):
            self.names[v] = n

    # -- blocks and control flow
    def block(self, block: Block) -> list[str]:
        for op in block.ops:
            if op.is_primitive:
                self.name(op.results, [self.primitive(op)])
            else:
                handler: Callable[[Op], None] = getattr(self, f"emit_{op.name}")
                handler(op)
        return [self.ref(v) for v in block.yields]

    def emit_const(self, op: Op) -> None:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        self.name(op.results, [literal(op.attrs["value"], kind)])

    def emit_if(self, op: Op) -> None:
        labels = [self.label(), self.label()]
        after = self.label()
        self.put(f"br i1 {self.ref(op.operands[0])}, label %{labels[0]}, label %{labels[1]}")
        yields, ends = [], []
        for label, region in zip(labels, op.regions, strict=True):
            self.start(label)
            yields.append(self.block(region))
            ends.append(self.here)
            self.put(f"br label %{after}")
        self.start(after)
        for result, a, b in zip(op.results, *yields, strict=True):
            phi = f"phi {llvm_type(result.type)} [ {a}, %{ends[0]} ], [ {b}, %{ends[1]} ]"
            self.name([result], [self.let(phi)])

    def emit_for(self, op: Op) -> None:
        body, n = op.regions[0], self.ref(op.operands[0])
        kind = op.operands[0].type
        assert isinstance(kind, Scalar)
        t, signed = llvm_type(kind), kind.kind == "i"
        head, inside, after = self.label(), self.label(), self.label()
        counter, following = f"%k{self.count}", f"%n{self.count}"
        before = self.here
        self.put(f"br label %{head}")
        self.start(head)
        place = self.reserve()
        carried = self.fresh(len(op.results))
        more = self.let(f"icmp {'slt' if signed else 'ult'} {t} {counter}, {n}")
        self.put(f"br i1 {more}, label %{inside}, label %{after}")
        self.start(inside)
        k = counter
        if op.reverse:
            k = self.let(f"sub {t} {self.let(f'sub {t} {n}, 1')}, {counter}")
        self.name(body.params, [k, *carried])
        self.counters.add(body.params[0])
        yields = self.block(body)
        self.put(f"{following} = add {'nsw' if signed else 'nuw'} {t} {counter}, 1")
        self.put(f"br label %{head}")
        init = ["0", *(self.ref(v) for v in op.operands[1:])]
        again = [following, *yields]
        self.fill(place, [t, *self.types(op.results)], [counter, *carried], init, before, again, self.here)
        self.start(after)
        self.name(op.results, carried)

    def emit_while(self, op: Op) -> None:
        cond, body = op.regions
        head, inside, after = self.label(), self.label(), self.label()
        before = self.here
        self.put(f"br label %{head}")
        self.start(head)
        place = self.reserve()
        carried = self.fresh(len(op.results))
        self.name(cond.params, carried)
        more = self.block(cond)[0]
        self.put(f"br i1 {more}, label %{inside}, label %{after}")
        self.start(inside)
        self.name(body.params, carried)
        yields = self.block(body)
        self.put(f"br label %{head}")
        init = [self.ref(v) for v in op.operands]
        self.fill(place, self.types(op.results), carried, init, before, yields, self.here)
        self.start(after)
        self.name(op.results, carried)

    def fresh(self, count: int) -> list[str]:
        self.count += count
        return [f"%t{self.count - j}" for j in range(count)]

    @staticmethod
    def types(values: Sequence[Value]) -> list[str]:
        return [llvm_type(v.type) for v in values]

    def fill(
        self,
        place: int,
        types: Sequence[str],
        names: Sequence[str],
        init: Sequence[str],
        before: str,
        again: Sequence[str],
        end: str,
    ) -> None:
        rows = zip(types, names, init, again, strict=True)
        self.lines[place] = "\n".join(f"  {v} = phi {t} [ {a}, %{before} ], [ {b}, %{end} ]" for t, v, a, b in rows)

    def emit_call(self, op: Op) -> None:
        raise InvalidIR(f"{self.func.name}: the call of {op.callee.name} was not inlined")

    # -- launch indices, shapes, tapes
    def emit_tid(self, op: Op) -> None:
        axis = op.axis
        if axis >= self.func.dims:
            raise InvalidIR(f"{self.func.name}: tid of axis {axis} in a launch of {self.func.dims} dimensions")
        source = "%linear" if axis < 0 else f"%c{axis}"
        self.name(op.results, [self.let(f"trunc nsw i64 {source} to i32")])

    def emit_shape(self, op: Op) -> None:
        extent = f"{self.ref(op.operands[0])}.n{op.axis}"
        self.name(op.results, [self.let(f"trunc nsw i64 {extent} to i32")])

    def emit_address(self, op: Op) -> None:
        self.name(op.results, [self.let(f"ptrtoint ptr {self.ref(op.operands[0])} to i64")])

    def emit_load_at(self, op: Op) -> None:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        place = self.let(f"inttoptr i64 {self.ref(op.operands[0])} to ptr")
        self.name(op.results, [self.load(place, kind, "")])

    def emit_store_at(self, op: Op) -> None:
        kind = op.operands[1].type
        assert isinstance(kind, Scalar)
        place = self.let(f"inttoptr i64 {self.ref(op.operands[0])} to ptr")
        self.store(place, kind, self.ref(op.operands[1]), "")

    def emit_tape(self, op: Op) -> None:
        # in the entry of the body: inlining moves it to the entry of the range function, one for all threads, and
        # marks its life, so that LLVM knows that nothing survives from one thread to the next
        name = f"%tape{len(self.tapes)}"
        scalar = op.attrs["scalar"]
        self.tapes.append(f"  {name} = alloca [{op.attrs['slots']} x {memory_type(scalar)}], align 16")
        self.name(op.results, [name])

    def tape_slot(self, op: Op) -> tuple[str, Scalar]:
        scalar = op.operands[0].type.scalar  # type: ignore[attr-defined]
        tape, index = self.ref(op.operands[0]), self.to_i64(op.operands[1])
        return self.let(f"getelementptr inbounds {memory_type(scalar)}, ptr {tape}, i64 {index}"), scalar

    def emit_tape_load(self, op: Op) -> None:
        place, scalar = self.tape_slot(op)
        self.name(op.results, [self.load(place, scalar, "")])

    def emit_tape_store(self, op: Op) -> None:
        place, scalar = self.tape_slot(op)
        self.store(place, scalar, self.ref(op.operands[2]), "")

    # -- memory
    def to_i64(self, value: Value) -> str:
        """An index as an i64."""
        kind, name = value.type, self.ref(value)
        assert isinstance(kind, Scalar)
        if kind.bits == 64 or not name.startswith("%"):
            return name
        return self.let(f"{'sext' if kind.kind == 'i' else 'zext'} {llvm_type(kind)} {name} to i64")

    def load(self, place: str, kind: Scalar, group: str) -> str:
        raw = self.let(f"load {memory_type(kind)}, ptr {place}, align {kind.size}{group}")
        return self.let(f"icmp ne i8 {raw}, 0") if kind is bool_ else raw

    def store(self, place: str, kind: Scalar, value: str, group: str) -> None:
        if kind is bool_:
            value = self.let(f"zext i1 {value} to i8")
        self.put(f"store {memory_type(kind)} {value}, ptr {place}, align {kind.size}{group}")

    def places(self, op: Op, index: Sequence[str], leaf: str | None) -> list[str]:
        """Addresses of the scalars that a memory operation touches."""
        array = self.ref(op.operands[0])
        at = f"{array}"
        for axis, i in enumerate(index):
            offset = self.let(f"mul nsw i64 {i}, {array_stride(self.func, op.operands[0], array, axis)}")
            at = self.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")
        offsets = leaf_offsets(op)
        if leaf is not None:
            step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
            if any(o != offsets[0] + k * step for k, o in enumerate(offsets)):
                raise InvalidIR(f"{self.func.name}: {op.name} at a run-time leaf: the leaves are not evenly spaced")
            moved = self.let(f"add nsw i64 {self.let(f'mul nsw i64 {leaf}, {step}')}, {offsets[0]}")
            return [self.let(f"getelementptr inbounds i8, ptr {at}, i64 {moved}")]
        return [self.let(f"getelementptr inbounds i8, ptr {at}, i64 {o}") if o else at for o in offsets]

    def access(self, op: Op, act: Callable[[list[str], list[str]], list[str]]) -> None:
        """Runs `act(places, values) -> results` for a memory operation; in check mode only if the index is inside."""
        _, index_values, leaf_value, values = split_memory(op)
        index = [self.to_i64(v) for v in index_values]
        leaf = None if leaf_value is None else self.to_i64(leaf_value)
        operands = [self.ref(v) for v in values]
        if not self.check:
            self.name(op.results, act(self.places(op, index, leaf), operands))
            return
        array = self.ref(op.operands[0])
        bounds = [(i, f"{array}.n{axis}") for axis, i in enumerate(index)]
        if leaf is not None:
            bounds.append((leaf, str(len(op.leaves))))
        worst_index, worst_bound, inside = *bounds[0], "true"
        for i, bound in reversed(bounds):  # the first bad index is reported
            good = self.let(f"icmp ult i64 {i}, {bound}")
            worst_index = self.let(f"select i1 {good}, i64 {worst_index}, i64 {i}")
            worst_bound = self.let(f"select i1 {good}, i64 {worst_bound}, i64 {bound}")
            inside = self.let(f"and i1 {inside}, {good}")
        ok, bad, after = self.label(), self.label(), self.label()
        self.put(f"br i1 {inside}, label %{ok}, label %{bad}, !prof !3")
        self.start(bad)
        self.fail(op, OUT_OF_BOUNDS, worst_index, worst_bound)
        self.put(f"br label %{after}")
        self.start(ok)
        results = act(self.places(op, index, leaf), operands)
        self.put(f"br label %{after}")
        self.start(after)
        for value, result in zip(op.results, results, strict=True):
            assert isinstance(value.type, Scalar)
            zero = literal(value.type.np.type(0).item(), value.type)
            self.name([value], [self.let(f"phi {llvm_type(value.type)} [ {result}, %{ok} ], [ {zero}, %{bad} ]")])

    def emit_peek(self, op: Op) -> None:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        place = self.let(f"inttoptr i64 {self.ref(op.operands[0])} to ptr")
        self.name(op.results, [self.load(place, kind, _CONSTANT)])

    def emit_load(self, op: Op) -> None:
        kinds = moved_scalars(op)
        self.access(op, lambda places, _: [self.load(p, k, _GROUP) for p, k in zip(places, kinds, strict=True)])

    def emit_store(self, op: Op) -> None:
        def act(places: list[str], values: list[str]) -> list[str]:
            for place, kind, value in zip(places, moved_scalars(op), values, strict=True):
                self.store(place, kind, value, _GROUP)
            return []

        self.access(op, act)

    def emit_accum(self, op: Op) -> None:
        self.update(op, "add")

    def emit_atomic(self, op: Op) -> None:
        self.update(op, op.how)

    def update(self, op: Op, how: str) -> None:
        """A plain read-modify-write: a launch with accumulations runs on one thread."""

        def act(places: list[str], values: list[str]) -> list[str]:
            old = []
            for k, (place, kind, value) in enumerate(zip(places, moved_scalars(op), values, strict=True)):
                old.append(self.load(place, kind, ""))
                if how == "cas":
                    equal = self.arithmetic("eq", kind, [old[-1], self.ref(op.compared[k])])
                    value = self.arithmetic("select", kind, [equal, value, old[-1]])
                elif how != "exch":
                    value = self.arithmetic(how, kind, [old[-1], value])
                self.store(place, kind, value, "")
            return old if op.results else []

        self.access(op, act)

    # -- failures and printing
    def fail(self, op: Op, kind: int, index: str, bound: str) -> None:
        where = f"i64 {kind}, i64 {self.numbers[op]}, i64 %linear, i64 {index}, i64 {bound}"
        self.put(f"call void @fail(ptr %record, {where})")

    def emit_assert(self, op: Op) -> None:
        """The failure is recorded and the thread goes on; the host raises after the launch."""
        bad, after = self.label(), self.label()
        self.put(f"br i1 {self.ref(op.operands[0])}, label %{after}, label %{bad}, !prof !3")
        self.start(bad)
        self.fail(op, ASSERT_FAILED, "0", "0")
        self.put(f"br label %{after}")
        self.start(after)

    def emit_print(self, op: Op) -> None:
        kinds = [v.type for v in op.operands]
        for k, v in enumerate(op.operands):
            assert isinstance(v.type, Scalar)
            place = self.let(f"getelementptr inbounds i64, ptr %printed, i64 {k}")
            self.store(place, v.type, self.ref(v), "")
        self.print_slots = max(self.print_slots, len(kinds), 1)  # a text alone has no values
        texts = [self.text_data(op.attrs["format"]), self.text_data(" ".join(k.name for k in kinds))]
        self.call("void", PRINT_SYMBOL, [("ptr", t) for t in (*texts, "%printed")])

    def text_data(self, text: str) -> str:
        raw = text.encode() + b"\0"
        escaped = "".join(f"\\{b:02X}" for b in raw)
        self.data.append(f'@data{len(self.data)} = private unnamed_addr constant [{len(raw)} x i8] c"{escaped}"')
        return f"@data{len(self.data) - 1}"

    # -- primitives
    def primitive(self, op: Op) -> str:
        kind = op.operands[-1].type
        assert isinstance(kind, Scalar)
        args = [self.ref(v) for v in op.operands]
        if op.name in ("cast", "reinterpret"):
            target = op.results[0].type
            assert isinstance(target, Scalar)
            return (self.cast if op.name == "cast" else self.reinterpret)(args[0], kind, target)
        if op.name == "in_bounds" and self.check:
            self.report(op)
        if op.name == "from_end" and op in self.not_negative:
            return args[0]
        if op.name == "from_end" and self.jumps and kind.kind == "i":
            return self.seldom_from_end(op)
        return self.arithmetic(op.name, kind, args)

    def seldom_from_end(self, op: Op) -> str:
        """An index, by a jump where it may be negative: a jump that is not taken costs a third of a selection."""
        index, count = map(self.ref, op.operands)
        t, before, seldom, after = llvm_type(op.operands[0].type), self.here, self.label(), self.label()
        usual = self.let(f"icmp sge {t} {self.ref(self.of_unknown_sign(op.operands[0]))}, 0")
        self.put(f"br i1 {usual}, label %{after}, label %{seldom}, !prof !3")
        self.start(seldom)
        negative, counted = self.let(f"icmp slt {t} {index}, 0"), self.let(f"add {t} {index}, {count}")
        chosen = self.let(f"select i1 {negative}, {t} {counted}, {t} {index}")
        self.put(f"br label %{after}")
        self.start(after)
        return self.let(f"phi {t} [ {index}, %{before} ], [ {chosen}, %{seldom} ]")

    def of_unknown_sign(self, index: Value) -> Value:
        """The part of an index without which it is not negative: of `begin + k` in a loop that is `begin`, and LLVM
        looks at that once for the whole loop."""
        while index.op is not None and index.op.name == "add":
            rest = [v for v in index.op.operands if not at_least_zero(self.bound(v, DEPTH))]
            if len(rest) != 1:
                break
            index = rest[0]
        return index

    def bound(self, value: Value, depth: int) -> Bound:
        """What an integer cannot be less than."""
        if value.const is not None:
            return int(value.const)
        if value in self.counters:
            return 0
        return made_bound(value, lambda v: self.bound(v, depth - 1)) if depth else None

    def report(self, op: Op) -> None:
        """An index of a value of the thread that is outside is recorded, and the thread goes on."""
        index, bound = map(self.to_i64, op.operands)
        after, bad = self.label(), self.label()
        self.put(f"br i1 {self.let(f'icmp ult i64 {index}, {bound}')}, label %{after}, label %{bad}, !prof !3")
        self.start(bad)
        self.fail(op, OUT_OF_BOUNDS, index, bound)
        self.put(f"br label %{after}")
        self.start(after)


def array_stride(func: Func, param: Value, name: str, axis: int) -> str:
    """The byte stride of an array parameter: a value of the range function, or a number where it is known."""
    kind = param.type
    assert isinstance(kind, ArrayType) and kind.dtype is not Any
    packed = any(func.params[k] is param for k in func.attrs.get("packed", ()))
    columns = next((n for k, n in func.attrs.get("narrow", {}).items() if func.params[k] is param), None)
    if packed and axis == kind.ndim - 1:
        return str(size_of(kind.dtype))
    return str(columns * size_of(kind.dtype)) if columns is not None else f"{name}.s{axis}"
