"""What does it do to Young's modulus of `scenes/beam.yaml` that all its takes begin a frame too early or too late?

The starts of the fitted takes are shifted by whole frames, and the three parameters are searched from the start of the
scene on, with clocks that are sought (`align: {time: true}`) and without; then once more from the optimum of the shift
with the least loss, because there may be several: the better one counts.  Of every shift it prints E with its standard
error, and how far E is from that of no shift in standard errors.

    python benchmarks/clock.py                              # -1, 0 and 1 frames of 10 ms, aligned: two minutes
    python benchmarks/clock.py --align none --shifts=0,-1,1
    python benchmarks/clock.py --takes gravity_a,gravity_b
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import sim
from sim.identify.assess.likelihood import least_loss
from sim.identify.assess.uncertainty import assess
from sim.identify.losses.jacobian import linearise
from sim.identify.problem import Problem

SCENE = Path(__file__).parents[1] / "scenes" / "beam.yaml"
FPS = 100.0
STARTS = {"gravity_a": 0.707, "gravity_b": 0.65, "load52_a": 0.433}
"""Of the fitted takes [s], as the scene has them."""

ALIGN = {"none": {}, "time": {"time": True}, "both": {"time": True, "frame": True}}


@dataclass(frozen=True, eq=False)
class Found:
    """The optimum of one shift: coordinates, loss, E [Pa] and its standard error [Pa]."""

    x: np.ndarray
    loss: float
    young: float
    error: float


def problem_of(shift: int, align: str, takes: Sequence[str]) -> Problem:
    """The chosen takes with all starts so many frames later."""
    overrides = {f"experiments.{name}.target.start": start + shift / FPS for name, start in STARTS.items()}
    overrides |= {f"experiments.{name}.target.align": ALIGN[align] for name in STARTS}
    whole = sim.load_scene(SCENE, overrides=overrides).build(dtype=sim.float64)
    return replace(whole, experiments=[e for e in whole.fitted if e.name in takes])


def fit(problem: Problem, shift: int, begin: np.ndarray) -> Found:
    """The optimum near `begin`."""
    there = linearise(problem, least_loss(problem, begin))
    x, known = there.x, assess(problem, there)
    loss, values = sum(part.loss for part in there.residuals), problem.physical(there.x)
    made = Found(x, loss, values["young"], float(known.errors["young"]))
    clocks = {name: problem.alignment(simulation) for name, simulation in problem.simulate(x).items()}
    words = ", ".join(f"{name} {1e3 * a.time:+.1f} ms" for name, a in clocks.items() if a is not None)
    print(f"shift {shift:+d} frames: loss {loss:.3f}, {values}", flush=True)
    print(f"    E {made.young:.4g} +- {made.error:.2g} Pa{'; clocks ' if words else ''}{words}", flush=True)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shifts", default="0,-1,1")
    parser.add_argument("--align", choices=tuple(ALIGN), default="time")
    parser.add_argument("--takes", default=",".join(STARTS), help="those that are fitted; default: all of the scene's")
    given = parser.parse_args(arguments)
    shifts = [int(word) for word in given.shifts.split(",")]
    problems = {shift: problem_of(shift, given.align, given.takes.split(",")) for shift in shifts}
    begun = {shift: fit(problem, shift, problem.start) for shift, problem in problems.items()}
    lowest = min(begun.values(), key=lambda f: f.loss)
    found = {}
    for shift, first in begun.items():
        again = first if first is lowest else fit(problems[shift], shift, lowest.x)
        found[shift] = min(first, again, key=lambda f: f.loss)
    base = found[shifts[0]]
    for shift in shifts[1:]:
        away = (found[shift].young - base.young) / base.error
        print(f"{shift:+d} frames: E {found[shift].young:.4g} Pa, {away:+.2f} standard errors from {shifts[0]}")


if __name__ == "__main__":
    main()
