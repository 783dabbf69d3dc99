"""Impacts of what joints hold add no energy: a double pendulum whose tip strikes the floor (T. R. Kane, D. A. Levinson,
"Dynamics: Theory and Applications", 1985, section 5.8), where Newton's law with friction adds a tenth to a half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim
from sim.geometry import rotation_from_quaternion

Config = sim.ModelBuilder.ShapeConfig
LONG, MASS, TIP, BEFORE = 1.0, 1.0, 0.05, 0.05
INERTIA = MASS * LONG**2 / 12
GAINS = {
    "sticks": {"q": (1.06, -1.074), "w": (0.277, 2.913), "e": 1.0, "mu": 0.45},
    "slips": {"q": (0.771, -0.868), "w": (-0.682, 2.399), "e": 1.0, "mu": 0.255},
    "less than 1": {"q": (-1.281, 0.89), "w": (0.325, -2.431), "e": 0.9, "mu": 0.471},
}
"""The angles and spins of both rods as the tip strikes."""


def mass_matrix(q: np.ndarray) -> np.ndarray:
    """Of both angles."""
    mixed = MASS * LONG**2 / 2 * np.cos(q[0] - q[1])
    return np.array([[1.25 * MASS * LONG**2 + INERTIA, mixed], [mixed, MASS * LONG**2 / 4 + INERTIA]])


def moved(q: np.ndarray, w: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
    """Without forces, by Runge-Kutta steps."""

    def rate(state: np.ndarray) -> np.ndarray:
        a, b, u, v = state
        turning = MASS * LONG**2 / 2 * np.sin(a - b) * np.array([-v * v, u * u])
        return np.concatenate([[u, v], np.linalg.solve(mass_matrix(state[:2]), turning)])

    state, steps = np.concatenate([q, w]), 100
    h = time / steps
    for _ in range(steps):
        first = rate(state)
        second = rate(state + h / 2 * first)
        third = rate(state + h / 2 * second)
        state = state + h / 6 * (first + 2 * second + 2 * third + rate(state + h * third))
    return state[:2], state[2:]


def low(q: np.ndarray) -> float:
    """The height of the lowest place of the tip."""
    return float(-LONG * np.cos(q).sum() - TIP)


def struck(q: np.ndarray, w: np.ndarray, e: float, mu: float, bound: bool = True) -> np.ndarray:
    """The spins after it: one impulse in the cone, with what is left of the slip against it, and c+ = -e c-, or what
    adds no energy of it."""
    M, J = mass_matrix(q), LONG * np.array([np.sin(q), np.cos(q)])
    J[1, 1] += TIP
    A, (c, u) = J @ np.linalg.solve(M, J.T), J @ w

    def pushed(after: float) -> np.ndarray:
        p = np.linalg.solve(A, [after - c, -u])
        for side in (1, -1) if abs(p[1]) > mu * p[0] else ():
            p = np.array([1, side * mu]) * (after - c) / (A[0, 0] + side * mu * A[0, 1])
            if side * (u + A[1] @ p) <= 0:
                break
        return p

    def work(after: float) -> float:
        p = pushed(after)
        return float(p @ ([c, u] + A @ p / 2))

    less, most = 0.0, -e * c
    if not bound or work(most) <= 0:
        less = most
    for _ in range(60):
        half = (less + most) / 2
        less, most = (less, half) if work(half) > 0 else (half, most)
    return w + np.linalg.solve(M, J.T @ pushed(less))


def exact(q: np.ndarray, w: np.ndarray, floor: float, e: float, mu: float, time: float) -> np.ndarray:
    """The angles and spins at a time after it began with q and w."""
    early, late = 0.0, time
    for _ in range(60):
        half = (early + late) / 2
        early, late = (half, late) if low(moved(q, w, half)[0]) > floor else (early, half)
    q, w = moved(q, w, early)
    return np.concatenate(moved(q, struck(q, w, e, mu), time - early))


def pendulum(q: np.ndarray, w: np.ndarray, floor: float, e: float, mu: float) -> sim.Model:
    """Rods about z from the origin; the ball has no mass."""
    builder, end, speed = sim.ModelBuilder(gravity=(0, 0, 0)), np.zeros(2), np.zeros(2)
    for k, (angle, spin) in enumerate(zip(q, w, strict=True)):
        along, across = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
        turn = (0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2))
        rod = builder.add_body(
            sim.transformd((*(end + LONG / 2 * along), 0.0), turn), mass=MASS, inertia=(INERTIA, 1e-2, INERTIA),
            velocity=(*(speed + LONG / 2 * spin * across), 0.0), spin=(0, 0, spin), label=f"rod{k}",
        )  # fmt: skip
        ends = [sim.transformd((0.0, -LONG / 2 if k else 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))]
        ends.append(sim.transformd((0.0, LONG / 2, 0.0), (0.0, 0.0, 0.0, 1.0)))
        builder.add_joint_revolute(rod - 1 if k else -1, rod, *ends, axis=(0, 0, 1), label=f"hinge{k}")
        end, speed = end + LONG * along, speed + LONG * spin * across
    tip = sim.transformd((0.0, -LONG / 2, 0.0), (0.0, 0.0, 0.0, 1.0))
    builder.add_shape_sphere(1, tip, TIP, cfg=Config(density=0.0, mu=mu, restitution=e), label="tip")
    builder.add_ground_plane(floor)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def begun(case: dict[str, Any], rate: int, phase: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Where it is so much and a part of a step before it strikes, and the height of the floor."""
    q, w = (np.array(case[name]) for name in "qw")
    return *moved(q, w, -BEFORE - phase / rate), low(q)


@pytest.mark.parametrize("name", GAINS)
@pytest.mark.parametrize("phase", [0.0, 0.35, 0.8])
def test_a_double_pendulum_strikes_the_floor_and_keeps_its_energy(name: str, phase: float) -> None:
    """And what the law of friction leaves to it; to first order in the step."""
    case, rate = GAINS[name], 480
    q, w, floor = begun(case, rate, phase)
    spins = struck(*(np.array(case[key]) for key in "qw"), case["e"], case["mu"], bound=False)
    M = mass_matrix(np.array(case["q"]))
    assert spins @ M @ spins > 1.09 * (np.array(case["w"]) @ M @ case["w"])
    model = pendulum(q, w, floor, case["e"], case["mu"])
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 36, 1 / rate).final.body_qd.numpy()[:, 5]
    angles_and_spins = exact(q, w, floor, case["e"], case["mu"], 36 / rate)
    M = mass_matrix(angles_and_spins[:2])
    assert end @ M @ end == pytest.approx(w @ mass_matrix(q) @ w, rel=4e-3)
    assert end == pytest.approx(angles_and_spins[2:], abs=8e-3)


@pytest.mark.parametrize("name", GAINS)
@pytest.mark.parametrize("phase", [0.1, 0.7])
def test_the_derivatives_of_an_impact_that_would_add_energy(name: str, phase: float) -> None:
    """Of where the lower rod is, by both spins, friction and restitution, from which it does not depend."""
    case, rate, d = GAINS[name], 480, 1e-6
    q, w, floor = begun(case, rate, phase)
    along = np.stack([np.cos(q), np.sin(q)], axis=1)
    _, by = gradients(pendulum(q, w, floor, case["e"], case["mu"]), 48, 1 / rate, coordinate("body_q", 1, 0))
    speeds = [by[f"rod{k}.velocity"][0, :2] for k in range(2)]
    found = [
        by["rod0.spin"][0, 2] + LONG * along[0] @ (speeds[0] / 2 + speeds[1]),
        by["rod1.spin"][0, 2] + LONG / 2 * along[1] @ speeds[1],
        by["rod1.tip.mu"][0],
    ]
    assert by["rod1.tip.restitution"][0] == pytest.approx(0.0, abs=1e-3)
    for number, value in enumerate(found):
        sides = []
        for step in (-d, d):
            changed = np.array([*w, case["mu"]])
            changed[number] += step
            angles = exact(q, changed[:2], floor, case["e"], changed[2], 48 / rate)[:2]
            sides.append(LONG * np.sin(angles) @ [1.0, 0.5])
        assert value == pytest.approx((sides[1] - sides[0]) / (2 * d), rel=2e-2, abs=2e-3), number


def test_a_linkage_that_touches_nothing_keeps_its_energy() -> None:
    """Four boxes that whirl, above a floor that they could touch: what sweeps leave of their joints is no impact."""
    builder, halves = sim.ModelBuilder(gravity=(0, 0, 0)), (0.15, 0.08, 0.2, 0.1)
    spins, x = ((9.0, 1.0, 6.0), (-4.0, 8.0, -5.0), (0.0, -9.0, 2.0), (12.0, 3.0, -8.0)), 0.0
    speed = np.zeros(3)
    for k, (half, spin) in enumerate(zip(halves, spins, strict=True)):
        arm = np.cross(spin, (half, 0, 0))
        box = builder.add_body((x + half, 0, 0), velocity=tuple(speed + arm), spin=spin, label=f"box{k}")
        builder.add_shape_box(
            box, None, half, 0.04, 0.06, cfg=Config(density=500.0 * (1 + 3 * (k % 2)), mu=0.3, restitution=1.0)
        )
        if k:
            ends = [sim.transformd((side, 0, 0), (0.0, 0.0, 0.0, 1.0)) for side in (halves[k - 1], -half)]
            builder.add_joint_ball(box - 1, box, *ends, label=f"joint{k}")
        x, speed = x + 2 * half, speed + 2 * arm
    builder.add_ground_plane(-50.0)
    model = builder.finalize(dtype=sim.float64)
    state, solver, energies = model.state(), sim.SolverXPBD(model), []
    for _ in range(240):
        state = sim.rollout(solver, state, 1, 1 / 480).final
        energies.append(kinetic_energy(model, state))
    assert np.abs(np.diff(energies)).max() < 3e-5 * energies[0]
    assert energies[-1] == pytest.approx(energies[0], rel=2e-4)


def kinetic_energy(model: sim.Model, state: sim.State) -> float:
    """Of all bodies."""
    q, qd = state.body_q.numpy()[:, 3:], state.body_qd.numpy()
    total = float(model.body_mass.numpy() @ (qd[:, :3] ** 2).sum(1)) / 2
    for inertia, turn, spin in zip(model.body_inertia.numpy(), q, qd[:, 3:], strict=True):
        inside = rotation_from_quaternion(turn).T @ spin
        total += float(inside @ inertia @ inside) / 2
    return total
