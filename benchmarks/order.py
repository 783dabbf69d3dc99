"""What the order of points costs: the cloth of `cloth.py`, its points numbered row by row and at random, in turn.

    python benchmarks/order.py [--sizes 64,128,256] [--rounds 12] [--constraint-steps 8e6] [--json FILE]

One thread, float32, process time: forward, and the gradient with everything stored, of as many steps as make so many
projections.  "a step": the difference of that and of a quarter of the steps, without what a rollout costs once.
Ratios are medians of pairs that were taken one behind the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from cloth import Ours

import sim

WAYS = ("forward", "gradient")


def seconds(ours: Ours, steps: int) -> dict[str, float]:
    """Process time of each way."""
    start = time.process_time()
    ours.forward(steps)
    middle = time.process_time()
    return {"forward": middle - start, "gradient": sum(ours.gradient(steps, sim.StoreAll()))}


def measure(n: int, rounds: int, projections: float) -> dict[str, Any]:
    """Nanoseconds per constraint and step, and ratios of random order over rows."""
    cloths = {"rows": Ours(n), "random": Ours(n, at_random=True)}
    m = cloths["rows"].constraints
    steps = max(8, min(400, int(projections / m)))
    few = steps // 4
    taken: dict[str, list[dict[str, float]]] = {order: [] for order in cloths}
    for again in range(rounds + 1):
        for order, ours in cloths.items():
            short, long = seconds(ours, few), seconds(ours, steps)
            if again:  # the first one compiles and captures
                a_step = {f"a step, {way}": (long[way] - short[way]) / (steps - few) for way in WAYS}
                taken[order].append({way: long[way] / steps for way in WAYS} | a_step)
    out: dict[str, Any] = {"steps": steps, "constraints": m}
    for way in taken["rows"][0]:
        found = {order: [t[way] for t in times] for order, times in taken.items()}
        out[way] = {order: 1e9 * min(times) / m for order, times in found.items()}
        out[way]["ratio"] = statistics.median(b / a for a, b in zip(found["rows"], found["random"], strict=True))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="64,128,256", help="numbers of points along an edge")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--constraint-steps", type=float, default=8e6, help="constraints times steps of a rollout")
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    sim.set_num_threads(1)
    figures = {int(n): measure(int(n), args.rounds, args.constraint_steps) for n in args.sizes.split(",")}
    print(f"{'N':>5}{'steps':>7}  {'':18}{'rows, ns':>10}{'random, ns':>12}{'of minima':>11}{'of medians':>12}")
    for n, found in figures.items():
        for way, of in found.items():
            if isinstance(of, dict):
                ratios = f"{of['random'] / of['rows']:11.3f}{of['ratio']:12.3f}"
                print(f"{n:5}{found['steps']:7}  {way:18}{of['rows']:10.2f}{of['random']:12.2f}{ratios}")
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
