"""Gradients that are wanted of content which a recorded operation has overwritten, or written: `array.retain_grad`.

On the way back, the gradient of what an operation has written is taken and cleared.  So it is copied before the first
operation, seen from the end, that has written to the memory, and put back when all is done.
"""

from __future__ import annotations

from functools import partial

from sim.core.runtime.devices.graph import add_node
from sim.core.runtime.memory.buffer import Buffer, duplicate, refill, retaining
from sim.core.runtime.tape.records import TapeRecord


class RetainedGradients:
    """Those of one sweep."""

    def __init__(self) -> None:
        self._seen: set[Buffer] = set()
        self._kept: dict[Buffer, Buffer] = {}

    def before(self, record: TapeRecord) -> None:
        """A record is about to take gradients back."""
        if not retaining:
            return
        for view in record.writes:
            if view.buffer in retaining and view.buffer not in self._seen and view.requires_grad:
                self._seen.add(view.buffer)
                add_node(partial(self._keep, view.buffer.make_gradient()))

    def _keep(self, gradient: Buffer) -> None:
        self._kept[gradient] = duplicate(gradient)

    def put_back(self) -> None:
        """The sweep is over."""
        for gradient, content in self._kept.items():
            refill(gradient, content)
