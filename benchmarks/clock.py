"""What does it do to Young's modulus of `scenes/beam.yaml` that all its takes begin a frame too early or too late?

The starts of the fitted takes are shifted by whole frames, and the three parameters are searched from the start of the
scene on, with clocks that are sought (`align: {time: true}`) and without.  Of every shift it prints E with its standard
error, and how far E is from that of no shift in standard errors.

    python benchmarks/clock.py                              # -1, 0 and 1 frames of 10 ms, aligned: an hour
    python benchmarks/clock.py --align none --shifts -1,1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sim
from sim.identify.assess.likelihood import least_loss
from sim.identify.assess.uncertainty import assess
from sim.identify.losses.jacobian import linearise

SCENE = Path(__file__).parents[1] / "scenes" / "beam.yaml"
FPS = 100.0
STARTS = {"gravity_a": 0.707, "gravity_b": 0.65, "load52_a": 0.433}
"""Of the fitted takes [s], as the scene has them."""

ALIGN = {"none": {}, "time": {"time": True}, "both": {"time": True, "frame": True}}


def fit(shift: int, align: str) -> tuple[float, float, float]:
    """Loss, E [Pa] and its standard error [Pa] with all starts so many frames later."""
    overrides = {f"experiments.{name}.target.start": start + shift / FPS for name, start in STARTS.items()}
    overrides |= {f"experiments.{name}.target.align": ALIGN[align] for name in STARTS}
    whole = sim.load_scene(SCENE, overrides=overrides).build(dtype=sim.float64)
    problem = replace(whole, experiments=whole.fitted)
    x = least_loss(problem, problem.start)
    there = linearise(problem, x)
    known, value = assess(problem, there), problem.physical(x)["young"]
    loss = sum(part.loss for part in there.residuals)
    found = {name: problem.alignment(made) for name, made in problem.simulate(x).items()}
    clocks = ", ".join(f"{name} {1e3 * a.time:+.1f} ms" for name, a in found.items() if a is not None)
    print(f"shift {shift:+d} frames: loss {loss:.3f}, {problem.physical(x)}", flush=True)
    print(f"    E {value:.4g} +- {known.errors['young']:.2g} Pa{'; clocks ' if clocks else ''}{clocks}", flush=True)
    return loss, value, float(known.errors["young"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shifts", default="0,-1,1")
    parser.add_argument("--align", choices=tuple(ALIGN), default="time")
    given = parser.parse_args(arguments)
    found = [fit(int(shift), given.align) for shift in given.shifts.split(",")]
    _, first, error = found[0]
    for shift, (_, value, _) in zip(given.shifts.split(",")[1:], found[1:], strict=True):
        print(f"{shift} frames: {(value - first) / error:+.2f} standard errors from {given.shifts.split(',')[0]}")


if __name__ == "__main__":
    main()
