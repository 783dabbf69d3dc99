"""Types and devices of PyTorch and JAX, of which the names are enough."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import sim

NAMES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


@pytest.fixture
def torch(monkeypatch):
    made = SimpleNamespace(**{name: f"torch.{name}" for name in NAMES})
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.fixture
def jax(monkeypatch):
    devices = {"cpu": [SimpleNamespace(platform="cpu", id=0)]}
    made = SimpleNamespace(
        numpy=SimpleNamespace(float32=np.float32, bool_=np.bool_, uint32=np.uint32), devices=devices.get
    )
    monkeypatch.setitem(sys.modules, "jax", made)
    return made


def test_types_of_pytorch(torch):
    for name in NAMES:
        kind = getattr(sim, name)
        assert sim.dtype_to_torch(kind) == f"torch.{name}" and sim.dtype_from_torch(f"torch.{name}") is kind
    assert sim.dtype_to_torch(float) == torch.float32 and sim.dtype_to_torch(int) == torch.int32
    assert sim.dtype_to_torch(sim.uint32) == torch.int32
    with pytest.raises(TypeError, match="complex64"):
        sim.dtype_from_torch("torch.complex64")
    with pytest.raises(TypeError, match="no type of numbers"):
        sim.dtype_to_torch(sim.vec3)


def test_devices_of_pytorch(torch):
    cpu = sim.get_device("cpu")
    assert sim.device_to_torch(cpu) == "cpu" and sim.device_from_torch("cpu") is cpu
    with pytest.raises(sim.DeviceError, match="mps"):
        sim.device_from_torch("mps")


def test_jax(jax):
    assert sim.dtype_to_jax(sim.bool) is np.bool_ and sim.dtype_to_jax(sim.uint32) is np.uint32
    assert sim.dtype_from_jax(np.float32) is sim.float32 and sim.dtype_from_jax("int64") is sim.int64
    assert sim.device_from_jax(sim.device_to_jax("cpu")) is sim.get_device("cpu")
    with pytest.raises(sim.DeviceError):
        sim.device_from_jax(SimpleNamespace(platform="tpu", id=0))
