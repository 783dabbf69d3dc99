"""The gradients of a tape: by array or by struct, and what a backward does to the memory of one (see `seeds`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import ArrayType, HostStruct, Struct, Type, scalar_of, size_of
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.memory.buffer import Buffer, ByteRange, PackedView, Strided, View
from sim.core.runtime.memory.gradient_owners import CLEAR, OTHERS, ZEROED, GradientOwners, Owner
from sim.core.runtime.memory.spans import NOTHING, Spans


class Gradients(dict[array, array]):
    """Gradient by array; `gradients[struct]` has the gradients in place of the arrays, and other fields as they are."""

    def __missing__(self, key: Any) -> Any:
        if not isinstance(key, HostStruct):
            raise KeyError(key)
        kind: Struct = key._sim_struct_
        made = kind()
        for name, held in kind.fields.items():
            part = getattr(key, name)
            if isinstance(held, Struct):
                part = self[part]
            elif isinstance(held, ArrayType):
                part = None if part is None else part.grad
            setattr(made, name, part)
        return made


def emptied(gradient: Buffer, touched: Spans) -> None:
    """As before a backward that has found it clear."""
    for low, high in touched.runs:
        gradient.device.clear(ByteRange(gradient, low, high))
    gradient.leave(CLEAR, touched)


@dataclass(eq=False, slots=True)
class GradientPart:
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
        self._kind, self._size, self._first = numbers_of(self.example)

    def compared(self) -> GradientOwners:
        """The owners, after a look at others' writes."""
        return self.gradient.compared(self._size, self._first)

    def divide(self, order: int, given: bool) -> None:
        """Into seeds, what is consumed by seeds in its place, and results (the rest).  Changes nothing."""
        owners = self.compared()
        self._owners = owners.copy()
        self._untouched = owners.cleared(self.touched)  # nearly always
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
        return views_of(self.gradient, spans, self._kind, self._size)


def views_of(gradient: Buffer, spans: Spans, kind: Type, size: int) -> Iterator[View]:
    """Runs of a gradient, as numbers of this kind and size."""
    for low, high in spans.runs:
        yield PackedView(gradient, low, ((high - low) // size,), (size,), kind)


def numbers_of(a: array) -> tuple[Type, int, int]:
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
