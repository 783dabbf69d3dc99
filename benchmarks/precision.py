"""Does float32 give float64's results?  Motions and gradients in both, at the steps that XPBD is meant for.

Velocities that are differences of rounded positions lose the low bits of small steps; steps that add up displacements
keep them (docs/decisions/18-displacements.md).  Printed is by how much float32 is off from float64, over the size of
the quantity; `closed form` is what float64 itself is off from it, where there is one.

    python benchmarks/precision.py                       # all, some minutes
    python benchmarks/precision.py --cases fall pendulum --solvers xpbd bdf2
    python benchmarks/precision.py --write               # benchmarks/precision.md, which docs/physics.md shows
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sim

SOLVERS: dict[str, Callable[[sim.Model], sim.Solver]] = {
    "xpbd": lambda model: sim.SolverXPBD(model),
    "bdf2": lambda model: sim.SolverXPBD(model, integrator="bdf2"),
    "semi_implicit": lambda model: sim.SolverSemiImplicit(model),
}
GRAVITY = (0.0, -9.81, 0.0)
FRAME = 1.0 / 60.0


@dataclass(frozen=True)
class Figure:
    """One quantity in both precisions.  off: of float32 from float64, relative; closed: of float64 from a closed
    form, relative, nan where there is none."""

    name: str
    off: float
    closed: float = np.nan


def relative(a: np.ndarray | float, b: np.ndarray | float) -> float:
    """Largest difference over the size of b."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    return float(np.abs(a - b).max() / np.abs(b).max())


def both(run: Callable[[type], Sequence[float | np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of a run in float64 and in float32."""
    double, single = ([np.asarray(v, float) for v in run(dtype)] for dtype in (sim.float64, sim.float32))
    return double, single


# ------------------------------------------------------------------------------------------ motions
def falling(make: Callable, dt: float, seconds: float) -> list[Figure]:
    """A point falls from y = 1."""

    def run(dtype):
        builder = sim.ModelBuilder(gravity=GRAVITY)
        builder.add_particles([[0.3, 1.0, -0.7]], mass=1.0)
        solver = make(builder.finalize(dtype=dtype))
        end = sim.rollout(solver, solver.model.state(), round(seconds / dt), dt).final
        return 1.0 - end.particle_q.numpy()[0, 1].astype(float), end.particle_qd.numpy()[0, 1]

    double, single = both(run)
    exact = 0.5 * 9.81 * seconds**2
    return [
        Figure("way", relative(single[0], double[0]), relative(double[0], exact)),
        Figure("velocity", relative(single[1], double[1]), relative(double[1], -9.81 * seconds)),
    ]


def chain(compliance: float, heavy: float = 1.0, damping: float = 0.0, pushed: float = 0.0) -> sim.ModelBuilder:
    """Ten links of 10 cm that hang from one end, pushed to the side at so many m/s; the last point is so many times as
    heavy as the others."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    x = np.stack([np.zeros(11), 1.0 - 0.1 * np.arange(11), np.zeros(11)], axis=1)
    velocity = np.stack([np.linspace(0.0, pushed, 11), np.zeros(11), np.zeros(11)], axis=1)
    builder.add_particles(x, mass=np.r_[0.0, np.full(9, 0.01), 0.01 * heavy], vel=velocity)
    links = np.stack([np.arange(10), np.arange(1, 11)], 1)
    builder.add_constraints("distance", links, compliance=compliance, damping=damping, label="links")
    return builder


def hanging(make: Callable, substeps: int, compliance: float, heavy: float, span: float) -> list[Figure]:
    """Stretch of a chain that comes to rest, and the force in its links.

    Its velocities are taken away again and again, after about `span` seconds: a quarter of its period.  As these
    times differ, every mode is met in any phase, and loses half of its amplitude each time, on average.
    """
    dt = FRAME / substeps

    def run(dtype):
        solver = make(chain(compliance, heavy).finalize(dtype=dtype))
        state = solver.model.state()
        for k in range(40):
            state.particle_qd.zero_()
            state = sim.rollout(solver, state, round(span * (0.5 + 0.618 * k % 1.0) / dt), dt).final
        stretch = np.linalg.norm(np.diff(state.particle_q.numpy().astype(float), axis=0), axis=1) - 0.1
        if not isinstance(solver, sim.SolverXPBD):
            return (stretch,)
        rows = solver.model.constraint_sets["distance"].index_of["links"]
        return stretch, -solver.multipliers("distance").numpy().astype(float)[rows] / solver.effective_dt(dt) ** 2

    double, single = both(run)
    weight = 9.81 * 0.01 * (heavy + np.arange(9, -1, -1))
    exact = (compliance * weight, weight)
    return [
        Figure(name, relative(s, d), relative(d, e))
        for name, s, d, e in zip(("stretch", "force"), single, double, exact, strict=False)
    ]


def pendulum(make: Callable, substeps: int, seconds: float) -> list[Figure]:
    """Length 1, let go at 0.5 rad: period and energy."""
    dt, every = FRAME / substeps, max(1, substeps // 5)

    def run(dtype):
        builder = sim.ModelBuilder(gravity=GRAVITY)
        builder.add_particles([[0, 0, 0], [np.sin(0.5), -np.cos(0.5), 0]], mass=[0.0, 1.0])
        builder.add_constraints("distance", [[0, 1]], compliance=0.0, label="rod")
        solver = make(builder.finalize(dtype=dtype))
        found = sim.rollout(solver, solver.model.state(), round(seconds / dt), dt, frame_every=every)
        x = found.particle_q.numpy()[:, 1].astype(float)
        angle, apart = np.arctan2(x[:, 0], -x[:, 1]), dt * every
        down = np.flatnonzero((angle[:-1] > 0) & (angle[1:] <= 0))
        crossings = (down + angle[down] / (angle[down] - angle[down + 1])) * apart
        period = np.diff(crossings).mean()
        last = np.abs(angle[-int(period / apart) :]).max()
        return period, (1 - np.cos(last)) / (1 - np.cos(0.5))

    double, single = both(run)
    a, g = 1.0, np.cos(0.25)  # the exact period is by the arithmetic-geometric mean
    for _ in range(6):
        a, g = (a + g) / 2, np.sqrt(a * g)
    return [
        Figure("period", relative(single[0], double[0]), relative(double[0], 2 * np.pi / np.sqrt(9.81) / a)),
        Figure("energy", relative(single[1], double[1]), relative(double[1], 1.0)),
    ]


def spinning(make: Callable, dt: float, seconds: float, away: float = 0.0) -> list[Figure]:
    """A free block of rubber turns and flies: angular momentum."""

    def run(dtype):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        builder.add_soft_grid(
            (away, 0, 0), dim_x=2, dim_y=2, dim_z=3, cell_x=0.05, cell_y=0.05, cell_z=0.05, density=1000.0,
            vel=(0.3, 0.1, 0.0), spin=(1.0, 5.0, 2.0),
            material={"neo_hookean": {"young": 2e5, "poisson": 0.4}}, label="block",
        )  # fmt: skip
        solver = make(builder.finalize(dtype=dtype))
        start = solver.model.state()
        end = sim.rollout(solver, start, round(seconds / dt), dt).final
        m = solver.model.particle_mass.numpy().astype(float)[:, None]

        def momentum(state):
            x, v = state.particle_q.numpy().astype(float), state.particle_qd.numpy().astype(float)
            x = x - (m * x).sum(axis=0) / m.sum()
            return (m * np.cross(x, v)).sum(axis=0)

        return momentum(end), momentum(start)

    double, single = both(run)
    return [Figure("angular momentum", relative(single[0], double[0]), relative(double[0], double[1]))]


def sheet(make: Callable, dt: float, seconds: float, away: float = 0.0) -> list[Figure]:
    """A cloth hangs from its upper edge and swings: displacements, over the largest."""

    def run(dtype):
        builder = sim.ModelBuilder(gravity=GRAVITY)
        material = {"distance": {"compliance": 1e-2, "damping": 5e-3}, "bend": {"compliance": 1e2}}
        group = builder.add_cloth_grid(
            (away, 0, 0), dim_x=8, dim_y=8, cell_x=0.1, cell_y=0.1, density=0.2, material=material, label="sheet",
            vel=(0.0, 0.0, 0.5),
        )  # fmt: skip
        builder.add_attachment(group.choose({"y": [0.8 - 1e-9, None]}))
        solver = make(builder.finalize(dtype=dtype))
        start = solver.model.state().particle_q.numpy().astype(float)
        end = sim.rollout(solver, solver.model.state(), round(seconds / dt), dt).final
        return (end.particle_q.numpy().astype(float) - start,)

    double, single = both(run)
    return [Figure("displacement", relative(single[0], double[0]))]


# ------------------------------------------------------------------------------------------ gradients
def gradients(make: Callable, steps: int, dt: float) -> list[Figure]:
    """A hanging chain that swings: derivatives of its last place by start, velocity, compliance and gravity."""

    def run(dtype):
        builder = chain(1e-2, damping=5e-3, pushed=0.5)
        solver = make(builder.finalize(dtype=dtype, requires_grad=True))
        state = solver.model.state()
        with sim.Tape() as tape:
            end = sim.rollout(solver, state, steps, dt, strategy=sim.Checkpointed(every=100)).final.particle_q
        seed = np.zeros((11, 3))
        seed[-1] = 1.0, 2.0, 0.0
        tape.backward(grads={end: sim.array(seed, dtype=end.dtype)})
        model = solver.model
        return (
            *(model[p].grad.numpy() for p in ("links.compliance", "links.damping", "gravity")),
            state.particle_q.grad.numpy(),
            state.particle_qd.grad.numpy(),
        )

    names = ("by compliance", "by damping", "by gravity", "by start", "by velocity")
    double, single = both(run)
    return [Figure(name, relative(s, d)) for name, s, d in zip(names, single, double, strict=True)]


@dataclass(frozen=True)
class Case:
    """A row of the table.  key: for `--cases`; allowed: what float32 may be off by; stiff: too much so for explicit
    steps."""

    key: str
    title: str
    run: Callable[[Callable], list[Figure]]
    allowed: float = 1e-3
    stiff: bool = False


CASES = (
    Case("fall", "free fall, 1 s, h = 1/6000", lambda make: falling(make, 1 / 6000, 1.0)),
    Case("fall", "free fall, 1 s, h = 1/60 000", lambda make: falling(make, 1 / 60_000, 1.0)),
    Case("fall", "point at rest, let go, 0.1 s, h = 5e-5", lambda make: falling(make, 5e-5, 0.1)),
    Case("chain", "elastic chain, 200 x 1", lambda make: hanging(make, 200, 1e-2, 1.0, 0.1)),
    Case("ratio", "mass ratio 1:1000, 100 x 1", lambda make: hanging(make, 100, 1e-3, 1000.0, 0.5), stiff=True),
    Case("pendulum", "pendulum, 400 substeps, 10 s", lambda make: pendulum(make, 400, 10.0), stiff=True),
    Case("block", "free spinning block, h = 5e-4, 2 s", lambda make: spinning(make, 5e-4, 2.0)),
    Case("block", "free spinning block, 100 m from the origin", lambda make: spinning(make, 5e-4, 2.0, 100.0)),
    Case("sheet", "swinging sheet, h = 5e-4, 1 s", lambda make: sheet(make, 5e-4, 1.0)),
    Case("sheet", "swinging sheet, h = 5e-5, 1 s", lambda make: sheet(make, 5e-5, 1.0)),
    Case("sheet", "swinging sheet, h = 5e-4, 100 m from the origin", lambda make: sheet(make, 5e-4, 1.0, 100.0)),
    Case("gradient", "gradients, 10 000 steps of 5e-5 s", lambda make: gradients(make, 10_000, 5e-5), 1e-2),
    Case("long", "gradients, 100 000 steps of 5e-5 s", lambda make: gradients(make, 100_000, 5e-5), 1e-2),
)


def measure(cases: Sequence[Case], solvers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Title of a case -> solver -> what float32 is off at most; prints every figure."""
    worst: dict[str, dict[str, float]] = {}
    for case in cases:
        worst[case.title] = {}
        for name in solvers:
            if case.stiff and name == "semi_implicit":
                continue
            found = case.run(SOLVERS[name])
            worst[case.title][name] = max(figure.off for figure in found)
            for figure in found:
                closed = "" if np.isnan(figure.closed) else f" (float64 from the closed form {figure.closed:.1e})"
                mark = "" if figure.off <= case.allowed else "  ABOVE"
                print(f"{case.title}, {name}, {figure.name}: {figure.off:.1e}{closed}{mark}", flush=True)
    return worst


def table(worst: dict[str, dict[str, float]], solvers: Sequence[str]) -> str:
    """In Markdown."""
    lines = [f"| float32 from float64 | {' | '.join(solvers)} |", "|---" * (1 + len(solvers)) + "|"]
    for title, row in worst.items():
        lines.append(f"| {title} | {' | '.join(f'{row[s]:.0e}' if s in row else '-' for s in solvers)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    keys = list(dict.fromkeys(case.key for case in CASES))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=keys, default=keys)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", action="store_true", help="the table into precision.md")
    args = parser.parse_args()
    with sim.ScopedDevice(args.device):
        worst = measure([case for case in CASES if case.key in args.cases], args.solvers)
    text = table(worst, args.solvers)
    print(text)
    if args.write:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
