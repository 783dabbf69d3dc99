"""Races: does what a kernel computes depend on the order of its threads?  Then it has no gradient.

Where every access to an array is at an index that belongs to the thread (`x[i]` with `i = tid()`), or every one is an
accumulation, there is none (`potential_races`).  For the rest, two variants of the kernel run their threads one after another
and mark who read, wrote and added where; an access to what another thread has touched is reported:

* `address_check` computes only where the accesses go, and takes both sides of a branch that depends on floating-point values.
  What it finds free of races is so whatever the values are.  There is none where the places themselves depend on
  values.
* `exact_check` does what the kernel does, on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.analysis.activity import is_float
from sim.core.lang.autodiff.kernel_adjoint import ToBeRecorded
from sim.core.lang.ir.core import Block, Builder, Func, Op, Value, element_leaves, emit, split_memory, verify, walk
from sim.core.lang.ir.passes import MEMORY, WRITES, Env, control, copy_op, dce, flow
from sim.core.lang.types import Scalar, array_type, int32, int64, size_of

READ, WRITE, ADD, CONSTANT = range(4)
"""Kinds of accesses.  CONSTANT: a store of the one constant that a kernel stores there, which several threads may
do."""
KINDS = 4
LARGE = 2**16
"""Factors of a thread index from which 32 bits may not hold the multiples of a launch."""
REPORT = 4
"""Integers of a report: number of the access + 1 (0: no race), its thread, the mark that it met, and of which kind that
was."""


@dataclass(frozen=True)
class RaceCheck:
    """A variant of a kernel that looks for races.

    func:    its parameters are those of the kernel, then three arrays: `layout` (int64), `marks` (KINDS, cells; int32) and
             `report` (REPORT; int32).  `layout` has, for each watched parameter, the cell where it begins, and its strides.
    watched: numbers of the array parameters whose accesses are marked.
    unit:    bytes of a cell.
    sites:   the accesses, by their number in a report.
    used:    numbers of the parameters of the kernel that the verdict depends on (beside shapes and strides).
    exact:   whether it does what the kernel does; else it only computes where accesses go, and may find too much.
    """

    func: Func
    watched: tuple[int, ...]
    unit: int
    sites: tuple[Op, ...]
    used: frozenset[int]
    exact: bool


# ------------------------------------------------------------------------------------------------ what is known without
# running
def potential_races(kernel: Func, groups: Mapping[Value, int], tbr: ToBeRecorded) -> frozenset[int]:
    """Numbers of the parameters whose accesses matter to the gradient and are not known to be free of races.

    Arrays with a gradient matter, and written arrays whose values the adjoint reads without a record of them.
    """
    accesses: dict[int, list[Op]] = {}
    for op in walk(kernel.body):
        if op.name in MEMORY:
            accesses.setdefault(groups[op.operands[0]], []).append(op)
    number = {p: k for k, p in enumerate(tbr.kernel.params)}
    read = {
        number[op.operands[0]]
        for op in walk(tbr.kernel.body)
        if op.name == "load" and any(r in tbr.needed for r in op.results)
    } - tbr.must_cache
    found: set[int] = set()
    known = _uniform(kernel)
    for group, ops in accesses.items():
        members = {k for k, p in enumerate(kernel.params) if groups.get(p) == group}
        if not members & (read | set(tbr.active)) or not any(op.name in WRITES for op in ops):
            continue
        promised = all(kernel.params[k].name in kernel.attrs.get("exclusive", ()) for k in members)
        if not promised and not _only_sums(ops) and not _own(ops, kernel.dims, known):
            found |= members
    return frozenset(found)


def _only_sums(ops: Sequence[Op]) -> bool:
    return all(op.name in ("accum", "atomic") for op in ops)


@dataclass(frozen=True)
class _Linear:
    """A sum of symbols (an axis of `tid`, a scalar parameter, an extent of an array) with integer factors, and a
    constant between bounds."""

    terms: dict[object, int]
    low: int
    high: int

    def scaled(self, factor: int) -> _Linear:
        ends = sorted((self.low * factor, self.high * factor))
        return _Linear({s: f * factor for s, f in self.terms.items() if factor}, *ends)

    def plus(self, other: _Linear) -> _Linear:
        total = {s: self.terms.get(s, 0) + other.terms.get(s, 0) for s in (*self.terms, *other.terms)}
        return _Linear({s: f for s, f in total.items() if f}, self.low + other.low, self.high + other.high)


def _linear(v: Value, known: Mapping[Value, _Linear]) -> _Linear | None:
    """An index as such a sum, if it is one.  `known`: scalar parameters, and counters of loops of constant length."""
    if v in known:
        return known[v]
    if v.op is None:
        return None
    if isinstance(v.const, int):
        return _Linear({}, v.const, v.const)
    name, operands = v.op.name, v.op.operands
    if name == "tid":
        return _Linear({("tid", v.op.attrs["axis"]): 1}, 0, 0)
    if name == "shape":
        return _Linear({("shape", operands[0], v.op.attrs["axis"]): 1}, 0, 0)
    if name == "cast" and operands[0].type.is_int and v.type.is_int and v.type.bits >= operands[0].type.bits:  # type: ignore[attr-defined]
        return _linear(operands[0], known)
    if name not in ("add", "sub", "mul", "neg"):
        return None
    parts = [part for x in operands if (part := _linear(x, known)) is not None]
    if len(parts) < len(operands):
        return None
    if name == "neg":
        return parts[0].scaled(-1)
    left, right = parts
    if name != "mul":
        return left.plus(right if name == "add" else right.scaled(-1))
    constant = next((part for part in parts if not part.terms and part.low == part.high), None)
    return None if constant is None else (right if constant is left else left).scaled(constant.low)


def _uniform(kernel: Func) -> dict[Value, _Linear]:
    """The scalar parameters, which all threads share, and the counters of loops of constant length."""
    known = {p: _Linear({p: 1}, 0, 0) for p in kernel.params if isinstance(p.type, Scalar) and p.type.is_int}
    for op in walk(kernel.body):
        if op.name == "for" and isinstance(op.operands[0].const, int):
            known[op.regions[0].params[0]] = _Linear({}, 0, max(op.operands[0].const - 1, 0))
    return known


def _own(ops: Sequence[Op], dims: int, known: Mapping[Value, _Linear]) -> bool:
    """Does every access go to a place of its thread alone?

    So it is if for each axis of the launch there is an index which is, in all accesses, the same multiple of that axis,
    plus the same further terms, plus constants that differ by less than the factor.  With a large factor multiples
    wrap, and may coincide again.
    """
    if len({op.operands[0] for op in ops}) > 1:  # several names of one memory
        return False
    columns = list(zip(*([_linear(v, known) for v in split_memory(op)[1]] for op in ops), strict=True))

    def holds(column: Sequence[_Linear | None], axis: int) -> bool:
        forms = [form for form in column if form is not None]
        if len(forms) < len(column) or any(form.terms != forms[0].terms for form in forms):
            return False
        tids = [s for s in forms[0].terms if isinstance(s, tuple) and s[0] == "tid"]
        window = max(form.high for form in forms) - min(form.low for form in forms)
        return tids == [("tid", axis)] and window < abs(forms[0].terms["tid", axis]) < LARGE

    return all(any(holds(column, axis) for column in columns) for axis in (range(dims) if dims > 1 else (-1,)))


# ------------------------------------------------------------------------------------------------ variants that mark
# accesses
@dataclass(eq=False)
class _Marks:
    """Emits the marks of accesses to the watched parameters."""

    b: Builder
    kernel: Func
    watched: tuple[int, ...]
    active: frozenset[int]
    layout: Value = field(default_factory=lambda: Value(array_type(int64, 1), "layout"))
    marks: Value = field(default_factory=lambda: Value(array_type(int32, 2), "marks"))
    report: Value = field(default_factory=lambda: Value(array_type(int32, 1), "report"))
    sites: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unit = min(size_of(leaf.scalar) for k in self.watched for leaf in element_leaves(self.kernel.params[k]))
        self.first: dict[Value, int] = {}
        row = 0
        for k in self.watched:
            p = self.kernel.params[k]
            self.first[p], row = row, row + 1 + p.type.ndim  # type: ignore[attr-defined]
        self.graded = {self.kernel.params[k] for k in self.active}
        stores = [(op, [v.const for v in split_memory(op)[3]]) for op in walk(self.kernel.body) if op.name == "store"]
        known = {c for _, values in stores for c in values if c is not None}
        self.constant = {id(op) for op, values in stores if len(known) == 1 and None not in values}

    def watches(self, op: Op) -> bool:
        return op.name in MEMORY and op.operands[0] in self.first

    def _wide(self, v: Value) -> Value:
        return v if v.type is int64 else emit("cast", v, type=int64)

    def mark(self, op: Op, env: Env) -> None:
        """Look at the marks of others where this access goes, and leave one."""
        b = self.b
        array, index, leaf, _ = split_memory(op)
        kind = (
            READ if op.name == "load" else ADD if op.name != "store" else CONSTANT if id(op) in self.constant else WRITE
        )
        if array not in self.graded:  # only whether a value that is read depends on other threads
            against: tuple[int, ...] = (WRITE, ADD, CONSTANT) if kind == READ else (READ,)
        else:
            against = tuple(k for k in range(KINDS) if k == WRITE or k != kind)
        base = b.load(self.layout, [b.const(self.first[array], int32)], [0])[0]
        for n, v in enumerate(index):
            stride = b.load(self.layout, [b.const(self.first[array] + 1 + n, int32)], [0])[0]
            base = base + self._wide(env.get(v, v)) * stride
        self.sites.append(op)
        look = partial(self._look, len(self.sites), kind, against)
        elements, touched = element_leaves(array), op.attrs["leaves"]
        if leaf is not None:
            width = size_of(elements[touched[0]].scalar) // self.unit
            look(base + elements[touched[0]].offset // self.unit + self._wide(env.get(leaf, leaf)) * width)
            return
        cells = [elements[j].offset // self.unit for j in touched]
        if len(cells) > 1 and cells == list(range(cells[0], cells[0] + len(cells))):

            def cell(k: Value) -> list[Value]:
                look(base + cells[0] + self._wide(k))
                return []

            b.for_(b.const(len(cells), int32), [], cell)
            return
        for at in cells:
            look(base + at)

    def _look(self, site: int, kind: int, against: Sequence[int], cell: Value) -> None:
        b = self.b
        me = b.tid(-1) + 1
        seen = [b.load(self.marks, [b.const(other, int32), cell], [0])[0] for other in against]
        foreign = [emit("and", emit("ne", s, 0), emit("ne", s, me)) for s in seen]
        worst, kind_of = seen[-1], b.const(against[-1], int32)
        for s, f, other in zip(seen[-2::-1], foreign[-2::-1], against[-2::-1], strict=True):
            worst, kind_of = emit("select", f, s, worst), emit("select", f, b.const(other, int32), kind_of)
        any_foreign = foreign[0]
        for f in foreign[1:]:
            any_foreign = emit("or", any_foreign, f)
        b.if_(any_foreign, partial(self._tell, site, me, worst, kind_of), lambda: None)
        here = [b.const(kind, int32), cell]
        own = b.load(self.marks, here, [0])[0]
        mine = emit("or", emit("eq", own, 0), emit("eq", own, me))
        b.store(self.marks, here, [0], [emit("select", mine, me, b.const(-1, int32))])

    def _tell(self, site: int, me: Value, seen: Value, other: Value) -> None:
        b = self.b
        clean = emit("eq", b.load(self.report, [b.const(0, int32)], [0])[0], 0)

        def write() -> None:
            for at, value in enumerate((b.const(site, int32), me - 1, seen - 1, other)):
                b.store(self.report, [b.const(at, int32)], [0], [value])

        b.if_(clean, write, lambda: None)


def _variant(
    kernel: Func, watched: Collection[int], active: Collection[int], fill: Callable[[_Marks, Env], bool], exact: bool
) -> RaceCheck | None:
    """A kernel with the parameters of a check whose operations `fill` emits; None if that gives up."""
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    with Builder(block) as b:
        marks = _Marks(b, kernel, tuple(sorted(watched)), frozenset(active))
        block.params += [marks.layout, marks.marks, marks.report]
        if not fill(marks, env):
            return None
    name = f"{kernel.name}_{'races' if exact else 'addresses'}"
    func = verify(dce(Func(name, block, kernel.span, kernel.dims, {"serial": True})))
    count = len(kernel.params)
    operands = {v for op in walk(func.body) if op.name != "shape" for v in op.operands}
    used = frozenset(k for k, p in enumerate(func.params[:count]) if p in operands)
    return RaceCheck(func, marks.watched, marks.unit, tuple(marks.sites), used, exact)


def exact_check(kernel: Func, watched: Collection[int], active: Collection[int]) -> RaceCheck:
    """The kernel with marks for the accesses to the parameters `watched`.  It must be given copies of what it
    writes."""

    def fill(marks: _Marks, env: Env) -> bool:
        def special(op: Op, inner: Env) -> bool:
            if op.name in ("print", "assert"):
                return True
            if not marks.watches(op):
                return False
            marks.mark(op, inner)
            copy_op(marks.b, op, inner)
            return True

        for op in kernel.body.ops:
            if not special(op, env):
                copy_op(marks.b, op, env, special)
        return True

    made = _variant(kernel, watched, active, fill, exact=True)
    assert made is not None
    return made


class _Unknown(Exception):
    """Where an access goes depends on values."""


def address_check(kernel: Func, watched: Collection[int], active: Collection[int]) -> RaceCheck | None:
    """Only the places of the accesses, whichever way branches on values go.  None if a place depends on values.

    It writes nothing but marks.  Accesses outside of arrays may happen in branches that the kernel would not take.
    """
    volatile = _volatile(kernel)

    def fill(marks: _Marks, env: Env) -> bool:
        try:
            _addresses(marks, kernel.body, env, volatile)
        except _Unknown:
            return False
        return True

    return _variant(kernel, watched, active, fill, exact=False)


def _volatile(kernel: Func) -> set[Value]:
    """Values that depend on floating-point memory, or on memory that the kernel writes: they may differ from launch to
    launch."""
    written = {op.operands[0] for op in walk(kernel.body) if op.name in WRITES}
    found: set[Value] = set()
    size = -1
    while size != len(found):
        size = len(found)
        for op in walk(kernel.body):
            if op.name == "load":
                moved = op.operands[0] in written or any(v in found for v in op.operands[1:])
                found.update(r for r in op.results if moved or is_float(r))
            elif op.name == "atomic":
                found.update(op.results)
            elif op.regions:
                for target, sources in flow(op):
                    if any(v in found for v in (*sources, *control(op))):
                        found.add(target)
            elif any(v in found for v in op.operands):
                found.update(op.results)
    return found


def _addresses(marks: _Marks, block: Block, env: Env, volatile: set[Value]) -> None:
    """Emit what a block does, as far as it decides where accesses go."""
    b = marks.b

    def inside(region: Block, params: Sequence[Value], carried: Sequence[Value]) -> Env:
        inner = dict(env)
        inner.update(zip(carried, params, strict=True))
        _addresses(marks, region, inner, volatile)
        return inner

    for op in block.ops:
        b.span = op.span
        touches = any(marks.watches(o) for region in op.regions for o in walk(region))
        if op.name in MEMORY:
            if marks.watches(op):
                index, leaf = split_memory(op)[1:3]
                if any(v in volatile for v in (*index, *([leaf] if leaf is not None else []))):
                    raise _Unknown
                marks.mark(op, env)
            if op.name == "load" and not any(r in volatile for r in op.results):
                copy_op(b, op, env)
        elif op.name in ("print", "assert"):
            continue
        elif not op.regions:
            if not any(r in volatile for r in op.results):
                copy_op(b, op, env)
        elif any(v in volatile for v in control(op)):
            if op.name != "if" and touches:
                raise _Unknown
            if op.name == "if":
                for region in op.regions:
                    inside(region, (), ())
        elif op.name == "if":
            kept = [j for j, r in enumerate(op.results) if r not in volatile]

            def side(region: Block, kept: Sequence[int] = kept) -> list[Value]:
                inner = inside(region, (), ())
                return [inner.get(region.yields[j], region.yields[j]) for j in kept]

            then, orelse = (partial(side, region) for region in op.regions)
            results = b.if_(env.get(op.operands[0], op.operands[0]), then, orelse)
            env.update(zip([op.results[j] for j in kept], results, strict=True))
        else:
            shift = 1 if op.name == "for" else 0
            kept = [j for j, r in enumerate(op.results) if r not in volatile]
            start = [env.get(op.operands[shift + j], op.operands[shift + j]) for j in kept]

            def turn(
                region: Block, *params: Value, op: Op = op, kept: Sequence[int] = kept, shift: int = shift
            ) -> list[Value]:
                inner = inside(region, params, [*region.params[:shift], *(region.params[shift + j] for j in kept)])
                yields = region.yields if region is not op.regions[-1] else [region.yields[j] for j in kept]
                return [inner.get(v, v) for v in yields]

            if op.name == "for":
                results = b.for_(
                    env.get(op.operands[0], op.operands[0]), start, partial(turn, op.regions[0]), op.attrs["reverse"]
                )
            else:
                ask = partial(turn, op.regions[0])
                results = b.while_(start, lambda *now, ask=ask: ask(*now)[0], partial(turn, op.regions[1]))
            env.update(zip([op.results[j] for j in kept], results, strict=True))
