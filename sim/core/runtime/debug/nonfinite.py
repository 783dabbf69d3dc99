"""Where did the first NaN or infinity come from: which launch, thread and line, in a forward or a reverse pass.

While the detector is open every launch is followed by a look at what it wrote.  When something there has become
non-finite, the launch runs again on the CPU, on copies of its arguments, with assertions on what it stores, which gives
the thread; then that thread runs in the interpreter, which knows of every number that is not finite where it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sim.core import config
from sim.core.backends.base import param_slots
from sim.core.backends.interp import InterpExecutable, Thread, apply
from sim.core.lang.analysis.activity import is_float
from sim.core.lang.errors import SimError, Span
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, emit, split_memory
from sim.core.lang.ir.table import OPS
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.argument_packing import FlatArguments, address_of_block
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.device import Device, get_device
from sim.core.runtime.launch.calls import run, thread_count
from sim.core.runtime.launch.sandbox import on_host, packed
from sim.core.runtime.memory.buffer import duplicate, refill


class NonFiniteError(SimError, FloatingPointError):
    """A launch made a NaN or an infinity: names launch, kernel, array, thread and line."""

    def at(self, place: str) -> NonFiniteError:
        """The same, with the place of the program where the launch stands."""
        return NonFiniteError(f"{place}: {self}")


@contextmanager
def detect_nonfinite() -> Iterator[None]:
    """`with detect_nonfinite(): ...` raises NonFiniteError at the first launch inside that makes a NaN or an infinity.

    For finding them only: every launch is checked on the host, and rollouts run launch by launch.
    """
    if observers.current() is not None:
        raise SimError("detect_nonfinite cannot be opened inside of forward mode, nor inside of itself")
    observers.open_observer(_Detector())
    try:
        yield
    finally:
        observers.close_observer()


class _Detector(observers.PassiveObserver):
    """Looks at what launches write."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, compiled: Compiled, device: Device, dims: tuple[int, ...], args: FlatArguments) -> None:
        self.count += 1
        watched = [(k, args[k]) for k in sorted(compiled.writes) if isinstance(args[k], array)]
        before = {a.buffer: duplicate(a.buffer) for _, a in watched}
        starts = {k: device.numpy(a).copy() for k, a in watched}
        observers.close_observer()
        try:
            run(compiled, device, dims, args)
            for k, a in watched:
                where = _became_nonfinite(starts[k], device.numpy(a))
                if where is not None:
                    raise NonFiniteError(
                        f"launch {self.count}: {_explain(compiled, dims, on_host(args, before), k, where)}"
                    )
        finally:
            observers.open_observer(self)


def _verify(on: bool) -> None:
    """(`sim.config.verify_fp`) Open a detector in this thread, or close it."""
    if on:
        observers.open_observer(_Detector())
    elif isinstance(observers.current(), _Detector):
        observers.close_observer()


config.follow("verify_fp", _verify)


def _became_nonfinite(before: np.ndarray, now: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first element that is not finite and has changed, or None."""
    if now.dtype.names:
        found = [_became_nonfinite(before[name], now[name]) for name in now.dtype.names]
        return next((f for f in found if f is not None), None)
    if now.dtype.kind != "f" or np.isfinite(now).all():
        return None
    bits = f"u{now.dtype.itemsize}"
    bad = ~np.isfinite(now) & (np.ascontiguousarray(before).view(bits) != np.ascontiguousarray(now).view(bits))
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else None


# ------------------------------------------------------------------------------------------------ the second look
def _explain(compiled: Compiled, dims: tuple[int, ...], args: FlatArguments, k: int, where: tuple[int, ...]) -> str:
    """What went wrong in a launch with these arguments, which lie in host memory and are changed."""
    device = get_device("cpu")
    start = {a.buffer: duplicate(a.buffer) for a in args if isinstance(a, array)}
    func, array_name = compiled.func, compiled.func.params[k].name
    what = f"kernel '{func.name}' makes '{array_name}' non-finite at {list(where)}"
    stores = Compiled(_checked_stores(func, func.params[k]))
    found = _run_range(stores, device, dims, args, 0, thread_count(dims))
    if found is None:  # only the sum of what several threads add is not finite
        return f"{what}, although every value that goes there is finite{_place(func.span)}"
    span, thread = found
    for buffer, content in start.items():
        refill(buffer, content)
    _run_range(compiled, device, dims, args, 0, thread)
    culprit = _Tracker.culprit(func, device, dims, args, thread, func.params[k])
    place = tuple(int(i) for i in np.unravel_index(thread, dims))
    in_thread = f"in thread {place[0] if len(place) == 1 else place}"
    if culprit is None:
        return f"{what} {in_thread}{_place(span)}"
    if culprit.name == "load":
        return (
            f"{what} {in_thread}: '{culprit.operands[0].name}' holds a non-finite value already{_place(culprit.span)}"
        )
    return f"{what} {in_thread}: '{culprit.name}' of finite numbers is not finite{_place(culprit.span)}"


def _place(span: Span | None) -> str:
    if span is None:
        return ""
    return f", {span}" + (f"\n{span.excerpt()}" if span.text else "")


def _run_range(
    compiled: Compiled, device: Device, dims: tuple[int, ...], args: FlatArguments, begin: int, end: int
) -> tuple[Span | None, int] | None:
    """Run some threads, one after another; where the first assertion failed, and in which thread."""
    block, fault, layout_flags = packed(compiled, dims, args)
    executable = compiled.executable(device, layout_flags, False, end - begin)
    executable.run(address_of_block(block), begin, end)
    return (executable.sites[int(fault[2])].span, int(fault[3])) if fault[0] else None


def _checked_stores(func: Func, target: Value) -> Func:
    """The kernel with assertions that all that goes into an array is finite, without its own and its prints."""
    block = Block([Value(p.type, p.name) for p in func.params])
    env = dict(zip(func.params, block.params, strict=True))

    def special(op: Op, inner: Env) -> bool:
        if op.row.writes and op.operands[0] is target:
            for v in split_memory(op)[3]:
                if is_float(v):
                    finite = emit("le", emit("abs", inner.get(v, v)), float(np.finfo(v.type.np).max))  # type: ignore[attr-defined]
                    b.append(Op("assert", [finite], [], {"message": ""}, [], op.span))
        return op.name in ("assert", "print")

    with Builder(block) as b:
        for op in func.body.ops:
            if not special(op, env):
                copy_op(b, op, env, special)
    return Func(f"{func.name}_checked", block, func.span, func.dims, dict(func.attrs))


class _Found(Exception):
    """Carries the operation to blame out of the interpreter."""

    def __init__(self, op: Op | None) -> None:
        self.op = op


class _Tracker(Thread):
    """Interprets one thread, and knows of every number that is not finite which operation made it."""

    target: Value

    @classmethod
    def culprit(
        cls, func: Func, device: Device, dims: tuple[int, ...], args: FlatArguments, thread: int, target: Value
    ) -> Op | None:
        """The operation behind the first non-finite number that this thread writes to `target`; it runs up to there."""
        block, *_ = packed(Compiled(func), dims, args)
        slots = np.frombuffer(block, np.int64)
        coords = [int(c) for c in np.unravel_index(thread, (*dims, *(1,) * (4 - len(dims))))]
        runner = cls(thread, coords, lambda fault, linear: None)
        runner.target, runner.blamed = target, {}
        values = [
            InterpExecutable.read(p.type, slots[at:]) for p, at in zip(func.params, param_slots(func), strict=True)
        ]
        with np.errstate(all="ignore"):
            try:
                runner.block(func.body, values)
            except _Found as found:
                return found.op
        return None

    blamed: dict[Any, tuple[Any, Op]]
    """By identity of a number, or (identity of a tape, slot): the object, which must stay alive, and who made it."""

    def block(self, block: Block, params: Iterable[Any] = ()) -> list[Any]:
        self.set(block.params, params)
        for op in block.ops:
            if op.name in OPS:
                args = self.get(op.operands)
                results = [apply(op.name, args, op.results[0].type)]  # type: ignore[arg-type]
                self._blame(op, results[0], [args[1] if args[0] else args[2]] if op.name == "select" else args)
            else:
                results = getattr(self, f"do_{op.name}")(op)
                if op.name in ("load", "atomic"):
                    for r in results:
                        self._blame(op, r, [])
            self.set(op.results, results)
        return self.get(block.yields)

    def _blame(self, op: Op, result: Any, args: Sequence[Any]) -> None:
        if result.dtype.kind == "f" and not np.isfinite(result):
            earlier = next((self.blamed[id(a)][1] for a in args if id(a) in self.blamed), op)
            self.blamed[id(result)] = result, earlier

    def do_tape_store(self, op: Op) -> list[Any]:
        tape, k, value = self.get(op.operands)
        self.blamed.pop((id(tape), int(k)), None)
        if id(value) in self.blamed:
            self.blamed[id(tape), int(k)] = tape, self.blamed[id(value)][1]
        return super().do_tape_store(op)

    def do_tape_load(self, op: Op) -> list[Any]:
        tape, k = self.get(op.operands)
        (value,) = super().do_tape_load(op)
        if (id(tape), int(k)) in self.blamed:
            self.blamed[id(value)] = value, self.blamed[id(tape), int(k)][1]
        return [value]

    def do_store(self, op: Op) -> list[Any]:
        self._check(op)
        return super().do_store(op)

    def update(self, op: Op, how: Callable[[Any, Any], Any]) -> list[Any]:
        self._check(op)
        return super().update(op, how)

    def _check(self, op: Op) -> None:
        if op.operands[0] is self.target:
            for value in self.get(split_memory(op)[3]):
                if value.dtype.kind == "f" and not np.isfinite(value):
                    raise _Found(self.blamed[id(value)][1] if id(value) in self.blamed else None)
