"""Tensors of PyTorch whose memory and gradient arrays share.

PyTorch replaces gradients as it likes (`optimizer.zero_grad()` sets `t.grad` to None), so which tensor holds the
gradient is looked up whenever the gradient of the array is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from sim.core.lang.errors import GradientError, SimError
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.arrays.creation import from_dlpack
from sim.core.runtime.devices.device import get_device
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.gradient_owners import OTHERS, GradientOwners
from sim.core.runtime.memory.host_memory import buffer_of
from sim.core.runtime.memory.spans import Spans

Tensor = Any
"""A tensor of PyTorch, which is an extra: mypy sees no type of it."""
Torch = Any
"""The module `torch`."""


def pytorch() -> Torch:
    """The module.  Raises SimError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise SimError("PyTorch is not installed; install it with `pip install torch`") from None
    return torch


def checked(value: object, torch: Torch, what: str) -> Tensor:
    """A tensor that an array can share memory with.  Raises TypeError for others."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{what} is a {type(value).__name__}; expected a torch.Tensor")
    if value.layout is not torch.strided:
        raise TypeError(f"{what} has the layout {value.layout}; make it dense first: t.to_dense()")
    if value.device.type not in ("cpu", "cuda"):
        raise TypeError(
            f"{what} lies on {value.device}; only tensors on the CPU and on GPUs of NVIDIA are shared: t.cpu()"
        )
    if value.dtype in (torch.bfloat16, torch.complex64, torch.complex128):
        raise TypeError(f"{what} has elements of type {value.dtype}, which no array holds; convert it: t.float()")
    return value


def shared(tensor: Tensor, dtype: Any, torch: Torch) -> array:
    """The memory of a tensor as an array; all on one storage share a buffer, so that tapes see where they overlap."""
    if tensor.device.type == "cuda":
        return from_dlpack(tensor.detach(), dtype)
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    known = buffer_of(whole, get_device("cpu")) if whole.size else None
    made: array = array(tensor.detach().numpy(), dtype=dtype, copy=False, device="cpu")
    assert known is None or made.size == 0 or made.buffer is known
    return made


def as_tensor(a: array, torch: Torch) -> Tensor:
    """The memory of an array as a tensor."""
    return torch.from_numpy(a.numpy()) if a.device.is_cpu else torch.from_dlpack(a)


def link(a: array, tensor: Tensor, torch: Torch, owns: bool, given: Tensor = None) -> None:
    """From now on the gradient of an array and that of a tensor with the same memory are one.

    owns: whether the tensor keeps the array's memory, or is only a view of it that may go.
    given: a tensor that holds the gradient instead of `tensor.grad`.
    """
    a.requires_grad = True
    buffer = a.buffer
    buffer.links = tuple(
        known for known in buffer.links if not (isinstance(known, TensorLink) and known.tensor() is tensor)
    )
    made = TensorLink(a, tensor, torch, owns, given)
    if not owns:
        made.show(tensor, buffer)
    buffer.links = (*buffer.links, made)
    assert a.grad is not None


class TensorLink:
    """See `link`; it is a `GradientLink`."""

    def __init__(self, a: array, tensor: Tensor, torch: Torch, owns: bool, given: Tensor) -> None:
        self.tensor: Callable[[], Tensor] = (lambda: tensor) if owns else ref(tensor)
        self._torch, self._given = torch, given
        self._memory, self._layout = _place(tensor), (a.offset, a.shape, a.strides, a.dtype)
        self._whole = a.nbytes == a.buffer.nbytes and a.is_contiguous
        self._shown: tuple[Any, Any] = (None, None)  # the gradient tensor as it was last, and where it lay
        self._held: tuple[Buffer | None, int] = (None, 0)  # its memory, as the gradient of the buffer

    def follow(self, buffer: Buffer) -> None:
        """See `GradientLink`."""
        tensor = self.tensor()
        if tensor is None:
            buffer.links = tuple(known for known in buffer.links if known is not self)
            return
        if _place(tensor) != self._memory:
            raise GradientError(
                "a tensor whose memory an array shares has got other memory since (`t.data = ...`, `t.resize_`, a"
                " module's `.to(...)`): the array still has the old values",
                hint="call sim.from_torch(t), or sim.to_torch(a), again",
            )
        grad = tensor.grad if self._given is None else self._given
        if grad is None or grad is not self._shown[0] or _place(grad) != self._shown[1]:
            self._adopt(tensor, grad, buffer)
        elif not buffer.has_gradient_in(*self._held):
            self.show(tensor, buffer)

    def _adopt(self, tensor: Tensor, grad: Tensor, buffer: Buffer) -> None:
        """PyTorch has another gradient, or none: let that be the gradient of the buffer."""
        if not self._whole:
            if grad is None and self._shown[0] is None:
                self.show(tensor, buffer)
                return
            raise GradientError(
                "a tensor that is a part of the memory of an array has a gradient that is not part of the array's"
                " (`t.grad = ...`, `optimizer.zero_grad()`)",
                hint=(
                    "keep the one it gets: optimizer.zero_grad(set_to_none=False); or share the whole memory as one"
                    " tensor"
                ),
            )
        if grad is None:
            grad = tensor.grad = self._torch.zeros_like(tensor.detach())
        checked(grad, self._torch, "the gradient")
        if tuple(grad.shape) != tuple(tensor.shape) or grad.dtype != tensor.dtype:
            raise ValueError(
                f"the gradient of a tensor of shape {tuple(tensor.shape)} of {tensor.dtype} has shape"
                f" {tuple(grad.shape)} of {grad.dtype}"
            )
        memory = shared(grad, self._layout[3], self._torch)
        if not memory.is_contiguous:
            raise GradientError(
                "the gradient of a tensor does not lie packed in memory",
                hint="make it so: t.grad = t.grad.contiguous()",
            )
        self._held = memory.buffer, memory.offset - self._layout[0]
        self._shown = grad, _place(grad)
        buffer.hold_gradient_in(*self._held)
        self._unseen(memory.buffer)
        memory.buffer.leave(OTHERS, Spans.of(memory))

    def show(self, tensor: Tensor, buffer: Buffer) -> None:
        """The array has got another gradient: let that be the gradient of the tensor."""
        offset, shape, strides, dtype = self._layout
        gradient = buffer.make_gradient()
        self._held = gradient, buffer.gradient_shift
        if self._given is None:
            view = make_array(gradient, offset + buffer.gradient_shift, shape, strides, dtype)
            tensor.grad = as_tensor(view, self._torch)
            self._shown = tensor.grad, _place(tensor.grad)
            self._unseen(gradient)

    @staticmethod
    def _unseen(gradient: Buffer) -> None:
        """What PyTorch adds up there is no seed: whose the content was before, as of `a.grad = b`, it stays."""
        gradient.owners = gradient.owners or GradientOwners()
        gradient.owners.compares = False
        gradient.owners.forget()

    def drop(self) -> None:
        """See `GradientLink`."""
        tensor = self.tensor()
        if tensor is not None and self._given is None:
            tensor.grad = None
        self._shown, self._held = (None, None), (None, 0)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
