"""NVRTC: CUDA text to machine code for one architecture, cached on disk by the whole text, options and version.

Machine code (a cubin) of any release of a major line runs with every driver of that line; PTX of a newer release does
not run with an older driver.  So PTX is taken only for an architecture that this NVRTC does not know, and with a
warning.  NVRTC needs no GPU and no driver.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from sim.core.backends import cache
from sim.core.lang.errors import SimError

OPTIONS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--diag-suppress=177,550,39")
"""No contraction of a * b + c and no approximations: single operations round as they do on the CPU.  Suppressed are the
remarks on unused variables, and on a constant division by zero, which the language defines."""


class CudaCompileError(SimError):
    """NVRTC is missing, or refuses a text (then it is our mistake)."""


@functools.cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as problem:
        raise CudaCompileError(
            f"kernels for CUDA cannot be compiled: NVRTC is missing ({problem}); pip install 'simopt-xpbd[cuda]'"
        ) from None
    return nvrtc


def _check(nvrtc: Any, result: tuple) -> Any:
    code, *values = result
    if int(code):
        raise CudaCompileError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(code)[1].decode()}")
    return values[0] if len(values) == 1 else values


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """(major, minor) of the NVRTC in use.  Raises CudaCompileError where there is none."""
    nvrtc = _nvrtc()
    major, minor = _check(nvrtc, nvrtc.nvrtcVersion())
    return int(major), int(minor)


@functools.cache
def known_architectures() -> tuple[int, ...]:
    """Compute capabilities (90 for 9.0) for which NVRTC makes machine code."""
    nvrtc = _nvrtc()
    return tuple(int(a) for a in _check(nvrtc, nvrtc.nvrtcGetSupportedArchs()))


def target_of(capability: int, driver: int) -> str:
    """The NVRTC architecture for a device of this compute capability under a driver of version 13000, say.

    Raises CudaCompileError where no code for that device can be made.
    """
    version = nvrtc_version()
    if version[0] > driver // 1000:
        raise CudaCompileError(
            f"NVRTC {version[0]}.{version[1]} makes code for drivers of CUDA {version[0]}, this driver is of CUDA"
            f" {driver // 1000}.{driver % 1000 // 10}; pip install 'simopt-xpbd[cuda{driver // 1000}]' instead of the"
            " present extra, or update the driver"
        )
    known = known_architectures()
    if capability in known:
        return f"sm_{capability}"
    older = [a for a in known if a <= capability]
    if older and version <= (driver // 1000, driver % 1000 // 10):
        warnings.warn(
            f"NVRTC {version[0]}.{version[1]} does not know compute capability {capability / 10}: kernels are made as"
            f" PTX for {max(older) / 10} and translated by the driver; a newer nvidia-cuda-nvrtc makes machine code",
            stacklevel=2,
        )
        return f"compute_{max(older)}"
    raise CudaCompileError(
        f"NVRTC {version[0]}.{version[1]} cannot make code for compute capability {capability / 10}; it knows"
        f" {', '.join(map(str, known))}"
    )


def compile_text(text: str, target: str, extra: tuple[str, ...] = ()) -> tuple[bytes, str]:
    """(machine code or PTX, the compiler's remarks) of a CUDA text for "sm_90" or "compute_90", not cached."""
    nvrtc = _nvrtc()
    program = _check(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    options = [o.encode() for o in (f"--gpu-architecture={target}", *OPTIONS, *extra)]
    code = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    remarks = _filled(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0 \n").decode()
    if int(code):
        raise CudaCompileError(f"NVRTC refuses a generated kernel, which is a bug of ours:\n{remarks}")
    size, get = (
        (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        if target.startswith("sm_")
        else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    )
    image = _filled(nvrtc, program, size, get)
    nvrtc.nvrtcDestroyProgram(program)
    return image, remarks


def _filled(nvrtc: Any, program: Any, size: Any, get: Any) -> bytes:
    """What NVRTC writes into a `bytes` of the size that it asks for.

    A new object, never one byte long: those are shared by the interpreter, and an empty log would change one for all.
    """
    count = _check(nvrtc, size(program))
    memory = bytes(max(count, 2))
    _check(nvrtc, get(program, memory))
    return memory[:count]


class NvrtcCompiler:
    """CUDA text to an image that the driver loads, for one target, through the disk cache."""

    def __init__(self, target: str) -> None:
        self.target = target

    def image(self, text: str) -> bytes:
        """The image of a text.  Raises CudaCompileError."""
        key = cache.cache_key(text, "nvrtc", ".".join(map(str, nvrtc_version())), self.target, *OPTIONS)
        found = cache.load(key)
        if found is None:
            found = compile_text(text, self.target)[0]
            cache.save(key, found)
        return found
