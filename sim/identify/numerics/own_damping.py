"""How much of an identified damping is the integrator's own.

A solver adds to a vibration of angular frequency omega a damping time t(omega, h) of its own (`Solver.damping_time`),
as if the material had it besides: the damping ratio omega t / 2.  For implicit Euler t is about h at any frequency, so
that a damping time that is sought comes out too small by h; for BDF2 it is about h (h omega)^2 / 2.

omega is measured: where the spectrum of the kinetic energy of the free points has its peak, from velocities between
frames, under a Hann window, by a parabola through the logarithms about the peak (F. J. Harris, "On the Use of Windows
for Harmonic Analysis with the Discrete Fourier Transform", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.identify.data.experiments import Simulation
from sim.identify.parameters.parameters import Parameter
from sim.identify.problem import Problem

DAMPING = ("damping", "time", "yield", "relaxing")
"""Material values that damp, by the last word of their paths; and the stiffness of branches."""
MOST_POINTS, PADDING = 2000, 4
"""Points whose spectrum is taken, at most; how many times as finely as the window resolves."""


@dataclass(frozen=True)
class OwnDamping:
    """What the integrator adds in one experiment.

    frequency: of the motion [Hz], nan where it makes no full swing; time: the damping time that does the same [s];
    ratio: the damping ratio, nan without a frequency.
    """

    experiment: str
    frequency: float
    time: float
    ratio: float


def own_damping(problem: Problem, simulations: Mapping[str, Simulation]) -> OwnDamping | None:
    """The largest that the solver adds to one of the fitted experiments; None where nothing is fitted."""
    found = []
    for e in problem.fitted:
        if e.name not in simulations:
            continue
        frequency = main_frequency(problem, simulations[e.name])
        omega = 2.0 * np.pi * frequency if np.isfinite(frequency) else 0.0
        time = problem.solver.damping_time(omega, e.schedule.dt)
        found.append(OwnDamping(e.name, frequency, time, 0.5 * omega * time if omega else np.nan))
    return max(found, key=lambda own: own.time, default=None)


def main_frequency(problem: Problem, simulation: Simulation) -> float:
    """The frequency [Hz] at which the free points of an experiment have most of their kinetic energy.

    nan where that is no full swing within the experiment.
    """
    mass, free = problem.model.particle_mass.numpy(), np.flatnonzero(problem.model.particle_inv_mass.numpy() > 0)
    free = free[:: -(-len(free) // MOST_POINTS)] if len(free) else free
    x = np.concatenate([simulation.start[None, free], simulation.positions[:, free]])
    v = np.diff(x, axis=0) * simulation.experiment.schedule.fps
    frames = len(v)
    if frames < 4:
        return np.nan
    window = np.hanning(frames + 2)[1:-1, None, None]
    spectrum = np.fft.rfft(window * (v - v.mean(axis=0)), n=PADDING * frames, axis=0)
    power = np.einsum("fpa,p->f", np.abs(spectrum) ** 2, mass[free])
    k = int(np.argmax(power))
    if k < PADDING or k + 1 >= len(power) or power[k] == 0.0:
        return np.nan
    below, at, above = np.log(np.maximum(power[k - 1 : k + 2], 1e-300))
    shift = 0.5 * (below - above) / (below - 2.0 * at + above) if below + above < 2.0 * at else 0.0
    return float((k + shift) * simulation.experiment.schedule.fps / (PADDING * frames))


def damps(parameter: Parameter) -> bool:
    """Whether a parameter is a damping: what the integrator's own adds to."""
    for binding in parameter.bindings:
        words = binding.path.split(".")
        if words[-1] in DAMPING or (words[-1] == "stiffness" and "branches" in words):
            return True
    return False


def own_damping_line(parameter: Parameter, value: np.ndarray, own: OwnDamping) -> str:
    """`integrator's own damping 0.83 ms (17 %), ratio 0.0033 at 1.3 Hz`; the share for damping times alone."""
    is_time = all(b.path.endswith(".damping") for b in parameter.bindings)
    least = float(np.min(np.abs(value)))
    share = f" ({100 * own.time / least:.2g} %)" if is_time and least > 0.0 else ""
    swing = f", ratio {own.ratio:.2g} at {own.frequency:.3g} Hz" if np.isfinite(own.frequency) else ""
    return f"integrator's own damping {1e3 * own.time:.3g} ms{share}{swing}"
