"""Writes of others, through NumPy views or tensors, to memory that a tape takes gradients back through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.memory.buffer import Buffer, ByteRange


def content_of(buffer: Buffer, low: int = 0, high: int | None = None) -> np.ndarray:
    """The present bytes of a range, where the host can see them."""
    content: np.ndarray = buffer.device.numpy(ByteRange(buffer, low, high))
    return content


@dataclass(eq=False)
class ForeignWrites:
    """Finds them by comparing: `seen` has (version of the buffer, bytes) as the tape last saw them.

    Such a write is an operation that no tape records.  The gradient of what it has overwritten would flow on to
    whatever was there before.
    """

    seen: dict[Buffer, tuple[int, np.ndarray]] = field(default_factory=dict)

    def refuse(self, arrays: Iterable[array], operation: str) -> None:
        """Before an operation on these: raises GradientError where somebody else has written since the last look."""
        for a in arrays:
            buffer = a.buffer
            if not buffer.requires_grad or not buffer.shared:
                continue
            version, content = self.seen.get(buffer, (-1, None))
            if content is not None and np.array_equal(content, content_of(buffer)):
                self.seen[buffer] = buffer.version, content
                continue
            if content is not None and version == buffer.version:  # no write of ours explains the change
                raise GradientError(
                    f"an array of shape {a.shape} was written through NumPy or another library since this tape last saw"
                    f" it, before the {operation}: its gradient would be wrong",
                    hint="write with assign, fill_ or an indexed assignment, which the tape sees",
                )
            self._look(buffer)

    def look(self, arrays: Iterable[array]) -> None:
        """After an operation that has written these itself."""
        for a in arrays:
            if a.buffer.requires_grad and a.buffer.shared:
                self._look(a.buffer)

    def _look(self, buffer: Buffer) -> None:
        if capturing() is None:
            self.seen[buffer] = buffer.version, content_of(buffer).copy()
