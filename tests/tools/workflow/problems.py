"""Workflows of `Problem`: evaluations, simulations and searches, broken off or not, between changes of everything that
they depend on.

A program is a list of lines about the problem `p`.  Some ask something; the answer has to be that of a fresh problem in
a process of its own, to which the changes were made before, and nothing else was asked.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sim
from tools.scenes.problems import ROPE, SHEET, write_scene, write_target
from tools.workflow.models import OracleError
from tools.workflow.run import Failure, Report, Statement, attempt, near

TWO = SHEET.replace("cells: [3, 3]", "cells: [2, 2]").replace(
    "duration: 0.2, fps: 20", "duration: 0.1, fps: 40"
).replace(
    "  one: {target: {file: target.npz, key: corners, noise: 10 mm}}\n",
    "  one: {target: {file: target.npz, key: corners, noise: 10 mm}}\n"
    "  two: {target: {file: target.npz, key: corners, noise: 10 mm}, set: {objects.sheet.velocity: [0, 0, 0.3]}}\n",
).replace(
    "loss:\n", "  heavy: {of: objects.sheet.cloth.density, transform: log, bounds: [0.01, 10]}\nloss:\n"
)  # fmt: skip
PULL = (
    ROPE.replace("duration: 0.2, fps: 20", "duration: 0.1, fps: 40")
    + """\
markers:
  links: {on: rope, where: {x: [0.1, null]}}
experiments:
  one: {target: {file: target.npz, key: links, noise: 10 mm}}
parameters:
  stretch: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-4, 10]}
  start: {of: objects.rope.velocity}
loss:
  - {match: links}
  - {prior: stretch, value: 0.01, sd: 1.0}
optimize:
  lbfgs: {iterations: 3}
  rollout: {checkpointed: {every: 7}}
"""
)
SCENES = {"sheet": (TWO, "corners", "objects.sheet.cloth.material.distance.compliance"),
          "rope": (PULL, "links", "objects.rope.chain.material.distance.compliance")}  # fmt: skip


@cache
def _folder(kind: str) -> tempfile.TemporaryDirectory:
    text, key, path = SCENES[kind]
    folder = tempfile.TemporaryDirectory()
    write_target(Path(folder.name), text, key, overrides={path: 0.004})
    write_scene(Path(folder.name), text)
    return folder


def problem(kind: str) -> sim.Problem:
    """A fresh one."""
    return sim.load_scene(Path(_folder(kind).name) / "scene.yaml").build(dtype=sim.float64)


def numbers(found: Any) -> np.ndarray:
    """An answer as one vector."""
    if isinstance(found, tuple | list):
        return np.concatenate([np.zeros(0), *(numbers(f) for f in found)])
    if isinstance(found, dict):
        return numbers([found[k] for k in sorted(found)])
    return np.ravel(np.array(found, dtype=np.float64))


def taped(p: sim.Problem, steps: int) -> list[np.ndarray]:
    """Gradients of a rollout of the problem's solver, by hand; clears them afterwards."""
    for a in p.model.materials.values():
        a.grad.zero_()
    with sim.Tape() as tape:
        end = sim.rollout(p.solver, p.model.state(), steps, 0.005).final
    tape.backward(grads={end.particle_q: np.ones((p.model.particle_count, 3))})
    found = [np.array(a.grad.numpy()) for a in p.model.materials.values()]
    tape.zero()
    return found


NAMES = {"np": np, "sim": sim, "taped": taped, "numbers": numbers, "replace": dataclasses.replace}


@dataclass(frozen=True)
class Script:
    """Lines on a fresh problem `p`, and what is asked then."""

    kind: str
    lines: tuple[str, ...]
    question: str

    def carry_out(self) -> np.ndarray:
        names = {**NAMES, "p": problem(self.kind)}
        for line in self.lines:
            exec(line, names)
        return numbers(eval(self.question, names))


QUESTION = "answer = "


def run(statements: list[Statement] | Iterator[Statement], fresh: Any, kind: str) -> Report:
    """Every answer against that of a fresh problem."""
    report, names = Report(), {**NAMES, "p": problem(kind)}
    done: list[str] = []
    calm = True
    for statement in statements:
        calm = calm and statement.calm and statement.interrupt is None
        fate, trouble = attempt(statement, names)
        if fate == "unfit":
            continue
        report.statements.append(statement)
        question = statement.text.removeprefix(QUESTION)
        if fate == "refused" and calm:
            trouble = f"refused: {trouble}"
        elif fate == "refused":
            trouble = ""
        elif fate == "done" and question == statement.text:
            done.append(statement.text)
        elif fate == "done":
            try:
                wanted, got = fresh(Script(kind, tuple(done), question)), numbers(names["answer"])
                report.compared += bool(wanted.any())
                if not near(got, wanted):
                    trouble = f"answer: expected {wanted}, got {got}"
            except OracleError as error:
                trouble = f"no error, but a fresh problem raises {error}"
        report.fates.append("failed" if trouble else fate)
        if trouble:
            report.failure = Failure(len(report.statements) - 1, trouble)
            break
    return report


@dataclass
class Generator:
    """Draws statements."""

    rng: np.random.Generator
    kind: str
    interrupts: bool

    def pick(self, things: Any) -> Any:
        things = list(things)
        return things[int(self.rng.integers(len(things)))]

    def statements(self) -> Iterator[Statement]:
        for _ in range(int(self.rng.integers(3, 9))):
            if self.rng.random() < 0.5:
                yield Statement(self.change(), calm=False)
            question = f"{QUESTION}{self.question()}"
            if self.interrupts and self.rng.random() < 0.4:
                yield Statement(question, int(np.exp(self.rng.uniform(0, 11))))
            elif self.rng.random() < 0.15:
                yield Statement(f"p.value_and_grad([{self.pick([80.0, -300.0])}, np.inf])", calm=False)
            yield Statement(question)

    def x(self) -> str:
        """Few places, so that what is remembered of them is asked again."""
        return f"p.start + {self.pick([0.0, 0.0, 0.1, -0.2])}"

    def question(self) -> str:
        x = self.x()
        return self.pick([
            f"p.value_and_grad({x})", f"p.value_and_grad({x})", f"p.value({x})", f"p.evaluate({x}).by_value",
            f"p.evaluate({x}).terms",
            f"[s.positions for s in p.simulate({x}).values()]", f"p.gauss_newton({x})",
            f"taped(p, {self.pick([3, 5])})",
            f"[r.loss for r in p.residuals({x}, p.simulate({x}, p.fitted))]",
        ])  # fmt: skip

    def change(self) -> str:
        first = "sheet" if self.kind == "sheet" else "rope"
        options = [
            "p.solver.iterations = 2", "p.solver.iterations = 1", "p.terms[0] = replace(p.terms[0], weight=2.5)",
            "p.strategy = sim.StoreAll()", "p.strategy = sim.Checkpointed(every=3)",
            "p.strategy = sim.Checkpointed(budget=3000)",
            "p.experiments[0].targets[next(iter(p.experiments[0].targets))].positions[:] *= 1.1",
            "p.model['gravity'].assign([[0.3, -8.0, 0.2]])", "p.model.gravity.fill_(1.5)",
            f"p.model['{first}.distance.damping'].assign([0.02])", f"p.model['{first}.spin'].assign([[0.1, 0.2, 0.5]])",
            f"p.model['{first}.distance.compliance'].assign([0.007])",
            f"p.model['{first}.{'density' if first == 'sheet' else 'mass'}'].assign([0.15])",
            "p.terms.append(p.terms[0])", "p.terms.pop()", "p.optimize(iterations=1)", "p.experiments.pop()",
            "p.space.start[:] += 0.05",
        ]  # fmt: skip
        return self.pick(options)
