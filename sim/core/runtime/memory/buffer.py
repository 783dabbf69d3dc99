"""One allocation of memory.  Gradients and the tape's claims belong to a buffer; arrays are views of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, WeakValueDictionary, ref

import numpy as np

from sim.core.lang.types import Type, size_of, uint8
from sim.core.runtime.memory.gradient_owners import CLEAR, GradientOwners, Owner
from sim.core.runtime.memory.spans import Spans, StridedLayout, extent_of

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
_making = Lock()
"""Held by the thread that gives a buffer its gradient: two threads would give it two."""
SPARE = 16  # bytes after the end that a vectorised load of the last vec3 may touch


# columns of an array of two dimensions, as of the points of constraints, up to which code is made for their number
NARROW = 8


def layout_flags_of(is_contiguous: bool, tight: bool, shape: tuple[int, ...]) -> int:
    """What code may rely on of an array, as bits: packed; no spare bytes behind it for a wide load; then its columns if
    few, else 0."""
    columns = shape[1] if is_contiguous and len(shape) == 2 and shape[1] <= NARROW else 0
    return is_contiguous | tight << 1 | columns << 2


_SLOTS = [struct.Struct(f"<{1 + 2 * ndim}q") for ndim in range(8)]


def slots_of(ptr: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Address, shape and strides of an array, as they stand in the argument block of a launch."""
    return _SLOTS[len(shape)].pack(ptr, *shape, *strides)


class Strided(StridedLayout, Protocol):
    """What a device needs to know of an array: the memory, and where its elements lie there."""

    buffer: Buffer


class GradientLink(Protocol):
    """What ties the gradient of a buffer to a tensor of another library."""

    def follow(self, buffer: Buffer) -> None:
        """Let both have the same gradient, whatever the other library has done since.  Raises GradientError where that
        cannot be."""

    def drop(self) -> None:
        """The gradient is forgotten: let the tensor have none."""


class Buffer:
    """One allocation: `nbytes` bytes from `address` on `device`.

    Compared by identity: it is the unit of which the tape keeps versions, and it has at most one gradient, a buffer of
    the same layout, made when first asked for.  Views of one buffer therefore share their gradients as they share
    their values.  `foreign` memory (NumPy, DLPack, a raw pointer) is written by others too; `owner` keeps it alive.
    """

    __slots__ = (
        "address",
        "nbytes",
        "device",
        "_memory",
        "owner",
        "foreign",
        "requires_grad",
        "links",
        "_gradient",
        "gradient_shift",
        "version",
        "epoch",
        "owners",
        "watchers",
        "pinned",
        "_exported",
        "_view",
        "__weakref__",
    )

    def __init__(
        self,
        address: int,
        nbytes: int,
        device: Any,
        memory: np.ndarray | None,
        owner: Any = None,
        foreign: bool = False,
    ) -> None:
        self.address, self.nbytes, self.device = address, nbytes, device
        self._memory, self.owner, self.foreign = memory, owner, foreign
        self.pinned = False  # memory of the CPU that GPUs copy from and to on their own
        self.requires_grad = False
        self.links: tuple[GradientLink, ...] = ()  # tensors of another library that show the gradient too
        self._gradient: Buffer | None = None
        self.owners: GradientOwners | None = None  # (of a gradient) who has left what it holds
        self.watchers: list[ReferenceType[Any]] | None = (
            None  # claims of tapes on the present content; told of writes by `before_write`
        )
        self.version = 0  # counts the writes that the framework made: tells whether derived data is out of date
        self.epoch = 0  # counts other changes of the content: older content put back for a while
        self.gradient_shift = 0  # bytes: the gradient of offset o lies at o + gradient_shift of `gradient`
        self._exported = False
        self._view: ReferenceType[Any] | None = (
            None  # what writable NumPy views of this memory stand on, or `lend` has made, while in use
        )
        _live.add(self)

    @property
    def memory(self) -> np.ndarray:
        """The bytes, where the host can see them: on the CPU."""
        if self._memory is None:
            raise TypeError(f"memory on {self.device} is not host memory")
        return self._memory

    @property
    def gradient(self) -> Buffer | None:
        """The gradient buffer, if there is one.  Raises GradientError where another library has lost sight of it."""
        if self.links and self.requires_grad:
            for link in self.links:
                link.follow(self)
        return self._gradient

    def make_gradient(self) -> Buffer:
        """The gradient buffer, zero when it is made."""
        if self._gradient is None:
            made: Buffer = self.device.allocate(self.nbytes, zero=True)
            made.owners = GradientOwners({CLEAR: made.whole})
            with _making:
                first = self._gradient  # of another thread
                if first is not None:
                    return first
                self.hold_gradient_in(made, 0)
            return made
        return self._gradient

    def hold_gradient_in(self, gradient: Buffer, shift: int) -> None:
        """From now on the gradient of offset o lies at o + shift of `gradient`."""
        self._gradient, self.gradient_shift = gradient, shift
        if gradient.owners is None:
            gradient.owners = GradientOwners()

    def has_gradient_in(self, gradient: Buffer | None, shift: int) -> bool:
        """Whether the gradient lies there."""
        return self._gradient is gradient and self.gradient_shift == shift

    def drop_gradient(self) -> None:
        """Forget the gradient; tensors that are linked keep theirs."""
        self._gradient, self.gradient_shift = None, 0

    @property
    def whole(self) -> Spans:
        """All of it."""
        return Spans(((0, self.nbytes),) if self.nbytes else ())

    def look(self) -> None:
        """(Of a gradient) others can write here from now on: remember what it holds."""
        if self.owners is not None and self.owners.compares and not self.owners.looked:
            self.owners.look(self.device.numpy(ByteRange(self)))

    def compared(self, size: int, first: int) -> GradientOwners:
        """(Of a gradient) the owners, after a look at what others have written.  size: bytes of a number; the first one
        lies at `first`."""
        if self.owners is None:
            self.owners = GradientOwners()
        if self.owners.looked:
            self.owners.compare(self.device.numpy(ByteRange(self)), size, first)
        return self.owners

    def leave(self, owner: Owner, spans: Spans) -> None:
        """(Of a gradient) `owner` has just left what a range holds.  After `compared`."""
        assert self.owners is not None
        self.owners.leave(owner, spans)
        self.owners.forget()
        if self.shared:
            self.look()

    def watch(self, reference: ReferenceType[Any]) -> None:
        """From now on `watcher.before_write(view, writer)` is called before the framework writes here, on what is
        referred to."""
        self.watchers = [*(self.watchers or ()), reference]

    def unwatch(self, reference: ReferenceType[Any]) -> None:
        """The opposite of `watch`."""
        self.watchers = [r for r in self.watchers or () if r is not reference] or None

    @property
    def exported(self) -> bool:
        """Whether NumPy views of this memory were handed out, through which it may have changed unseen."""
        return self._exported or self.foreign

    @property
    def shared(self) -> bool:
        """Whether others can write to this memory now, unseen."""
        if self._view is None or self.foreign:
            return self.foreign
        if self._view() is not None:
            return True
        self._view = None
        self.epoch += 1  # until a moment ago they could
        return False

    def export(self, writable: bool) -> np.ndarray | None:
        """The bytes as a NumPy array, None where the host cannot see them.  Remembered, so that an array made of a view
        of it finds this buffer again."""
        if self._memory is None:
            return None
        if writable:
            self.look()
        self._exported = True
        if not writable:
            _known[id(_root(self.memory)[0])] = self
            return self.memory
        view = self._view() if self._view is not None else None
        if view is None:
            view = np.asarray(_Span(self.address, len(self.memory), self.memory))
            self._view = ref(view)
            _known[id(view)] = self
        return view

    def lend(self) -> Any:
        """What another library keeps for as long as it uses this memory, where NumPy has no view of it."""
        self.look()
        holder = self._view() if self._view is not None else None
        if holder is None:
            holder = _Lent(self)
            self._view, self._exported = ref(holder), True
        return holder

    def share(self) -> None:
        """From now on others may write here at any time."""
        self.look()
        self._exported = self.foreign = True
        if self._memory is not None:
            _known[id(_root(self._memory)[0])] = self

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes{' of foreign memory' if self.foreign else ''} on {self.device})"


class _Lent:
    """Keeps a buffer alive."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


class View:
    """Elements in a buffer: what a device needs to know of an array."""

    def __init__(
        self, buffer: Buffer, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Type
    ) -> None:
        self.buffer, self.offset, self.shape, self.strides, self.dtype = buffer, offset, shape, strides, dtype

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie packed in order."""
        step = size_of(self.dtype)
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != step:
                return 0 in self.shape
            step *= n
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return size_of(self.dtype) * math.prod(self.shape)


def packed_view(device: Any, like: Strided) -> View:
    """Fresh memory on a device for the elements of a view, packed."""
    step, strides = size_of(like.dtype), []
    for n in reversed(like.shape):
        strides.append(step)
        step *= n
    return View(device.allocate(step), 0, like.shape, tuple(reversed(strides)), like.dtype)


class ByteRange(View):
    """Bytes `low` to `high` of a buffer, as a view."""

    def __init__(self, buffer: Buffer, low: int = 0, high: int | None = None) -> None:
        super().__init__(buffer, low, ((buffer.nbytes if high is None else high) - low,), (1,), uint8)

    @property
    def size(self) -> int:
        return self.shape[0]


def is_whole(view: Strided) -> bool:
    """Is it all of its memory?"""
    return view.nbytes == view.buffer.nbytes and extent_of(view) == (0, view.nbytes)


def duplicate(buffer: Buffer, low: int = 0, high: int | None = None) -> Buffer:
    """A copy of bytes of a buffer, in memory of its own on the same device."""
    source = ByteRange(buffer, low, high)
    made: Buffer = buffer.device.allocate(source.size)
    buffer.device.copy(ByteRange(made), source)
    return made


def refill(buffer: Buffer, content: Buffer) -> None:
    """Copies back what `duplicate` has copied from all of a buffer."""
    buffer.device.copy(ByteRange(buffer), ByteRange(content))


def before_write(view: Strided, writer: str) -> None:
    """Tell whoever needs the content of a view that it is about to be overwritten.  Comes before every write."""
    for reference in view.buffer.watchers or ():
        watcher = reference()
        if watcher is None:
            view.buffer.unwatch(reference)
        else:
            watcher.before_write(view, writer)


_known: WeakValueDictionary[int, Buffer] = WeakValueDictionary()
"""Buffers by the identity of a NumPy array that views of them stand on."""
_live: WeakSet[Buffer] = WeakSet()
"""All buffers."""


def find(address: int, nbytes: int, device: Any) -> Buffer | None:
    """The buffer of a device in which these bytes lie.  Raises ValueError if they lie in one only in part."""
    for buffer in list(_live):
        if (
            buffer.device is device
            and nbytes
            and address < buffer.address + buffer.nbytes
            and buffer.address < address + nbytes
        ):
            if _covers(buffer, address, address + nbytes):
                return buffer
            raise ValueError(
                f"{nbytes} bytes at {address:#x} lie only partly in the memory of another array; make the larger one"
                " first"
            )
    return None


def own_memory(nbytes: int, device: Any, make: Callable[[int], np.ndarray]) -> Buffer:
    """Fresh host memory, aligned, with spare bytes at its end, in as many bytes as `make` is asked for."""
    raw = make(nbytes + ALIGNMENT + SPARE)
    address = raw.__array_interface__["data"][0]
    shift = -address % ALIGNMENT
    return Buffer(address + shift, nbytes, device, raw[shift : shift + max(nbytes, 1)])


class _Span:
    """Raw host memory as NumPy sees it."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}


def raw_memory(address: int, nbytes: int, device: Any, owner: Any = None) -> Buffer:
    """Host memory of somebody else, kept alive by `owner`."""
    return Buffer(address, nbytes, device, np.asarray(_Span(address, nbytes, owner)), owner, foreign=True)


def buffer_of(host: np.ndarray, device: Any) -> Buffer:
    """The buffer whose memory `host` is a view of; memory not met before becomes a foreign buffer.

    Two views of one NumPy array give the same buffer, and so does a view of memory that was ours to begin with:
    otherwise the tape could not see that they overlap.
    """
    low, high = _bounds(host)
    root, base = _root(host)
    step: Any = host
    while isinstance(step, np.ndarray):
        found = _known.get(id(step))
        if found is not None and _covers(found, low, high):
            return found
        step = step.base
    inside = getattr(base, "buffer", None)
    if isinstance(inside, Buffer) and _covers(inside, low, high):
        return inside
    if base is not None:  # DLPack and other libraries: the same memory under another object
        for known in list(_known.values()):
            if _covers(known, low, high) and low < high:
                return known
    first, last = _bounds(root)
    if not first <= low <= high <= last:
        first, last, root = low, high, host
    made = raw_memory(first, last - first, device, root)
    _known[id(root)] = made
    return made


def _covers(buffer: Buffer, low: int, high: int) -> bool:
    return buffer.address <= low and high <= buffer.address + buffer.nbytes


def _root(host: np.ndarray) -> tuple[np.ndarray, Any]:
    """The last NumPy array of the chain of bases, and what that one stands on."""
    while isinstance(host.base, np.ndarray):
        host = host.base
    return host, host.base


def _bounds(host: np.ndarray) -> tuple[int, int]:
    """First address and the address after the last."""
    return np.lib.array_utils.byte_bounds(host) if host.size else (address_of(host), address_of(host))


def address_of(host: np.ndarray) -> int:
    return host.__array_interface__["data"][0]
