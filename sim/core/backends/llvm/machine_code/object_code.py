"""LLVM text to object files, through llvmlite.  Nothing else of this package is needed: so a process that does only
this (`compile_processes.py`), and runs this file as a program, starts in a tenth of a second.

    python object_code.py FOLDER    answers requests from standard input until that ends; llvmlite is in FOLDER

A request is a header (`REQUEST`: length of the text, level, vectors_given, straight) and the text, an answer its length
and the object file; length 0: it could not be made.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, BinaryIO

REQUEST, ANSWER = struct.Struct("<Q3B"), struct.Struct("<Q")

_SHORT = ("always_inliner", "sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_code_elimination")
"""The passes for code that has its vectors, and no inner loops.  Our own have left little to do: LLVM's full list, with
the second scheduling of instructions that the highest level of its code generator adds, takes twice the time for code
that is no faster."""


_NO_COPYABLE_ELEMENTS = "-slp-copyable-elements=false"
"""LLVM 22, built with assertions as in the wheels of llvmlite, ends the process where it gathers scalars into vectors
by filling up lanes with operations that change nothing, and cannot put these in order afterwards."""


class ObjectCompiler:
    """LLVM, set up for the processor that runs this."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.llvm: Any = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.set_option("", _NO_COPYABLE_ELEMENTS)
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

    def optimise(self, text: str, level: int, vectors_given: bool = False, straight: bool = False) -> tuple[Any, Any]:
        """The optimised module, and the machine that it is for.

        vectors_given: the text has vectors where it wants them; LLVM would gather the scalars of indices into more of
            them, and spend longer on taking these apart again.
        straight: there is no loop but that over the threads.
        """
        short = straight and vectors_given and level > 1
        module = self.llvm.parse_assembly(text)
        machine = self.machine(1 if short else level)
        module.triple, module.data_layout = self.triple, str(machine.target_data)
        module.verify()
        options = self.llvm.create_pipeline_tuning_options(speed_level=level)
        # Loops inside of threads are left alone: LLVM 22, built with assertions as in the wheels of llvmlite, ends the
        # process where its two models of what such a loop costs disagree, as they do for some processors.
        options.loop_vectorization = options.loop_interleaving = level > 1 and straight and not vectors_given
        options.loop_unrolling = level > 1
        options.slp_vectorization = level > 1 and not vectors_given
        passes = self.llvm.create_pass_builder(machine, options)
        if short:
            manager = self.llvm.create_new_module_pass_manager()
            for name in _SHORT:
                getattr(manager, f"add_{name}_pass")()
        else:
            manager = passes.getModulePassManager()
        manager.run(module, passes)
        return module, machine

    def build(self, text: str, level: int, vectors_given: bool, straight: bool = False) -> bytes:
        """An object file from LLVM text."""
        module, machine = self.optimise(text, level, vectors_given, straight)
        code: bytes = machine.emit_object(module)
        return code


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests until there are no more."""
    compiler = ObjectCompiler()
    while len(header := requests.read(REQUEST.size)) == REQUEST.size:
        length, level, vectors_given, straight = REQUEST.unpack(header)
        text = requests.read(length).decode()
        try:
            code = compiler.build(text, level, bool(vectors_given), bool(straight))
        except RuntimeError:  # who asked for it will build it, too, and see what is wrong
            code = b""
        answers.write(ANSWER.pack(len(code)) + code)
        answers.flush()


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    serve(sys.stdin.buffer, sys.stdout.buffer)
