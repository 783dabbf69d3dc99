"""Kernels as built-in functions of Python: what they are called with, what they refuse, how long their code lives."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from sim.core.backends.llvm.machine_code.toolchain import load_functions
from sim.core.backends.llvm.python_calls import builtin_repeat, builtin_run

ADD = """
define void @add(ptr %block, i64 %begin, i64 %end) nounwind {
  %n = sub i64 %end, %begin
  %old = load i64, ptr %block
  %new = add i64 %old, %n
  store i64 %new, ptr %block
  ret void
}
"""


@pytest.fixture(scope="module")
def add():
    owner, address = load_functions(ADD, ("add",), 0)
    return address["add"], owner


def test_it_is_called_with_the_block_and_the_range(add):
    total = np.zeros(1, np.int64)
    assert builtin_run(*add)(total.ctypes.data, 3, 10) is None
    assert builtin_run(*add)(total.ctypes.data, -(2**40), 0) is None
    assert total[0] == 7 + 2**40
    again = builtin_repeat(*add, total.ctypes.data, 5)
    assert again() is None and again() is None
    assert total[0] == 17 + 2**40


def test_what_does_not_fit_is_an_error(add):
    total = np.zeros(1, np.int64)
    run = builtin_run(*add)
    for wrong in ((), (total.ctypes.data, 0), (total.ctypes.data, 0, 1, 2), (total.ctypes.data, 0, "1")):
        with pytest.raises(TypeError):
            run(*wrong)
    with pytest.raises(OverflowError):
        run(total.ctypes.data, 0, 2**70)
    with pytest.raises(TypeError):
        builtin_repeat(*add, total.ctypes.data, 1)(1)
    assert total[0] == 0


def test_references_are_neither_lost_nor_kept(add):
    total, none = np.zeros(1, np.int64), sys.getrefcount(None)
    run, again = builtin_run(*add), builtin_repeat(*add, total.ctypes.data, 1)
    for _ in range(1000):
        run(total.ctypes.data, 0, 1)
        again()
    assert abs(sys.getrefcount(None) - none) < 100


def test_the_code_lives_as_long_as_what_calls_it(add):
    class Owner:
        pass

    owner = Owner()
    gone, run = weakref.ref(owner), builtin_run(add[0], owner)
    del owner
    gc.collect()
    assert gone() is not None
    del run
    gc.collect()
    assert gone() is None


def test_other_threads_run_meanwhile():
    """The lock of the interpreter is free: a kernel that waits for another thread comes to its end."""
    text = """
define void @wait(ptr %block, i64 %begin, i64 %end) nounwind {
entry:
  br label %look
look:
  %seen = load atomic i64, ptr %block acquire, align 8
  %set = icmp ne i64 %seen, 0
  br i1 %set, label %done, label %look
done:
  ret void
}
"""
    owner, address = load_functions(text, ("wait",), 0)
    flag = np.zeros(1, np.int64)
    other = threading.Timer(0.05, lambda: flag.fill(1))
    other.start()
    builtin_run(address["wait"], owner)(flag.ctypes.data, 0, 1)
    assert flag[0] == 1


def test_functions_may_go_after_all_that_has_made_them():
    """As when a process ends, which frees objects in any order; freed memory has bytes of 2 here (glibc)."""
    text = """
import gc
from sim.core.backends.llvm.python_calls import _Builtins
made = _Builtins()
kept = [made.run(1, None) for _ in range(100)], made.repeat(1, None, 0, 0)
del made
gc.collect()
del kept
"""
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "2"}
    ended = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended
