"""Arrays that are fields of structs in memory: such a struct has only their address, so its memory keeps them alive."""

from __future__ import annotations

from sim.core.lang.errors import ArrayError
from sim.core.lang.types import Struct
from sim.core.runtime.arrays.operations import describe
from sim.core.runtime.memory.buffer import Operand
from sim.core.runtime.memory.elements import HostData, arrays_in


def hold(dest: Operand, data: HostData) -> None:
    """Keep alive, as long as the memory of `dest`, the arrays of host structs that are about to be written there.

    Raises ValueError for one on another device, where no address of this one is.
    """
    if not (isinstance(dest.dtype, Struct) and dest.dtype.has_arrays):
        return
    for part in arrays_in(data):
        here = dest.buffer.device
        if getattr(part, "device", here) is not here:
            raise ArrayError(f"{describe(dest)} on {here} cannot hold a struct with an array on {part.device}")
        dest.buffer.pointed[id(part)] = part


def hold_same(dest: Operand, src: Operand) -> None:
    """The same for structs that are copied."""
    if src.buffer.pointed:
        here, there = dest.buffer.device, src.buffer.device
        if here is not there:
            raise ArrayError(f"{describe(src)} has structs with arrays on {there}; make them anew on {here}")
        dest.buffer.pointed.update(src.buffer.pointed)
