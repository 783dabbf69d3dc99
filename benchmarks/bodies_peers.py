"""A row of links on ball joints that is let go: how far engines are from the truth, and what a step of theirs costs.

The truth is that of the equations of motion in angles, by SciPy's DOP853.  Each peer as its users would run it, on one
thread: MuJoCo's C engine (minimal coordinates) with all of its integrators, Newton's SolverXPBD on Warp's CPU device.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

G = 9.81
PEERS = ("mujoco", "newton")


def link_inertia(links: int) -> np.ndarray:
    """About the centre of a link of a row of 1 m and 1 kg, about its three axes [kg m^2]."""
    return np.array([0.1, 1.0, 1.0]) / (12 * links**3)


def truth(links: int, seconds: float) -> np.ndarray:
    """(links, 3) centres of the links after so many seconds, from a row along x at rest."""
    length, mass, inertia = 1 / links, 1 / links, link_inertia(links)[2]
    k = np.arange(links)
    behind = links - 0.5 - np.maximum.outer(k, k)
    coupling = mass * length**2 * behind
    diagonal = mass * length**2 * (links - 0.75 - k) + inertia
    pull = -G * mass * length * (links - 0.5 - k)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        angle, speed = y[:links], y[links:]
        apart = np.subtract.outer(angle, angle)
        m = coupling * np.cos(apart)
        np.fill_diagonal(m, diagonal)
        forces = pull * np.cos(angle) - (coupling * np.sin(apart)) @ speed**2
        return np.concatenate([speed, np.linalg.solve(m, forces)])

    solved = solve_ivp(rate, (0, seconds), np.zeros(2 * links), method="DOP853", rtol=1e-12, atol=1e-12)
    angle = solved.y[:links, -1]
    along = length * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    return np.cumsum(along, axis=0) - 0.5 * along


def distance(found: np.ndarray, true: np.ndarray) -> float:
    """Root of the mean square of the distances [m]; infinite where a run has failed."""
    error = math.sqrt(float(((found - true) ** 2).sum(1).mean()))
    return error if math.isfinite(error) else math.inf


@dataclass(frozen=True)
class Engine:
    """run(rate, seconds): centres of the links of one pendulum, and processor seconds of a step of one pendulum."""

    name: str
    run: Callable[[int, float], tuple[np.ndarray, float]]


def engines(links: int, worlds: int) -> list[Engine]:
    """The peers that are installed."""
    makers = {"mujoco": _mujoco, "newton": _newton}
    return [
        engine
        for name, make in makers.items()
        if importlib.util.find_spec(name) is not None
        for engine in make(links, worlds)
    ]


def _mujoco(links: int, worlds: int) -> list[Engine]:
    """One pendulum, whose data stay in the cache, stepped by a loop in C: a thousand one after the other cost more."""
    import mujoco

    mujoco.set_mju_user_warning(lambda _: None)  # of runs that fail: else it writes a file
    length, (a, b, c) = 1 / links, link_inertia(links)

    def model(rate: int, integrator: str) -> Any:
        tree = "".join(
            f'<body pos="{length if k else 0} 0 0"><joint type="ball"/>'
            f'<inertial pos="{length / 2} 0 0" mass="{1 / links}" diaginertia="{a} {b} {c}"/>'
            for k in range(links)
        )
        return mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{1 / rate}" gravity="0 {-G} 0" integrator="{integrator}">'
            f'<flag contact="disable"/></option><worldbody>{tree}{"</body>" * links}</worldbody></mujoco>'
        )

    def make(integrator: str) -> Engine:
        def run(rate: int, seconds: float) -> tuple[np.ndarray, float]:
            m, steps, costs = model(rate, integrator), round(seconds * rate), []
            d = mujoco.MjData(m)
            for _ in range(max(3, 2000 // steps)):
                mujoco.mj_resetData(m, d)
                begun = time.process_time()
                mujoco.mj_step(m, d, nstep=steps)
                costs.append((time.process_time() - begun) / steps)
            mujoco.mj_kinematics(m, d)
            return d.xipos[1:].copy(), min(costs)

        return Engine(f"MuJoCo {mujoco.__version__}, {integrator}", run)

    return [make(integrator) for integrator in ("Euler", "implicitfast", "RK4")]


def _newton(links: int, worlds: int) -> list[Engine]:
    """All worlds in one model; the solver with its own number of iterations."""
    import newton
    import warp as wp

    wp.config.quiet = True
    gravity, length = (0.0, -G, 0.0), 1 / links
    still, inertia = wp.quat_identity(), wp.mat33(*np.diag(link_inertia(links)).ravel().tolist())
    one, joints, before = newton.ModelBuilder(gravity=gravity), list[int](), -1
    for k in range(links):
        body = one.add_link(xform=wp.transform(((k + 0.5) * length, 0, 0), still), mass=1 / links, inertia=inertia)
        ends = (0.5 * length if k else 0.0, 0, 0), (-0.5 * length, 0, 0)
        parent, child = (wp.transform(end, still) for end in ends)
        joints.append(one.add_joint_ball(parent=before, child=body, parent_xform=parent, child_xform=child))
        before = body
    one.add_articulation(joints)
    many = newton.ModelBuilder(gravity=gravity)
    many.replicate(one, worlds)
    model = many.finalize(device="cpu")
    solver = newton.solvers.SolverXPBD(model)

    def run(rate: int, seconds: float) -> tuple[np.ndarray, float]:
        now, after, control, costs = model.state(), model.state(), model.control(), []
        for _ in range(round(seconds * rate)):
            begun = time.process_time()
            now.clear_forces()
            solver.step(now, after, control, None, 1 / rate)
            now, after = after, now
            costs.append(time.process_time() - begun)
        return now.body_q.numpy()[:links, :3], float(np.median(costs)) / worlds

    return [Engine(f"Newton {newton.__version__}, SolverXPBD", run)]
