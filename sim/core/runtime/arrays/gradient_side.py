"""What an array is to derivatives: whether its memory keeps a gradient, and that as an array."""

from __future__ import annotations

from typing import Any

from sim.core.lang.errors import ArrayError
from sim.core.lang.types import Type
from sim.core.runtime.arrays.operations import describe
from sim.core.runtime.memory.buffer import Buffer, retaining
from sim.core.runtime.memory.elements import differentiable


class GradientSide:
    """The part of `array` that knows of its gradient, which lies in a buffer beside that of the array."""

    __slots__ = ()

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    dtype: Type
    nbytes: int
    is_contiguous: bool
    _grad: Any

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are kept for this memory; shared by all views of it.  Setting False drops the gradient."""
        return self.buffer.requires_grad and differentiable(self.dtype)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not differentiable(self.dtype):
            raise ArrayError(f"an array of {self.dtype} cannot require a gradient; use a floating-point type")
        self.buffer.requires_grad = bool(value)
        if not value:
            self.buffer.drop_gradient()
            retaining.discard(self.buffer)

    @property
    def retain_grad(self) -> bool:
        """Whether a backward leaves the gradient of the last content, although what was there before has another.

        Without it `.grad` is, after a backward, that of the content before all recorded writes: zero, where these have
        written everything.  Raises ValueError when set without `requires_grad`.
        """
        return self.buffer in retaining

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and not self.requires_grad:
            raise ArrayError(f"retain_grad of {describe(self)} without requires_grad: there is no gradient to retain")
        (retaining.add if value else retaining.discard)(self.buffer)

    @property
    def grad(self) -> Any:  # an array or None, which only `requires_grad` tells: checkers would doubt every use
        """The gradient, of the same type and shape (None without `requires_grad`); zero until a backward adds to it,
        and that of integers, which have none, for good.

        Setting an array makes it hold the gradient from now on, what it holds is as if written to the gradient; setting
        None forgets the values.
        """
        buffer = self.buffer
        if not self.requires_grad and (buffer.requires_grad or buffer.gradient is None or differentiable(self.dtype)):
            return None
        gradient = buffer.gradient or buffer.make_gradient()
        cached, offset = self._grad, self.offset + buffer.gradient_shift
        if cached is None or cached.buffer is not gradient or cached.offset != offset:
            cached = self._grad = self._gradient_in(gradient, offset)
        return cached

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            for link in self.buffer.links:
                link.drop()
            self.buffer.drop_gradient()
            return
        if not isinstance(value, GradientSide):
            raise ArrayError(f"a gradient is an array, not {type(value).__name__}; host data: x.grad.assign(values)")
        if value.dtype is not self.dtype or value.shape != self.shape:
            raise ArrayError(f"the gradient of {describe(self)} must have its shape and dtype, got {describe(value)}")
        if self.nbytes != self.buffer.nbytes or not (self.is_contiguous and value.is_contiguous):
            raise ArrayError("a view has no gradient of its own; set it on the whole array, or use x.grad.assign(...)")
        if value.buffer is self.buffer:
            raise ArrayError("an array cannot hold its own gradient")
        if differentiable(self.dtype):
            self.requires_grad = True
        self.buffer.hold_gradient_in(value.buffer, value.offset - self.offset)

    def _gradient_in(self, buffer: Buffer, offset: int) -> Any:
        """The elements at the same places in another buffer."""
        raise NotImplementedError


def ask_for_gradient(made: GradientSide) -> None:
    """Numbers get `requires_grad`; integers, as in Warp, a gradient that is there, and that no tape ever writes."""
    if differentiable(made.dtype):
        made.requires_grad = True
    else:
        made.buffer.make_gradient()
