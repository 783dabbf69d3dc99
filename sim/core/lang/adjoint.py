"""Reverse mode: a function or kernel becomes another one that computes its vector-Jacobian product.  IR in, IR out.

Scheme (structured SSA, recompute the body, checkpoint only what is needed):

* The adjoint of a block emits its operations again, without effects, then walks it backwards with a map from values to
  their cotangents.  Region operations return the cotangents of the values they use from outside, so there are no
  mutable adjoint variables: an `if` yields them from both branches, a reversed loop carries and accumulates them.
* A loop records at the start of its iterations the carried values that the reverse sweep looks at (`analysis.needed_values`),
  nothing if there are none.  The record is bounded: `SLOTS` checkpoints per value.  Trip count known on entry: every
  `stride`-th iteration is recorded.  Unknown (`while`): when the slots are full every second one is dropped and the stride
  doubles (hence SLOTS is even).  The reverse sweep restores a checkpoint, runs forward to the end of its segment into a
  second record, and goes back from there: full speed up to SLOTS^2 trips, slower but right beyond.
* Memory: the adjoint of a load accumulates into the gradient array at the same index; of a store, takes the gradient and
  clears it; of an accumulation, takes it.  Values of arrays are read as they were before the launch.  A load whose value is
  needed and that a store of the same thread may precede cannot be read that way: outside loops the forward launch
  *records* it per thread (`KernelAdjoint.forward`), inside loops it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sim.core.lang.analysis import dirty_loads, in_loops, is_float, matters, needed_values, varied_values, written_from
from sim.core.lang.errors import GradientError
from sim.core.lang.ir import OPS, ZERO, Block, Builder, Func, Op, TapeType, Value, emit, split_memory, verify, walk
from sim.core.lang.passes import Env, alias_groups, copy_op, dce, forward_memory, free_values, inline, rebuild
from sim.core.lang.types import Scalar, array_type, int32

SLOTS = 256
"""Checkpoints per recorded value of a loop; even, because thinning keeps every second one."""

Cotangents = dict[Value, Value]


@dataclass
class _Record:
    """What the forward sweep left for the reverse sweep of one loop."""

    tapes: list[Value | None]
    count: Value
    stride: Value | None = None


@dataclass
class Reverse:
    """Emits the forward part and the reverse sweep of one function into a builder."""

    b: Builder
    varied: set[Value]
    needed: set[Value]
    gradient: dict[Value, Value] = field(default_factory=dict)
    recorded: dict[int, Callable[[], list[Value]]] = field(default_factory=dict)
    unreadable: set[int] = field(default_factory=set)
    tapes: list[Op] = field(default_factory=list)
    slots: int = field(default_factory=lambda: SLOTS)

    # -- forward part
    def recompute(self, block: Block, env: Env, records: dict[int, _Record] | None = None) -> None:
        """Emit the operations of a block again, without effects; with `records`, its loops leave checkpoints."""

        def special(op: Op, inner: Env) -> bool:
            if op.name in ("store", "accum", "print", "assert"):
                return True
            if id(op) in self.recorded:
                inner.update(zip(op.results, self.recorded[id(op)](), strict=True))
                return True
            if op.name == "atomic" or id(op) in self.unreadable:
                inner.update((r, Value(r.type, "unreadable")) for r in op.results)
                return True
            return False

        for op in block.ops:
            if special(op, env):
                continue
            self.b.span = op.span
            if records is not None and op.name in ("for", "while"):
                self._forward_loop(op, env, records, special)
            else:
                copy_op(self.b, op, env, special)

    def _region(self, region: Block, env: Env, special: Callable[[Op, Env], bool], params: Sequence[Value]) -> list[Value]:
        inner = dict(env)
        inner.update(zip(region.params, params, strict=True))
        for op in region.ops:
            if not special(op, inner):
                copy_op(self.b, op, inner, special)
        return [inner.get(v, v) for v in region.yields]

    def _tape(self, scalar: Scalar, slots: int) -> Value:
        """Storage of the thread; all of it is declared at the top of the function."""
        op = Op("tape", [], [Value(TapeType(scalar, slots))], {"slots": slots, "scalar": scalar})
        op.results[0].op = op
        self.tapes.append(op)
        return op.results[0]

    def _put(self, tape: Value, at: Value, value: Value) -> None:
        self.b.append(Op("tape_store", [tape, at, value], []))

    def _get(self, tape: Value, at: Value) -> Value:
        assert isinstance(tape.type, TapeType)
        return self.b.leaf_op("tape_load", (tape, at), tape.type.scalar)

    def _forward_loop(self, op: Op, env: Env, records: dict[int, _Record], special: Callable[[Op, Env], bool]) -> None:
        b, body = self.b, op.regions[-1]
        shift = 1 if op.name == "for" else 0
        carried = body.params[shift:]
        args = [env.get(v, v) for v in op.operands]
        if op.name == "for":
            n, known = args[0], args[0].const
            slots = min(self.slots, known) if known is not None else self.slots
            tapes = [self._tape(p.type, max(slots, 1)) if p in self.needed else None for p in carried]  # type: ignore[arg-type]
            stride = None
            if any(tapes) and not (known is not None and known <= self.slots):
                stride = emit("max", emit("div", n + (self.slots - 1), self.slots), 1)

            def fill(k: Value, *values: Value) -> list[Value]:
                at = n - 1 - k if op.attrs["reverse"] else k
                if stride is None:
                    self._keep(tapes, at, values)
                elif any(tapes):
                    slot = emit("div", at, stride)
                    b.if_(emit("eq", slot * stride, at), lambda: self._keep(tapes, slot, values), lambda: None)
                return self._region(body, env, special, (k, *values))

            results = b.for_(n, args[1:], fill, op.attrs["reverse"])
            records[id(op)] = _Record(tapes, n, stride)
        else:
            tapes = [self._tape(p.type, self.slots) if p in self.needed else None for p in carried]  # type: ignore[arg-type]
            zero, one = b.const(0, int32), b.const(1, int32)

            def step(*values: Value) -> list[Value]:
                *plain, count, stride = values
                slot = emit("div", count, stride)

                def checkpoint() -> list[Value]:
                    def thin() -> list[Value]:
                        def move(k: Value) -> list[Value]:
                            for tape in tapes:
                                if tape is not None:
                                    self._put(tape, k, self._get(tape, k * 2))
                            return []

                        b.for_(b.const(self.slots // 2, int32), [], move)
                        return [stride * 2]

                    (wider,) = b.if_(emit("eq", slot, self.slots), thin, lambda: [stride])
                    self._keep(tapes, emit("div", count, wider), plain)
                    return [wider]

                wider = stride
                if any(tapes):
                    (wider,) = b.if_(emit("eq", slot * stride, count), checkpoint, lambda: [stride])
                return [*self._region(body, env, special, plain), count + 1, wider]

            def go_on(*values: Value) -> Value:
                return self._region(op.regions[0], env, special, values[:-2])[0]

            *results, count, stride = b.while_([*args, zero, one], go_on, step)
            records[id(op)] = _Record(tapes, count, stride)
        env.update(zip(op.results, results, strict=True))

    def _keep(self, tapes: Sequence[Value | None], at: Value, values: Sequence[Value]) -> None:
        for tape, v in zip(tapes, values, strict=True):
            if tape is not None:
                self._put(tape, at, v)

    # -- reverse sweep
    def add(self, bar: Cotangents, v: Value, ct: Value | None) -> None:
        if ct is not None and v in self.varied:
            bar[v] = bar[v] + ct if v in bar else ct

    def reverse(self, block: Block, env: Env, bar: Cotangents, records: dict[int, _Record]) -> None:
        for op in reversed(block.ops):
            self.b.span = op.span
            if op.name in ("load", "store", "accum", "atomic"):
                self._reverse_memory(op, env, bar)
            elif op.name == "if":
                self._reverse_if(op, env, bar)
            elif op.regions:
                self._reverse_loop(op, env, bar, records)
            elif op.name == "call":
                self._reverse_call(op, env, bar)
            elif op.name in OPS and op.results[0] in bar:
                ct, row = bar.pop(op.results[0]), OPS[op.name]
                if row.vjp is ZERO:
                    continue
                if row.vjp is None:
                    raise GradientError(f"'{op.name}' has no derivative", op.span, "keep it off the path from the parameters to the loss")
                args = [env.get(v, v) for v in op.operands]
                for v, part in zip(op.operands, row.vjp(ct, env[op.results[0]], *args), strict=True):
                    self.add(bar, v, part)
            elif op.name in ("tape_load", "tape_store") and any(v in self.varied for v in (*op.operands, *op.results)):
                raise GradientError(
                    "the second reverse derivative goes through a loop whose trip count is not a small constant", op.span,
                    "give the loop a constant trip count up to 16, so that it is unrolled",
                )

    def _reverse_memory(self, op: Op, env: Env, bar: Cotangents) -> None:
        b = self.b
        array, index, leaf, values = split_memory(op)
        grad = self.gradient.get(array)
        if grad is None:
            for r in op.results:
                bar.pop(r, None)
            return
        where = [env.get(v, v) for v in index]
        at = None if leaf is None else env.get(leaf, leaf)
        leaves = op.attrs["leaves"]
        if op.name == "load":
            hit = [k for k, r in enumerate(op.results) if r in bar]
            if hit:
                touched = leaves if leaf is not None else [leaves[k] for k in hit]
                b.accum(grad, where, touched, [bar.pop(op.results[k]) for k in hit], at)
            return
        if op.name == "atomic":
            if any(is_float(v) for v in values):
                raise GradientError(
                    f"the value that atomic_{op.attrs['how']} returns, or an atomic {op.attrs['how']} on '{array.name}', carries a gradient", op.span,
                    "use atomic_add without its result, or give the array no gradient",
                )
            return
        hit = [k for k, v in enumerate(values) if is_float(v)]
        if not hit:
            return
        touched = leaves if leaf is not None else [leaves[k] for k in hit]
        cts = b.load(grad, where, touched, at)
        if op.name == "store":
            b.store(grad, where, touched, [b.const(0.0, ct.type) for ct in cts], at)
        for k, ct in zip(hit, cts, strict=True):
            self.add(bar, values[k], ct)

    def _reverse_call(self, op: Op, env: Env, bar: Cotangents) -> None:
        if not any(r in bar for r in op.results):
            return
        b = self.b
        results = [r for r in op.results if is_float(r)]
        cts = [bar.pop(r) if r in bar else b.const(0.0, r.type) for r in results]
        args = [env.get(v, v) for v in (*op.operands, *op.results)]
        rule: Func = op.attrs["vjp"]()
        parts = inline_rule(b, rule, [*args, *cts])
        for v, part in zip([v for v in op.operands if is_float(v)], parts, strict=True):
            self.add(bar, v, part)

    def _reverse_if(self, op: Op, env: Env, bar: Cotangents) -> None:
        cts = [bar.pop(r, None) for r in op.results]
        if not matters(op, self.varied, self.gradient):
            return
        outside = [v for v in free_values(op) if v in self.varied and is_float(v)]

        def branch(region: Block) -> Callable[[], list[Value]]:
            def fill() -> list[Value]:
                inner, local, records = dict(env), {}, {}  # type: ignore[var-annotated]
                self.recompute(region, inner, records)
                for v, ct in zip(region.yields, cts, strict=True):
                    self.add(local, v, ct)
                self.reverse(region, inner, local, records)
                return [local.get(v) or self.b.const(0.0, v.type) for v in outside]

            return fill

        cond = env.get(op.operands[0], op.operands[0])
        for v, ct in zip(outside, self.b.if_(cond, branch(op.regions[0]), branch(op.regions[1])), strict=True):
            self.add(bar, v, ct)

    def _reverse_loop(self, op: Op, env: Env, bar: Cotangents, records: dict[int, _Record]) -> None:
        b, body = self.b, op.regions[-1]
        cts = [bar.pop(r, None) for r in op.results]
        if not matters(op, self.varied, self.gradient):
            return
        shift = 1 if op.name == "for" else 0
        carried, init = body.params[shift:], op.operands[shift:]
        moving = [j for j, p in enumerate(carried) if p in self.varied]
        outside = [v for v in free_values(op) if v in self.varied and is_float(v)]
        record = records[id(op)]
        restore = self._restorer(op, env, record)

        def fill(at: Value, *adjoints: Value) -> list[Value]:
            of_carried, of_outside = adjoints[: len(moving)], adjoints[len(moving) :]
            inner = self._bind(op, env, record, at, restore(at))
            local: Cotangents = {}
            nested: dict[int, _Record] = {}
            self.recompute(body, inner, nested)
            for j, ct in zip(moving, of_carried, strict=True):
                self.add(local, body.yields[j], ct)
            self.reverse(body, inner, local, nested)
            before = [local.get(carried[j]) or b.const(0.0, carried[j].type) for j in moving]
            return before + [total + local[v] if v in local else total for v, total in zip(outside, of_outside, strict=True)]

        start = [cts[j] or b.const(0.0, carried[j].type) for j in moving] + [b.const(0.0, v.type) for v in outside]
        ends = b.for_(record.count, start, fill, reverse=True)
        for v, ct in zip([init[j] for j in moving] + outside, ends, strict=True):
            self.add(bar, v, ct)

    def _bind(self, op: Op, env: Env, record: _Record, at: Value, values: Sequence[Value]) -> Env:
        """The environment of iteration number `at` of a loop whose carried values are `values`."""
        inner, body = dict(env), op.regions[-1]
        shift = 1 if op.name == "for" else 0
        if op.name == "for":
            inner[body.params[0]] = record.count - 1 - at if op.attrs["reverse"] else at
        inner.update(zip(body.params[shift:], values, strict=True))
        return inner

    def _restorer(self, op: Op, env: Env, record: _Record) -> Callable[[Value], list[Value]]:
        """How the reverse sweep gets the carried values at the start of iteration `at` (those that it needs)."""
        b, body = self.b, op.regions[-1]
        carried = body.params[1 if op.name == "for" else 0 :]
        taped = [j for j, t in enumerate(record.tapes) if t is not None]
        tapes = [record.tapes[j] for j in taped]

        def full(values: Sequence[Value]) -> list[Value]:
            out = [Value(p.type, "not recorded") for p in carried]
            for j, v in zip(taped, values, strict=True):
                out[j] = v
            return out

        if not taped:
            return lambda at: full([])
        if record.stride is None:
            return lambda at: full([self._get(t, at) for t in tapes])  # type: ignore[arg-type]
        stride, last = record.stride, record.count - 1
        second = [self._tape(carried[j].type, self.slots) for j in taped]  # type: ignore[arg-type]

        def advance(start: Value, stop: Value, values: Sequence[Value], segment: Value, keep: bool) -> list[Value]:
            """Run the body forward from iteration `start` to `stop`, optionally filling the second record."""

            def fill(k: Value, *now: Value) -> list[Value]:
                at = start + k
                if keep:
                    place = at - segment
                    b.if_(emit("lt", place, self.slots), lambda: self._keep(second, place, now), lambda: None)
                inner = self._bind(op, env, record, at, full(now))
                self.recompute(body, inner)
                return [inner.get(body.yields[j], body.yields[j]) for j in taped]

            return b.for_(stop - start, values, fill)

        def restore(at: Value) -> list[Value]:
            slot = emit("div", at, stride)
            segment = slot * stride
            place = at - segment

            def from_segment() -> list[Value]:
                end_of_segment = emit("or", emit("eq", at, last), emit("eq", place, stride - 1))

                def refill() -> None:
                    advance(segment, at + 1, [self._get(t, slot) for t in tapes], segment, True)  # type: ignore[arg-type]

                b.if_(end_of_segment, refill, lambda: None)

                def far() -> list[Value]:
                    kept = self.slots - 1
                    values = [self._get(t, b.const(kept, int32)) for t in second]
                    return advance(segment + kept, at, values, segment, False)

                return b.if_(emit("lt", place, self.slots), lambda: [self._get(t, place) for t in second], far)

            return full(b.if_(emit("eq", stride, 1), lambda: [self._get(t, at) for t in tapes], from_segment))  # type: ignore[arg-type]

        return restore


def inline_rule(b: Builder, rule: Func, args: Sequence[Value]) -> list[Value]:
    """Emit a closed-form adjoint; calls inside it stay calls."""
    env: Env = dict(zip(rule.params, args, strict=True))
    for op in rule.body.ops:
        copy_op(b, op, env)
    return [env.get(v, v) for v in rule.body.yields]


# ------------------------------------------------------------------------------------------------ pure functions
def vjp(func: Func, wrt: Collection[int] | None = None) -> Func:
    """The vector-Jacobian product of a pure function.

    Parameters of the result: those of `func`, then one cotangent per floating result.  It yields one cotangent per
    floating parameter (`wrt`: only these parameter numbers).  It is a pure function again.
    """
    func = dce(rebuild(func))  # a dead carried value would be recorded, and carry a cotangent of zero
    inputs = [p for k, p in enumerate(func.params) if is_float(p) and (wrt is None or k in wrt)]
    block = Block([Value(p.type, p.name) for p in func.params])
    outputs = [v for v in func.body.yields if is_float(v)]
    seeds = [Value(v.type, "adj_result") for v in outputs]
    env: Env = dict(zip(func.params, block.params, strict=True))
    block.params += seeds
    varied = varied_values(func, set(inputs))
    needed = needed_values(func, varied, ())
    with Builder(block) as b:
        sweep = Reverse(b, varied, needed)
        records: dict[int, _Record] = {}
        sweep.recompute(func.body, env, records)
        bar: Cotangents = {}
        for v, seed in zip(outputs, seeds, strict=True):
            sweep.add(bar, v, seed)
        sweep.reverse(func.body, env, bar, records)
        block.yields = [bar.get(p) or b.const(0.0, p.type) for p in inputs]
    block.ops[:0] = sweep.tapes
    return verify(dce(Func(f"{func.name}_vjp", block, func.span)))


# ------------------------------------------------------------------------------------------------ kernels
@dataclass(frozen=True)
class KernelAdjoint:
    """The adjoint of a kernel for one choice of arrays with gradient.

    func:    its parameters are those of the kernel, then a gradient array per number in `active`, then `records`.
    active:  numbers of the parameters that have a gradient array, in order.
    needs:   numbers of the array parameters whose values before the launch the adjoint loads; others may be null.
    records: (scalar type, slots) of the arrays (slots, threads) that the forward launch fills for the adjoint.
    forward: the kernel with the records as extra parameters, or None if nothing is recorded.
    """

    func: Func
    active: tuple[int, ...]
    needs: frozenset[int]
    records: tuple[tuple[Scalar, int], ...]
    forward: Func | None


@dataclass(frozen=True)
class KernelNeeds:
    """Which values the adjoint of a kernel looks at, before deciding how to keep them.

    loads:    array parameter number -> scalars per thread that its needed loads outside loops move.
    must:     parameters with a needed load that a store of the same thread may precede: they have to be recorded.
    in_loop:  parameters with a needed load inside a loop: their values have to be kept as a whole.
    lossy:    arrays without gradient that the kernel writes values with a gradient to.
    """

    kernel: Func
    active: tuple[int, ...]
    groups: dict[Value, int]
    varied: set[Value]
    needed: set[Value]
    sites: dict[int, list[Op]]
    must: frozenset[int]
    in_loop: frozenset[int]
    lossy: frozenset[int]

    def scalars(self, param: int) -> int:
        return sum(1 for op in self.sites.get(param, ()) for r in op.results if r in self.needed)


def kernel_needs(kernel: Func, active: Iterable[int], aliases: Iterable[Collection[int]] = ()) -> KernelNeeds:
    """Analyse a kernel: `active` are the array parameters with a gradient, `aliases` groups of parameters that overlap.

    Raises GradientError where the adjoint would need a value that the launch destroys inside a loop, and where a value
    with a gradient passes through an array that has none.
    """
    aliases = tuple(aliases)
    groups_before = alias_groups(kernel, aliases)
    kernel = dce(forward_memory(kernel, groups_before))
    groups = dict(alias_groups(kernel, aliases))
    chosen = tuple(sorted(active))
    sources = {kernel.params[k] for k in chosen}
    varied = varied_values(kernel, sources)
    needed = needed_values(kernel, varied, sources)
    dirty, looped = dirty_loads(kernel, groups), in_loops(kernel)
    number = {p: k for k, p in enumerate(kernel.params)}
    sites: dict[int, list[Op]] = {}
    must, in_loop = set(), set()
    for op in walk(kernel.body):
        if op.name not in ("load", "atomic") or not any(r in needed for r in op.results):
            continue
        param = number[op.operands[0]]
        spoilt = op.name == "atomic" or id(op) in dirty
        if id(op) in looped:
            if spoilt:
                raise GradientError(
                    f"the gradient needs the value of '{op.operands[0].name}' read here, and this kernel may have overwritten it in the same loop",
                    op.span, "carry the value in a local variable through the loop and store it afterwards",
                )
            in_loop.add(param)
            continue
        sites.setdefault(param, []).append(op)
        if spoilt:
            must.add(param)
    lossy = frozenset(number[array] for array in _lost(kernel, groups, sources, varied, dirty))
    return KernelNeeds(kernel, chosen, groups, varied, needed, sites, frozenset(must), frozenset(in_loop), lossy)


def _lost(kernel: Func, groups: dict[Value, int], sources: set[Value], varied: set[Value], dirty: set[int]) -> set[Value]:
    """Arrays without gradient that values with a gradient are written to.

    Raises GradientError if the kernel reads them back and writes what depends on them to an array with a gradient.
    """
    lost = {array for array, _ in written_from(kernel, varied) if array not in sources}
    while True:
        lost = {p for p in groups if p not in sources and any(groups[p] == groups[a] for a in lost)}
        through = varied_values(kernel, lost, dirty)
        reached = {array for array, _ in written_from(kernel, through)}
        for array, op in written_from(kernel, through):
            if array in sources:
                names = " and ".join(sorted(f"'{a.name}'" for a in lost))
                raise GradientError(
                    f"what is written to '{array.name}' here depends on values with a gradient that pass through {names}, "
                    "which has none: the gradient would be lost",
                    op.span, f"make {names} with requires_grad=True, or keep the values in local variables",
                )
        if reached <= lost:
            return lost
        lost |= reached


def kernel_adjoint(needs: KernelNeeds, record: Collection[int] = ()) -> KernelAdjoint:
    """Build the adjoint.  The needed loads of the parameters in `record` (and in `needs.must`) are recorded per thread."""
    kernel = needs.kernel
    recorded = [op for k in sorted({*record, *needs.must}) for op in needs.sites.get(k, ())]
    slots: dict[Scalar, int] = {}
    place: dict[int, list[tuple[Scalar, int] | None]] = {}
    for op in recorded:
        place[id(op)] = []
        for r in op.results:
            scalar = r.type
            assert isinstance(scalar, Scalar)
            if r in needs.needed:
                place[id(op)].append((scalar, slots.get(scalar, 0)))
                slots[scalar] = slots.get(scalar, 0) + 1
            else:
                place[id(op)].append(None)
    records = tuple(sorted(slots.items(), key=lambda item: item[0].name))
    dirty = dirty_loads(kernel, needs.groups)

    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    gradient: dict[Value, Value] = {}
    for k in needs.active:
        source = kernel.params[k]
        gradient[source] = Value(source.type, f"adj_{source.name}")
        block.params.append(gradient[source])
    stores = {scalar: Value(array_type(scalar, 2), f"record_{scalar.name}") for scalar, _ in records}
    block.params += stores.values()

    with Builder(block) as b:

        def reader(op: Op) -> Callable[[], list[Value]]:
            def read() -> list[Value]:
                thread = b.tid(-1)
                return [
                    Value(r.type, "unreadable") if at is None else b.load(stores[at[0]], [b.const(at[1], int32), thread], [0])[0]
                    for r, at in zip(op.results, place[id(op)], strict=True)
                ]

            return read

        sweep = Reverse(b, needs.varied, needs.needed, gradient, {id(op): reader(op) for op in recorded}, dirty)
        loops: dict[int, _Record] = {}
        sweep.recompute(kernel.body, env, loops)
        sweep.reverse(kernel.body, env, {}, loops)
    block.ops[:0] = sweep.tapes
    func = Func(f"{kernel.name}_adjoint", block, kernel.span, kernel.dims, {})
    func = verify(dce(inline(dce(func))))
    loaded = {op.operands[0] for op in walk(func.body) if op.name == "load"}
    count = len(kernel.params)
    read = frozenset(k for k, p in enumerate(func.params[:count]) if p in loaded)
    forward = _recording(kernel, place, stores) if recorded else None
    return KernelAdjoint(func, needs.active, read, records, forward)


def _recording(kernel: Func, place: dict[int, list[tuple[Scalar, int] | None]], stores: dict[Scalar, Value]) -> Func:
    """The kernel that also writes the needed results of the recorded loads, per thread."""
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    extra = {scalar: Value(v.type, v.name) for scalar, v in stores.items()}
    block.params += extra.values()

    def special(op: Op, inner: Env) -> bool:
        if id(op) not in place:
            return False
        copy_op(b, op, inner)
        thread = b.tid(-1)
        for r, at in zip(op.results, place[id(op)], strict=True):
            if at is not None:
                b.store(extra[at[0]], [b.const(at[1], int32), thread], [0], [inner[r]])
        return True

    with Builder(block) as b:
        for op in kernel.body.ops:
            if not special(op, env):
                copy_op(b, op, env, special)
    return verify(Func(f"{kernel.name}_recording", block, kernel.span, kernel.dims, {}))
