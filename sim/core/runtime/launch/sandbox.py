"""A sandbox for kernels: runs on copies of what they write, seen by no tape, graph or forward mode."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from sim.core.backends.base import Executable
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.compiled.argument_packing import (
    FlatArguments,
    LayoutFlags,
    Memory,
    address_of_block,
    block_of,
)
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.device import get_device
from sim.core.runtime.launch.calls import Call, thread_count
from sim.core.runtime.memory.buffer import Buffer, ByteRange
from sim.core.runtime.memory.host_memory import SPARE, address_of


def spare_copy(host: np.ndarray) -> np.ndarray:
    """A copy with spare bytes behind it, as kernels expect of our own memory."""
    flat = np.empty(host.nbytes + SPARE, np.uint8)[: host.nbytes]
    copy = flat.view(host.dtype).reshape(host.shape)
    copy[...] = host
    return copy


def host_argument(host: np.ndarray) -> Memory:
    """Host data as an array argument of a kernel that takes it number by number."""
    return Memory(address_of(host), host.shape, host.strides, True, host)


def sandboxed_arguments(call: Call, changed: Collection[int]) -> list[Any]:
    """The arguments of a launch; those that share memory with the parameters `changed` refer to copies."""
    copies = {a.buffer: spare_copy(a.buffer.memory) for a in (call.args[k] for k in changed) if isinstance(a, array)}
    args: list[Any] = []
    for a in call.args:
        if isinstance(a, array) and a.buffer in copies:
            copy = copies[a.buffer]
            a = Memory(address_of(copy) + a.offset, a.shape, a.strides, a.is_contiguous, copy)
        args.append(a)
    return args


def packed(compiled: Compiled, dims: tuple[int, ...], args: FlatArguments) -> tuple[bytes, np.ndarray, LayoutFlags]:
    """The argument block of a launch, its error record, and what is known of the arrays."""
    fault = np.zeros(8, np.int64)
    arguments, layout_flags = compiled.packing.packed(args)
    return block_of(dims, fault.ctypes.data, arguments), fault, layout_flags


def run_sandboxed(compiled: Compiled, call: Call, args: FlatArguments, check: bool) -> tuple[Executable, np.ndarray]:
    """Run a variant of the kernel of a launch in order; returns what ran, and its error record."""
    block, fault, layout_flags = packed(compiled, call.dims, args)
    threads = thread_count(call.dims)
    executable = compiled.executable(call.device, layout_flags, check, threads)
    executable.run(address_of_block(block), 0, threads)
    return executable, fault


def on_cpu(call: Call) -> Call:
    """The launch itself on the CPU; of another device the same, on copies of its arguments in CPU memory."""
    return call if call.device.is_cpu else Call(call.spec, call.dims, on_host(call.args), get_device("cpu"))


def on_host(args: FlatArguments, before: Mapping[Buffer, Buffer] = MappingProxyType({})) -> list[Any]:
    """Arguments copied to CPU memory; what overlaps there overlaps here.  before: older content of some memory."""
    cpu, moved = get_device("cpu"), dict[Buffer, Buffer]()

    def host(buffer: Buffer) -> Buffer:
        if buffer not in moved:
            moved[buffer] = cpu.allocate(buffer.nbytes)
            cpu.copy(ByteRange(moved[buffer]), ByteRange(before.get(buffer, buffer)))
        return moved[buffer]

    out: list[Any] = []
    for a in args:
        if isinstance(a, array):
            out.append(make_array(host(a.buffer), a.offset, a.shape, a.strides, a.dtype))
        elif isinstance(a, Memory) and a.owner is not None:
            copied = host(a.owner.data)
            out.append(Memory(copied.address + a.ptr - a.owner.address, a.shape, a.strides, a.is_contiguous, copied))
        else:
            out.append(a)
    return out
