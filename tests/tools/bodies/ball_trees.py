"""Trees of bodies with ball joints, and their systems by hand, for tests of the direct solve."""

from __future__ import annotations

import numpy as np

import sim

BALLS = ("root", "joint")
ALL = (*BALLS, "tie")


def random_tree(
    seed: int,
    bodies: int = 6,
    compliance: float = 0.0,
    damping: float = 0.0,
    parts: tuple[str, ...] = ALL,
    worlds: int = 1,
    grad: bool = False,
) -> sim.Model:
    """Bodies hung on each other at random, masses from 0.1 to 10, the first one (`root`) on the world, the others by a
    `joint` each; a particle hangs on the last by a `tie`.  parts: which of these are there."""
    rng = np.random.default_rng(seed)
    b = sim.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    poses, joints = np.zeros((bodies, 7)), []
    for k in range(bodies):
        parent, arm, turn = -1 if k == 0 else int(rng.integers(k)), rng.normal(size=3), rng.normal(size=4)
        poses[k] = *((poses[parent, :3] if k else 0.0) + arm), *(turn / np.linalg.norm(turn))
        inertia = rng.uniform(0.05, 0.15) * np.array([1.0, 1.2, 1.5])
        speed, spin = rng.normal(size=3), 3.0 * rng.normal(size=3)
        b.add_body(poses[k], 10.0 ** rng.uniform(-1, 1), inertia, label=f"body{k}", velocity=speed, spin=spin)
        joints.append((parent, k, poses[k, :3] - 0.5 * arm))
    rows = [[seen(b, poses, parent, at), seen(b, poses, k, at)] for parent, k, at in joints]
    for label, own in (("root", rows[:1]), ("joint", rows[1:])):
        if label in parts:
            b.add_constraints("ball", own, compliance=compliance, damping=damping, label=label)
    particle = b.add_particle(poses[-1, :3] + [0.3, 0.0, 0.0], mass=0.5)
    if "tie" in parts:
        b.add_constraints("distance", [[b.point_of(bodies - 1), particle]], 1e-4, label="tie", rest=0.29)
    return (b.replicate(worlds) if worlds > 1 else b).finalize(dtype=sim.float64, requires_grad=grad)


def seen(b: sim.ModelBuilder, poses: np.ndarray, body: int, at: np.ndarray):
    """A place in the world as a point of a body."""
    if body < 0:
        return b.point_of(-1, at)
    return b.point_of(body, rotation(poses[body, 3:]).T @ (at - poses[body, :3]))


def rotation(q: np.ndarray) -> np.ndarray:
    """The matrix of a unit quaternion."""
    x, y, z, w = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def ball_system(model: sim.Model, poses: np.ndarray, start: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
    """Multipliers of all ball joints, by the name of their set: (J W D^T + alpha) lambda = -C, J at `poses` and D at
    `start`, solved by NumPy."""
    inv_mass = model.body_inv_mass.numpy()
    inv_inertia = model.body_inv_inertia.numpy()
    n, joints = len(poses), []
    W = np.zeros((6 * n, 6 * n))
    for k in range(n):
        turned = rotation(poses[k, 3:])
        W[6 * k : 6 * k + 3, 6 * k : 6 * k + 3] = inv_mass[k] * np.eye(3)
        W[6 * k + 3 : 6 * k + 6, 6 * k + 3 : 6 * k + 6] = turned @ inv_inertia[k] @ turned.T
    for name in ("ball@wa", "ball@ab"):
        made = model.constraint_sets[name]
        for k, pair in enumerate(made.points.numpy()):
            offsets = [made.placing[f"offset_{j}"].numpy()[k] for j in (0, 1)]
            joints.append((name, [-1 if made.slots.kinds[j] == "w" else pair[j] for j in (0, 1)], offsets))
    J, D = np.zeros((3 * len(joints), 6 * n)), np.zeros((3 * len(joints), 6 * n))
    C = np.zeros(3 * len(joints))
    for row, (_, bodies, offsets) in enumerate(joints):
        own = slice(3 * row, 3 * row + 3)
        for sign, body, offset in zip((-1.0, 1.0), bodies, offsets, strict=True):
            if body < 0:
                C[own] += sign * offset
                continue
            for out, where in ((J, poses), (D, start)):
                at, held = (body, offset) if bodies[0] < 0 else (bodies[0], offsets[0])  # both push at one place
                x, y, z = where[at, :3] + rotation(where[at, 3:]) @ held - where[body, :3]
                out[own, 6 * body : 6 * body + 3] = sign * np.eye(3)
                out[own, 6 * body + 3 : 6 * body + 6] = -sign * np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            C[own] += sign * (poses[body, :3] + rotation(poses[body, 3:]) @ offset)
    lam = np.linalg.solve(J @ W @ D.T + alpha * np.eye(len(C)), -C).reshape(-1, 3)
    names = np.array([name for name, *_ in joints])
    return {name: lam[names == name] for name in ("ball@wa", "ball@ab")}


@sim.kernel
def weighted(
    q: sim.array[sim.transformd], x: sim.array[sim.vec3d], w: sim.array[sim.vec3d], loss: sim.array[sim.float64]
):
    """Of poses and of particles."""
    i = sim.tid()
    if i < len(q):
        sim.atomic_add(loss, 0, sim.dot(w[i], q[i].p + sim.quat_rotate(q[i].q, w[i])))
    else:
        sim.atomic_add(loss, 0, sim.dot(w[i], x[i - len(q)]))


def loss_of(solver: sim.SolverXPBD, steps: int, dt: float, strategy=None) -> sim.array:
    """A number that depends on all poses after some steps."""
    model, rng = solver.model, np.random.default_rng(11)
    count = model.body_count + model.particle_count
    out = sim.zeros(1, sim.float64, requires_grad=True)
    end = sim.rollout(solver, model.state(), steps, dt, strategy=strategy).final
    w = sim.array(rng.normal(size=(count, 3)), dtype=sim.vec3d)
    sim.launch(weighted, count, [end.body_q, end.particle_q, w], [out])
    return out


def gradients(solver: sim.SolverXPBD, paths, steps: int = 3, dt: float = 1 / 120, strategy=None) -> dict:
    """The loss, and its gradient by material values."""
    for path in paths:
        solver.model[path].grad.zero_()
    with sim.Tape() as tape:
        loss = loss_of(solver, steps, dt, strategy)
    tape.backward(loss)
    return {"loss": loss.numpy().copy(), **{path: solver.model[path].grad.numpy().copy() for path in paths}}


def slope(solver: sim.SolverXPBD, path: str, direction: np.ndarray, steps: int = 3, dt: float = 1 / 120) -> float:
    """The derivative of the loss along a direction of a material value, by differences of fourth order."""
    value = solver.model[path]
    given = value.numpy().copy()
    found = []
    for k in (-2, -1, 1, 2):
        value.assign(given + k * direction)
        found.append(loss_of(solver, steps, dt).numpy()[0])
    value.assign(given)
    return (found[0] - 8 * found[1] + 8 * found[2] - found[3]) / 12
