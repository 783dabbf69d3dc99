"""Writes scenes/data/pendulum.csv: angles of a double pendulum with dry friction, by SciPy's DOP853, and noise.

Two discs on massless links.  q: the turns of the joints, shoulder and elbow, that of the elbow relative to the upper
link.  Dry friction of a joint is its torque times the sign of its rate; where a rate comes to zero the integration
halts, and goes on with the joint stuck for as long as that takes less than the torque, else the other way.
"""

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

OUT = Path(__file__).resolve().parent.parent / "scenes" / "data" / "pendulum.csv"
RATES = np.array([[1.0, 0.0], [1.0, 1.0]])  # rates of the links from those of the joints


@dataclass(frozen=True)
class Pendulum:
    """lengths [m], from joint to joint and on to the lower disc; masses [kg], inertias [kg m^2] of the discs, about
    their centres; friction [N m] of the joints; gravity [m/s^2]."""

    lengths: tuple[float, float] = (0.3, 0.25)
    masses: tuple[float, float] = (0.5, 0.4)
    inertias: tuple[float, float] = (6e-4, 5e-4)
    friction: tuple[float, float] = (0.03, 0.02)
    gravity: float = 9.81

    def matrix(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass matrix of the links' angles from the vertical, and these angles."""
        (l1, l2), (m1, m2), (i1, i2) = self.lengths, self.masses, self.inertias
        a = RATES @ q
        cross = m2 * l1 * l2 * np.cos(a[0] - a[1])
        return np.array([[(m1 + m2) * l1**2 + i1, cross], [cross, m2 * l2**2 + i2]]), a

    def free(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass matrix of the joints, and the torques at them but for friction."""
        (l1, l2), (m1, m2), g = self.lengths, self.masses, self.gravity
        matrix, a = self.matrix(q)
        w = RATES @ v
        s = m2 * l1 * l2 * np.sin(a[0] - a[1])
        weight = np.array([(m1 + m2) * g * l1 * np.sin(a[0]), m2 * g * l2 * np.sin(a[1])])
        torque = -weight + np.array([-s * w[1] ** 2, s * w[0] ** 2])
        return RATES.T @ matrix @ RATES, RATES.T @ torque

    def accelerations(self, q: np.ndarray, v: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the joints, where each turns one way, the other, or (0) is stuck; and the friction at them."""
        matrix, torque = self.free(q, v)
        friction = -np.array(self.friction) * ways
        moving, out = ways != 0, np.zeros(2)
        out[moving] = np.linalg.solve(matrix[np.ix_(moving, moving)], (torque + friction)[moving])
        friction[~moving] = (matrix @ out - torque)[~moving]
        return out, friction

    def energy(self, q: np.ndarray, v: np.ndarray) -> float:
        """Of motion and weight [J]."""
        matrix, a = self.matrix(q)
        w = RATES @ v
        (l1, l2), (m1, m2) = self.lengths, self.masses
        height = -(m1 + m2) * l1 * np.cos(a[0]) - m2 * l2 * np.cos(a[1])
        return float(0.5 * w @ matrix @ w + self.gravity * height)

    def ways_from(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Which way each joint goes on from here: the first choice that agrees with itself, stuck before moving."""
        resting = np.abs(v) < 1e-9
        choices = [[0, 1, -1] if still else [np.sign(rate)] for still, rate in zip(resting, v, strict=True)]
        for ways in (np.array([s, e]) for s in choices[0] for e in choices[1]):
            rate, friction = self.accelerations(q, v, ways)
            stuck = ways == 0
            holds = np.abs(friction[stuck]) <= np.array(self.friction)[stuck]
            starts = (rate * ways)[resting & ~stuck] > 0
            if holds.all() and starts.all():
                return ways
        raise RuntimeError("no way to go on")


def swing(pendulum: Pendulum, start: tuple[float, float], times: np.ndarray) -> np.ndarray:
    """Angles (n, 2) [rad] of the links from the vertical, let go at rest from such angles at t = 0."""
    t, y = 0.0, np.append(np.linalg.solve(RATES, start), [0.0, 0.0])
    out = np.empty((len(times), 2))
    while True:
        ways = pendulum.ways_from(y[:2], y[2:])

        def rates(_: float, y: np.ndarray, ways: np.ndarray = ways) -> np.ndarray:
            return np.append(y[2:], pendulum.accelerations(y[:2], y[2:], ways)[0])

        ends = [_turns_back(k, way) if way else _slips(pendulum, k, ways) for k, way in enumerate(ways)]
        found = solve_ivp(rates, (t, times[-1]), y, "DOP853", rtol=1e-11, atol=1e-12, events=ends, dense_output=True)
        inside = (times >= t) & (times <= found.t[-1])
        if inside.any():
            out[inside] = (RATES @ found.sol(times[inside])[:2]).T
        t, y = float(found.t[-1]), found.y[:, -1].copy()
        if found.status == 0:
            return out
        for k, when in enumerate(found.t_events):
            if when.size and ways[k]:
                y[2 + k] = 0.0


def _turns_back(joint: int, way: float) -> Callable[[float, np.ndarray], float]:
    def rate(_: float, y: np.ndarray) -> float:
        return float(way * y[2 + joint])

    rate.terminal, rate.direction = True, -1  # type: ignore[attr-defined]
    return rate


def _slips(pendulum: Pendulum, joint: int, ways: np.ndarray) -> Callable[[float, np.ndarray], float]:
    def left(_: float, y: np.ndarray) -> float:
        return float(pendulum.friction[joint] - abs(pendulum.accelerations(y[:2], y[2:], ways)[1][joint]))

    left.terminal, left.direction = True, -1  # type: ignore[attr-defined]
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=float, default=2e-3, help="standard deviation [rad]")
    parser.add_argument("--duration", type=float, default=4.0, help="[s]")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    times = np.arange(round(100 * options.duration) + 1) / 100
    angles = swing(Pendulum(), (np.pi / 2, 0.0), times)
    noise = options.noise * np.random.default_rng(0).standard_normal(angles.shape)
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time", "upper", "lower"])
        writer.writerows([f"{t:.2f}", *(f"{a:.5f}" for a in row)] for t, row in zip(times, angles + noise, strict=True))
    print(f"{options.out}: {len(times)} moments, largest angles {np.abs(angles).max(axis=0)} rad")


if __name__ == "__main__":
    main()
