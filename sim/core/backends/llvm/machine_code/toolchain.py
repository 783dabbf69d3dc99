"""LLVM through llvmlite: text becomes object files, cached on disk, and these become addresses of functions.

Importing llvmlite costs a tenth of a second, so it happens with the first text that is compiled; what is in the cache
is loaded without it where that is possible (`objects.py`).
"""

from __future__ import annotations

import ctypes
import functools
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.core.backends import cache
from sim.core.backends.base import print_text
from sim.core.backends.llvm.machine_code.compile_processes import compile_processes
from sim.core.backends.llvm.machine_code.object_code import ObjectCompiler
from sim.core.backends.objects import host, load_object
from sim.core.lang.memoize import compiling, memoize
from sim.core.lang.types import SCALARS

PRINT_SYMBOL = "simopt_print"
_PYTHON = (
    "PyErr_BadArgument",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyLong_AsLongLong",
    "PyLong_AsVoidPtr",
    "PyTuple_GetItem",
    "Py_IncRef",
)
"""Functions of the interpreter that native code may call."""

_KINDS = {s.name: s for s in SCALARS}


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
def _print(template: bytes, kinds: bytes, values: int) -> None:
    """What `print` in a kernel calls: a template, the names of the scalar types, one 8-byte slot per value."""
    types = [_KINDS[k] for k in kinds.decode().split()]
    shown = [np.frombuffer(ctypes.string_at(values + 8 * k, t.size), t.np)[0] for k, t in enumerate(types)]
    sys.stdout.write(print_text(template.decode(), shown))


@functools.cache
def _known() -> dict[str, int]:
    """Addresses of the functions that compiled code may call, beside those of the C library."""
    functions = {PRINT_SYMBOL: _print, **{name: getattr(ctypes.pythonapi, name) for name in _PYTHON}}
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}


class Toolchain(ObjectCompiler):
    """LLVM, and its linker for this process."""

    def __init__(self) -> None:
        super().__init__()
        for name, address in _known().items():
            self.llvm.add_symbol(name, address)

    def link(self, code: bytes, symbols: Sequence[str]) -> tuple[Any, list[int]]:
        """Puts an object file into memory: the engine that owns it, and the addresses of functions."""
        engine = self.llvm.create_mcjit_compiler(self.llvm.parse_assembly(""), self.machine(0))
        engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, [engine.get_function_address(symbol) for symbol in symbols]


@memoize
def toolchain() -> Toolchain:
    return Toolchain()


def about_host() -> str:
    """What compiled code depends on beside its text."""
    known = host()
    if known is not None:
        return known
    tools = toolchain()
    return "\n".join((tools.version, tools.triple, tools.cpu, tools.features))


@functools.cache
def _described() -> str:
    """What the system says of the processor, if it does."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


@functools.cache
def has_few_registers() -> bool:
    """Has the processor sixteen registers of vectors, and few shuffles of whole ones: is it an x86 without AVX-512?"""
    if not _is_x86():
        return False
    flags = re.search(r"^flags\s*:(.*)$", _described(), re.MULTILINE)
    return " avx512vl" not in flags[1] if flags else "+avx512vl" not in toolchain().features


@functools.cache
def gains_by_stages() -> bool:
    """Are kernels in two stages known to be faster: is it an x86 without AVX-512, or one of AMD?"""
    if not _is_x86() or has_few_registers():
        return has_few_registers()
    vendor = re.search(r"^vendor_id\s*:(.*)$", _described(), re.MULTILINE)
    return "AuthenticAMD" in vendor[1] if vendor else toolchain().cpu.startswith("znver")


def gains_by_order() -> bool:
    """Are short chains known to be faster in one stage, in order: is it an x86 with AVX-512 that is not one of AMD?"""
    return _is_x86() and not gains_by_stages()


def code_key(text: str, level: int = 3, vectors_given: bool = False, straight: bool = False) -> str:
    """The key of the code of LLVM text in the cache."""
    return cache.cache_key(text, about_host(), f"{level} {vectors_given} {straight}")


def load_functions(
    text: str, symbols: Sequence[str], level: int = 3, vectors_given: bool = False, straight: bool = False
) -> tuple[Any, dict[str, int]]:
    """The functions of a module of LLVM text, by way of the cache: what owns their code, and their addresses."""
    key = code_key(text, level, vectors_given, straight)
    with compiling:
        found = load_again(key, symbols)
        if found is None:
            code = compile_processes.taken(key)
            if code is None:
                code = toolchain().build(text, level, vectors_given, straight)
                compile_processes.compiled_alone(text)
            cache.save(key, code)
            found = _put_into_memory(code, symbols)
    return found


def begin_functions(
    text: str, level: int = 3, vectors_given: bool = False, straight: bool = False, soon: bool = False
) -> None:
    """Lets another process, if there is one, begin with what `load_functions` of the same arguments will be asked for.

    soon: see `CompileProcesses.begin`.
    """
    key = code_key(text, level, vectors_given, straight)
    with compiling:
        if not cache.holds(key):
            compile_processes.begin(key, text, (level, vectors_given, straight), soon)


def load_again(key: str, symbols: Sequence[str]) -> tuple[Any, dict[str, int]] | None:
    """The functions of code in the cache; None where there is none under this key."""
    code = cache.load(key)
    return None if code is None else _put_into_memory(code, symbols)


def _put_into_memory(code: bytes, symbols: Sequence[str]) -> tuple[Any, dict[str, int]]:
    owner, addresses = load_object(code, symbols, _known()) or toolchain().link(code, symbols)
    return owner, dict(zip(symbols, addresses, strict=True))
