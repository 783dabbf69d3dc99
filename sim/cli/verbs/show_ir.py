"""simopt show-ir: what becomes of a kernel, stage by stage."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sim.cli.verbs.base import Verb
from sim.cli.verbs.modules import UsageError, import_file
from sim.core.backends.cuda.text import CudaText
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.ir.printer import to_text
from sim.core.lang.types import ArrayType
from sim.core.runtime.launch.kernel import Kernel
from sim.identify.run import OK
from sim.io import to_json

STAGES = ("traced", "ir", "adjoint", "llvm", "optimized", "cuda", "adjoint-llvm", "adjoint-optimized", "adjoint-cuda")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a kernel in it")
    parser.add_argument("--stage", choices=STAGES, default="ir", help="default: ir")


def _run(options: argparse.Namespace) -> int:
    file, _, name = options.kernel.rpartition(":")
    if not file:
        raise UsageError(f"`{options.kernel}` names no kernel; write FILE:KERNEL, as in examples.py:mean_square")
    found = getattr(import_file(Path(file)), name, None)
    if not isinstance(found, Kernel):
        raise UsageError(f"{file} has no kernel `{name}`")
    text = kernel_text(found, options.stage)
    print(to_json({"kernel": found.name, "stage": options.stage, "text": text}) if options.json else text)
    return OK


def kernel_text(kernel: Kernel, stage: str) -> str:
    """One stage of a kernel's compilation, for the types of its annotations; its adjoint with all gradients."""
    missing = [
        p.name for p in kernel.parameters if p.type is None or (isinstance(p.type, ArrayType) and p.type.dtype is None)
    ]
    if missing:
        raise UsageError(f"kernel `{kernel.name}` is generic in {', '.join(missing)}; annotate them to see its code")
    types = tuple(p.type for p in kernel.parameters if p.type is not None)
    if stage == "traced":
        return to_text(trace_kernel(kernel.function, types, name=kernel.name, real=kernel.real))
    made = kernel.specialise(types)
    func = made.func
    if stage.startswith("adjoint"):
        kinds = [p.type for p in func.params]
        active = frozenset(k for k, t in enumerate(kinds) if isinstance(t, ArrayType) and _has_gradient(t))
        gradients = made.differentiated(active, ())
        func = gradients.adjoint(frozenset(gradients.must_cache)).adjoint.func
    if stage.endswith("cuda"):
        return CudaText(func).kernel()
    backend = LlvmBackend()
    if stage.endswith("llvm"):
        return backend.text(func)
    return backend.optimised_text(func) if stage.endswith("optimized") else to_text(func)


def _has_gradient(kind: ArrayType) -> bool:
    leaves = getattr(kind.dtype, "leaves", None)
    scalars: list[Any] = [kind.dtype] if leaves is None else [leaf.scalar for leaf in leaves]
    return any(s.is_float for s in scalars)


SHOW_IR = Verb("show-ir", "what becomes of a kernel", _run, _add_arguments)
