"""Arrays that end at a page that nobody may touch, in memory that was never zero: `SIM_TEST_GUARD=1`.

A read or write behind an array ends the process, and Python says in which test; a number that was never written is NaN,
an index far away.  `SIM_CHECK_BOUNDS=1` sees more indices, but other code: here the lanes, loads of whole rows and
native tables are those that users run.  On Linux, some times as slow as without.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.runtime.devices import cpu_device
from sim.core.runtime.memory.buffer import AnyDevice, Buffer
from sim.core.runtime.memory.host_memory import ALIGNMENT, FRONT, SPARE, address_of
from sim.core.runtime.tape import arena

NOBODY = 0  # PROT_NONE
_aligned = arena.aligned
UNWRITTEN = 255  # bytes of NaN, and of integers that are -1


def guarded_memory(nbytes: int, device: AnyDevice, make: Callable[[int], np.ndarray]) -> Buffer:
    """`own_memory` whose spare bytes end, but for what alignment leaves, where a forbidden page begins."""
    page, behind = mmap.PAGESIZE, nbytes + SPARE
    behind += -behind % ALIGNMENT
    pages = -(-(FRONT + behind) // page)
    region = mmap.mmap(-1, (pages + 1) * page)
    whole = np.frombuffer(region, np.uint8)
    protect: Any = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address_of(whole) + pages * page, page, NOBODY):
        raise OSError("the page behind an array cannot be protected")
    at = pages * page - behind
    whole[: pages * page] = UNWRITTEN
    if make is cpu_device._zeros:
        whole[at : at + nbytes] = 0
    return Buffer(address_of(whole) + at, nbytes, device, whole[at : at + max(nbytes, 1)])


def unwritten(nbytes: int) -> np.ndarray:
    """What tapes keep pieces in."""
    block = _aligned(nbytes)
    block[:] = UNWRITTEN
    return block


def guard() -> None:
    """From now on all memory of the CPU is such."""
    cpu_device.own_memory = guarded_memory
    arena.aligned = unwritten
