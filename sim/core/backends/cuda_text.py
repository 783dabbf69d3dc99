"""IR to CUDA C++ text: one kernel, readable, with the user's names and source lines.

The kernel takes the argument block of `base.py` by value, as a struct with the same layout.  Text that depends on how
arrays lie at a launch has a plain form that is always right (`careful`): no wide loads, and an atomic for every
accumulation that no promise covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from sim.core.backends.base import ASSERT_FAILED, OUT_OF_BOUNDS, Site, error_sites, leaf_offsets, symbol_name
from sim.core.backends.cuda_prelude import BLOCK, PRELUDE
from sim.core.backends.cuda_registers import BUDGET, relieve
from sim.core.backends.cuda_writer import arithmetic, cast, cuda_type, identifier, literal
from sim.core.lang.analysis.thread_locality import injective_axes, needs_atomics, own_arrays, uniform_values
from sim.core.lang.ir.core import Block, Func, Op, Value, moved_scalars, split_memory, walk
from sim.core.lang.ir.verifier import InvalidIR
from sim.core.lang.types import ArrayType, Homogeneous, Scalar, Type, size_of

_UPDATES = {"add": "sim_adds", "min": "sim_smaller", "max": "sim_larger", "exch": "sim_new"}
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


class CudaText:
    """Text of one kernel.  `text()` gives the whole; `kernel()` the kernel without the helpers before it.

    relieved: the kernel as it is written, with fences.  sites: the places that an error record names.
    prints: the operations that the entries of a print log name.
    """

    def __init__(self, func: Func, check: bool = False, careful: bool = False) -> None:
        self.own: frozenset[Value] = frozenset() if careful else own_arrays(func)
        self.func, self.check, self.careful = func, check, careful
        self.relieved = func if check else relieve(func, BUDGET[bool(func.attrs.get("adjoint"))])
        self.sites: list[Site]
        self.sites, self.numbers = error_sites(self.relieved, check)
        self.prints = [op for op in walk(self.relieved.body) if op.name == "print"]
        self.uniform, self.axes = uniform_values(self.relieved), injective_axes(self.relieved)
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
        if op.name == "cast":
            target = op.results[0].type
            assert isinstance(target, Scalar)
            return cast(args[0], kind, target)
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
        if op.attrs.get("reverse"):
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
        """The same value, but nothing that the compiler knows: the upper halves of the extents are zero.  Every fence
        takes other ones."""
        which = op.attrs["number"] + 1
        zeros = " ^ ".join(f"(unsigned)(args.dim[{k}] >> 32)" for k in range(4) if which >> k & 1)
        self.define(op.results[0], f"sim_again<{cuda_type(op.results[0].type)}>({self.ref(op.operands[0])}, {zeros})")

    # -- launch indices, shapes, tapes
    def emit_tid(self, op: Op) -> None:
        axis = op.attrs["axis"]
        if axis >= self.func.dims:
            raise InvalidIR(f"{self.func.name}: tid of axis {axis} in a launch of {self.func.dims} dimensions")
        self.name(op.results, ["(int)thread" if axis < 0 or self.func.dims == 1 else f"tid{axis}"])

    def emit_shape(self, op: Op) -> None:
        self.define(op.results[0], f"(int){self.member(op.operands[0])}.n[{op.attrs['axis']}]")

    def emit_tape(self, op: Op) -> None:
        name = self.fresh("tape")
        self.put(f"{cuda_type(op.attrs['scalar'])} {name}[{op.attrs['slots']}];")
        self.name(op.results, [name])

    def emit_tape_load(self, op: Op) -> None:
        self.define(op.results[0], f"{self.ref(op.operands[0])}[{self.ref(op.operands[1])}]")

    def emit_tape_store(self, op: Op) -> None:
        tape, at, value = map(self.ref, op.operands)
        self.put(f"{tape}[{at}] = {value};")

    # -- memory
    def member(self, array: Value) -> str:
        return f"args.{self.names[array]}"

    def stride(self, array: Value, axis: int) -> str:
        kind = array.type
        assert isinstance(kind, ArrayType) and kind.dtype is not None
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
        """`act() -> results` of a memory operation; in check mode only if the index is inside, else the results are
        0."""
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
                elif kind.is_float and how != "sim_atomic_add":
                    self.put(f"{how}<{t}>({place}, {value});")
                else:
                    self.put(f"sim_atomic_add({place}, ({t}){value});")
            return []

        self.access(op, act)

    def meeting(self, index: Sequence[Value]) -> str:
        """How threads add at this place: all at one, many at one (a number that memory has for each: a material, a
        world), or few."""
        if all(i in self.uniform for i in index):
            return "sim_add_shared"
        made = index[0].op if len(index) == 1 else None
        if made is not None and made.name == "load" and len(made.operands) == 2 and made.operands[1] in self.axes:
            return "sim_add_grouped"
        return "sim_atomic_add"

    def emit_atomic(self, op: Op) -> None:
        def act() -> list[str]:
            out = []
            for place, kind, value in zip(
                self.places(op), moved_scalars(op), map(self.ref, split_memory(op)[3]), strict=True
            ):
                t, how = cuda_type(kind), op.attrs["how"]
                text = (
                    f"sim_atomic_add({place}, ({t}){value})"
                    if how == "add"
                    else f"sim_update<{t}>({place}, {value}, {_UPDATES[how]}())"
                )
                out.append(self.fresh("old"))
                self.put(f"const {t} {out[-1]} = {text};")
            return out if op.results else []

        self.access(op, act)

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

    # -- the whole
    def arguments(self) -> list[str]:
        """The struct that the argument block is; gives the parameters their names."""
        lines = [f"struct {self.struct} {{", "    long long dim[4];", "    long long *error;"]
        taken: set[str] = set()
        for p in self.func.params:
            member = identifier(p.name)
            while member in taken:
                member += "_"
            taken.add(member)
            if isinstance(p.type, ArrayType):
                self.names[p] = member
                lines.append(f"    sim_array<{p.type.ndim}> {member};  // {p.type}")
            else:
                self.names[p] = f"args.{member}"
                lines.append(f"    alignas(8) {cuda_type(p.type)} {member};")
        return [*lines, "};"]

    @property
    def symbol(self) -> str:
        return symbol_name(self.func)

    @property
    def struct(self) -> str:
        return f"arguments_of_{self.symbol}"

    def kernel(self) -> str:
        """The kernel and the struct of its arguments."""
        head = self.arguments()
        self.put("const unsigned thread = first_thread;")
        dims = self.func.dims
        if dims > 1:
            self.put("unsigned rest = thread;")
            for axis in range(dims - 1, 0, -1):
                self.put(f"const int tid{axis} = (int)(rest % (unsigned)args.dim[{axis}]);")
                self.put(f"rest /= (unsigned)args.dim[{axis}];")
            self.put("const int tid0 = (int)rest;")
        self.block(self.relieved.body)
        body = self.lines
        serial = self.func.attrs.get("serial")
        if serial:
            begin = ["    // The threads share a log: one of them does the work of all, in order.", "    if (blockIdx.x | threadIdx.x) return;",
                     "    for (unsigned first_thread = 0; first_thread < count; ++first_thread) {"]  # fmt: skip
            body = ["    " + line for line in body] + ["    }"]
        else:
            begin = [
                f"    const unsigned first_thread = blockIdx.x * {BLOCK}u + threadIdx.x;",
                "    if (first_thread >= count) return;",
            ]
        log = ", long long *const printed" if self.prints else ""
        where = self.func.span
        return "\n".join([
            f"// kernel {self.func.name}" + (f" ({PurePath(where.file.replace(chr(92), '/')).name}:{where.line})" if where else ""),
            *head,
            f'extern "C" __global__ void __launch_bounds__({BLOCK}) {self.symbol}(const __grid_constant__ {self.struct} args{log}) {{',
            "    const unsigned count = (unsigned)(args.dim[0] * args.dim[1] * args.dim[2] * args.dim[3]);",
            *begin, *body, "}", "",
        ])  # fmt: skip

    def text(self) -> str:
        return PRELUDE + "\n" + self.kernel()

    def aligned(self) -> list[tuple[int, int]]:
        """(number of a parameter, bytes to which its data must be aligned) for wide loads and stores."""
        if self.careful:
            return []
        found = {}
        for op in walk(self.func.body):
            if op.name in ("load", "store") and self.wide(op):
                found[op.operands[0]] = self.wide(op)
        return [(k, found[p]) for k, p in enumerate(self.func.params) if p in found]


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
