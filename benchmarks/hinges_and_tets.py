"""The speed of hinges and of neo-Hookean tetrahedra against hand-written C, forward and backward, taken in turn.

    python benchmarks/hinges_and_tets.py [--rounds 15]

A sheet that resists bending alone, and a block of tetrahedra, without damping, stepped by the stock XPBD solver,
float32, one thread.  The C program (`hinges_and_tets_reference.c`, `gcc -O3 -march=native -ffast-math`) takes the same
constraints in the same order; positions and gradients after ten steps are compared before anything is timed.  Least
process times of many repeats.  Everything is stored.  Both differentiate by velocities and softnesses, C by hand: ours
by the one value that the softnesses come from.  Beside it our gradient by all values of the model.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from cloth import DT, GRAVITY, Best, CClothHead, address, relative

import sim

WAYS = ("forward", "backward", "both")


def sheet(n: int) -> tuple[sim.Model, str]:
    """n x n points whose hinges are all that holds them together."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    builder.add_cloth_grid(
        pos=(0, 0, 0), dim_x=n - 1, dim_y=n - 1, cell_x=1 / n, cell_y=1 / n, density=0.2, fix_top=True, label="sheet",
        spin=(0.3, 0.2, 0.1), material={"bend": {"compliance": 1e3}},
    )  # fmt: skip
    return builder.finalize(requires_grad=True), "bend"


def block(n: int) -> tuple[sim.Model, str]:
    """n^3 cells of five tetrahedra, held at the bottom."""
    builder = sim.ModelBuilder(gravity=GRAVITY)
    builder.add_soft_grid(
        dim_x=n, dim_y=n, dim_z=n, cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1000.0, label="block", fix_bottom=True,
        material={"neo_hookean": {"young": 1e5, "poisson": 0.4}},
    )  # fmt: skip
    return builder.finalize(requires_grad=True), "neo_hookean"


class Pair:
    """A model of one kind of constraint, and what the C program takes of it."""

    def __init__(self, model: sim.Model, kind: str, library: ctypes.CDLL) -> None:
        self.model, self.kind, self.library = model, kind, library
        self.room, self.tape = np.zeros(0, np.float32), None
        self.solver, self.state = sim.SolverXPBD(model), model.state()
        of_kind, effective = model.constraint_sets[kind], self.solver.effective_dt(DT)
        assert list(model.constraint_sets) == [kind]
        softness = of_kind.compliance.numpy().reshape(of_kind.count, -1)[:, :2].astype(float) / effective**2
        names = ("rest",) if kind == "bend" else ("g1", "g2", "g3", "softness")
        columns = [of_kind.parameters[name].numpy().reshape(of_kind.count, -1) for name in names]
        self.values = np.ascontiguousarray(np.concatenate([*columns, softness], axis=1).astype(np.float32))
        self.points = of_kind.points.numpy().astype(np.int32)
        self.inverse_mass = model.particle_inv_mass.numpy().astype(np.float32)
        # the softnesses are as the compliance, or as one over Young's modulus
        self.value, self.power = ("sheet.bend.compliance", 1.0) if kind == "bend" else ("block.neo_hookean.young", -1.0)
        self.weights = sim.array(
            np.random.default_rng(0).normal(size=(model.particle_count, 3)), dtype=self.state.particle_q.dtype
        )
        self.start = [a.numpy().astype(np.float32) for a in (self.state.particle_q, self.state.particle_qd)]

        class Cloth(CClothHead):
            _fields_ = [("dt", ctypes.c_float), ("gravity", ctypes.c_float * 3)]

        self.cloth = Cloth(
            particles=model.particle_count, constraints=of_kind.count, colors=of_kind.color_count, dt=DT,
            gravity=(ctypes.c_float * 3)(*GRAVITY), points=self.points.ctypes.data,
            inverse_mass=self.inverse_mass.ctypes.data,
        )  # fmt: skip

    @property
    def constraints(self) -> int:
        return len(self.points)

    def in_c(self, steps: int) -> tuple[float, np.ndarray]:
        """CPU seconds, final positions."""
        x, v = (a.copy() for a in self.start)
        self.cloth.steps = steps
        width = ctypes.c_long(self.values.shape[1])
        parts = ctypes.byref(self.cloth), address(self.values), width, address(x), address(v)
        return self.library.forward_of_four(*parts), x

    def gradient_in_c(self, steps: int) -> tuple[float, float, np.ndarray, float]:
        """CPU seconds forward and backward, gradients by velocities and by the logarithm of the one value."""
        x, v = (a.copy() for a in self.start)
        self.cloth.steps, rows = steps, 1 if self.kind == "bend" else 2
        if self.room.size < steps * 9 * self.constraints:
            self.room = np.zeros(steps * 9 * self.constraints, np.float32)
        gv, gs, seconds = np.zeros_like(v), np.zeros((self.constraints, rows), np.float32), np.zeros(2)
        arrays = (x, v, self.weights.numpy(), gv, gs, self.room, seconds)
        width = ctypes.c_long(self.values.shape[1])
        self.library.gradient_of_four(
            ctypes.byref(self.cloth), address(self.values), width, *(address(a) for a in arrays)
        )
        by_log = self.power * float(np.sum(gs.astype(float) * self.values[:, -rows:]))
        return float(seconds[0]), float(seconds[1]), gv, by_log

    def forward(self, steps: int) -> tuple[float, np.ndarray]:
        """The same of ours."""
        start = time.process_time()
        final = sim.rollout(self.solver, self.state, steps, DT).final
        return time.process_time() - start, final.particle_q.numpy()

    def gradient(self, steps: int, by_all: bool = False) -> tuple[float, float, np.ndarray, float]:
        """The same of ours."""
        wanted = sorted(self.model.materials) if by_all else [self.value]
        qd, value = self.state.particle_qd, self.model[self.value]
        if self.tape is not None:
            self.tape.zero()
        start = time.process_time()
        with self.model.gradients_of(wanted):
            with sim.Tape() as tape:
                result = sim.rollout(self.solver, self.state, steps, DT)
            middle = time.process_time()
            tape.backward(grads={result.final.particle_q: self.weights})
        end = time.process_time()
        self.tape = tape
        assert qd.grad is not None and value.grad is not None
        by_log = float(np.sum(value.grad.numpy() * value.numpy()))
        return middle - start, end - middle, qd.grad.numpy().copy(), by_log


def build(folder: Path) -> ctypes.CDLL:
    """Compiles the C program."""
    source, target = Path(__file__).with_name("hinges_and_tets_reference.c"), folder / "reference.so"
    options = ["-O3", "-march=native", "-ffast-math", "-fPIC", "-c", str(source), "-o", str(target.with_suffix(".o"))]
    subprocess.run(["gcc", *options], check=True)
    # linked without -ffast-math, which would set flush-to-zero for this whole process
    subprocess.run(["gcc", "-shared", str(target.with_suffix(".o")), "-lm", "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.forward_of_four.restype = ctypes.c_double
    return library


def differences(pair: Pair) -> dict[str, float]:
    """Of positions and gradients after ten steps, relative."""
    _, _, velocities, value = pair.gradient(10)
    _, _, wanted, in_c = pair.gradient_in_c(10)
    return {
        "positions": relative(pair.forward(10)[1], pair.in_c(10)[1]),
        "gradient by velocities": relative(velocities, wanted),
        f"gradient by {pair.value}": abs(value / in_c - 1.0),
    }


def measure(pair: Pair, rounds: int) -> dict[str, float]:
    """Nanoseconds per constraint and step."""
    steps = max(10, min(300, int(1e6 / pair.constraints)))
    best = Best({})
    for _ in range(rounds):
        best.take("forward", pair.forward(steps)[0])
        best.take("C forward", pair.in_c(steps)[0])
        for name, run in (("", pair.gradient), ("C ", pair.gradient_in_c)):
            forward, backward, *_ = run(steps)
            best.take(f"{name}backward", backward)
            best.take(f"{name}both", forward + backward)
        best.take("by all", sum(pair.gradient(steps, by_all=True)[:2]))
    return {name: 1e9 * seconds / (steps * pair.constraints) for name, seconds in best.seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if shutil.which("gcc") is None:
        raise SystemExit("gcc is not installed: nothing to compare with")
    sim.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        heads = "".join(f"{name + ', ours / C':>28}" for name in WAYS)
        print(f"{'ns per constraint and step':44}{heads}{'both, by all values':>22}")
        makes: list[tuple[Any, int]] = [(sheet, 64), (sheet, 128), (block, 6), (block, 12)]
        for make, n in makes:
            pair = Pair(*make(n), library)
            off = differences(pair)
            if max(off.values()) > 1e-2 or off["positions"] > 1e-4:
                raise SystemExit(f"C computes something else: {off}")
            found = measure(pair, rounds)
            name = f"{pair.kind}, {pair.constraints} in {pair.model.constraint_sets[pair.kind].color_count} colours"
            pairs = [(found[way], found[f"C {way}"]) for way in WAYS]
            figures = "".join(f"{a:12.1f} / {b:5.1f} = {a / b:5.2f}" for a, b in pairs)
            print(f"{name:44}{figures}{found['by all']:22.1f}", flush=True)
            print("    off by: " + ", ".join(f"{what} {value:.1e}" for what, value in off.items()), flush=True)


if __name__ == "__main__":
    main()
