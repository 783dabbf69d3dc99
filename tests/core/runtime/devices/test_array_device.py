"""Devices and their backend."""

import copy
import pickle

import numpy as np
import pytest

from sim.core.backends.interp import InterpBackend
from sim.core.lang.errors import SimError
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices import device as devices
from sim.core.runtime.devices.cpu_device import CpuDevice


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "cuda_devices", lambda: [])
    monkeypatch.setattr(devices, "cuda_missing", lambda: "this machine has no NVIDIA driver")


def test_names(no_gpu):
    cpu = devices.get_device()
    assert cpu.name == "cpu" and cpu.is_cpu and not cpu.is_cuda and devices.get_devices() == [cpu]
    assert devices.get_device("cpu") is devices.get_device("auto") is devices.get_device(cpu) is cpu
    assert zeros(1).device is cpu and zeros(1, device="cpu").to("auto").device is cpu
    assert pickle.loads(pickle.dumps(cpu)) is cpu and copy.deepcopy(cpu) is cpu
    devices.init()
    devices.synchronize()
    devices.set_device("cpu")
    with devices.ScopedDevice("cpu") as inside:
        assert inside is cpu is devices.get_device()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda", "'cuda' is not available: this machine has no NVIDIA driver; or use device='cpu'"),
        ("cuda:1", "'cuda:1' is not available"),
        ("cpp", "did you mean 'cpu'"),
        (3, "no device 3"),
    ],
)
def test_unknown_devices(name, message, no_gpu):
    for use in (devices.get_device, devices.set_device, lambda n: zeros(2, device=n), lambda n: array([1], device=n)):
        with pytest.raises(SimError, match=message):
            use(name)
    assert devices.get_device().name == "cpu"


def test_backend_choice(monkeypatch):
    monkeypatch.setenv("SIM_BACKEND", "interp")
    fresh = CpuDevice("cpu")
    assert isinstance(fresh.backend, InterpBackend) and fresh.backend is fresh.backend
    monkeypatch.setenv("SIM_BACKEND", "intrep")
    with pytest.raises(SimError, match="did you mean 'interp'"):
        _ = CpuDevice("cpu").backend
    monkeypatch.delenv("SIM_BACKEND")
    assert CpuDevice("cpu").backend.name == "llvm"


def test_fresh_memory_is_writable_to_its_end():
    for n in (1, 7, 64, 1000):
        buffer = devices.get_device().allocate(n, zero=True)
        assert buffer.nbytes == n and buffer.address % 64 == 0 and not buffer.foreign and not buffer.exported
        assert buffer.memory.ctypes.data == buffer.address and np.count_nonzero(buffer.memory) == 0
        allocated = buffer.memory.base
        assert buffer.address + n + 16 <= allocated.ctypes.data + allocated.nbytes
