"""Types and devices of PyTorch and JAX as ours, and ours as theirs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.types import Scalar, as_type
from sim.core.lang.types import from_numpy as scalar_from_numpy
from sim.core.runtime.devices.device import Device, DeviceLike, get_device
from sim.core.runtime.interop.frameworks import jax_module
from sim.core.runtime.interop.tensors import pytorch


def dtype_to_torch(warp_dtype: Any) -> Any:
    """The type of PyTorch for a type of numbers; unsigned ones of more than 8 bits are signed there.

    Raises TypeError for other types.
    """
    name = _scalar(warp_dtype).name
    wide = name.startswith("uint") and name != "uint8"
    return getattr(pytorch(), name[1:] if wide else name)


def dtype_from_torch(torch_dtype: Any) -> Scalar:
    """The type of numbers for one of PyTorch.  Raises TypeError where no array holds such."""
    name = str(torch_dtype).removeprefix("torch.")
    return _named(name, torch_dtype)


def dtype_to_jax(warp_dtype: Any) -> Any:
    """The type of JAX for a type of numbers.  Raises TypeError for other types."""
    name = _scalar(warp_dtype).name
    return getattr(jax_module().numpy, "bool_" if name == "bool" else name)


def dtype_from_jax(jax_dtype: Any) -> Scalar:
    """The type of numbers for one of JAX.  Raises TypeError where no array holds such."""
    return _named(np.dtype(jax_dtype).name, jax_dtype)


def device_to_torch(warp_device: DeviceLike) -> str:
    """The name that PyTorch has for a device: "cpu", "cuda:0"."""
    return get_device(warp_device).name


def device_from_torch(torch_device: Any) -> Device:
    """The device that PyTorch means by a `torch.device`, or by its name.  Raises DeviceError for others."""
    return get_device(str(torch_device))


def device_to_jax(warp_device: DeviceLike) -> Any:
    """The device of JAX that is this one."""
    device = get_device(warp_device)
    return jax_module().devices("cpu")[0] if device.is_cpu else jax_module().devices("cuda")[device.ordinal]


def device_from_jax(jax_device: Any) -> Device:
    """The device that JAX means.  Raises DeviceError for others than CPUs and GPUs of NVIDIA."""
    platform = str(jax_device.platform)
    return get_device(f"cuda:{jax_device.id}" if platform in ("gpu", "cuda") else platform)


def _scalar(dtype: Any) -> Scalar:
    kind = as_type(dtype)
    if not isinstance(kind, Scalar):
        raise TypeError(f"{kind} is no type of numbers")
    return kind


def _named(name: str, given: Any) -> Scalar:
    try:
        return scalar_from_numpy(np.dtype(name))
    except TypeError:
        raise TypeError(f"no array holds numbers of type {given}") from None
