"""Changes of memory other than launches, and how they reach a tape.

Every array method that changes memory is one of three operations (`Copy`, `Fill`, `HostWrite`) and goes through
`perform`, which calls the recorder *before* the write happens: only then can it still save what the write overwrites.
Launches call it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from sim.core.lang.errors import ArrayError, GradientError
from sim.core.lang.types import Type
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.devices.base_device import Device, NodeForm
from sim.core.runtime.devices.graph import add_native_node, capturing
from sim.core.runtime.memory.buffer import Operand, before_write, keepers
from sim.core.runtime.memory.elements import add_at, add_into

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

    def carries(self) -> bool:
        """Whether a tape has to go back through it."""
        return True

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
    if recorder is not None and operation.carries():
        recorder.recorded(operation)


def unwatched(*views: Operand) -> bool:
    """Whether a write to these does not concern anybody now but whoever looks at versions later."""
    if recording.current() is not None or capturing() is not None or observers.current() is not None or keepers.entries:
        return False
    return all(view.buffer.watchers is None and view.buffer.owners is None for view in views)


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
        self.check_forms(dest.dtype, src.dtype, dest.shape, src.shape)
        self.dest, self.src = dest, src
        self.reads, self.writes = (src,), (dest,)

    @staticmethod
    def check_forms(to: Type, what: Type, shape: tuple[int, ...], given: tuple[int, ...]) -> None:
        """Raises where elements of one type and shape cannot be copied to those of another."""
        if to is not what:
            raise ArrayError(f"cannot copy {what} elements into an array of {to}; convert with a kernel")
        if shape != given:
            raise ArrayError(f"cannot copy shape {given} into shape {shape}; copy a slice, or pass count=")

    @classmethod
    def at_once(cls, dest: Operand, src: Operand) -> bool:
        """Makes the copy where nobody looks on; else does nothing, and says so."""
        if not unwatched(dest):
            return False
        cls.check_forms(dest.dtype, src.dtype, dest.shape, src.shape)
        _device(dest).copy(dest, src)
        dest.buffer.version += 1
        return True

    def check(self) -> None:
        self.check_gradients(self.dest, self.src)

    @staticmethod
    def check_gradients(dest: Operand, src: Operand) -> None:
        """Raises where a gradient would be lost."""
        if src.requires_grad and not dest.requires_grad:
            raise GradientError(
                f"copy of {describe(src)}, which requires a gradient, into {describe(dest)}, which has none: "
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
        if capturing() is not None:
            data = _kept(data)
        elif recording.current() is not None:
            data = data.copy()
        super().__init__(dest, data)


_contents: WeakValueDictionary[tuple[str, tuple[int, ...], bytes], np.ndarray] = WeakValueDictionary()
"""Host data that graphs store, by type, shape and content."""
_SHORT = 4096
"""Bytes."""


def _kept(data: np.ndarray) -> np.ndarray:
    """A copy.  Of short data that with the same content is the same: nodes that store it are equal, and so are captured
    parts of a program that do (`devices/relocation`)."""
    if data.nbytes > _SHORT:
        return data.copy()
    return _contents.setdefault((data.dtype.str, data.shape, data.tobytes()), data.copy())


Indices = tuple[Any, ...]
"""For each dimension of an array one of indices, or None for all."""


class _Choice(Operation):
    """Something with chosen elements of `data`: those at `indices`, of which each dimension has some, or None for all.

    On the host: memory of a GPU is copied there, and back.  Indices are read when it runs; the adjoint takes the same.
    """

    def __init__(self, data: Operand, indices: Indices) -> None:
        self.data, self.indices = data, indices
        self._where: tuple[Any, ...] = ()

    @staticmethod
    def place(data: Operand, indices: Indices) -> tuple[Any, ...]:
        """The key with which NumPy finds the elements."""
        chosen = [k for k, a in enumerate(indices) if a is not None]
        rows = [None if a is None else _device(a).numpy(a) for a in indices]
        if len(chosen) == 1:
            return (*(slice(None),) * chosen[0], rows[chosen[0]])
        count = max(chosen, default=-1) + 1
        return np.ix_(*(np.arange(n) if row is None else row for n, row in zip(data.shape[:count], rows, strict=False)))

    def run(self) -> None:
        self._where = self.place(self.data, self.indices)
        self.apply(lambda a: a)
        observer = observers.current()
        if observer is not None:
            observer.repeated(self)

    def apply(self, of: Callable[[Any], Any]) -> None:
        """Does it, with `of(a)` in place of array a: itself, or a tangent."""
        raise NotImplementedError

    @staticmethod
    def changed(view: Operand, change: Callable[[np.ndarray], None]) -> None:
        """Changes the elements of a view by NumPy."""
        device = _device(view)
        if device.is_cpu:
            change(device.numpy(view))
            return
        host = np.array(device.numpy(view))
        change(host)
        device.write(view, host)

    def taken(self, gradient: Operand) -> np.ndarray:
        """The gradient of the chosen elements, which has been set to zero."""
        values = np.array(_device(gradient).numpy(gradient)[self._where])
        self.changed(gradient, lambda host: host.__setitem__(self._where, np.zeros((), host.dtype)))
        return values


class Gather(_Choice):
    """dest = chosen elements of data."""

    name = "copy of chosen elements"

    def __init__(self, dest: Operand, data: Operand, indices: Indices) -> None:
        super().__init__(data, indices)
        shape = tuple(n if a is None else a.shape[0] for n, a in zip(data.shape, indices, strict=True))
        Copy.check_forms(dest.dtype, data.dtype, dest.shape, shape)
        self.dest = dest
        self.reads, self.writes = (data, *(a for a in indices if a is not None)), (dest,)

    @staticmethod
    def values(data: Operand, indices: Indices) -> np.ndarray:
        """The elements, without an array for them."""
        return np.array(_device(data).numpy(data)[_Choice.place(data, indices)])

    def check(self) -> None:
        Copy.check_gradients(self.dest, self.data)

    def apply(self, of: Callable[[Any], Any]) -> None:
        values = _device(self.data).numpy(of(self.data))[self._where]
        _device(self.dest).write(of(self.dest), values)

    def adjoint(self, gradient_of: GradientOf) -> None:
        after, before = gradient_of(self.dest), gradient_of(self.data)
        if after is None:
            return
        values = np.array(_device(after).numpy(after))
        _device(after).clear(after)
        if before is not None:
            self.changed(before, lambda host: add_at(host, self._where, values))


class Scatter(_Choice):
    """Chosen elements of data = an array, or values from the host, which carry no gradient."""

    name = "copy to chosen elements"

    def __init__(self, data: Operand, indices: Indices, src: Any) -> None:
        super().__init__(data, indices)
        self.src = src
        self._of_host = isinstance(src, np.ndarray)
        if self._of_host:
            self.src = src if recording.current() is None and capturing() is None else src.copy()
        else:
            shape = tuple(n if a is None else a.shape[0] for n, a in zip(data.shape, indices, strict=True))
            Copy.check_forms(data.dtype, src.dtype, shape, src.shape)
        read = (data, *(a for a in indices if a is not None))  # what is not chosen stays
        self.reads, self.writes = read if self._of_host else (src, *read), (data,)

    def check(self) -> None:
        if self._of_host:
            return
        Copy.check_gradients(self.data, self.src)
        for a in self.indices:
            if self.src.requires_grad and a is not None and len(np.unique(_device(a).numpy(a))) < a.shape[0]:
                raise GradientError(
                    f"{self.name}: an index occurs twice, and which of the two values stays decides about the gradient",
                    hint="choose every element once, or add with sim.atomic_add in a kernel",
                )

    def apply(self, of: Callable[[Any], Any]) -> None:
        target, values = of(self.data), self.src
        if not self._of_host:
            values = np.array(_device(self.src).numpy(of(self.src)))
        elif target is not self.data:
            values = np.zeros((), self.src.dtype)  # the tangent of a constant
        self.changed(target, lambda host: host.__setitem__(self._where, values))

    def adjoint(self, gradient_of: GradientOf) -> None:
        after = gradient_of(self.data)
        if after is None:
            return
        values, before = self.taken(after), None if self._of_host else gradient_of(self.src)
        if before is not None:
            self.changed(before, lambda host: add_into(host, values))


def _device(view: Operand) -> Device:
    device: Device = view.buffer.device
    return device


class _Formed(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Type: ...


def describe(view: _Formed) -> str:
    """An array in a message."""
    return f"array(shape={view.shape}, dtype={view.dtype})"
