"""Runs a program on a GPU that is the CPU: cuda-python's real bindings, a driver of ours (fake_libcuda.cpp), and
kernels from g++.

    PYTHONPATH=.:tests python -m tools.cuda.on_fake_gpu FILE-OR-MODULE [ARGUMENTS]

The driver's library has to be found as libcuda.so.1 (LD_LIBRARY_PATH).
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from sim.core.runtime.devices import cuda_device
from tools.cuda.on_cpu import HostCompiler


def main() -> None:
    cuda_device.NvrtcCompiler = lambda target: HostCompiler.shared()  # type: ignore[assignment, misc]
    cuda_device.target_of = lambda capability, driver: f"sm_{capability}"
    name, sys.argv = sys.argv[1], sys.argv[1:]
    if name.endswith(".py"):
        sys.path.insert(0, str(Path(name).resolve().parent))
        runpy.run_path(name, run_name="__main__")
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
