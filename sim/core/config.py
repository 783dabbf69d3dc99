"""Settings of the whole program in Warp's names: `sim.config.mode = "debug"`.

What has a meaning here is followed from the moment it is set; the other names of Warp's are kept for programs that set
them.  A name that is neither is an error.

mode: "debug" checks every index as `sim.set_check_bounds(True)` does, "release" does not.
verify_fp: raise NonFiniteError, with thread and line, at the first launch of this thread that makes a NaN or infinity.
verify_autograd_array_access: warn, at the user's line, where an array is overwritten that a tape needs: the tape keeps
    a copy, which takes memory, and Warp's gradient would be wrong.
verify_cuda: wait for the end of each launch, so that an error of a GPU is raised where it belongs.
print_launches: print the name, time and bytes of every kernel that runs.
cache_kernels, kernel_cache_dir: whether compiled kernels are kept on disk, and where (None: $SIM_CACHE_DIR, or the
    user's cache directory).
enable_backward: what modules of kernels begin with.
legacy_scalar_return_types: components of vectors, and numbers that functions return on the host, are numbers of
    Python, whatever their type.
version: of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Any

from sim.core.lang.errors import did_you_mean

version: str = "0.1.0"
mode: str = "release"
verify_fp: bool = False
verify_autograd_array_access: bool = False
verify_cuda: bool = False
print_launches: bool = False
cache_kernels: bool = True
kernel_cache_dir: str | None = None
enable_backward: bool = True
legacy_scalar_return_types: bool = False


class DeterministicMode(IntEnum):
    """What Warp is asked of the order of atomics; kept and not followed."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


deterministic: DeterministicMode = DeterministicMode.NOT_GUARANTEED
"""What new modules have as their option of this name; without effect, since results do not depend on the order."""


class LaunchArrayAccessMode(IntEnum):
    """How closely Warp looks at the devices of arrays; kept and not followed: every launch checks them here."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR = 10, 20, 30, 40
"""Values of `log_level`, which is kept: there are no messages that it would choose from."""
_CHOICES = {"mode": ("release", "debug")}
_KEPT: dict[str, Any] = {
    "quiet": False,
    "verbose": False,
    "verbose_warnings": False,
    "log_level": 20,
    "max_unroll": 16,
    "optimization_level": None,
    "enable_vector_component_overwrites": False,
    "launch_array_access_mode": LaunchArrayAccessMode.RELAXED,
    "cuda_output": None,
    "ptx_target_arch": None,
    "cuda_arch_suffix": None,
    "lineinfo": False,
    "line_directives": True,
    "compile_time_trace": False,
    "fast_math": False,
    "enable_cpu_blocks": False,
    "default_grid_stride": True,
    "enable_mathdx_gemm": True,
    "enable_mathdx_solver": True,
    "enable_mathdx_fft": True,
    "cpu_compiler_flags": None,
    "llvm_cuda": False,
    "enable_graph_capture_module_load_by_default": True,
    "enable_mempools_at_init": True,
    "enable_tiles_in_stack_memory": True,
    "use_precompiled_headers": True,
    "legacy_cpu_linker": False,
    "load_module_max_workers": 0,
    "track_memory": False,
    "deterministic_max_records": 0,
    "deterministic_debug": False,
}
"""Settings of Warp's compilers and messages, without a meaning here: their values, as they were set."""
_followers: dict[str, list[Callable[[Any], None]]] = {}


def follow(name: str, changed: Callable[[Any], None]) -> None:
    """From now on `changed(value)` is called when somebody sets `name` to another value."""
    _followers.setdefault(name, []).append(changed)


class _ListeningModule(ModuleType):
    """This module, which hears of assignments."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):  # what `import` itself sets
            super().__setattr__(name, value)
            return
        known = _names()
        if name not in known:
            raise AttributeError(f"config has no setting {name!r}{did_you_mean(name, known)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"config.{name} = {value!r}; expected {' or '.join(map(repr, _CHOICES[name]))}")
        before = getattr(self, name)
        super().__setattr__(name, value)
        if value != before:
            for changed in _followers.get(name, ()):
                changed(value)


def _names() -> list[str]:
    return [*__annotations__, *_KEPT]


def __dir__() -> list[str]:
    return sorted(name for name in _names() if not name.startswith("_"))


globals().update(_KEPT)
sys.modules[__name__].__class__ = _ListeningModule
