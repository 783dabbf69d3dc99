"""simopt info: versions, devices, and the cache of compiled kernels."""

from __future__ import annotations

import argparse

from sim.cli.terminal.tables import print_table
from sim.cli.verbs.base import Verb
from sim.core.backends.cache import clear_kernel_cache, kernel_cache_dir, kernel_cache_size
from sim.core.runtime.ambient.threads import get_num_threads
from sim.core.runtime.devices.device import cuda_missing, get_device, get_devices
from sim.identify.run import OK
from sim.io import environment, to_json
from sim.scene.schema.keys.materials import registered_materials


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", action="store_true", help="how many compiled kernels are kept, and their size")
    parser.add_argument("--clear-cache", action="store_true", help="delete them")


def _run(options: argparse.Namespace) -> int:
    about = environment(
        str(get_device()),
        packages=("numpy", "llvmlite", "pyyaml", "trimesh", "rich", "cuda-bindings", "nvidia-cuda-nvrtc"),
    )
    facts = {
        **{name: version or "not installed" for name, version in about["versions"].items()},
        "platform": about["platform"], "cores": about["cores"], "threads": get_num_threads(),
        "devices": ", ".join(device.description for device in get_devices()),
        "cuda": cuda_missing() or "available", "backend": get_device().backend.name,
        "kernel cache": str(kernel_cache_dir()), "constraints": ", ".join(registered_materials()),
    }  # fmt: skip
    if options.cache or options.clear_cache:
        count, size = kernel_cache_size()
        facts = {"kernel cache": str(kernel_cache_dir()), "kernels": count, "bytes": size}
    if options.clear_cache:
        facts["deleted"] = clear_kernel_cache()
    if options.json:
        print(to_json(facts, indent=2))
    else:
        print_table("", ["", ""], [[name, str(value)] for name, value in facts.items()])
    return OK


INFO = Verb("info", "versions, devices, where compiled kernels are kept", _run, _add_arguments)
