"""Object code that other processes make: the same bytes, and no harm where they are not there or die."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.core.backends.llvm import backend
from sim.core.backends.llvm.machine_code import compile_processes, toolchain
from sim.core.backends.llvm.machine_code.compile_processes import CompileProcesses, process_count
from sim.core.runtime.launch.calls import Call

TEXT = """
define void @kernel(ptr %b, i64 %begin, i64 %end) {{
  %x = load double, ptr %b
  %y = fmul double %x, {factor}
  store double %y, ptr %b
  ret void
}}
"""
WAY = (3, True, True)


def wait_until(done, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompileProcesses]:
    """Two that are at hand from the first text on, for whatever is compiled in the test."""
    monkeypatch.setattr(compile_processes, "_AFTER", 0)
    monkeypatch.setattr(compile_processes, "process_count", lambda: 2)
    made = CompileProcesses()
    for module in (backend, toolchain):
        monkeypatch.setattr(module, "compile_processes", made)
    yield made
    made._end()


def test_the_bytes_are_those_of_this_process(processes: CompileProcesses) -> None:
    assert processes.at_hand()
    texts = [TEXT.format(factor=k) for k in ("2.0", "3.0", "5.0")]
    for text in texts:
        processes.begin(text, text, WAY, soon=False)
    requests = dict(processes._requests)
    wait_until(lambda: all(r._answered.is_set() for r in requests.values()))
    for text in texts:
        assert processes.taken(text) == toolchain.toolchain().build(text, *WAY)
    assert processes.taken(texts[0]) is None  # each is taken once


def test_what_nobody_has_begun_is_for_who_asks(processes: CompileProcesses) -> None:
    processes.begin("a", TEXT.format(factor="2.0"), WAY, soon=False)  # no thread has been started
    assert processes.taken("a") is None
    assert processes.taken("of another") is None


def test_text_that_cannot_be_compiled_is_an_error_of_who_asks(processes: CompileProcesses) -> None:
    assert processes.at_hand()
    for key, text in (("wrong", "define this"), ("right", TEXT.format(factor="7.0"))):
        processes.begin(key, text, WAY, soon=True)
        wait_until(processes._requests[key]._answered.is_set)
    assert processes.taken("wrong") is None
    assert processes.taken("right") is not None  # the process has gone on
    toolchain.begin_functions("define this", *WAY)
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        toolchain.load_functions("define this", ["kernel"], *WAY)


def test_processes_that_are_killed_leave_work_to_this_one(processes: CompileProcesses) -> None:
    assert processes.at_hand()
    processes.begin("first", TEXT.format(factor="2.0"), WAY, soon=False)
    wait_until(processes._requests["first"]._answered.is_set)
    for process in tuple(processes._running):
        process.kill()
    for k in range(4):
        processes.begin(f"later {k}", TEXT.format(factor=f"{k}.5"), WAY, soon=False)
    for k in range(4):
        code = processes.taken(f"later {k}")
        assert code in (None, toolchain.toolchain().build(TEXT.format(factor=f"{k}.5"), *WAY))


@pytest.mark.skipif(sys.platform == "win32", reason="links to files take rights there")
def test_programs_that_have_python_in_them_start_none(
    processes: CompileProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both threads end with their first request, and what comes later is for who asks."""
    (tmp_path / "editor").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "editor"))
    assert processes.at_hand()
    for k in range(2):
        processes.begin(f"{k}", TEXT.format(factor=f"{k}.0"), WAY, soon=False)
    wait_until(lambda: not processes.at_hand())
    assert [processes.taken(f"{k}") for k in range(2)] == [None] * 2


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIM_NUM_THREADS", "1")
    assert process_count() == 0
    monkeypatch.delenv("SIM_NUM_THREADS")
    if hasattr(os, "sched_getaffinity"):
        for cores, expected in ((1, 0), (4, 3), (64, 8)):
            monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: range(n))
            assert process_count() == expected


def gradient() -> tuple[np.ndarray, np.ndarray]:
    """Of a kernel that nobody has compiled in this process."""

    @sim.kernel
    def turned(x: sim.array(dtype=sim.vec3d), a: sim.float64, y: sim.array(dtype=sim.vec3d)):
        i = sim.tid()
        turn = sim.quat_from_axis_angle(sim.normalize(x[i]), a)
        y[i] = sim.quat_rotate(turn, sim.vec3d(a, 2.0, 3.0)) / sim.length(x[i])

    x = sim.array(np.random.default_rng(5).standard_normal((30, 3)), dtype=sim.vec3d, requires_grad=True)
    y = sim.zeros_like(x)
    with sim.Tape() as tape:
        sim.launch(turned, 30, [x, 0.7, y])
        sim.launch(turned, 30, [y, 0.3, x])
    tape.backward(grads={x: np.ones((30, 3))})
    return x.numpy(), x.grad.numpy()


def test_a_tape_hands_in_forward_and_adjoint(
    processes: CompileProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And asks for what it has handed in: guesses of what adjoints will be given are right."""
    monkeypatch.setattr(sim.config, "kernel_cache_dir", str(tmp_path / "a"))
    begun: list[str] = []
    begin = processes.begin
    monkeypatch.setattr(processes, "begin", lambda key, *rest, **named: (begun.append(key), begin(key, *rest, **named)))
    with_processes = gradient()
    assert len(set(begun)) >= 2
    assert not processes._requests
    monkeypatch.setattr(processes, "at_hand", lambda: False)
    monkeypatch.setattr(sim.config, "kernel_cache_dir", str(tmp_path / "b"))
    for a, b in zip(with_processes, gradient(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_recording_a_launch_again_looks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and adjoint are begun with once: a known launch takes a few microseconds to record."""
    begun: list[object] = []
    begin = Call.begin
    monkeypatch.setattr(
        Call, "begin", lambda self, *rest, **named: (begun.append(rest[0]), begin(self, *rest, **named))
    )

    @sim.kernel
    def squares(x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        y[i] = x[i] * x[i]

    x, y = (sim.zeros(3, requires_grad=True) for _ in range(2))
    with sim.Tape():
        for _ in range(5):
            sim.launch(squares, 3, [x, y])
    assert len(begun) == 2


PROGRAM = """
import os, sys
from sim.core.backends.llvm.machine_code import compile_processes as module, toolchain
module._AFTER = 0
module.process_count = lambda: 1
processes = module.compile_processes
assert processes.at_hand()
way = (3, True, True)
texts = [{text!r}.replace("2.0", f"{{k}}.5") for k in range(30)]
for text in texts:
    toolchain.begin_functions(text, *way)
child = os.fork()
if child == 0:  # it has no threads, and the requests are its parent's
    for text in texts:
        toolchain.load_functions(text, ["kernel"], *way)
    print("child", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_and_an_end_in_the_middle(tmp_path: Path) -> None:
    """The child compiles by itself, and a program that ends while a process is at work ends at once, without a word."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM.format(text=TEXT.format(factor="2.0"))))
    about = {**os.environ, "PYTHONPATH": str(Path(sim.__file__).parents[1]), "SIM_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", program]  # Python 3.12 warns of forks beside threads
    done = subprocess.run(command, env=about, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("child\nparent\n", "", 0)
