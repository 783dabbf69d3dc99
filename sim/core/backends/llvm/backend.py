"""The CPU back end: LLVM text (`llvm_text.py`), optimised and compiled in process by llvmlite, cached on disk.

Importing llvmlite costs a tenth of a second, so it happens with the first kernel that is compiled; those in the cache
are loaded without it where that is possible (`objects.py`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.backends import cache
from sim.core.backends.base import Site, print_text, symbol_name
from sim.core.backends.llvm.body import PRINT_SYMBOL
from sim.core.backends.llvm.text import Emitter
from sim.core.backends.objects import host, load_object
from sim.core.lang.ir.core import Func
from sim.core.lang.memoize import compiling, memoize
from sim.core.lang.types import SCALARS

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)  # calls release the GIL
_KINDS = {s.name: s for s in SCALARS}


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
def _print(template: bytes, kinds: bytes, values: int) -> None:
    """What `print` in a kernel calls: a template, the names of the scalar types, one 8-byte slot per value."""
    types = [_KINDS[k] for k in kinds.decode().split()]
    shown = [np.frombuffer(ctypes.string_at(values + 8 * k, t.size), t.np)[0] for k, t in enumerate(types)]
    sys.stdout.write(print_text(template.decode(), shown))


class _Toolchain:
    """llvmlite, set up for this machine."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.llvm: Any = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.add_symbol(PRINT_SYMBOL, _print_address())
        self.triple = llvm.get_process_triple()
        if sys.platform == "win32":  # COFF unwind relocations do not survive the run-time linker
            self.triple += "-elf"
        self.cpu, self.features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        self.version = ".".join(map(str, llvm.llvm_version_info))

    def machine(self, level: int) -> Any:
        target = self.llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc="default", codemodel="jitdefault", jit=True
        )

    def optimise(self, text: str, level: int, explicit: bool = False) -> tuple[Any, Any]:
        """The optimised module, and the machine that it is for.

        explicit: the text has vectors where it wants them; LLVM would gather the scalars of indices into more of them,
        and spend longer on taking these apart again.
        """
        module = self.llvm.parse_assembly(text)
        machine = self.machine(level)
        module.triple, module.data_layout = self.triple, str(machine.target_data)
        module.verify()
        options = self.llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = options.loop_interleaving = level > 1
        options.loop_unrolling = level > 1
        options.slp_vectorization = level > 1 and not explicit
        passes = self.llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        return module, machine

    def build(self, text: str, level: int, explicit: bool) -> bytes:
        """An object file from LLVM text."""
        module, machine = self.optimise(text, level, explicit)
        return machine.emit_object(module)

    def link(self, code: bytes, symbols: Sequence[str]) -> tuple[Any, list[int]]:
        """Puts an object file into memory: the engine that owns it, and the addresses of functions."""
        engine = self.llvm.create_mcjit_compiler(self.llvm.parse_assembly(""), self.machine(0))
        engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, [engine.get_function_address(symbol) for symbol in symbols]


@memoize
def _toolchain() -> _Toolchain:
    return _Toolchain()


def load_functions(
    text: str, symbols: Sequence[str], level: int = 3, explicit: bool = False
) -> tuple[Any, dict[str, int]]:
    """The functions of a module of LLVM text, by way of the cache: what owns their code, and their addresses."""
    about = host()
    if about is None:
        tools = _toolchain()
        about = "\n".join((tools.version, tools.triple, tools.cpu, tools.features))
    key = cache.cache_key(text, about, f"{level} {explicit}")
    with compiling:
        code = cache.load(key)
        if code is None:
            code = _toolchain().build(text, level, explicit)
            cache.save(key, code)
        owner, addresses = load_object(code, symbols, {PRINT_SYMBOL: _print_address()}) or _toolchain().link(
            code, symbols
        )
    return owner, dict(zip(symbols, addresses, strict=True))


def _print_address() -> int:
    return ctypes.cast(_print, ctypes.c_void_p).value or 0


class LlvmExecutable:
    """A compiled kernel: `run(block address, begin, end)`; `address` is that of the native function.

    The code lives as long as this object or its `run`.
    """

    def __init__(self, engine: Any, address: int, sites: list[Site]) -> None:
        self.address, self.sites = address, sites
        run: Any = _RUN(address)
        run.engine = engine
        self.run = run


class LlvmBackend:
    """Compiles kernels for the processor that runs this.  `level`: 0 (fast to compile) to 3."""

    name = "llvm"

    def __init__(self, level: int = 3) -> None:
        self.level = level

    def compile(self, func: Func, check: bool = False) -> LlvmExecutable:
        emitter = Emitter(func, check)
        symbol = symbol_name(func)
        engine, address = load_functions(emitter.text(), (symbol,), self.level, emitter.wide)
        return LlvmExecutable(engine, address[symbol], emitter.sites)

    @staticmethod
    def text(func: Func, check: bool = False) -> str:
        """The LLVM text of a kernel, before optimisation."""
        return Emitter(func, check).text()

    def optimised_text(self, func: Func, check: bool = False) -> str:
        """The LLVM text of a kernel as it goes to instruction selection: shows what was vectorised."""
        emitter = Emitter(func, check)
        return str(_toolchain().optimise(emitter.text(), self.level, emitter.wide)[0])
