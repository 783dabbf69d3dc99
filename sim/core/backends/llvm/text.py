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
    param_slots,
)
from sim.core.backends.llvm.body import BodyEmitter, array_stride
from sim.core.backends.llvm.lane_bodies import LaneBody, lanes_of
from sim.core.backends.llvm.lanes import dummy_bytes
from sim.core.backends.llvm.pipelining import BETWEEN
from sim.core.backends.llvm.range_loops import (
    AND_BACK,
    MASKED_REST,
    STAGED_LOOP,
    WIDE_LOOP,
    WIDE_LOOP_AND_BACK,
    range_loop,
)
from sim.core.backends.llvm.writer import llvm_type
from sim.core.lang.analysis.first_threads import FirstThreads, first_threads
from sim.core.lang.analysis.guards import guard_of
from sim.core.lang.analysis.thread_locality import diverges
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

_LANE_ARGUMENTS = {"lanes": ["i64 %linear", "ptr %dummy"], "some": ["i64 %linear", "ptr %dummy", "i64 %left"]}

_USUALLY = '!3 = !{!"branch_weights", i32 1000000, i32 1}'
_SELDOM = '!6 = !{!"branch_weights", i32 1, i32 1000000}'


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
        self.straight = not any(op.name in ("for", "while") for op in walk(self.func.body))
        self.jumps = not self.straight
        singly = self.singly
        first = first_threads(self.func) if self.straight and lanes is None and not (self.check or singly) else None
        bodies = [self.body_lines()] if first is None else [self.body_lines(), self.rest_lines(first)]
        coords = [f"i64 %c{axis}" for axis in range(self.func.dims)]
        formal = ", ".join([*arguments, "ptr %record", "i64 %linear", *coords])
        wide: list[str] = []
        self.vectors_given = lanes is not None or (singly and self.straight)
        before = ["  %begin = add i64 %start, 0"]
        if lanes is not None:
            self.declared |= lanes.declared
            if lanes.stages is not None:
                wide, before = self.staged(arguments, lanes, len(lanes.stages.carried))
            else:
                wide = self.lane_function("lanes", arguments, lanes.lines, lanes.may_be_left)
                before = self.wide_loop(arguments, lanes.may_be_left)
        back = lanes is not None and lanes.may_be_left
        end, after = ("%to", "goon") if back else ("%end", "exit")
        parts = [
            *self.data,
            *self.body_functions(formal, bodies),
            *wide,
            f"define void @{symbol}(ptr noalias readonly %block, i64 %start, i64 %stated) {_ATTRIBUTES} {{",
            "entry:", *unpack, *before,
            f"  %any = icmp slt i64 %begin, {end}",
            "  br i1 %any, label %first, label %exit",
            range_loop(self.func.dims, formal, end, after, first.apart if first else {}),
            AND_BACK if back else "",
            "exit:", "  ret void", "}",
            _FAIL if self.sites else "",
            *self.declared.values(),
            "!0 = distinct !{}",
            self.loop_metadata(lanes is not None or singly),
            '!2 = !{!"llvm.loop.parallel_accesses", !0}',
            _USUALLY,
            '!4 = !{!"llvm.loop.vectorize.enable", i1 false}',
            '!5 = !{!"llvm.loop.unroll.disable"}',
            _SELDOM,
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    def body_lines(self) -> list[str]:
        """The lines of what one thread does."""
        self.block(self.func.body)
        printed = [f"  %printed = alloca [{self.print_slots} x i64], align 8"] if self.print_slots else []
        return [*self.tapes, *printed, *self.lines]

    def rest_lines(self, first: FirstThreads) -> list[str]:
        """The same for all but the first threads, in which indices count from the end."""
        rest = Emitter(self.func)
        rest.names = {p: self.names[p] for p in self.func.params}
        rest.not_negative, rest.straight, rest.data = first.counted, self.straight, self.data
        lines = rest.body_lines()
        self.declared |= rest.declared
        return lines

    @staticmethod
    def body_functions(formal: str, bodies: list[list[str]]) -> list[str]:
        """The function for a thread; where there are two of them, that for the first ones is `@first`."""
        out: list[str] = []
        for name, lines in zip(("body",) if len(bodies) == 1 else ("first", "body"), bodies, strict=True):
            how = "alwaysinline" if name == "body" else "noinline cold"
            out += [
                f"define internal void @{name}({formal}) {how} {_ATTRIBUTES} {{",
                "entry:",
                *lines,
                "  ret void",
                "}",
            ]
        return out

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

    def lane_function(self, name: str, arguments: list[str], lines: list[str], answers: bool = False) -> list[str]:
        """A function for eight threads; answers: it says whether it has done what they do."""
        formal = ", ".join([*arguments, *_LANE_ARGUMENTS[name]])
        kind, end = ("i1", "ret i1 true") if answers else ("void", "ret void")
        head = f"define internal {kind} @{name}({formal}) alwaysinline {_ATTRIBUTES} {{"
        return [head, "entry:", *lines, f"  {end}", "}"]

    def staged(self, arguments: list[str], lanes: LaneBody, carried: int) -> tuple[list[str], list[str]]:
        """The functions of a body in stages, between which so many vectors are carried, and the loop over them."""
        formal, kind = ", ".join([*arguments, "i64 %linear", "ptr %dummy"]), f"alwaysinline {_ATTRIBUTES} {{"
        loop = STAGED_LOOP.replace("ARGUMENTS", ", ".join(arguments)).replace("BYTES", str(dummy_bytes(self.func)))
        loop = loop.replace("SIDE", str(carried * BETWEEN)).replace("TWICE", str(2 * carried * BETWEEN))
        return [
            f"define internal void @begin({formal}, ptr %given) {kind}",
            "entry:", *lanes.first, "  ret void", "}",
            f"define internal void @lanes({formal}, i64 %ahead, ptr %taken, ptr %given) {kind}",
            "entry:", *lanes.lines, "  ret void", "}",
        ], loop.splitlines()  # fmt: skip

    def wide_loop(self, arguments: list[str], and_back: bool) -> list[str]:
        """The lines of the range function for as long as there are eight."""
        called = ", ".join([*arguments, "i64 %wide", "ptr %dummy"])
        loop = WIDE_LOOP_AND_BACK if and_back else WIDE_LOOP
        return loop.replace("ARGUMENTS", called).replace("BYTES", str(dummy_bytes(self.func))).splitlines()

    def large_text(self, symbol: str, unpack: list[str], arguments: list[str], lanes: LaneBody, some: list[str]) -> str:
        """The module of a kernel that has no body for single threads."""
        self.vectors_given = self.straight = True
        called, back = ", ".join([*arguments, "i64 %begin", "ptr %dummy", "i64 %left"]), lanes.may_be_left
        rest = MASKED_REST.replace("ARGUMENTS", called)
        rest = rest.replace("END", "%to" if back else "%end").replace("AFTER", "goon" if back else "exit")
        parts = [
            *self.lane_function("lanes", arguments, lanes.lines, back),
            *self.lane_function("some", arguments, some),
            f"define void @{symbol}(ptr noalias readonly %block, i64 %start, i64 %stated) {_ATTRIBUTES} {{",
            "entry:", *unpack, *self.wide_loop(arguments, back), rest, AND_BACK if back else "",
            "exit:", "  ret void", "}",
            *{**lanes.declared, **self.declared}.values(),
            "!0 = distinct !{}",  # what gives the end of the range is written as in the loop over single threads
            _USUALLY,
            _SELDOM,
        ]  # fmt: skip
        return "\n".join(parts) + "\n"

    @property
    def singly(self) -> bool:
        """Threads go one by one: there are few of them, or each goes its own way."""
        return bool(self.func.attrs.get("few")) or diverges(self.func)

    def lanes_too(self) -> LaneBody | None:
        """The body for eight threads at a time, where it is worth having."""
        if self.check or self.singly:
            return None
        strides = {
            (p, axis): array_stride(self.func, p, self.ref(p), axis)
            for p in self.func.params
            if isinstance(p.type, ArrayType)
            for axis in range(p.type.ndim)
        }
        return lanes_of(self.func, self.names, strides)

    def loop_metadata(self, singly: bool) -> str:
        """What LLVM is told of the loop over the threads; singly: as it is, where threads go one by one or eight at
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
