"""Modules of kernels: what Warp compiles together, here the place of options and of compiling ahead of a launch.

Every kernel belongs to the module of the Python module that defines it, or to one of its own (`module="unique"`).  A
kernel is compiled for itself: an option or an error of one does not touch the others.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, Protocol

from sim.core import config
from sim.core.lang.errors import KernelError, NotSupportedError, depth_of_user, did_you_mean
from sim.core.lang.frontend.source import own_module
from sim.core.runtime.devices.device import Device, DeviceLike, get_device, get_devices

OPTIONS: Mapping[str, Any] = {
    "enable_backward": True,
    "max_unroll": 16,
    "mode": None,
    "optimization_level": None,
    "fast_math": False,
    "fuse_fp": True,
    "lineinfo": False,
    "cuda_output": None,
    "cpu_compiler_flags": None,
    "block_dim": 256,
    "compile_time_trace": False,
    "strip_hash": False,
    "extra_build_options": None,
    "deterministic": None,
    "deterministic_max_records": 0,
    "default_grid_stride": None,
    "enable_mathdx_gemm": None,
    "enable_mathdx_solver": None,
    "enable_mathdx_fft": None,
}
"""The options of Warp's modules.  `enable_backward`, which begins as `config` says, is followed; the others choose how
Warp's compilers work, and are kept for programs that ask for them."""


class Compilable(Protocol):
    """What a module asks of its kernels."""

    __qualname__: str

    def compile(self, device: Device) -> None:
        """Make it ready for launches on a device, as far as its types are known."""

    def unload(self) -> None:
        """Forget what was compiled."""

    def content(self) -> str:
        """What it computes, as text."""


class Module:
    """The kernels of a Python module, and their options.  `options` may be changed in place."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: dict[str, Any] = {
            **OPTIONS, "enable_backward": config.enable_backward, "deterministic": config.deterministic
        }  # fmt: skip
        self._kernels: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._kept: dict[str, Any] = {}  # those that no function defines, which live as long as their Python module

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernels by key; of those with one key the last."""
        return dict(self._kernels)

    def register_kernel(self, key: str, kernel: Compilable) -> None:
        self._kernels[key] = kernel
        self._kept.pop(key, None)
        if "<locals>" not in kernel.__qualname__:
            self._kept[key] = kernel

    def load(self, device: DeviceLike = None, block_dim: int | None = None) -> bool:
        """Compile the kernels whose types are known; those that cannot be compiled say so when they are launched.

        Returns whether all could be compiled.  `block_dim` is accepted as in Warp.
        """
        return not self.failures(get_device(device))

    def failures(self, device: Device) -> dict[str, Exception]:
        """Compile the kernels whose types are known; what was raised for those that cannot be, by name."""
        failed: dict[str, Exception] = {}
        for kernel in self.kernels.values():
            try:
                kernel.compile(device)
            except (KernelError, NotSupportedError) as problem:
                failed[kernel.__qualname__.rpartition(".")[2]] = problem
        return failed

    def unload(self) -> None:
        """Forget what was compiled: the next launches trace and compile anew."""
        for kernel in self.kernels.values():
            kernel.unload()

    def hash_module(self) -> bytes:
        """A hash of what its kernels compute, and of its options: the same in every process."""
        texts = [f"{key}\n{kernel.content()}" for key, kernel in sorted(self.kernels.items())]
        return sha256("\n".join([*texts, repr(sorted(self.options.items()))]).encode()).digest()

    get_module_hash = hash_module

    def mark_modified(self) -> None:
        """Nothing to do: a launch looks by itself whether what its kernel captures has changed."""

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Changes some options; raises ValueError where there is no such option."""
        for key in options:
            if key not in OPTIONS:
                raise ValueError(
                    f"a module has no option '{key}'{did_you_mean(key, OPTIONS)}. Valid options: {', '.join(OPTIONS)}"
                )
        records = options.get("deterministic_max_records", 0)
        if isinstance(records, bool) or not isinstance(records, int):
            raise TypeError(f"deterministic_max_records is a whole number, not {records!r}")
        if records < 0:
            raise ValueError(f"deterministic_max_records is {records}; it counts, so it is not negative")
        self.options.update(options)

    def __repr__(self) -> str:
        return f"<module {self.name} of kernels>"


_modules: dict[str, Module] = {}


def get_module(name: str) -> Module:
    """The kernels of a Python module; made where there is none yet."""
    return _modules.get(name) or _modules.setdefault(name, Module(name))


def _found(module: Module | ModuleType | str | None) -> Module:
    if isinstance(module, Module):
        return module
    if module is None:
        return get_module(sys._getframe(2).f_globals["__name__"])
    return get_module(module if isinstance(module, str) else module.__name__)


def set_module_options(options: Mapping[str, Any], module: Module | ModuleType | str | None = None) -> None:
    """Sets options of a module, by default of the one that calls: `set_module_options({"enable_backward": False})`."""
    _found(module).set_options(options)


def get_module_options(module: Module | ModuleType | str | None = None) -> dict[str, Any]:
    """The options of a module, by default of the one that calls."""
    return _found(module).options


def load_module(
    module: Module | ModuleType | str | None = None,
    device: DeviceLike | Iterable[DeviceLike] = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compiles the kernels of a module ahead of their first launch, by default of the module that calls.

    recursive: those of its submodules too.  device: one or several; None: all.  `block_dim` and `max_workers` are
    accepted as in Warp.  Raises RuntimeError where no kernel is defined in the module that is named.  A kernel that
    cannot be compiled is warned about, and raises when it is launched; the others are compiled.
    """
    found = _found(module)
    modules = [found] if found.kernels else []
    if recursive:
        modules += [m for name, m in list(_modules.items()) if name.startswith(f"{found.name}.")]
    # What ours need is compiled with the kernels that call it.
    if module is not None and not modules and not own_module(found.name):
        raise RuntimeError(f"module '{found.name}' defines no kernels, or has not been imported yet")
    force_load(device, modules)


def force_load(
    device: DeviceLike | Iterable[DeviceLike] = None,
    modules: Iterable[Module | ModuleType | str] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compiles the kernels of these modules, by default of all of the user's, for one device, several or all.

    Warns about those that cannot be compiled; they raise when they are launched.
    """
    if device is None:
        devices: list[DeviceLike] = list(get_devices())
    elif isinstance(device, (str, Device)):
        devices = [device]
    else:
        devices = list(device)
    own = [module for name, module in list(_modules.items()) if not own_module(name)]
    for module in own if modules is None else modules:
        failed = [item for each in devices for item in _found(module).failures(get_device(each)).items()]
        for name, problem in dict(failed).items():
            warnings.warn(f"kernel '{name}' cannot be compiled: {problem}", stacklevel=depth_of_user())
