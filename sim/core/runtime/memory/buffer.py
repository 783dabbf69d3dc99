"""One allocation of memory, and views of it.  Gradients and what tapes need of its content belong to a buffer."""

from __future__ import annotations

import math
from threading import Lock
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, WeakValueDictionary, ref

import numpy as np

from sim.core.lang.types import Type, size_of, uint8
from sim.core.runtime.ambient.stacks import OpenStack
from sim.core.runtime.memory.gradient_owners import CLEAR, GradientOwners, Owner
from sim.core.runtime.memory.spans import Spans, StridedLayout, extent_of, is_packed, packed_strides

_making = Lock()
"""Held by the thread that gives a buffer its gradient or a watcher: of two at once it would have two, or lose one."""
known: WeakValueDictionary[int, Buffer] = WeakValueDictionary()
"""Buffers by the identity of a NumPy array that views of them stand on: from such a view leads a way back."""
live: WeakSet[Buffer] = WeakSet()
"""All buffers."""

retaining: WeakSet[Buffer] = WeakSet()
"""Buffers whose gradient, as it was with their last content, is there after a backward (`array.retain_grad`)."""


AnyDevice = Any
"""A `Device`, which is defined above this room: it hands out buffers, and copies between them."""
WatcherReference = ReferenceType[Any]
"""To one who has `before_write(view, writer)`."""


class Keeper(Protocol):
    """One who keeps what its thread overwrites, wherever that is."""

    def before_write(self, view: Strided, writer: str) -> None: ...


_somewhere: list[None] = []
keepers = OpenStack[Keeper](_somewhere)
"""Only the innermost is called."""


class Strided(StridedLayout, Protocol):
    """What a device needs to know of an array: the memory, and where its elements lie there."""

    buffer: Buffer


class Operand(Strided, Protocol):
    """What operations on memory know of an array."""

    @property
    def requires_grad(self) -> bool: ...


class GradientLink(Protocol):
    """What ties the gradient of a buffer to a tensor of another library."""

    def follow(self, buffer: Buffer) -> None:
        """Let both have one gradient, whatever the other library did.  Raises GradientError where that cannot be."""

    def drop(self) -> None:
        """The gradient is forgotten: let the tensor have none."""


class Buffer:
    """One allocation: `nbytes` bytes from `address` on `device`.

    Compared by identity: it is the unit of which the tape keeps versions, and it has at most one gradient, a buffer of
    the same layout, made when first asked for.  Views of one buffer therefore share their gradients as they share
    their values.  `foreign` memory (NumPy, DLPack, a raw pointer) is written by others too; `owner` keeps it alive.
    """

    # fmt: off
    __slots__ = (
        "address", "nbytes", "device", "_memory", "owner", "foreign", "requires_grad", "links", "_gradient",
        "gradient_shift", "version", "epoch", "owners", "watchers", "pinned", "pointed", "_exported", "_view",
        "__weakref__",
    )
    # fmt: on

    def __init__(
        self,
        address: int,
        nbytes: int,
        device: AnyDevice,
        memory: np.ndarray | None,
        owner: object = None,
        foreign: bool = False,
    ) -> None:
        self.address, self.nbytes, self.device = address, nbytes, device
        self._memory, self.owner, self.foreign = memory, owner, foreign
        self.pointed: dict[int, Any] = {}  # by identity: arrays that structs in this memory say the place of
        self.pinned = False  # memory of the CPU that GPUs copy from and to on their own
        self.requires_grad = False
        self.links: tuple[GradientLink, ...] = ()  # tensors of another library that show the gradient too
        self._gradient: Buffer | None = None
        self.owners: GradientOwners | None = None  # (of a gradient) who has left what it holds
        # Tapes that need the present content: `before_write` calls them.
        self.watchers: list[WatcherReference] | None = None
        self.version = 0  # counts the writes that the framework made: tells whether derived data is out of date
        self.epoch = 0  # counts other changes of the content: older content put back for a while
        self.gradient_shift = 0  # bytes: the gradient of offset o lies at o + gradient_shift of `gradient`
        self._exported = False
        # What writable NumPy views of this memory stand on, or what `lend` has made, while it is in use.
        self._view: ReferenceType[Any] | None = None
        live.add(self)

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
                first = self._gradient  # another thread may have been faster
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
        """(Of a gradient) the owners, after a look at others' writes.  size: bytes of a number, first at `first`."""
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

    def watch(self, reference: WatcherReference) -> None:
        """From now on the watcher is called before the framework writes here."""
        with _making:
            self.watchers = [*(self.watchers or ()), reference]

    def unwatch(self, reference: WatcherReference) -> None:
        """The opposite of `watch`."""
        with _making:
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
            known[id(numpy_root(self.memory)[0])] = self
            return self.memory
        view = self._view() if self._view is not None else None
        if view is None:
            view = np.asarray(NumpySpan(self.address, len(self.memory), self.memory))
            self._view = ref(view)
            known[id(view)] = self
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
            known[id(numpy_root(self._memory)[0])] = self

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
        return is_packed(self.shape, self.strides, size_of(self.dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return size_of(self.dtype) * math.prod(self.shape)


class PackedView(View):
    """A view whose elements lie packed in order."""

    is_contiguous = True


def packed_view(device: AnyDevice, like: Strided) -> PackedView:
    """Fresh memory on a device for the elements of a view, packed."""
    return packed_at(device.allocate(like.nbytes), 0, like)


def packed_at(buffer: Buffer, offset: int, like: Strided) -> PackedView:
    """Room in a buffer for the elements of a view, packed."""
    strides = like.strides if like.is_contiguous else packed_strides(like.shape, size_of(like.dtype))
    return PackedView(buffer, offset, like.shape, strides, like.dtype)


def rows_of(packed: Strided, first: int, end: int) -> PackedView:
    """Rows `first` to `end - 1` of elements that lie packed."""
    offset = packed.offset + first * packed.strides[0]
    return PackedView(packed.buffer, offset, (end - first, *packed.shape[1:]), packed.strides, packed.dtype)


class ByteRange(PackedView):
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


def heard(buffer: Buffer) -> bool:
    """Whether `before_write` may have somebody to call for this memory."""
    return bool(buffer.watchers or _somewhere)


def before_write(view: Strided, writer: str) -> None:
    """Call whoever needs the content of a view that is about to be overwritten.  Comes before every write."""
    if _somewhere and keepers.entries:
        keepers.entries[-1].before_write(view, writer)
    for reference in view.buffer.watchers or ():
        watcher = reference()
        if watcher is None:
            view.buffer.unwatch(reference)
        else:
            watcher.before_write(view, writer)


class NumpySpan:
    """Raw host memory as NumPy sees it."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}


def numpy_root(host: np.ndarray) -> tuple[np.ndarray, Any]:
    """The last NumPy array of the chain of bases, and what that one stands on."""
    while isinstance(host.base, np.ndarray):
        host = host.base
    return host, host.base
