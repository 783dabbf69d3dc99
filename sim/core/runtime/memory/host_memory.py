"""Host memory: allocated, or somebody else's, and which buffer a NumPy array or an address belongs to.

The same memory has to be one buffer however it is met again, since that is the unit by which a tape sees overlaps.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from sim.core.runtime.memory.buffer import AnyDevice, Buffer, NumpySpan, known, live, numpy_root

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
SPARE = 16  # bytes after the end that a vectorised load of the last vec3 may touch
FRONT = 128  # bytes before the beginning: an element numbered -1, as of a grid that was not built, up to a mat44d


def find(address: int, nbytes: int, device: AnyDevice) -> Buffer | None:
    """The buffer of a device in which these bytes lie.  Raises ValueError if they lie in one only in part."""
    for buffer in list(live):
        if (
            buffer.device is device
            and nbytes
            and address < buffer.address + buffer.nbytes
            and buffer.address < address + nbytes
        ):
            if _covers(buffer, address, address + nbytes):
                return buffer
            raise ValueError(
                f"{nbytes} bytes at {address:#x} lie only partly in the memory of another array; make the larger one"
                " first"
            )
    return None


def own_memory(nbytes: int, device: AnyDevice, make: Callable[[int], np.ndarray]) -> Buffer:
    """Fresh host memory, aligned, with spare bytes at both ends, in as many bytes as `make` is asked for."""
    raw: Any = make(FRONT + nbytes + ALIGNMENT + SPARE)
    address = addressof(c_char.from_buffer(raw))  # as `address_of`, in a third of the time
    shift = FRONT + -address % ALIGNMENT
    return Buffer(address + shift, nbytes, device, raw[shift : shift + max(nbytes, 1)])


def raw_memory(address: int, nbytes: int, device: AnyDevice, owner: object = None) -> Buffer:
    """Host memory of somebody else, kept alive by `owner`."""
    return Buffer(address, nbytes, device, np.asarray(NumpySpan(address, nbytes, owner)), owner, foreign=True)


def buffer_of(host: np.ndarray, device: AnyDevice) -> Buffer:
    """The buffer whose memory `host` is a view of; memory not met before becomes a foreign buffer.

    Two views of one NumPy array give the same buffer, and so does a view of memory that was ours to begin with:
    otherwise the tape could not see that they overlap.
    """
    low, high = _bounds(host)
    root, base = numpy_root(host)
    step: Any = host
    while isinstance(step, np.ndarray):
        found = known.get(id(step))
        if found is not None and _covers(found, low, high):
            return found
        step = step.base
    inside = getattr(base, "buffer", None)
    if isinstance(inside, Buffer) and _covers(inside, low, high):
        return inside
    if base is not None:  # DLPack and other libraries: the same memory under another object
        for other in list(known.values()):
            if _covers(other, low, high) and low < high:
                return other
    first, last = _bounds(root)
    if not first <= low <= high <= last:
        first, last, root = low, high, host
    made = raw_memory(first, last - first, device, root)
    known[id(root)] = made
    return made


def _covers(buffer: Buffer, low: int, high: int) -> bool:
    return buffer.address <= low and high <= buffer.address + buffer.nbytes


def _bounds(host: np.ndarray) -> tuple[int, int]:
    """First address and the address after the last."""
    return np.lib.array_utils.byte_bounds(host) if host.size else (address_of(host), address_of(host))


def address_of(host: np.ndarray) -> int:
    """Address of the first element."""
    return host.ctypes.data
