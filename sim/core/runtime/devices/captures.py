"""Captures in Warp's form: between `capture_begin` and `capture_end` launches are captured and nothing changes.

`sim.capture()` captures while everything happens as usual.  So does this, and in the end puts back all memory that was
written: what a tape, a loop or a test in the program decides meanwhile is decided on true values, and whoever looks at
the arrays afterwards finds that nothing has run.  Until then Python sees the results (in Warp: the old values), and
messages that kernels print appear once.
"""

from __future__ import annotations

from enum import IntEnum
from types import TracebackType

from sim.core.lang.errors import NotSupportedError, SimError
from sim.core.runtime.ambient.open_graphs import opened
from sim.core.runtime.ambient.stacks import OpenStack, insist
from sim.core.runtime.devices.base_device import Device
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.devices.graph import Graph, capturing
from sim.core.runtime.devices.streams import ScopedStream, Stream
from sim.core.runtime.memory.buffer import Buffer, Strided, duplicate, keepers, refill
from sim.core.runtime.memory.gradient_owners import GradientOwners


class CaptureError(SimError, RuntimeError):
    """A capture that is begun twice, ended without a beginning, or launched before its end."""


class CaptureMode(IntEnum):
    """What `capture_mode=` takes in Warp: which calls of CUDA break a capture off.  Nothing depends on it here."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class _Capture:
    """A graph that is being captured on a device, and the memory that it writes as it was before."""

    def __init__(self, device: Device) -> None:
        self.graph = Graph()
        self.graph.device = device
        self.graph.owns_fresh_memory = True
        self._before: dict[Buffer, tuple[Buffer, GradientOwners | None]] = {}

    def before_write(self, view: Strided, writer: str) -> None:
        """See `Keeper`."""
        buffer = view.buffer
        if buffer not in self._before:
            self._before[buffer] = duplicate(buffer), buffer.owners and buffer.owners.copy()

    def undo(self) -> None:
        for buffer, (content, owners) in self._before.items():
            refill(buffer, content)
            buffer.owners, buffer.version = owners, buffer.version + 1


_open = OpenStack[_Capture]()


def capture_begin(
    device: DeviceLike = None,
    stream: Stream | None = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: object = None,
) -> None:
    """Begins to capture: until `capture_end`, what happens to memory in this thread becomes a graph and is undone.

    device: asks for nothing but its name; a graph holds work of any device.  stream: what launches go to meanwhile has
    to be said with `ScopedStream`.  force_module_load, external, capture_mode: taken for Warp's programs; there are no
    modules to load, and nothing that a mode would change.
    Raises CaptureError where a graph is being captured already, NotSupportedError with apic=True: graphs are not saved
    to files.
    """
    if apic:
        raise NotSupportedError("apic=True: graphs cannot be saved to files; leave it out, and capture in each run")
    target = stream.device if stream is not None else get_device(device)
    if capturing() is not None:
        raise CaptureError(
            "a graph is being captured in this thread already; end that one first: graph = capture_end()"
        )
    made = _Capture(target)
    _open.push(made)
    keepers.push(made)
    opened.push(made.graph)


def capture_end(device: DeviceLike = None, stream: Stream | None = None) -> Graph:
    """Ends what `capture_begin` has begun; returns the graph, which has not run yet.  Raises CaptureError without."""
    if not _open.entries or capturing() is not _open.entries[-1].graph:
        raise CaptureError("no graph is being captured in this thread; call capture_begin() before")
    made = _open.entries[-1]
    opened.pop()
    keepers.pop()
    _open.pop()
    insist([made.undo])
    return made.graph


def is_capturing(device: DeviceLike = None) -> bool:
    """Whether a graph is being captured in this thread, by `capture_begin` on this device or by `sim.capture()`."""
    return get_device(device).is_capturing


def capture_launch(graph: Graph, stream: Stream | None = None) -> None:
    """Does what was captured, on the present content of the same memory (`graph.replay()`).

    stream: where the work of a GPU goes (None: its present stream).
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch takes a graph, as capture_end() returns it, not a {type(graph).__name__}")
    if stream is None:
        graph.replay()
        return
    with ScopedStream(stream):
        graph.replay()


class ScopedCapture:
    """`with ScopedCapture() as c: ...` captures without running; `capture_launch(c.graph)` runs it.

    Arguments as of `capture_begin`.  active: whether it is capturing.  Where the block raises, the graph stays None.
    """

    def __init__(
        self,
        device: DeviceLike = None,
        stream: Stream | None = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: object = None,
    ) -> None:
        self._arguments = device, stream, force_module_load, external, apic, capture_mode
        self.graph: Graph | None = None
        self.active = False

    def __enter__(self) -> ScopedCapture:
        capture_begin(*self._arguments)
        self.active = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.active = False
        graph = capture_end(*self._arguments[:2])
        if kind is None:
            self.graph = graph
