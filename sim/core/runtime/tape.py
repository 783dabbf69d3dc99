"""The tape: records launches and writes to arrays, and takes gradients back through them.

After `backward`, every array still has its final value, and `.grad` of an array is the gradient of the loss with respect
to the content that it had when recording began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.runtime import recording
from sim.core.runtime.array import array
from sim.core.runtime.buffer import Buffer
from sim.core.runtime.claims import Claim, Claims, restored, span_of
from sim.core.runtime.creation import empty
from sim.core.runtime.graph import note
from sim.core.runtime.kernel import AdjointPair, collect_active, find_aliases
from sim.core.runtime.launch import Call, Memory, run, thread_count
from sim.core.runtime.recording import Operation


@dataclass(eq=False)
class _LaunchRecord:
    """A recorded launch: its adjoint, and where the values lie that the adjoint loads."""

    call: Call
    pair: AdjointPair
    claims: dict[int, Claim]
    records: list[array]

    def backward(self) -> None:
        call, plan = self.call, self.pair.plan
        args: list[Any] = []
        for k, a in enumerate(call.args):
            if not isinstance(a, array):
                args.append(a)
            elif k not in plan.needs:
                args.append(Memory(0, a.shape, a.strides, a.is_contiguous, None))  # no values, but a shape to ask for
            else:
                address = self.claims[k].address(a.offset)
                args.append(Memory(address, a.shape, a.strides, a.is_contiguous, self.claims[k].kept))
        args += [call.args[k].grad for k in plan.active]
        args += self.records
        run(self.pair.adjoint, call.device, call.dims, args)

    @property
    def arrays(self) -> list[array]:
        return [a for a in self.call.args if isinstance(a, array)]

    def __str__(self) -> str:
        return f"launch of '{self.call.spec.kernel.name}'"


@dataclass(eq=False)
class _WriteRecord:
    """A copy, fill or write from the host."""

    operation: Operation

    def backward(self) -> None:
        note(lambda: self.operation.adjoint(_gradient_of))

    @property
    def arrays(self) -> list[array]:
        return [*self.operation.reads, *self.operation.writes]

    def __str__(self) -> str:
        return self.operation.name


@dataclass(eq=False)
class _FunctionRecord:
    """A stretch of the program whose way back the caller knows: it runs with its inputs as they were."""

    name: str
    run: Callable[[], None]
    claims: list[Claim]
    touched: list[array]

    def backward(self) -> None:
        with restored(self.claims):
            self.run()

    @property
    def arrays(self) -> list[array]:
        return self.touched

    def __str__(self) -> str:
        return self.name


def _gradient_of(a: array) -> np.ndarray | None:
    grad = a.grad
    return None if grad is None else grad.device.numpy(grad)


@dataclass(eq=False)
class Tape:
    """`with Tape() as tape: ...` records; `tape.backward(loss)` then fills `.grad` of every array that requires one.

    on_overwrite: "save" keeps a copy of what is overwritten while a gradient still needs it (only then); "error" raises
        instead, naming array, reader and writer.
    """

    on_overwrite: str = "save"
    records: list[Any] = field(default_factory=list)
    _claims: Claims = field(default_factory=Claims)
    _written: dict[Buffer, None] = field(default_factory=dict)
    _cut: dict[Buffer, tuple[array, str]] = field(default_factory=dict)
    _open: bool = False

    def __post_init__(self) -> None:
        if self.on_overwrite not in ("save", "error"):
            raise ValueError(f"on_overwrite is {self.on_overwrite!r}; expected 'save' or 'error'")
        self._claims.refuse = self.on_overwrite == "error"

    # -- recording
    def __enter__(self) -> Tape:
        if self._open:
            raise GradientError("this tape is already recording", hint="open a second tape with `with sim.Tape() as other:`")
        self._open = True
        recording.push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._open = False
        recording.pop()

    def record(self, operation: Operation) -> None:
        """A copy, fill or host write that is about to run."""
        for source in operation.reads:
            self._refuse_cut(source, operation.name, any(w.requires_grad for w in operation.writes))
        for target in operation.writes:
            self._claims.before_write(target, operation.name)
            self._written[target.buffer] = None
            if not operation.reads and target.size and span_of(target) == (0, target.buffer.nbytes):
                self._cut.pop(target.buffer, None)
        self.records.append(_WriteRecord(operation))

    def launch(self, call: Call) -> None:
        """A launch: claims what its adjoint needs, saves what it overwrites, and runs it."""
        if not thread_count(call.dims):
            return
        spec, args = call.spec, call.args
        active = collect_active(args)
        name = f"launch of '{spec.kernel.name}'"
        if not active:
            self._before_launch(call, name)
            call.run()
            return
        self._check_links(call, active)
        aliases = find_aliases(args, spec.writes)
        needs = spec.needs(active, aliases)
        spoilt = {k for k in range(len(args)) if k in spec.writes} | {k for group in aliases for k in group}
        record = set()
        for k, sites in needs.sites.items():
            if k in spoilt and k not in needs.in_loop and sites:
                low, high = span_of(args[k])
                if needs.scalars(k) * thread_count(call.dims) * 4 < high - low:
                    record.add(k)
        pair = spec.adjoint(active, aliases, frozenset(record))
        claims = {k: self._claims.claim(args[k], name, spec.func.params[k].name) for k in sorted(pair.plan.needs)}
        self._before_launch(call, name)
        records = [empty((slots, thread_count(call.dims)), scalar, call.device) for scalar, slots in pair.plan.records]
        if pair.forward is None:
            call.run()
        else:
            run(pair.forward, call.device, call.dims, [*args, *records])
            call.mark_written()
        self.records.append(_LaunchRecord(call, pair, claims, records))

    def _before_launch(self, call: Call, name: str) -> None:
        for k in call.spec.writes:
            if call.args[k] is not None:
                self._claims.before_write(call.args[k], name)
                self._written[call.args[k].buffer] = None

    def _check_links(self, call: Call, active: frozenset[int]) -> None:
        """A value that carries a gradient, stored where there is none, must not be read again on the way to the loss."""
        spec = call.spec
        writes_gradient = any(k in active for k in spec.writes)
        for k in spec.reads:
            if isinstance(call.args[k], array) and k not in active:
                self._refuse_cut(call.args[k], f"launch of '{spec.kernel.name}' (as '{spec.func.params[k].name}')", writes_gradient)
        for k in spec.needs(active, find_aliases(call.args, spec.writes)).lossy:
            self._cut.setdefault(call.args[k].buffer, (call.args[k], f"'{spec.func.params[k].name}' of kernel '{spec.kernel.name}'"))

    def _refuse_cut(self, a: array, reader: str, matters: bool) -> None:
        if matters and a.buffer in self._cut and not a.requires_grad:
            found, writer = self._cut[a.buffer]
            raise GradientError(
                f"{reader} reads an array of shape {found.shape} that was written as {writer} from values with a gradient, "
                "but has none itself: the gradient would be lost",
                hint="make that array with requires_grad=True, or read a copy made by sim.clone(a, requires_grad=False)",
            )

    def record_function(self, name: str, backward: Callable[[], None], reads: Iterable[array], writes: Iterable[array]) -> None:
        """Record a stretch that was or will be run unrecorded.  Call it *before* the stretch writes.

        backward: adds to gradients; it runs while `reads` have the values that they have now.
        writes:   arrays that the stretch writes (their gradients are `backward`'s business).
        """
        reads, writes = list(reads), list(writes)
        claims = [self._claims.claim(a, name, "input") for a in reads]
        for a in writes:
            self._claims.before_write(a, name)
            self._written[a.buffer] = None
        self.records.append(_FunctionRecord(name, backward, claims, [*reads, *writes]))

    # -- backward
    def backward(self, loss: array | None = None, grads: Mapping[array, array] | None = None) -> None:
        """Add the gradient of `loss`, or of the sum of array * weight over `grads`, to `.grad` of the arrays on the tape.

        loss: an array with one element.  grads: final arrays -> arrays of weights (never changed).
        Raises GradientError for a tape that recorded nothing, a loss without gradient or with several elements.
        Twice without `zero` the gradients add up.
        """
        if not self.records:
            raise GradientError("backward on a tape that recorded nothing", hint="launch kernels inside `with tape:` first")
        seeds: list[tuple[array, np.ndarray | float]] = []
        if loss is not None:
            if not isinstance(loss, array) or loss.size != 1:
                shape = loss.shape if isinstance(loss, array) else type(loss).__name__
                raise GradientError(f"the loss is {shape}; expected an array with one element", hint="sum it up in a kernel, or pass grads={array: weights}")
            seeds.append((loss, 1.0))
        for target, weights in (grads or {}).items():
            if not isinstance(weights, array) or weights.shape != target.shape or weights.dtype is not target.dtype:
                raise GradientError(f"the weights of an array of shape {target.shape} of {target.dtype} must be an array like it")
            seeds.append((target, np.array(weights.device.numpy(weights))))
        for target, _ in seeds:
            if not target.requires_grad:
                what = f"an array of shape {target.shape} that backward starts from does not require a gradient"
                raise GradientError(what, hint="make it with requires_grad=True")
        with recording.paused():
            earlier = self._set_aside()
            for target, weight in seeds:
                grad = _gradient_of(target)
                assert grad is not None
                grad[...] = 1.0 if target is loss else grad + weight
            self.sweep()
            for buffer in self._written:
                if buffer.gradient is not None:
                    view = buffer.gradient.memory
                    if buffer in earlier:
                        before, kinds = earlier[buffer]
                        _add_bytes(view, before, kinds)
                    buffer.gradient.left_by_backward = True

    def sweep(self, begin: int = 0, end: int | None = None) -> None:
        """Take gradients back through records begin .. end - 1, without seeds: a part of what `backward` does."""
        for record in reversed(self.records[begin:end]):
            record.backward()

    def _set_aside(self) -> dict[Buffer, tuple[np.ndarray, np.dtype]]:
        """What an earlier backward left in gradients of written arrays is not a seed: put it aside, to be added at the end."""
        out: dict[Buffer, tuple[np.ndarray, np.dtype]] = {}
        kinds = {a.buffer: a for r in self.records for a in r.arrays}
        for buffer in self._written:
            gradient = buffer.gradient
            if gradient is not None and gradient.left_by_backward and buffer in kinds:
                scalar = _float_of(kinds[buffer])
                if scalar is not None:
                    out[buffer] = (gradient.memory.copy(), scalar)
                    gradient.memory[:] = 0
        return out

    def zero(self) -> None:
        """Clear the gradients of all arrays on the tape."""
        for buffer in self._buffers():
            if buffer.gradient is not None:
                buffer.gradient.memory[:] = 0
                buffer.gradient.left_by_backward = False

    def reset(self) -> None:
        """Forget what was recorded, and clear the gradients."""
        self.zero()
        self.records.clear()
        self._claims.clear()
        self._written.clear()
        self._cut.clear()

    @property
    def gradients(self) -> dict[array, array]:
        """Gradient of every array on the tape that requires one."""
        return {a: a.grad for r in self.records for a in r.arrays if a.grad is not None}

    @property
    def bytes_kept(self) -> int:
        """Bytes that the tape keeps beside the arrays themselves: copies of overwritten values, and records per thread."""
        recorded = sum(a.nbytes for r in self.records if isinstance(r, _LaunchRecord) for a in r.records)
        return self._claims.bytes_kept + recorded

    def _buffers(self) -> Sequence[Buffer]:
        return list({a.buffer: None for r in self.records for a in r.arrays})


def _float_of(a: array) -> np.dtype | None:
    kinds = {leaf.scalar.np for leaf in getattr(a.dtype, "leaves", ())} or {getattr(a.dtype, "np", None)}
    floats = {k for k in kinds if k is not None and k.kind == "f"}
    return floats.pop() if len(floats) == 1 and len(kinds) == 1 else None


def _add_bytes(total: np.ndarray, before: np.ndarray, kind: np.dtype) -> None:
    whole = len(total) // kind.itemsize * kind.itemsize
    total[:whole].view(kind)[:] += before[:whole].view(kind)
