"""NVRTC takes every generated text, without a GPU, and the machine code keeps within budgets.

Everything is compiled to machine code for three architectures (most of it by `-m slow`); that of the solvers for sm_90
is looked at.
"""

from __future__ import annotations

import functools
import importlib.util

import numpy as np
import pytest
from tools.cuda.cubin_report import DOUBLE, KernelReport, disassembler, reports, with_instructions
from tools.cuda.on_cpu import Batch, renamed
from tools.cuda.project_kernels import CHUNKS, Variant, contiguous, is_large, library_functions, rows, solver_variants
from tools.library.cases import as_kernel
from tools.programs.corpus import order
from tools.programs.corpus_loops import PROGRAMS

import sim
from sim.constraints import REGISTRY
from sim.core.backends import cache
from sim.core.backends.base import FIRST_PARAM, slots_of
from sim.core.backends.cuda.compile import (
    CudaCompileError,
    NvrtcCompiler,
    compile_text,
    known_architectures,
    nvrtc_version,
    target_of,
)
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import float32, float64, vec3
from sim.core.runtime.devices.cuda_device import transfer_kernel

HAVE_NVRTC = importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None
pytestmark = pytest.mark.skipif(
    not HAVE_NVRTC, reason="NVRTC is not installed (pip install '.[dev]' brings it on Linux and Windows)"
)
needs_disassembler = pytest.mark.skipif(
    disassembler() is None, reason="nvdisasm is not installed (package nvidia-cuda-nvdisasm)"
)

SOLIDS = tuple(f"_{c.name}" for c in REGISTRY.values() if is_large(c) or min(c.rows, c.points) > 2)


def is_solid(v: Variant) -> bool:
    return any(name in v.func.name for name in SOLIDS)


@functools.cache
def chosen() -> list[Variant]:
    """What is looked at.  Shared and own ones differ in atomics only, the first of a step does less than those that
    follow, and shear is another distance."""
    found = [v for v in solver_variants(float32) if "_shared" not in v.func.name and "_shear" not in v.func.name]
    names = {v.func.name for v in found}
    return [
        v
        for v in found
        if (v.func.name.replace("_first", "_next") not in names - {v.func.name} if v.role != "recording"
            else "_first" in v.func.name and not is_solid(v))
    ]  # fmt: skip


def solver_text() -> str:
    """Kernels of the solvers and of the constraints that are looked at, in single precision, with their adjoints."""
    return Batch([v.func for v in chosen()]).text


def variants_text() -> str:
    """All of them."""
    return Batch([v.func for v in solver_variants(float32)]).text


@functools.cache
def machine_code() -> bytes:
    return compile_text(solver_text(), "sm_90")[0]


@functools.cache
def measured() -> dict[str, KernelReport]:
    return (with_instructions if disassembler() else reports)(machine_code())


def report(v: Variant) -> KernelReport:
    return measured()[f"kernel_{v.func.name}"]


# ------------------------------------------------------------------------------------------ budgets
SPILLED = {
    "prescribe": 40, "prescribe_adjoint": 4144,
    "project_revolute_ab_next_adjoint": 616, "inverse_adjoint": 8,
    "prescribe_bodies": 72, "prescribe_bodies_adjoint": 4192, "push_adjoint": 4096,
}  # fmt: skip
"""Bytes of local memory that a thread is known to use: a pair of registers here and there since eq. 18 is written once
for one row and for several; the reduction of the argument of a cosine in double precision; a log of the loop over the
displacements of a motion or the forces of a recording."""
HELD = ("prescribe", "prescribe_adjoint")
"""Kernels of the few points that are held: they place a recorded frame by its turn and clock, in double precision."""
DOUBLES = ("prescribe", "finish", "fabric", "targets", "forward", "bodies", "pa", "ab", "wa")
"""Words of kernels that may compute in double precision: the clock, and the argument of a cosine."""
ON_BODIES = ("bodies", "pa", "ab", "wa")
"""Words of kernels on rigid bodies: `SPILLED` for the argument of a cosine, and blocks of several rows."""


def acts_on_bodies(v: Variant) -> bool:
    return not set(ON_BODIES).isdisjoint(v.func.name.split("_"))


def allowed(v: Variant) -> int:
    """Bytes of local memory."""
    return SPILLED.get(v.func.name, 32 if acts_on_bodies(v) else 0)


def test_registers_and_spills() -> None:
    """At most 64 registers for a forward projection, 128 for its adjoint, and nothing spilled.

    Solids and sheets, whose blocks have three unknowns or more, take up to 128 and 255, what acts on bodies or holds
    points 255; none spills more than `SPILLED`.
    """
    over = {}
    for v in chosen():
        found, limit = report(v), 128 if v.role == "adjoint" else 64
        if is_solid(v):
            limit = 255 if v.role == "adjoint" else 128
        if acts_on_bodies(v) or v.func.name in HELD:
            limit = 255
        if found.registers > limit or found.stack > allowed(v):
            over[v.func.name] = found.registers, found.stack
    assert not over


def test_the_layout_of_arguments_is_the_packers() -> None:
    for v in chosen():
        assert report(v).argument_bytes == 8 * (FIRST_PARAM + sum(slots_of(p.type) for p in v.func.params)), v.func.name


@needs_disassembler
def test_instructions() -> None:
    """No double precision in single-precision kernels but for `DOUBLES`; no atomics where a colour promises exclusive
    arrays."""
    colored = [v for v in chosen() if v.colored]
    assert len(colored) > 40 and {v.role for v in colored} == {"forward", "recording", "adjoint"}
    for v in chosen():
        found = report(v)
        timed = v.func.name in ("push", "push_recording", "push_adjoint")  # loads over time
        if not timed and not any(word in DOUBLES for word in v.func.name.split("_")):
            assert not found.count(*DOUBLE), f"{v.func.name} computes in double precision"
        if v.colored:
            assert not found.atomics, f"{v.func.name} has atomics"
        if not acts_on_bodies(v):  # a cosine's argument is reduced there in a loop
            assert found.local <= allowed(v) // 4, f"{v.func.name} uses local memory"
    averaged = next(v for v in chosen() if v.func.name == "project_distance_averaged")
    assert report(averaged).atomics == 6, "without the promise two points of three components are added to"


@needs_disassembler
def test_wide_loads_and_stores() -> None:
    quat, narrow = (
        contiguous(transfer_kernel(sim.quat, 1, False), "copy_quat"),
        contiguous(transfer_kernel(vec3, 1, False), "copy_vec3"),
    )
    found = with_instructions(compile_text(Batch([quat, narrow]).text, "sm_90")[0])
    assert found["kernel_copy_quat"].wide == 2 and found["kernel_copy_vec3"].wide == 0
    careful = with_instructions(compile_text(Batch([quat], careful=True).text, "sm_90")[0])
    assert careful["kernel_copy_quat"].wide == 0


# ------------------------------------------------------------------------------------------ everything, everywhere
@functools.cache
def library_text(dtype: type) -> str:
    """Every function of the library and its adjoint."""
    found = {k: v for chunk in range(CHUNKS) for k, v in library_functions(dtype, chunk).items()}
    return Batch([f for f, _, _ in found.values()]).text


@functools.cache
def corpus_text() -> str:
    """The corpus of small programs and their adjoints."""
    return Batch(
        [renamed(as_kernel(inline(order(p, number))), f"{p.name}_{number}") for p in PROGRAMS for number in (0, 1)]
    ).text


TEXTS = {
    "solvers": solver_text,
    "variants": variants_text,
    "library32": lambda: library_text(np.float32),
    "library64": lambda: library_text(np.float64),
    "rows": lambda: rows().text,
    "corpus": corpus_text,
}


SLOW = {(target, part) for target in ("sm_80", "sm_120") for part in ("solvers", "library32", "library64")}
SLOW |= {(target, "variants") for target in ("sm_80", "sm_90", "sm_120")}
"""Large texts, which the middle one of the architectures compiles in every run."""

CASES = [
    pytest.param(target, part, marks=[pytest.mark.slow] * ((target, part) in SLOW))
    for target in ("sm_80", "sm_90", "sm_120")
    for part in TEXTS
]


@pytest.mark.parametrize(("target", "part"), CASES)
def test_machine_code(target: str, part: str) -> None:
    """All optimisations are done for each: NVRTC 13.5 goes on without some of them in a process that has been asked
    once for `--Ofast-compile`, and kernels that are looked at spill then."""
    text = TEXTS[part]()
    image = machine_code() if (target, part) == ("sm_90", "solvers") else compile_text(text, target)[0]
    assert image[:4] == b"\x7fELF"
    assert len(reports(image)) == text.count('extern "C" __global__') > 10


# ------------------------------------------------------------------------------------------ targets, cache, errors
def test_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of(90, 13000) == "sm_90" and 80 in known_architectures()
    with pytest.raises(CudaCompileError, match=r"cuda12"):
        target_of(90, 12080)
    with pytest.raises(CudaCompileError, match="cannot make code for compute capability 6.1"):
        target_of(61, 13000)
    monkeypatch.setattr("sim.core.backends.cuda.compile.known_architectures", lambda: (80, 90))
    major, minor = nvrtc_version()
    with pytest.warns(UserWarning, match="PTX for 9.0"):
        assert target_of(99, 1000 * major + 10 * minor) == "compute_90"
    with pytest.raises(CudaCompileError, match="9.9"):
        target_of(99, 1000 * major + 10 * minor - 10)


def test_images_are_kept_by_text_and_target(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path))
    made = []
    monkeypatch.setattr(
        "sim.core.backends.cuda.compile.compile_text",
        lambda text, target: (made.append((text, target)) or f"{text} {target}".encode(), ""),
    )
    for text, target in (("a", "sm_90"), ("a", "sm_90"), ("a", "sm_80"), ("b", "sm_90"), ("b", "sm_90")):
        assert NvrtcCompiler(target).image(text) == f"{text} {target}".encode()
    assert made == [("a", "sm_90"), ("a", "sm_80"), ("b", "sm_90")]
    assert len(list(cache.kernel_cache_dir().iterdir())) == 3


def test_an_empty_log_changes_no_constant_of_python() -> None:
    """NVRTC writes the zero that ends its log into the bytes that it is given, and Python shares all bytes of length
    1."""
    assert compile_text('extern "C" __global__ void k(int *x) { *x = 1; }', "compute_90")[1] == ""
    assert [bytes([k])[0] for k in range(256)] == list(range(256))


def test_a_text_that_is_wrong_is_our_mistake() -> None:
    with pytest.raises(CudaCompileError, match=r'(?s)bug of ours.*identifier "y" is undefined'):
        compile_text('extern "C" __global__ void k(int *x) { *x = y; }', "sm_90")


def test_names_of_the_user_that_c_does_not_allow() -> None:
    """A kernel whose arguments and variables are called like words of C++ and of CUDA."""

    @sim.kernel(name="sin")
    def awkward(
        int_: sim.array[float],
        float4: sim.array[sim.vec4],
        register: float,
        threadIdx: int,
        template: sim.array[float64],
    ):  # noqa: N803
        this = sim.tid()
        double = int_[this] * register
        float4[this] = float4[this] * double
        template[this] += float64(double)

    spec = awkward.specialise(tuple(p.type for p in awkward.parameters))
    text = Batch([contiguous(spec.func, "sin")]).kernels["sin"]
    assert "register_" in text and "double_" in text and "// test_cuda_compile.py" in text
    compile_text(Batch([contiguous(spec.func, "sin")]).text, "compute_90")
