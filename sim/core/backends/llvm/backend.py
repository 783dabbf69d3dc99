"""The CPU back end: LLVM text (`text.py`), optimised and compiled in process (`toolchain.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sim.core.backends.base import Record, symbol_name
from sim.core.backends.llvm.machine_code.compile_processes import compile_processes
from sim.core.backends.llvm.machine_code.toolchain import (
    about_host,
    begin_functions,
    code_key,
    load_again,
    load_functions,
    toolchain,
)
from sim.core.backends.llvm.python_calls import builtin_run
from sim.core.backends.llvm.text import Emitter
from sim.core.lang.ir.core import Func

_ENTRY = "kernel"
"""The same for all: kernels that differ in nothing but their names are compiled once."""


class LlvmExecutable:
    """A compiled kernel: `run(block address, begin, end)`; `address` is that of the native function.

    The code lives as long as this object or its `run`.
    """

    def __init__(self, engine: Any, address: int, record: Record) -> None:
        self.address, self.record, self.sites = address, record, record[1]
        self.run = builtin_run(address, engine)


class LlvmBackend:
    """Compiles kernels for the processor that runs this.  `level`: 0 (fast to compile) to 3."""

    name, few_apart = "llvm", True

    def __init__(self, level: int = 3) -> None:
        self.level = level

    def begin(self, func: Func, check: bool = False, soon: bool = False) -> Callable[[], LlvmExecutable] | None:
        """See `Backend`."""
        if not compile_processes.at_hand():
            return None
        emitter = Emitter(func, check)
        text = emitter.text(_ENTRY)
        begin_functions(text, *self._way(emitter), soon)
        return partial(self._finish, text, emitter)

    def compile(self, func: Func, check: bool = False) -> LlvmExecutable:
        emitter = Emitter(func, check)
        return self._finish(emitter.text(_ENTRY), emitter)

    def _way(self, emitter: Emitter) -> tuple[int, bool, bool]:
        return self.level, emitter.vectors_given, emitter.straight

    def _finish(self, text: str, emitter: Emitter) -> LlvmExecutable:
        way = self._way(emitter)
        engine, address = load_functions(text, (_ENTRY,), *way)
        return LlvmExecutable(engine, address[_ENTRY], (code_key(text, *way), emitter.sites))

    @property
    def kept_as(self) -> str:
        """See `Backend`."""
        return f"llvm {self.level} {about_host()}"

    def again(self, record: Record) -> LlvmExecutable | None:
        """See `Backend`."""
        found = load_again(record[0], (_ENTRY,))
        return None if found is None else LlvmExecutable(found[0], found[1][_ENTRY], record)

    @staticmethod
    def text(func: Func, check: bool = False) -> str:
        """The LLVM text of a kernel, before optimisation."""
        return Emitter(func, check).text(symbol_name(func))

    def optimised_text(self, func: Func, check: bool = False) -> str:
        """The LLVM text of a kernel as it goes to instruction selection: shows what was vectorised."""
        emitter = Emitter(func, check)
        text = emitter.text(symbol_name(func))
        return str(toolchain().optimise(text, self.level, emitter.vectors_given, emitter.straight)[0])
