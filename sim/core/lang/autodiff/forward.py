"""Forward mode: a function or kernel becomes another one that also computes how its results change.  IR in, IR out.

Beside every floating value that depends on an active one goes its tangent; whatever carries values carries tangents
too: branches yield them, loops carry them, tapes and arrays have a second one of the same layout.  Primitives need no
rule of their own: they are scalar functions, so a cotangent rule `vjp(ct, y, *x)` gives p_i ct with p_i the derivative
by operand i, and with the tangent of operand i in the place of ct its share in the tangent of the result.

A call with a derivative in closed form uses that too: the rule is linear in its cotangents, ct -> J^T ct, and the
transpose of it (its reverse mode) is the tangent J dx, right at the same special points.

The result is of the same language, so that transforms compose: the tangent of an adjoint gives Hessian-vector products.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache

from sim.core.lang.analysis.activity import goes_back, is_float, varied_values
from sim.core.lang.autodiff.degeneracy import (
    combined_calls,
    demand_distinct,
    is_degenerate,
    is_split,
    split_results,
    stored_calls,
    values_behind,
)
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, emit, split_memory, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.ir.verifier import verify


@dataclass(frozen=True)
class TangentConfig:
    """What is known of a function before the first operation of its tangent is emitted.

    varied:  values that have a tangent.
    split:   calls whose degenerate results the function combines: derivatives are taken where they are moved apart.
    guarded: calls whose degenerate results others may combine: a derivative where they coincide is an error.
    behind:  values computed from the results of `split`.
    """

    varied: set[Value]
    split: Collection[Op]
    guarded: Collection[Op]
    behind: Collection[Value]

    @classmethod
    def of(cls, func: Func, varied: set[Value]) -> TangentConfig:
        calls = {op for op in walk(func.body) if is_degenerate(op) and not is_split(op)}
        split = combined_calls(func) & calls if calls else set()
        return cls(varied, split, stored_calls(func) & calls if calls else set(), values_behind(func, split))


@dataclass
class TangentEmitter:
    """Emits a block with tangents.

    env:    copies of values.
    dot:    tangents, by original value, and shadow: by array.
    nearby: what stands for the values `behind` split calls where a derivative is taken.
    """

    b: Builder
    config: TangentConfig
    env: Env
    dot: dict[Value, Value] = field(default_factory=dict)
    shadow: dict[Value, Value] = field(default_factory=dict)
    nearby: Env = field(default_factory=dict)

    def copied(self, v: Value) -> Value:
        return self.env.get(v, v)

    def at(self, v: Value) -> Value:
        """Where the derivative is taken: the value, or one close by."""
        return self.nearby.get(v) or self.copied(v)

    def tangent(self, v: Value) -> Value:
        """The tangent of a floating value; zero where it does not depend on anything active."""
        return self.dot.get(v) or self.b.const(0.0, v.type)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.b.span = op.span
            if op.regions:
                self._region(op)
            else:
                copy_op(self.b, op, self.env)
                if any(r in self.config.behind for r in op.results):
                    self._move_apart(op)
                if op.name in OPS:
                    self._primitive(op)
                elif op.name in ("load", "store", "accum"):
                    self._memory(op)
                elif op.name == "atomic":
                    self._atomic(op)
                elif op.name in ("tape", "tape_load", "tape_store"):
                    self._tape(op)
                elif op.name == "call":
                    self._call(op)
                elif op.name == "rule" and goes_back(op, self.dot, self.shadow):
                    what = f"`{op.callee.name}` has a gradient function and writes arrays: that gives no tangent"
                    raise GradientError(what, op.span, "use reverse mode, or return the values")

    def _move_apart(self, op: Op) -> None:
        """The results of an operation for values that are moved apart."""
        if op in self.config.split:
            split = split_results(self.b, op, [self.copied(r) for r in op.results])
            self.nearby.update(zip(op.results, split, strict=True))
        else:
            copy_op(self.b, op, ChainMap(self.nearby, self.env))  # type: ignore[arg-type]

    # -- arithmetic
    def _primitive(self, op: Op) -> None:
        result, row = op.results[0], OPS[op.name]
        moving = [v in self.dot for v in op.operands]
        if result not in self.config.varied or not any(moving) or row.vjp is ZERO:
            return
        if row.vjp is None:
            raise GradientError(
                f"'{op.name}' has no derivative", op.span, "keep it off the path from the parameters to the result"
            )
        if op.name == "cast":
            self.dot[result] = emit("cast", self.dot[op.operands[0]], type=result.type)
            return
        if op.name == "select":
            cond, yes, no = op.operands
            self.dot[result] = emit("select", self.copied(cond), self.tangent(yes), self.tangent(no))
            return
        y, args = self.at(result), [self.at(v) for v in op.operands]
        shares: dict[Value, Sequence[Value | None]] = {}
        total: Value | None = None
        for k, v in enumerate(op.operands):
            if moving[k]:
                if v not in shares:
                    shares[v] = row.vjp(self.dot[v], y, *args)
                part = shares[v][k]
                if part is not None:
                    total = part if total is None else total + part
        if total is not None:
            self.dot[result] = total

    def _call(self, op: Op) -> None:
        array = next((v for v in op.operands if v in self.shadow), None)
        if array is not None:
            what = (
                f"`{op.callee.name}` has a gradient function that takes the array '{array.name}': that gives no tangent"
            )
            raise GradientError(what, op.span, "pass the elements instead of the array, or use reverse mode")
        if not any(v in self.dot for v in op.operands):
            return
        if is_split(op) or op in self.config.guarded:
            demand_distinct(self.b, op, [self.copied(r) for r in op.results])
        rule = transposed(op.attrs["vjp"](), len(op.operands) + len(op.results))
        args = [self.at(v) for v in (*op.operands, *op.results)]
        floats = [r for r in op.results if is_float(r)]
        # the transpose does not depend on where it is taken: it gets any cotangents, here zero
        unused = [self.b.const(0.0, r.type) for r in floats]
        moves = [self.tangent(v) for v in op.operands if is_float(v)]
        for r, move in zip(floats, inline_call(self.b, rule, [*args, *unused, *moves]), strict=True):
            self.dot[r] = move

    # -- control flow
    def _region(self, op: Op) -> None:
        """What yields or carries values does the same with what goes beside them: tangents, and values nearby."""
        beside = [(j, self.dot, self.tangent) for j, r in enumerate(op.results) if r in self.config.varied]
        beside += [(j, self.nearby, self.at) for j, r in enumerate(op.results) if r in self.config.behind]

        def with_beside(values: Sequence[Value]) -> list[Value]:
            return [*map(self.copied, values), *(found(values[j]) for j, _, found in beside)]

        def bind(targets: Sequence[Value], carried: Sequence[Value], values: Sequence[Value]) -> None:
            self.env.update(zip(targets, values, strict=False))
            for (j, known, _), v in zip(beside, values[len(targets) :], strict=True):
                known[carried[j]] = v

        def ends(region: Block) -> list[Value]:
            self.block(region)
            return with_beside(region.yields)

        def body(*values: Value) -> list[Value]:
            bind(op.regions[-1].params, op.carried_params, values)
            return ends(op.regions[-1])

        def condition(*values: Value) -> Value:
            (region, _), params = op.regions, op.regions[0].params
            bind(params, params, values)
            self.block(region)
            return self.copied(region.yields[0])

        if op.name == "if":
            results = self.b.if_(self.copied(op.operands[0]), lambda: ends(op.regions[0]), lambda: ends(op.regions[1]))
        elif op.name == "for":
            init = with_beside(op.carried_init)
            results = self.b.for_(self.copied(op.operands[0]), init, body, op.reverse)
        else:
            results = self.b.while_(with_beside(op.carried_init), condition, body)
        bind(op.results, op.results, results)

    # -- storage
    def _tape(self, op: Op) -> None:
        if op.name == "tape":
            if op.results[0] in self.config.varied:
                again = Op("tape", [], [Value(op.results[0].type)], dict(op.attrs))
                self.dot[op.results[0]] = self.b.append(again).results[0]
            return
        twin = self.dot.get(op.operands[0])
        if twin is None:
            return
        at = self.copied(op.operands[1])
        if op.name == "tape_load":
            self.dot[op.results[0]] = self.b.leaf_op("tape_load", (twin, at), op.results[0].type)
        else:
            self.b.append(Op("tape_store", [twin, at, self.tangent(op.operands[2])], []))

    def _address(
        self, op: Op, moved: Sequence[Value]
    ) -> tuple[Value, list[Value], Sequence[int], Value | None, list[int]] | None:
        """Tangent array, indices, floating leaves, run-time leaf, which of `moved` these are; None: no tangent."""
        array, index, leaf, _ = split_memory(op)
        twin = self.shadow.get(array)
        hit = [k for k, v in enumerate(moved) if is_float(v)]
        if twin is None or not hit:
            return None
        leaves = op.leaves
        touched = leaves if leaf is not None else [leaves[k] for k in hit]
        return twin, [self.copied(v) for v in index], touched, None if leaf is None else self.copied(leaf), hit

    def _memory(self, op: Op) -> None:
        values = op.results if op.name == "load" else split_memory(op)[3]
        found = self._address(op, values)
        if found is None:
            return
        twin, index, leaves, leaf, hit = found
        if op.name == "load":
            moves = self.b.load(twin, index, leaves, leaf)
            self.dot.update((values[k], move) for k, move in zip(hit, moves, strict=True))
        elif op.name == "store":
            self.b.store(twin, index, leaves, [self.tangent(values[k]) for k in hit], leaf)
        elif any(values[k] in self.dot for k in hit):
            self.b.accum(twin, index, leaves, [self.tangent(values[k]) for k in hit], leaf, op.exclusive)

    def _atomic(self, op: Op) -> None:
        """The tangent of the element follows whoever won: exact where threads take turns (func.attrs["serial"])."""
        b, values = self.b, split_memory(op)[3]
        found = self._address(op, values)
        if found is None:
            return
        twin, index, leaves, leaf, hit = found
        how = op.how
        before = b.load(twin, index, leaves, leaf)
        self.dot.update((op.results[k], move) for k, move in zip(hit, before, strict=True))
        if how == "add":
            b.accum(twin, index, leaves, [self.tangent(values[k]) for k in hit], leaf)
        elif how == "exch":
            b.store(twin, index, leaves, [self.tangent(values[k]) for k in hit], leaf)
        else:
            for k, place in zip(hit, leaves, strict=True):
                new, old = self.copied(values[k]), self.copied(op.results[k])
                if how == "cas":
                    wins = emit("eq", old, self.copied(op.compared[k]))
                else:
                    wins = emit("or", emit("lt" if how == "min" else "gt", new, old), emit("ne", old, old))
                move = self.tangent(values[k])

                def store(place: int = place, move: Value = move) -> None:
                    b.store(twin, index, leaves if leaf is not None else [place], [move], leaf)

                b.if_(wins, store, lambda: None)


@cache
def transposed(rule: Func, first: int) -> Func:
    """The transpose of a closed-form derivative, linear in its parameters from number `first` on."""
    return vjp(rule, range(first, len(rule.params)))


# ------------------------------------------------------------------------------------------------ pure functions
def jvp(func: Func, wrt: Collection[int] | None = None) -> Func:
    """The Jacobian-vector product of a pure function.

    Parameters of the result: those of `func`, then one tangent per floating parameter (`wrt`: only these parameter
    numbers).  It yields the results of `func`, then one tangent per floating result.  It is a pure function again.
    """
    inputs = [p for k, p in enumerate(func.params) if is_float(p) and (wrt is None or k in wrt)]
    block = Block([Value(p.type, p.name) for p in func.params])
    env: Env = dict(zip(func.params, block.params, strict=True))
    moves = [Value(p.type, f"tan_{p.name}") for p in inputs]
    block.params += moves
    with Builder(block) as b:
        config = TangentConfig.of(func, varied_values(func, set(inputs)))
        sweep = TangentEmitter(b, config, env, dict(zip(inputs, moves, strict=True)))
        sweep.block(func.body)
        block.yields = [sweep.copied(v) for v in func.body.yields]
        block.yields += [sweep.tangent(v) for v in func.body.yields if is_float(v)]
    return verify(dce(Func(f"{func.name}_jvp", block, func.span)))


@dataclass(frozen=True)
class Gradient:
    """The vector-Jacobian product of a function, and its own derivative in the form that a `call` of it takes."""

    func: Func
    rule: Callable[[], Func]

    def emit(self, b: Builder, args: Sequence[Value]) -> list[Value]:
        """Its results for these arguments: in place, or as a call where reverse mode could not go through its loops."""
        if not any(op.name == "tape" for op in walk(self.func.body)):
            return inline_call(b, self.func, args)
        results = [Value(v.type) for v in self.func.body.yields]
        return b.append(Op("call", list(args), results, {"callee": self.func, "vjp": self.rule})).results


def vjp_rule(func: Func, wrt: Collection[int] | None = None) -> Gradient:
    """`vjp(func, wrt)`, and its own derivative as a closed form for a `call` of it: right through loops of every kind.

    With g(x, ct) = J(x)^T ct the reverse mode of g along u is (J u) by ct, and by x the product of u with the Hessian
    of ct . func, which is symmetric: both are tangents, and forward mode goes through any loop.
    """
    first = vjp(func, wrt)

    @cache
    def rule() -> Func:
        return _second(func, wrt)

    return Gradient(first, rule)


def _second(func: Func, wrt: Collection[int] | None) -> Func:
    """Parameters of vjp(func, wrt), its results, their cotangents -> cotangents of its floating parameters."""
    chosen = [k for k, p in enumerate(func.params) if is_float(p) and (wrt is None or k in wrt)]
    params = [Value(p.type, p.name) for p in func.params]
    seeds = [Value(v.type, "ct") for v in func.body.yields if is_float(v)]
    results = [Value(func.params[k].type, "gradient") for k in chosen]
    along = [Value(v.type, "along") for v in results]
    block = Block([*params, *seeds, *results, *along])
    hessian, straight = jvp(vjp(func), chosen), jvp(func, chosen)
    with Builder(block) as b:
        of_params = inline_call(b, hessian, [*params, *seeds, *along])
        of_seeds = inline_call(b, straight, [*params, *along])
        floats = sum(map(is_float, params))
        block.yields = of_params[floats:] + of_seeds[len(func.body.yields) :]
    return verify(dce(Func(f"{func.name}_second", block, func.span)))


# ------------------------------------------------------------------------------------------------ kernels
@dataclass(frozen=True)
class KernelTangent:
    """A kernel that also moves the tangents of its arrays.

    func:   its parameters are those of the kernel, then a tangent array per number in `active`.
    active: numbers of the array parameters with a tangent: those asked for, and those written from them.
    """

    func: Func
    active: tuple[int, ...]


def kernel_tangent(kernel: Func, active: Collection[int]) -> KernelTangent:
    """The kernel with tangents: it does everything that `kernel` does, and as much to the tangent arrays.

    active: numbers of the array parameters that have a tangent (of parameters that overlap, all or none).
    """
    number = {p: k for k, p in enumerate(kernel.params)}
    closed, varied = set(active), set[Value]()
    while True:
        varied = varied_values(kernel, {kernel.params[k] for k in closed})
        reached = {
            number[op.operands[0]]
            for op in walk(kernel.body)
            if op.row.writes and any(v in varied for v in split_memory(op)[3])
        }
        if reached <= closed:
            break
        closed |= reached
    order = tuple(sorted(closed))
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    shadow = {kernel.params[k]: Value(kernel.params[k].type, f"tan_{kernel.params[k].name}") for k in order}
    block.params += shadow.values()
    with Builder(block) as b:
        TangentEmitter(b, TangentConfig.of(kernel, varied), env, {}, shadow).block(kernel.body)
    turns = kernel.attrs.get("serial") or any(
        op.name == "atomic" and op.operands[0] in shadow for op in walk(kernel.body)
    )
    attrs = {"serial": True} if turns else {}
    func = Func(f"{kernel.name}_tangent", block, kernel.span, kernel.dims, attrs)
    return KernelTangent(verify(dce(func)), order)
