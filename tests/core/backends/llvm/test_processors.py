"""Kernels are compiled for processors other than this one: LLVM ends the whole process where something in it fails."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys

import pytest

from sim.core.backends.llvm.machine_code import toolchain

BUILD = """
import sys
from sim.core.backends.llvm.text import Emitter
from sim.core.backends.llvm.machine_code.toolchain import toolchain
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType, float32
from sim.core.runtime.launch.kernel import Kernel
from sim.core.spatial import sorting, tree_build, tree_linear
from sim.solvers.integrators import step_kernels

tools, count = toolchain(), 0
tools.cpu, tools.features = sys.argv[1], ""
kernels = [k for module in (tree_build, tree_linear, sorting) for k in vars(module).values() if isinstance(k, Kernel)]
kernels += vars(step_kernels.step_kernels(float32, False)).values()
for kernel in kernels:
    f = kernel.specialise(tuple(p.type for p in kernel.parameters)).func
    packed = frozenset(k for k, p in enumerate(f.params) if isinstance(p.type, ArrayType))
    for few in (False, True):
        emitter = Emitter(Func(f.name, f.body, f.span, f.dims, {**f.attrs, "packed": packed, "few": few}))
        text = emitter.text("kernel")
        count += len(tools.build(text, 3, emitter.vectors_given, emitter.straight)) > 0
print(count)
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the names of x86 processors")
@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "znver3", "icelake-server", "znver5"])
def test_kernels_are_built_for(cpu):
    done = subprocess.run([sys.executable, "-c", BUILD, cpu], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 5


WIDE = """
import sys
from sim.constraints.base import REGISTRY
from sim.constraints.projection import make_projection
from sim.core.backends.llvm.text import Emitter
from sim.core.backends.llvm.machine_code.toolchain import toolchain
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType, float32

tools = toolchain()
tools.cpu, tools.features = sys.argv[1], ""
kernel = make_projection(REGISTRY["distance"], float32, True, False, False, True)
f = kernel.specialise(tuple(p.type for p in kernel.parameters)).func
packed = frozenset(k for k, p in enumerate(f.params) if isinstance(p.type, ArrayType))
emitter = Emitter(Func(f.name, f.body, f.span, f.dims, {**f.attrs, "packed": packed}))
module, machine = tools.optimise(emitter.text("kernel"), 3, emitter.vectors_given, emitter.straight)
print("zmm" in machine.emit_assembly(module))
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the names of x86 processors")
@pytest.mark.parametrize("cpu", ["skylake-avx512", "icelake-server"])
def test_registers_of_64_bytes_are_left_alone_where_they_slow_others_down(cpu):
    """The inverse masses of eight constraints on two points lie in as many bytes."""
    done = subprocess.run([sys.executable, "-c", WIDE, cpu], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("vendor", "flags", "few", "stages", "order"),
    [
        ("AuthenticAMD", "avx2", True, True, False),
        ("GenuineIntel", "avx2", True, True, False),
        ("AuthenticAMD", "avx2 avx512f avx512vl", False, True, False),
        ("GenuineIntel", "avx2 avx512f avx512vl", False, False, True),
    ],
)
def test_shapes_of_code_go_by_features(monkeypatch, vendor, flags, few, stages, order):
    monkeypatch.setattr(toolchain, "_is_x86", lambda: True)
    monkeypatch.setattr(toolchain, "_described", lambda: f"vendor_id\t: {vendor}\nflags\t\t: fpu {flags} fma\n")
    for name in ("has_few_registers", "gains_by_stages"):
        monkeypatch.setattr(toolchain, name, functools.cache(getattr(toolchain, name).__wrapped__))
    found = toolchain.has_few_registers(), toolchain.gains_by_stages(), toolchain.gains_by_order()
    assert found == (few, stages, order)
