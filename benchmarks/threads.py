"""What a second thread brings: forward and backward of the cloth of `cloth.py`, wall time with one and several in turn.

    python benchmarks/threads.py [--size 128] [--threads 2] [--rounds 16] [--busy N]

--busy: processes that keep cores busy at the same time.  The best rounds tell what free cores give, the medians what a
shared machine does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from cloth import Ours

import sim


def seconds(ours: Ours, steps: int) -> float:
    """Wall time of a gradient."""
    start = time.perf_counter()
    ours.gradient(steps, sim.StoreAll())
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("size", 128), ("threads", 2), ("rounds", 16), ("busy", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    ours = Ours(args.size)
    steps = max(10, int(3e6 / ours.constraints))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
    times: dict[int, list[float]] = {1: [], args.threads: []}
    try:
        for _ in range(args.rounds):
            for count, found in times.items():
                sim.set_num_threads(count)
                seconds(ours, steps)
                found.append(seconds(ours, steps))
    finally:
        for other in others:
            other.kill()
    for what, of in (("best rounds", min), ("medians", statistics.median)):
        one, several = of(times[1]), of(times[args.threads])
        print(
            f"{what}: one thread {1e3 * one:.1f} ms, {args.threads} threads {1e3 * several:.1f} ms: {one / several:.2f}"
            " times as fast"
        )


if __name__ == "__main__":
    main()
