"""Random workflows: recording, failing, interrupting, changing, capturing, going back, in any order.

    PYTHONPATH=tests python tests/fuzz_workflows.py --count 1000 --first 0 --families all

Every program is a list of lines; it runs on `sim` and, line by line, on `workflow_reference`, and both have to agree after each.
A program that fails is made small and printed as one that can be run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import workflow_problems
import workflow_torch
from workflow_models import Fresh
from workflow_reference import Array, Model, State, Tape, Trajectory
from workflow_run import HEAD, Report, Statement, program_text, run, shrink

SETTINGS = {
    "chain": ("colored", "zero"), "soft_chain": ("jacobi", "zero"), "cloth": ("colored", "elastic"), "solid": ("colored", "zero"),
    "viscoelastic": ("colored", "elastic"), "balls": ("colored", "zero"),
}  # fmt: skip
"""Kind of model -> order and start of its first solver."""
FAMILIES = ("change", "replace", "interrupt", "fail", "seeds", "capture", "slices", "toggle", "gradients", "redefine", "threads", "solvers")
"""What programs do beside recording and going backward."""


@dataclass
class Generator:
    """Draws the statements of a program, one after the other, looking at what there is."""

    rng: np.random.Generator
    families: frozenset[str]
    physics: bool
    world: dict[str, Any] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, things: Any) -> Any:
        things = list(things)
        return things[int(self.rng.integers(len(things)))] if things else None

    def name(self, stem: str) -> str:
        self.made[stem] += 1
        return f"{stem}{self.made[stem] - 1}"

    def seed(self) -> int:
        return int(self.rng.integers(1000))

    def known(self, kind: type) -> list[str]:
        return [name for name, thing in self.world.items() if isinstance(thing, kind)]

    # -- what there is
    def vectors(self) -> list[str]:
        """Arrays of vec3 of one dimension."""
        out = [n for n in self.known(Array) if self.world[n].inner == 1]
        for name in self.states():
            out += [f"{name}.particle_q", f"{name}.particle_qd"]
        for name in self.known(Trajectory):
            frames = self.world[name].particle_q
            out += [f"{name}.particle_q.flatten()", f"{name}.particle_q[{int(self.rng.integers(frames.at.shape[0]))}]"]
        if self.physics and "slices" in self.families:
            n = self.points
            first = int(self.rng.integers(0, 40 - 3 * n))
            out.append(f"p0[{first}:{first + 3 * n}].reshape(({n}, 3)).view(sim.vec3d)")
        return out

    def numbers(self, length: int | None = None) -> list[str]:
        """Arrays of numbers of one dimension; slices of them."""
        out = [n for n in self.known(Array) if self.world[n].inner == 0 and self.world[n].at.ndim == 1]
        if "slices" in self.families:
            for n in list(out):
                size = self.world[n].size
                if size > 1:
                    k = length if length is not None else int(self.rng.integers(1, size))
                    if k < size:
                        first = int(self.rng.integers(0, size - k + 1))
                        out.append(f"{n}[{first}:{first + k}]")
        return [n for n in out if length is None or self.get(n).size == length]

    def states(self) -> list[str]:
        return self.known(State) + [f"{n}.final" for n in self.known(Trajectory)]

    def get(self, text: str) -> Any:
        return eval(text, self.world)

    @property
    def points(self) -> int:
        return self.get("s0").particle_q.at.shape[0]

    @property
    def tape(self) -> Tape | None:
        """The one that records."""
        tapes = self.get("sim").tapes
        return tapes[-1] if tapes else None

    @property
    def capturing(self) -> bool:
        return bool(self.get("sim").graphs)

    # -- a program
    def statements(self) -> Iterator[Statement]:
        self.made.update({"solver": 1, "s": 1, "f": 1, "x": 1})
        yield from self.begin()
        for _ in range(int(self.rng.integers(1, 4))):
            yield from self.episode()
        for tape in reversed(self.known(Tape)):
            if self.chance(0.5):
                yield from self.backward(tape)

    def begin(self) -> Iterator[Statement]:
        if self.physics:
            kind = self.pick(SETTINGS)
            yield Statement(f'm0 = model("{kind}")')
            order, start = SETTINGS[kind]
            yield Statement(f"solver0 = sim.SolverXPBD(m0, iterations={self.pick([1, 1, 2])}, order={order!r}, start={start!r})")
            yield Statement("s0 = m0.state()")
            yield Statement("c0 = m0.control()")
            yield Statement(f"f0 = sim.array(rand({self.seed()}, {self.points}, 3), dtype=sim.vec3d, requires_grad=True)")
        yield Statement(f"p0 = sim.array(rand({self.seed()}, 40), dtype=sim.float64, requires_grad=True)")
        yield Statement(f"x0 = sim.array(rand({self.seed()}, 5), dtype=sim.float64, requires_grad=True)")

    def episode(self) -> Iterator[Statement]:
        """Record something with a loss, upset things, go back."""
        tape = self.name("t")
        yield Statement(f"{tape} = sim.Tape()")
        loss = self.name("loss")
        yield Statement(f"{loss} = sim.array([0.0], dtype=sim.float64, requires_grad=True)")
        whole = "capture" in self.families and self.chance(0.4)
        graph = self.name("graph")
        if whole:
            yield Statement(f"c_{graph} = sim.capture()", calm=False)
            yield Statement(f"{graph} = c_{graph}.__enter__()", calm=False)
        yield Statement(f"{tape}.__enter__()")
        for _ in range(int(self.rng.integers(1, 4))):
            yield from self.work()
            if self.chance(0.3):
                yield from self.upset()
        yield from self.lose(loss)
        yield Statement(f"{tape}.__exit__(None, None, None)")
        back_too = whole and self.chance(0.6)
        if back_too:
            yield from self.backward(tape, loss)
        if whole:
            yield Statement(f"c_{graph}.__exit__(None, None, None)")
        for _ in range(int(self.rng.integers(0, 3))):
            yield from self.upset()
        if whole and self.chance(0.8):
            if self.chance(0.5):
                yield Statement(f"{tape}.zero()")
            yield Statement(f"{graph}.replay()", calm=False)
        if not back_too or self.chance(0.3):
            yield from self.backward(tape, loss)
        for _ in range(int(self.rng.integers(0, 3))):
            yield from self.upset()
        if self.chance(0.4):
            yield Statement(f"{tape}.{self.pick(['zero', 'zero', 'reset'])}()")
        if self.chance(0.3):
            yield from self.backward(self.pick(self.known(Tape)))

    def backward(self, tape: str, loss: str | None = None) -> Iterator[Statement]:
        how = self.rng.random()
        losses = [n for n in self.known(Array) if n.startswith("loss")]
        if loss is None:
            loss = self.pick(losses)
            calm = False
        else:
            calm = True
        text = f"{tape}.backward(loss={loss})"
        if "seeds" in self.families and how < 0.5:
            written = self.written(tape)
            target = self.pick(written)
            if target is not None and how < 0.25:
                shape = ", ".join(str(k) for k in self.get(target).at.shape)
                text = f"{tape}.backward(grads={{{target}: rand({self.seed()}, {shape})}})"
            elif target is not None and how < 0.4:
                yield Statement(f"{target}.grad.assign({self.values(self.get(target))})", calm=calm)
                text = f"{tape}.backward()"
            else:
                text, calm = f"{tape}.backward()", False
        interrupt = int(np.exp(self.rng.uniform(0, 9))) if "interrupt" in self.families and self.chance(0.3) else None
        thread = "threads" in self.families and self.chance(0.2)
        yield Statement(text, interrupt, thread and interrupt is None, calm)
        if interrupt is not None:
            yield Statement(text, calm=False)

    def written(self, tape: str) -> list[str]:
        """Arrays with a name that the tape has written."""
        cells = {a.cell for n in self.get(tape).nodes for a in n.operation.writes}
        names = [n for n in [*self.vectors(), *self.numbers()] if not n.startswith("loss") and "[" not in n and "(" not in n]
        return [n for n in names if self.get(n).cell in cells and self.get(n).requires_grad]

    def values(self, array: Array) -> str:
        return f"rand({self.seed()}, {', '.join(str(k) for k in array.at.shape)})"

    def lose(self, loss: str) -> Iterator[Statement]:
        """Sums something up."""
        if self.physics:
            for _ in range(int(self.rng.integers(1, 3))):
                x = self.pick(self.recent_vectors())
                w = self.name("w")
                yield Statement(f"{w} = sim.array({self.values(self.get(x))}, dtype=sim.vec3d)")
                yield Statement(f"sim.launch(kernels.weigh, {self.get(x).size}, [{x}, {w}], [{loss}])")
        if not self.physics or self.chance(0.3):
            x = self.pick([n for n in self.numbers() if not n.startswith("loss")])
            yield Statement(f"sim.launch(kernels.total, {self.get(x).size}, [{x}], [{loss}])")

    def recent_vectors(self) -> list[str]:
        trajectories = [f"tr{self.made['tr'] - 1}." for _ in range(3) if self.made["tr"]]
        recent = [v for v in self.vectors() for t in trajectories if v.startswith(t)]
        return recent * 3 + [v for v in self.vectors()]

    # -- what is recorded
    def work(self) -> Iterator[Statement]:
        options = [self.launch, self.copies]
        if self.physics:
            options = [self.rollout] * 5 + [self.step, self.new_state, self.launch, self.copies] + [self.replace_force] * ("replace" in self.families)
        yield from self.pick(options)()

    def dt(self) -> float:
        return self.pick([0.01, 0.01, 0.005])

    def rollout(self) -> Iterator[Statement]:
        solver, state = self.pick(self.solvers()), self.pick([*self.states(), "s0", "m0.state()"])
        steps = int(self.rng.integers(2, 9))
        options = ""
        if self.chance(0.5):
            options += ", control=c0"
        if self.chance(0.5):
            options += f", frame_every={int(self.rng.integers(1, steps + 1))}"
        strategy = self.pick(["", "", ", strategy=sim.StoreAll()", f", strategy=sim.Checkpointed(every={int(self.rng.integers(1, steps + 2))})", ", strategy=sim.Checkpointed(budget=2000)"])
        text = f"{self.name('tr')} = sim.rollout({solver}, {state}, {steps}, {self.dt()}{options}{strategy})"
        kind = self.rng.random()
        if "interrupt" in self.families and kind < 0.25:
            yield Statement(text, int(np.exp(self.rng.uniform(0, 10))))
            yield Statement(text)
        elif "fail" in self.families and kind < 0.4:
            yield from self.failing(text, steps)
        elif "threads" in self.families and kind < 0.5:
            yield Statement(text, thread=True)
        else:
            yield Statement(text)

    def failing(self, text: str, steps: int) -> Iterator[Statement]:
        """A rollout that becomes infinite, and once more with finite forces."""
        f = self.name("f")
        yield Statement(f"{f} = sim.array(rand({self.seed()}, {self.points}, 3), dtype=sim.vec3d, requires_grad=True)")
        yield Statement(f"bad_{f} = sim.array(inf + rand(0, {self.points}, 3), dtype=sim.vec3d, requires_grad=True)")
        target = self.pick(self.known(State))
        yield Statement(f"{target}.particle_f = bad_{f}", calm=False)
        yield Statement(text, calm=False)
        yield Statement(f"{target}.particle_f = {f}", calm=False)
        yield Statement(text, calm=False)

    def solvers(self) -> list[str]:
        return [n for n in self.world if n.startswith("solver")]

    def step(self) -> Iterator[Statement]:
        before, after = self.pick(self.states()), self.name("s")
        yield Statement(f"{after} = m0.state()")
        yield Statement(f"{self.pick(self.solvers())}.step({before}, {after}, {self.pick(['None', 'c0'])}, None, {self.dt()})")

    def new_state(self) -> Iterator[Statement]:
        yield Statement(f"{self.name('s')} = m0.state()")

    def replace_force(self) -> Iterator[Statement]:
        state = self.pick(self.known(State))
        n = self.points
        force = self.pick([v for v in self.vectors() if self.get(v).at.shape == (n, 3) and not v.startswith("bad")])
        yield Statement(f"{state}.particle_f = {force}")

    def disjoint(self, a: str, b: str) -> bool:
        x, y = self.get(a), self.get(b)
        return x.cell is not y.cell or not np.intersect1d(x.at, y.at).size

    def launch(self) -> Iterator[Statement]:
        kernel = self.pick(["apply", "apply", "in_place", "blend"] + ["push"] * self.physics)
        if kernel == "push":
            x = self.pick(v for v in self.vectors() if not v.startswith("bad"))
            y = self.name("v")
            yield Statement(f"{y} = sim.array({self.values(self.get(x))}, dtype=sim.vec3d, requires_grad=True)")
            yield Statement(f"sim.launch(kernels.push, {self.get(x).size}, [{x}, p0[3:4]], [{y}])")
            return
        x = self.pick(n for n in self.numbers() if not n.startswith("loss"))
        size = self.get(x).size
        if kernel == "in_place":
            yield Statement(f"sim.launch(kernels.in_place, {size}, [{x}])")
            return
        targets = [y for y in self.numbers(size) if self.disjoint(x, y) and not y.startswith("loss")]
        y = self.pick(targets) if targets and self.chance(0.5) else None
        if y is None:
            y = self.name("y")
            yield Statement(f"{y} = sim.array(rand({self.seed()}, {size}), dtype=sim.float64, requires_grad=True)")
        yield Statement(f"sim.launch(kernels.{kernel}, {size}, [{', '.join([x] * (1 + (kernel == 'blend')))}], [{y}])")

    def copies(self) -> Iterator[Statement]:
        how = self.rng.random()
        if how < 0.3:
            x = self.pick([n for n in [*self.numbers(), *self.vectors()] if not n.startswith(("loss", "bad"))])
            yield Statement(f"{self.name('y' if self.get(x).inner == 0 else 'v')} = sim.clone({x})")
            return
        x = self.pick(n for n in self.numbers() if not n.startswith("loss"))
        size = self.get(x).size
        sources = [y for y in self.numbers(size) if self.disjoint(x, y) and not y.startswith("loss")]
        if sources and how < 0.6:
            yield Statement(self.pick([f"{x}.assign({self.pick(sources)})", f"sim.copy({x}, {self.pick(sources)})"]))
        elif how < 0.8:
            yield Statement(f"{x}.assign(rand({self.seed()}, {size}))")
        else:
            yield Statement(f"{x}.fill_({self.pick([0.0, 0.4])})")

    # -- what happens in between
    def upset(self) -> Iterator[Statement]:
        table: dict[str, list[Callable[[], Iterator[Statement]]]] = {
            "change": [self.copies, self.change] if self.physics else [self.copies],
            "replace": [self.replace] if self.physics else [],
            "toggle": [self.toggle],
            "gradients": [self.gradients],
            "redefine": [self.redefine],
            "seeds": [self.write_gradient],
            "fail": [self.record_failing],
            "solvers": [self.new_solver] if self.physics else [],
            "capture": [self.replay],
        }
        options = [do for name, found in table.items() if name in self.families for do in found]
        if options:
            yield from self.pick(options)()

    def change(self) -> Iterator[Statement]:
        """Settings of a solver, material values, arrays of states."""
        how = self.rng.random()
        solver = self.pick(self.solvers())
        if how < 0.3:
            setting = self.pick(["iterations = 2", "iterations = 1", "start = 'elastic'", "start = 'zero'", "order = 'jacobi'", "order = 'colored'"])
            yield Statement(f"{solver}.{setting}", calm=False)
        elif how < 0.7:
            model: Model = self.get("m0")
            path = self.pick(model.materials)
            values = model[path].value
            if path.endswith(("position", "velocity", "spin", "normal", "point", "radius")):
                yield Statement(f'm0["{path}"].assign({values.tolist()} + 0.1 * {self.values(model[path])})')
            else:
                yield Statement(f'm0["{path}"].assign({float(self.rng.uniform(0.8, 1.2)):.3f} * np.array({values.tolist()}))')
        else:
            state = self.pick(self.states())
            field_name = self.pick(["particle_q", "particle_qd", "particle_f"])
            array = getattr(self.get(state), field_name)
            yield Statement(f"{state}.{field_name}.assign(0.2 * {self.values(array)} + np.array({np.round(array.value, 3).tolist()}))")

    def replace(self) -> Iterator[Statement]:
        """Another array in the place of one."""
        n, how = self.points, self.rng.random()
        vectors = [v for v in self.vectors() if self.get(v).at.shape == (n, 3) and not v.startswith("bad")]
        target = self.pick(self.states())
        motions = self.get("m0").motions
        if how < 0.3:
            yield Statement(f"{target}.particle_f = {self.pick(vectors)}", calm=False)
        elif how < 0.45:
            sources = [s for s in self.states() if s != target]
            yield Statement(f"{target}.{self.pick(['particle_q', 'particle_qd'])} = {self.pick(sources)}.{self.pick(['particle_q', 'particle_qd'])}" if sources else "pass", calm=False)
        elif how < 0.65 and motions:
            m = self.name("motion")
            yield Statement(f"{m} = sim.array(rand({self.seed()}, {motions}, 3), dtype=sim.vec3d, requires_grad=True)")
            yield Statement(f"c0.motion_vector = {m}", calm=False)
        elif how < 0.8 and self.known(Trajectory):
            one, other = self.pick(self.known(Trajectory)), self.pick(self.known(Trajectory))
            yield Statement(self.pick([f"{one}.particle_q = sim.clone({other}.particle_q)", f"{one}.final = {self.pick(self.states())}"]), calm=False)
        elif self.get("s0").memory:
            yield Statement(f"{target}.memory = {self.pick(self.states())}.memory", calm=False)
        else:
            yield Statement(f"c0 = {self.pick(['m0.control()', 'c0'])}")

    def toggle(self) -> Iterator[Statement]:
        x = self.pick([*self.numbers(), *self.vectors()])
        name = x.split("[")[0].split(".flat")[0] if not x.startswith("tr") else x.removesuffix(".flatten()").split("[")[0]
        yield Statement(f"{name}.requires_grad = {self.pick([True, False])}", calm=False)

    def gradients(self) -> Iterator[Statement]:
        """Another gradient array, or none."""
        x = self.pick([n for n in [*self.numbers(), *self.vectors()] if "[" not in n and "(" not in n])
        if self.chance(0.4):
            yield Statement(f"{x}.grad = None", calm=False)
            return
        array, g = self.get(x), self.name("g")
        kind = "sim.vec3d" if array.inner else "sim.float64"
        yield Statement(f"{g} = sim.array({self.values(array) if self.chance(0.5) else f'0 * {self.values(array)}'}, dtype={kind})")
        yield Statement(f"{x}.grad = {g}", calm=False)

    def write_gradient(self) -> Iterator[Statement]:
        x = self.pick([n for n in [*self.numbers(), *self.vectors()] if self.get(n).requires_grad])
        if x is not None:
            yield Statement(f"{x}.grad.{self.pick(['zero_()', f'assign({self.values(self.get(x))})'])}", calm=False)

    def redefine(self) -> Iterator[Statement]:
        yield Statement(self.pick([
            "kernels.GAIN = 0.8", "kernels.GAIN = 2.1", "kernels.shape = kernels.soften", "kernels.shape = kernels.squash",
            "sim.func_grad(kernels.squash)(kernels.doubled)", "sim.func_grad(kernels.squash)(kernels.tripled)",
        ]), calm=False)  # fmt: skip

    def record_failing(self) -> Iterator[Statement]:
        """A host function on the tape whose way back raises the first time."""
        if self.tape is None or self.capturing:
            return
        tape = next(n for n in self.known(Tape) if self.get(n) is self.tape)
        yield Statement(f"{tape}.record_func(failing(1), [x0])", calm=False)

    def new_solver(self) -> Iterator[Statement]:
        yield Statement(f"{self.name('solver')} = sim.SolverXPBD(m0, iterations={self.pick([1, 2])}, order='colored', start='zero')")

    def replay(self) -> Iterator[Statement]:
        graphs = [n for n in self.world if n.startswith("graph")]
        if graphs and not self.capturing:
            yield Statement(f"{self.pick(graphs)}.replay()", calm=False)


def one(seed: int, fresh: Fresh, families: frozenset[str] | None = None) -> Program:
    """The program of a seed, and what became of it."""
    rng = np.random.default_rng(seed)
    if families is None:
        families = frozenset(f for f in FAMILIES if rng.random() < 0.3)
    draw = rng.random()
    if draw < 0.1 and (not families or families & {"interrupt", "change", "fail"}):
        kind = str(rng.choice(list(workflow_problems.SCENES)))
        made = workflow_problems.Generator(rng, kind, "interrupt" in families)
        again = partial(workflow_problems.run, fresh=fresh, kind=kind)
        return Program(again(made.statements()), again, f"from workflow_problems import *\np = problem({kind!r})")
    if draw < 0.15 and workflow_torch.AVAILABLE and not families:
        again = partial(run, fresh=fresh, kind=workflow_torch.TorchRun)
        return Program(again(lambda _: workflow_torch.Generator(rng).statements()), again, workflow_torch.HEAD)
    own = "redefine" in families
    again = partial(run, fresh=fresh, own_kernels=own)

    def statements(names: dict[str, Any]) -> Iterator[Statement]:
        yield from Generator(rng, families, bool(draw < 0.55), names).statements()

    return Program(again(statements), again, HEAD + ".fresh()" * own)


@dataclass
class Program:
    """report: of the program; again: runs statements as it did; head: the lines before them."""

    report: Report
    again: Callable[[list[Statement]], Report]
    head: str

    def smallest(self) -> Program:
        """It fails; the smallest one that fails in the same way."""
        return Program(shrink(self.report, self.again), self.again, self.head)

    def text(self) -> str:
        assert self.report.failure is not None
        return f"{program_text(self.report, self.head)}\n# {self.report.failure.what}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--families", default="", help="with commas; drawn for each program where not given; 'none'")
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    given = parser.parse_args()
    families = frozenset(given.families.replace("none", "").strip(",").split(",")) - {""} if given.families else None
    fresh, fates, compared, kinds = Fresh(), Counter(), 0, Counter()
    for seed in range(given.first, given.first + given.count):
        program = one(seed, fresh, families)
        fates.update(program.report.fates)
        compared += program.report.compared
        if program.report.failure is None:
            continue
        small = program.smallest()
        kinds[small.report.failure.kind] += 1
        print(f"# seed {seed}\n{small.text()}\n", flush=True)
        if not given.all:
            break
    fresh.close()
    print(dict(fates), f"{compared} gradients compared", dict(kinds))


if __name__ == "__main__":
    main()
