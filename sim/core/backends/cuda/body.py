"""The operations of a kernel as CUDA C++, but for those on memory: names, control flow, launch indices, failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from sim.core.backends.base import ASSERT_FAILED, OUT_OF_BOUNDS, Site, error_sites
from sim.core.backends.cuda.rematerialise import BUDGET, rematerialise
from sim.core.backends.cuda.writer import arithmetic, cast, cuda_type, identifier, literal
from sim.core.lang.analysis.thread_locality import injective_axes, own_arrays, uniform_values
from sim.core.lang.ir.core import Block, Func, Op, Value, walk
from sim.core.lang.ir.verifier import InvalidIR
from sim.core.lang.types import Scalar


class CudaBody:
    """Writes operations as lines.

    rematerialised: the kernel as it is written, with barriers.  sites: the places that an error record names.
    prints: the operations that the entries of a print log name.
    """

    def __init__(self, func: Func, check: bool = False, careful: bool = False) -> None:
        self.own: frozenset[Value] = frozenset() if careful else own_arrays(func)
        self.func, self.check, self.careful = func, check, careful
        self.rematerialised = func if check else rematerialise(func, BUDGET[bool(func.attrs.get("adjoint"))])
        self.sites: list[Site]
        self.sites, self.numbers = error_sites(self.rematerialised, check)
        self.prints = [op for op in walk(self.rematerialised.body) if op.name == "print"]
        self.uniform, self.axes = uniform_values(self.rematerialised), injective_axes(self.rematerialised)
        self.packed = frozenset(func.params[k] for k in func.attrs.get("packed", ()))
        self.narrow = {func.params[k]: columns for k, columns in dict(func.attrs.get("narrow", ())).items()}
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.count, self.depth = 0, 1
        self.line: tuple[str, int] | None = None

    # -- names and lines
    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{identifier(name).rstrip('_')}_{self.count}" if name else f"t{self.count}"

    def ref(self, value: Value) -> str:
        return self.names[value]

    def define(self, value: Value, right: str) -> None:
        """A constant for a result."""
        name = self.names[value] = self.fresh(value.name)
        self.put(f"const {cuda_type(value.type)} {name} = {right};")

    def variables(self, values: Sequence[Value], start: Sequence[str] | None) -> list[str]:
        """Variables that a region changes."""
        names = [self.fresh(v.name) for v in values]
        for k, (v, name) in enumerate(zip(values, names, strict=True)):
            self.put(f"{cuda_type(v.type)} {name}{'' if start is None else f' = {start[k]}'};")
        return names

    def name(self, values: Sequence[Value], names: Sequence[str]) -> None:
        for v, n in zip(values, names, strict=True):
            self.names[v] = n

    def source_line(self, op: Op) -> None:
        """The user's line as a comment, where another one begins."""
        span = op.span
        if span is None or not span.text.strip() or op.name == "const" or (span.file, span.line) == self.line:
            return
        self.line = (span.file, span.line)
        self.put(
            f"// {PurePath(span.file.replace(chr(92), '/')).name}:{span.line}: {span.text.strip().rstrip(chr(92))}"
        )

    # -- blocks and control flow
    def block(self, block: Block) -> list[str]:
        for op in block.ops:
            self.source_line(op)
            if op.is_primitive:
                self.define(op.results[0], self.primitive(op))
            else:
                handler: Callable[[Op], None] = getattr(self, f"emit_{op.name}")
                handler(op)
        return [self.ref(v) for v in block.yields]

    def primitive(self, op: Op) -> str:
        kind, args = op.operands[-1].type, [self.ref(v) for v in op.operands]
        assert isinstance(kind, Scalar)
        if op.name in ("cast", "reinterpret"):
            target = op.results[0].type
            assert isinstance(target, Scalar)
            if op.name == "cast":
                return cast(args[0], kind, target)
            return f"sim_reinterpret<{cuda_type(target)}>({args[0]})"
        if op.name == "in_bounds" and self.check:
            outside = f"(unsigned long long)(long long){args[0]} >= (unsigned long long)(long long){args[1]}"
            self.put(
                f"if ({outside}) sim_fail(args.error, {OUT_OF_BOUNDS}, {self.numbers[op]}, thread, {args[0]},"
                f" {args[1]});"
            )
        return arithmetic(op.name, kind, args)

    def emit_const(self, op: Op) -> None:
        kind = op.results[0].type
        assert isinstance(kind, Scalar)
        self.name(op.results, [literal(op.attrs["value"], kind)])

    def emit_if(self, op: Op) -> None:
        results = self.variables(op.results, None)
        self.put(f"if ({self.ref(op.operands[0])}) {{")
        self.branch(op.regions[0], results)
        if op.regions[1].ops or results:
            self.put("} else {")
            self.branch(op.regions[1], results)
        self.put("}")
        self.name(op.results, results)

    def branch(self, region: Block, results: Sequence[str]) -> None:
        self.depth += 1
        for name, value in zip(results, self.block(region), strict=True):
            self.put(f"{name} = {value};")
        self.depth -= 1

    def carry(self, names: Sequence[str], values: Sequence[str], types: Sequence[Value]) -> None:
        """The carried variables of a loop take their next values, all at once."""
        moved = [(n, v, t) for n, v, t in zip(names, values, types, strict=True) if n != v]
        targets = {n for n, _, _ in moved}
        held = []
        for name, value, like in moved:
            if value in targets:  # it is changed too: read it first
                kept = self.fresh("next")
                self.put(f"const {cuda_type(like.type)} {kept} = {value};")
                value = kept
            held.append((name, value))
        for name, value in held:
            self.put(f"{name} = {value};")

    def emit_for(self, op: Op) -> None:
        body, n = op.regions[0], self.ref(op.operands[0])
        kind = op.operands[0].type
        carried = self.variables(op.results, [self.ref(v) for v in op.operands[1:]])
        k = self.fresh(body.params[0].name or "k")
        t = cuda_type(kind)
        self.put(
            "#pragma unroll 1"
        )  # what is worth unrolling was unrolled by the front end; here it only costs registers
        self.put(f"for ({t} {k} = 0; {k} < {n}; ++{k}) {{")
        self.depth += 1
        counter = k
        if op.reverse:
            counter = self.fresh("k")
            self.put(f"const {t} {counter} = {n} - 1 - {k};")
        self.name(body.params, [counter, *carried])
        self.carry(carried, self.block(body), op.results)
        self.depth -= 1
        self.put("}")
        self.name(op.results, carried)

    def emit_while(self, op: Op) -> None:
        cond, body = op.regions
        carried = self.variables(op.results, [self.ref(v) for v in op.operands])
        self.put("#pragma unroll 1")
        self.put("for (;;) {")
        self.depth += 1
        self.name(cond.params, carried)
        self.put(f"if (!{self.block(cond)[0]}) break;")
        self.name(body.params, carried)
        self.carry(carried, self.block(body), op.results)
        self.depth -= 1
        self.put("}")
        self.name(op.results, carried)

    def emit_call(self, op: Op) -> None:
        raise InvalidIR(f"{self.func.name}: the call of {op.callee.name} was not inlined")

    def emit_opt_barrier(self, op: Op) -> None:
        """The same value, unknown to the compiler: upper halves of extents are zero.  Each barrier takes others."""
        which = op.attrs["number"] + 1
        zeros = " ^ ".join(f"(unsigned)(args.dim[{k}] >> 32)" for k in range(4) if which >> k & 1)
        self.define(op.results[0], f"sim_again<{cuda_type(op.results[0].type)}>({self.ref(op.operands[0])}, {zeros})")

    # -- launch indices, shapes, tapes
    def emit_tid(self, op: Op) -> None:
        axis = op.axis
        if axis >= self.func.dims:
            raise InvalidIR(f"{self.func.name}: tid of axis {axis} in a launch of {self.func.dims} dimensions")
        self.name(op.results, ["(int)thread" if axis < 0 or self.func.dims == 1 else f"tid{axis}"])

    def emit_shape(self, op: Op) -> None:
        self.define(op.results[0], f"(int){self.member(op.operands[0])}.n[{op.axis}]")

    def emit_tape(self, op: Op) -> None:
        name = self.fresh("tape")
        self.put(f"{cuda_type(op.attrs['scalar'])} {name}[{op.attrs['slots']}];")
        self.name(op.results, [name])

    def emit_tape_load(self, op: Op) -> None:
        self.define(op.results[0], f"{self.ref(op.operands[0])}[{self.ref(op.operands[1])}]")

    def emit_tape_store(self, op: Op) -> None:
        tape, at, value = map(self.ref, op.operands)
        self.put(f"{tape}[{at}] = {value};")

    def member(self, array: Value) -> str:
        return f"args.{self.names[array]}"

    # -- failures and printing
    def emit_assert(self, op: Op) -> None:
        """The failure is recorded and the thread goes on; the host raises after the launch."""
        self.put(
            f"if (!{self.ref(op.operands[0])}) sim_fail(args.error, {ASSERT_FAILED}, {self.numbers[op]}, thread, 0, 0);"
        )

    def emit_print(self, op: Op) -> None:
        values = self.fresh("shown")
        bits = ", ".join(f"sim_bits({self.ref(v)})" for v in op.operands) or "0"
        site = next(k for k, p in enumerate(self.prints) if p is op)
        self.put(f"const long long {values}[{max(len(op.operands), 1)}] = {{{bits}}};")
        self.put(f"sim_print(printed, {site}, thread, {values}, {len(op.operands)});")
