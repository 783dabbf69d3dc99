"""Where the time of a cold start goes: processor seconds by phase, with an empty cache of compiled kernels.

    python benchmarks/compile.py [cloth | bodies | tets | hessian]

A phase does not count what the phases that it calls take; "the rest" is everything else, the run itself included.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
from collections import Counter, defaultdict
from typing import Any

import llvmlite.binding as llvm
import numpy as np

_cache = tempfile.TemporaryDirectory()
os.environ["SIM_CACHE_DIR"] = _cache.name

import sim  # noqa: E402  the cache comes first
from sim.core.backends.llvm.text import Emitter  # noqa: E402
from sim.core.runtime.debug import races  # noqa: E402
from sim.core.runtime.launch import kernel as kernels  # noqa: E402
from sim.core.runtime.launch.adjoints import Differentiated  # noqa: E402

PHASES: list[tuple[Any, str, str]] = [
    (kernels.Kernel, "_trace", "tracing"),
    (kernels, "to_be_recorded", "autodiff: analysis"),
    (Differentiated, "adjoint", "autodiff: adjoints"),
    (races, "_check_of", "races"),
    (Emitter, "text", "LLVM: writing text"),
    (llvm, "parse_assembly", "LLVM: reading text"),
    (llvm.newpassmanagers.ModulePassManager, "run", "LLVM: passes"),
    (llvm.TargetMachine, "emit_object", "LLVM: code generation"),
]


class Clock:
    """Exclusive times of functions that call each other."""

    def __init__(self) -> None:
        self.seconds, self.calls = defaultdict[str, float](float), Counter[str]()
        self.inner = [0.0]

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """From now on calls of this function count as this phase."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            self.inner.append(0.0)
            start = time.thread_time()
            try:
                return function(*args, **options)
            finally:
                taken = time.thread_time() - start
                self.seconds[phase] += taken - self.inner.pop()
                self.calls[phase] += 1
                self.inner[-1] += taken

        setattr(owner, name, timed)


def backward_of(model: Any, solver: Any) -> None:
    """A short rollout with gradients."""
    with sim.Tape() as tape:
        result = sim.rollout(solver, model.state(), steps=4, dt=1 / 600, strategy=sim.Checkpointed(every=4))
    tape.backward(grads={result.particle_q: sim.ones_like(result.particle_q)})


def cloth() -> None:
    b = sim.ModelBuilder()
    material = {"distance": {"compliance": 0.01}, "shear": {"compliance": 0.1}, "bend": {"compliance": 1e3}}
    b.add_cloth_grid(
        pos=(0, 0, 0), dim_x=32, dim_y=32, cell_x=1 / 32, cell_y=1 / 32, density=0.2, fix_top=True, label="sheet",
        material=material,
    )  # fmt: skip
    model = b.finalize(requires_grad=True)
    backward_of(model, sim.SolverXPBD(model))


def tets() -> None:
    b = sim.ModelBuilder()
    b.add_soft_grid(dim_x=4, dim_y=4, dim_z=4, cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1000.0, label="block")
    model = b.finalize(requires_grad=True)
    backward_of(model, sim.SolverXPBD(model))


def hessian() -> None:
    """The product of a Hessian with a vector, through steps of a viscoelastic solid."""
    b = sim.ModelBuilder()
    b.add_soft_grid(
        dim_x=2, dim_y=2, dim_z=2, cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1000.0, label="block", fix_bottom=True,
        material={"viscoelastic": {"young": 1e4, "poisson": 0.4, "relaxing": 0.5, "time": 0.01}},
    )  # fmt: skip
    model = b.finalize(dtype=sim.float64, requires_grad=True)
    solver, young = sim.SolverXPBD(model), model["block.viscoelastic.young"]

    @sim.kernel
    def squares(q: sim.array[sim.vec3d], loss: sim.array[sim.float64]):
        sim.atomic_add(loss, 0, sim.dot(q[sim.tid()], q[sim.tid()]))

    def loss_of(young: Any) -> Any:
        final = sim.rollout(solver, model.state(), steps=2, dt=1 / 600).final.particle_q
        loss = sim.zeros(1, dtype=sim.float64, requires_grad=True)
        sim.launch(squares, dim=final.size, inputs=[final], outputs=[loss])
        return loss

    sim.autograd.hvp(loss_of, [young], [sim.ones_like(young)])


def bodies() -> None:
    """Ten links in a row, on ball joints."""
    b, links = sim.ModelBuilder(), range(10)
    inertia = np.diag([1e-3, 1e-2, 1e-2])
    row = [b.add_body((0.1 * k + 0.05, 0, 0), 0.1, inertia) for k in links]
    left, right = (-0.05, 0, 0), (0.05, 0, 0)
    b.add_constraints("ball", [[b.point_of(-1), b.point_of(row[0], left)]], 0.0, label="root")
    pairs = [[b.point_of(i, right), b.point_of(j, left)] for i, j in zip(row, row[1:], strict=False)]
    b.add_constraints("ball", pairs, 0.0, label="joint")
    model = b.finalize(dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        result = sim.rollout(sim.SolverXPBD(model), model.state(), steps=4, dt=1 / 600)
    tape.backward(grads={result.body_q: sim.ones_like(result.body_q)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = {"cloth": cloth, "bodies": bodies, "tets": tets, "hessian": hessian}
    parser.add_argument("program", nargs="?", default="cloth", choices=programs)
    program = programs[parser.parse_args().program]
    clock = Clock()
    for watched in PHASES:
        clock.watch(*watched)
    start = time.thread_time()
    program()
    total = time.thread_time() - start
    clock.seconds["the rest"] = total - clock.inner[0]
    for phase, seconds in sorted(clock.seconds.items(), key=lambda entry: -entry[1]):
        print(f"{phase:24}{seconds:8.2f} s{clock.calls[phase] or '':>8}")
    print(f"{'all':24}{total:8.2f} s")


if __name__ == "__main__":
    main()
