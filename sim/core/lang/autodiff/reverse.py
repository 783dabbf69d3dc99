"""Reverse mode: a function or kernel becomes another one that computes its vector-Jacobian product.  IR in, IR out.

Scheme (source transformation of structured SSA; recompute all, checkpoint loops; Griewank & Walther, ch. 5-7 and 12):

* The adjoint of a block emits its operations again, without effects (`primal.py`), then walks it backwards with a map
  from values to their cotangents.  Region operations return the cotangents of the values they use from outside, so
  there are no mutable adjoint variables: an `if` yields them from both branches, a reversed loop carries and sums them.
* A loop has left checkpoints of the starts of its trips (`checkpoints.py`), and is walked trip by trip from the last.
* Memory: the adjoint of a load accumulates into the gradient array at the same index; of a store, reads the gradient
  and clears it; of an accumulation, reads it.  Values of arrays are read as they were before the launch.  A load whose
  value is needed and that a store of the same thread may precede cannot be read that way: outside loops the launch
  *caches* it per thread (`cache_plan.py`), inside loops the adjoint performs the stores again and takes them back
  (`undo_stack.py`).  What atomics return is always cached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from sim.core.lang.analysis.activity import goes_back, is_float, tbr_closure, varied_values
from sim.core.lang.autodiff.checkpoints import LoopCheckpoints, TripRestorer, trip_env
from sim.core.lang.autodiff.degeneracy import (
    any_nonzero,
    combined_calls,
    demand_distinct,
    is_degenerate,
    is_split,
    moved_results,
)
from sim.core.lang.autodiff.primal import AdjointConfig, ForwardState, PrimalEmitter
from sim.core.lang.autodiff.replay_plan import counters
from sim.core.lang.autodiff.rules import emit_rule
from sim.core.lang.autodiff.undo_log import rewind_all
from sim.core.lang.autodiff.undo_stack import address_of
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, rebuild
from sim.core.lang.ir.core import Block, Func, Op, Value, emit, split_memory
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.regions import free_values
from sim.core.lang.ir.sinking import sink
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import Type, int32

Cotangents = dict[Value, Value]


class ReverseEmitter:
    """Emits the reverse sweep of one function into a builder, after its forward part."""

    def __init__(self, primal: PrimalEmitter) -> None:
        self.primal, self.b, self.config, self.undo = primal, primal.b, primal.config, primal.undo

    def add(self, cotangents: Cotangents, v: Value, ct: Value | None) -> None:
        """One more share of the cotangent of a value."""
        if ct is not None and v in self.config.varied:
            cotangents[v] = cotangents[v] + ct if v in cotangents else ct

    def reverse(self, block: Block, env: Env, cotangents: Cotangents, state: ForwardState) -> None:
        """Walk a block backwards.

        Invariant: behind an operation, `cotangents` has those of its results and of all that is defined before it, as
        far as later operations use them; its own are taken out, and the shares of its operands added.
        """
        for op in reversed(block.ops):
            self.b.span = op.span
            if op.row.memory:
                if op in state.old:
                    self.undo.take_back(op, env, state.old[op])
                self._reverse_memory(op, env, cotangents)
            elif op.regions:
                self._rewind(op, env, state)
                if op.name == "if":
                    self._reverse_if(op, env, cotangents)
                else:
                    self._reverse_loop(op, env, cotangents, state)
            elif op.name == "call":
                self._reverse_call(op, env, cotangents)
            elif op.name == "rule":
                self._reverse_rule(op, env, cotangents)
            elif op.name in OPS and op.results[0] in cotangents:
                self._reverse_primitive(op, env, cotangents)
            elif op.name in ("tape_load", "tape_store") and any(
                v in self.config.varied for v in (*op.operands, *op.results)
            ):
                raise GradientError(
                    "the second reverse derivative goes through a loop whose trip count is not a small constant",
                    op.span,
                    "give the loop a constant trip count up to 16, so that it is unrolled",
                )

    def _rewind(self, op: Op, env: Env, state: ForwardState) -> None:
        """Put memory and cursors back to where they were before an operation with regions.

        Only if that is run again from there (branches), or not gone back through at all.
        """
        if op in state.before and (op.name == "if" or not self.config.is_active(op)):
            self.undo.rewind(state.before[op])
            if op in self.undo.plan.address_invariant:
                self.undo.unwind(op, env, self.primal.recompute)

    # -- operations without regions
    def _reverse_primitive(self, op: Op, env: Env, cotangents: Cotangents) -> None:
        ct, row = cotangents.pop(op.results[0]), OPS[op.name]
        if row.vjp is ZERO:
            return
        if row.vjp is None:
            what = f"'{op.name}' has no derivative"
            raise GradientError(what, op.span, "keep it off the path from the parameters to the loss")
        args = [env.get(v, v) for v in op.operands]
        for v, part in zip(op.operands, row.vjp(ct, env[op.results[0]], *args), strict=True):
            self.add(cotangents, v, part)

    def _reverse_memory(self, op: Op, env: Env, cotangents: Cotangents) -> None:
        """A load adds to the gradient there; what writes takes the gradient, and a store leaves none."""
        b, grad = self.b, self.config.gradient.get(op.operands[0])
        if grad is None:
            for r in op.results:
                cotangents.pop(r, None)
            return
        _, where, leaves, at = address_of(op, env)
        values = split_memory(op).values
        if op.name == "atomic" and any(is_float(v) for v in values):
            self._refuse_atomic(op, cotangents)
            if op.how in ("min", "max"):
                self._reverse_extreme(op, env, cotangents, grad)
                return
        moved = op.results if op.name == "load" else values
        hit = [k for k, v in enumerate(moved) if (v in cotangents if op.name == "load" else is_float(v))]
        touched = leaves if at is not None else [leaves[k] for k in hit]
        if not hit:
            return
        if op.name == "load":
            exclusive = op.operands[0] in self.config.exclusive
            b.accum(grad, where, touched, [cotangents.pop(moved[k]) for k in hit], at, exclusive)
            return
        cts = b.load(grad, where, touched, at)
        if op.name == "store" and op not in self.config.keeping:
            b.store(grad, where, touched, [b.const(0.0, ct.type) for ct in cts], at)
        if op.by_rule is not None:  # that has gone before, in its place
            return
        for k, ct in zip(hit, cts, strict=True):
            self.add(cotangents, values[k], ct)

    def _refuse_atomic(self, op: Op, cotangents: Cotangents) -> None:
        how, name = op.how, op.operands[0].name
        if any(r in cotangents for r in op.results):
            raise GradientError(
                f"the value that atomic_{how} on '{name}' returns carries a gradient: it depends on the order of"
                " the threads",
                op.span,
                "use the result for nothing that reaches the loss, or sum in another way",
            )
        if how in ("exch", "cas"):
            raise GradientError(
                f"atomic_{how} on '{name}' carries a gradient: which thread's value stays depends on the order of the"
                " threads",
                op.span,
                "store with one thread per element, or give the array no gradient",
            )

    def _reverse_extreme(self, op: Op, env: Env, cotangents: Cotangents, grad: Value) -> None:
        """atomic_min, atomic_max: the gradient goes to the first value equal to the final, if it beat the initial."""
        b, beats = self.b, "gt" if op.how == "max" else "lt"
        array, where, leaves, at = address_of(op, env)
        final = b.load(self.config.finals[op.operands[0]], where, leaves, at)
        initial = b.load(array, where, leaves, at)
        for k, v in enumerate(split_memory(op).values):
            won = emit("and", emit("eq", env.get(v, v), final[k]), emit(beats, final[k], initial[k]))
            touched = leaves if at is not None else [leaves[k]]

            def zero(kind: Type = final[k].type) -> list[Value]:
                return [b.const(0.0, kind)]

            def take(zero: Callable[[], list[Value]] = zero, touched: Sequence[int] = touched) -> list[Value]:
                return b.atomic("exch", grad, where, touched, zero(), at)

            self.add(cotangents, v, b.if_(won, take, zero)[0])

    def _reverse_call(self, op: Op, env: Env, cotangents: Cotangents) -> None:
        if not any(r in cotangents for r in op.results):
            return
        b = self.b
        results = [r for r in op.results if is_float(r)]
        cts = [cotangents.pop(r) if r in cotangents else b.const(0.0, r.type) for r in results]
        args = [env.get(v, v) for v in (*op.operands, *op.results)]
        if is_degenerate(op):
            self._check_distinct(op, env, dict(zip(results, cts, strict=True)))
        parts = emit_rule(b, op, args, cts, self.config.gradient, self.config.finals)
        for v, part in zip([v for v in op.operands if is_float(v)], parts, strict=True):
            self.add(cotangents, v, part)

    def _reverse_rule(self, op: Op, env: Env, cotangents: Cotangents) -> None:
        if not goes_back(op, self.config.varied, self.config.gradient):
            return
        args = [env.get(v, v) for v in op.operands]
        results = [r for r in op.results if is_float(r)]
        cts = [cotangents.pop(r) if r in cotangents else self.b.const(0.0, r.type) for r in results]
        parts = emit_rule(self.b, op, args, cts, self.config.gradient, self.config.finals)
        given = op.operands[: len(op.callee.params)]
        for v, part in zip([v for v in given if is_float(v)], parts, strict=True):
            self.add(cotangents, v, part)

    def _check_distinct(self, op: Op, env: Env, cts: Cotangents) -> None:
        """A call with degenerate results that are not split: where they coincide its rule may lack a part."""
        b = self.b
        if is_split(op):
            demand_distinct(b, op, [env[r] for r in op.results], any_nonzero(b, list(cts.values())))
        elif op in self.config.guarded:
            moved = moved_results(op)
            sorts = [any_nonzero(b, [ct for r, ct in cts.items() if (r in moved) is sort]) for sort in (True, False)]
            demand_distinct(b, op, [env[r] for r in op.results], emit("and", *sorts))

    # -- operations with regions
    def _reverse_if(self, op: Op, env: Env, cotangents: Cotangents) -> None:
        """The branch taken is recomputed and gone back through; both yield the cotangents of what either uses."""
        cts = [cotangents.pop(r, None) for r in op.results]
        if not self.config.is_active(op):
            return
        outside = self._active_outside(op)

        def branch(region: Block) -> list[Value]:
            inner, state, local = dict(env), ForwardState(), Cotangents()
            self.primal.forward(region, inner, state)
            for v, ct in zip(region.yields, cts, strict=True):
                self.add(local, v, ct)
            self.reverse(region, inner, local, state)
            return [local.get(v) or self.b.const(0.0, v.type) for v in outside]

        cond = env.get(op.operands[0], op.operands[0])
        shares = self.b.if_(cond, *(partial(branch, region) for region in op.regions))
        for v, ct in zip(outside, shares, strict=True):
            self.add(cotangents, v, ct)

    def _reverse_loop(self, op: Op, env: Env, cotangents: Cotangents, state: ForwardState) -> None:
        """A loop over the trips from the last to the first.

        It carries the cotangents of the varied carried values, and sums those of what the body uses from outside.
        """
        b, body = self.b, op.regions[-1]
        cts = [cotangents.pop(r, None) for r in op.results]
        if not self.config.is_active(op):
            return
        rows = zip(op.carried_params, op.carried_init, body.yields, cts, strict=True)
        carried = [row for row in rows if row[0] in self.config.varied]
        outside = self._active_outside(op)
        restore = self._restorer(op, env, state.loops[op])

        def trip(at: Value, *adjoints: Value) -> list[Value]:
            of_carried, of_outside = adjoints[: len(carried)], adjoints[len(carried) :]
            inner, nested, local = restore(at), ForwardState(), Cotangents()
            forward = self.primal.forward_nest if op in self.undo.plan.perfect_nests else self.primal.forward
            forward(body, inner, nested)
            for (_, _, end, _), ct in zip(carried, of_carried, strict=True):
                self.add(local, end, ct)
            self.reverse(body, inner, local, nested)
            shares = [local.get(p) or b.const(0.0, p.type) for p, *_ in carried]
            sums = [total + local[v] if v in local else total for v, total in zip(outside, of_outside, strict=True)]
            return [*shares, *sums]

        start = [ct or b.const(0.0, p.type) for p, *_, ct in carried] + [b.const(0.0, v.type) for v in outside]
        results = b.for_(state.loops[op].count, start, trip, reverse=True)
        for v, ct in zip([*(init for _, init, *_ in carried), *outside], results, strict=True):
            self.add(cotangents, v, ct)

    def _active_outside(self, op: Op) -> list[Value]:
        """What the regions use from outside and carries a derivative."""
        return [v for v in free_values(op) if v in self.config.varied and is_float(v)]

    def _restorer(self, op: Op, env: Env, kept: LoopCheckpoints) -> Callable[[Value], Env]:
        """How the reverse sweep gets to the start of a trip of a loop: its environment, by its number."""
        if op in self.undo.plan.storing:
            return partial(self._enter_framed_trip, op, env, kept.count)
        return TripRestorer(self.primal.tapes, op, env, kept, self.primal.rerun)

    def _enter_framed_trip(self, op: Op, env: Env, count: Value, at: Value) -> Env:
        """Get from the end of a trip that has stored to replayed arrays to its start.

        Pop its frame, compute its counters, and take the stores back (those of a perfect nest go with its inner loops).
        """
        known, positions = self.undo.pop_frame(op)
        for p, (start, step) in counters(op).items():
            by = self.b.const(step.const, p.type) if step.const is not None else env.get(step, step)
            known[p] = env.get(start, start) + (at if p.type is int32 else emit("cast", at, type=p.type)) * by
        inner = trip_env(op, env, count, at, known)
        if op not in self.undo.plan.address_invariant:
            rewind_all(self.undo.cursors, positions)
        elif op not in self.undo.plan.perfect_nests:
            self.undo.unwind_block(op.regions[-1], inner, self.primal.recompute)
        return inner


# ------------------------------------------------------------------------------------------------ pure functions
def vjp(func: Func, wrt: Collection[int] | None = None) -> Func:
    """The vector-Jacobian product of a pure function.

    Parameters of the result: those of `func`, then one cotangent per floating result.  It yields one cotangent per
    floating parameter (`wrt`: only these parameter numbers).  It is a pure function again.
    """
    func = dce(rebuild(func))  # a dead carried value would be checkpointed, and carry a cotangent of zero
    inputs = [p for k, p in enumerate(func.params) if is_float(p) and (wrt is None or k in wrt)]
    block = Block([Value(p.type, p.name) for p in func.params])
    outputs = [v for v in func.body.yields if is_float(v)]
    seeds = [Value(v.type, "adj_result") for v in outputs]
    env: Env = dict(zip(func.params, block.params, strict=True))
    block.params += seeds
    varied = varied_values(sink(func, varied_values(func, set(inputs))), set(inputs))
    with Builder(block) as b:
        config = AdjointConfig(varied, tbr_closure(func, varied, ()), split=combined_calls(func))
        primal, state, cotangents = PrimalEmitter(b, config), ForwardState(), Cotangents()
        primal.forward(func.body, env, state)
        sweep = ReverseEmitter(primal)
        for v, seed in zip(outputs, seeds, strict=True):
            sweep.add(cotangents, v, seed)
        sweep.reverse(func.body, env, cotangents, state)
        block.yields = [cotangents.get(p) or b.const(0.0, p.type) for p in inputs]
    block.ops[:0] = primal.tapes.declared
    return verify(dce(Func(f"{func.name}_vjp", block, func.span)))
