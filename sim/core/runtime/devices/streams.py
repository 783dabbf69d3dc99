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
from sim.core.runtime.devices.device import DeviceLike, ScopedDevice, get_device


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

    @property
    def is_complete(self) -> bool:
        """Whether all that comes before it is done.  Waits for nothing."""
        return self.device.event_ended(self.handle)


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

    @property
    def is_complete(self) -> bool:
        """Whether all that is enqueued on it is done.  Waits for nothing."""
        return self.device.stream_ended(self.handle)

    @property
    def is_capturing(self) -> bool:
        """Whether a graph is being captured on its device, see `Device.is_capturing`."""
        return self.device.is_capturing

    def record_event(self, event: Event | None = None) -> Event:
        """Marks the present end of the stream; returns the event."""
        event = event or Event(self.device)
        self.device.record_event(event.handle, self.handle)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes next on this stream waits for the event."""
        self.device.wait_event(self.handle, event.handle)

    def wait_stream(self, other: Stream, event: Event | None = None) -> None:
        """What comes next on this stream waits for all that is enqueued on the other one.  event: used for it."""
        self.wait_event(other.record_event(event))

    def synchronize(self) -> None:
        """The host waits for the stream."""
        with ScopedStream(self, sync_enter=False):
            self.device.synchronize()


class ScopedStream:
    """`with ScopedStream(stream):` its device is the current one, and works on this stream.

    sync_enter: it first waits for the stream that was the present one.  sync_exit: that one waits for it afterwards.
    None: nothing changes.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        self.stream, self._sync, self._sync_exit = stream, sync_enter, sync_exit

    def __enter__(self) -> Stream | None:
        if self.stream is None:
            return None
        device = self.stream.device
        self._device = ScopedDevice(device)
        self._device.__enter__()
        self._before = Stream.present(device)
        if self._sync:
            self.stream.wait_stream(self._before)
        device.stream = self.stream.handle
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is None:
            return
        self.stream.device.stream = self._before.handle
        self._device.__exit__(kind, error, trace)
        if self._sync_exit:
            self._before.wait_stream(self.stream)


def get_stream(device: DeviceLike = None) -> Stream:
    """The stream that a device is working on."""
    return Stream.present(get_device(device))


def set_stream(stream: Stream, device: DeviceLike = None, sync: bool = False) -> None:
    """From now on launches and copies on the stream's device go to it.  sync: it first waits for the present stream.

    Raises ValueError where `device` is another one than the stream's.
    """
    if device is not None and get_device(device) is not stream.device:
        raise ValueError(f"the stream is one of {stream.device}, not of {get_device(device)}")
    if sync:
        stream.wait_stream(Stream.present(stream.device))
    stream.device.stream = stream.handle


def wait_stream(other_stream: Stream, event: Event | None = None) -> None:
    """What is enqueued on the device next waits for `other_stream`.  event: used for it."""
    Stream.present(other_stream.device).wait_stream(other_stream, event)


def record_event(event: Event | None = None) -> Event:
    """Marks the present end of the stream of the event's device (None: a new event of the present one)."""
    return Stream.present(event.device if event is not None else get_device()).record_event(event)


def wait_event(event: Event) -> None:
    """What is enqueued on the present stream of the event's device next waits for the event."""
    Stream.present(event.device).wait_event(event)


def synchronize_device(device: DeviceLike = None) -> None:
    """The host waits for all that a device (None: the present one) has to do."""
    get_device(device).synchronize(everything=True)


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """The host waits for a stream, or for the present stream of a device."""
    stream = stream_or_device if isinstance(stream_or_device, Stream) else get_stream(stream_or_device)
    stream.synchronize()


def synchronize_event(event: Event) -> None:
    """The host waits until an event that was recorded has come to pass."""
    event.device.synchronize_event(event.handle)


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Milliseconds between two recorded events made with enable_timing=True; waits for the second.

    synchronize: for Warp's programs; there is no result before both have come to pass.
    """
    if not (start_event.timed and end_event.timed):
        raise ValueError("these events measure no time; make them with Event(enable_timing=True)")
    return start_event.device.elapsed(start_event.handle, end_event.handle)
