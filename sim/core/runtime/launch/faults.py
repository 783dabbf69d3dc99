"""From the error record that threads write when they stop to an exception: what, where, and in which thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.backends.base import ASSERT_FAILED, Executable
from sim.core.lang.errors import GradientError, SimError
from sim.core.runtime.compiled.compiled import Compiled


class KernelFault(SimError):
    """A kernel stopped itself: a failed `assert`, or an access outside of an array in checked mode."""


def raise_fault(compiled: Compiled, executable: Executable, fault: np.ndarray, dims: tuple[int, ...]) -> None:
    site = executable.sites[int(fault[2])]
    thread: Any = tuple(int(i) for i in np.unravel_index(int(fault[3]), dims))
    thread = thread[0] if len(thread) == 1 else thread
    where = f"{site.span}: " if site.span else ""
    if site.derivative:
        raise GradientError(f"{site.text} (in thread {thread} of '{compiled.name}')", site.span)
    if fault[1] == ASSERT_FAILED:
        what = f"assertion failed{': ' + site.text if site.text else ''}"
    else:
        index, bound = int(fault[4]), int(fault[5])
        what = f"index {index} is outside of " + (
            f"'{site.text}' (length {bound})" if site.text else f"0 .. {bound - 1}"
        )
    excerpt = f"\n{site.span.excerpt()}" if site.span and site.span.text else ""
    raise KernelFault(f"{where}{what}, in thread {thread} of kernel '{compiled.name}'{excerpt}")
