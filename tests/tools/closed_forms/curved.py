"""Coils, rings, helices and cables at rest: found by letting them come to rest with the direct solve."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

import sim
from tools.closed_forms.case import Figure, G, Watched, case, compared
from tools.closed_forms.rods import POISSON, RADIUS, STIFFNESS, YOUNG, line, pushed, welded


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
    model, top = welded(coil, 1.0, 1e-4, (0, 0, coil[-1, 2]), radius=at["r"], density=7800.0, young=at["E"])
    state = pushed(model, top, (0, 0, force))
    run = Watched(sim.SolverXPBD(model, direct=["rod"]), 60, 0.1, every=60, state=state)

    def exact(r: float, E: float) -> float:
        return float(2 * np.pi * turns * R**3 / (E / 2.6 * np.pi * r**4 / 2))

    longer = (1 / force) * run.last(lambda frame: frame[top, 2] - coil[-1, 2])
    radius, young = run.by(longer, "rod.radius", "rod.young")
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


def catenary(span: float, length: float) -> float:
    """Sag: 2 a sinh(span / 2 a) = length, sag = a (cosh(span / 2 a) - 1)."""
    a = brentq(lambda a: 2 * a * np.sinh(span / (2 * a)) - length, 0.05, 50.0, xtol=1e-15)
    return float(a * (np.cosh(span / (2 * a)) - 1))


@case(
    "D5",
    "A cable of 1.2 m hangs between places 1 m apart: its sag",
    "40 segments",
    1e-3,
    5e-3,
    slow=True,
)
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
    arc = np.stack([np.sin(phi), 1 - np.cos(phi), 0 * phi], axis=1)
    model, tip = welded(arc)
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
    bending = {"stretch": 1e3, "torsion": 0.01, "bend_2": 0.01, "bend_3": 0.01}
    model, tip = welded(
        line(n),
        0.01,
        1e-4,
        normal=(0, 1, 0),
        stiffness=bending,
        twist_rate=at["twist"],
        curvature=(0.0, at["curvature"]),
        damping=1.0,
    )
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
