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

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.core.lang.errors import GradientError
from sim.core.lang.types import Type, scalar_of, size_of
from sim.core.runtime.ambient import observers
from sim.core.runtime.ambient.stacks import insist
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Strided, View, duplicate
from sim.core.runtime.memory.gradient_owners import CLEAR, OTHERS, ZEROED, GradientOwners, Owner
from sim.core.runtime.memory.spans import NOTHING, Spans
from sim.core.runtime.tape.footprints import Footprint

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
    _open: list[_Part] = field(default_factory=list)

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
        for part in self._open:
            part.leave(Owner(self.order, self.order))
        self._open = []

    def abort(self) -> None:
        """The backward broke off: all that it could have changed is as before `begin`."""
        insist([part.put_back for part in self._open])
        self._open = []

    def _parts(self) -> dict[Buffer, _Part]:
        """By gradient buffer.  Raises GradientError where two arrays share a gradient and one of them is written."""
        parts: dict[Buffer, _Part] = {}
        for buffer, found in self.memory.items():
            if not buffer.requires_grad:
                continue
            gradient = buffer.gradient or buffer.make_gradient()
            touched, written = (
                found.touched.shifted(buffer.gradient_shift),
                found.written.shifted(buffer.gradient_shift),
            )
            part = parts.get(gradient)
            if part is None:
                part = parts[gradient] = _Part(gradient, found.example)
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


@dataclass(eq=False, slots=True)
class _Part:
    """What a backward does to one gradient buffer.

    touched, written: the gradients of what the tape has to do with, and of what it writes.
    given: of the arrays in `grads`; named: what serves as their weights.
    replaced: of the loss, and of arrays whose own gradient is their weight.
    """

    gradient: Buffer
    example: array
    touched: Spans = NOTHING
    written: Spans = NOTHING
    given: Spans = NOTHING
    named: Spans = NOTHING
    replaced: Spans = NOTHING
    starts: bool = False
    _kind: Type = field(init=False)
    _size: int = field(init=False)
    _first: int = field(init=False)
    _owners: GradientOwners = field(default_factory=GradientOwners)
    _untouched: bool = False
    """Whether all of it is known to be zero, and no seed."""
    _seeds: Spans = NOTHING
    _consumed: Spans = NOTHING
    _aside: list[tuple[Owner, View, Strided]] = field(default_factory=list)
    _saved: list[tuple[View, Strided]] = field(default_factory=list)
    _tangent: Callable[[], None] | None = None
    """Puts the tangent of the gradient back."""

    def __post_init__(self) -> None:
        self._kind, self._size, self._first = _numbers(self.example)

    def compared(self) -> GradientOwners:
        """The owners, after a look at others' writes."""
        return self.gradient.compared(self._size, self._first)

    def divide(self, order: int, given: bool) -> None:
        """Into seeds, what is consumed by seeds in its place, and results (the rest).  Changes nothing."""
        owners = self.compared()
        self._owners = owners.copy()
        # nearly always: nobody has written to it since a tape cleared it
        cleared = owners.ranges.get(CLEAR, NOTHING) if len(owners.ranges) == 1 and owners.compares else NOTHING
        self._untouched = not self.touched - cleared
        if self._untouched:
            return
        results, later, mixed, zero = NOTHING, NOTHING, NOTHING, NOTHING
        for owner, spans in owners.ranges.items():
            if owner in self._zeros():
                zero |= spans
            elif owner.newest <= order:
                results |= spans
            elif owner.oldest > order:
                later |= spans
            else:
                mixed |= spans
        user = self.touched - (zero | results | later | mixed)
        later, mixed = later & self.touched, mixed & self.touched
        self._refuse(
            mixed & self.written, "holds a sum of gradients before and after this tape, which writes there",
            "clear it between the two: tape.zero(), or a.grad.zero_()",
        )  # fmt: skip
        if not given:
            self._seeds = user | (later & self.written)
            self.starts = bool((self._seeds | owners.ranges.get(ZEROED, NOTHING)) & self.written)
            return
        self._refuse(
            (user | later) & self.written - (self.given | self.replaced),
            "holds what was written there, or what a later tape has left, and this tape writes to that array: is it a"
            " seed beside those that are given?",
            "clear it before: a.grad.zero_() or tape.zero(); or name it: grads={a: a.grad, ...}; or call backward()"
            " without arguments",
        )
        self._refuse(
            ((user - self.named) | (later - self.written)) & self.given - self.replaced,
            "holds what was written there, or what a later tape has left, and grads= gives other weights: are they to"
            " be added?",
            "clear it before: a.grad.zero_(); or pass the sum as the weights, or the gradient itself: grads={a:"
            " a.grad}",
        )
        self._consumed = (user | later) & (self.replaced | (self.given & self.written))

    def _zeros(self) -> tuple[Owner, ...]:
        """Whose content is known to be zero: others may have added to it where nobody compares."""
        return (CLEAR, ZEROED) if self._owners.compares else ()

    def _refuse(self, spans: Spans, what: str, hint: str) -> None:
        if any(_any(view) for view in self._views(spans)):
            raise GradientError(f"the gradient of an array of shape {self.example.shape} {what}", hint=hint)

    def save(self) -> None:
        """Copy what is there, so that it can be put back.  Changes nothing."""
        observer = observers.current()
        if self._untouched and observer is None:
            return
        content = {
            owner: spans & self.touched for owner, spans in self._owners.ranges.items() if owner not in self._zeros()
        }
        content[OTHERS] = content.get(OTHERS, NOTHING) | (
            self.touched - self._owners.owned()
        )  # what the user has written counts as theirs
        kept, consumed = self._seeds, self._consumed
        for owner, spans in content.items():
            self._saved += [
                (view, view.buffer.device.duplicate(view)) for view in self._views(spans & (kept | consumed))
            ]
            self._aside += [
                (owner, view, view.buffer.device.duplicate(view))
                for view in self._views(spans - kept - consumed)
                if _any(view)
            ]
        if observer is not None:
            if observer.tracks(self.gradient) and (self._aside or consumed):
                raise GradientError(
                    "a second backward in one forward mode: the tangents of the first are still there",
                    hint="call tape.zero() before",
                )
            self._tangent = observer.remembered(self.gradient)

    def put_aside(self) -> None:
        """Clear what is no seed."""
        for view in self._views(self._consumed):
            view.buffer.device.clear(view)
        for _, view, _ in self._aside:
            view.buffer.device.clear(view)

    def add(self) -> None:
        """What was put aside to the new gradient: only now, so that it does not change how sums round."""
        for _, view, copy in self._aside:
            view.buffer.device.add(view, copy)

    def leave(self, owner: Owner) -> None:
        """The gradient is a result of `owner`, and of those whose results it was added to."""
        self.gradient.leave(owner, self.touched)
        sums: dict[Owner, list[tuple[int, int]]] = {}
        for before, view, _ in self._aside:
            sums.setdefault(before.joined(owner), []).append((view.offset, view.offset + view.nbytes))
        for joined, runs in sums.items():
            self.gradient.leave(joined, Spans.union(runs))

    def put_back(self) -> None:
        """As when it was saved."""
        for view in self._views(self.touched):
            view.buffer.device.clear(view)
        for view, copy in [*self._saved, *((view, copy) for _, view, copy in self._aside)]:
            view.buffer.device.copy(view, copy)
        self.gradient.owners = self._owners
        if self._tangent is not None:
            self._tangent()

    def _views(self, spans: Spans) -> Iterator[View]:
        return _views(self.gradient, spans, self._kind, self._size)


def _views(gradient: Buffer, spans: Spans, kind: Type, size: int) -> Iterator[View]:
    """Runs of a gradient, as numbers of this kind and size."""
    for low, high in spans.runs:
        yield View(gradient, low, ((high - low) // size,), (size,), kind)


def _numbers(a: array) -> tuple[Type, int, int]:
    """What the memory of an array consists of: scalars or structs, their size in bytes, where the first begins."""
    kind = scalar_of(a.dtype) or a.dtype
    size = size_of(kind)
    return kind, size, (a.offset + a.buffer.gradient_shift) % size


def _any(view: View) -> bool:
    """Whether a gradient is not zero."""
    return _any_number(view.buffer.device.numpy(view))


def _any_number(host: np.ndarray) -> bool:
    if host.dtype.names:
        return any(_any_number(host[name]) for name in host.dtype.names)
    return host.dtype.kind == "f" and bool(host.any())


@contextmanager
def gradients_kept(arrays: Iterable[array]) -> Iterator[None]:
    """Inside the block gradients of the arrays are zero at first; afterwards they and their owners are as before."""
    found = {a.grad.buffer: a for a in arrays if a.grad is not None}
    before: list[tuple[Buffer, Buffer, GradientOwners]] = []
    for gradient, example in found.items():
        owners = gradient.compared(*_numbers(example)[1:]).copy()
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
        touched, (kind, size, first) = found.touched.shifted(buffer.gradient_shift), _numbers(found.example)
        gradient.compared(size, first)
        before_write(gradient, touched)
        for view in _views(gradient, touched, kind, size):
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


def _held(weights: array | None, parts: Mapping[Buffer, _Part]) -> Strided | None:
    """The present values of weights; a copy where they lie in a gradient about to change.  None: the weight is one."""
    if weights is None:
        return None
    return weights.device.duplicate(weights) if weights.buffer in parts else weights
