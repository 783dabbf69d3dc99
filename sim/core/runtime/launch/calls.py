"""A kernel bound to its arguments, and running it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from sim.core import config
from sim.core.backends.base import Executable
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.profile import open_profiles, timed
from sim.core.runtime.ambient.threads import grain_of
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.argument_packing import (
    FlatArguments,
    LaunchError,
    address_of_block,
    block_of,
)
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import Graph, capturing
from sim.core.runtime.launch.faults import raise_fault
from sim.core.runtime.launch.kernel import Specialisation
from sim.core.runtime.memory.buffer import before_write

_check_bounds = os.environ.get("SIM_CHECK_BOUNDS", "0") not in ("", "0")


def set_check_bounds(check: bool) -> None:
    """Compare every index of launches from now on, adjoints too, with the shape (default: $SIM_CHECK_BOUNDS, or not).

    An index outside of an array then raises `KernelFault` with array, index, thread and line instead of touching other
    memory; so does one outside of a vector, matrix, tuple or local array, which is otherwise its last component when it
    is read, and dropped when it is written.  An index counts from 0; a negative one counts from the end.
    Slower; recorded launches and captured graphs stay as they are.
    """
    global _check_bounds
    _check_bounds = bool(check)


config.follow("mode", lambda mode: set_check_bounds(mode == "debug"))


def thread_count(dims: Sequence[int]) -> int:
    if len(dims) == 1:
        return dims[0]
    n = 1
    for d in dims:
        n *= d
    return n


def prepare(compiled: Compiled, device: Device, threads: int, args: FlatArguments) -> tuple[bytes, Executable]:
    """The arguments for a block, and the code for such arguments, for one who runs it again and again."""
    packed, layout_flags = compiled.packing.packed(args)
    return packed, compiled.executable(device, layout_flags, _check_bounds, threads)


def run(compiled: Compiled, device: Device, dims: tuple[int, ...], args: FlatArguments) -> None:
    """Run a compiled function now, and capture it where a graph is open.  Forward mode runs another in its place."""
    observer = observers.current()
    if observer is not None:
        observer.run(compiled, device, dims, args)
        return
    packed, layout_flags = compiled.packing.packed(args)
    n = dims[0] if len(dims) == 1 else thread_count(dims)
    executable = compiled.executable(device, layout_flags, _check_bounds, n)
    # Only code that can stop itself (it has `sites` where it does) needs an error record.
    fault = device.error_record() if executable.sites else None
    block = block_of(dims, 0 if fault is None else fault.ctypes.data, packed)
    address = address_of_block(block)
    graph = capturing()
    if graph is None or graph.executes:
        if open_profiles:
            nbytes = n * compiled.bytes_per_thread
            timed(compiled.name, nbytes, partial(_run_to_its_end, device, compiled, executable, address, n))
        else:
            device.run(executable, address, n, compiled)
        if fault is not None:
            _look(device, compiled, executable, fault, dims)
    if graph is not None:
        _capture(graph, compiled, device, dims, args, executable, block, fault)


def _run_to_its_end(device: Device, compiled: Compiled, executable: Executable, address: int, n: int) -> None:
    device.run(executable, address, n, compiled)
    device.synchronize()


def _capture(
    graph: Graph,
    compiled: Compiled,
    device: Device,
    dims: tuple[int, ...],
    args: FlatArguments,
    executable: Executable,
    block: bytes,
    fault: np.ndarray | None,
) -> None:
    """Add a launch to a graph, in the best form that its code has."""
    n, keep = thread_count(dims), (block, fault, args, executable)
    address = getattr(executable, "address", None)
    go = partial(device.run, executable, address_of_block(block), n, compiled)
    if fault is not None:

        def again() -> None:
            fault[:] = 0
            go()
            _look(device, compiled, executable, fault, dims)

        graph.call(again, keep)
    elif address is not None:
        nbytes = n * compiled.bytes_per_thread
        graph.row(address, block, n, grain_of(compiled), keep, compiled.name, nbytes)
    elif not getattr(executable, "waits", True):
        graph.on_device(device, go, keep)
    else:
        graph.call(go, keep)


def _look(device: Device, compiled: Compiled, executable: Executable, fault: np.ndarray, dims: tuple[int, ...]) -> None:
    """Raises what the threads of a launch have written to its error record."""
    device.synchronize()
    if fault[0]:
        raise_fault(compiled, executable, fault, dims)


@contextmanager
def writing(arrays: Iterable[array | None], writer: str) -> Iterator[None]:
    """Around what writes to these arrays: tapes and graphs are told."""
    written, graph = [a for a in arrays if a is not None], capturing()
    for a in written:
        before_write(a, writer)
    yield
    for a in written:
        a.buffer.version += 1
        if a.buffer.owners is not None:
            a.buffer.owners.written(a)
        if graph is not None:
            graph.writes(a)


class Call:
    """A kernel bound to arguments: what `launch` runs, a tape records, and a recorded `Launch` repeats."""

    __slots__ = ("spec", "dims", "args", "device")

    def __init__(self, spec: Specialisation, dims: tuple[int, ...], args: list[Any], device: Device) -> None:
        self.spec, self.dims, self.args, self.device = spec, dims, args, device

    def begin(self, compiled: Compiled, args: FlatArguments, soon: bool = False) -> None:
        """Begins to compile what will be run on such arguments."""
        _, layout_flags = compiled.packing.packed(args)
        compiled.begin(self.device, layout_flags, _check_bounds, thread_count(self.dims), soon)

    def run(self) -> None:
        self.run_as(self.spec.forward, self.args)

    def run_as(self, compiled: Compiled, args: FlatArguments) -> None:
        """Run a variant of the kernel that writes what the kernel writes."""
        args_now, written, graph = self.args, [], capturing()
        for k in self.spec.written:
            a = args_now[k]
            if a is not None:
                written.append(a)
                if a.buffer.watchers or graph is not None:
                    before_write(a, f"launch of '{self.spec.kernel.name}'")
        run(compiled, self.device, self.dims, args)
        if graph is not None:
            graph.carries |= bool(self.spec.active(args_now))
            graph.uses(self.spec.captures)
            for k in self.spec.reads:
                if isinstance(args_now[k], array):
                    graph.reads(args_now[k])
        for a in written:
            a.buffer.version += 1
            if a.buffer.owners is not None:
                a.buffer.owners.written(a)
            if graph is not None:
                graph.writes(a)

    def run_adjoint(self, gradients: Mapping[int, array | None]) -> None:
        """The adjoint on the live values, `gradients` by parameter number.  Values must be those before the launch."""
        spec, given = self.spec, self._checked(gradients)
        made = spec.differentiated(frozenset(given), spec.aliases(self.args))
        pair = made.adjoint(frozenset())
        self._refuse_overwritten({*made.must_cache, *made.replayed, *made.returning, *pair.plan.finals})
        recorder = recording.current()
        if recorder is not None:
            recorder.adjoint_launch(self, given)
        scratch = [self.args[k] for k in pair.plan.scratch]
        with writing([*given.values(), *scratch], f"adjoint launch of '{spec.kernel.name}'"):
            run(pair.adjoint, self.device, self.dims, [*self.args, *(given[k] for k in pair.plan.active)])

    def _checked(self, gradients: Mapping[int, array | None]) -> dict[int, array]:
        """The gradients, of which none is missing, and of which one is that of something written."""
        spec, given = self.spec, dict[int, array]()
        for k, g in gradients.items():
            if g is None or g.shape != self.args[k].shape:
                found = "none" if g is None else f"one of shape {g.shape}"
                raise LaunchError(
                    f"adjoint launch of kernel '{spec.kernel.name}': '{spec.names[k]}' needs a gradient"
                    f" array of its shape, there is {found}; make the array with requires_grad=True, or set one with"
                    " adjoint=True"
                )
            given[k] = g
        if not any(k in given for k in spec.writes):
            written = ", ".join(f"'{spec.names[k]}'" for k in sorted(spec.writes)) or "nothing"
            raise LaunchError(
                f"adjoint launch of kernel '{spec.kernel.name}': it writes {written}, and no gradient of that to start"
                " from is given; make it with requires_grad=True, or pass adj_outputs"
            )
        return given

    def _refuse_overwritten(self, numbers: Collection[int]) -> None:
        """Only a tape can save what the kernel overwrites before its adjoint needs it."""
        if numbers:
            names = ", ".join(f"'{self.spec.names[k]}'" for k in sorted(numbers))
            raise LaunchError(
                f"kernel '{self.spec.kernel.name}' overwrites values of {names} that its own adjoint needs; "
                "it cannot be launched in adjoint form by itself: record it on a Tape"
            )
