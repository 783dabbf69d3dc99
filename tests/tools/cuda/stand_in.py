"""What tests by the stand-in of a GPU share: what its driver was told, and small kernels."""

from __future__ import annotations

import gc

import sim
from sim.core.runtime.devices.cuda_device import CudaDevice


def told(gpu: CudaDevice, *kinds: str) -> list[tuple]:
    """What the driver was told, of these kinds; forgets it."""
    gc.collect(1)  # of what a test has made; all that others have left takes seconds to look at
    found = [c for c in gpu.driver.calls if not kinds or c[0] in kinds]
    gpu.driver.calls.clear()
    return found


@sim.kernel
def double(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = 2.0 * x[i]


@sim.kernel
def squares(x: sim.array[float], out: sim.array[float]):
    i = sim.tid()
    out[0] += x[i] * x[i]
