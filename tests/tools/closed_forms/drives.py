"""Hinges with drives and friction, and a loop of joints."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

import sim
from tools.closed_forms.case import Figure, G, Watched, case, compared, extrapolated


def wheel(inertia: float, spin: float = 0.0, **drive: float) -> sim.Model:
    """A wheel on a hinge along z."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    body = builder.add_body(mass=1.0, inertia=(inertia,) * 3, spin=(0, 0, spin), label="wheel")
    builder.add_joint_revolute(-1, body, axis=(0, 0, 1), label="hinge", **drive)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def angle_of(frame: np.ndarray, body: int = 0) -> float:
    """About z, within half a turn."""
    return float(2 * np.arctan(frame[body, 5] / frame[body, 6]))


@case(
    "R5",
    "A drive (ke 20 N m/rad, kd 0.5 N m s/rad) pulls a wheel, I = 0.1 kg m^2, to 1 rad: its angle after 0.3 s",
    "1 and 2 kHz, extrapolated",
    1e-3,
    1e-3,
)
def driven_wheel() -> list[Figure]:
    return extrapolated(drive, 1 / 1000)


def drive(h: float) -> list[Figure]:
    T = 0.3
    at = {"ke": 20.0, "kd": 0.5, "inertia": 0.1, "target": 1.0}
    model = wheel(at["inertia"], target_ke=at["ke"], target_kd=at["kd"], target_pos=at["target"])
    run = Watched(sim.SolverXPBD(model), round(T / h), h, every=round(T / h))

    def exact(ke: float, kd: float, inertia: float, target: float) -> float:
        decay = kd / (2 * inertia)
        omega = np.sqrt(ke / inertia - decay**2)
        return float(target * (1 - np.exp(-decay * T) * (np.cos(omega * T) + decay / omega * np.sin(omega * T))))

    angle = run.last(angle_of)
    paths = "hinge.target_ke", "hinge.target_kd", "wheel.inertia", "hinge.target_pos"
    ke, kd, moments, target = run.by(angle, *paths)
    found = {"ke": ke[0], "kd": kd[0], "inertia": moments[0, 2], "target": target[0]}
    return compared("angle", exact, at, angle.value, found)


@case(
    "R6",
    "A wheel, I = 0.05 kg m^2, 8 rad/s, is stopped by a dry friction of 0.4 N m: the angle it has gone on by",
    "960 Hz",
    2e-3,
    2e-3,
)
def stopped_wheel() -> list[Figure]:
    at = {"omega": 8.0, "torque": 0.4, "inertia": 0.05}
    model = wheel(at["inertia"], at["omega"], friction=at["torque"])
    run = Watched(sim.SolverXPBD(model), 1152, 1 / 960, every=1152)
    angle = run.last(lambda frame: angle_of(frame) % (2 * np.pi))
    spin, friction, moments = run.by(angle, "wheel.spin", "hinge.friction", "wheel.inertia")

    def exact(omega: float, torque: float, inertia: float) -> float:
        return inertia * omega**2 / (2 * torque)

    return compared(
        "angle", exact, at, angle.value, {"omega": spin[0, 2], "torque": friction[0], "inertia": moments[0, 2]}
    )


@case(
    "geared wheels",
    "Two wheels on one axis, I = 0.02 and 0.05 kg m^2, with a drive (30 N m/rad) between them, swing"
    " against each other: their angular frequency",
    "2 kHz",
    2e-3,
    5e-3,
    slow=True,
)
def two_wheels() -> list[Figure]:
    at = {"ke": 30.0, "I1": 0.02, "I2": 0.05}
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    wheels = [
        builder.add_body(mass=1.0, inertia=(at[f"I{k}"],) * 3, spin=(0, 0, spin), label=f"wheel{k}")
        for k, spin in ((1, 0.5), (2, -0.2))
    ]
    builder.add_joint_revolute(-1, wheels[0], axis=(0, 0, 1), label="axle")
    builder.add_joint_revolute(wheels[0], wheels[1], axis=(0, 0, 1), target_ke=at["ke"], label="spring")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)

    def exact(ke: float, I1: float, I2: float) -> float:
        return float(np.sqrt(ke * (1 / I1 + 1 / I2)))

    run = Watched(sim.SolverXPBD(model), round(1.4 * np.pi / exact(**at) * 2000), 1 / 2000)
    half = run.passage(lambda frame: angle_of(frame, 1) - angle_of(frame, 0))
    ke, I1, I2 = run.by(half, "spring.target_ke", "wheel1.inertia", "wheel2.inertia")
    factor = -np.pi / half.value**2
    found = {"ke": factor * ke[0], "I1": factor * I1[0, 2], "I2": factor * I2[0, 2]}
    return compared("omega", exact, at, np.pi / half.value, found)


@case(
    "four-bar linkage",
    "A crank of 0.3 m turned by 1.2 rad moves a rocker of 0.5 m by a coupler of 0.8 m between"
    " hinges 0.9 m apart: the rocker's angle",
    "400 Hz, direct",
    1e-9,
    1e-8,
    slow=True,
)
def four_bar() -> list[Figure]:
    """Exact: the loop closes, |crank + coupler| = |ground + rocker| (F. Freudenstein, 1954)."""
    at = {"crank": 0.3, "coupler": 0.8, "rocker": 0.5, "ground": 0.9, "turn": 1.2}
    begin = 0.4

    def exact(crank: float, coupler: float, rocker: float, ground: float, turn: float) -> float:
        pin = crank * np.array([np.cos(begin + turn), np.sin(begin + turn)])

        def gap(angle: float) -> float:
            end = np.array([ground + rocker * np.cos(angle), rocker * np.sin(angle)])
            return float((end - pin) @ (end - pin) - coupler**2)

        return float(brentq(gap, 0.3, np.pi, xtol=1e-15, rtol=1e-15))

    rest = exact(**{**at, "turn": 0.0})
    pin, end = at["crank"] * np.array([np.cos(begin), np.sin(begin), 0]), np.array([at["ground"], 0, 0])
    end = end + at["rocker"] * np.array([np.cos(rest), np.sin(rest), 0])
    tilt = np.arctan2(*(end - pin)[1::-1])
    builder = sim.ModelBuilder(gravity=(0, 0, 0))

    def turned_by(angle: float) -> list[float]:
        return [0, 0, np.sin(angle / 2), np.cos(angle / 2)]

    turning: list[dict[str, Any]] = [{"turn": (0, 0, at["turn"]), "end": 0.5}]
    crank = builder.add_body([0, 0, 0, *turned_by(begin)], held=True, motion=turning, label="crank")
    coupler = builder.add_body([*pin, *turned_by(tilt)], 1.0, 0.01, label="coupler")
    rocker = builder.add_body([at["ground"], 0, 0, *turned_by(rest)], 1.0, 0.01, label="rocker")
    builder.add_joint_ball(crank, coupler, (at["crank"], 0, 0), (0, 0, 0), label="first")
    builder.add_joint_ball(coupler, rocker, (at["coupler"], 0, 0), (at["rocker"], 0, 0), label="second")
    builder.add_joint_revolute(
        -1, rocker, (at["ground"], 0, 0), (0, 0, 0), axis=(0, 0, 1), label="third", target_kd=5.0
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, direct=["first", "second", "third"])
    run = Watched(solver, 400, 1 / 400, every=400)
    angle = run.last(lambda frame: angle_of(frame, 2))
    paths = "first.parent_at", "second.parent_at", "second.child_at", "third.parent_at", "crank.motion.0.turn"
    by = run.by(angle, *paths)
    found = dict(zip(at, (*(a[0, 0] for a in by[:4]), by[4][0, 2]), strict=True))
    return compared("rocker", exact, at, angle.value, found)


@case(
    "slider",
    "A body of 2 kg on a slider at 30 degrees to the vertical, held by a drive (ke 50 N/m, kd 4 N s/m) that pulls it up"
    " from rest to 0.1 m: its place after 0.5 s",
    "1 and 2 kHz, extrapolated",
    2e-3,
    5e-3,
    slow=True,
)
def slider() -> list[Figure]:
    return extrapolated(slide, 1 / 1000)


def slide(h: float) -> list[Figure]:
    T, tilt = 0.5, np.pi / 6
    at = {"ke": 50.0, "kd": 4.0, "m": 2.0, "g": G, "target": 0.1}
    up = np.array([np.sin(tilt), np.cos(tilt), 0.0])
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    body = builder.add_body(mass=at["m"], inertia=0.01, label="body")
    builder.add_joint_prismatic(
        -1, body, axis=up, target_ke=at["ke"], target_kd=at["kd"], target_pos=at["target"], label="rail"
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model), round(T / h), h, every=round(T / h))

    def exact(ke: float, kd: float, m: float, g: float, target: float) -> float:
        decay = kd / (2 * m)
        omega = np.sqrt(ke / m - decay**2)
        wave = np.cos(omega * T) + decay / omega * np.sin(omega * T)
        return float((target - m * g * np.cos(tilt) / ke) * (1 - np.exp(-decay * T) * wave))

    place = run.last(lambda frame: float(frame[0, :3] @ up))
    paths = "rail.target_ke", "rail.target_kd", "body.mass", "gravity", "rail.target_pos"
    ke, kd, mass, g, target = run.by(place, *paths)
    found = {"ke": ke[0], "kd": kd[0], "m": mass[0], "g": -g[0, 1], "target": target[0]}
    return compared("place", exact, at, place.value, found)
