"""Gradients of whole programs (launches, copies, fills) by the tape and by central differences, on either back end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest

import sim
from sim.core.backends.base import Backend
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.runtime.devices.cuda_device import cuda_devices
from tools.cuda.on_cpu import GXX, fake_gpu

BACKENDS: dict[str, Callable[[], Backend]] = {"interp": InterpBackend, "llvm": LlvmBackend}
Program = Callable[..., sim.array]
"""Takes arrays, returns the loss: an array of one element."""


@contextmanager
def backend(name: str, *modules: ModuleType) -> Iterator[None]:
    """Kernels run on this back end inside the block; those of `modules` forget what they compiled before.

    "cuda": arrays and launches are on a GPU, or where there is none on a stand-in.
    """
    if name == "cuda":
        if GXX is None and not cuda_devices():
            pytest.skip("the CUDA text is run on the CPU by g++, which this machine does not have")
        with sim.ScopedDevice(next(iter(cuda_devices()), None) or fake_gpu()):
            yield
        return
    device = sim.get_device("cpu")
    before = device.backend
    device.backend = BACKENDS[name]()
    forget(*modules)
    try:
        yield
    finally:
        device.backend = before
        forget(*modules)


def forget(*modules: ModuleType) -> None:
    for module in (*modules, sim.utils):
        for found in vars(module).values():
            if isinstance(found, sim.Kernel):
                found.specialisations.clear()
                found.bindings.clear()


def array(values: object, dtype: object = sim.float64, gradient: bool = True) -> sim.array:
    return sim.array(np.array(values, dtype=np.float64), dtype=dtype, requires_grad=gradient)


def numbers(a: sim.array) -> np.ndarray:
    """The floating-point numbers of an array, flat."""
    host = a.numpy()
    if host.dtype.names:
        return np.concatenate([np.ravel(host[name]) for name in host.dtype.names if host[name].dtype.kind == "f"])
    return np.ravel(host)


def gradient(program: Program, inputs: list[sim.array], tape: sim.Tape | None = None) -> list[np.ndarray]:
    """Of the loss with respect to the content that the inputs had at the start."""
    tape = tape or sim.Tape()
    with tape:
        loss = program(*inputs)
    ends = [numbers(a).copy() for a in inputs]
    tape.backward(loss)
    for a, end in zip(inputs, ends, strict=True):
        np.testing.assert_array_equal(numbers(a), end, "backward changed a value")
    return [numbers(a.grad).copy() for a in inputs]


def differences(program: Program, inputs: list[sim.array], h: float = 1e-5) -> list[np.ndarray]:
    """The same by central differences, each run on fresh copies."""

    def value(k: int, j: int, move: float) -> float:
        copies = [sim.clone(a, requires_grad=False) for a in inputs]
        moved = np.array(copies[k].numpy())
        moved.reshape(-1)[j] += move
        copies[k].assign(moved)
        return float(numbers(program(*copies))[0])

    return [
        np.array([(value(k, j, h) - value(k, j, -h)) / (2.0 * h) for j in range(len(numbers(a)))])
        for k, a in enumerate(inputs)
    ]  # fmt: skip


def assert_gradient(program: Program, *inputs: sim.array, tolerance: float = 1e-7) -> list[np.ndarray]:
    """The tape's gradient equals differences; returns it."""
    wanted = differences(program, list(inputs))
    found = gradient(program, list(inputs))
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"input {k}")
    return found
