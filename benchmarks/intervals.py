"""How often do the 95 % intervals of a fit hold the truth, where clock and axes of every take are off?

A silicone beam of 100 mm, clamped at one end, is let go; six markers are seen for 0.6 s at 100 Hz with noise of 0.5 mm.
The clock of every take is off by up to two frames either way, its axes by up to 5 degrees about any axis and by up to
20 mm in any direction; clock and axes are sought together with Young's modulus and a damping time, from a start that is
30 % off.  Of every take it prints the seed, what was found and its standard errors; at the end, of each number: the
share of intervals that hold the truth, the median of the predicted standard errors over the spread of what was found.

    python benchmarks/intervals.py                            # 200 takes, some 2 s each
    python benchmarks/intervals.py --takes 50 --from 1000     # other seeds
    python benchmarks/intervals.py --known                    # clock and axes known: are standard errors right at all?
    python benchmarks/intervals.py --known --estimated        # the noise is not
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sim
from sim.identify.assess.rehearsal import TRUSTED, Lying, rehearse
from sim.identify.data.experiments import Experiment
from sim.identify.data.registration import Alignment
from sim.identify.problem import Problem

FRAMES, DEGREES, SHIFT = 2.0, 5.0, 0.02
"""How far a take may be off: frames of its clock, its axes [degrees, m]."""

TRUTH = {"young": 2e5, "damping": 5e-3}
START = 1.3
"""Factor on the truth at which every fit begins."""

SCENE = """
format: 2
name: coverage
world: {gravity: [-9.81, 0, 0]}
time: {duration: 0.6, fps: 100, substeps: 10}
solver: {xpbd: {iterations: 2, start: elastic, integrator: bdf2}}
objects:
  beam:
    soft:
      lattice: {size: [30 mm, 30 mm, 100 mm], cells: [2, 2, 5]}
      element: hexahedra
      density: 1070 kg/m^3
      material: {stvk: {young: 2e5, poisson: 0.4, damping: 5 ms}}
attachments:
  clamp: {on: beam, where: {z: [null, 0.1 mm]}}
markers:
  seen: {on: beam, farthest: 6}
experiments:
  take: {target: {file: take.npz, key: seen, rate: 100 Hz, start: frame 0, noise: NOISE, ALIGN}}
parameters:
  young: {of: objects.beam.soft.material.stvk.young, transform: log, bounds: [1e4, 1e7]}
  damping: {of: objects.beam.soft.material.stvk.damping, transform: log, bounds: [0.1 ms, 1]}
loss:
  - {match: seen}
"""


def problem_of(align: str, noise: str = "0.5 mm") -> Problem:
    """The beam, with a recording that only says which frames there are."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.savez(place / "take.npz", seen=np.random.default_rng(0).normal(0.05, 0.02, size=(61, 6, 3)))
        (place / "scene.yaml").write_text(SCENE.replace("ALIGN", align).replace("NOISE", noise))
        return sim.load_scene(place / "scene.yaml").build(dtype=sim.float64)


def off(e: Experiment, rng: np.random.Generator) -> Alignment | None:
    """How a take lies."""
    if e.registration is None:
        return None
    axis, way = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    return Alignment(
        rng.uniform(-FRAMES, FRAMES) / e.schedule.fps,
        math.radians(DEGREES) * rng.uniform() * axis,
        SHIFT * rng.uniform() * way,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--takes", type=int, default=200)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--estimated", action="store_true", help="the noise is found too, one number for each axis")
    given = parser.parse_args(arguments)
    align = "align: {}" if given.known else "align: {time: true, frame: true}"
    problem = problem_of(align, "{estimated: axes, guess: 0.5 mm}" if given.estimated else "0.5 mm")
    truth = problem.space.pack({name: np.array(value) for name, value in TRUTH.items()})
    begin = truth + math.log(START)
    draw: Lying = off
    estimates, errors = [], []
    for seed in range(given.first, given.first + given.takes):
        made = rehearse(problem, truth, 1, seed, lying=draw, begin=begin)
        if made.failed:
            print(f"seed {seed}: broke down", flush=True)
            continue
        away, error = made.estimates[0] - truth, made.errors[0]
        estimates.append(away)
        errors.append(error)
        words = [f"{name} {100 * a:+.2f} % +- {100 * e:.2f} %" for name, a, e in zip(TRUTH, away, error, strict=True)]
        inside = np.mean(np.abs(estimates) <= TRUSTED * np.array(errors), axis=0)
        print(f"seed {seed}: {', '.join(words)}; so far {' '.join(f'{x:.3f}' for x in inside)}", flush=True)
    found, known = np.array(estimates), np.array(errors)
    for k, name in enumerate(TRUTH):
        spread = found[:, k].std(ddof=1)
        print(
            f"{name}: {np.mean(np.abs(found[:, k]) <= TRUSTED * known[:, k]):.1%} of {len(found)} intervals hold the"
            f" truth; bias {found[:, k].mean() / spread:+.2f} spreads; predicted / spread"
            f" {np.median(known[:, k]) / spread:.3f}"
        )


if __name__ == "__main__":
    main()
