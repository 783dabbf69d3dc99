"""A cloth in three layers that lies on the floor, here, in Newton's VBD and as a flex of MuJoCo where they are
installed: processor time of one thread, and how much closer layers are than their thickness.

    python benchmarks/contact_peers.py [cells along a side]

A square cloth (128 cells), folded in three, falls by half a centimetre and lies there a quarter of a second later; the
steps of the last part are timed.  All ends are looked at with the same lists.  Newton's XPBD knows no contact of
cloths with themselves.  The engines stretch a cloth by other laws: its mass, thickness and friction
are alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

import sim

CELL, GAP, HEIGHT, DENSITY, THICKNESS, EVERY, MU = 0.01, 0.004, 0.005, 0.2, 0.002, 4, 0.3
FALL, TIMED = 0.2, 0.05
OURS = (1, 1000), (2, 1000), (1, 2000)
NEWTONS = (5, 500), (10, 500)
MUJOCOS = (0.002, 0.01), (0.002, 0.004)


def mesh(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 3) [m], y up, and triangles, of a cloth folded in three."""
    u, v = np.meshgrid(np.arange(cells + 1) * CELL, np.arange(cells + 1) * CELL, indexing="ij")
    side = cells * CELL / 3
    layer, along = np.divmod(u, side)
    across = np.where(layer % 2 == 0, along, side - along)
    k, n = np.arange(cells * (cells + 1)).reshape(cells, -1)[:, :-1].ravel(), cells + 1
    faces = np.concatenate([np.stack([k, k + 1, k + n + 1], axis=1), np.stack([k, k + n + 1, k + n], axis=1)])
    return np.stack([across, HEIGHT + GAP * u / side, v], axis=-1).reshape(-1, 3), faces


def built(cells: int) -> sim.Model:
    """The cloth of ours."""
    at, faces = mesh(cells)
    made = sim.ModelBuilder(gravity=(0, -9.81, 0))
    made.add_cloth_mesh(at, faces, density=DENSITY, label="cloth",
                        material={"distance": {"compliance": 1e-5}})  # fmt: skip
    made.add_ground_plane(0.0, cfg=sim.ModelBuilder.ShapeConfig(mu=MU))
    made.add_self_contact(["cloth"], friction=MU, thickness=THICKNESS, every=EVERY,
                          capacity=100 * len(at))  # fmt: skip
    return made.finalize()


def show(name: str, taken: float, steps: int, rate: float, end: np.ndarray, model: sim.Model) -> None:
    """One line of the table; end: (n, 3), y up."""
    state = model.state()
    state.particle_q.assign(end)
    state.particle_qd.zero_()
    depth, _, _ = model.collide(state).pairs.deepest(state.particle_q)
    print(f"{name}: {1e3 * taken / steps:.1f} ms a step, {taken * rate / steps:.1f} s a second, layers up to"
          f" {1e3 * max(depth, 0.0):.3f} mm too close, lowest {1e3 * end[:, 1].min():.2f} mm", flush=True)  # fmt: skip


def timed(run: Callable[[int], object], rate: float) -> tuple[float, int]:
    """Processor time [s] of the last steps, and how many these are."""
    steps = round(TIMED * rate)
    run(round(FALL * rate))
    begin = time.process_time()
    run(steps)
    return time.process_time() - begin, steps


def ours(model: sim.Model) -> None:
    """With several numbers of sweeps and rates."""
    for sweeps, rate in OURS:
        solver, state = sim.SolverXPBD(model, iterations=sweeps), model.state()

        def run(steps: int, solver: sim.SolverXPBD = solver, rate: int = rate) -> None:
            nonlocal state
            state = sim.rollout(solver, state, steps, 1 / rate).final

        taken = timed(run, rate)
        show(f"sim, {sweeps} sweeps at {rate} Hz", *taken, rate, state.particle_q.numpy(), model)


def newton_does(cells: int, judge: sim.Model) -> None:
    """Its VBD, with several numbers of iterations and rates."""
    import newton
    import warp

    warp.config.quiet = True
    at, faces = mesh(cells)
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, -9.81, 0.0))
    builder.add_cloth_mesh(
        pos=warp.vec3(), rot=warp.quat_identity(), scale=1.0, vel=warp.vec3(), vertices=[warp.vec3(*p) for p in at],
        indices=faces.ravel().tolist(), density=DENSITY, tri_ke=1e4, tri_ka=1e4, tri_kd=1e-6, edge_ke=0.0,
        edge_kd=0.0, particle_radius=THICKNESS / 2,
    )  # fmt: skip
    builder.add_ground_plane()
    builder.color()
    with warp.ScopedDevice("cpu"):
        model = builder.finalize()
        model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 1e3, 1e-4, MU
        pipeline = newton.CollisionPipeline(model)
        for iterations, rate in NEWTONS:
            solver = newton.solvers.SolverVBD(
                model, iterations=iterations, particle_enable_self_contact=True,
                particle_self_contact_margin=THICKNESS, particle_self_contact_gap=THICKNESS / 2,
            )  # fmt: skip
            state, other = model.state(), model.state()
            given = model.control(), pipeline.contacts()

            def run(steps: int, solver: object = solver, rate: int = rate, given: tuple = given) -> None:
                nonlocal state, other
                for _ in range(steps):
                    state.clear_forces()
                    pipeline.collide(state, given[1])
                    solver.step(state, other, *given, 1 / rate)
                    state, other = other, state

            taken = timed(run, rate)
            end = state.particle_q.numpy().astype(float)
            show(f"Newton, VBD, {iterations} iterations at {rate} Hz", *taken, rate, end, judge)


def mujoco_does(cells: int, judge: sim.Model) -> None:
    """As a flex that keeps the lengths of its edges, with several stiffnesses of contact (`solref`)."""
    import mujoco

    at, faces = mesh(cells)
    points = " ".join(f"{a:.7g}" for a in at.ravel())
    for dt, soft in MUJOCOS:
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{dt}" gravity="0 -9.81 0"/><size memory="8G"/><worldbody>'
            f'<geom type="plane" size="50 50 1" zaxis="0 1 0" friction="{MU}"/>'
            f'<flexcomp name="cloth" type="direct" dim="2" mass="{DENSITY * (cells * CELL) ** 2}"'
            f' radius="{THICKNESS / 2}" point="{points}" element="{" ".join(map(str, faces.ravel()))}">'
            f'<contact selfcollide="bvh" solref="{soft} 1" friction="{MU}"/><edge equality="true" damping="0.01"/>'
            "</flexcomp></worldbody></mujoco>"
        )
        data = mujoco.MjData(model)
        taken = timed(lambda steps, m=model, d=data: mujoco.mj_step(m, d, steps), 1 / dt)
        show(f"MuJoCo, flex, {1e3 * dt:g} ms, solref {soft}", *taken, 1 / dt, data.flexvert_xpos.copy(), judge)


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    sim.set_num_threads(1)
    model = built(cells)
    ours(model)
    if find_spec("newton"):
        newton_does(cells, model)
    if find_spec("mujoco"):
        mujoco_does(cells, model)


if __name__ == "__main__":
    main()
