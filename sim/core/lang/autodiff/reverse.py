"""Reverse mode: a function or kernel becomes another one that computes its vector-Jacobian product.  IR in, IR out.

Scheme (structured SSA, recompute the body, checkpoint only what is needed):

* The adjoint of a block emits its operations again, without effects, then walks it backwards with a map from values to
  their cotangents.  Region operations return the cotangents of the values they use from outside, so there are no
  mutable adjoint variables: an `if` yields them from both branches, a reversed loop carries and accumulates them.
* A loop has recorded what the reverse sweep needs of the start of its trips (`primal.py`), and is walked trip by trip.
* Memory: the adjoint of a load accumulates into the gradient array at the same index; of a store, takes the gradient and
  clears it; of an accumulation, takes it.  Values of arrays are read as they were before the launch.  A load whose
  value is needed and that a store of the same thread may precede cannot be read that way: outside loops the forward
  launch
  *records* it per thread, inside loops the adjoint performs the stores again and takes them back (`undo.py`).  What atomics
  return is always recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sim.core.lang.analysis.activity import is_float, matters, needed_values, varied_values
from sim.core.lang.autodiff.degeneracy import any_nonzero, combined_calls, demand_distinct, moved_results
from sim.core.lang.autodiff.primal import Forward, Record, Sweep
from sim.core.lang.autodiff.replay_plan import counters
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import OPS, ZERO, Block, Builder, Func, Op, Value, emit, split_memory, verify
from sim.core.lang.ir.passes import WRITES, Env, copy_block, dce, free_values, rebuild
from sim.core.lang.ir.sinking import sink
from sim.core.lang.types import ArrayType, int32

Cotangents = dict[Value, Value]


@dataclass
class Reverse(Forward):
    """Emits the forward part and the reverse sweep of one function into a builder."""

    def add(self, bar: Cotangents, v: Value, ct: Value | None) -> None:
        if ct is not None and v in self.varied:
            bar[v] = bar[v] + ct if v in bar else ct

    def reverse(self, block: Block, env: Env, bar: Cotangents, sweep: Sweep) -> None:
        for op in reversed(block.ops):
            self.b.span = op.span
            if op.name in ("load", "store", "accum", "atomic"):
                if id(op) in sweep.old:
                    self._take_back(op, env, sweep.old[id(op)])
                self._reverse_memory(op, env, bar)
            elif op.regions:
                if id(op) in sweep.before and (op.name == "if" or not matters(op, self.varied, self.gradient)):
                    self._rewind(sweep.before[id(op)])
                    if id(op) in self.replay.steady:
                        self._unwind(op, env)
                if op.name == "if":
                    self._reverse_if(op, env, bar)
                else:
                    self._reverse_loop(op, env, bar, sweep)
            elif op.name == "call":
                self._reverse_call(op, env, bar)
            elif op.name in OPS and op.results[0] in bar:
                ct, row = bar.pop(op.results[0]), OPS[op.name]
                if row.vjp is ZERO:
                    continue
                if row.vjp is None:
                    raise GradientError(
                        f"'{op.name}' has no derivative",
                        op.span,
                        "keep it off the path from the parameters to the loss",
                    )
                args = [env.get(v, v) for v in op.operands]
                for v, part in zip(op.operands, row.vjp(ct, env[op.results[0]], *args), strict=True):
                    self.add(bar, v, part)
            elif op.name in ("tape_load", "tape_store") and any(v in self.varied for v in (*op.operands, *op.results)):
                raise GradientError(
                    "the second reverse derivative goes through a loop whose trip count is not a small constant",
                    op.span,
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
                b.accum(grad, where, touched, [bar.pop(op.results[k]) for k in hit], at, array in self.own)
            return
        if op.name == "atomic" and any(is_float(v) for v in values):
            self._refuse_atomic(op, array, bar)
            if op.attrs["how"] in ("min", "max"):
                self._reverse_extreme(op, env, bar, grad, where, at)
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

    def _refuse_atomic(self, op: Op, array: Value, bar: Cotangents) -> None:
        how = op.attrs["how"]
        if any(r in bar for r in op.results):
            what = (
                f"the value that atomic_{how} on '{array.name}' returns carries a gradient: it depends on the order of"
                " the threads"
            )
            raise GradientError(
                what, op.span, "use the result for nothing that reaches the loss, or sum in another way"
            )
        if how == "exch":
            what = (
                f"atomic_exch on '{array.name}' carries a gradient: which thread's value stays depends on the order of"
                " the threads"
            )
            raise GradientError(what, op.span, "store with one thread per element, or give the array no gradient")

    def _reverse_extreme(
        self, op: Op, env: Env, bar: Cotangents, grad: Value, where: Sequence[Value], at: Value | None
    ) -> None:
        """atomic_min, atomic_max: the gradient goes to the first value that equals the final one, if it beat the
        initial one."""
        b = self.b
        array, _, _, values = split_memory(op)
        leaves, beats = op.attrs["leaves"], "gt" if op.attrs["how"] == "max" else "lt"
        final = b.load(self.finals[array], where, leaves, at)
        initial = b.load(env[array], where, leaves, at)
        for k, v in enumerate(values):
            won = emit("and", emit("eq", env.get(v, v), final[k]), emit(beats, final[k], initial[k]))

            def take(k: int = k) -> list[Value]:
                return b.atomic(
                    "exch", grad, where, leaves if at is not None else [leaves[k]], [b.const(0.0, final[k].type)], at
                )

            def leave(k: int = k) -> list[Value]:
                return [b.const(0.0, final[k].type)]

            self.add(bar, v, b.if_(won, take, leave)[0])

    def _reverse_call(self, op: Op, env: Env, bar: Cotangents) -> None:
        if not any(r in bar for r in op.results):
            return
        b = self.b
        results = [r for r in op.results if is_float(r)]
        cts = [bar.pop(r) if r in bar else b.const(0.0, r.type) for r in results]
        args = [env.get(v, v) for v in (*op.operands, *op.results)]
        if "separated" in op.attrs:
            self._check_distinct(op, env, dict(zip(results, cts, strict=True)))
        rule: Func = op.attrs["vjp"]()
        arrays = [v for v in op.operands if isinstance(v.type, ArrayType)]
        sums = [self.gradient.get(v) for v in arrays]
        none = [p for p, v in zip(rule.params[len(args) + len(cts) :], sums, strict=True) if v is None]
        given: Env = dict(
            zip(
                rule.params,
                [*args, *cts, *(v or Value(p.type) for v, p in zip(sums, arrays, strict=True))],
                strict=True,
            )
        )
        parts = copy_block(b, rule.body, given, lambda o, _: o.name in WRITES and o.operands[0] in none)
        for v, part in zip([v for v in op.operands if is_float(v)], parts, strict=True):
            self.add(bar, v, part)

    def _check_distinct(self, op: Op, env: Env, cts: Cotangents) -> None:
        """A call with separable results that are not moved apart: where they coincide its rule may lack a part."""
        b = self.b
        if op.attrs.get("differentiated"):
            demand_distinct(b, op, [env[r] for r in op.results], any_nonzero(b, list(cts.values())))
        elif id(op) in self.stored or (self.fixed and id(op) in self.apart):
            moved = moved_results(op)
            sorts = [any_nonzero(b, [ct for r, ct in cts.items() if (r in moved) is sort]) for sort in (True, False)]
            demand_distinct(b, op, [env[r] for r in op.results], emit("and", *sorts))

    def _reverse_if(self, op: Op, env: Env, bar: Cotangents) -> None:
        cts = [bar.pop(r, None) for r in op.results]
        if not matters(op, self.varied, self.gradient):
            return
        outside = [v for v in free_values(op) if v in self.varied and is_float(v)]

        def branch(region: Block) -> Callable[[], list[Value]]:
            def fill() -> list[Value]:
                inner, sweep = dict(env), Sweep()
                local: Cotangents = {}
                self.recompute(region, inner, sweep)
                for v, ct in zip(region.yields, cts, strict=True):
                    self.add(local, v, ct)
                self.reverse(region, inner, local, sweep)
                return [local.get(v) or self.b.const(0.0, v.type) for v in outside]

            return fill

        cond = env.get(op.operands[0], op.operands[0])
        for v, ct in zip(outside, self.b.if_(cond, branch(op.regions[0]), branch(op.regions[1])), strict=True):
            self.add(bar, v, ct)

    def _reverse_loop(self, op: Op, env: Env, bar: Cotangents, sweep: Sweep) -> None:
        b, body = self.b, op.regions[-1]
        cts = [bar.pop(r, None) for r in op.results]
        if not matters(op, self.varied, self.gradient):
            return
        shift = 1 if op.name == "for" else 0
        carried, init = body.params[shift:], op.operands[shift:]
        moving = [j for j, p in enumerate(carried) if p in self.varied]
        outside = [v for v in free_values(op) if v in self.varied and is_float(v)]
        record = sweep.loops[id(op)]
        restore = self._pop_frame(op, env, record) if id(op) in self.replay.moving else self._restorer(op, env, record)

        def fill(at: Value, *adjoints: Value) -> list[Value]:
            of_carried, of_outside = adjoints[: len(moving)], adjoints[len(moving) :]
            inner = restore(at)
            local: Cotangents = {}
            nested = Sweep()
            if id(op) in self.replay.through:
                self._pass(body, inner, nested)
            else:
                self.recompute(body, inner, nested)
            for j, ct in zip(moving, of_carried, strict=True):
                self.add(local, body.yields[j], ct)
            self.reverse(body, inner, local, nested)
            before = [local.get(carried[j]) or b.const(0.0, carried[j].type) for j in moving]
            return before + [
                total + local[v] if v in local else total for v, total in zip(outside, of_outside, strict=True)
            ]

        start = [cts[j] or b.const(0.0, carried[j].type) for j in moving] + [b.const(0.0, v.type) for v in outside]
        ends = b.for_(record.count, start, fill, reverse=True)
        for v, ct in zip([init[j] for j in moving] + outside, ends, strict=True):
            self.add(bar, v, ct)

    def _pop_frame(self, op: Op, env: Env, record: Record) -> Callable[[Value], Env]:
        """How the reverse sweep gets to the start of iteration `at` of a loop that stores to replayed arrays, from its
        end."""
        body, kept, cursors = op.regions[-1], self.replay.frames[id(op)], self._framed_cursors(op)

        def restore(at: Value) -> Env:
            frame = [*kept, *(Value(int32) for _ in cursors)]
            for kind, numbers in self.replay.frame(op, len(cursors)):
                for k, value in zip(numbers, self.stacks[kind].pop(len(numbers)), strict=True):
                    frame[k] = value
            known = dict(zip(kept, frame, strict=False))
            for p, (start, step) in counters(op).items():
                by = self.b.const(step.const, p.type) if step.const is not None else env.get(step, step)
                known[p] = env.get(start, start) + (at if p.type is int32 else emit("cast", at, type=p.type)) * by
            carried = body.params[1 if op.name == "for" else 0 :]
            inner = self._bind(op, env, record, at, [known.get(p) or Value(p.type, "not recorded") for p in carried])
            if id(op) not in self.replay.steady:
                self._rewind(frame[len(kept) :])
            elif id(op) not in self.replay.through:
                self._unwind_block(body, inner)
            return inner

        return restore

    def _pass(self, body: Block, env: Env, sweep: Sweep) -> None:
        """What the reverse sweep over a trip of a loop that is gone through has to know: nothing that its inner loops
        change."""
        for op in body.ops:
            if id(op) in self.replay.moving:
                sweep.loops[id(op)] = Record(env.get(op.operands[0], op.operands[0]))
            elif op.name in ("for", "while"):
                self._forward_loop(op, env, sweep)
            else:
                self._copy(op, env)

    def _bind(self, op: Op, env: Env, record: Record, at: Value, values: Sequence[Value]) -> Env:
        """The environment of iteration number `at` of a loop whose carried values are `values`."""
        inner, body = dict(env), op.regions[-1]
        shift = 1 if op.name == "for" else 0
        if op.name == "for":
            inner[body.params[0]] = record.count - 1 - at if op.attrs["reverse"] else at
        inner.update(zip(body.params[shift:], values, strict=True))
        return inner

    def _restorer(self, op: Op, env: Env, record: Record) -> Callable[[Value], Env]:
        """How the reverse sweep gets the carried values at the start of iteration `at` (those that it tbr), with the
        cursors where they were there."""
        b, body = self.b, op.regions[-1]
        carried = body.params[1 if op.name == "for" else 0 :]
        taped = [j for j, t in enumerate(record.tapes) if t is not None]
        values = [j for j in taped if j < len(carried)]
        logs = self._cursors if len(record.tapes) > len(carried) else []
        tapes = [t for t in record.tapes if t is not None]
        kinds = [t.type.scalar for t in tapes]  # type: ignore[attr-defined]

        def full(at: Value, kept: Sequence[Value]) -> Env:
            out = [Value(p.type, "not recorded") for p in carried]
            for j, v in zip(values, kept, strict=False):
                out[j] = v
            if logs:
                self._rewind(kept[len(values) :])
            return self._bind(op, env, record, at, out)

        if not taped:
            return lambda at: full(at, [])
        if record.stride is None:
            return lambda at: full(at, [self._get(t, at) for t in tapes])
        stride, last = record.stride, record.count - 1
        second = [self._tape(kind, self.slots) for kind in kinds]

        def advance(start: Value, stop: Value, kept: Sequence[Value], segment: Value, keep: bool) -> list[Value]:
            """Run the body forward from iteration `start` to `stop`, optionally filling the second record."""
            if logs:
                self._rewind(kept[len(values) :])

            def fill(k: Value, *now: Value) -> list[Value]:
                at = start + k
                if keep:
                    place, all_now = at - segment, [*now, *(log.now() for log in logs)]
                    b.if_(emit("lt", place, self.slots), lambda: self._keep(second, place, all_now), lambda: None)
                bound = [Value(p.type, "not recorded") for p in carried]
                for j, v in zip(values, now, strict=True):
                    bound[j] = v
                inner = self._bind(op, env, record, at, bound)
                self.recompute(body, inner)
                return [inner.get(body.yields[j], body.yields[j]) for j in values]

            ends = b.for_(stop - start, kept[: len(values)], fill)
            return [*ends, *(log.now() for log in logs)]

        def restore(at: Value) -> Env:
            slot = emit("div", at, stride)
            segment = slot * stride
            place = at - segment

            def from_segment() -> list[Value]:
                end_of_segment = emit("or", emit("eq", at, last), emit("eq", place, stride - 1))

                def refill() -> None:
                    advance(segment, at + 1, [self._get(t, slot) for t in tapes], segment, True)

                b.if_(end_of_segment, refill, lambda: None)

                def far() -> list[Value]:
                    kept = self.slots - 1
                    return advance(
                        segment + kept, at, [self._get(t, b.const(kept, int32)) for t in second], segment, False
                    )

                return b.if_(emit("lt", place, self.slots), lambda: [self._get(t, place) for t in second], far)

            return full(at, b.if_(emit("eq", stride, 1), lambda: [self._get(t, at) for t in tapes], from_segment))

        return restore


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
    varied = varied_values(sink(func, varied_values(func, set(inputs))), set(inputs))
    needed = needed_values(func, varied, ())
    with Builder(block) as b:
        sweep = Reverse(b, varied, needed, apart=combined_calls(func))
        records = Sweep()
        sweep.recompute(func.body, env, records)
        bar: Cotangents = {}
        for v, seed in zip(outputs, seeds, strict=True):
            sweep.add(bar, v, seed)
        sweep.reverse(func.body, env, bar, records)
        block.yields = [bar.get(p) or b.const(0.0, p.type) for p in inputs]
    block.ops[:0] = sweep.tapes
    return verify(dce(Func(f"{func.name}_vjp", block, func.span)))
