"""The speed of a cloth against hand-written C, taken in one interleaved run.

    python benchmarks/cloth.py [--sizes 64,128] [--json FILE] [--rounds 15]

An N x N cloth of distance constraints (structural, shear and long ones, as in many papers), stepped by the stock XPBD
solver, float32, one thread.  The C program (`cloth_reference.c`, `gcc -O3 -march=native -ffast-math`) takes the same
constraints in the same order; its result is compared before anything is timed.  All times are the least process time of
many short repeats, so that other work on the machine counts little; ratios are what travels between machines.  Without
gcc only our own figures are shown.  Of other frameworks (`peers.py`) those that are installed take part.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import PEERS, peers

import sim

DT = 1.0 / 600.0
GRAVITY = (0.0, -9.81, 0.0)
FAMILIES = (((0, 1), 1e-7), ((1, 0), 1e-7), ((1, 1), 3e-7), ((1, -1), 3e-7), ((0, 2), 1e-6), ((2, 0), 1e-6))
"""(step in rows and columns, compliance [m/N]) of every kind of constraint."""


WANTED = ("net.compliance", "particles.position", "particles.velocity")
"""The values whose gradients are asked for: those that the C program computes."""


OF_PEERS = 5
"""Rounds that other frameworks take part in: some are slow."""


def grid_constraints(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Point pairs (m, 2) and compliances (m,) of an n x n cloth."""
    row, column = np.mgrid[:n, :n]
    pairs, compliance = [], []
    for (down, right), alpha in FAMILIES:
        inside = (row + down < n) & (column + right < n) & (column + right >= 0)
        first = (row * n + column)[inside]
        pairs.append(np.stack([first, first + down * n + right], axis=1))
        compliance.append(np.full(len(first), alpha))
    return np.concatenate(pairs), np.concatenate(compliance)


class Ours:
    """The cloth as a model of this package.  at_random: its points have numbers at random, not row by row."""

    def __init__(self, n: int, dtype: Any = sim.float32, at_random: bool = False) -> None:
        row, column = np.divmod(np.arange(n * n), n)
        h = 1.0 / (n - 1)
        x = np.stack([column * h, np.full(n * n, 0.5), row * h], axis=1)
        v = np.stack(
            [
                0.1 * np.sin((7 * row + column) * h),
                0.05 * np.sin((9 * column + 4 * row) * h),
                0.1 * np.cos((5 * column + row) * h),
            ],
            axis=1,
        )
        mass = np.ones(n * n)
        mass[[0, n - 1]] = 0.0
        v[[0, n - 1]] = 0.0
        pairs, compliance = grid_constraints(n)
        number = np.random.default_rng(1).permutation(n * n) if at_random else np.arange(n * n)
        given = np.argsort(number)
        builder = sim.ModelBuilder(gravity=GRAVITY)
        builder.add_particles(x[given], vel=v[given], mass=mass[given])
        builder.add_constraints("distance", number[pairs], compliance=compliance, label="net")
        self.model = builder.finalize(dtype=dtype, requires_grad=True)
        self.solver = sim.SolverXPBD(self.model)
        self.state = self.model.state()
        self.tape: sim.Tape | None = None
        self.weights = sim.array(
            np.random.default_rng(0).normal(size=(n * n, 3)) / (n * n), dtype=self.state.particle_q.dtype
        )

    @property
    def constraints(self) -> int:
        return len(self.model.constraint_sets["distance"].points)

    def forward(self, steps: int) -> sim.Trajectory:
        return sim.rollout(self.solver, self.state, steps, DT)

    def gradient(self, steps: int, strategy: Any) -> tuple[float, float]:
        """CPU seconds forward and backward."""
        if self.tape is not None:
            self.tape.zero()  # as an optimiser does between iterations; the C program finds its sums cleared too
        start = time.process_time()
        with self.model.gradients_of(WANTED):
            with sim.Tape() as tape:
                result = sim.rollout(self.solver, self.state, steps, DT, strategy=strategy)
            middle = time.process_time()
            tape.backward(grads={result.final.particle_q: self.weights})
        end = time.process_time()
        self.tape = tape
        return middle - start, end - middle


class CClothHead(ctypes.Structure):
    """What `Cloth` of the C program begins with."""

    _fields_ = [(name, ctypes.c_long) for name in ("particles", "constraints", "colors", "steps", "segment")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("points", "offsets", "rest", "softness", "inverse_mass")]


class Reference:
    """The same cloth in C."""

    def __init__(self, ours: Ours, library: ctypes.CDLL, real: Any) -> None:
        number = ctypes.c_float if real == np.float32 else ctypes.c_double

        class Cloth(CClothHead):
            _fields_ = [("dt", number), ("gravity", number * 3)]

        model = ours.model
        distances = model.constraint_sets["distance"]
        self.library, self.real = library, np.dtype(real)
        self.arrays = {
            "points": distances.points.numpy().astype(np.int32),
            "offsets": np.array(distances.offsets, np.int64),
            "rest": distances.parameters["rest"].numpy().astype(real),
            "softness": (distances.compliance.numpy().astype(float) / DT**2).astype(real),
            "inverse_mass": model.particle_inv_mass.numpy().astype(real),
        }
        self.start = [a.numpy().astype(real) for a in (ours.state.particle_q, ours.state.particle_qd)]
        self.weights = ours.weights.numpy().astype(real)
        self.cloth = Cloth(
            particles=model.particle_count,
            constraints=distances.count,
            colors=distances.color_count,
            dt=DT,
            gravity=(number * 3)(*GRAVITY),
        )
        for name, a in self.arrays.items():
            setattr(self.cloth, name, a.ctypes.data)
        self.room: np.ndarray | None = None

    def forward(self, steps: int) -> tuple[float, np.ndarray]:
        """CPU seconds, final positions."""
        x, v = (a.copy() for a in self.start)
        self.cloth.steps = steps
        return self.library.forward(ctypes.byref(self.cloth), address(x), address(v)), x

    def gradient(self, steps: int, segment: int) -> tuple[float, float, np.ndarray, np.ndarray]:
        """CPU seconds forward and backward, gradients by initial velocities and by compliances."""
        x, v = (a.copy() for a in self.start)
        self.cloth.steps, self.cloth.segment = steps, segment
        need = self.library.room_bytes(ctypes.byref(self.cloth))
        if self.room is None or self.room.nbytes < need:
            self.room = np.zeros(need, np.uint8)
        gv, gs, seconds = np.zeros_like(v), np.zeros(self.cloth.constraints, self.real), np.zeros(2)
        parts = (x, v, self.weights, gv, gs, self.room, seconds)
        self.library.gradient(ctypes.byref(self.cloth), *(address(a) for a in parts))
        return float(seconds[0]), float(seconds[1]), gv, gs / DT**2


def address(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def build_reference(folder: Path, real: str) -> ctypes.CDLL:
    """Compiles the C program for `real`: float or double."""
    target = folder / f"reference_{real}.so"
    source = Path(__file__).with_name("cloth_reference.c")
    options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", f"-Dreal={real}"]
    # linking with -ffast-math would set flush-to-zero for this whole process: compile and link are two steps
    subprocess.run(["gcc", *options, "-c", str(source), "-o", str(target.with_suffix(".o"))], check=True)
    subprocess.run(["gcc", "-shared", str(target.with_suffix(".o")), "-lm", "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.forward.restype, library.room_bytes.restype = ctypes.c_double, ctypes.c_size_t
    return library


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def compare(n: int, library: ctypes.CDLL, dtype: Any, real: Any) -> dict[str, float]:
    """Relative differences of positions and gradients after ten substeps."""
    ours = Ours(n, dtype)
    reference = Reference(ours, library, real)
    _, x = reference.forward(10)
    out = {"positions": relative(ours.forward(10).final.particle_q.numpy(), x)}
    ours.gradient(10, sim.StoreAll())
    _, _, gv, gc = reference.gradient(10, 10)
    assert ours.state.particle_qd.grad is not None
    rows = ours.model.constraint_sets["distance"].index_of["net"]
    out["gradient by velocities"] = relative(ours.state.particle_qd.grad.numpy(), gv)
    out["gradient by compliances"] = relative(ours.model["net.compliance"].grad.numpy(), gc[rows])
    return out


@dataclass
class Best:
    """The least of several measurements of each name."""

    seconds: dict[str, float]

    def take(self, name: str, value: float) -> None:
        self.seconds[name] = min(value, self.seconds.get(name, float("inf")))


def measure(n: int, library: ctypes.CDLL | None, rounds: int) -> dict[str, float]:
    """Nanoseconds per constraint and substep, ours and the reference's, in turn."""
    sim.set_num_threads(1)
    ours = Ours(n)
    m, others = ours.constraints, {}
    steps = max(10, min(600, int(3e6 / m)))
    every = max(5, round(steps**0.5))
    reference = None if library is None else Reference(ours, library, np.float32)
    if reference is not None:
        others = peers(reference.arrays, reference.start, reference.weights, DT, GRAVITY)
        for name, peer in others.items():
            difference = relative(peer.forward(10)[1], reference.forward(10)[1])
            if difference > 1e-5:
                raise SystemExit(f"{name} computes something else: positions differ by {difference:.1e}")
            if (
                peer.gradient is not None
                and (difference := relative(peer.gradient(10)[1], reference.gradient(10, 10)[2])) > 1e-3
            ):
                raise SystemExit(f"{name} computes another gradient: it differs by {difference:.1e}")
    best = Best({})
    some = min(steps, 60)
    for number in range(rounds):
        start = time.process_time()
        ours.forward(steps)
        best.take("forward", time.process_time() - start)
        for name, strategy in (("stored", sim.StoreAll()), ("checkpointed", sim.Checkpointed(every=every))):
            f, b = ours.gradient(steps, strategy)
            best.take(f"{name}", f + b)
            best.take(f"{name} backward", b)
        if reference is not None:
            best.take("C forward", reference.forward(steps)[0])
            for name, segment in (("C stored", steps), ("C checkpointed", every)):
                f, b, *_ = reference.gradient(steps, segment)
                best.take(name, f + b)
                best.take(f"{name} backward", b)
        for name, peer in others.items() if number < OF_PEERS else ():
            best.take(f"{name} forward", steps / some * peer.forward(some)[0])
            if peer.gradient is not None:
                best.take(f"{name} gradient", steps / some * peer.gradient(some)[0])
    return {name: 1e9 * seconds / (steps * m) for name, seconds in best.seconds.items()} | {
        "steps": steps,
        "constraints": m,
    }


ROWS = (
    ("forward / C", "forward", "C forward", 0.7, 0.6),
    ("backward / C", "stored backward", "C stored backward", 0.72, 0.6),
    ("forward + backward, stored / C", "stored", "C stored", 0.7, 0.62),
    ("(F + B) / F", "stored", "forward", 3.2, 2.8),
    ("checkpointed / stored", "checkpointed", "stored", 1.25, 1.25),
    *((f"{name} / ours, forward", f"{name} forward", "forward", None, None) for name in PEERS),
    *((f"{name} / ours, forward + backward", f"{name} gradient", "stored", None, None) for name in ("jax", "torch")),
)
"""(what, above, below, must, aim) of each ratio."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="32,64,128", help="numbers of points along an edge")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    sizes = [int(s) for s in args.sizes.split(",")]
    figures: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "python": sys.version.split()[0],
        "sizes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        library = None
        if shutil.which("gcc") is None:
            print("gcc is not installed: no comparison with C")
        else:
            library = build_reference(Path(folder), "float")
            figures["differences"] = {
                "float32": compare(32, library, sim.float32, np.float32),
                "float64": compare(32, build_reference(Path(folder), "double"), sim.float64, np.float64),
            }
            for kind, found in figures["differences"].items():
                print(f"{kind}: " + ", ".join(f"{name} {value:.1e}" for name, value in found.items()))
        for n in sizes:
            figures["sizes"][n] = measure(n, library, args.rounds)
    print(f"\n{'ns per constraint and substep':34}" + "".join(f"{f'N = {n}':>12}" for n in sizes))
    names = [name for name in figures["sizes"][sizes[0]] if name not in ("steps", "constraints")]
    for name in names:
        print(f"{name:34}" + "".join(f"{figures['sizes'][n][name]:12.2f}" for n in sizes))
    print(f"\n{'ratio':34}" + "".join(f"{f'N = {n}':>12}" for n in sizes) + f"{'must':>8}{'aim':>8}")
    for label, above, below, must, aim in ROWS:
        if above in names and below in names:
            ratios = "".join(f"{figures['sizes'][n][above] / figures['sizes'][n][below]:12.2f}" for n in sizes)
            print(f"{label:34}{ratios}" + (f"{must:8.2f}{aim:8.2f}" if must else ""))
    absent = [name for name in PEERS if f"{name} forward" not in names]
    if absent:
        print(f"not installed, or nothing to compare with: {', '.join(absent)}")
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
