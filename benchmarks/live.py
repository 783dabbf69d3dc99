"""What `simopt run --live` costs a run, and how soon it shows something.

The same search runs with and without the page, in turns, each in a process of its own; a client asks for what is new
twice a second, as a browser does.  Of each pair the processor time (user + system) of the runs is compared, so that
other work on the machine counts little; so is the time from the command to the first frame on the page.  On a machine
that is not idle runs differ by some percent all the same: what the threads of the page take, whatever the run does, is
told beside it.  (Copies for the page are made by the run itself: with their encoding, `SHARE` of it in
sim/cli/terminal/page.py.)

    python benchmarks/live.py                                  # scenes/cloth.yaml, 6 iterations, 7 pairs
    python benchmarks/live.py --scene scenes/beam.yaml --pairs 5 --iterations 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASK = 0.5
"""As often as the page asks [s]."""
CODE = """
import sys, time
from sim.cli import main
status = main()
print(f"{time.process_time() - time.thread_time():.3f}", file=sys.stderr)
sys.exit(status)
"""
COMMAND = [sys.executable, "-c", CODE, "run"]


def run(scene: Path, iterations: int, live: bool, out: Path) -> tuple[float, float, tuple[float, float], int]:
    """Processor time of a run, and of its threads but the first [s]; seconds to the first frame, by the clock and of
    processor time; how many states with motion were fetched."""
    begun = time.perf_counter()
    line = [*COMMAND, str(scene), "--iterations", str(iterations), "--out", str(out), *["--live"] * live]
    alone = {**os.environ, "SIM_NUM_THREADS": "1"}  # what other threads do is then the page's
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(line, cwd=ROOT, env=alone, **pipes)
    first, frames = (float("nan"), float("nan")), 0
    if live:
        assert process.stderr is not None
        url, version = process.stderr.readline().split()[1], 0
        while process.poll() is None:
            try:
                with urllib.request.urlopen(f"{url}state?since={version}", timeout=10) as answer:
                    state = json.loads(answer.read() or "{}")
                if state.get("ended"):
                    urllib.request.urlopen(f"{url}report", timeout=10).read()
                    break
            except (urllib.error.URLError, ConnectionError):
                break
            version = state.get("version", version)
            if state.get("takes"):
                first = first if frames else (time.perf_counter() - begun, processor_time(process.pid))
                frames += 1
            time.sleep(ASK)
    assert process.stderr is not None
    threads = float(process.stderr.read().split()[-1])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, threads, first, frames


def processor_time(pid: int) -> float:
    """Of a process so far, user and system [s]; Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, default=ROOT / "scenes/cloth.yaml")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args(arguments)
    ratios, served, firsts, least = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        run(given.scene, given.iterations, False, Path(folder) / "warm")  # compiles what is not compiled yet
        for k in range(given.pairs):
            made = {}
            for live in (False, True) if k % 2 else (True, False):
                made[live] = run(given.scene, given.iterations, live, Path(folder) / f"{k}{live}")
            (without, idle, _, _), (shown, threads, first, frames) = made[False], made[True]
            served.append((threads - idle) / without)
            ratios.append(shown / without)
            firsts.append(first)
            more, page = 100.0 * (ratios[-1] - 1.0), 100.0 * served[-1]
            print(f"{without:.2f} s, live {shown:.2f} s: {more:+.1f} %, threads of the page {page:.1f} %; first frame"
                  f" after {first[0]:.2f} s, {first[1]:.2f} s of its time; {frames} states", flush=True)  # fmt: skip
            least.append((without, shown))
    without, shown = (min(pair[k] for pair in least) for k in range(2))
    median = statistics.median
    print(f"processor time: median of pairs {100 * (median(ratios) - 1):+.1f} %, least of each"
          f" {100 * (shown / without - 1):+.1f} %, threads of the page {100 * median(served):.1f} %")  # fmt: skip
    print(f"first frame after {min(f[0] for f in firsts):.2f} s at best, {median(f[0] for f in firsts):.2f} s (median),"
          f" {median(f[1] for f in firsts):.2f} s of processor time")  # fmt: skip


if __name__ == "__main__":
    main()
