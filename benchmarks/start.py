"""What things cost before any physics: import, compiling, a launch, a record on a tape, a row of a graph.

    python benchmarks/start.py [--json FILE]

Each line is the least of several runs, beside its limit, and the ratio of the two.  Fresh processes; imports and first
launches as processor time (user + system), so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CLOTH = """
import sim
b = sim.ModelBuilder()
b.add_cloth_grid(pos=(0, 0, 0), dim_x=32, dim_y=32, cell_x=1 / 32, cell_y=1 / 32, density=0.2, fix_top=True,
                 label="sheet", material={"distance": {"compliance": 0.01}, "shear": {"compliance": 0.1},
                 "bend": {"compliance": 1e3}})
model = b.finalize(requires_grad=True)
"""
FORWARD = (
    CLOTH
    + """
assert sim.rollout(sim.SolverXPBD(model), model.state(), steps=10, dt=1 / 600).particle_q.numpy().any()
"""
)
GRADIENT = (
    CLOTH
    + """
with sim.Tape() as tape:
    solver, strategy = sim.SolverXPBD(model), sim.Checkpointed(every=10)
    result = sim.rollout(solver, model.state(), steps=10, dt=1 / 600, strategy=strategy)
tape.backward(grads={result.particle_q: sim.ones_like(result.particle_q)})
assert abs(model["sheet.distance.compliance"].grad.numpy()[0]) > 0
"""
)

FIRST = """
import time
import numpy as np
import sim

points = sim.array(np.random.default_rng(0).random((64, 3)), dtype=sim.vec3)
faces = sim.array(np.arange(63).reshape(-1, 3).ravel(), dtype=int)
out = sim.zeros(64, dtype=float)
{made}

@sim.kernel
def first(structure: sim.uint64, x: sim.array[sim.vec3], out: sim.array[float]):
    i = sim.tid()
    here = x[i]
{body}

start = time.process_time()
sim.launch(first, dim=64, inputs=[{handle}, points, out])
print(time.process_time() - start)
"""
PLAIN = """
    force = sim.vec3(0.0, -9.81, 0.0)
    reach = sim.length(here)
    if reach > 1.0:
        force = force - 10.0 * (reach - 1.0) * sim.normalize(here)
    here = here + 0.01 * force
    x[i] = here
    out[i] = sim.dot(here, force)
"""
NEAR = """
    n = float(0.0)
    for j in sim.hash_grid_query(structure, here, 0.2):
        if sim.length(x[j] - here) < 0.2:
            n += 1.0
    out[i] = n
"""
BOXES = """
    n = float(0.0)
    for j in sim.bvh_query_aabb(structure, here, here + sim.vec3(0.1)):
        n += 1.0
    out[i] = n
"""
CLOSEST = """
    found = sim.mesh_query_point(structure, here, 10.0)
    if found.result:
        out[i] = found.sign * sim.length(sim.mesh_eval_position(structure, found.face, found.u, found.v) - here)
"""
RAY = """
    found = sim.mesh_query_ray(structure, here, sim.vec3(1.0, 0.0, 0.0), 10.0)
    if found.result:
        out[i] = found.t
"""
GRID = "structure = sim.HashGrid(8, 8, 8); structure.build(points, 0.2)"
FIRST_LAUNCHES = {
    "10 lines": FIRST.format(made="", body=PLAIN, handle="0"),
    "HashGrid": FIRST.format(made=GRID, body=NEAR, handle="structure.id"),
    "Bvh": FIRST.format(made="structure = sim.Bvh(points, points)", body=BOXES, handle="structure.id"),
    "Mesh, point": FIRST.format(made="structure = sim.Mesh(points, faces)", body=CLOSEST, handle="structure.id"),
    "Mesh, ray": FIRST.format(made="structure = sim.Mesh(points, faces)", body=RAY, handle="structure.id"),
}
"""A kernel's first launch; the structures are there, with the kernels that build them."""


CHAIN = Path(__file__).parents[1] / "scenes" / "chain.yaml"


def environment(cache: str) -> dict[str, str]:
    """That of a fresh interpreter: byte code kept."""
    env = {
        **os.environ,
        "SIM_CACHE_DIR": cache,
        "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "sim-benchmark-bytecode"),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def seconds_of(code: str, cache: str) -> float:
    """Wall time of a fresh interpreter that runs `code`.  (NumPy's idle threads are processor time.)"""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(cache))
    return time.perf_counter() - start


def processor_seconds(code: str, cache: str) -> float:
    """What a program prints, in a fresh interpreter where NumPy has one thread."""
    env = {**environment(cache), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")  # kernels are read from files
        with open(path, "w") as file:
            file.write(code)
        return float(subprocess.run([sys.executable, path], check=True, env=env, capture_output=True).stdout)


def command_seconds(cache: str) -> float:
    """Processor time, user and system, of the command on a small scene, from the start of its process to its end."""
    code = "from sim.cli import main; raise SystemExit(main())"
    with tempfile.TemporaryDirectory() as folder:
        before = os.times()
        arguments = ["-q", "run", str(CHAIN), "--out", os.path.join(folder, "run")]
        env = {**environment(cache), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=env)
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def first_launches() -> dict[str, float]:
    """Milliseconds of the first launch of kernels, the cache of compiled ones empty, then full."""
    found = {}
    for name, code in FIRST_LAUNCHES.items():
        with tempfile.TemporaryDirectory() as warm:
            cold = []
            for _ in range(5):
                with tempfile.TemporaryDirectory() as empty:
                    cold.append(processor_seconds(code, empty))
            processor_seconds(code, warm)
            found[f"first launch, {name}, cold [ms]"] = 1e3 * min(cold)
            found[f"first launch, {name}, warm [ms]"] = 1e3 * min(processor_seconds(code, warm) for _ in range(5))
    return found


def per_call(action: Callable[[], object], calls: int = 5000, rounds: int = 5) -> float:
    """Least seconds per call."""
    action()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            action()
        best = min(best, (time.process_time() - start) / calls)
    return best


def launches() -> dict[str, float]:
    """Microseconds per launch, in all the ways that there are."""
    import sim

    @sim.kernel
    def saxpy(x: sim.array[float], y: sim.array[float], a: float):
        i = sim.tid()
        y[i] = a * x[i] + y[i]

    x, y = sim.ones(64, requires_grad=True), sim.zeros(64, requires_grad=True)
    count, weights = 300, sim.ones(64)
    recorded = sim.launch(saxpy, dim=64, inputs=[x], outputs=[y, 0.5], record_cmd=True)

    def launch(dim: int = 64) -> None:
        sim.launch(saxpy, dim=dim, inputs=[x], outputs=[y, 0.5])

    with sim.capture() as graph:
        for _ in range(1000):
            launch(1)
    record, back = [], []
    for _ in range(30):
        start = time.process_time()
        with sim.Tape() as tape:
            for _ in range(count):
                launch()
        middle = time.process_time()
        tape.backward(grads={y: weights})
        record.append(middle - start)
        back.append(time.process_time() - middle)
    return {
        "launch [us]": 1e6 * per_call(launch),
        "recorded Launch [us]": 1e6 * per_call(recorded.launch),
        "row of a replayed graph [us]": 1e3 * per_call(graph.replay, 200),
        "tape: record a launch [us]": 1e6 * min(record) / count,
        "tape: backward of a launch [us]": 1e6 * min(back) / count,
    }


LIMITS = {
    "import numpy [s]": 0.3,
    "import sim [s]": 0.3,
    **{f"first launch, {name}, cold [ms]": 60.0 if name == "10 lines" else 250.0 for name in FIRST_LAUNCHES},
    **{f"first launch, {name}, warm [ms]": 10.0 if name == "10 lines" else 100.0 for name in FIRST_LAUNCHES},
    "first forward, cold cache [s]": 1.5,
    "first gradient, cold cache [s]": 2.5,
    "first forward, warm cache [s]": 0.35,
    "first gradient, warm cache [s]": 0.6,
    "simopt run scenes/chain.yaml, cold cache, processor time [s]": 2.5,
    "simopt run scenes/chain.yaml, warm cache, processor time [s]": 1.0,
    "launch [us]": 4.0,
    "recorded Launch [us]": 0.5,
    "row of a replayed graph [us]": 0.1,
    "tape: record a launch [us]": 6.0,
    "tape: backward of a launch [us]": 6.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as warm:
        for module in ("numpy", "sim"):
            code = f"import {module}, time; print(time.process_time())"
            figures[f"import {module} [s]"] = min(processor_seconds(code, warm) for _ in range(6))
        for name, code in (("first forward", FORWARD), ("first gradient", GRADIENT)):
            cold = []
            for _ in range(3):
                with tempfile.TemporaryDirectory() as empty:
                    cold.append(seconds_of(code, empty))
            seconds_of(code, warm)
            figures[f"{name}, cold cache [s]"] = min(cold)
            figures[f"{name}, warm cache [s]"] = min(seconds_of(code, warm) for _ in range(5))
        cold = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as empty:
                cold.append(command_seconds(empty))
        figures["simopt run scenes/chain.yaml, cold cache, processor time [s]"] = min(cold)
        figures["simopt run scenes/chain.yaml, warm cache, processor time [s]"] = min(
            command_seconds(warm) for _ in range(6)
        )
    figures |= first_launches() | launches()
    print(f"{'':64}{'measured':>10}{'limit':>10}{'ratio':>8}")
    for name, limit in LIMITS.items():
        print(f"{name:64}{figures[name]:10.3g}{limit:10.3g}{figures[name] / limit:8.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"figures": figures, "limits": LIMITS, "python": sys.version}, file, indent=1)


if __name__ == "__main__":
    main()
