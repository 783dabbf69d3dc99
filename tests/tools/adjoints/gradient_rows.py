"""What docs/gradients.md measures beside primitives and library functions: uses of memory, projections, rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sim
from sim.constraints.projection import make_projection, value_type
from tools.constraints.samples import Sample, sample
from tools.library.rows import ROWS

f64, vec3 = sim.float64, sim.vec3d
STEPS = frozenset(("sign", "step", "nonzero", "round", "isfinite", "isnan", "isinf", "argmin", "argmax"))
"""Library functions of floating-point numbers whose derivative is zero wherever there is one."""
INTEGERS = frozenset(("bit_count", "intersect_tri_tri", "lower_bound"))
"""Library functions whose results are integers."""
KINDS = {name: row.kinds for name, row in ROWS.items()} | {"transform_identity": []}
"""Arguments of the other library functions that return something."""


# ------------------------------------------------------------------------------------------------ programs of one
# kernel
@sim.kernel
def stores(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sin(x[i]) * x[(i + 1) % x.shape[0]]


@sim.kernel
def in_place(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    x[i] = x[i] * x[i]
    x[i] /= 1.0 + x[i]
    y[i] = x[i] * x[i]


@sim.kernel
def sums(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[(i * 3) % 2] += x[i] * x[i]
    sim.atomic_sub(y, 2, sim.sin(x[i]))


@sim.kernel
def maxima(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(y, i % 2, x[i] * x[i])


@sim.kernel
def minima(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_min(y, 2 + i % 2, -x[i] * x[i])


@sim.kernel
def loops(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    a = x[i]
    n = 0
    while a > 0.05 and n < 40:
        a = a * 0.9 + 0.01 * sim.sin(a)
        n += 1
    for k in range(n):
        y[i] = y[i] * 0.5 + a * x[i] * f64(k)


@sim.kernel
def slots(x: sim.array[f64], y: sim.array[f64], count: sim.array[int]):
    i = sim.tid()
    for _ in range(count.shape[0]):
        slot = sim.atomic_add(count, 0, 1)
        if slot < y.shape[0]:
            y[slot] = x[i] * x[i] * f64(slot)


@sim.kernel
def returned(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    before = sim.atomic_add(y, 0, x[i])
    y[i] = before * x[i]


@sim.kernel
def exchange(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_exch(y, 0, x[i])


@sim.kernel
def race(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[0] = x[i] * x[i]


@sim.kernel
def through(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]


@sim.kernel
def scaled(x: sim.array[f64], factor: f64, y: sim.array[f64]):
    i = sim.tid()
    y[i] = factor * x[i] * x[i]


@sim.kernel
def to_integers(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = f64(int(3.0 * x[i]))


@sim.kernel
def close(y: sim.array[f64], loss: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(loss, 0, y[i] * y[i] * f64(i + 1) + y[i])


def fresh(n: int = 4) -> sim.array:
    return sim.zeros(n, dtype=f64, requires_grad=True)


def one(kernel: sim.Kernel, *more: Callable[[], Any]) -> Callable[[sim.array], sim.array]:
    def run(x: sim.array) -> sim.array:
        y = fresh()
        sim.launch(kernel, x.shape[0], [x, y, *(make() for make in more)])
        return y

    return run


def writes(x: sim.array) -> sim.array:
    y, z = sim.clone(x), fresh()
    sim.launch(through, 4, [x, x])
    sim.copy(z, y, dest_offset=1, count=2)
    y[2:].assign(x[:2])
    z[3:].fill_(0.5)
    x.zero_()
    sim.launch(through, 4, [y, x])
    z[:1].assign(x[2:3])
    return z


def extremes(x: sim.array) -> sim.array:
    y = fresh()
    sim.launch(maxima, 4, [x, y])
    sim.launch(minima, 4, [x, y])
    return y


def reductions(x: sim.array) -> sim.array:
    y, total = fresh(), fresh(1)
    sim.utils.array_scan(x, y)
    sim.utils.array_sum(y, out=total)
    y[:1].assign(total)
    return y


def sorting(x: sim.array) -> sim.array:
    y = sim.clone(x)
    sim.utils.radix_sort_pairs(x, y, 4)
    sim.launch(through, 4, [x, y])
    return y


def scalar_argument(x: sim.array) -> sim.array:
    y = fresh()
    sim.launch(scaled, 4, [x, x[1:2], y])
    return y


def overlapping_views(x: sim.array) -> sim.array:
    sim.launch(through, 2, [x[::2], x[1::2]])
    sim.launch(through, 2, [x[2:], x[:2]])
    return x


def no_gradient_between(x: sim.array) -> sim.array:
    y, z = sim.zeros(4, dtype=f64), fresh()
    sim.launch(through, 4, [x, y])
    sim.launch(through, 4, [y, z])
    return z


@dataclass(frozen=True)
class Case:
    """A program from four numbers to an array whose weighted squares are the loss."""

    program: Callable[[sim.array], sim.array]
    status: str = "yes"
    note: str = ""


MEMORY = {
    "loads and stores at any index": Case(one(stores)),
    "in place: `x[i] = f(x[i])`, `*=`, `/=`, overwritten buffers": Case(one(in_place)),
    "`+=`, `-=`, `atomic_add`, `atomic_sub`": Case(one(sums)),
    "`atomic_min`, `atomic_max`": Case(extremes, note="of equal ones the first in thread order"),
    "loops with data-dependent length, memory inside": Case(one(loops)),
    "slots given out by an integer counter, in loops too": Case(one(slots, lambda: sim.zeros(1, dtype=int))),
    "`clone`, `copy`, `assign`, `fill_`, `zero_`, slices": Case(writes),
    "views of one array in one launch": Case(overlapping_views),
    "`array_scan`, `array_sum`": Case(reductions),
    "`radix_sort_pairs`": Case(sorting, note="gradients move with the elements"),
    "a scalar argument given as an array": Case(scalar_argument),
    "a cast to integers": Case(one(to_integers), "zero", "of the result"),
    "a float that an atomic returns": Case(one(returned), "refused", "it depends on the order of the threads"),
    "`atomic_exch` of a value with a gradient": Case(
        one(exchange), "refused", "which value stays depends on the order of the threads"
    ),
    "a race": Case(
        one(race),
        "refused",
        "an element written by one thread and touched by another; looked for when a launch is recorded on the CPU",
    ),
    "an intermediate array without a gradient": Case(no_gradient_between, "refused"),
}


def weighted(y: sim.array) -> sim.array:
    loss = fresh(1)
    sim.launch(close, y.shape[0], [y, loss])
    return loss


def slope_error(
    value: Callable[[Sequence[np.ndarray]], float],
    inputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    step: float,
) -> float:
    """Relative error of a derivative along a random direction, against differences of fourth order."""
    rng = np.random.default_rng(7)
    along = [rng.normal(size=x.shape) for x in inputs]
    exact = sum(float(np.sum(g * d)) for g, d in zip(gradients, along, strict=True))

    def at(h: float) -> float:
        return value([x + h * d for x, d in zip(inputs, along, strict=True)])

    differences = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    return abs(exact - differences) / max(1.0, abs(exact), abs(differences))


def program_error(case: Case) -> float:
    start = np.array([0.7, 0.4, 0.9, 0.55])

    def value(inputs: Sequence[np.ndarray]) -> float:
        return float(weighted(case.program(sim.array(inputs[0], requires_grad=True))).numpy()[0])

    x = sim.array(start, requires_grad=True)
    with sim.Tape() as tape:
        loss = weighted(case.program(x))
    tape.backward(loss)
    return slope_error(value, [start], [x.grad.numpy()], 1e-4)


# ------------------------------------------------------------------------------------------------ projections
def constraint_error(name: str) -> float:
    """Of one damped projection, by positions, inverse masses, compliances and parameters."""
    s: Sample = sample(name)
    none = sim.zeros(s.count, f64)
    kernel = make_projection(s.c, f64, True, False, False)
    names = ["x", "compliance", *s.parameters]
    weights = np.random.default_rng(3).normal(size=s.x.shape)

    def run(host: dict[str, np.ndarray]) -> dict[str, Any]:
        a: dict[str, Any] = s.arrays(**host)
        multiplier = sim.zeros(s.count, value_type(s.c, f64), requires_grad=True)
        sim.launch(
            kernel,
            s.count,
            [0, a["points"], a["data"], a["compliance"], none, a["weights"], none, sim.clone(a["x"]), 0.1, a["x"]],
            [a["x"], multiplier],
        )
        return a

    def value(inputs: Sequence[np.ndarray]) -> float:
        return float(np.sum(weights * run(dict(zip(names, inputs, strict=True)))["x"].numpy()))

    start = [s.x, s.compliance, *s.parameters.values()]
    with sim.Tape() as tape:
        a = run(dict(zip(names, start, strict=True)))
    tape.backward(grads={a["x"]: sim.array(weights, dtype=vec3)})
    return slope_error(value, start, [a[n].grad.numpy() for n in names], 1e-5)


# ------------------------------------------------------------------------------------------------ rollouts
@dataclass(frozen=True)
class Rollout:
    """A small sheet that falls on the ground, or does not reach it."""

    solver: Callable[[sim.Model], Any]
    strategy: Any = field(default_factory=sim.StoreAll)
    damping: float = 0.0
    ground: bool = False
    steps: int = 12
    note: str = ""


ROLLOUTS = {
    "XPBD, coloured": Rollout(lambda m: sim.SolverXPBD(m)),
    "XPBD, coloured, 3 iterations": Rollout(lambda m: sim.SolverXPBD(m, iterations=3)),
    "XPBD, Jacobi with mass splitting": Rollout(lambda m: sim.SolverXPBD(m, iterations=2, order="jacobi")),
    "XPBD, start='elastic'": Rollout(lambda m: sim.SolverXPBD(m, start="elastic")),
    "XPBD with damping": Rollout(lambda m: sim.SolverXPBD(m), damping=5e-3),
    "XPBD with contact": Rollout(
        lambda m: sim.SolverXPBD(m), ground=True, note="the derivative jumps when a contact begins or ends"
    ),
    "semi-implicit Euler": Rollout(lambda m: sim.SolverSemiImplicit(m)),
    "StoreAll": Rollout(lambda m: sim.SolverXPBD(m), sim.StoreAll()),
    "Checkpointed(every=5)": Rollout(
        lambda m: sim.SolverXPBD(m), sim.Checkpointed(every=5), note="the same bits as StoreAll"
    ),
    "Checkpointed(budget='20 kB')": Rollout(
        lambda m: sim.SolverXPBD(m), sim.Checkpointed(budget="20 kB"), note="the same bits as StoreAll"
    ),
}


def rollout_error(case: Rollout) -> float:
    """By initial velocities, the compliance of the stretch and gravity; relative to the size of the gradient."""
    builder = sim.ModelBuilder(gravity=(0.3, -9.81, 0.0))
    builder.add_cloth_grid(
        pos=(0.0, 0.1, 0.0),
        dim_x=3,
        dim_y=3,
        cell_x=0.1,
        cell_y=0.1,
        mass=0.01,
        fix_left=True,
        label="sheet",
        material={"distance": {"compliance": 2e-2, "damping": case.damping}, "bend": {"compliance": 10.0}},
    )
    if case.ground:
        builder.add_ground_plane(height=0.094)
    model = builder.finalize(dtype=f64, requires_grad=True)
    solver = case.solver(model)
    state = model.state()
    names = ["sheet.distance.compliance", "gravity"]
    arrays = [*(model[name] for name in names), state.particle_qd]
    start = [a.numpy().copy() for a in arrays]
    weights = np.random.default_rng(3).normal(size=(model.particle_count, 3))

    def run() -> sim.array:
        return sim.rollout(solver, state, case.steps, 1 / 240, strategy=case.strategy).final.particle_q

    def value(inputs: Sequence[np.ndarray]) -> float:
        for a, host in zip(arrays, inputs, strict=True):
            a.assign(host)
        return float(np.sum(weights * run().numpy()))

    with sim.Tape() as tape:
        final = run()
    tape.backward(grads={final: sim.array(weights, dtype=vec3)})
    return slope_error(value, start, [a.grad.numpy().copy() for a in arrays], 1e-5)
