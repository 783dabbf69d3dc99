"""Forward mode at run time: beside every buffer that depends on something goes a second one that holds its tangent.

While a `Forward` is open, launches run kernels that move values and tangents together, and copies, fills and everything
that a tape does act on both: also the reverse sweep of a tape, whose gradients then have tangents, which are products
with the Hessian.  No array needs `requires_grad` for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from sim.core.lang.analysis.addresses import no_derivative
from sim.core.lang.autodiff.forward import kernel_tangent
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.arrays.operations import Gather, Operation, Scatter, describe
from sim.core.runtime.compiled.argument_packing import FlatArguments, Memory
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.calls import run
from sim.core.runtime.memory.buffer import Buffer, ByteRange, duplicate, refill
from sim.core.runtime.memory.elements import differentiable, element
from sim.core.runtime.tape.live_ins import RangeSnapshot
from sim.core.runtime.tape.seeds import Weights

Lifted = tuple[tuple[int, ...], Compiled]
_lifted: WeakKeyDictionary[Compiled, dict[frozenset[int], Lifted]] = WeakKeyDictionary()


def lifted(compiled: Compiled, active: frozenset[int]) -> Lifted:
    """Which parameters have tangents if `active` have; the function with their tangent arrays as more parameters."""
    cache = _lifted.setdefault(compiled, {})
    if active not in cache:
        plan = kernel_tangent(compiled.source or compiled.func, active)
        cache[active] = plan.active, Compiled(dce(inline(plan.func)), plan.func)
    return cache[active]


class Forward:
    """`with Forward({x: dx}) as forward:` everything inside moves tangents too; `forward.tangent(y)` is that of y.

    Host data that a kernel, a copy or a fill writes has tangent zero; so have arrays made outside that nobody names.
    What is written through a NumPy view is not seen, as with a tape.
    """

    def __init__(self, tangents: Mapping[array, Weights] | None = None) -> None:
        self._of_buffers: dict[Buffer, Buffer] = {}
        self._of_snapshots: dict[RangeSnapshot, Buffer] = {}
        self._met: WeakSet[object] = WeakSet()
        for a, move in (tangents or {}).items():
            self.set_tangent(a, move)

    def __enter__(self) -> Forward:
        if observers.current() is not None:
            raise GradientError(
                "forward mode is already open",
                hint="leave its `with` block first; jvp of a jvp exists for functions of the language",
            )
        observers.open_observer(self)
        return self

    def __exit__(self, *exc: object) -> None:
        observers.close_observer()

    # -- tangents of arrays
    def set_tangent(self, a: array, move: Weights) -> None:
        """Set the tangent of an array: an array like it, or host data of its shape and components."""
        if not (isinstance(a, array) and differentiable(a.dtype)):
            raise GradientError(
                f"a tangent is given for {_describe(a)}, which has no derivative",
                hint="it takes an array of a floating-point type",
            )
        tangent = self.tangent(a)
        given = move.device.numpy(move) if isinstance(move, array) else np.asarray(move)
        wanted = a.shape + element(a.dtype)[1]
        if given.shape not in (wanted, ()):
            raise GradientError(f"the tangent of {_describe(a)} has shape {given.shape}; expected {wanted}")
        tangent.device.write(tangent, given)

    def tangent(self, a: array) -> array:
        """The tangent of an array now (a view: later changes show); zeros, where it has had none."""
        buffer = self._of_buffers.get(a.buffer)
        if buffer is None:
            buffer = self._of_buffers[a.buffer] = a.device.allocate(a.buffer.nbytes, zero=True)
        return make_array(buffer, a.offset, a.shape, a.strides, a.dtype)

    # -- launches
    def run(self, compiled: Compiled, device: Device, dims: tuple[int, ...], args: FlatArguments) -> None:
        """See `MemoryObserver`."""
        if compiled.by_address:
            raise no_derivative(compiled.func, "derivative")
        if capturing() is not None:  # a replay may find tangents where now there are none
            for a in args:
                if isinstance(a, array) and differentiable(a.dtype):
                    self.tangent(a)
        active = self._active(args)
        while True:
            numbers, function = lifted(compiled, active) if active else ((), compiled)
            tangents = [self._argument(args[k]) for k in numbers]
            grown = self._active(args)  # a new tangent may belong to memory that another argument shares
            if grown <= active | set(numbers):
                break
            active = grown
        observers.close_observer()
        try:
            run(function, device, dims, [*args, *tangents])
        finally:
            observers.open_observer(self)

    def _active(self, args: FlatArguments) -> frozenset[int]:
        return frozenset(
            k
            for k, a in enumerate(args)
            if (isinstance(a, array) and a.buffer in self._of_buffers and differentiable(a.dtype))
            or (isinstance(a, Memory) and a.owner in self._of_snapshots)
        )

    def _argument(self, a: array | Memory) -> array | Memory:
        if isinstance(a, array):
            return self.tangent(a)
        if not isinstance(a, Memory) or a.owner is None:
            return a
        buffer = self._of_snapshot(a.owner)
        return Memory(buffer.address + a.ptr - a.owner.address, a.shape, a.strides, a.is_contiguous, buffer)

    # -- other changes of memory
    def copied(self, dest: array, src: array) -> None:
        """See `MemoryObserver`."""
        if src.buffer in self._of_buffers:
            dest.device.copy(self.tangent(dest), self.tangent(src))
        else:
            self.overwritten(dest)

    def overwritten(self, dest: array) -> None:
        """See `MemoryObserver`."""
        if dest.buffer in self._of_buffers:
            tangent = self.tangent(dest)
            tangent.device.clear(tangent)

    def repeated(self, operation: Gather | Scatter) -> None:
        """See `MemoryObserver`."""
        if any(a.buffer in self._of_buffers for a in (*operation.reads, *operation.writes)):
            operation.apply(self.tangent)

    def saved(self, snapshot: RangeSnapshot) -> None:
        """See `MemoryObserver`."""
        live = self._of_buffers.get(snapshot.buffer)
        if live is not None:
            live.device.copy(ByteRange(self._of_snapshot(snapshot)), self._live(snapshot))
        elif snapshot in self._of_snapshots:
            snapshot.buffer.device.clear(ByteRange(self._of_snapshots[snapshot]))

    def swapped(self, snapshot: RangeSnapshot) -> None:
        """See `MemoryObserver`."""
        if snapshot.buffer not in self._of_buffers and snapshot not in self._of_snapshots:
            return
        if snapshot.buffer not in self._of_buffers:
            self._of_buffers[snapshot.buffer] = snapshot.buffer.device.allocate(snapshot.buffer.nbytes, zero=True)
        live, other = self._live(snapshot), self._of_snapshot(snapshot)
        now = duplicate(live.buffer, snapshot.low, snapshot.low + snapshot.data.nbytes)
        other.device.copy(live, ByteRange(other))
        refill(other, now)

    def _live(self, snapshot: RangeSnapshot) -> ByteRange:
        """The tangent of the memory that a `RangeSnapshot` is a copy of."""
        return ByteRange(self._of_buffers[snapshot.buffer], snapshot.low, snapshot.low + snapshot.data.nbytes)

    def _of_snapshot(self, snapshot: RangeSnapshot) -> Buffer:
        if snapshot not in self._of_snapshots:
            self._of_snapshots[snapshot] = snapshot.buffer.device.allocate(snapshot.data.nbytes, zero=True)
        return self._of_snapshots[snapshot]

    # -- the reverse sweep of a tape
    def taken_back(self, operation: Operation) -> None:
        """See `MemoryObserver`.  Adjoints are linear in the gradients, so the tangents of these go the same way."""

        def gradient_tangent(a: array) -> array | None:
            return None if a.grad is None else self.tangent(a.grad)

        operation.adjoint(gradient_tangent)

    def seeded(self, gradient: array, weights: array | None) -> None:
        """See `MemoryObserver`."""
        if weights is None:
            self.overwritten(gradient)
        elif weights.buffer in self._of_buffers:
            tangent = self.tangent(gradient)
            tangent.device.add(tangent, self.tangent(weights))

    def tracks(self, buffer: Buffer) -> bool:
        """See `MemoryObserver`."""
        return buffer in self._of_buffers

    def remembered(self, buffer: Buffer) -> Callable[[], None]:
        """See `MemoryObserver`."""
        now = duplicate(self._of_buffers[buffer]) if buffer in self._of_buffers else None

        def put_back() -> None:
            if now is not None:
                refill(self._of_buffers[buffer], now)
            else:
                self._of_buffers.pop(buffer, None)

        return put_back

    def first_meets(self, thing: object) -> bool:
        """See `MemoryObserver`."""
        new = thing not in self._met
        self._met.add(thing)
        return new


def _describe(a: object) -> str:
    return describe(a) if isinstance(a, array) else f"a {type(a).__name__}"
