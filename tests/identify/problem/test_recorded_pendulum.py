"""A double pendulum as laboratories have it: centres of mass beside the links, viscous and dry friction, a camera that
leans, chaos.  Its recording comes from SciPy, and is compared by windows whose starts are sought with the rest."""

import csv
import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sim.cli.command import main

G, LENGTH, MASSES = 9.81, 0.174, (0.12, 0.09)
CENTRES = 0.004 - 0.085j, -0.003 - 0.07j  # x + i y in the frames of the links, whose origins are their upper hinges
INERTIAS, VISCOUS, DRY = (4e-4, 2.2e-4), (1e-4, 4e-5), (5e-4, 2e-4)
LEAN, NOISE = 0.02, 2e-3
STARTS = 0.0, 1.3, 2.6

SCENE = """\
format: 2
time: {duration: 0.45, fps: 200, substeps: 6}
solver: {xpbd: {direct: [shoulder, elbow]}}
objects:
  upper: {body: {mass: 0.12, com: [0, -0.087, 0], inertia: [3e-4, 3e-4, 3e-4], sites: {a: [0, 0, 0], b: [0, -0.1, 0]}}}
  lower: {body: {mass: 0.09, com: [0, -0.07, 0], inertia: [2e-4, 2e-4, 2e-4], sites: {a: [0, 0, 0], b: [0, -0.1, 0]}}}
joints:
  shoulder:
    {revolute: {axis: [0, 0, 1]}, child: upper, parent_at: [0, 0, 0], child_at: [0, 0, 0],
     friction: 1e-4, drive: {damping: 5e-5}, start: {}}
  elbow:
    {revolute: {axis: [0, 0, 1]}, parent: upper, child: lower, parent_at: [0, -0.17, 0], child_at: [0, 0, 0],
     friction: 1e-4, drive: {damping: 5e-5}, start: {}}
markers:
  upper: {on: upper, where: {all: true}}
  lower: {on: lower, where: {all: true}}
experiments:
  WINDOWS
parameters:
  length: {of: {joints.elbow.parent_at.1: -1}, bounds: [0.1, 0.3]}
  upper_x: {of: objects.upper.body.com.0, scale: 0.01}
  upper_y: {of: objects.upper.body.com.1, scale: 0.01}
  lower_x: {of: objects.lower.body.com.0, scale: 0.01}
  upper_inertia: {of: objects.upper.body.inertia.2, bounds: [1e-5, 5.9e-4]}
  lower_inertia: {of: objects.lower.body.inertia.2, bounds: [1e-5, 3.9e-4]}
  upper_viscous: {of: joints.shoulder.drive.damping, bounds: [0, null], scale: 1e-4}
  lower_viscous: {of: joints.elbow.drive.damping, bounds: [0, null], scale: 1e-4}
  upper_dry: {of: joints.shoulder.friction, bounds: [0, null], scale: 1e-4}
  lower_dry: {of: joints.elbow.friction, bounds: [0, null], scale: 1e-4}
  sideways: {of: world.gravity.0, scale: 0.1}
  a: {of: joints.shoulder.start.position, per: experiment, scale: 0.01}
  b: {of: joints.elbow.start.position, per: experiment, scale: 0.01}
  u: {of: joints.shoulder.start.speed, per: experiment, scale: 1}
  v: {of: joints.elbow.start.speed, per: experiment, scale: 1}
loss:
  - {angle: {marker: upper, about: [0, 0, 1], from: [0, -1, 0]}}
  - {angle: {marker: lower, about: [0, 0, 1], from: [0, -1, 0]}}
optimize:
  horizon: [0.15 s, all]
  stop: {patience: 3}
"""
WINDOW = """{name}:
    angles: {{file: take.csv, start: {start:g}, noise: 2e-3 rad}}
    set:
      joints.shoulder.start.position: {q[0]:.4f}
      joints.elbow.start.position: {q[1]:.4f}
      joints.shoulder.start.speed: {v[0]:.3f}
      joints.elbow.start.speed: {v[1]:.3f}
  """


def rates(_: float, y: np.ndarray) -> np.ndarray:
    """Of the angles of both links from below, and of their rates; Lagrange's equations, dry friction smoothed below
    2 mrad/s."""
    elbow, (m1, m2), (c1, c2) = -1j * LENGTH, MASSES, CENTRES
    a, b, turned = y[0], y[1], np.array([y[2], y[3] - y[2]])
    cross = m2 * elbow * np.conj(c2) * np.exp(1j * (a - b))
    friction = np.array(VISCOUS) * turned + np.array(DRY) * turned / np.hypot(turned, 2e-3)
    matrix = [[m1 * abs(c1) ** 2 + INERTIAS[0] + m2 * LENGTH**2, cross.real],
              [cross.real, m2 * abs(c2) ** 2 + INERTIAS[1]]]  # fmt: skip
    weight = G * np.array([((m1 * c1 + m2 * elbow) * np.exp(1j * a)).real, (m2 * c2 * np.exp(1j * b)).real])
    carried = cross.imag * np.array([-(y[3] ** 2), y[2] ** 2])
    return np.append(y[2:], np.linalg.solve(matrix, carried - weight - friction + [friction[1], 0.0]))


def swung(start: list[float], duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and both angles (n, 2), at 200 Hz."""
    times = np.arange(round(200 * duration) + 1) / 200
    found = solve_ivp(rates, (0, duration), start, "DOP853", t_eval=times, rtol=1e-9, atol=1e-10)
    return times, found.y[:2].T


@pytest.mark.slow  # 60 s of CPU
def test_lengths_centres_inertia_and_friction_from_windows_of_a_chaotic_take(tmp_path):
    start = [2.4, 2.9, 0.3, -0.5]
    times, angles = swung(start, 4.0)
    _, beside = swung([2.4, 2.9 + 1e-8, 0.3, -0.5], 4.0)
    assert np.abs(beside - angles)[-1].max() > 1e-5  # a thousandfold in the take
    seen = angles + LEAN + NOISE * np.random.default_rng(1).normal(size=angles.shape)
    with (tmp_path / "take.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["time", "upper", "lower"], *np.column_stack([times, seen]).tolist()])
    windows = ""
    for k, begin in enumerate(STARTS):  # first guesses: straight lines through five samples
        near = np.abs(times - begin) < 0.0101
        fit = np.polyfit(times[near] - begin, seen[near], 1)
        speed, place = (np.array([row[0], row[1] - row[0]]) for row in fit)
        windows += WINDOW.format(name=f"w{k}", start=begin, q=np.angle(np.exp(1j * place)), v=speed)
    (tmp_path / "scene.yaml").write_text(SCENE.replace("WINDOWS\n", windows.rstrip() + "\n"))
    run = ["run", str(tmp_path / "scene.yaml"), "--out", str(tmp_path / "out"), "--no-numerics", "--quiet"]
    assert main(run) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["method"] == "gauss_newton"  # by the numbers that one window depends on
    truth = {
        "length": (LENGTH, 0.005), "upper_x": (0.004, 0.001), "upper_y": (-0.085, 0.001), "lower_x": (-0.003, 3e-4),
        "upper_inertia": (4e-4, 1e-5), "lower_inertia": (2.2e-4, 2e-6), "sideways": (G * np.sin(LEAN), 0.02),
    }  # fmt: skip
    for name, (value, within) in truth.items():
        found = result["parameters"][name]
        print(name, found["final"], "+-", found["standard_error"], "true", value)
        assert abs(found["final"] - value) < min(within, 4 * found["standard_error"] + 0.002 * abs(value))
    friction = [note for note in result["notes"] if "viscous" in note and "dry" in note and "told apart" in note]
    assert friction, result["notes"]
