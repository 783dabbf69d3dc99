"""Compiled kernels as built-in functions of Python: a call takes a tenth of one through ctypes, which is what launches
are made of.

A built-in function is a C function that gets the object it was made with, here a tuple, and an array of arguments.
"Calling Conventions" and `METH_FASTCALL` in Python's C API reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from sim.core.backends.llvm.machine_code.toolchain import load_functions
from sim.core.lang.memoize import memoize

_TEXT = """
declare void @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare void @Py_IncRef(ptr)

; self is (None, owner of the code, address of the kernel); the lock of the interpreter is free while the kernel runs
define internal ptr @call(ptr %self, ptr %block.o, ptr %begin.o, ptr %end.o) nounwind {
  %f.o = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %f = call ptr @PyLong_AsVoidPtr(ptr %f.o)
  %block = call ptr @PyLong_AsVoidPtr(ptr %block.o)
  %begin = call i64 @PyLong_AsLongLong(ptr %begin.o)
  %end = call i64 @PyLong_AsLongLong(ptr %end.o)
  %problem = call ptr @PyErr_Occurred()
  %fits = icmp eq ptr %problem, null
  br i1 %fits, label %run, label %raise
run:
  %state = call ptr @PyEval_SaveThread()
  call void %f(ptr %block, i64 %begin, i64 %end)
  call void @PyEval_RestoreThread(ptr %state)
  %none = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
raise:
  ret ptr null
}

define ptr @run(ptr %self, ptr %args, i64 %count) nounwind {
  %three = icmp eq i64 %count, 3
  br i1 %three, label %take, label %refuse
take:
  %block = load ptr, ptr %args
  %begin.p = getelementptr ptr, ptr %args, i64 1
  %begin = load ptr, ptr %begin.p
  %end.p = getelementptr ptr, ptr %args, i64 2
  %end = load ptr, ptr %end.p
  %done = call ptr @call(ptr %self, ptr %block, ptr %begin, ptr %end)
  ret ptr %done
refuse:
  call void @PyErr_BadArgument()
  ret ptr null
}

; the arguments are in self too, behind the address
define ptr @repeat(ptr %self, ptr %nothing) nounwind {
  %block = call ptr @PyTuple_GetItem(ptr %self, i64 3)
  %begin = call ptr @PyTuple_GetItem(ptr %self, i64 4)
  %end = call ptr @PyTuple_GetItem(ptr %self, i64 5)
  %done = call ptr @call(ptr %self, ptr %block, ptr %begin, ptr %end)
  ret ptr %done
}
"""
_FASTCALL, _NOARGS = 0x80, 0x04


class _Definition(ctypes.Structure):
    """`PyMethodDef`: a built-in function refers to it as long as it lives, in its last moment too."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Builtins:
    """What makes the built-in functions."""

    def __init__(self) -> None:
        self._engine, address = load_functions(_TEXT, ("run", "repeat"), 1)
        self._run = _Definition(b"run", address["run"], _FASTCALL, None)
        self._repeat = _Definition(b"repeat", address["repeat"], _NOARGS, None)
        for kept in (self._run, self._repeat):  # a process that ends frees objects in any order: these never
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        self._new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )

    def run(self, address: int, owner: object) -> Callable[[int, int, int], None]:
        made: Callable[[int, int, int], None] = self._new(ctypes.addressof(self._run), (None, owner, address), None)
        return made

    def repeat(self, address: int, owner: object, block: int, end: int) -> Callable[[], None]:
        arguments = (None, owner, address, block, 0, end)
        made: Callable[[], None] = self._new(ctypes.addressof(self._repeat), arguments, None)
        return made


@memoize
def _builtins() -> _Builtins:
    """Once, and never dropped: its code goes when it does."""
    return _Builtins()


def builtin_run(address: int, owner: object) -> Callable[[int, int, int], None]:
    """`run(block, begin, end)`: calls the kernel at an address, whose code lives as long as `owner`."""
    return _builtins().run(address, owner)


def builtin_repeat(address: int, owner: object, block: int, end: int) -> Callable[[], None]:
    """`repeat()`: calls that kernel for the threads before `end`, always with the same argument block."""
    return _builtins().repeat(address, owner, block, end)
