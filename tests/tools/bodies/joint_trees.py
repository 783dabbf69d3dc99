"""Random trees of joints with all that acts on them, in families that share their kernels, and their gradients against
differences."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sim
from tools.constraints.slots import exp, turned

DT = 1 / 100


@dataclass(frozen=True)
class Family:
    """Trees whose joints are of some kinds, and how they are stepped: many seeds, the same kernels.

    root: the joint to the world, or "held": a ball joint to a body that is moved; along: drives, limits and friction on
    hinges and sliders; soft: compliance and damping in all rows, else some are rigid; beads: particles on the bodies.
    """

    kinds: tuple[str, ...]
    root: str
    settings: dict[str, Any] = field(default_factory=dict)
    along: bool = True
    soft: bool = False
    beads: bool = True
    bodies: int = 3
    direct: bool = False


FAMILIES = {
    "hinges": Family(("revolute",), "revolute"),
    "sliders": Family(("prismatic", "ball"), "prismatic", {"iterations": 2}),
    "damped": Family(("revolute", "prismatic"), "fixed", soft=True),
    "plain": Family(("ball", "fixed", "distance"), "ball", {"iterations": 2}, along=False),
    "at the end": Family(("revolute", "distance"), "distance", {"direction": "end"}),
    "direct": Family(("revolute", "prismatic", "ball"), "revolute", direct=True),
    "direct, damped": Family(("ball", "fixed"), "fixed", direct=True, along=False, soft=True),
    "held": Family(("revolute", "ball"), "held", along=False),
}


def random_inertia(rng: np.random.Generator) -> np.ndarray:
    """Of a distribution of mass, (3, 3)."""
    root = rng.normal(size=(3, 3))
    spread = 0.01 * (root @ root.T + 2 * np.eye(3))
    return np.asarray(np.trace(spread) * np.eye(3) - spread)


def along_axis(rng: np.random.Generator, name: str) -> dict[str, Any]:
    """A drive, perhaps with targets over time and a largest effort; limits, hard or soft, near the start; friction."""
    reach = 0.3 if name == "revolute" else 0.05
    stiffness = float(10.0 ** rng.uniform(0, 2)) / reach
    given = rng.random(2) < 0.8
    found: dict[str, Any] = {
        "target_pos": reach * rng.normal(),
        "target_vel": reach * rng.normal(),
        "target_ke": stiffness * given[0],
        "target_kd": 0.05 * stiffness * rng.random() * given[1],
        "friction": float(rng.uniform(0.05, 1.0)) * (rng.random() < 0.7),
        "limit_lower": -0.02 * rng.random(),
        "limit_upper": 0.02 * rng.random(),
    }
    if rng.random() < 0.5:
        found["limit_ke"], found["limit_kd"] = 100.0 * stiffness, stiffness
    if rng.random() < 0.5:
        found["effort_limit"] = 0.2 * stiffness * reach
    if rng.random() < 0.5:
        ease = "smooth" if rng.random() < 0.5 else "linear"
        found["target_keys"] = {"times": [-0.01, 0.016, 0.05], "values": reach * rng.normal(size=3), "ease": ease}
    return found


def softness(rng: np.random.Generator, kind: str, soft: bool) -> dict[str, Any]:
    """One compliance, or two; at least one of them is 0, unless all are damped."""
    names = ["linear_compliance", "angular_compliance"] if kind in ("revolute", "prismatic", "fixed") else []
    names = names if names and rng.random() < 0.5 else ["compliance"]
    given: dict[str, Any] = {name: float(rng.uniform(1e-4, 1e-3)) for name in names}
    if soft:
        return {**given, "damping": float(rng.uniform(0.0, 0.03))}
    rigid = rng.random() < 0.5 or len(names) == 2
    return {**given, str(rng.choice(names)): 0.0} if rigid else given


def random_joints(seed: int, of: Family) -> sim.ModelBuilder:
    """Bodies with random inertia in random places that move at random, a tree of joints that hold as it starts."""
    rng = np.random.default_rng([20261123, seed, len(of.kinds)])
    builder = sim.ModelBuilder(gravity=5 * rng.normal(size=3))
    places = [0.4 * rng.normal(size=3) for _ in range(of.bodies)]
    for k, place in enumerate(places):
        builder.add_body(
            [*place, *exp(rng.normal(size=3))],
            mass=10.0 ** rng.uniform(-0.5, 0.5),
            inertia=random_inertia(rng),
            com=0.1 * rng.normal(size=3),
            label=f"body{k}",
            velocity=0.3 * rng.normal(size=3),
            spin=rng.normal(size=3),
        )
    if of.root == "held":
        motion = [{"move": 0.1 * rng.normal(size=3), "end": 0.1}, {"turn": rng.normal(size=3), "end": 0.1}]
        hand = builder.add_body([*(places[0] + 0.3), 0, 0, 0, 1], mass=0.0, label="hand", motion=motion)
    for k in range(of.bodies):
        parent = int(rng.integers(0, k)) if k else -1
        kind = str(rng.choice(of.kinds)) if k else of.root
        if kind == "held":
            parent, kind = hand, "ball"
        at, turn = places[k] + 0.2 * rng.normal(size=3), exp(rng.normal(size=3))
        frames = builder.joint_frames(parent, k, at, turn)
        values = {"label": f"joint{k}", **softness(rng, kind, of.soft)}
        if kind in ("revolute", "prismatic"):
            values["axis"] = rng.normal(size=3)
            values |= along_axis(rng, kind) if of.along else {}
        if kind == "distance":
            frames[0][:3] += 0.3 * rng.normal(size=3)
            apart = float(np.linalg.norm(_seen(builder, parent, frames[0]) - _seen(builder, k, frames[1])))
            rope = (0.95 * apart, 1.0001 * apart) if rng.random() < 0.5 and of.along else (apart, apart)
            values |= {"min_distance": rope[0], "max_distance": rope[1]}
        getattr(builder, f"add_joint_{kind}")(parent, k, *frames, **values)
    if of.beads:
        first = builder.add_particles(
            np.array(places) + 0.3 * rng.normal(size=(of.bodies, 3)), mass=0.2, vel=tuple(0.3 * rng.normal(size=3)),
            label="beads",
        ).start  # fmt: skip
        tied = [[first + k, builder.point_of(k, 0.1 * rng.normal(size=3))] for k in range(of.bodies)]
        builder.add_constraints("distance", tied, compliance=1e-3, damping=0.01, label="ties")
    return builder


def _seen(builder: sim.ModelBuilder, body: int, frame: np.ndarray) -> np.ndarray:
    pose = builder.pose_of(body)
    return np.asarray(pose.p + turned(pose.q) @ frame[:3])


# ------------------------------------------------------------------------------------------ gradients
PARTS = "body_q", "body_qd", "particle_q", "particle_qd"
CONTROLS = "joint_f", "joint_target_pos", "joint_target_vel"


class JointTree:
    """A model of a family, run from a state and with a control that can be moved like its material values."""

    def __init__(self, seed: int, of: Family, steps: int = 3) -> None:
        self.model = random_joints(seed, of).finalize(dtype=sim.float64, requires_grad=True)
        labels = [f"joint{k}" for k in range(of.bodies)]
        self.solver = sim.SolverXPBD(self.model, direct=labels if of.direct else (), **of.settings)
        self.steps, rng = steps, np.random.default_rng([seed, 1])
        self.state, self.control = self.model.state(), self.model.control()
        model = self.model
        self.control.joint_f = sim.array(rng.normal(size=model.joint_dof_count), dtype=sim.float64, requires_grad=True)
        self.state.body_f.assign(rng.normal(size=(model.body_count, 6)))
        self.weights = {n: rng.normal(size=getattr(self.state, n).numpy().shape) for n in PARTS
                        if getattr(self.state, n).size}  # fmt: skip
        begin = {f"state.{n}": getattr(self.state, n) for n in (*self.weights, "body_f")}
        self.inputs = {**model.materials, **begin, "control.joint_f": self.control.joint_f}
        self.inputs = {n: a for n, a in self.inputs.items() if a.size}
        self.values = {n: a.numpy().copy() for n, a in self.inputs.items()}

    def final(self) -> sim.State:
        """The state after some steps, from `state`."""
        return sim.rollout(self.solver, self.state, self.steps, DT, self.control).final

    def loss(self, moved: dict[str, np.ndarray], h: float) -> float:
        """A weighted sum of the end, from all values moved by h times these.

        A state that follows from material values is where these put it, plus what it is moved by itself.
        """
        for n, a in self.inputs.items():
            if not n.startswith("state."):
                a.assign(self.values[n] + h * moved.get(n, 0.0))
        self._begin()
        for n in (n for n in moved if n.startswith("state.")):
            self.inputs[n].assign(self.inputs[n].numpy() + h * moved[n])
        end = self.final()
        return sum(float((w * getattr(end, n).numpy()).sum()) for n, w in self.weights.items())

    def _begin(self) -> None:
        fresh = self.model.state()
        for n in self.weights:
            getattr(self.state, n).assign(getattr(fresh, n).numpy())
        self.state.body_f.assign(self.values["state.body_f"])

    def gradients(self) -> dict[str, np.ndarray]:
        """By material values with the state that follows from them; by the state and the control alone."""
        self.loss({}, 0.0)
        found = {}
        for own in (True, False):
            with sim.Tape() as tape:
                begin = self.model.state() if own else self.state
                if own:
                    begin.body_f.assign(self.values["state.body_f"])
                end = sim.rollout(self.solver, begin, self.steps, DT, self.control).final
            grads = {getattr(end, n): sim.array(w, dtype=getattr(end, n).dtype) for n, w in self.weights.items()}
            tape.backward(grads=grads)
            found |= {n: a.grad.numpy().copy() for n, a in self.inputs.items() if n.startswith("state.") != own}
            tape.zero()
        return found

    def check(self, seed: int, relative: float = 1e-6) -> list[str]:
        """Every group of values along a random direction against differences of fourth order; what does not agree."""
        found, rng, wrong = self.gradients(), np.random.default_rng([seed, 2]), []
        groups = defaultdict[str, list[str]](list)
        for n in found:
            groups[n if n.startswith(("state", "control")) else n.rsplit(".", 1)[-1]].append(n)
        for group, names in groups.items():
            along = {n: rng.normal(size=self.values[n].shape) * np.maximum(np.abs(self.values[n]), 0.01) for n in names}
            if self._differ(along, found, relative):
                wrong += [f"{n}: {text}" for n in names if (text := self._differ({n: along[n]}, found, relative))]
                if not wrong:
                    wrong.append(f"{group}: {self._differ(along, found, relative)}")
        return wrong

    def _differ(self, along: dict[str, np.ndarray], found: dict[str, np.ndarray], relative: float) -> str:
        """What is wrong with the derivative along a direction, "" where nothing is.

        Values that are 0 and may not be negative are moved upward.  A row that begins or ends to act between the
        points of a difference spoils it: then shorter ones are tried.
        """
        along = {n: np.where((self.values[n] == 0) & _positive(n), np.abs(v), v) for n, v in along.items()}
        edge = any(((self.values[n] == 0) & _positive(n)).any() for n in along)
        got = sum(float((found[n] * v).sum()) for n, v in along.items())
        size = sum(float(np.abs(found[n] * v).sum()) for n, v in along.items())
        differences = []
        for h in (1e-2, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6):
            try:
                want = self._one_sided(along, h) if edge else self._central(along, h)
            except sim.NonFiniteState:  # joints that are moved too far apart
                continue
            differences.append(want)
            if abs(got - want) <= relative * size + 1e-9:
                return ""
        self.loss({}, 0.0)
        return f"{got:.10g} is not {', '.join(f'{d:.10g}' for d in differences)}, of parts {size:.3g}"

    def _central(self, along: dict[str, np.ndarray], h: float) -> float:
        a, b, c, d = (self.loss(along, k * h) for k in (-2, -1, 1, 2))
        return (a - 8 * b + 8 * c - d) / (12 * h)

    def _one_sided(self, along: dict[str, np.ndarray], h: float) -> float:
        parts = zip((-25, 48, -36, 16, -3), range(5), strict=True)
        return sum(weight * self.loss(along, k * h) for weight, k in parts) / (12 * h)


def _positive(path: str) -> bool:
    return path.endswith(("compliance", "damping", "friction", "target_ke", "target_kd"))


@sim.kernel
def weigh_poses(q: sim.array[sim.transformd], w: sim.array[sim.transformd], out: sim.array[sim.float64]):
    """A smooth function of poses that is not linear."""
    i = sim.tid()
    p, turn, v, by = q[i].p, q[i].q, w[i].p, w[i].q
    sim.atomic_add(
        out, 0, sim.dot(p, v) * (1.0 + sim.dot(p, p)) + turn[0] * turn[1] * by[0] + turn[2] * turn[3] * by[1]
    )


def second_derivatives(tree: JointTree, seed: int, h: float = 1e-5) -> dict[str, tuple[float, float, float]]:
    """Of a function of the poses at the end, by every group of values: along random directions u, v what `jvp` and
    `hvp` say of H u . v, and the difference of gradients."""
    model, rng = tree.model, np.random.default_rng([seed, 3])
    names = [n for n in tree.inputs if not n.startswith(("state", "control"))]
    names = [n for n in names if not (_positive(n) and (tree.values[n] == 0).any())]
    arrays = [tree.inputs[n] for n in names]
    weights = sim.array(rng.normal(size=(model.body_count, 7)), dtype=sim.transformd)
    u, v = (
        [rng.normal(size=tree.values[n].shape) * np.maximum(0.1 * np.abs(tree.values[n]), 1e-3) for n in names]
        for _ in range(2)
    )

    def loss(*_: sim.array) -> sim.array:
        out = sim.zeros(1, sim.float64, requires_grad=True)
        end = sim.rollout(tree.solver, model.state(), tree.steps, DT, tree.control).final
        sim.launch(weigh_poses, model.body_count, [end.body_q, weights], [out])
        return out

    def gradient(step: float) -> list[np.ndarray]:
        for a, n, by in zip(arrays, names, u, strict=True):
            a.assign(tree.values[n] + step * by)
        with sim.Tape() as tape:
            out = loss()
        tape.backward(out)
        found = [a.grad.numpy().copy() for a in arrays]
        tape.zero()
        return found

    first = gradient(0.0)
    _, (slope,) = sim.autograd.jvp(loss, arrays, u)
    products = [p.numpy() for p in sim.autograd.hvp(loss, arrays, u)]
    differences = [(p - m) / (2 * h) for p, m in zip(gradient(h), gradient(-h), strict=True)]
    gradient(0.0)
    along = sum(float((g * by).sum()) for g, by in zip(first, u, strict=True))
    out = {"slope": (slope.item(), along, sum(float(np.abs(g * by).sum()) for g, by in zip(first, u, strict=True)))}
    for n, product, difference, by in zip(names, products, differences, v, strict=True):
        size = float(np.abs(difference * by).sum())
        out[n] = float((product * by).sum()), float((difference * by).sum()), size
    return out
