"""Draws the programs of the workflow fuzzer that have models, solvers and rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tools.workflow.generator import Draw, Generator
from tools.workflow.physics import Model, Solver, State, Trajectory
from tools.workflow.reference import Array
from tools.workflow.run import Statement

SETTINGS = {
    "chain": ("colored", "zero"), "soft_chain": ("jacobi", "zero"), "cloth": ("colored", "elastic"),
    "solid": ("colored", "zero"),
    "viscoelastic": ("colored", "elastic"), "balls": ("colored", "zero"),
}  # fmt: skip
"""Kind of model -> order and start of its first solver."""


@dataclass
class RolloutGenerator(Generator):
    """With a model `m0`, a solver, a state, a control."""

    models: tuple[str, ...] = tuple(SETTINGS)

    @property
    def points(self) -> int:
        return self.get("s0").particle_q.at.shape[0]

    def begin(self) -> Iterator[Statement]:
        kind = self.pick(self.models)
        order, start = SETTINGS[kind]
        self.made.update({"solver": 1, "s": 1, "f": 1, "m": 1})
        yield Statement(f'm0 = model("{kind}")')
        yield Statement(
            f"solver0 = sim.SolverXPBD(m0, iterations={self.pick([1, 1, 2])}, order={order!r}, start={start!r})"
        )
        yield Statement("s0 = m0.state()")
        yield Statement("c0 = m0.control()")
        yield Statement(f"f0 = sim.array({self.rand(self.points, 3)}, dtype=sim.vec3d, requires_grad=True)")
        yield from super().begin()

    def statements(self) -> Iterator[Statement]:
        if "narrow" not in self.families:
            yield from super().statements()
            return
        yield from self.begin()
        for _ in range(int(self.rng.integers(1, 4))):
            if self.chance(0.6):
                yield from self.narrowed()
            else:
                yield from self.episode()

    # -- what there is
    def states(self) -> list[str]:
        return self.known(State) + [f"{n}.final" for n in self.known(Trajectory)]

    def solvers(self) -> list[str]:
        return [n for n in self.known(Solver) if self.get(n).model is self.get("m0")]

    def vectors(self) -> list[str]:
        """Arrays of vec3 of one dimension."""
        out = [n for n in self.known(Array) if self.world[n].inner == 1 and self.world[n].at.ndim == 2]
        for name in self.states():
            out += [f"{name}.particle_q", f"{name}.particle_qd"]
        for name in self.known(Trajectory):
            frames = self.world[name].particle_q
            out += [f"{name}.particle_q.flatten()", f"{name}.particle_q[{int(self.rng.integers(frames.at.shape[0]))}]"]
        if "slices" in self.families:
            n = self.points
            first = int(self.rng.integers(0, 40 - 3 * n))
            out.append(f"p0[{first}:{first + 3 * n}].reshape(({n}, 3)).view(sim.vec3d)")
        return [v for v in out if not v.startswith("bad")]

    def fields(self) -> list[str]:
        """Vectors that may stand in a state."""
        return [v for v in self.vectors() if self.get(v).at.shape == (self.points, 3)]

    def arrays(self) -> list[str]:
        return self.numbers() + self.vectors()

    # -- what is recorded
    def lose(self, loss: str) -> Iterator[Statement]:
        last = f"tr{self.made['tr'] - 1}." if self.made["tr"] else " "
        vectors = self.vectors()
        for _ in range(int(self.rng.integers(1, 3))):
            x, w = self.pick([v for v in vectors if v.startswith(last)] * 3 + vectors), self.name("w")
            yield Statement(f"{w} = sim.array({self.like(self.get(x))}, dtype=sim.vec3d)")
            yield Statement(f"sim.launch(kernels.weigh, {self.get(x).size}, [{x}, {w}], [{loss}])")
        if self.chance(0.3):
            yield from super().lose(loss)

    def work(self) -> Iterator[Statement]:
        options: list[Draw] = [self.rollout] * 5 + [self.step, self.new_state, self.launch, self.copies, self.push]
        yield from self.pick(options + [self.replace_force] * ("replace" in self.families))()

    def dt(self) -> float:
        return self.pick([0.01, 0.01, 0.005])

    def rollout(self) -> Iterator[Statement]:
        solver, state = self.pick(self.solvers()), self.pick([*self.states(), "s0", "m0.state()"])
        steps = int(self.rng.integers(2, 9))
        options = ", control=c0" if self.chance(0.5) else ""
        if self.chance(0.5):
            options += f", frame_every={int(self.rng.integers(1, steps + 1))}"
        strategies = [
            "StoreAll()",
            f"Checkpointed(every={int(self.rng.integers(1, steps + 2))})",
            "Checkpointed(budget=2000)",
            "",
            "",
        ]
        strategy = self.pick(strategies)
        options += f", strategy=sim.{strategy}" if strategy else ""
        text = f"{self.name('tr')} = sim.rollout({solver}, {state}, {steps}, {self.dt()}{options})"
        how = self.rng.random()
        if "interrupt" in self.families and how < 0.25:
            yield Statement(text, self.interrupt(10))
        elif "fail" in self.families and how < 0.4:
            yield from self.failing(text)
            return
        if "aside" in self.families and how > 0.9:
            text = f"with sim.autograd.detect_nonfinite(): {text}"
        yield Statement(text, thread="threads" in self.families and how > 0.8)

    def failing(self, text: str) -> Iterator[Statement]:
        """A rollout that becomes infinite, and once more with finite forces."""
        f, n = self.name("f"), self.points
        yield Statement(f"{f} = sim.array({self.rand(n, 3)}, dtype=sim.vec3d, requires_grad=True)")
        yield Statement(f"bad_{f} = sim.array(inf + {self.rand(n, 3)}, dtype=sim.vec3d, requires_grad=True)")
        target = self.pick(self.known(State))
        yield Statement(f"{target}.particle_f = bad_{f}", calm=False)
        yield Statement(text, calm=False)
        yield Statement(f"{target}.particle_f = {f}", calm=False)
        yield Statement(text, calm=False)

    def step(self) -> Iterator[Statement]:
        before, after = self.pick(self.states()), self.name("s")
        yield Statement(f"{after} = m0.state()")
        yield Statement(
            f"{self.pick(self.solvers())}.step({before}, {after}, {self.pick(['None', 'c0'])}, None, {self.dt()})"
        )

    def new_state(self) -> Iterator[Statement]:
        yield Statement(f"{self.name('s')} = m0.state()")

    def push(self) -> Iterator[Statement]:
        x, y = self.pick(self.vectors()), self.name("v")
        yield Statement(f"{y} = sim.array({self.like(self.get(x))}, dtype=sim.vec3d, requires_grad=True)")
        yield Statement(f"sim.launch(kernels.push, {self.get(x).size}, [{x}, p0[3:4]], [{y}])")

    def replace_force(self) -> Iterator[Statement]:
        yield Statement(f"{self.pick(self.known(State))}.particle_f = {self.pick(self.fields())}", calm=False)

    def narrowed(self) -> Iterator[Statement]:
        """An episode with gradients of some material values only."""
        paths = list(self.get("m0").materials)
        chosen = [p for p in paths if self.chance(0.4)] or paths[:1]
        name = self.name("narrow")
        yield Statement(f"{name} = m0.gradients_of({chosen})", calm=False)
        yield Statement(f"{name}.__enter__()", calm=False)
        yield from self.episode()
        yield Statement(f"{name}.__exit__(None, None, None)", calm=False)

    # -- what happens in between
    def table(self) -> dict[str, list[Draw]]:
        out = super().table()
        more = {
            "change": [self.settings, self.material, self.material, self.value],
            "replace": [self.replace, self.replace_force], "solvers": [self.new_solver], "states": [self.whole_state],
            "threads": [self.rollouts_together], "aside": [self.look_at_rollouts], "forward": [self.forward],
        }  # fmt: skip
        for family, actions in more.items():
            out[family] = [*out.get(family, []), *actions]
        return out

    def settings(self) -> Iterator[Statement]:
        setting = self.pick(
            [
                "iterations = 2",
                "iterations = 1",
                "start = 'elastic'",
                "start = 'zero'",
                "order = 'jacobi'",
                "order = 'colored'",
            ]
        )
        yield Statement(f"{self.pick(self.solvers())}.{setting}", calm=False)

    def material(self) -> Iterator[Statement]:
        """Another material value, perhaps from an array with a gradient."""
        model: Model = self.get("m0")
        path = self.pick(model.materials)
        value = model[path].value
        if path.endswith(("position", "velocity", "spin", "normal", "point")):
            text = f"{value.tolist()} + 0.1 * {self.like(model[path])}"
        else:
            text = f"{float(self.rng.uniform(0.8, 1.2)):.3f} * np.array({value.tolist()})"
        if self.chance(0.4):
            name = self.name("value")
            yield Statement(
                f"{name} = sim.array({text}, dtype={'sim.vec3d' if model[path].inner else 'sim.float64'},"
                " requires_grad=True)"
            )
            text = name
        yield Statement(f'm0["{path}"].assign({text})')

    def value(self) -> Iterator[Statement]:
        """Another value of an array of a state."""
        state, field = self.pick(self.states()), self.pick(["particle_q", "particle_qd", "particle_f"])
        array = getattr(self.get(state), field)
        if np.isfinite(array.value).all():
            yield Statement(
                f"{state}.{field}.assign(0.2 * {self.like(array)} + np.array({np.round(array.value, 3).tolist()}))"
            )

    def whole_state(self) -> Iterator[Statement]:
        one, other = self.pick(self.states()), self.pick(self.states())
        yield Statement(self.pick([
            f"{self.name('s')} = {one}.clone()", f"{one}.assign({other})" if one != other else "pass",
            f"{one}.clear_forces()",
            f"{one}.time = {float(self.rng.uniform(0.0, 0.2)):.3f}",
        ]), calm=False)  # fmt: skip

    def replace(self) -> Iterator[Statement]:
        """Another array in the place of one."""
        how, target, motions = self.rng.random(), self.pick(self.states()), self.get("m0").motions
        other = self.pick(self.states())
        one, two = self.pick(self.known(Trajectory)), self.pick(self.known(Trajectory))
        if how < 0.3:
            yield Statement(
                f"{target}.{self.pick(['particle_q', 'particle_qd'])} = {self.pick(self.fields())}", calm=False
            )
        elif how < 0.6 and motions:
            m = self.name("motion")
            yield Statement(f"{m} = sim.array({self.rand(motions, 3)}, dtype=sim.vec3d, requires_grad=True)")
            yield Statement(f"c0.motion_vector = {m}", calm=False)
        elif how < 0.75 and one is not None:
            yield Statement(
                self.pick([f"{one}.particle_q = sim.clone({two}.particle_q)", f"{one}.final = {target}"]), calm=False
            )
        elif self.get("s0").internal_variables and how < 0.9:
            source = f"{other}.internal_variables"
            yield Statement(f"{target}.internal_variables = {self.pick([source, f'dict({source})'])}", calm=False)
        else:
            yield Statement(self.pick(["c0 = m0.control()", f"{target}.clock = {other}.clock"]), calm=False)

    def new_solver(self) -> Iterator[Statement]:
        order, start = SETTINGS[self.get("m0").kind]
        yield Statement(
            f"{self.name('solver')} = sim.SolverXPBD(m0, iterations={self.pick([1, 2])}, order={order!r},"
            f" start={start!r})"
        )

    def rollouts_together(self) -> Iterator[Statement]:
        """Another model, in a thread of its own, while this one is rolled out."""
        m, solver, one, two = self.name("m"), self.name("solver"), self.name("tr"), self.name("tr")
        kind = self.get("m0").kind
        yield Statement(f'{m} = model("{kind}")')
        yield Statement(f"{solver} = sim.SolverXPBD({m})")
        first = f"{one} = sim.rollout({self.pick(self.solvers())}, s0, 3, {self.dt()})"
        yield Statement(f"{first}\n{two} = sim.rollout({solver}, {m}.state(), 4, 0.01)", together=True)

    def look_at_rollouts(self) -> Iterator[Statement]:
        solver, state = self.pick(self.solvers()), self.pick(self.states())
        options = [
            "aside(lambda: m0.arrays)",
            f"aside(lambda: {solver}.multipliers(next(iter(m0.constraint_sets))).numpy())",
        ]
        options += [] if self.tape is not None else [
            f"aside(lambda: sim.SolverXPBD(m0, iterations=3).step({state}, m0.state(), None, None, 0.01))",
            f"aside(lambda: sim.rollout({solver}, {state}, 3, 0.01))",
        ]  # fmt: skip
        yield from self.perhaps_interrupted(self.pick(options))

    def forward(self) -> Iterator[Statement]:
        """Forward mode through a rollout."""
        solver, state = self.pick(self.solvers()), self.pick(self.states())
        function = f"lambda q: sim.rollout({solver}, {state}, 2, 0.01).final.particle_q"
        if self.tape is None:
            text = f"aside(lambda: sim.autograd.jvp({function}, [{state}.particle_q], [np.ones(({self.points}, 3))]))"
            yield from self.perhaps_interrupted(text)

    def perhaps_interrupted(self, text: str) -> Iterator[Statement]:
        if "interrupt" in self.families and self.chance(0.5):
            yield Statement(text, self.interrupt(9))
        yield Statement(text, calm=False)
