"""Constraints on mixtures of particles, bodies and the world in random states, and their projection by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import sim
from sim.constraints import REGISTRY, Constraint
from sim.constraints.projection import parameter_struct, value_type
from sim.constraints.slots.bodies import body_struct, slot_struct, slot_types
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.projection import make_slot_projection
from sim.core.lang.types import float64, matrix, quaternion
from tools.constraints.samples import SEED, sample, values
from tools.physics.steps import central

DT = 0.2


# ------------------------------------------------------------------------------------------ rotations by NumPy
def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The Hamilton product of quaternions (x, y, z, w)."""
    u, v = a[:3], b[:3]
    return np.array([*(a[3] * v + b[3] * u + np.cross(u, v)), a[3] * b[3] - u @ v])


def exp(v: np.ndarray) -> np.ndarray:
    """The rotation by |v| about v."""
    half = np.linalg.norm(v) / 2
    return np.array([*(v * np.sinc(half / np.pi) / 2), np.cos(half)])


def log(q: np.ndarray) -> np.ndarray:
    """The rotation vector of a quaternion, of angle pi at most."""
    q = q if q[3] >= 0 else -q
    size = np.linalg.norm(q[:3])
    return q[:3] * (2 * np.arctan2(size, q[3]) / size if size else 2.0)


def inverse(q: np.ndarray) -> np.ndarray:
    return np.array([*-q[:3], q[3]])


def turned(q: np.ndarray) -> np.ndarray:
    """The rotation matrix of a unit quaternion."""
    return np.stack([product(product(q, np.array([*e, 0.0])), inverse(q))[:3] for e in np.eye(3)], axis=1)


def joint_values(c: Constraint, x: list[tuple[np.ndarray, np.ndarray]], p: dict[str, np.ndarray]) -> np.ndarray:
    """C of rows on frames (place, rotation), an independent statement of each."""
    (a, q), (b, r) = x
    d, between = turned(q).T @ (b - a), log(product(inverse(q), r))
    angle = 2 * np.arctan(product(inverse(q), r)[0] / product(inverse(q), r)[3])

    def outside(*sides: float) -> float:
        """Distance from where all of these are negative."""
        return float(np.linalg.norm(np.maximum(sides, 0.0)) + min(max(sides), 0.0))

    def ridge_side() -> float:
        start, end = (d + turned(q).T @ turned(r) @ (p["other_scale"] * p[name]) for name in ("a", "b"))
        across = np.cross([0.0, 0.0, 1.0], end - start)
        return float(across @ start / np.linalg.norm(across) - p["radius"])

    def rim_on_triangle() -> float:
        """The lowest place of a rim, or the one that is given."""
        one, two, three = (p["scale"] * p[name] for name in "abc")
        n = np.cross(two - one, three - one) / np.linalg.norm(np.cross(two - one, three - one))
        own, (x, y, up) = turned(q).T @ turned(r), p["corner"]
        height = float(n @ (d + own @ [0.0, 0.0, up * p["half_height"]] - one))
        if x or y:
            return height + p["radius"] * float(n @ own @ [x, y, 0.0])
        return height - p["radius"] * np.hypot(n @ own[:, 0], n @ own[:, 1])

    formulas: dict[str, Callable[[], object]] = {
        "contact_box": lambda: outside(*(np.abs(d) - p["half"])) - p["thickness"],
        "contact_capsule": lambda: (
            np.linalg.norm(d - [0, 0, np.clip(d[2], -p["half_height"], p["half_height"])])
            - p["radius"]
            - p["thickness"]
        ),
        "contact_cylinder": lambda: (
            outside(np.hypot(d[0], d[1]) - p["radius"], abs(d[2]) - p["half_height"]) - p["thickness"]
        ),
        "contact_ridge_side": ridge_side,
        "contact_rim_mesh": rim_on_triangle,
        "revolute": lambda: [*d, turned(q)[:, 0] @ turned(r)[:, 1], turned(q)[:, 0] @ turned(r)[:, 2]],
        "prismatic": lambda: [d[1], d[2], *between],
        "fixed": lambda: [*d, *between],
        "drive_angle": lambda: angle - p["target_pos"],
        "drive_distance": lambda: d[0] - p["target_pos"],
        "limit_angle": lambda: p["sign"] * (angle - p["limit"]),
        "limit_distance": lambda: p["sign"] * (d[0] - p["limit"]),
        "friction_angle": lambda: angle,
        "friction_distance": lambda: d[0],
    }
    return np.atleast_1d(np.asarray(formulas[c.name](), np.float64))


# ------------------------------------------------------------------------------------------ random states
@dataclass
class SlotSample:
    """n constraints of a pattern, each on movers of its own; host: all that a projection reads, by name.

    In the second constraint the last mover is held.
    """

    c: Constraint
    slots: Slots
    points: np.ndarray
    host: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: dict[tuple[tuple[bool, bool, bool], bool], sim.Kernel] = field(default_factory=dict)

    # -------------------------------------------------------------------------------------- by the compiler
    def arrays(self, host: dict[str, np.ndarray]) -> dict[str, sim.array]:
        real, vec3 = float64, sim.vec3d
        kinds = {
            "x": vec3, "x_ref": vec3, "w": real, "compliance": value_type(self.c, real), "damping": real,
            "multiplier": value_type(self.c, real), "inv_mass": real, "inv_inertia": matrix((3, 3), real),
            "body_x": vec3, "body_q": quaternion(real), "dx": vec3, "turn": quaternion(real), "impulse": vec3,
            **slot_types(self.c, self.slots, real), **{p.name: p.type(real) for p in self.c.parameters.values()},
        }  # fmt: skip
        return {n: sim.array(v, dtype=kinds[n], requires_grad=True) for n, v in host.items()}

    def launch(self, a: dict[str, sim.array], variant: tuple[bool, bool, bool], exclusive: bool = False) -> None:
        """variant: first, damped, along the gradients of the start."""
        kernel = self.kernels.get((variant, exclusive))
        if kernel is None:  # one of our own: others are kept, compiled
            kernel = make_slot_projection.__wrapped__(self.c, self.slots, float64, *variant, exclusive)
            self.kernels[variant, exclusive] = kernel
        placing = slot_struct(self.c, self.slots, float64)()
        data, bodies = parameter_struct(self.c, float64)(), body_struct(float64)()
        for made, names in ((placing, slot_types(self.c, self.slots, float64)), (data, self.c.parameters)):
            for name in names:
                setattr(made, name, a[name])
        bodies.inv_mass, bodies.inv_inertia, bodies.x, bodies.q = (
            a[n] for n in ("inv_mass", "inv_inertia", "body_x", "body_q")
        )
        points = sim.array(self.points, dtype=sim.int32)
        inputs = [0, points, placing, data, a["compliance"], a["damping"], a["w"], a["x_ref"], bodies, DT]
        moved = [a[n] for n in ("x", "dx", "turn", "impulse", "multiplier")]
        sim.launch(kernel, len(self.points), inputs, moved)

    # -------------------------------------------------------------------------------------- by NumPy
    def value(self, k: int, x: np.ndarray, poses: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """C of constraint k: x (particles, 3) of its own, poses of its bodies."""
        at: list[tuple[np.ndarray, np.ndarray]] = []
        for j, kind in enumerate(self.slots.kinds):
            if kind == "p":
                at.append((x[self.slots.particles.index(j)], exp(np.zeros(3))))
                continue
            place, q = self.host[f"offset_{j}"][k], exp(np.zeros(3))
            if kind != "w":
                center, q = poses[self.slots.body_of[j]]
                place = center + turned(q) @ place
            frame = self.host.get(f"frame_{j}")
            at.append((place, q if frame is None else product(q, frame[k])))
        parameters = {name: self.host[name][k] for name in self.c.parameters}
        if self.c.frames:
            return joint_values(self.c, at, parameters)
        if self.c.name == "ball":
            return at[1][0] - at[0][0]
        return values(self.c, np.array([place for place, _ in at]), parameters)

    def gradient(self, k: int, x: np.ndarray, poses: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """(rows, n) of C by places of particles, then places and turns of bodies, by differences.

        Of points that are to be one, `meeting`: forces that act where the particle is, or the first point."""
        n, m = x.size, len(poses)
        if self.c.meeting:
            signs, out = (-1.0, 1.0), np.zeros((3, n + 6 * m))
            own = [poses[of][0] + turned(poses[of][1]) @ self.host[f"offset_{j}"][k] if of >= 0 else None
                   for j, of in enumerate(self.slots.body_of)]  # fmt: skip
            meet = x[0] if n else None if "w" in self.slots.kinds else own[0]
            for j, of in enumerate(self.slots.body_of):
                force = signs[j] * np.eye(3)
                if self.slots.kinds[j] == "p":
                    at = 3 * self.slots.particles.index(j)
                    out[:, at : at + 3] += force
                elif of >= 0:
                    out[:, n + 6 * of : n + 6 * of + 3] += force
                    out[:, n + 6 * of + 3 : n + 6 * of + 6] += np.cross(
                        (own[j] if meet is None else meet) - poses[of][0], force
                    )
            return out

        def moved(step: np.ndarray) -> np.ndarray:
            by = step[n:].reshape(m, 6)
            there = [(p + s[:3], product(exp(s[3:]), q)) for s, (p, q) in zip(by, poses, strict=True)]
            return self.value(k, x + step[:n].reshape(-1, 3), there)

        zero, unit = np.zeros(n + 6 * m), np.eye(n + 6 * m)
        return np.array(
            [[central(lambda s, r=r: moved(s)[r], zero, e, 1e-4) for e in unit] for r in range(self.c.rows)]
        )

    def projected(self, variant: tuple[bool, bool, bool]) -> dict[str, np.ndarray]:
        """What a projection leaves, by the formulas."""
        first, damped, begin = variant
        c, out = self.c, {n: self.host[n].copy() for n in ("x", "dx", "turn", "impulse", "multiplier")}
        for k, row in enumerate(self.points):
            ps, bs = row[list(self.slots.particles)], row[[own[0] for own in self.slots.bodies]]
            begun = [(self.host["body_x"][b], self.host["body_q"][b]) for b in bs]
            poses = [
                (p + self.host["dx"][b], product(self.host["turn"][b], q)) for b, (p, q) in zip(bs, begun, strict=True)
            ]
            x = self.host["x"][ps]
            G, C = self.gradient(k, x, poses), self.value(k, x, poses)
            W = np.zeros((G.shape[1],) * 2)
            for i, p in enumerate(ps):
                W[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = self.host["w"][p] * np.eye(3)
            for i, (b, (_, q)) in enumerate(zip(bs, poses, strict=True)):
                at, R = 3 * len(ps) + 6 * i, turned(q)
                W[at : at + 3, at : at + 3] = self.host["inv_mass"][b] * np.eye(3)
                W[at + 3 : at + 6, at + 3 : at + 6] = R @ self.host["inv_inertia"][b] @ R.T
            alpha = np.atleast_1d(self.host["compliance"][k]) / DT**2
            stiff, gamma = np.array(c.elastic, float), np.array(c.damped) * (self.host["damping"][k] / DT * damped)
            if c.driven:
                stiff, gamma = self.host["target_ke"][[k]], self.host["target_kd"][[k]] / DT
                alpha = np.ones(1) / DT**2
            if c.limited and not any(c.elastic):
                gamma = np.ones(1)
            D = G
            if begin and not c.unilateral and not c.driven and any(c.elastic):
                acting = np.array([r in c.active(damped) for r in range(c.rows)])
                own = np.einsum("ij,jk,ik->i", G, W, G)
                for vector in (np.array(v) for v in c.vectors):
                    own[vector] = own[vector][acting[vector]].mean()
                own += alpha
                s = np.divide(alpha, own, out=np.zeros_like(own), where=own > 0)
                D = self.gradient(k, self.host["x_ref"][ps], begun)
                D = D + s[:, None] * (G - D)
            since = [(x - self.host["x_ref"][ps]).ravel()]
            since += [v for b in bs for v in (self.host["dx"][b], log(self.host["turn"][b]))]
            before = np.zeros(c.rows) if first else np.atleast_1d(self.host["multiplier"][k])
            rate = G @ np.concatenate(since)
            if "target_vel" in c.parameters:
                rate -= DT * self.host["target_vel"][k]
            residual = stiff * C + gamma * rate + alpha * before
            A = (stiff + gamma)[:, None] * (G @ W @ D.T) + np.diag(alpha)
            step = -np.linalg.solve(A, residual) if W.any() else np.zeros(c.rows)
            if c.unilateral:
                step = np.maximum(step, -before)
            if c.limited:
                most, given = self.host[c.limited][k] * DT**2, 0.0
                if "turned" in c.parameters:
                    given = most * self.host["turned"][k]
                    most -= abs(given)
                step = np.clip(step, given - most - before, given + most - before)
            self._move(out, k, (ps, bs), W @ (D.T @ step), D.T @ step)
            out["multiplier"][k] = (before + step).reshape(out["multiplier"][k].shape)
        return out

    def _move(
        self,
        out: dict[str, np.ndarray],
        k: int,
        movers: tuple[np.ndarray, np.ndarray],
        by: np.ndarray,
        pushed: np.ndarray,
    ) -> None:
        ps, bs = movers
        out["x"][ps] += by[: 3 * len(ps)].reshape(-1, 3)
        for i, b in enumerate(bs):
            at = 3 * len(ps) + 6 * i
            out["dx"][b] += by[at : at + 3]
            out["turn"][b] = product(exp(by[at + 3 : at + 6]), out["turn"][b])
            out["impulse"][b] += pushed[at + 3 : at + 6] * (self.host["inv_mass"][b] > 0)


def slot_sample(name: str, kinds: str, count: int = 2, seed: int = SEED) -> SlotSample:
    """Random constraints of this name on slots of this pattern."""
    c, slots, rng = REGISTRY[name], Slots(kinds), np.random.default_rng([seed, *map(ord, name + kinds)])
    n_p, n_b = len(slots.particles), len(slots.bodies)
    points = np.zeros((count, c.points), np.int32)
    for k in range(count):
        for j in range(c.points):
            if kinds[j] == "p":
                points[k, j] = k * n_p + slots.particles.index(j)
            elif slots.body_of[j] >= 0:
                points[k, j] = k * n_b + slots.body_of[j]
    bodies, particles = max(count * n_b, 1), max(count * n_p, 1)
    roots = rng.normal(size=(bodies, 3, 3))
    host = {
        "x": rng.normal(size=(particles, 3)),
        "w": rng.uniform(0.5, 2.0, size=particles),
        "inv_mass": rng.uniform(0.5, 2.0, size=bodies),
        "inv_inertia": 0.3 * np.einsum("kij,klj->kil", roots, roots) + 0.3 * np.eye(3),
        "body_x": rng.normal(size=(bodies, 3)),
        "body_q": np.array([exp(v) for v in rng.normal(size=(bodies, 3))]),
        "dx": 0.05 * rng.normal(size=(bodies, 3)),
        "turn": np.array([exp(v) for v in 0.1 * rng.normal(size=(bodies, 3))]),
        "impulse": 0.1 * rng.normal(size=(bodies, 3)),
        "damping": rng.uniform(0.01, 0.1, size=count),
    }
    if n_p + n_b > 1:  # the last mover of the second constraint is held
        if n_b:
            host["inv_mass"][-1], host["inv_inertia"][-1] = 0.0, 0.0
        else:
            host["w"][-1] = 0.0
    made = SlotSample(c, slots, points, host)
    if name in ("ball",) or c.frames:
        at = 0.3 * rng.normal(size=(count, c.points, 3))
        for p in c.parameters.values():
            host[p.name] = rng.uniform(0.2, 1.0, size=(count, *p.shape))
        for key in {"sign", "side", "live"} & set(host):
            host[key] = np.ones(count)
        if "sector" in host:
            host["corner"][0, :2] = 0.0
    else:
        of = sample(name, count, seed)
        at = of.x[of.points]
        host.update(of.parameters)
    common = [exp(v) for v in rng.normal(size=(count, 3))]
    for j, kind in enumerate(kinds):
        for k in range(count):
            if kind == "p":
                host["x"][points[k, j]] = at[k, j]
                continue
            offset, frame = at[k, j], product(exp(0.3 * rng.normal(size=3)), common[k])
            if kind != "w":
                b = points[k, j]
                q = product(host["turn"][b], host["body_q"][b])
                offset = turned(q).T @ (offset - host["body_x"][b] - host["dx"][b])
                frame = product(inverse(q), frame)
            host.setdefault(f"offset_{j}", np.zeros((count, 3)))[k] = offset
            if j in c.frames:
                host.setdefault(f"frame_{j}", np.zeros((count, 4)))[k] = frame
    host["x_ref"] = host["x"] + 0.05 * rng.normal(size=host["x"].shape)
    shape = count if c.rows == 1 else (count, c.rows)
    host["compliance"] = rng.uniform(0.1, 1.0, size=shape) * 0.1
    host["multiplier"] = rng.uniform(-0.02, 0.02, size=shape)
    if c.unilateral:
        host["multiplier"] = np.abs(host["multiplier"])
    return made
