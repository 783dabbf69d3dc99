"""Runs a program of the workflow fuzzer twice, on `sim` and on its stand-in, compares after every statement, and
shrinks what fails."""

from __future__ import annotations

import linecache
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextlib import suppress as suppress
from dataclasses import dataclass, field
from functools import partial as partial
from pathlib import Path
from typing import Any

import numpy as np

import sim
from tools.workflow import kernels as workflow_kernels
from tools.workflow.models import Fresh, OracleError, model
from tools.workflow.physics import Model, Sim, State, Trajectory
from tools.workflow.reference import Ambiguous, Array, Kernels

SOURCE = str(Path(sim.__file__).parent)
TOLERANCE = 1e-7
FILE = "<program>"
ENTRY = re.compile(r"(?:\w+ = )?(\w+)\.__(enter|exit)__\(.*\)")


@dataclass(frozen=True)
class Statement:
    """A line of a program.  interrupt: Ctrl-C comes at so many lines inside of `sim`; thread: runs in a thread of its
    own.

    together: every line of it in a thread of its own, at the same time.  calm: nothing about it is unusual: a program
    of calm statements must not be refused.
    """

    text: str
    interrupt: int | None = None
    thread: bool = False
    together: bool = False
    calm: bool = True

    @property
    def entry(self) -> tuple[str, str] | None:
        """The name of the context manager that it enters or exits, and which of both."""
        found = ENTRY.fullmatch(self.text)
        return (found[1], found[2]) if found else None


@dataclass
class Failure:
    """What went wrong, at which statement."""

    at: int
    what: str

    @property
    def kind(self) -> str:
        """In short, to tell failures apart."""
        return (
            re.sub(r"\d+", "0", self.what[:90])
            if self.what.startswith(("refused", "bare"))
            else self.what.split(" ")[0]
        )


@dataclass
class Report:
    """What became of a program."""

    statements: list[Statement] = field(default_factory=list)
    fates: list[str] = field(default_factory=list)
    failure: Failure | None = None
    compared: int = 0
    """Gradients that are not zero and are as they should be, after a backward."""


class Boom(Exception):
    """Raised by what programs do on purpose."""


def rand(seed: int, *shape: int) -> np.ndarray:
    """Numbers of size 0.3."""
    return 0.3 * np.random.default_rng(seed).normal(size=shape)


@contextmanager
def interrupted(at: int) -> Iterator[list[bool]]:
    """KeyboardInterrupt at the `at`-th line that is run inside of `sim`; tells whether it came.

    Not at `with`: a trace function sees that line again before the block is left, where no signal is ever looked at.
    """
    left, fired = at, [False]

    def line(frame: Any, event: str, _: Any) -> Callable[..., Any]:
        nonlocal left
        if event == "line" and left > 0:
            left -= left > 1 or not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
                "with "
            )
            if left == 0:
                fired[0] = True
                raise KeyboardInterrupt
        return line

    def enter(frame: Any, event: str, _: Any) -> Callable[..., Any] | None:
        return line if left > 0 and frame.f_code.co_filename.startswith(SOURCE) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield fired
    except KeyboardInterrupt:
        if not fired[0]:
            raise
    finally:
        sys.settrace(before)


def in_threads(*actions: Callable[[], object]) -> None:
    """Runs each in a thread of its own, at the same time; raises what the first one raises."""
    problems: list[BaseException] = []

    def run(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def aside(action: Callable[[], object]) -> None:
    """Does something that must not matter to anything else; the stand-in does nothing."""
    action()


def attempt(statement: Statement, names: dict[str, Any]) -> tuple[str, str]:
    """Executes a statement on `sim`: (fate, problem)."""
    code = compile(statement.text, FILE, "exec")
    try:
        if statement.interrupt is not None:
            with interrupted(statement.interrupt) as fired:
                exec(code, names)
            if fired[0]:
                return "interrupted", ""
        elif statement.thread:
            in_threads(lambda: exec(code, names))
        elif statement.together:
            in_threads(*(partial(exec, compile(line, FILE, "exec"), names) for line in statement.text.split("\n")))
        else:
            exec(code, names)
    except Boom as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        raise
    except sim.SimError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except BaseException as error:
        if _innermost(error) == FILE:
            return "unfit", ""
        if isinstance(error, ValueError | TypeError):
            return "refused", f"{type(error).__name__}: {error}"
        return "failed", f"bare {type(error).__name__}: {error} in {_where(error)}"
    return "done", ""


class Run:
    """Both worlds of a program."""

    def __init__(self, fresh: Fresh, own_kernels: bool) -> None:
        self.world = Sim(fresh)
        common = {"np": np, "rand": rand, "inf": math.inf, "failing": failing}
        kernels = workflow_kernels.fresh() if own_kernels else workflow_kernels
        self.real: dict[str, Any] = {**common, "aside": aside, "sim": sim, "model": model, "kernels": kernels}
        self.mirror: dict[str, Any] = {
            **common,
            "aside": lambda _: None,
            "sim": self.world,
            "model": self.world.model,
            "kernels": Kernels(),
        }
        self.report = Report()
        self.calm = True
        self.open: list[str] = []
        """Names of the context managers that are entered."""

    # -- one statement
    def do(self, statement: Statement) -> str:
        """done, refused, interrupted, failed, over (nobody knows what should happen), or unfit (it makes no sense
        here)."""
        report = self.report
        entry = statement.entry
        if entry is not None and entry[1] == "exit" and self.open[-1:] != [entry[0]]:
            return "unfit"
        self.calm = (
            self.calm
            and statement.calm
            and statement.interrupt is None
            and not (statement.thread or statement.together)
        )
        fate, problem = attempt(statement, self.real)
        if fate == "unfit":
            return fate
        report.statements.append(statement)
        if fate == "done" and entry is not None:
            self.open.append(entry[0]) if entry[1] == "enter" else self.open.pop()
        if fate == "refused" and self.calm:
            problem = f"refused a calm program: {problem}"
        elif fate == "refused":
            problem = ""
        if fate == "interrupted" and self.difference():
            fate = "done"  # all of it or nothing: Ctrl-C may come when everything is done
        if fate == "done":
            held = (self.world.tapes, self.world.graphs)
            if statement.thread or statement.together:
                self.world.tapes, self.world.graphs = [], []
            try:
                exec(compile(statement.text, FILE, "exec"), self.mirror)
            except Ambiguous:
                fate = "over"
            except OracleError as error:
                problem = f"no error, but the oracle raises {error}"
            finally:
                if statement.thread or statement.together:
                    self.world.tapes, self.world.graphs = held
        if not problem and fate != "over":
            problem = self.difference()
        if problem == "over" or (problem and fate == "refused" and ".replay()" in statement.text and not self.calm):
            fate = "over"  # a replay that breaks off has done a part of it
        elif problem:
            report.failure, fate = Failure(len(report.statements) - 1, problem), "failed"
        report.fates.append(fate)
        return fate

    # -- comparison
    def difference(self) -> str:
        """The first array in which the worlds differ, in words."""
        for name, array in list(self.arrays()):
            real = eval(name, self.real)
            value, wanted = real.device.numpy(real), array.value
            if not np.isfinite(wanted).all():
                return "over"
            if bool(real.requires_grad) != array.requires_grad:
                return f"requires_grad of {name}: expected {array.requires_grad}, got {real.requires_grad}"
            if not near(value, wanted):
                return f"value of {name}: expected {_text(wanted)}, got {_text(value)}"
            if not array.requires_grad:
                continue
            wanted = array.grad.value
            buffer = real.buffer
            value = np.zeros_like(wanted) if buffer.gradient is None else real.device.numpy(real.grad)
            if not np.isfinite(wanted).all():
                return "over"
            if not near(value, wanted):
                return f"gradient of {name}: expected {_text(wanted)}, got {_text(value)}"
            self.report.compared += bool(wanted.any())
        return ""

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Everything that has a name, by what it is called in a program."""
        for name, thing in self.mirror.items():
            if isinstance(thing, Array):
                yield name, thing
            elif isinstance(thing, State):
                yield from of_state(name, thing)
            elif isinstance(thing, Trajectory):
                yield f"{name}.particle_q", thing.particle_q
                yield from of_state(f"{name}.final", thing.final)
            elif isinstance(thing, Model):
                for path, a in thing.materials.items():
                    yield f'{name}["{path}"]', a

    def close(self) -> None:
        """Leaves what is open."""
        while self.open:
            self.real[self.open.pop()].__exit__(None, None, None)


def of_state(name: str, state: State) -> Iterator[tuple[str, Array]]:
    for field_name in ("particle_q", "particle_qd", "particle_f"):
        yield f"{name}.{field_name}", getattr(state, field_name)
    for key, a in state.internal_variables.items():
        yield f'{name}.internal_variables["{key}"]', a


def near(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal but for rounding."""
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= TOLERANCE * (1e-3 + np.abs(b).max(initial=0.0))))


def _text(a: np.ndarray) -> str:
    return np.array2string(a, precision=6, separator=", ", threshold=12, edgeitems=3).replace("\n", "")


def _frames(error: BaseException) -> list[Any]:
    out, trace = [], error.__traceback__
    while trace is not None:
        out.append(trace)
        trace = trace.tb_next
    return out


def _innermost(error: BaseException) -> str:
    return _frames(error)[-1].tb_frame.f_code.co_filename


def _where(error: BaseException) -> str:
    frame = _frames(error)[-1]
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"


# ------------------------------------------------------------------------------------------ whole programs
Statements = list[Statement] | Callable[[dict[str, Any]], Iterator[Statement]]
"""Those of a program, or a function that draws them, looking at the names of the stand-in."""


def run(statements: Statements, fresh: Fresh, own_kernels: bool = False, kind: type[Run] = Run) -> Report:
    """Until one fails.  Those that make no sense are left out."""
    made = kind(fresh, own_kernels)
    try:
        for statement in statements if isinstance(statements, list) else statements(made.mirror):
            if made.do(statement) in ("failed", "over"):
                break
    finally:
        made.close()
    return made.report


def shrink(report: Report, again: Callable[[list[Statement]], Report], tries: int = 150) -> Report:
    """Leaves statements out while it fails in the same way."""
    assert report.failure is not None
    kind, size = report.failure.kind, max(1, len(report.statements) // 2)
    while size and tries:
        begin = 0
        while begin < len(report.statements) and tries:
            tries -= 1
            found = again(_without(report.statements, begin, begin + size))
            if (
                found.failure is not None
                and found.failure.kind == kind
                and len(found.statements) < len(report.statements)
            ):
                report = found
            else:
                begin += size
        size //= 2
    return report


def _without(statements: list[Statement], begin: int, end: int) -> list[Statement]:
    """Those that remain; what is entered and left, both or neither."""
    gone = {s.entry[0] for s in statements[begin:end] if s.entry is not None}
    return [s for s in statements[:begin] + statements[end:] if s.entry is None or s.entry[0] not in gone]


HEAD = """\
import numpy as np, sim
from tools.workflow import kernels as workflow_kernels
from tools.workflow.models import model
from tools.workflow.run import *
kernels = workflow_kernels"""


def program_text(report: Report, head: str = HEAD) -> str:
    """The program, to be run with `tests` on the path."""
    lines, indent = [head], 0
    for statement, fate in zip(report.statements, [*report.fates, ""], strict=False):
        entry, text = statement.entry, statement.text
        if entry is not None and entry[1] == "exit":
            indent -= 1
            continue
        if entry is not None:
            target = text.partition(" = ")[0] if " = " in text else ""
            text = f"with {entry[0]}" + (f" as {target}:" if target else ":")
        elif statement.interrupt is not None:
            text = f"with interrupted({statement.interrupt}): {text}"
        elif statement.thread:
            text = f"in_threads(lambda: exec({text!r}, globals()))"
        elif statement.together:
            text = f"in_threads(*(partial(exec, line, globals()) for line in {text.split(chr(10))!r}))"
        if fate == "refused":
            text = f"with suppress(Exception): {text}"
        lines.append("    " * indent + text)
        indent += entry is not None
    return "\n".join(lines)


def failing(times: int) -> Callable[[], None]:
    """A way back that raises the first so many times."""
    left = [times]

    def back() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise Boom("on purpose")

    return back
