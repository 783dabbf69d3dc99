"""Streams and events: order and overlap of the work that is enqueued on a device.

On the CPU, where everything has ended when a call returns, they do nothing.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sim.core.lang.errors import SimError
from sim.core.runtime.devices.base_device import Device
from sim.core.runtime.devices.device import DeviceLike, get_device


def _forget(drop: Callable[[Any], None], handle: Any) -> None:
    """Gives a handle back; at the end of the program the device may have gone first."""
    with contextlib.suppress(SimError, RuntimeError):
        drop(handle)


class Event:
    """A point in a stream.  enable_timing: it can be measured from and to."""

    def __init__(self, device: DeviceLike = None, enable_timing: bool = False) -> None:
        self.device = get_device(device)
        self.timed = enable_timing
        self.handle = self.device.new_event(enable_timing)
        weakref.finalize(self, _forget, self.device.drop_event, self.handle)


class Stream:
    """Work in order.  What is on different streams may overlap; events and `wait_stream` say what must not."""

    def __init__(self, device: DeviceLike = None) -> None:
        self.device = get_device(device)
        self.handle = self.device.new_stream()
        weakref.finalize(self, _forget, self.device.drop_stream, self.handle)

    @classmethod
    def present(cls, device: Device) -> Stream:
        """The stream that the device is working on."""
        made = object.__new__(cls)
        made.device, made.handle = device, device.stream
        return made

    def record_event(self, event: Event | None = None) -> Event:
        """Marks the present end of the stream; returns the event."""
        event = event or Event(self.device)
        self.device.record_event(event.handle, self.handle)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes next on this stream waits for the event."""
        self.device.wait_event(self.handle, event.handle)

    def wait_stream(self, other: Stream) -> None:
        """What comes next on this stream waits for all that is enqueued on the other one."""
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        """The host waits for the stream."""
        with ScopedStream(self, sync_enter=False):
            self.device.synchronize()


class ScopedStream:
    """`with ScopedStream(stream):` launches and copies on its device go to this stream.

    sync_enter: it first waits for the stream that was the present one.
    """

    def __init__(self, stream: Stream, sync_enter: bool = True) -> None:
        self.stream, self._sync = stream, sync_enter

    def __enter__(self) -> Stream:
        device = self.stream.device
        self._before = Stream.present(device)
        if self._sync:
            self.stream.wait_stream(self._before)
        device.stream = self.stream.handle
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.device.stream = self._before.handle


def get_stream(device: DeviceLike = None) -> Stream:
    """The stream that a device is working on."""
    return Stream.present(get_device(device))


def wait_stream(stream: Stream) -> None:
    """What is enqueued on the device next waits for `stream`."""
    Stream.present(stream.device).wait_stream(stream)


def get_event_elapsed_time(begin: Event, end: Event) -> float:
    """Milliseconds between two recorded events made with enable_timing=True; waits for the second."""
    if not (begin.timed and end.timed):
        raise ValueError("these events measure no time; make them with Event(enable_timing=True)")
    return begin.device.elapsed(begin.handle, end.handle)
