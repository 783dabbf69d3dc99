"""The segments of a graph: captured by a device once, and again where work has been added."""

from __future__ import annotations

import numpy as np

from sim.core.backends.native import native
from sim.core.runtime.devices.base_device import Device
from sim.core.runtime.devices.segments import DeviceSegment, NativeSegment


class Recording(Device):
    """A device that keeps the actions of a capture, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__("test")
        self.asked: list[str] = []

    def captured(self, actions):
        self.asked.append(f"capture {len(actions)}")
        return list(actions)

    def replay(self, captured):
        self.asked.append("replay")
        for action in captured:
            action()


def test_a_device_captures_once_until_there_is_more_work():
    device, done = Recording(), []
    segment = DeviceSegment(device, [lambda: done.append(1)])
    segment.run()
    segment.run()
    segment.actions.append(lambda: done.append(2))
    segment.run()
    assert device.asked == ["capture 1", "replay", "replay", "capture 2", "replay"] and done == [1, 1, 1, 2]


def test_a_segment_has_actions_of_its_own():
    shared = [lambda: None]
    segment = DeviceSegment(Recording(), shared)
    segment.actions.append(lambda: None)
    assert len(shared) == 1


def test_rows_are_packed_again_when_there_are_more():
    a, b, c = (np.full(4, value, np.float32) for value in (1.0, 2.0, 3.0))

    def copy_row(to: np.ndarray, source: np.ndarray) -> NativeSegment:
        function, words, end = native().copy(to.ctypes.data, source.ctypes.data, to.nbytes)
        made = NativeSegment()
        made.add(function, np.array(words, np.int64).tobytes(), end, 0, ("copy", 2 * end), None)
        return made

    segment = copy_row(b, a)
    segment.run()
    assert (b == 1).all() and (c == 3).all()
    segment.extend(copy_row(c, b))
    b[:] = 5
    segment.run()
    assert (b == 1).all() and (c == 1).all(), "in order"
