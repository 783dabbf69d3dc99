"""What a backward starts from: the gradients of some arrays, given by the caller or left where they are needed.

A gradient knows, range by range, whose its content is (`GradientOwners`).  For a tape it is

* a *result*, of this tape or of one recorded before: it is put aside, and the new gradient is added to it at the end;
* *left by a later tape*: where this tape writes, the gradient to start from
  (`later.backward(loss); earlier.backward()`);
* *written*, by the user: a seed of a backward without seeds of its own.

Seeds that are given are the only ones.  Where two readings of what `.grad` holds would differ, it is an error.  See
docs/decisions/17-seeds.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import observers
from sim.core.runtime.ambient.stacks import insist
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Strided, duplicate
from sim.core.runtime.memory.gradient_owners import CLEAR, GradientOwners, Owner
from sim.core.runtime.memory.spans import Spans
from sim.core.runtime.tape.footprints import Footprint
from sim.core.runtime.tape.gradients import GradientPart, emptied, numbers_of, views_of

Weights = array | npt.ArrayLike
"""What weighs the elements of an array: an array like it, or host data of its shape and components."""


@dataclass(eq=False)
class Seeds:
    """The arrays that a backward starts from, each with weights; None: it is the loss, with weight one.

    memory: what the tape has to do with, given arrays included; order: when the tape was recorded, counted over all.
    """

    given: list[tuple[array, array | None]]
    memory: Mapping[Buffer, Footprint]
    order: int
    _open: list[GradientPart] = field(default_factory=list)
    _clear: dict[Buffer, Spans] = field(default_factory=dict)
    """What is touched of gradients that hold nothing: of many arrays with few numbers they are nearly all."""

    @classmethod
    def of(
        cls, loss: array | None, grads: Mapping[array, Weights], on_tape: Mapping[Buffer, Footprint], order: int
    ) -> Seeds:
        """Checked.  Raises GradientError."""
        seeds = cls([], on_tape, order)
        if loss is not None:
            if not isinstance(loss, array) or loss.size != 1:
                shape = loss.shape if isinstance(loss, array) else type(loss).__name__
                raise GradientError(
                    f"the loss is {shape}; expected an array with one element",
                    hint="sum it up in a kernel, or pass grads={array: weights}",
                )
            seeds.given.append((loss, None))
        for target, weights in grads.items():
            if not isinstance(target, array):
                raise GradientError(
                    f"backward starts from a {type(target).__name__}",
                    hint="the keys of grads are arrays, as in grads={y: weights}",
                )
            seeds.given.append((target, _weights(target, weights)))
        for target, _ in seeds.given:
            what = "the loss" if target is loss else f"an array of shape {target.shape} that backward starts from"
            if not target.requires_grad:
                raise GradientError(f"{what} does not require a gradient", hint="make it with requires_grad=True")
        if seeds.given and not any(
            target.buffer in on_tape and Spans.of(target) & on_tape[target.buffer].touched for target, _ in seeds.given
        ):
            what = "the loss" if loss is not None else "what backward starts from"
            raise GradientError(
                f"{what} was neither written nor read on this tape",
                hint="compute it inside `with tape:`, or call backward of its tape",
            )
        return seeds

    def gradients(self) -> set[Buffer]:
        """The gradients that a backward changes."""
        return {buffer.gradient or buffer.make_gradient() for buffer in self.memory if buffer.requires_grad}

    def begin(self) -> None:
        """Put aside what is not a seed, and set those that were given.  Raises GradientError, before anything changes,
        where it is not clear what `.grad` holds."""
        parts = self._parts()
        for part in parts.values():
            part.divide(self.order, bool(self.given))
        if not self.given and not any(part.starts for part in parts.values()):
            raise GradientError(
                "backward has nothing to start from",
                hint="pass the loss, or grads={array: weights}, or write to `.grad` of the results before",
            )
        values = [(target, weights, _held(weights, parts)) for target, weights in self.given]
        for part in parts.values():
            part.save()
        self._open = list(parts.values())
        for part in self._open:
            part.put_aside()
        observer = observers.current()
        for target, weights, held in values:
            grad = target.grad
            assert grad is not None
            if held is None:
                grad.device.write(grad, np.ones(()))
            else:
                grad.device.add(grad, held)
            if observer is not None:
                observer.seeded(grad, weights)

    def end(self) -> None:
        """Add what was put aside: what the gradients hold now is a result."""
        for part in self._open:
            part.add()
        owner = Owner(self.order, self.order)
        for part in self._open:
            part.leave(owner)
        for gradient, touched in self._clear.items():
            gradient.leave(owner, touched)
        self._open, self._clear = [], {}

    def abort(self) -> None:
        """The backward broke off: all that it could have changed is as before `begin`."""
        insist([*(part.put_back for part in self._open), *(partial(emptied, *entry) for entry in self._clear.items())])
        self._open, self._clear = [], {}

    def _parts(self) -> dict[Buffer, GradientPart]:
        """By gradient buffer, but for those that hold nothing.  Raises GradientError where two arrays share a gradient
        and one of them is written."""
        parts: dict[Buffer, GradientPart] = {}
        holders = [(b.gradient or b.make_gradient(), b, f) for b, f in self.memory.items() if b.requires_grad]
        self._clear = self._holding_nothing(holders)
        for gradient, buffer, found in holders:
            if gradient in self._clear:
                continue
            touched, written = (
                found.touched.shifted(buffer.gradient_shift),
                found.written.shifted(buffer.gradient_shift),
            )
            part = parts.get(gradient)
            if part is None:
                part = parts[gradient] = GradientPart(gradient, found.example)
            elif touched & part.touched & (written | part.written):
                raise GradientError(
                    f"two arrays on the tape have the same gradient memory, one of shape {found.example.shape}, and the"
                    " tape writes to one of them",
                    hint="give each its own: a.grad = sim.zeros_like(a)",
                )
            part.touched, part.written = part.touched | touched, part.written | written
        for target, weights in self.given:
            grad = target.grad
            assert grad is not None
            part, spans = parts[grad.buffer], Spans.of(grad)
            if weights is None:
                part.replaced |= spans
            else:
                part.given |= spans
            if weights is not None and weights.buffer in parts:
                parts[weights.buffer].named |= Spans.of(weights)
            if weights is not None and weights.buffer is grad.buffer:
                part.replaced |= Spans.of(weights) & spans
        return parts

    def _holding_nothing(self, holders: Sequence[tuple[Buffer, Buffer, Footprint]]) -> dict[Buffer, Spans]:
        """Gradients that are known to be zero where they are touched, belong to one array, and are no seeds."""
        found: dict[Buffer, Spans] = {}
        if observers.current() is not None:
            return found
        named = {a.buffer for target, weights in self.given for a in (target.grad, weights) if a is not None}
        times = Counter(gradient for gradient, _, _ in holders)
        for gradient, buffer, footprint in holders:
            owners = gradient.owners
            if times[gradient] == 1 and gradient not in named and owners is not None and not owners.looked:
                touched = footprint.touched.shifted(buffer.gradient_shift)
                if owners.cleared(touched):
                    found[gradient] = touched
        return found


@contextmanager
def gradients_kept(arrays: Iterable[array]) -> Iterator[None]:
    """Inside the block gradients of the arrays are zero at first; afterwards they and their owners are as before."""
    found = {a.grad.buffer: a for a in arrays if a.grad is not None}
    before: list[tuple[Buffer, Buffer, GradientOwners]] = []
    for gradient, example in found.items():
        owners = gradient.compared(*numbers_of(example)[1:]).copy()
        before.append((gradient, duplicate(gradient, 0, gradient.nbytes), owners))
    try:
        for gradient, _, _ in before:
            gradient.device.clear(ByteRange(gradient))
            gradient.leave(CLEAR, gradient.whole)
        yield
    finally:
        for gradient, content, owners in before:
            gradient.device.copy(ByteRange(gradient), ByteRange(content))
            gradient.owners = owners


def clear(memory: Mapping[Buffer, Footprint], before_write: Callable[[Buffer, Spans], None]) -> None:
    """Clear the gradients of the memory of a tape, and only those: neighbours in the same buffers stay as they are."""
    observer = observers.current()
    for buffer, found in memory.items():
        gradient = buffer.gradient
        if gradient is None or not buffer.requires_grad:  # of some material values alone: see `Model.gradients_of`
            continue
        touched, (kind, size, first) = found.touched.shifted(buffer.gradient_shift), numbers_of(found.example)
        gradient.compared(size, first)
        before_write(gradient, touched)
        for view in views_of(gradient, touched, kind, size):
            view.buffer.device.clear(view)
            if observer is not None:
                observer.overwritten(make_array(gradient, view.offset, view.shape, view.strides, view.dtype))
        gradient.leave(CLEAR, touched)


def _weights(target: array, given: Weights) -> array:
    """The weights of an array as an array like it."""
    weights: array
    if isinstance(given, array):
        weights = given
    else:
        try:
            weights = array(given, dtype=target.dtype, device=target.device)
        except (TypeError, ValueError) as error:
            raise GradientError(
                f"the weights of an array of shape {target.shape} of {target.dtype}: {error}",
                hint="pass an array like it",
            ) from None
    if weights.shape != target.shape or weights.dtype is not target.dtype:
        raise GradientError(
            f"the weights of an array of shape {target.shape} of {target.dtype} are of shape {weights.shape} of"
            f" {weights.dtype}",
            hint="pass an array like it",
        )
    return weights


def _held(weights: array | None, parts: Mapping[Buffer, GradientPart]) -> Strided | None:
    """The present values of weights; a copy where they lie in a gradient about to change.  None: the weight is one."""
    if weights is None:
        return None
    return weights.device.duplicate(weights) if weights.buffer in parts else weights
