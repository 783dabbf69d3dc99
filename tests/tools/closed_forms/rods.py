"""Straight rods that are bent, at rest: found by letting them come to rest with the direct solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import sim
from tools.closed_forms.case import Figure, G, Watched, case, compared

YOUNG, POISSON, RADIUS = 1e7, 0.3, 0.002
STIFFNESS = YOUNG * np.pi * RADIUS**4 / 4
"""[N m^2]: E I."""


def line(n: int, length: float = 1.0) -> np.ndarray:
    """n + 1 points along x."""
    return np.stack([np.linspace(0, length, n + 1), np.zeros(n + 1), np.zeros(n + 1)], axis=1)


def welded(
    points: np.ndarray, mass: float = 1.0, inertia: float = 0.01, at: Any = None, **rod: Any
) -> tuple[sim.Model, int]:
    """A rod, `rod`, that is clamped in the world, with a body (at: not there, but rigidly) welded to its end; and the
    number of that."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    tip = builder.add_body(points[-1] if at is None else at, mass, inertia, label="tip")
    given = {"radius": RADIUS, "density": 1000.0, **rod}
    if "stiffness" not in given:
        given = {"young": YOUNG, "poisson": POISSON, **given}
    builder.add_rod(points, clamp_start=-1, clamp_end=tip, label="rod", **given)
    return builder.finalize(dtype=sim.float64, requires_grad=True), tip


def pushed(model: sim.Model, body: int, force: tuple[float, float, float]) -> sim.State:
    """A state in which a force acts on a body."""
    state, wrench = model.state(), np.zeros((model.body_count, 6))
    wrench[body, :3] = force
    state.body_f.assign(wrench)
    return state


# ------------------------------------------------------------------------------------------ bending
def elastica(load: float) -> tuple[float, float, float]:
    """x, y and angle of the end of a cantilever of length 1 for F L^2 / E I = load: theta'' = -load cos(theta)."""

    def end(curvature: float) -> np.ndarray:
        def rates(_: float, s: np.ndarray) -> list[float]:
            return [np.cos(s[2]), np.sin(s[2]), s[3], -load * np.cos(s[2])]

        return solve_ivp(rates, (0, 1), [0, 0, 0, curvature], method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]

    curvature = brentq(lambda c: end(c)[3], 0.0, min(load, 2 * np.sqrt(load)), xtol=1e-14)
    x, y, angle, _ = end(curvature)
    return float(x), float(y), float(angle)


def loaded_rod(n: int, load: float) -> list[Figure]:
    """A clamped rod with a small body welded to its end, and a force down on that."""
    force, (model, tip) = load * STIFFNESS, welded(line(n))
    h = 0.5 / np.sqrt(3 * STIFFNESS)  # half a radian of the lowest oscillation, which implicit Euler damps
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 200, h, every=200, state=pushed(model, tip, (0, -force, 0)))
    figures = []
    sees: dict[str, Callable[[np.ndarray], float]] = {
        "x": lambda frame: frame[tip, 0],
        "y": lambda frame: -frame[tip, 1],
        "theta": lambda frame: -2 * np.arctan2(frame[tip, 5], frame[tip, 6]),
    }
    for k, (name, seen) in enumerate(sees.items()):
        reading = run.last(seen)
        young, radius, push = run.by(reading, "rod.young", "rod.radius", "state.body_f")

        def exact(E: float, r: float, F: float, k: int = k) -> float:
            return elastica(F / (E * np.pi * r**4 / 4))[k]

        found = {"E": young[0], "r": radius[0], "F": -push[tip, 1]}
        figures += compared(name, exact, {"E": YOUNG, "r": RADIUS, "F": force}, reading.value, found)
    return figures


@case(
    "D1",
    "A cantilever with a load at its end, F L^2 / E I = 1 (Euler's elastica)",
    "40 segments",
    1e-3,
    2e-3,
    slow=True,
)
def cantilever() -> list[Figure]:
    return loaded_rod(40, 1.0)


@case("D1, 5", "The same, F L^2 / E I = 5", "40 segments", 1e-3, 3e-3, slow=True)
def bent_cantilever() -> list[Figure]:
    return loaded_rod(40, 5.0)


def sag(load: float) -> tuple[float, float, float]:
    """x, y and angle of the end of a cantilever of length 1 under its weight, w L^3 / E I = load."""

    def end(curvature: float) -> np.ndarray:
        def rates(s: float, y: np.ndarray) -> list[float]:
            return [np.cos(y[2]), np.sin(y[2]), y[3], -load * (1 - s) * np.cos(y[2])]

        return solve_ivp(rates, (0, 1), [0, 0, 0, curvature], method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]

    curvature = brentq(lambda c: end(c)[3], 0.0, load / 2, xtol=1e-14)
    x, y, angle, _ = end(curvature)
    return float(x), float(y), float(angle)


@case(
    "D2",
    "A cantilever under its weight, w L^3 / E I = 4",
    "40 segments",
    1e-3,
    2e-3,
    slow=True,
)
def heavy_cantilever() -> list[Figure]:
    n, density, radius = 40, 1000.0, 0.005
    bend = density * np.pi * radius**2 * G / 4
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_rod(
        line(n),
        radius=radius,
        density=density,
        clamp_start=-1,
        label="rod",
        stiffness={"stretch": np.inf, "torsion": bend, "bend_2": bend, "bend_3": bend},
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 120, 0.3, every=120)

    def angle(frame: np.ndarray) -> float:
        return float(-2 * np.arctan2(frame[-1, 5], frame[-1, 6]))

    figures = []
    sees: dict[str, Callable[[np.ndarray], float]] = {
        "x": lambda frame: float(frame[-1, 0] + 0.5 / n * np.cos(angle(frame))),
        "y": lambda frame: float(-frame[-1, 1] + 0.5 / n * np.sin(angle(frame))),
        "theta": angle,
    }
    for k, (name, seen) in enumerate(sees.items()):
        reading = run.last(seen)
        # about either axis: a change of one of them bends it in its plane alone
        bends, g, dense = run.by(reading, "rod.bend_2", "gravity", "rod.density")
        bends = bends + run.by(reading, "rod.bend_3")[0]

        def exact(EI: float, g: float, rho: float, k: int = k) -> float:
            return sag(rho * np.pi * radius**2 * g / EI)[k]

        found = {"EI": bends[0], "g": -g[0, 1], "rho": dense[0]}
        figures += compared(name, exact, {"EI": bend, "g": G, "rho": density}, reading.value, found)
    return figures


@case(
    "column",
    "A clamped column under half of Euler's load, pi^2 E I / (4 L^2), and a small force across its end: how far that"
    " gives way, F (tan(k L) - k L) / (P k), k^2 = P / (E I)",
    "40 segments",
    2e-3,
    5e-3,
    slow=True,
)
def column() -> list[Figure]:
    at = {"P": 0.5 * np.pi**2 * STIFFNESS / 4, "F": 1e-4 * STIFFNESS, "E": YOUNG}
    model, tip = welded(line(40))
    state = pushed(model, tip, (-at["P"], at["F"], 0))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 300, 0.5 / np.sqrt(3 * STIFFNESS), every=300, state=state)

    def exact(P: float, F: float, E: float) -> float:
        k = np.sqrt(P / (E * np.pi * RADIUS**4 / 4))
        return float(F * (np.tan(k) - k) / (P * k))

    across = run.last(lambda frame: frame[tip, 1])
    push, young = run.by(across, "state.body_f", "rod.young")
    return compared("y", exact, at, across.value, {"P": -push[tip, 0], "F": push[tip, 1], "E": young[0]})


@case(
    "flat strip",
    "A cantilever with E I 1 and 4 mN m^2 about its two axes, and a small force at 45 degrees across its end: how far"
    " that gives way along z and y, F L^3 / (3 E I)",
    "40 segments",
    2e-3,
    2e-3,
    slow=True,
)
def flat_strip() -> list[Figure]:
    n, force, bend = 40, 1e-7, (1e-3, 4e-3)
    stiffness = {"stretch": 1e3, "torsion": 1e-3, "bend_2": bend[0], "bend_3": bend[1]}
    # axis 2 is y: to bend about it is to move along axis 3, z
    model, tip = welded(line(n), 0.01, 1e-4, normal=(0, 1, 0), stiffness=stiffness)
    state = pushed(model, tip, (0, force, force))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 200, 1.0, every=200, state=state)

    def exact(F: float, EI: float) -> float:
        return F / (3 * EI)

    figures = []
    for k, axis, name in ((2, 2, "z"), (1, 3, "y")):
        reading = run.last(lambda frame, k=k: frame[tip, k])
        bent, push = run.by(reading, f"rod.bend_{axis}", "state.body_f")
        at = {"F": force, "EI": bend[axis - 2]}
        figures += compared(name, exact, at, reading.value, {"F": push[tip, k], "EI": bent[0]})
    return figures


@case(
    "short beam",
    "A cantilever of 1 m, r = 0.15 m, with a small force at its end (S. P. Timoshenko): how far that gives way,"
    " F L^3 / (3 E I) + F L / (kappa G A)",
    "40 segments",
    1e-3,
    1e-3,
    slow=True,
)
def short_beam() -> list[Figure]:
    """Of kappa see `sim.constraints.joints.rod`."""
    radius, mass = 0.15, 1000.0
    at = {"F": 1e-3, "E": 1e5, "nu": POISSON}
    model, tip = welded(line(40), mass, 10.0, radius=radius, young=at["E"])
    area, moment = np.pi * radius**2, np.pi * radius**4 / 4
    h = 0.5 / np.sqrt(3 * at["E"] * moment / mass)
    state = pushed(model, tip, (0, at["F"], 0))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 200, h, every=200, state=state)

    def exact(F: float, E: float, nu: float) -> float:
        kappa, shear = 6 * (1 + nu) / (7 + 6 * nu), E / (2 * (1 + nu))
        return F / (3 * E * moment) + F / (kappa * shear * area)

    across = run.last(lambda frame: frame[tip, 1])
    push, young, poisson = run.by(across, "state.body_f", "rod.young", "rod.poisson")
    return compared("y", exact, at, across.value, {"F": push[tip, 1], "E": young[0], "nu": poisson[0]})
