"""What the adjoint of a loop costs, over the loop: kernels whose threads overwrite in a loop what they read there.

    python benchmarks/loops.py [--trips 10000] [--threads 8]

One warm launch of every kernel, and its adjoint through a tape, float32; least process time of many repeats.  Rows of
`trips` numbers, one per thread: what a launch itself costs does not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import sim

f32 = sim.float32


@sim.kernel
def recurrence(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n):
        y[i, k] = y[i, k] * 0.5 + sim.sin(y[i, k - 1])


@sim.kernel
def cheap_recurrence(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n):
        y[i, k] = y[i, k] * 0.5 + 0.3 * y[i, k - 1] * y[i, k - 1]


@sim.kernel
def sweep(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n - 1):
        y[i, k] = 0.3 * (y[i, k - 1] + y[i, k + 1]) + 0.3 * y[i, k] ** 2


@sim.kernel
def ten_sweeps(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for _ in range(10):
        for k in range(1, n // 10 - 1):
            y[i, k] = 0.3 * (y[i, k - 1] + y[i, k + 1]) + 0.3 * y[i, k] ** 2


@sim.kernel
def two_stores(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n):
        y[i, k] = 0.5 * y[i, k] * y[i, k - 1] + 0.2
        y[i, k - 1] = y[i, k - 1] * y[i, k] + 0.1


@sim.kernel
def one_element(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for _ in range(n):
        y[i, 0] = y[i, 0] + 0.0001 * y[i, 0] * y[i, 0]


@sim.kernel
def a_local_too(y: sim.array2d[f32], n: int):
    i = sim.tid()
    s = f32(0.5)
    for k in range(n):
        s = s * 0.9 + y[i, k] * s * 0.1
        y[i, k] = s


@sim.kernel
def where_it_is_large(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n - 1):
        v = 0.3 * (y[i, k - 1] + y[i, k + 1]) + 0.3 * y[i, k] * y[i, k]
        if v > 0.2:
            y[i, k] = v


@sim.kernel
def until_it_is_large(y: sim.array2d[f32], n: int):
    i = sim.tid()
    for k in range(1, n - 1):
        y[i, k] = 0.3 * (y[i, k - 1] + y[i, k + 1]) + 0.3 * y[i, k] * y[i, k]
        if y[i, k] > 100.0:
            break


@sim.kernel
def anywhere_in_the_row(y: sim.array2d[f32], n: int):
    i = sim.tid()
    j = 0
    for k in range(1, n - 1):
        j = (j * 5 + 3) % n
        y[i, j] = y[i, k] * y[i, j] * 0.3


KERNELS = (
    recurrence,
    cheap_recurrence,
    sweep,
    ten_sweeps,
    two_stores,
    one_element,
    a_local_too,
    where_it_is_large,
    until_it_is_large,
    anywhere_in_the_row,
)


def least(repeats: int, prepare: Callable[[], Callable[[], None]]) -> float:
    """The least process time [s] of what `prepare` returns."""
    found = []
    for _ in range(repeats):
        run = prepare()
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


def measure(kernel: sim.Kernel, threads: int, trips: int) -> tuple[float, float]:
    """Times [s] of the launch and of its adjoint."""
    start = (0.5 * np.random.default_rng(0).random((threads, trips))).astype(np.float32)
    weights = sim.array(np.ones_like(start))

    def forward() -> Callable[[], None]:
        y = sim.array(start)
        return lambda: sim.launch(kernel, threads, inputs=[y, trips])

    def backward() -> Callable[[], None]:
        y = sim.array(start, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(kernel, threads, inputs=[y, trips])
        return lambda: tape.backward(grads={y: weights})

    return least(12, forward), least(8, backward)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trips", type=int, default=10000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    print(f"{'ns per trip':24} {'forward':>8} {'adjoint':>8} {'ratio':>6}")
    for kernel in KERNELS:
        forward, backward = measure(kernel, options.threads, options.trips)
        scale = 1e9 / (options.threads * options.trips)
        print(f"{kernel.name:24} {forward * scale:8.2f} {backward * scale:8.2f} {backward / forward:6.1f}", flush=True)


if __name__ == "__main__":
    main()
