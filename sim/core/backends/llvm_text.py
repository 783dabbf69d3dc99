"""IR to LLVM text.

The shape of the text is what makes LLVM vectorise the loop over the threads:

* the argument block is unpacked once, in the range function; the body takes scalars and is inlined;
* plain loads and stores of the body form an access group that the thread loop declares parallel (threads are unordered
  by the contract of the language).  Accumulations and atomics, which are plain read-modify-writes here, stay outside:
  indices may repeat, so LLVM has to look for dependences by itself;
* the strides of packed arrays (`func.attrs["packed"]`) are computed, so that the innermost one is a constant;
* of several launch dimensions the last is the inner loop, and nothing is divided per thread.

Arithmetic is strict: no fast-math flags, no contraction, so results do not depend on how a range is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.core.backends.base import (
    ASSERT_FAILED,
    ERROR_SLOT,
    OUT_OF_BOUNDS,
    Site,
    error_sites,
    leaf_offsets,
    param_slots,
    symbol_name,
)
from sim.core.backends.llvm_lane_values import LANES
from sim.core.backends.llvm_lanes import DUMMY_BYTES, lanes_of
from sim.core.backends.llvm_writer import Writer, literal, llvm_type, memory_type
from sim.core.lang.ir.core import Block, Func, Op, Value, moved_scalars, split_memory
from sim.core.lang.ir.verifier import InvalidIR
from sim.core.lang.types import ArrayType, Scalar, bool_, size_of

PRINT_SYMBOL = "simopt_print"
_GROUP = ", !llvm.access.group !0"
_BLOCK_BITS = 64

# Out of line and cold: the first failure of a launch fills the record, later ones find it taken.
_FAIL = """
define internal void @fail(ptr %record, i64 %kind, i64 %site, i64 %thread, i64 %index, i64 %bound)
    cold noinline nounwind {
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %claim
claim:
  %old = cmpxchg ptr %record, i64 0, i64 1 monotonic monotonic
  %first = extractvalue { i64, i1 } %old, 1
  br i1 %first, label %fill, label %done
fill:
  %p1 = getelementptr i64, ptr %record, i64 1
  store i64 %kind, ptr %p1
  %p2 = getelementptr i64, ptr %record, i64 2
  store i64 %site, ptr %p2
  %p3 = getelementptr i64, ptr %record, i64 3
  store i64 %thread, ptr %p3
  %p4 = getelementptr i64, ptr %record, i64 4
  store i64 %index, ptr %p4
  %p5 = getelementptr i64, ptr %record, i64 5
  store i64 %bound, ptr %p5
  br label %done
done:
  ret void
}
"""

# Eight threads at a time as long as there are eight; the loop over single threads does the rest.
_WIDE_LOOP = f"""  %dummy = alloca [{DUMMY_BYTES} x i8], align 64
  call void @llvm.memset.p0.i64(ptr %dummy, i8 0, i64 {DUMMY_BYTES}, i1 false)
  %last = sub i64 %end, {LANES}
  %enough = icmp sle i64 %start, %last
  br i1 %enough, label %widely, label %singly
widely:
  %wide = phi i64 [ %start, %entry ], [ %wider, %widely ]
  call void @lanes(ARGUMENTS)
  %wider = add nsw i64 %wide, {LANES}
  %again8 = icmp sle i64 %wider, %last
  br i1 %again8, label %widely, label %singly
singly:
  %begin = phi i64 [ %start, %entry ], [ %wider, %widely ]"""


class Emitter(Writer):
    """Text of one kernel.  `text()` gives the module; `sites` the places that its error record names."""

    def __init__(self, func: Func, check: bool = False) -> None:
        super().__init__()
        self.func, self.check = func, check
        self.sites: list[Site]
        self.sites, self.numbers = error_sites(func, check)
        self.names: dict[Value, str] = {}
        self.data: list[str] = []
        self.print_slots = 0
        self.tapes: list[str] = []
        self.wide = False
        """Whether the text has a body for eight threads at a time; known after `text`."""

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
        if op.attrs.get("reverse"):
            k = self.let(f"sub {t} {self.let(f'sub {t} {n}, 1')}, {counter}")
        self.name(body.params, [k, *carried])
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
        axis = op.attrs["axis"]
        if axis >= self.func.dims:
            raise InvalidIR(f"{self.func.name}: tid of axis {axis} in a launch of {self.func.dims} dimensions")
        source = "%linear" if axis < 0 else f"%c{axis}"
        self.name(op.results, [self.let(f"trunc nsw i64 {source} to i32")])

    def emit_shape(self, op: Op) -> None:
        extent = f"{self.ref(op.operands[0])}.n{op.attrs['axis']}"
        self.name(op.results, [self.let(f"trunc nsw i64 {extent} to i32")])

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
        if kind.bits == _BLOCK_BITS or not name.startswith("%"):
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
        self.update(op, op.attrs["how"])

    def update(self, op: Op, how: str) -> None:
        """A plain read-modify-write: a launch with accumulations runs on one thread."""

        def act(places: list[str], values: list[str]) -> list[str]:
            old = []
            for place, kind, value in zip(places, moved_scalars(op), values, strict=True):
                old.append(self.load(place, kind, ""))
                self.store(place, kind, value if how == "exch" else self.arithmetic(how, kind, [old[-1], value]), "")
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
        self.print_slots = max(self.print_slots, len(kinds))
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
        if op.name == "cast":
            target = op.results[0].type
            assert isinstance(target, Scalar)
            return self.cast(args[0], kind, target)
        if op.name == "in_bounds" and self.check:
            self.report(op)
        return self.arithmetic(op.name, kind, args)

    def report(self, op: Op) -> None:
        """An index of a value of the thread that is outside is recorded, and the thread goes on."""
        index, bound = map(self.to_i64, op.operands)
        after, bad = self.label(), self.label()
        self.put(f"br i1 {self.let(f'icmp ult i64 {index}, {bound}')}, label %{after}, label %{bad}, !prof !3")
        self.start(bad)
        self.fail(op, OUT_OF_BOUNDS, index, bound)
        self.put(f"br label %{after}")
        self.start(after)

    # -- the module
    def text(self) -> str:
        """The module: body, range function, declarations."""
        unpack, arguments = self.unpack()
        self.block(self.func.body)
        head = list(self.tapes)
        if self.print_slots:
            head.append(f"  %printed = alloca [{self.print_slots} x i64], align 8")
        coords = [f"i64 %c{axis}" for axis in range(self.func.dims)]
        formal = ", ".join([*arguments, "ptr %record", "i64 %linear", *coords])
        lanes = self.lanes_too()
        wide: list[str] = []
        self.wide = lanes is not None
        before = ["  %begin = add i64 %start, 0"]
        if lanes is not None:
            lines, declared = lanes
            self.declared |= declared
            wide = [f"define internal void @lanes({', '.join([*arguments, 'i64 %linear', 'ptr %dummy'])}) alwaysinline nounwind {{",
                    "entry:", *lines, "  ret void", "}"]  # fmt: skip
            before = _WIDE_LOOP.replace("ARGUMENTS", ", ".join([*arguments, "i64 %wide", "ptr %dummy"])).splitlines()
        parts = [
            *self.data,
            f"define internal void @body({formal}) alwaysinline nounwind {{",
            "entry:", *head, *self.lines, "  ret void", "}",
            *wide,
            f"define void @{symbol_name(self.func)}(ptr noalias readonly %block, i64 %start, i64 %end) nounwind {{",
            "entry:", *unpack, *before,
            "  %any = icmp slt i64 %begin, %end",
            "  br i1 %any, label %first, label %exit",
            range_loop(self.func.dims, formal),
            "exit:", "  ret void", "}",
            _FAIL if self.sites else "",
            *self.declared.values(),
            "!0 = distinct !{}",
            self.loop_metadata(lanes is not None),
            '!2 = !{!"llvm.loop.parallel_accesses", !0}',
            '!3 = !{!"branch_weights", i32 1000000, i32 1}',
            '!4 = !{!"llvm.loop.vectorize.enable", i1 false}',
            '!5 = !{!"llvm.loop.unroll.disable"}',
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    def lanes_too(self) -> tuple[list[str], dict[str, str]] | None:
        """The body for eight threads at a time, where it is worth having."""
        if self.check:
            return None
        strides = {
            (p, axis): array_stride(self.func, p, self.ref(p), axis)
            for p in self.func.params
            if isinstance(p.type, ArrayType)
            for axis in range(p.type.ndim)
        }
        return lanes_of(self.func, self.names, strides)

    def loop_metadata(self, remainder: bool) -> str:
        """What LLVM is told of the loop over the threads."""
        if self.func.attrs.get("serial"):  # its threads share a log: they must run one after another
            return "!1 = distinct !{!1}"
        return "!1 = distinct !{!1, !2, !4, !5}" if remainder else "!1 = distinct !{!1, !2}"

    def unpack(self) -> tuple[list[str], list[str]]:
        """Loads of the range function, and the parameters of the body that they feed."""
        lines: list[str] = []
        arguments: list[str] = []

        def slot(kind: str, name: str, number: int) -> None:
            lines.append(f"  {name}.p = getelementptr inbounds i64, ptr %block, i64 {number}")
            lines.append(f"  {name} = load {kind}, ptr {name}.p, align 8")

        for axis in range(self.func.dims):
            slot("i64", f"%d{axis}", axis)
        slot("ptr", "%record", ERROR_SLOT)
        packed = set(self.func.attrs.get("packed", ()))
        for number, (p, at) in enumerate(zip(self.func.params, param_slots(self.func), strict=True)):
            name = f"%a{number}"
            self.names[p] = name
            if isinstance(p.type, ArrayType):
                ndim = p.type.ndim
                slot("ptr", name, at)
                for axis in range(ndim):
                    slot("i64", f"{name}.n{axis}", at + 1 + axis)
                    arguments.append(f"i64 {name}.n{axis}")
                last = str(size_of(p.type.dtype))  # type: ignore[arg-type]
                for axis in reversed(range(ndim)):
                    if number not in packed:
                        slot("i64", f"{name}.s{axis}", at + 1 + ndim + axis)
                    elif axis < ndim - 1:
                        lines.append(f"  {name}.s{axis} = mul nsw i64 {last}, {name}.n{axis + 1}")
                    if number not in packed or axis < ndim - 1:
                        last = f"{name}.s{axis}"
                        arguments.append(f"i64 {last}")
                arguments.append(f"ptr {name}")
            elif p.type is bool_:
                slot("i8", f"{name}.m", at)
                lines.append(f"  {name} = icmp ne i8 {name}.m, 0")
                arguments.append(f"i1 {name}")
            else:
                slot(llvm_type(p.type), name, at)
                arguments.append(f"{llvm_type(p.type)} {name}")
        return lines, arguments


def array_stride(func: Func, param: Value, name: str, axis: int) -> str:
    """The byte stride of an array parameter: a value of the range function, or a number where it is known."""
    kind = param.type
    assert isinstance(kind, ArrayType) and kind.dtype is not None
    packed = any(func.params[k] is param for k in func.attrs.get("packed", ()))
    columns = next((n for k, n in func.attrs.get("narrow", {}).items() if func.params[k] is param), None)
    if packed and axis == kind.ndim - 1:
        return str(size_of(kind.dtype))
    return str(columns * size_of(kind.dtype)) if columns is not None else f"{name}.s{axis}"


def range_loop(dims: int, formal: str) -> str:
    """The loop over the linear range; with several dimensions one loop per row of the last, the others carried."""
    if dims == 1:
        return f"""first:
  br label %loop
loop:
  %linear = phi i64 [ %begin, %first ], [ %next, %loop ]
  call void @body({formal.replace("i64 %c0", "i64 %linear")})
  %next = add nsw i64 %linear, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit, !llvm.loop !1"""
    last = dims - 1
    lines = ["first:", f"  %q{last} = add i64 %begin, 0"]
    for axis in range(last, 0, -1):
        lines.append(f"  %f{axis} = srem i64 %q{axis}, %d{axis}")
        lines.append(f"  %q{axis - 1} = sdiv i64 %q{axis}, %d{axis}")
    lines += ["  %f0 = add i64 %q0, 0", "  br label %row", "row:"]
    lines.append("  %at = phi i64 [ %begin, %first ], [ %stop, %carry ]")
    for axis in range(last):
        lines.append(f"  %c{axis} = phi i64 [ %f{axis}, %first ], [ %g{axis}, %carry ]")
    lines.append(f"  %from = phi i64 [ %f{last}, %first ], [ 0, %carry ]")
    lines += [
        f"  %left = sub nsw i64 %d{last}, %from",
        "  %full = add nsw i64 %at, %left",
        "  %short = icmp slt i64 %full, %end",
        "  %stop = select i1 %short, i64 %full, i64 %end",
        "  %base = sub nsw i64 %at, %from",
        "  %to = sub nsw i64 %stop, %base",
        "  br label %loop",
        "loop:",
        f"  %c{last} = phi i64 [ %from, %row ], [ %next, %loop ]",
        f"  %linear = add nsw i64 %base, %c{last}",
        f"  call void @body({formal})",
        f"  %next = add nsw i64 %c{last}, 1",
        "  %more = icmp slt i64 %next, %to",
        "  br i1 %more, label %loop, label %carry, !llvm.loop !1",
        "carry:",
    ]
    one = "1"
    for axis in range(last - 1, -1, -1):
        lines.append(f"  %h{axis} = add nsw i64 %c{axis}, {one}")
        if axis == 0:
            lines.append("  %g0 = add i64 %h0, 0")
            break
        lines.append(f"  %w{axis} = icmp eq i64 %h{axis}, %d{axis}")
        lines.append(f"  %g{axis} = select i1 %w{axis}, i64 0, i64 %h{axis}")
        lines.append(f"  %o{axis} = zext i1 %w{axis} to i64")
        one = f"%o{axis}"
    lines += ["  %again = icmp slt i64 %stop, %end", "  br i1 %again, label %row, label %exit"]
    return "\n".join(lines)
