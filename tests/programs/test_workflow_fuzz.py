"""Random workflows against a stand-in that runs them in a straight line (`tools.workflow.fuzz`).  SIM_FUZZ=n: n times
as many."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from tools.workflow import fuzz as fuzz_workflows
from tools.workflow import models as workflow_models
from tools.workflow import with_torch as workflow_torch
from tools.workflow.fuzz import Choice
from tools.workflow.generator import FAMILIES
from tools.workflow.models import Fresh, Task
from tools.workflow.run import HEAD, Report, Run, Statement, program_text, run, shrink

import sim

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
QUICK = (
    Choice(tuple(f for f in FAMILIES if f != "forward"), models=("chain", "soft_chain"), scenes=("rope",))
    if TIMES == 1
    else Choice()
)
"""What takes little time to compile, unless there are many programs."""
ONLY_ROLLOUTS = {"narrow", "replace", "solvers", "states"}


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    made = Fresh()
    yield made
    made.close()


def check(first: int, count: int, fresh: Fresh, choice: Choice) -> Counter[str]:
    """Programs of the seeds from `first` on; the first that fails is made small and shown."""
    fates: Counter[str] = Counter()
    for seed in range(first, first + count * TIMES):
        program = fuzz_workflows.one(seed, fresh, choice)
        if program.report.failure is not None:
            pytest.fail(f"seed {seed}\n{program.smallest().text()}", pytrace=False)
        fates.update(program.report.fates)
        fates["compared"] += program.report.compared
    print(dict(fates))
    return fates


@pytest.mark.parametrize(("world", "count"), [("arrays", 40), ("rollouts", 8)])
def test_programs_without_surprises_are_right_and_never_refused(fresh, world, count):
    assert check(0, count, fresh, replace(QUICK, families=frozenset(), world=world))["compared"] > 10 * TIMES


@pytest.mark.parametrize("family", QUICK.surprises)
def test_each_kind_of_surprise(fresh, family):
    """Right or an error; and mostly right."""
    world, count = ("rollouts", 3) if family in ONLY_ROLLOUTS else ("arrays", 15)
    fates = check(1000, count, fresh, replace(QUICK, families=frozenset([family]), world=world))
    assert fates["done"] > 4 * fates["refused"]


@pytest.mark.parametrize(("world", "count"), [("arrays", 120), ("rollouts", 20), ("problems", 6)])
def test_all_kinds_of_surprises(fresh, world, count):
    assert check(2000, count, fresh, replace(QUICK, world=world))["compared"]


@pytest.mark.skipif(not workflow_torch.AVAILABLE, reason="PyTorch is not installed")
def test_tensors(fresh):
    assert check(3000, 30, fresh, Choice(world="torch"))["compared"]


# ------------------------------------------------------------------------------------------ the fuzzer itself
def test_the_process_that_lives_on_gives_what_a_new_one_gives():
    """Nothing is left over between its tasks."""
    tasks = []
    for kind, every in (("soft_chain", 1), ("chain", 1)):
        shape = workflow_models.model(kind).particle_q.numpy().shape
        cotangents = {"q": np.random.default_rng(1).normal(size=shape)}
        tasks.append(
            Task(kind, {"type": "SolverXPBD", "iterations": every}, {}, None, 0.0, None, 4, 0.01, every, cotangents)
        )
    old = Fresh()
    found = [old(task) for task in tasks]
    old.close()
    for task, one in zip(tasks[1:], found[1:], strict=True):
        new = Fresh()
        other = new(task)
        new.close()
        for mine, theirs in ((one.values, other.values), (one.gradients, other.gradients)):
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


WRONG = [
    Statement("x0 = sim.array(rand(1, 5), dtype=sim.float64, requires_grad=True)"),
    Statement("x1 = sim.array(rand(2, 5), dtype=sim.float64, requires_grad=True)"),
    Statement("loss0 = sim.array([0.0], dtype=sim.float64, requires_grad=True)"),
    Statement("t0 = sim.Tape()"),
    Statement("t0.__enter__()"),
    Statement("sim.launch(kernels.in_place, 5, [x1])"),
    Statement("sim.launch(kernels.total, 5, [x0], [loss0])"),
    Statement("t0.__exit__(None, None, None)"),
    Statement("t0.backward(loss=loss0)"),
]


def test_a_wrong_gradient_is_found_and_made_small(fresh):
    class Doubled(Run):
        """A world whose backward counts twice."""

        def do(self, statement: Statement) -> str:
            if statement.text.startswith("t0.backward"):
                with suppress(KeyError, sim.GradientError):
                    self.real["t0"].backward(loss=self.real["loss0"])
            return super().do(statement)

    def again(statements: list[Statement]) -> Report:
        return run(statements, fresh, kind=Doubled)

    report = again(WRONG)
    assert report.failure is not None and report.failure.what.startswith("gradient of")
    small = shrink(report, again)
    assert "in_place" not in program_text(small) and len(small.statements) == len(WRONG) - 2
    text = program_text(small, HEAD)
    assert "\nwith t0:\n    sim.launch(kernels.total, 5, [x0], [loss0])\nt0.backward(loss=loss0)" in text


def test_a_bare_error_and_a_refusal_of_a_plain_program_are_found(fresh, monkeypatch):
    def broken(tape: sim.Tape, **_: object) -> None:
        raise KeyError("an internal name")

    monkeypatch.setattr(sim.Tape, "backward", broken)
    assert run(WRONG, fresh).failure.what.startswith("bare KeyError")

    def refuses(tape: sim.Tape, **_: object) -> None:
        raise sim.GradientError("not today")

    monkeypatch.setattr(sim.Tape, "backward", refuses)
    assert run(WRONG, fresh).failure.what.startswith("refused a calm program")
