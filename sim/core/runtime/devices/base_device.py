"""What a device is: memory, transfers, and a back end that compiles kernels for it.

Whatever differs between devices is asked of a `Device`; nothing above knows which one it runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sim.core.backends.base import Backend, Executable
from sim.core.backends.native import Row
from sim.core.lang.errors import SimError
from sim.core.runtime.ambient.open_graphs import captures_on
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import Buffer, Strided
from sim.core.runtime.memory.host_memory import find
from sim.core.runtime.memory.spans import reach

Handle = Any
"""A stream or an event, as the driver of a device knows it."""


class DeviceError(SimError, ValueError, RuntimeError):
    """A device or backend that does not exist here."""


@dataclass(frozen=True)
class DeviceNode:
    """In the place of a native form: the action only enqueues work on this device."""

    device: Device


NodeForm = Row | DeviceNode | None
"""The form of an action in a graph: a row for the native walker, work of a device, or neither."""


class Device:
    """Memory and a back end.  Views are given as `Strided`: arrays, or ranges of bytes."""

    is_cpu = False
    is_cuda = False
    arch = 0
    """The compute capability of a GPU, as 90 for 9.0."""
    ordinal = -1
    """The number of a GPU."""
    # What Warp's programs ask of a device: there are no pools to set up, and no access from one device to another.
    is_mempool_supported = is_mempool_enabled = is_uva = is_ipc_supported = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.identity = object()
        """Nobody else's, and quick to look up: another device may have the name later."""

    @property
    def alias(self) -> str:
        """Warp's word for `name`."""
        return self.name

    @property
    def sm_count(self) -> int:
        """Multiprocessors of a GPU."""
        return 0

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of a GPU."""
        return 0

    @property
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of a GPU."""
        return 0, 0

    @property
    def free_memory(self) -> int:
        return self.memory_info[0]

    @property
    def total_memory(self) -> int:
        return self.memory_info[1]

    @property
    def is_capturing(self) -> bool:
        """Whether a graph is being captured in this thread, by `capture_begin` on this device or by `sim.capture()`."""
        return captures_on(self)

    def can_access(self, other: Device) -> bool:
        """Whether kernels on this device may read memory of another one."""
        return self is other

    @property
    def backend(self) -> Backend:
        """What compiles kernels for this device."""
        raise NotImplementedError

    @property
    def description(self) -> str:
        """Name and, where that is known, the product."""
        return self.name

    # -- memory
    def allocate(self, nbytes: int, zero: bool = False) -> Buffer:
        """Fresh memory; its content is undefined unless `zero`."""
        raise NotImplementedError

    def allocate_pinned(self, nbytes: int) -> Buffer:
        """Zeros in memory of the CPU that GPUs read and write on their own."""
        raise ValueError(f"pinned memory is memory of the CPU, not of {self.name}; use device='cpu'")

    def foreign(self, address: int, nbytes: int, owner: object = None) -> Buffer:
        """Memory of somebody else on this device, kept alive by `owner`."""
        raise NotImplementedError

    def numpy(self, view: Strided) -> np.ndarray:
        """`view` as NumPy, of shape view.shape + component shape: on the CPU a view, elsewhere a read-only copy."""
        raise NotImplementedError

    def copy(self, dest: Strided, src: Strided) -> None:
        """Copies `src`, on any device, to `dest`, of the same shape and type.  The two may overlap."""
        raise NotImplementedError

    def write(self, dest: Strided, value: np.ndarray) -> None:
        """Stores host data in `dest`, broadcast over the leading dimensions."""
        raise NotImplementedError

    def deliver(self, dest: Strided, src: Strided) -> bool:
        """Starts to copy `src` on this device to pinned memory of the CPU; False if that cannot be."""
        return False

    def clear(self, dest: Strided) -> None:
        """Sets every element to zero."""
        raise NotImplementedError

    def add(self, dest: Strided, src: Strided) -> None:
        """dest += src, over the floating-point parts; `src` has the same shape and type and does not overlap."""
        raise NotImplementedError

    def copy_row(self, dest: Strided, src: Strided) -> NodeForm:
        """The form of a copy in a graph: `DeviceNode(self)` where the device can capture it."""
        return None

    def write_row(self, dest: Strided, value: np.ndarray) -> NodeForm:
        """Stored host data in a graph, likewise.  The caller keeps `value`."""
        return None

    def give_row(self, dest: Strided, src: Strided) -> NodeForm:
        """`dest` += `src` and `src` = 0 in a graph, likewise."""
        return None

    def captured(self, actions: Sequence[Callable[[], None]]) -> Any:
        """The work that these actions enqueue, as something to `replay`; nothing happens yet."""
        raise NotImplementedError

    def replay(self, captured: Any) -> None:
        """Does what was captured."""
        raise NotImplementedError

    def duplicate(self, view: Strided) -> Strided:
        """A packed copy of a view, in fresh memory, that no tape knows of."""
        raise NotImplementedError

    # -- launches
    def error_record(self) -> np.ndarray:
        """Eight int64 zeros in host memory that kernels can write to."""
        raise NotImplementedError

    def run(self, executable: Executable, block: int, threads: int, compiled: Compiled) -> None:
        """Starts the threads of a launch; `block`: address of its argument block, free again when this returns."""
        raise NotImplementedError

    def runner(self, executable: Executable, block: int, threads: int, compiled: Compiled) -> Callable[[], None]:
        """What starts this launch again and again, as long as its block is kept."""
        return partial(self.run, executable, block, threads, compiled)

    def synchronize(self, everything: bool = False) -> None:
        """Waits until everything that was launched on the present stream has ended; `everything`: on all of them."""
        raise NotImplementedError

    # -- streams and events; `stream` is the handle of the present one
    stream: Handle = None

    def new_stream(self) -> Handle:
        """The handle of a further stream."""
        return None

    def drop_stream(self, stream: Handle) -> None:
        """A stream that `new_stream` has made is not used any more."""

    def drop_event(self, event: Handle) -> None:
        """An event that `new_event` has made is not used any more."""

    def new_event(self, timing: bool) -> Handle:
        """The handle of an event."""
        raise NotImplementedError

    def record_event(self, event: Handle, stream: Handle) -> None:
        """Marks the present end of a stream."""
        raise NotImplementedError

    def wait_event(self, stream: Handle, event: Handle) -> None:
        """What is enqueued on a stream next waits for an event."""

    def synchronize_event(self, event: Handle) -> None:
        """The host waits for an event, or longer."""
        self.synchronize(everything=True)

    def stream_ended(self, stream: Handle) -> bool:
        """Whether all that is enqueued on a stream is done."""
        return True

    def event_ended(self, event: Handle) -> bool:
        """Whether all that was enqueued before an event is done."""
        return True

    def elapsed(self, begin: Handle, end: Handle) -> float:
        """Milliseconds between two recorded events; waits for the second."""
        raise NotImplementedError

    # -- other libraries
    def dlpack(self, view: Strided, stream: Handle) -> Any:
        """A DLPack capsule of a view for a consumer on `stream`, or None where NumPy makes it."""
        return None

    def from_dlpack(
        self, source: Any, **options: Any
    ) -> tuple[Buffer, int, tuple[int, ...], tuple[int, ...], np.dtype]:
        """Buffer, offset, shape, strides [bytes] and type of the numbers of another library's tensor on this device."""
        taken = dlpack.Taken(source.__dlpack__(**options))
        low, last = reach(taken.shape, taken.strides) if 0 not in taken.shape else (0, 0)
        nbytes = last + taken.dtype.itemsize - low
        buffer = find(taken.address + low, nbytes, self) or self.foreign(taken.address + low, nbytes, taken)
        return buffer, taken.address - buffer.address, taken.shape, taken.strides, taken.dtype

    def cuda_interface(self, view: Strided) -> dict[str, Any]:
        """`__cuda_array_interface__` of a view.  Raises AttributeError where the device has none."""
        raise AttributeError(f"__cuda_array_interface__ is for arrays on GPUs; this one is on {self.name}")

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name
