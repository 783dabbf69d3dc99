"""Rods and cables at rest, found by letting them come to rest with the direct solve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import sim
from closed_forms.case import Figure, G, Watched, case, compared

YOUNG, POISSON, RADIUS = 1e7, 0.3, 0.002
STIFFNESS = YOUNG * np.pi * RADIUS**4 / 4
"""[N m^2]: E I."""


def line(n: int, length: float = 1.0) -> np.ndarray:
    """n + 1 points along x."""
    return np.stack([np.linspace(0, length, n + 1), np.zeros(n + 1), np.zeros(n + 1)], axis=1)


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
    force, mass = load * STIFFNESS, 1.0
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    tip = builder.add_body((1, 0, 0), mass, 0.01, label="tip")
    builder.add_rod(
        line(n), radius=RADIUS, density=1000.0, young=YOUNG, poisson=POISSON, clamp_start=-1, clamp_end=tip, label="rod"
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    h = 0.5 / np.sqrt(3 * STIFFNESS / mass)  # half a radian of the lowest oscillation, which implicit Euler damps
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


@case("D1", "A cantilever with a load at its end, F L^2 / E I = 1 (Euler's elastica)", "40 segments", 1e-3, 2e-3)
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


@case("D2", "A cantilever under its weight, w L^3 / E I = 4", "40 segments", 1e-3, 2e-3)
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


# ------------------------------------------------------------------------------------------ twisting
@case(
    "D4",
    "A close-coiled spring, R 10 mm, r 0.5 mm, G 79 GPa, 10 turns, pulled by 0.01 N: its length over the load",
    "48 segments a turn",
    1e-2,
    1e-2,
    slow=True,
)
def coil_spring() -> list[Figure]:
    """Exact: 1 / k = 2 pi n R^3 / (G J) [m/N], wire in torsion alone; pitch 2 mm."""
    n, turns, R, pitch, force = 48, 10, 0.01, 0.002, 0.01
    at = {"r": 5e-4, "E": 79e9 * 2 * 1.3}
    phi = np.arange(n * turns + 1) * 2 * np.pi / n
    coil = np.stack([R * np.cos(phi), R * np.sin(phi), pitch * phi / (2 * np.pi)], axis=1)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    top = builder.add_body((0, 0, coil[-1, 2]), 1.0, 1e-4, label="top")
    builder.add_rod(
        coil, radius=at["r"], density=7800.0, young=at["E"], poisson=0.3, clamp_start=-1, clamp_end=top, label="coil"
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    state = pushed(model, top, (0, 0, force))
    run = Watched(sim.SolverXPBD(model, direct=["coil"]), 60, 0.1, every=60, state=state)

    def exact(r: float, E: float) -> float:
        return float(2 * np.pi * turns * R**3 / (E / 2.6 * np.pi * r**4 / 2))

    longer = (1 / force) * run.last(lambda frame: frame[top, 2] - coil[-1, 2])
    radius, young = run.by(longer, "coil.radius", "coil.young")
    return compared("compliance", exact, at, longer.value, {"r": radius[0], "E": young[0]})


def critical_twist(n: int, ratio: float, twist: float) -> float:
    """The critical twist of a ring of n segments, C / A = ratio, from how much it gives way to forces cos(2 phi) across
    its plane at a twist below: the response grows as 1 / (critical^2 - twist^2)."""
    phi = np.arange(n) * 2 * np.pi / n
    chord = 2 * np.sin(np.pi / n)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_rod(
        np.stack([np.cos(phi), np.sin(phi), 0 * phi], axis=1), radius=0.01, density=1000.0, normal=(0, 0, 1),
        stiffness={"stretch": 1e6, "torsion": ratio, "bend_2": 1.0, "bend_3": 1.0}, closed=True,
        curvature=(-2 * np.pi / (n * chord), 0), twist_rate=-twist / (n * chord), label="ring",
    )  # fmt: skip
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    wave, state = np.cos(2 * (phi + np.pi / n)), model.state()
    wrench = np.zeros((n, 6))
    wrench[:, 2] = 1e-6 / n * wave
    state.body_f.assign(wrench)
    run = Watched(sim.SolverXPBD(model, direct=["ring"]), 150, 0.2, every=150, state=state)
    response = run.last(lambda frame: float(frame[:, 2] @ wave))
    rate = run.by(response, "ring.twist_rate")[0][0] * -1 / (n * chord)
    return float(np.sqrt(twist**2 + 2 * twist * response.value / rate))


@case(
    "D3",
    "A ring of a straight rod, twisted, leaves its plane at 2 pi sqrt(3) A / C (Michell): by how much it"
    " gives way at two thirds of that, and the derivative of this by the twist",
    "40 segments",
    1e-2,
    1e-2,
    slow=True,
)
def twisted_ring() -> list[Figure]:
    exact = 2 * np.pi * np.sqrt(3)
    return [
        Figure("twist, C / A = 1", exact, critical_twist(40, 1.0, 8.0)),
        Figure("twist, C / A = 0.75", exact / 0.75, critical_twist(40, 0.75, 10.0)),
    ]


# ------------------------------------------------------------------------------------------ hanging
def catenary(span: float, length: float) -> float:
    """Sag: 2 a sinh(span / 2 a) = length, sag = a (cosh(span / 2 a) - 1)."""
    a = brentq(lambda a: 2 * a * np.sinh(span / (2 * a)) - length, 0.05, 50.0, xtol=1e-15)
    return float(a * (np.cosh(span / (2 * a)) - 1))


@case("D5", "A cable of 1.2 m hangs between places 1 m apart: its sag", "40 segments", 1e-3, 5e-3)
def hanging_cable() -> list[Figure]:
    n, length, span = 40, 1.2, 1.0
    # the arc of a circle of n chords: it comes to rest by the viscosity of its bending, whose stiffness is nothing
    angle = brentq(lambda a: length / n * np.sin(a * n) / np.sin(a) - span, 1e-3, np.pi / n)
    turns = angle * np.arange(1 - n, n, 2)
    chords = length / n * np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=1)
    arc = np.concatenate([np.zeros((1, 3)), np.cumsum(chords, axis=0)])
    soft = 1e-6
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    cable = builder.add_rod(
        arc,
        radius=0.003,
        density=1000.0,
        damping=1000.0,
        label="cable",
        stiffness={"stretch": np.inf, "torsion": soft, "bend_2": soft, "bend_3": soft},
    )
    half = 0.5 * length / n
    builder.add_joint_ball(-1, cable.start, arc[0], (-half, 0, 0), label="left")
    builder.add_joint_ball(-1, cable.start + n - 1, arc[-1], (half, 0, 0), label="right")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model, direct=["cable", "left", "right"]), 500, 0.02, every=500)

    def depth(frame: np.ndarray) -> float:
        """Of the middle: the end of a segment."""
        *_, z, w = frame[n // 2 - 1, 3:]
        return float(-frame[n // 2 - 1, 1] - half * 2 * z * w)

    low = run.last(depth)
    right = run.by(low, "right.parent_at")[0]
    return compared("sag", catenary, {"span": span, "length": length}, low.value, {"span": right[0, 0]})


# ------------------------------------------------------------------------------------------ columns and curved rods
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
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    tip = builder.add_body((1, 0, 0), 1.0, 0.01, label="tip")
    builder.add_rod(
        line(40),
        radius=RADIUS,
        density=1000.0,
        young=YOUNG,
        poisson=POISSON,
        clamp_start=-1,
        clamp_end=tip,
        label="rod",
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    state = pushed(model, tip, (-at["P"], at["F"], 0))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 300, 0.5 / np.sqrt(3 * STIFFNESS), every=300, state=state)

    def exact(P: float, F: float, E: float) -> float:
        k = np.sqrt(P / (E * np.pi * RADIUS**4 / 4))
        return float(F * (np.tan(k) - k) / (P * k))

    across = run.last(lambda frame: frame[tip, 1])
    push, young = run.by(across, "state.body_f", "rod.young")
    return compared("y", exact, at, across.value, {"P": -push[tip, 0], "F": push[tip, 1], "E": young[0]})


@case(
    "bow girder",
    "A quarter of a ring, R = 1 m, clamped, with a small force across its plane at its end: how far that gives way,"
    " F R^3 (pi / (4 E I) + (3 pi / 4 - 2) / (G J))",
    "40 segments",
    2e-3,
    4e-3,
    slow=True,
)
def bow_girder() -> list[Figure]:
    n, at = 40, {"F": 1e-4 * STIFFNESS, "E": YOUNG, "nu": POISSON}
    phi = 0.5 * np.pi * np.arange(n + 1) / n
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    arc = np.stack([np.sin(phi), 1 - np.cos(phi), 0 * phi], axis=1)
    tip = builder.add_body((1, 1, 0), 1.0, 0.01, label="tip")
    builder.add_rod(
        arc,
        radius=RADIUS,
        density=1000.0,
        young=YOUNG,
        poisson=POISSON,
        clamp_start=-1,
        clamp_end=tip,
        label="rod",
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    state = pushed(model, tip, (0, 0, at["F"]))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 400, 0.5 / np.sqrt(3 * STIFFNESS), every=400, state=state)

    def exact(F: float, E: float, nu: float) -> float:
        moment = np.pi * RADIUS**4 / 4
        return float(F * (np.pi / 4 / (E * moment) + (0.75 * np.pi - 2) / (E / (2 * (1 + nu)) * 2 * moment)))

    across = run.last(lambda frame: frame[tip, 2])
    push, young, poisson = run.by(across, "state.body_f", "rod.young", "rod.poisson")
    return compared("z", exact, at, across.value, {"F": push[tip, 2], "E": young[0], "nu": poisson[0]})


@case(
    "helix",
    "A straight rod of 1 m whose curvature (3 / m) and twist (2 / m) at rest make it a helix: place of its end",
    "40 segments",
    2e-3,
    4e-3,
    slow=True,
)
def helix() -> list[Figure]:
    """Exact: the frame turns about a fixed axis by |u| for every metre, u = (twist, 0, curvature)."""
    n, at = 40, {"twist": 2.0, "curvature": 3.0}
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    tip = builder.add_body((1, 0, 0), 0.01, 1e-4, label="tip")
    builder.add_rod(
        line(n),
        radius=RADIUS,
        density=1000.0,
        normal=(0, 1, 0),
        stiffness={"stretch": 1e3, "torsion": 0.01, "bend_2": 0.01, "bend_3": 0.01},
        twist_rate=at["twist"],
        curvature=(0.0, at["curvature"]),
        damping=1.0,
        clamp_start=-1,
        clamp_end=tip,
        label="rod",
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 300, 0.1, every=300)
    figures = []
    for k, name in enumerate("xyz"):

        def exact(twist: float, curvature: float, k: int = k) -> float:
            """Integral of exp(s u) e1, by Rodrigues' formula."""
            u, e = np.array([twist, 0, curvature]), np.array([1.0, 0, 0])
            rate = np.linalg.norm(u)
            a = u / rate
            flat = e - (a @ e) * a
            end = (a @ e) * a + np.sin(rate) / rate * flat + (1 - np.cos(rate)) / rate * np.cross(a, e)
            return float(end[k])

        reading = run.last(lambda frame, k=k: frame[tip, k])
        twist, curvature = run.by(reading, "rod.twist_rate", "rod.curvature_3")
        figures += compared(name, exact, at, reading.value, {"twist": twist[0], "curvature": curvature[0]})
    return figures
