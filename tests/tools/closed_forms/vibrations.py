"""Rods, cables and strings that vibrate: frequencies and decay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import j0, j1

import sim
from tools.closed_forms.case import Figure, G, Watched, case, compared, extrapolated
from tools.closed_forms.rods import line

BESSEL = 2.404825557695773
"""The first zero of J0."""
FIRST_MODE = 1.875104068711961
"""cos b cosh b = -1."""


def moving(model: sim.Model, first: int, velocity: np.ndarray, spin: np.ndarray) -> sim.State:
    """A state in which bodies from `first` on have velocities and spins (n, 3)."""
    state = model.state()
    speeds = state.body_qd.numpy()
    speeds[first : first + len(velocity)] = np.concatenate([velocity, spin], axis=1)
    state.body_qd.assign(speeds)
    return state


def half_period(
    solver: sim.Solver, state: sim.State, seen: Callable[[np.ndarray], float], omega: float, steps: int, *paths: str
) -> tuple[float, list[float]]:
    """The angular frequency by the first passage after the start, and its derivatives by material values."""
    run = Watched(solver, round(1.1 * steps), np.pi / omega / steps, state=state)
    half = run.passage(seen)
    return np.pi / half.value, [-np.pi / half.value**2 * float(by.sum()) for by in run.by(half, *paths)]


# ------------------------------------------------------------------------------------------ rods
ROD = {"E": 1e7, "rho": 1000.0, "r": 0.01}
POISSON = 0.3


def clamped(n: int, damping: float = 0.0) -> sim.Model:
    """A rod of 1 m along x, clamped at its start."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_rod(
        line(n),
        radius=ROD["r"],
        density=ROD["rho"],
        young=ROD["E"],
        poisson=POISSON,
        damping=damping,
        clamp_start=-1,
        label="rod",
    )
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def bending(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Displacement along y and angle about z of segments (n, 3) in the first mode of a cantilever of length 1."""
    s, b = FIRST_MODE * (np.arange(n) + 0.5) / n, FIRST_MODE
    ratio = (np.cosh(b) + np.cos(b)) / (np.sinh(b) + np.sin(b))
    shape = np.cosh(s) - np.cos(s) - ratio * (np.sinh(s) - np.sin(s))
    angle = b * (np.sinh(s) + np.sin(s) - ratio * (np.cosh(s) - np.cos(s)))
    none = 0 * s
    return np.stack([none, shape, none], axis=1), np.stack([none, none, angle], axis=1)


def bending_frequency(E: float, rho: float, r: float) -> float:
    return float(FIRST_MODE**2 * np.sqrt(E * r * r / (4 * rho)))


@case(
    "bending",
    "A cantilever of 1 m swings in its first mode: 1.8751^2 sqrt(E I / (rho A L^4))",
    "20 segments, 400 steps a period",
    2e-3,
    3e-3,
)
def bending_mode() -> list[Figure]:
    n, model = 20, clamped(20)
    state = moving(model, 0, *(1e-4 * part for part in bending(n)))
    solver = sim.SolverXPBD(model, direct=["rod"])
    paths = "rod.young", "rod.density", "rod.radius"
    omega, by = half_period(solver, state, lambda frame: frame[-1, 1], bending_frequency(**ROD), 200, *paths)
    return compared("omega", bending_frequency, ROD, omega, dict(zip(ROD, by, strict=True)))


@case(
    "decay",
    "Its swing with a damping of 30 ms: the logarithm of the ratio of extremes half a period apart, by"
    " zeta = omega damping / 2",
    "10 segments, 200 and 400 steps a period, extrapolated",
    1e-2,
    1e-2,
    slow=True,
)
def decaying_mode() -> list[Figure]:
    """The step's own damping acts as if `damping` were longer by h: extrapolated away."""
    return extrapolated(decay, 2 * np.pi / bending_frequency(**ROD) / 200)


def decay(h: float) -> list[Figure]:
    at, n = {"damping": 0.03, "E": ROD["E"]}, 10

    def exact(damping: float, E: float) -> float:
        zeta = 0.5 * bending_frequency(**{**ROD, "E": E}) * damping
        return float(np.pi * zeta / np.sqrt(1 - zeta**2))

    model = clamped(n, at["damping"])
    state = moving(model, 0, *(1e-4 * part for part in bending(n)))
    omega = bending_frequency(**ROD)
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), round(1.7 * np.pi / omega / h), h, state=state)
    ends = [run.extreme(lambda frame: frame[-1, 1], number)[1] for number in (0, 1)]
    fall = ends[0].log() - ends[1].log()
    damping, young = run.by(fall, "rod.damping", "rod.young")
    return compared("decrement", exact, at, fall.value, {"damping": damping[0], "E": young[0]})


@case(
    "stretching",
    "The same rod along itself, by the speed of sound: pi / 2 sqrt(E / rho)",
    "20 segments, 400 steps a period",
    1e-3,
    2e-3,
    slow=True,
)
def stretching_mode() -> list[Figure]:
    n, model = 20, clamped(20)
    shape = np.sin(0.5 * np.pi * (np.arange(n) + 0.5) / n)[:, None] * np.array([1.0, 0, 0])

    def exact(E: float, rho: float) -> float:
        return float(0.5 * np.pi * np.sqrt(E / rho))

    at = {"E": ROD["E"], "rho": ROD["rho"]}
    solver, x0 = sim.SolverXPBD(model, direct=["rod"]), model.body_q.numpy()[-1, 0]
    omega, by = half_period(
        solver,
        moving(model, 0, 1e-2 * shape, 0 * shape),
        lambda frame: frame[-1, 0] - x0,
        exact(**at),
        200,
        "rod.young",
        "rod.density",
    )
    return compared("omega", exact, at, omega, dict(zip(at, by, strict=True)))


@case(
    "torsion pendulum",
    "A disk of I = 2e-4 kg m^2 turns at the end of a wire of 1 m, r 10 mm:"
    " beta tan(beta) = rho J L / I, omega = beta / L sqrt(G / rho)",
    "20 segments, 400 steps a period",
    1e-3,
    2e-3,
    slow=True,
)
def torsion_pendulum() -> list[Figure]:
    at, n = {**ROD, "inertia": 2e-4}, 20

    def exact(E: float, rho: float, r: float, inertia: float) -> float:
        share = rho * np.pi * r**4 / 2 / inertia
        beta = brentq(lambda b: b * np.tan(b) - share, 1e-6, 1.5, xtol=1e-15)
        return float(beta * np.sqrt(E / (2 * (1 + POISSON)) / rho))

    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    disk = builder.add_body((1, 0, 0), 1.0, (at["inertia"], at["inertia"], at["inertia"]), label="disk")
    builder.add_rod(
        line(n),
        radius=at["r"],
        density=at["rho"],
        young=at["E"],
        poisson=POISSON,
        clamp_start=-1,
        clamp_end=disk,
        label="wire",
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    beta = exact(**at) / np.sqrt(at["E"] / (2 * (1 + POISSON)) / at["rho"])
    turn = np.append(np.sin(beta), np.sin(beta * (np.arange(n) + 0.5) / n))  # the disk is the first body
    spin = 0.1 * turn[:, None] * np.array([1.0, 0, 0])
    solver = sim.SolverXPBD(model, direct=["wire"])
    run = Watched(solver, 220, np.pi / exact(**at) / 200, state=moving(model, disk, 0 * spin, spin))
    half = run.passage(lambda frame: frame[disk, 3])
    young, rho, r, moments = run.by(half, "wire.young", "wire.density", "wire.radius", "disk.inertia")
    factor = -np.pi / half.value**2
    found = {"E": factor * young[0], "rho": factor * rho[0], "r": factor * r[0], "inertia": factor * moments[0, 0]}
    return compared("omega", exact, at, np.pi / half.value, found)


# ------------------------------------------------------------------------------------------ cables and strings
@case(
    "hanging chain",
    "A cable of 1 m hangs from one end and swings in its first mode (D. Bernoulli): omega = 1.2024 sqrt(g / L)",
    "40 segments, 800 steps a period, direct",
    1e-3,
    2e-3,
    slow=True,
)
def swinging_cable() -> list[Figure]:
    n, soft = 40, 1e-9
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    down = line(n)[:, [1, 0, 2]] * [1, -1, 1]
    cable = builder.add_rod(
        down,
        radius=0.003,
        density=1000.0,
        label="cable",
        stiffness={"stretch": np.inf, "torsion": soft, "bend_2": soft, "bend_3": soft},
    )
    builder.add_joint_ball(-1, cable.start, (0, 0, 0), (-0.5 / n, 0, 0), label="end")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    s = 1 - (np.arange(n) + 0.5) / n  # from the free end
    argument = BESSEL * np.sqrt(s)
    shape = np.stack([j0(argument), 0 * s, 0 * s], axis=1)
    tilt = np.stack([0 * s, 0 * s, 0.5 * BESSEL / np.sqrt(s) * j1(argument)], axis=1)

    def exact(g: float) -> float:
        return float(0.5 * BESSEL * np.sqrt(g))

    run = Watched(
        sim.SolverXPBD(model, direct=["cable", "end"]),
        440,
        np.pi / exact(G) / 400,
        state=moving(model, 0, 1e-3 * shape, 1e-3 * tilt),
    )
    half = run.passage(lambda frame: frame[-1, 0])
    factor = -np.pi / half.value**2
    return compared("omega", exact, {"g": G}, np.pi / half.value, {"g": -factor * run.by(half, "gravity")[0][0, 1]})


@case(
    "string",
    "A string of particles, 1 m, 10 g, stretched by 10 %, in its first mode: pi sqrt(T / (m L))",
    "40 links, 400 steps a period, direct",
    1e-3,
    2e-3,
    slow=True,
)
def plucked_string() -> list[Figure]:
    n, mass, rest = 40, 0.01, 1 / 1.1
    at = {"alpha": 1e-3, "rest": rest / n}
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    points = builder.add_particles(line(n), mass=[0.0] + [mass / n] * (n - 1) + [0.0], label="string").points
    pairs = np.stack([points[:-1], points[1:]], axis=1)
    builder.add_constraints("distance", pairs, compliance=at["alpha"], rest=at["rest"], label="links")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)

    def exact(alpha: float, rest: float) -> float:
        """Of n links with n - 1 masses: 2 sin(pi / 2 n) / (pi / n) of the continuous one's."""
        return float(2 * n * np.sin(np.pi / (2 * n)) * np.sqrt((1 / n - rest) / alpha / mass))

    state = model.state()
    speeds = np.zeros((n + 1, 3))
    speeds[:, 1] = 1e-3 * np.sin(np.pi * np.arange(n + 1) / n)
    state.particle_qd.assign(speeds)
    run = Watched(sim.SolverXPBD(model, direct=["links"]), 220, np.pi / exact(**at) / 200, "particle_q", state=state)
    half = run.passage(lambda frame: frame[n // 2, 1])
    alpha, by_rest = run.by(half, "links.compliance", "links.rest")
    factor = -np.pi / half.value**2
    found = {"alpha": factor * alpha.sum(), "rest": factor * by_rest.sum()}
    return compared("omega", exact, at, np.pi / half.value, found)
