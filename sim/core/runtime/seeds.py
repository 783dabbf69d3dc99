"""What a backward starts from: the gradients of some arrays, given by the caller or left where they are needed.

A gradient buffer knows whether a backward has left its content (`left_by`): then it is a result, to which the next one adds, and not
a seed.  The exception is a program that is cut into several tapes: `later.backward(loss); earlier.backward()`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import scalar_of, size_of
from sim.core.runtime import shadows
from sim.core.runtime.array import array, make_array
from sim.core.runtime.buffer import Buffer, Strided


@dataclass(eq=False)
class Seeds:
    """The arrays that a backward starts from, each with weights; None: it is the loss, with weight one."""

    given: list[tuple[array, array | None]] = field(default_factory=list)
    _earlier: list[tuple[array, Strided]] = field(default_factory=list)

    @classmethod
    def of(cls, loss: array | None, grads: Mapping[array, Any], on_tape: Mapping[Buffer, array], order: int) -> Seeds:
        """Checked.  on_tape: the memory that the tape has to do with; order: when it was recorded.  Raises GradientError."""
        seeds = cls()
        if loss is not None:
            if not isinstance(loss, array) or loss.size != 1:
                shape = loss.shape if isinstance(loss, array) else type(loss).__name__
                raise GradientError(f"the loss is {shape}; expected an array with one element", hint="sum it up in a kernel, or pass grads={array: weights}")
            seeds.given.append((loss, None))
        for target, weights in grads.items():
            if not isinstance(target, array):
                raise GradientError(f"backward starts from a {type(target).__name__}", hint="the keys of grads are arrays, as in grads={y: weights}")
            seeds.given.append((target, _weights(target, weights)))
        for target, _ in seeds.given:
            what = "the loss" if target is loss else f"an array of shape {target.shape} that backward starts from"
            if not target.requires_grad:
                raise GradientError(f"{what} does not require a gradient", hint="make it with requires_grad=True")
        if seeds.given and not any(target.buffer in on_tape for target, _ in seeds.given):
            what = "the loss" if loss is not None else "what backward starts from"
            raise GradientError(f"{what} was neither written nor read on this tape", hint="compute it inside `with tape:`, or call backward of its tape")
        if not seeds.given and not any(b.gradient is not None and not _is_result(b.gradient, order) for b in on_tape):
            raise GradientError(
                "backward has nothing to start from", hint="pass the loss, or grads={array: weights}, or write to `.grad` of the results before"
            )
        return seeds

    @property
    def buffers(self) -> dict[Buffer, array]:
        """The memory of the arrays that gradients are given for."""
        return {target.buffer: target for target, _ in self.given}

    def plant(self, on_tape: Mapping[Buffer, array], order: int) -> None:
        """Put aside what is not a seed, and set those that were given."""
        gradients = {buffer.gradient for buffer in on_tape}
        values = [(target, weights, _held(target, weights, gradients)) for target, weights in self.given]
        self._put_aside(on_tape, None if self.given else order)
        shadow = shadows.current()
        for target, weights, held in values:
            grad = target.grad
            assert grad is not None
            if weights is None:
                grad.device.write(grad, np.ones(()))
            elif held is not None:
                grad.device.add(grad, held)
            if shadow is not None:
                shadow.seeded(grad, weights)

    def _put_aside(self, on_tape: Mapping[Buffer, array], order: int | None) -> None:
        """What a backward has left must not change how sums round: put it aside until the end.  order: of a tape without seeds of its own."""
        self._earlier.clear()
        shadow = shadows.current()
        for buffer, a in on_tape.items():
            gradient = buffer.gradient
            if gradient is not None and _is_result(gradient, order):
                whole = _elements(gradient, a)
                self._earlier.append((whole, gradient.device.duplicate(whole)))
                gradient.device.clear(whole)
                if shadow is not None and shadow.tracks(gradient):
                    raise GradientError("a second backward in one forward mode: the tangents of the first are still there", hint="call tape.zero() before")

    def end(self, on_tape: Mapping[Buffer, array], order: int) -> None:
        """Add what was put aside."""
        for part, before in self._earlier:
            part.device.add(part, before)
        for buffer in on_tape:
            if buffer.gradient is not None:
                buffer.gradient.left_by = order


def _is_result(gradient: Buffer, order: int | None) -> bool:
    """Whether a backward has left this content.  For a tape without seeds of its own, the `order`-th recorded, that of later tapes is a seed."""
    return gradient.left_by is not None and (order is None or gradient.left_by <= order)


def _weights(target: array, weights: Any) -> array:
    """The weights of an array as an array like it."""
    if not isinstance(weights, array):
        try:
            weights = array(weights, dtype=target.dtype, device=target.device)
        except (TypeError, ValueError) as error:
            raise GradientError(f"the weights of an array of shape {target.shape} of {target.dtype}: {error}", hint="pass an array like it") from None
    if weights.shape != target.shape or weights.dtype is not target.dtype:
        raise GradientError(
            f"the weights of an array of shape {target.shape} of {target.dtype} are of shape {weights.shape} of {weights.dtype}", hint="pass an array like it"
        )
    return weights


def _held(target: array, weights: array | None, gradients: Collection[Buffer | None]) -> Strided | None:
    """The present values of the weights; a copy where clearing `gradients` changes them.  None: they are there already, or are one."""
    grad = target.grad
    assert grad is not None
    if weights is None or (weights.buffer is grad.buffer and weights.offset == grad.offset and grad.buffer.left_by is None):
        return None
    return weights.device.duplicate(weights) if weights.buffer in gradients else weights


def _elements(gradient: Buffer, a: array) -> array:
    """All of a gradient buffer, as elements like those of an array that has its gradient there."""
    kind = scalar_of(a.dtype) or a.dtype
    size = size_of(kind)
    first = a.offset % size
    return make_array(gradient, first, ((gradient.nbytes - first) // size,), (size,), kind)
