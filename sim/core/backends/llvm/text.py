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

from sim.core.backends.base import (
    ERROR_SLOT,
    LANES,
    param_slots,
)
from sim.core.backends.llvm.body import BodyEmitter, array_stride
from sim.core.backends.llvm.lanes import LaneBody, dummy_bytes, lanes_of
from sim.core.backends.llvm.writer import llvm_type
from sim.core.lang.analysis.guards import guard_of
from sim.core.lang.ir.core import Block, walk
from sim.core.lang.types import ArrayType, bool_, size_of

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

# Wide registers where this processor gains by them, not wherever a load of 64 bytes is written: on several of Intel's
# a third of the units for vectors rests while a single instruction of 64 bytes is about.
_ATTRIBUTES = 'nounwind "min-legal-vector-width"="0"'

# Eight threads at a time as long as there are eight; the loop over single threads does the rest.
_WIDE_LOOP = f"""  %dummy = alloca [BYTES x i8], align 64
  call void @llvm.memset.p0.i64(ptr %dummy, i8 0, i64 BYTES, i1 false)
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

# What remains, where single threads have no body of their own.
_MASKED_REST = """  %left = sub nsw i64 %end, %begin
  %rest = icmp sgt i64 %left, 0
  br i1 %rest, label %masked, label %exit
masked:
  call void @some(ARGUMENTS)
  br label %exit"""

_LANE_ARGUMENTS = {"lanes": ["i64 %linear", "ptr %dummy"], "some": ["i64 %linear", "ptr %dummy", "i64 %left"]}


class Emitter(BodyEmitter):
    """Text of one kernel: `text` gives the module, and then `vectors_given` says that LLVM is to look for no others:
    there is a body for eight threads, or there are too few threads for any to be worth the time; `straight`:
    there is no loop but that over the threads."""

    vectors_given = straight = False

    def text(self, symbol: str) -> str:
        """The module: body, range function of that name, declarations."""
        unpack, arguments = self.unpack()
        unpack += self.last_of_range()
        lanes = self.lanes_too()
        if lanes is not None and lanes.some is not None:
            return self.large_text(symbol, unpack, arguments, lanes, lanes.some)
        self.block(self.func.body)
        head = list(self.tapes)
        if self.print_slots:
            head.append(f"  %printed = alloca [{self.print_slots} x i64], align 8")
        coords = [f"i64 %c{axis}" for axis in range(self.func.dims)]
        formal = ", ".join([*arguments, "ptr %record", "i64 %linear", *coords])
        wide: list[str] = []
        few = bool(self.func.attrs.get("few"))
        self.straight = not any(op.name in ("for", "while") for op in walk(self.func.body))
        self.vectors_given = lanes is not None or (few and self.straight)
        before = ["  %begin = add i64 %start, 0"]
        if lanes is not None:
            self.declared |= lanes.declared
            wide, before = self.lane_function("lanes", arguments, lanes.lines), self.wide_loop(arguments)
        parts = [
            *self.data,
            f"define internal void @body({formal}) alwaysinline {_ATTRIBUTES} {{",
            "entry:", *head, *self.lines, "  ret void", "}",
            *wide,
            f"define void @{symbol}(ptr noalias readonly %block, i64 %start, i64 %stated) {_ATTRIBUTES} {{",
            "entry:", *unpack, *before,
            "  %any = icmp slt i64 %begin, %end",
            "  br i1 %any, label %first, label %exit",
            range_loop(self.func.dims, formal),
            "exit:", "  ret void", "}",
            _FAIL if self.sites else "",
            *self.declared.values(),
            "!0 = distinct !{}",
            self.loop_metadata(lanes is not None or few),
            '!2 = !{!"llvm.loop.parallel_accesses", !0}',
            '!3 = !{!"branch_weights", i32 1000000, i32 1}',
            '!4 = !{!"llvm.loop.vectorize.enable", i1 false}',
            '!5 = !{!"llvm.loop.unroll.disable"}',
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    def last_of_range(self) -> list[str]:
        """The lines of the range function that say where it ends: as stated, or where threads do nothing from there."""
        guard = None if self.check else guard_of(self.func)
        if guard is None:
            return ["  %end = add i64 %stated, 0"]
        found = BodyEmitter(self.func)
        found.names = dict(self.names)
        found.block(Block([], list(guard.ops), [guard.bound]))
        bound = found.to_i64(guard.bound)
        self.declared |= found.declared
        return [*found.lines, f"  %below = icmp slt i64 {bound}, %stated",
                f"  %end = select i1 %below, i64 {bound}, i64 %stated"]  # fmt: skip

    def lane_function(self, name: str, arguments: list[str], lines: list[str]) -> list[str]:
        """A function for eight threads."""
        formal = ", ".join([*arguments, *_LANE_ARGUMENTS[name]])
        head = f"define internal void @{name}({formal}) alwaysinline {_ATTRIBUTES} {{"
        return [head, "entry:", *lines, "  ret void", "}"]

    def wide_loop(self, arguments: list[str]) -> list[str]:
        """The lines of the range function for as long as there are eight."""
        called = ", ".join([*arguments, "i64 %wide", "ptr %dummy"])
        return _WIDE_LOOP.replace("ARGUMENTS", called).replace("BYTES", str(dummy_bytes(self.func))).splitlines()

    def large_text(self, symbol: str, unpack: list[str], arguments: list[str], lanes: LaneBody, some: list[str]) -> str:
        """The module of a kernel that has no body for single threads."""
        self.vectors_given = self.straight = True
        called = ", ".join([*arguments, "i64 %begin", "ptr %dummy", "i64 %left"])
        parts = [
            *self.lane_function("lanes", arguments, lanes.lines),
            *self.lane_function("some", arguments, some),
            f"define void @{symbol}(ptr noalias readonly %block, i64 %start, i64 %stated) {_ATTRIBUTES} {{",
            "entry:", *unpack, *self.wide_loop(arguments), _MASKED_REST.replace("ARGUMENTS", called),
            "exit:", "  ret void", "}",
            *{**lanes.declared, **self.declared}.values(),
            "!0 = distinct !{}",  # what gives the end of the range is written as in the loop over single threads
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    def lanes_too(self) -> LaneBody | None:
        """The body for eight threads at a time, where it is worth having."""
        if self.check or self.func.attrs.get("few"):
            return None
        strides = {
            (p, axis): array_stride(self.func, p, self.ref(p), axis)
            for p in self.func.params
            if isinstance(p.type, ArrayType)
            for axis in range(p.type.ndim)
        }
        return lanes_of(self.func, self.names, strides)

    def loop_metadata(self, singly: bool) -> str:
        """What LLVM is told of the loop over the threads; singly: as it is, where threads are few or go eight at
        a time already."""
        parallel = [] if self.func.attrs.get("serial") else ["!2"]  # not where its threads share a log
        return f"!1 = distinct !{{{', '.join(['!1', *parallel, *(['!4', '!5'] if singly else [])])}}}"

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
