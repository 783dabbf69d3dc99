"""A kernel bound to its arguments, and running it."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from sim.core.backends.base import ASSERT_FAILED, Executable
from sim.core.lang.errors import GradientError, SimError
from sim.core.lang.frontend.function import rules
from sim.core.lang.references import Reference
from sim.core.lang.types import ArrayType, Composite, HostStruct, Struct
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.profile import open_profiles, timed
from sim.core.runtime.ambient.threads import grain_of
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.device import Device, get_device
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.arguments import argument_type, flatten_argument
from sim.core.runtime.launch.kernel import Kernel, Specialisation
from sim.core.runtime.memory.buffer import before_write


class KernelFault(SimError):
    """A kernel stopped itself: a failed `assert`, or an access outside of an array in checked mode."""


_check_bounds = os.environ.get("SIM_CHECK_BOUNDS", "0") not in ("", "0")


def set_check_bounds(check: bool) -> None:
    """Compare every index of the launches from now on, adjoints too, with the shape (default: $SIM_CHECK_BOUNDS, or
    not).

    An index outside of an array then raises `KernelFault` with array, index, thread and line instead of touching other
    memory; so does one outside of a vector, matrix, tuple or local array, which is otherwise its last component when it
    is read, and dropped when it is written.  An index counts from 0; a negative one counts from the end only if it is a
    constant, and of a value of the thread. Slower; recorded launches and captured graphs stay as they are.
    """
    global _check_bounds
    _check_bounds = bool(check)


def as_dims(dim: Any) -> tuple[int, ...]:
    """Launch dimensions from an int or a sequence of one to four."""
    if type(dim) is int and dim >= 0:
        return (dim,)
    if isinstance(dim, (int, np.integer)):
        dims: tuple[int, ...] = (int(dim),)
    else:
        try:
            dims = tuple(operator.index(d) for d in dim)
        except TypeError:
            raise LaunchError(f"dim is {dim!r}; expected an integer or up to four of them") from None
    if not 1 <= len(dims) <= 4 or any(d < 0 for d in dims):
        raise LaunchError(f"dim is {dim!r}; expected one to four non-negative integers")
    return dims


def thread_count(dims: Sequence[int]) -> int:
    if len(dims) == 1:
        return dims[0]
    n = 1
    for d in dims:
        n *= d
    return n


def prepare(compiled: Compiled, device: Device, args: FlatArguments) -> tuple[list[bytes], Executable]:
    """The parts of an argument block, and the code for such arguments, for one who runs it again and again."""
    parts, layout_flags = compiled.packing.parts(args)
    return parts, compiled.executable(device, layout_flags, _check_bounds)


def run(compiled: Compiled, device: Device, dims: tuple[int, ...], args: FlatArguments) -> None:
    """Run a compiled function now: pack its block and hand it to the backend.  Forward mode runs another in its
    place."""
    observer = observers.current()
    if observer is not None:
        observer.run(compiled, device, dims, args)
        return
    packing = compiled.packing
    parts, layout_flags = packing.parts(args)
    executable = compiled.executable(device, layout_flags, _check_bounds)
    fault, graph, n = device.error_record() if executable.sites else None, capturing(), thread_count(dims)
    block = packing.take() if graph is None else packing.fresh()
    block.fill(dims, 0 if fault is None else fault.ctypes.data, parts)
    try:
        if open_profiles:
            timed(
                compiled.func.name,
                n * compiled.bytes_per_thread,
                lambda: _run_to_its_end(device, compiled, executable, block.address, n),
            )
        else:
            device.run(executable, block.address, n, compiled)
    finally:
        if graph is None:
            packing.give(block)
    if fault is not None:
        _look(device, compiled, executable, fault, dims)
    if graph is not None:
        keep = (block, fault, args)
        address = getattr(executable, "address", None)
        if fault is None and address is not None:
            graph.row(
                address,
                block.address,
                n,
                grain_of(compiled),
                (keep, executable),
                compiled.func.name,
                n * compiled.bytes_per_thread,
            )
        elif fault is None and not getattr(executable, "waits", True):
            graph.on_device(device, lambda: device.run(executable, block.address, n, compiled), keep)
        else:
            graph.call(lambda: _run_again(device, compiled, executable, block.address, n, dims, fault, keep))


def _run_to_its_end(device: Device, compiled: Compiled, executable: Executable, address: int, n: int) -> None:
    device.run(executable, address, n, compiled)
    device.synchronize()


def _run_again(
    device: Device,
    compiled: Compiled,
    executable: Executable,
    address: int,
    n: int,
    dims: tuple[int, ...],
    fault: np.ndarray | None,
    keep: Any,
) -> None:
    if fault is not None:
        fault[:] = 0
    device.run(executable, address, n, compiled)
    if fault is not None:
        _look(device, compiled, executable, fault, dims)


def _look(device: Device, compiled: Compiled, executable: Executable, fault: np.ndarray, dims: tuple[int, ...]) -> None:
    """Raises what the threads of a launch have noted in its error record."""
    device.synchronize()
    if fault[0]:
        raise_fault(compiled, executable, fault, dims)


def raise_fault(compiled: Compiled, executable: Executable, fault: np.ndarray, dims: tuple[int, ...]) -> None:
    site = executable.sites[int(fault[2])]
    thread: Any = tuple(int(i) for i in np.unravel_index(int(fault[3]), dims))
    thread = thread[0] if len(thread) == 1 else thread
    where = f"{site.span}: " if site.span else ""
    if site.derivative:
        raise GradientError(f"{site.text} (in thread {thread} of '{compiled.func.name}')", site.span)
    if fault[1] == ASSERT_FAILED:
        what = f"assertion failed{': ' + site.text if site.text else ''}"
    else:
        index, bound = int(fault[4]), int(fault[5])
        what = f"index {index} is outside of " + (
            f"'{site.text}' (length {bound})" if site.text else f"0 .. {bound - 1}"
        )
    excerpt = f"\n{site.span.excerpt()}" if site.span and site.span.text else ""
    raise KernelFault(f"{where}{what}, in thread {thread} of kernel '{compiled.func.name}'{excerpt}")


class Call:
    """A kernel bound to arguments: what `launch` runs, a tape records, and a recorded `Launch` repeats."""

    __slots__ = ("spec", "dims", "args", "device")

    def __init__(self, spec: Specialisation, dims: tuple[int, ...], args: list[Any], device: Device) -> None:
        self.spec, self.dims, self.args, self.device = spec, dims, args, device

    def run(self) -> None:
        self.run_as(self.spec.forward, self.args)

    def run_as(self, compiled: Compiled, args: FlatArguments) -> None:
        """Run a variant of the kernel that writes what the kernel writes."""
        args_now, written = self.args, []
        for k in self.spec.written:
            a = args_now[k]
            if a is not None:
                written.append(a)
                if a.buffer.watchers:
                    before_write(a, f"launch of '{self.spec.kernel.name}'")
        run(compiled, self.device, self.dims, args)
        graph = capturing()
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

    def run_adjoint(self, gradients: Mapping[int, Any]) -> None:
        """The adjoint on the live values, `gradients` by parameter number.  Values must be those before the launch."""
        active = frozenset(gradients)
        spec = self.spec
        for k, g in gradients.items():
            if g is None or g.shape != self.args[k].shape:
                found = "none" if g is None else f"one of shape {g.shape}"
                raise LaunchError(
                    f"adjoint launch of kernel '{spec.kernel.name}': '{spec.func.params[k].name}' needs a gradient"
                    f" array of its shape, there is {found}; make the array with requires_grad=True, or set one with"
                    " adjoint=True"
                )
        if not any(k in active for k in spec.writes):
            written = ", ".join(f"'{spec.func.params[k].name}'" for k in sorted(spec.writes)) or "nothing"
            raise LaunchError(
                f"adjoint launch of kernel '{spec.kernel.name}': it writes {written}, and no gradient of that to start"
                " from is given; make it with requires_grad=True, or pass adj_outputs"
            )
        aliases = spec.aliases(self.args)
        made = spec.differentiated(active, aliases)
        tbr, pair = made.tbr, made.adjoint(frozenset())
        spoilt = sorted({*tbr.must_cache, *tbr.replayed, *tbr.returning, *pair.plan.finals})
        if spoilt:
            names = ", ".join(f"'{spec.func.params[k].name}'" for k in spoilt)
            raise LaunchError(
                f"kernel '{spec.kernel.name}' overwrites values of {names} that its own adjoint needs; "
                "it cannot be launched in adjoint form by itself: record it on a Tape"
            )
        recorder = recording.current()
        if recorder is not None:
            recorder.adjoint_launch(self, gradients)
        for g in gradients.values():
            before_write(g, f"adjoint launch of '{spec.kernel.name}'")
        run(pair.adjoint, self.device, self.dims, [*self.args, *(gradients[k] for k in pair.plan.active)])
        graph = capturing()
        for g in gradients.values():
            g.buffer.version += 1
            if g.buffer.owners is not None:
                g.buffer.owners.written(g)
            if graph is not None:
                graph.writes(g)


def argument_label(position: int, n_inputs: int) -> str:
    return f"inputs[{position}]" if position < n_inputs else f"outputs[{position - n_inputs}]"


_SLOW_KINDS = frozenset((Composite, HostStruct, tuple, list, np.ndarray))


@cache
def _of_arrays(kind: Struct) -> bool:
    """Whether every field is an array, so that the struct becomes one parameter per field."""
    return all(isinstance(f, ArrayType) for f in kind.fields.values())


def bind(kernel: Kernel, dims: tuple[int, ...], args: Sequence[Any], n_inputs: int, device: Any) -> Call:
    """Check the arguments and find the specialisation for their types."""
    plain = together = True
    target = get_device(device)
    key: list[Any] = []
    flat: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is array:
            key.append((a.dtype, a.ndim))
            flat.append(a)
            if a.buffer.device is not target:
                together = False
        elif kind is HostStruct and _of_arrays(a._sim_struct_):
            together = False
            key.append(a._sim_struct_)
            for name in a._sim_struct_.fields:
                part = getattr(a, name)
                key.append(None if part is None else (part.dtype, part.ndim) if type(part) is array else type(part))
                flat.append(part)
        else:
            key.append(kind)
            flat.append(a)
            if kind in _SLOW_KINDS:
                plain = False
    spec = kernel.bindings.get(tuple(key)) if plain else None
    if (
        spec is not None
        and (spec.captures.live or spec.captures.rules_version != rules.version)
        and spec.captures.changed()
    ):
        spec = kernel.bindings[tuple(key)] = kernel.specialise(spec.types)
    if spec is None:
        spec, slow = _bind_slowly(kernel, args, n_inputs)
        if plain and len(flat) == len(slow) and not any(isinstance(kind, Reference) for kind in spec.types):
            kernel.bindings[tuple(key)] = spec
        flat = slow
    check_dims(spec, dims)
    if not (together and plain):
        target = _common_device(kernel, flat, target, device is not None)
    return Call(spec, dims, flat, target)


def _common_device(kernel: Kernel, flat: Sequence[Any], target: Device, named: bool) -> Device:
    """Where the arrays of a launch lie: all on `target` if that was `named`, else on the device of the first."""
    devices = [a.buffer.device for a in flat if type(a) is array]
    if devices and not named:
        target = devices[0]
    for device in devices:
        if device is not target:
            raise LaunchError(
                f"an argument of kernel '{kernel.name}' lies on {device}, the launch is on {target}; use"
                f" a.to('{target}')"
            )
    return target


def check_dims(spec: Specialisation, dims: tuple[int, ...]) -> None:
    wanted = spec.forward.func.dims
    if wanted == len(dims) == 1 and dims[0] < 2**31:
        return
    if wanted > len(dims) or (1 < wanted < len(dims)):
        raise LaunchError(f"kernel '{spec.kernel.name}' asks for {wanted} indices of tid(); dim={dims} has {len(dims)}")
    if thread_count(dims) >= 2**31:
        raise LaunchError(f"dim={dims} is {thread_count(dims)} threads; a launch has less than 2^31")


def _bind_slowly(kernel: Kernel, args: Sequence[Any], n_inputs: int) -> tuple[Specialisation, list[Any]]:
    parameters = kernel.parameters
    if len(args) > len(parameters):
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(parameters)} arguments ({', '.join(p.name for p in parameters)}), got"
            f" {len(args)}"
        )
    if len(args) < len(parameters):
        missing = ", ".join(f"'{p.name}'" for p in parameters[len(args) :])
        unused = (
            ""
            if all(p.required for p in parameters[len(args) :])
            else "; the defaults of a kernel's parameters are not used: pass every argument"
        )
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(parameters)} arguments, got {len(args)}: {missing} is missing from"
            f" inputs or outputs{unused}"
        )
    types = tuple(argument_type(kernel, k, a, argument_label(k, n_inputs)) for k, a in enumerate(args))
    flat: list[Any] = []
    for k, (kind, a) in enumerate(zip(types, args, strict=True)):
        flat += flatten_argument(
            kind, a, f"{argument_label(k, n_inputs)} ('{parameters[k].name}') of kernel '{kernel.name}'"
        )
    return kernel.specialise(types), flat
