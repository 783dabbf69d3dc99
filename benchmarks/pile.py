"""What a pyramid of boxes costs, here, in MuJoCo and in Newton where they are installed: processor time, penetration
and drift; and what the gradient of a small one does.

    python benchmarks/pile.py [rows] [boxes in the lowest row]

16 rows on 20 boxes are 200.  A second passes first, the next is timed, on one thread, in float64 as MuJoCo and in
float32, which is the default.  Penetration is the most that a row has come nearer to the one below, drift the most that
a box has moved sideways.  The gradient is of 4 rows on 5, by where and how fast all boxes begin.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from itertools import product

import numpy as np

import sim

HALF, GAP, MU, DENSITY = 0.05, 0.004, 0.5, 700.0
OURS = (1, 400), (1, 600), (2, 300), (2, 400), (2, 600), (4, 600)
THEIRS = (0.002, 0.02), (0.002, 0.005), (0.001, 0.002)
NEWTONS = (2, 600), (8, 600), (8, 1200)


def places(rows: int, base: int) -> np.ndarray:
    """Of the middles of the boxes, row by row."""
    return np.array([[(c + 0.5 * r) * (4 * HALF + GAP), (2 * r + 1) * HALF, 0] for r in range(rows)
                     for c in range(base - r)])  # fmt: skip


def show(name: str, taken: float, steps: int, begun: np.ndarray, end: np.ndarray, rows: int, base: int) -> None:
    """One line of the table."""
    first = np.cumsum([0, *(base - r for r in range(rows))])
    drop = [np.max((begun - end)[a:b, 1]) for a, b in zip(first, first[1:], strict=False)]
    deep, drift = np.diff([0.0, *drop]).max(), np.abs((end - begun)[:, [0, 2]]).max()
    print(f"{name}: {taken:.2f} s a second, {1e3 * taken / steps:.2f} ms a step, penetration {1e3 * deep:.3f} mm,"
          f" drift {1e3 * drift:.3f} mm", flush=True)  # fmt: skip


def pyramid(rows: int, base: int, dtype: type = sim.float64, requires_grad: bool = False) -> sim.Model:
    """The boxes on a plane."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    config = sim.ModelBuilder.ShapeConfig(density=DENSITY, mu=MU)
    builder.add_ground_plane(0.0, cfg=config)
    for k, place in enumerate(places(rows, base)):
        builder.add_body(list(place), label=f"b{k}")
        builder.add_shape_box(k, None, 2 * HALF, HALF, HALF, cfg=config)
    return builder.finalize(dtype=dtype, requires_grad=requires_grad)


def ours(rows: int, base: int) -> None:
    """With several numbers of sweeps."""
    models, begun = {"float64": pyramid(rows, base), "float32": pyramid(rows, base, sim.float32)}, places(rows, base)
    for (sweeps, rate), (real, model) in product(OURS, models.items()):
        solver = sim.SolverXPBD(model, iterations=sweeps)
        state = sim.rollout(solver, model.state(), rate, 1 / rate).final
        begin = time.process_time()
        state = sim.rollout(solver, state, rate, 1 / rate).final
        taken = time.process_time() - begin
        end = state.body_q.numpy()[:, :3].astype(float)
        show(f"sim, {real}, {sweeps} sweeps at {rate} Hz", taken, rate, begun, end, rows, base)


def gradient(rows: int = 4, base: int = 5, steps: int = 40) -> None:
    """Of two sweeps at 600 Hz, the least of some."""
    model = pyramid(rows, base, requires_grad=True)
    solver, dt, taken = sim.SolverXPBD(model, iterations=2), 1 / 600, []
    state = sim.rollout(solver, model.state(), 300, dt).final
    for _ in range(12):
        times = [time.process_time()]
        sim.rollout(solver, state, steps, dt)
        times.append(time.process_time())
        with sim.Tape() as tape:
            end = sim.rollout(solver, state, steps, dt).final
        times.append(time.process_time())
        tape.backward(grads={end.body_q: sim.array(np.ones((model.body_count, 7)), dtype=end.body_q.dtype)})
        times.append(time.process_time())
        tape.zero()
        taken.append(np.diff(times))
    forward, recorded, back = 1e3 * np.min(taken, axis=0) / steps
    print(f"sim, {model.body_count} boxes: {forward:.2f} ms a step, recorded {recorded:.2f}, back {back:.2f},"
          f" {back / forward:.1f} times the step", flush=True)  # fmt: skip


def mujoco_does(rows: int, base: int) -> None:
    """With several steps and stiffnesses of contact (`solref`)."""
    import mujoco

    begun = places(rows, base)
    for dt, soft in THEIRS:
        of = f'friction="{MU}" solref="{soft} 1"'
        box = f'<freejoint/><geom type="box" size="{2 * HALF} {HALF} {HALF}" density="{DENSITY}" {of}/>'
        bodies = "".join(f'<body pos="{x} {y} {z}">{box}</body>' for x, y, z in begun)
        floor = f'<geom type="plane" size="50 50 1" zaxis="0 1 0" {of}/>'
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{dt}" gravity="0 -9.81 0"/><size memory="200M"/>'
            f"<worldbody>{floor}{bodies}</worldbody></mujoco>"
        )
        data, steps = mujoco.MjData(model), round(1 / dt)
        mujoco.mj_step(model, data, steps)
        begin = time.process_time()
        mujoco.mj_step(model, data, steps)
        show(f"MuJoCo, {1e3 * dt:g} ms, solref {soft}", time.process_time() - begin, steps, begun, data.xpos[1:],
             rows, base)  # fmt: skip


def newton_does(rows: int, base: int) -> None:
    """Its XPBD, with several numbers of iterations and rates, and detection in every step."""
    import newton
    import warp

    warp.config.quiet = True
    begun, config = places(rows, base), newton.ModelBuilder.ShapeConfig(density=DENSITY, mu=MU)
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, -9.81, 0.0))
    builder.add_ground_plane(cfg=config)
    for place in begun:
        body = builder.add_body(xform=warp.transform(place, warp.quat_identity()))
        builder.add_shape_box(body, hx=2 * HALF, hy=HALF, hz=HALF, cfg=config)
    with warp.ScopedDevice("cpu"):
        model = builder.finalize()
        for sweeps, rate in NEWTONS:
            solver = newton.solvers.SolverXPBD(model, iterations=sweeps)
            state, other, control, contacts = model.state(), model.state(), model.control(), model.contacts()
            for timed in (False, True):
                begin = time.process_time()
                for _ in range(rate):
                    state.clear_forces()
                    model.collide(state, contacts)
                    solver.step(state, other, control, contacts, 1 / rate)
                    state, other = other, state
                taken = time.process_time() - begin
                if timed:
                    end = state.body_q.numpy()[:, :3].astype(float)
                    show(f"Newton, XPBD, {sweeps} iterations at {rate} Hz", taken, rate, begun, end, rows, base)


def main() -> None:
    rows, base = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (16, 20)
    sim.set_num_threads(1)
    ours(rows, base)
    gradient()
    if find_spec("mujoco"):
        mujoco_does(rows, base)
    if find_spec("newton"):
        newton_does(rows, base)


if __name__ == "__main__":
    main()
