"""Changes of memory other than launches, and how they reach a tape.

Every array method that changes memory is one of three operations (`Copy`, `Fill`, `HostWrite`) and goes through
`perform`, which calls the recorder *before* the write happens: only then can it still save what the write overwrites.
Launches call it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.devices.base_device import Device, NodeForm
from sim.core.runtime.devices.graph import add_native_node, capturing
from sim.core.runtime.memory.buffer import Operand, before_write

GradientOf = Callable[[Any], Operand | None]
"""Array -> its gradient, an array of the same shape and type, or None where there is none."""


class Operation:
    """A change of memory: the arrays it reads and writes, how to do it, and how to take gradients back through it."""

    name = "operation"
    reads: tuple[Any, ...] = ()
    writes: tuple[Any, ...] = ()

    def check(self) -> None:
        """Raises where recording this would lose a gradient."""

    def run(self) -> None:
        """Does it (again)."""
        raise NotImplementedError

    def zeros(self) -> bool:
        """Whether it writes zeros, as far as that is known."""
        return False

    def row(self) -> NodeForm:
        """Its form in a graph, if it has one."""
        return None

    def adjoint_row(self, gradient_of: GradientOf) -> NodeForm:
        """The form of its adjoint in a graph, if it has one."""
        return None

    def adjoint(self, gradient_of: GradientOf) -> None:
        """Turns the gradient after the operation into the gradient before it, in place."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.name} to {', '.join(map(describe, self.writes))}"


def perform(operation: Operation) -> None:
    """Runs an operation, with all that belongs to a write: the recorder, `before_write`, the open graph, versions."""
    recorder = recording.current()
    if recorder is not None:
        operation.check()
        recorder.record(operation)
    for view in operation.writes:
        before_write(view, operation.name)
    try:
        add_native_node(operation.run, operation.row, operation)
    except BaseException:
        if recorder is not None and any(view.requires_grad for view in (*operation.reads, *operation.writes)):
            recorder.broke_off(operation.writes, operation.name)
        raise
    graph = capturing()
    if graph is not None:
        graph.carries |= any(view.buffer.requires_grad for view in operation.reads)
        for view in operation.reads:
            graph.reads(view)
    for view in operation.writes:
        if graph is not None:
            graph.writes(view)
        view.buffer.version += 1
        if view.buffer.owners is not None:
            view.buffer.owners.written(view, operation.zeros())
    if recorder is not None:
        recorder.recorded(operation)


def copy_detached(dest: Operand, src: Operand) -> None:
    """dest = src, where `dest` is fresh memory without a gradient: graphs capture it, tapes and forward mode do not."""
    device = dest.buffer.device
    add_native_node(partial(device.copy, dest, src), partial(device.copy_row, dest, src), (dest, src))
    graph = capturing()
    if graph is not None:
        graph.reads(src)
        graph.writes(dest)


def refill_fresh(dest: Operand, value: np.ndarray | None = None) -> None:
    """Fresh memory was filled with `value` (None: zeros): graphs that own such memory fill it anew at each replay."""
    graph = capturing()
    if graph is None or not graph.owns_fresh_memory:
        return
    device = dest.buffer.device
    fill = partial(device.clear, dest) if value is None else partial(device.write, dest, value)
    content = np.zeros((), np.float32) if value is None else value
    add_native_node(fill, partial(device.write_row, dest, content), (dest, content))
    graph.writes(dest)


class Copy(Operation):
    """dest = src, of the same shape and type.  The two may overlap."""

    name = "copy"

    def __init__(self, dest: Operand, src: Operand) -> None:
        if dest.dtype is not src.dtype:
            raise TypeError(f"cannot copy {src.dtype} elements into an array of {dest.dtype}; convert with a kernel")
        if dest.shape != src.shape:
            raise ValueError(f"cannot copy shape {src.shape} into shape {dest.shape}; copy a slice, or pass count=")
        self.dest, self.src = dest, src
        self.reads, self.writes = (src,), (dest,)

    def check(self) -> None:
        if self.src.requires_grad and not self.dest.requires_grad:
            raise GradientError(
                f"copy of {describe(self.src)}, which requires a gradient, into {describe(self.dest)}, which has none: "
                "the gradient would be lost",
                hint="make the destination with requires_grad=True, or copy from clone(source, requires_grad=False)",
            )

    def run(self) -> None:
        _device(self.dest).copy(self.dest, self.src)
        observer = observers.current()
        if observer is not None:
            observer.copied(self.dest, self.src)

    def row(self) -> NodeForm:
        return _device(self.dest).copy_row(self.dest, self.src)

    def adjoint_row(self, gradient_of: GradientOf) -> NodeForm:
        after, before = gradient_of(self.dest), gradient_of(self.src)
        return None if after is None or before is None else _device(after).give_row(before, after)

    def adjoint(self, gradient_of: GradientOf) -> None:
        after = gradient_of(self.dest)
        if after is None:
            return
        # Taken and cleared before it is added: right also where source and destination overlap.
        device, before = after.buffer.device, gradient_of(self.src)
        taken = device.duplicate(after)
        device.clear(after)
        if before is not None:
            before.buffer.device.add(before, taken)


class _Overwrite(Operation):
    """dest = a value from the host, which carries no gradient."""

    def __init__(self, dest: Operand, value: np.ndarray) -> None:
        self.dest, self.value = dest, value
        self.writes = (dest,)

    def zeros(self) -> bool:
        return not self.value.tobytes().strip(b"\0")

    def run(self) -> None:
        _device(self.dest).write(self.dest, self.value)
        observer = observers.current()
        if observer is not None:
            observer.overwritten(self.dest)

    def row(self) -> NodeForm:
        return _device(self.dest).write_row(self.dest, self.value)

    def adjoint_row(self, gradient_of: GradientOf) -> NodeForm:
        after = gradient_of(self.dest)
        return None if after is None else _device(after).write_row(after, np.zeros((), np.float32))

    def adjoint(self, gradient_of: GradientOf) -> None:
        after = gradient_of(self.dest)
        if after is not None:
            after.buffer.device.clear(after)


class Fill(_Overwrite):
    """Every element of dest = `value`, one element (NumPy, of the component shape)."""

    name = "fill"


class HostWrite(_Overwrite):
    """dest = host data of its shape and components, copied while recording or capturing: users may change it."""

    name = "assignment of host data"

    def __init__(self, dest: Operand, data: np.ndarray) -> None:
        super().__init__(dest, data if recording.current() is None and capturing() is None else data.copy())


def _device(view: Operand) -> Device:
    device: Device = view.buffer.device
    return device


def describe(view: Operand) -> str:
    """An array in a message."""
    return f"array(shape={view.shape}, dtype={view.dtype})"
