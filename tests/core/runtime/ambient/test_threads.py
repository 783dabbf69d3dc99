"""When a launch is shared out among threads: the work that it takes, what must not be split, who decides."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest

import sim
from sim.core.lang.ir.core import walk
from sim.core.runtime.ambient import threads
from sim.core.runtime.compiled.compiled import Compiled

f64 = sim.float64


@sim.kernel
def short(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * 2.0


@sim.kernel
def longer(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    s = x[i]
    for k in range(3):
        s = sim.sin(s) * x[i] + sim.cos(s) * f64(k) + sim.exp(s)
    y[i] = s


@sim.kernel
def counting(x: sim.array[f64], y: sim.array[f64]):
    sim.atomic_max(y, 0, x[sim.tid()])


@sim.kernel
def speaking(x: sim.array[f64], y: sim.array[f64]):
    if x[sim.tid()] < 0.0:
        print(x[sim.tid()])


@sim.kernel
def asserting(x: sim.array[f64], y: sim.array[f64]):
    assert x[sim.tid()] > f64(0.0)


def compiled(kernel) -> Compiled:
    return Compiled(kernel.specialise(tuple(p.type for p in kernel.parameters)).func)


@pytest.fixture
def four_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(4)
    yield
    threads.set_num_threads(before)


def test_the_grain_is_work_over_operations_and_no_less_than_the_least():
    for kernel in (short, longer):
        made = compiled(kernel)
        operations = len(list(walk(made.func.body)))
        assert threads.grain_of(made) == max(threads.LEAST, threads.WORTH // operations) == threads.grain_of(made)
    assert threads.grain_of(compiled(short)) > threads.grain_of(compiled(longer)) > threads.LEAST


def test_many_operations_make_the_least_grain(monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 500)
    assert threads.grain_of(compiled(longer)) == threads.LEAST


@pytest.mark.parametrize("kernel", [counting, speaking, asserting], ids=lambda k: k.name)
def test_what_threads_share_is_not_split(kernel):
    assert threads.grain_of(compiled(kernel)) == 0


def test_a_kernel_that_runs_serially_is_not_split():
    made = compiled(short)
    made.func.attrs["serial"] = True
    assert threads.grain_of(made) == 0


def ran(monkeypatch, n, grain, count=4, address=77):
    """What runs a launch of n indices: ("alone", range) or ("together", row)."""
    seen = []
    monkeypatch.setattr(threads, "grain_of", lambda compiled: grain)
    monkeypatch.setattr(threads, "_threads", count)
    executable = SimpleNamespace(
        address=address, run=lambda block, begin, end: seen.append(("alone", block, begin, end))
    )
    rows = []

    def table(address, rows_of, splits):
        rows.append((rows_of, splits))
        seen.append(("together",))

    monkeypatch.setattr(threads, "run_table", table)
    threads.run_range(executable, 5, n, None)
    assert all(row == (1, True) for row in rows)
    return seen


def test_a_launch_alone_wakes_threads_for_many_times_the_work_of_one(monkeypatch):
    n = 300 * threads.ALONE
    assert ran(monkeypatch, n, 300) == [("together",)]
    assert ran(monkeypatch, n - 1, 300) == [("alone", 5, 0, n - 1)]
    assert ran(monkeypatch, n, 0) == [("alone", 5, 0, n)], "what must not be split"
    assert ran(monkeypatch, n, 300, count=1) == [("alone", 5, 0, n)]
    assert ran(monkeypatch, n, 300, address=0) == [("alone", 5, 0, n)], "nothing native to share out"


def test_what_runs_a_recorded_launch_again(monkeypatch):
    """Straight to native code where it stays on one thread, else by way of `run_range`, which asks each time."""
    direct = []
    monkeypatch.setattr(threads, "builtin_repeat", lambda address, owner, block, n: direct.append((address, block, n)))
    monkeypatch.setattr(threads, "grain_of", lambda compiled: 100)
    threads.runner(SimpleNamespace(address=77), 5, 100 * threads.ALONE - 1, None)
    assert direct == [(77, 5, 100 * threads.ALONE - 1)]
    shared = threads.runner(SimpleNamespace(address=77), 5, 100 * threads.ALONE, None)
    interpreted = threads.runner(SimpleNamespace(), 5, 3, None)
    assert shared.func is interpreted.func is threads.run_range and len(direct) == 1
    monkeypatch.setattr(threads, "grain_of", lambda compiled: 0)
    threads.runner(SimpleNamespace(address=77), 5, 10**9, None)
    assert direct[1:] == [(77, 5, 10**9)]


def test_a_table_is_walked_by_one_thread_where_that_is_all_it_takes(monkeypatch, four_threads):
    walked = []
    monkeypatch.setattr(
        threads, "native", lambda: SimpleNamespace(walk=lambda table, rows: walked.append((table, rows)))
    )
    threads.run_table(3, 2, False)
    monkeypatch.setattr(threads, "_threads", 1)
    threads.run_table(4, 1, True)
    assert walked == [(3, 2), (4, 1)] and threads._pool is None


def test_every_index_runs_once_whatever_the_number_of_threads(four_threads, monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 0)
    n = threads.ALONE * threads.LEAST + 77
    x, y = sim.array(np.arange(n, dtype=np.float64)), sim.zeros(n, dtype=f64)

    @sim.kernel
    def add_own(x: sim.array[f64], y: sim.array[f64]):
        i = sim.tid()
        y[i] = y[i] + x[i] + 1.0

    for _ in range(20):
        sim.launch(add_own, n, [x], [y])
    assert threads._pool is not None and threads._pool.count == 4 and len(threads._pool.threads) == 3
    assert np.array_equal(y.numpy(), 20 * (np.arange(n) + 1.0))
    pool = threads._pool
    threads.set_num_threads(2)
    assert threads._pool is None and not any(t.is_alive() for t in pool.threads)


@pytest.mark.parametrize("n", [0, -1])
def test_no_threads_are_refused(n):
    before = threads.get_num_threads()
    with pytest.raises(ValueError, match=f"the number of threads is {n}; expected at least 1"):
        threads.set_num_threads(n)
    assert threads.get_num_threads() == before


def test_the_default_is_that_of_the_environment_or_the_cores_up_to_a_limit(monkeypatch):
    for chosen, count in (("3", 3), ("0", 1), ("12", 12)):
        monkeypatch.setenv("SIM_NUM_THREADS", chosen)
        assert threads._default_threads() == count
    monkeypatch.delenv("SIM_NUM_THREADS")
    for cores in (1, 5, threads.MOST, 64):
        monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)), raising=False)
        assert threads._default_threads() == min(cores, threads.MOST)
    monkeypatch.delattr(threads.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: None)
    assert threads._default_threads() == 1


def test_a_thread_that_begins_to_wait_as_it_is_stopped(monkeypatch):
    """Between its look at whether it is to stop and its wait it is told: it must not wait for a second time."""
    looked, told = Event(), Event()

    class Late(Event):
        def clear(self):
            looked.set()
            told.wait()
            super().clear()

        def set(self):
            super().set()
            if looked.is_set():
                told.set()

    with monkeypatch.context() as patch:
        patch.setattr(threads.threading, "Event", Late)
        pool = threads._Pool(2)
    looked.wait()
    stopping = Thread(target=pool.stop, daemon=True)
    stopping.start()
    stopping.join(10.0)
    assert not stopping.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_its_own_threads(tmp_path):
    code = """
import os, numpy as np, sim
from sim.core.runtime.ambient import threads
threads.WORTH = 0
threads.set_num_threads(3)
@sim.kernel
def twice(x: sim.array[float]):
    i = sim.tid()
    x[i] = x[i] * 2.0
x = sim.array(np.ones(threads.ALONE * threads.LEAST * 4, np.float32))
sim.launch(twice, x.size, [x])
assert threads._pool is not None
pid = os.fork()
if pid == 0:
    assert threads._pool is None
    sim.launch(twice, x.size, [x])
    os._exit(0 if (x.numpy() == 4.0).all() else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    (tmp_path / "forks.py").write_text(code)
    subprocess.run([sys.executable, tmp_path / "forks.py"], check=True, timeout=120)
