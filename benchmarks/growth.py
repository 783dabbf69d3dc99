"""How cost and memory grow: with the size of a cloth, and with the length of a rollout.

    python benchmarks/growth.py [--sizes 64,128,256] [--long 100000] [--json FILE]

The cloth of `cloth.py`, one thread, float32.  Memory is the peak resident size of a fresh process, above that of one
that only simulates.  `--long` is the number of substeps of a gradient on 32 x 32 points within 200 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHILD = """
import json, resource, sys, time
from pathlib import Path
sys.path.insert(0, FOLDER)
import sim
from cloth import DT, WANTED, Ours

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

sim.set_num_threads(1)
ours, steps, strategy = Ours(N), STEPS, STRATEGY
ours.forward(2)
base, found = peak(), {"constraints": ours.constraints}
for again in range(TIMES):
    start = time.process_time()
    with ours.model.gradients_of(WANTED):
        with sim.Tape() as tape:
            result = sim.rollout(ours.solver, ours.state, steps, DT, strategy=strategy)
        middle = time.process_time()
        kept = tape.bytes_kept
        tape.backward(grads={result.final.particle_q: ours.weights})
    end = time.process_time()
    if end - start < found.get("forward", 1e9) + found.get("backward", 0.0):
        found |= {"forward": middle - start, "backward": end - middle}
    tape.zero()
found |= {"peak": peak() - base, "kept": kept}
print(json.dumps(found))
"""


def child(n: int, steps: int, strategy: str, times: int) -> dict[str, Any]:
    """Figures of a gradient in a fresh process; the times of the last of several."""
    code = CHILD
    for name, value in {
        "FOLDER": repr(str(Path(__file__).parent)),
        "STEPS": steps,
        "STRATEGY": strategy,
        "TIMES": times,
        "(N)": f"({n})",
    }.items():
        code = code.replace(name, str(value))
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ.copy()
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="64,128,256", help="numbers of points along an edge")
    parser.add_argument("--long", type=int, default=100_000, help="substeps of the long rollout; 0: none")
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    figures: dict[str, Any] = {"growth": {}, "memory": {}}
    print(f"{'N':>6}{'constraints':>13}{'F+B stored, ns':>16}{'bytes per particle and substep':>32}")
    for n in map(int, args.sizes.split(",")):
        steps = max(4, min(100, 3_000_000 // (6 * n * n)))
        found = figures["growth"][n] = child(n, steps, "sim.StoreAll()", 8 if n < 512 else 3)
        cost = 1e9 * (found["forward"] + found["backward"]) / steps / found["constraints"]
        print(f"{n:6}{found['constraints']:13}{cost:16.2f}{found['kept'] / steps / n**2:32.1f}")
    print(f"\n{'gradient of 600 substeps':40}{'peak above base, MB':>20}")
    for n in (64, 128):
        found = figures["memory"][n] = child(n, 600, f'sim.Checkpointed(budget="{12 * n * n // 4096} MB")', 1)
        print(f"{f'N = {n}, checkpointed':40}{found['peak'] / 1e6:20.1f}")
    if args.long:
        start = time.perf_counter()
        stored = child(32, 500, "sim.StoreAll()", 8)
        found = figures["long"] = child(32, args.long, 'sim.Checkpointed(budget="200 MB")', 1)
        ratio = (found["forward"] + found["backward"]) / args.long / ((stored["forward"] + stored["backward"]) / 500)
        print(
            f"\n{args.long} substeps, N = 32, within 200 MB: {found['forward'] + found['backward']:.1f} s, {ratio:.2f}"
            f" of storing everything per substep, peak {found['peak'] / 1e6:.1f} MB above base"
            f" ({time.perf_counter() - start:.0f} s in all)"
        )
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
