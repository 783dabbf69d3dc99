"""The `launch` function, and recorded launches."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sim.core.lang.errors import SimError, entry_point, hide_internals
from sim.core.lang.references import Reference
from sim.core.lang.types import ArrayType, Composite, Homogeneous, HostStruct, Scalar, Type
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.profile import open_profiles
from sim.core.runtime.ambient.stacks import anywhere
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.argument_packing import LaunchError, address_of_block, block_of
from sim.core.runtime.devices.device import DeviceLike
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.devices.streams import ScopedStream, Stream
from sim.core.runtime.launch.arguments import Argument, argument_type, flatten_argument
from sim.core.runtime.launch.binding import as_dims, bind, check_missing, fitted, suited, unset
from sim.core.runtime.launch.calls import Call, prepare, thread_count
from sim.core.runtime.launch.hidden import hidden_arguments
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.memory.buffer import Buffer


def launch(
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Stream | None = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> Launch | None:
    """Run a kernel once for every index of `dim` (an int, or up to four of them).

    inputs, outputs: the kernel's arguments in order; the split is for the reader only.
    adjoint: run the adjoint instead: gradients of the outputs become gradients of the inputs, accumulated.  The
        gradient arrays are `adj_inputs` and `adj_outputs` where given (None: the array's own `.grad`); of a number
        that is an argument there is none.
        The arrays must hold the values that they had before the forward launch.
    record_cmd: do not run; return a `Launch`, whose `launch()` does.
    record_tape: False hides the launch from an open tape.
    stream: the one that it runs on, of the device that it is of (None: the present one of `device`).
    Raises LaunchError where the arguments do not fit.  `max_blocks` and `block_dim` are accepted as in Warp.
    """
    try:
        if stream is not None:
            with ScopedStream(stream, sync_enter=False):
                return launch(
                    kernel, dim, inputs, outputs, adj_inputs, adj_outputs, stream.device, None, adjoint, record_tape,
                    record_cmd,
                )  # fmt: skip
        if not isinstance(kernel, Kernel):
            raise LaunchError(f"{kernel!r} is not a kernel; decorate the function with @sim.kernel")
        dims = as_dims(dim)
        if isinstance(inputs, array) or isinstance(outputs, array):
            label = "inputs" if isinstance(inputs, array) else "outputs"
            raise LaunchError(
                f"kernel '{kernel.name}': {label} is an array; expected a list of arguments: {label}=[array]"
            )
        args = [*inputs, *outputs]
        call = bind(kernel, dims, args, len(inputs), device, record_cmd)
        if adjoint:
            for label, given, own in (("adj_inputs", adj_inputs, inputs), ("adj_outputs", adj_outputs, outputs)):
                if len(given) > len(own):
                    raise LaunchError(
                        f"kernel '{kernel.name}': {label} has {len(given)} entries, {label[4:]} has {len(own)}"
                    )
            named = [*adj_inputs, *(None,) * (len(inputs) - len(adj_inputs)), *adj_outputs]
            named += [None] * (len(args) - len(named))
            gradients = named_gradients(call, args, named)
            if record_cmd:
                return Launch._recorded(call, gradients, args)
            call.run_adjoint(all_gradients(call, gradients))
            return None
        if record_cmd:
            return Launch._recorded(call, None, args)
        threads, recorder = thread_count(dims), recording.current()
        if open_profiles and not threads:  # who looks at what runs wants to see that this does not
            open_profiles[-1].add(kernel.name, 0.0, 0)
        if recorder is not None and record_tape:
            recorder.launch(call)
        elif threads:
            call.run()
        return None
    except SimError as problem:
        hide_internals(problem)
        raise


def check_gradient(kernel: Kernel, name: str, kind: Type, value: Argument, given: Argument) -> array:
    """`given`, if it can hold the gradient of the argument `value`."""
    where = f"the adjoint of '{name}' of kernel '{kernel.name}'"
    if isinstance(kind, Reference):
        kind, value, given = kind.array, value.flatten(), given.flatten() if isinstance(given, array) else given
    if not isinstance(kind, ArrayType):
        raise LaunchError(f"{where} is given, but '{name}' is a {kind}; only arrays have a gradient array")
    if not isinstance(value, array):
        raise LaunchError(f"{where} is given, but '{name}' itself is {value!r}")
    if not isinstance(given, array):
        raise LaunchError(f"{where} is a {type(given).__name__}; expected an array like '{name}', or None")
    if given.dtype is not value.dtype or given.shape != value.shape:
        raise LaunchError(f"{where} has shape {given.shape} of {given.dtype}; expected {value.shape} of {value.dtype}")
    if given.device is not value.device:
        raise LaunchError(f"{where} lies on {given.device}, the argument on {value.device}")
    return given


def named_gradients(call: Call, args: Sequence[Argument], named: Sequence[Argument]) -> dict[int, array]:
    """The gradient arrays that are given, by flat parameter number."""
    signature = call.spec.signature
    return {
        first: check_gradient(call.spec.kernel, name, kind, value, given)
        for (name, kind, first, _), value, given in zip(signature, args, named, strict=True)
        if given is not None and not (isinstance(kind, (Scalar, Homogeneous)) and _is_value(given))
    }


def _is_value(given: Argument) -> bool:
    """A number, a vector, ...: Warp's programs give one where the argument is one; nothing could be added to it."""
    return isinstance(given, (int, float, np.generic, Composite))


def all_gradients(call: Call, named: Mapping[int, array | None]) -> dict[int, array | None]:
    """Gradient array by flat parameter number: named, else the array's own now; None where a wanted one is missing."""
    own = {k: a.grad for k, a in enumerate(call.args) if isinstance(a, array) and named.get(k) is None}
    return {**named, **{k: gradient for k, gradient in own.items() if gradient is not None or k in named}}


NUMBER: Any = ctypes.c_int.__base__
"""What the numbers of ctypes have in common."""


def _same(a: Any, b: Any) -> bool:
    """Whether two flat arguments, arrays or numbers, are the same."""
    return a is b or (isinstance(a, np.generic) and a.dtype == b.dtype and a.tobytes() == b.tobytes())


def _fields(x: HostStruct) -> tuple[object, ...] | None:
    """What a struct holds; None where that may change in place."""
    held = tuple(vars(x).values())
    return None if any(isinstance(value, (Composite, HostStruct)) for value in held) else held


@dataclass(frozen=True)
class LaunchBounds:
    """The extents of a launch, in `shape`; `size` threads in all."""

    shape: tuple[int, ...]
    size: int


@lru_cache
def bounds_of(dims: tuple[int, ...]) -> LaunchBounds:
    return LaunchBounds(dims, thread_count(dims))


class Launch:
    """A recorded launch: `launch()` runs it again on the present content of its arrays.  Made by `launch(...,
    record_cmd=True)`, or for a kernel alone: then `set_dim` and `set_param_by_name` say the rest.

    It keeps the code of the kernel as recorded: constants and functions that it captures are not looked up again; the
    fields of a struct are, so that a change of one counts for the next `launch()`.

    In adjoint form gradients go to the named arrays, for arguments without to `.grad` of the argument at that time.
    """

    @entry_point
    def __init__(self, kernel: Kernel, device: DeviceLike = None, *, adjoint: bool = False) -> None:
        self._record(unset(kernel, device), {} if adjoint else None, ())

    @classmethod
    def _recorded(cls, call: Call, gradients: Mapping[int, array] | None, args: Sequence[Argument]) -> Launch:
        made = cls.__new__(cls)
        made._record(call, gradients, args)
        return made

    def _record(self, call: Call, gradients: Mapping[int, array] | None, args: Sequence[Argument]) -> None:
        self._call = call
        self._structs = {k: (x, _fields(x)) for k, x in enumerate(args) if isinstance(x, HostStruct)}
        """The arguments that are structs, by their place, with their fields then."""
        self._looks = bool(self._structs or call.spec.hidden)
        self._gradients: dict[int, array | None] | None = None
        """(In adjoint form) the gradient arrays that were named, by flat number; None: the argument's own."""
        if gradients is not None:
            self._gradients = {**dict.fromkeys(all_gradients(call, gradients)), **gradients}
        self._prepared: tuple[Callable[[], None], tuple[tuple[Buffer, array], ...]] | None = None
        """What runs it at once, and the memory that it writes, once it has run and as long as it stays the same."""
        self._keep: object = None

    @property
    def kernel(self) -> Kernel:
        return self._call.spec.kernel

    @property
    def dim(self) -> tuple[int, ...]:
        return self._call.dims

    @property
    def bounds(self) -> LaunchBounds:
        """Its extents, and how many threads that is."""
        return bounds_of(self._call.dims)

    def record_again(self) -> None:
        """For one who knows that it has run on what its arrays hold, and that what it wrote is there still: the open
        tape records it as a launch that runs now.  Without a tape nothing is to be done."""
        self._look_up()
        recorder, call = recording.current(), self._call
        if recorder is not None:
            recorder.launch(Call(call.spec, call.dims, list(call.args), call.device), done=True)

    def launch(self, stream: Stream | None = None) -> None:
        """Run it, or record it if a tape is open.  stream: on which (None: the present one)."""
        if stream is not None:
            with ScopedStream(stream, sync_enter=False):
                self.launch()
            return
        try:
            self._look_up()
            # The short way (half a microsecond), where nobody takes part: no tape, graph, forward mode or profile is
            # open, and no tape needs what is overwritten.
            if self._prepared is not None and not (
                anywhere and (recording.current() or capturing() is not None or observers.current()) or open_profiles
            ):
                go, written = self._prepared
                for buffer, view in written:
                    if buffer.watchers:
                        break
                    buffer.version += 1
                    if buffer.owners is not None:
                        buffer.owners.written(view)
                else:
                    go()
                    return
            call = self._call
            if any(a is None for a in call.args) and thread_count(call.dims):
                check_missing(call.spec, call.args)
            if self._gradients is not None:
                call.run_adjoint(all_gradients(call, self._gradients))
                return
            recorder = recording.current()
            if recorder is not None:
                recorder.launch(Call(call.spec, call.dims, list(call.args), call.device))
                return
            call.run()
            if self._prepared is None:
                self._prepare()
        except SimError as problem:
            hide_internals(problem)
            raise

    def _look_up(self) -> None:
        """Structs, and objects that the kernel knows by a number, may have got other arrays."""
        if not self._looks:
            return
        self._look_at_fields()
        call = self._call
        if not call.spec.hidden:
            return
        hidden = hidden_arguments(call.spec, call.args)
        args = [*call.args[: -len(hidden)], *hidden]
        if any(a is not b for a, b in zip(args, call.args, strict=True)):
            self._call, self._prepared = Call(call.spec, call.dims, args, call.device), None

    def _prepare(self) -> None:
        call = self._call
        threads = thread_count(call.dims)
        packed, executable = prepare(call.spec.forward, call.device, threads, call.args)
        if executable.sites:
            return
        block = block_of(call.dims, 0, packed)
        views = [call.args[k] for k in call.spec.written if call.args[k] is not None]
        written = tuple({(id(a.buffer), a.slots): (a.buffer, a) for a in views}.values())
        go = call.device.runner(executable, address_of_block(block), threads, call.spec.forward)
        self._prepared, self._keep = (go, written), (block, executable)

    @entry_point
    def set_dim(self, dim: Any) -> None:
        """Change the launch dimensions."""
        call = self._call
        spec, dims = fitted(call.spec, as_dims(dim), call.device)
        self._call, self._prepared = Call(spec, dims, call.args, call.device), None

    @entry_point
    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Change an argument by position; with `adjoint`, the gradient array of that argument (None: its own).

        A gradient array that was named stays, whatever the argument.
        """
        signature = self._call.spec.signature
        if not 0 <= index < len(signature):
            raise LaunchError(f"kernel '{self.kernel.name}' has {len(signature)} arguments; there is no index {index}")
        name, kind, first, count = signature[index]
        if adjoint:
            if self._gradients is None:
                raise LaunchError(
                    "this launch is a forward one; adjoint=True sets the gradient arrays of a launch recorded with"
                    " adjoint=True"
                )
            rest = {k: g for k, g in self._gradients.items() if not first <= k < first + count}
            if value is not None:
                rest[first] = check_gradient(self.kernel, name, kind, self._call.args[first], value)
            self._gradients = dict.fromkeys(all_gradients(self._call, rest)) | rest
            return
        have = argument_type(self.kernel, index, value, f"argument {index}")
        if have is not kind:
            raise LaunchError(
                f"'{name}' of kernel '{self.kernel.name}' was recorded as {kind}, got {have}; record the launch again"
            )
        flat = flatten_argument(kind, value, f"'{name}' of kernel '{self.kernel.name}'")
        args = list(self._call.args)
        args[first : first + count] = flat
        spec = self._call.spec
        if spec.hidden:
            args[-len(spec.hidden) :] = hidden_arguments(spec, args)
        self._call, self._prepared = Call(suited(spec, args), self._call.dims, args, self._call.device), None
        self._structs.pop(index, None)
        if isinstance(value, HostStruct):
            self._structs[index] = (value, _fields(value))
        self._looks = bool(self._structs or spec.hidden)

    def _look_at_fields(self) -> None:
        """The fields of structs may have changed."""
        for index, (value, fields) in tuple(self._structs.items()):
            if fields is not None and all(map(operator.is_, fields, vars(value).values())):
                continue
            name, kind, first, count = self._call.spec.signature[index]
            flat = flatten_argument(kind, value, f"'{name}' of kernel '{self.kernel.name}'")
            if not all(map(_same, flat, self._call.args[first : first + count])):
                self.set_param_at_index(index, value)
            self._structs[index] = (value, _fields(value))

    @entry_point
    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Change an argument by its name in the kernel."""
        names = [entry[0] for entry in self._call.spec.signature]
        if name not in names:
            raise LaunchError(f"kernel '{self.kernel.name}' has no argument '{name}'; it has {', '.join(names)}")
        self.set_param_at_index(names.index(name), value, adjoint)

    def set_param_at_index_from_ctype(self, index: int, value: Any, adjoint: bool = False) -> None:
        """`set_param_at_index` of what `__ctype__()` of an argument returns, or of a number of ctypes."""
        self.set_param_at_index(index, value.value if isinstance(value, NUMBER) else value, adjoint)

    def set_param_by_name_from_ctype(self, name: str, value: Any, adjoint: bool = False) -> None:
        """`set_param_by_name` of the same."""
        self.set_param_by_name(name, value.value if isinstance(value, NUMBER) else value, adjoint)

    def set_params_from_ctypes(self, values: Sequence[Any]) -> None:
        """`set_params` of the same."""
        for k, value in enumerate(values):
            self.set_param_at_index_from_ctype(k, value)

    @entry_point
    def set_params(self, values: Sequence[Any]) -> None:
        """Change all arguments."""
        for k, value in enumerate(values):
            self.set_param_at_index(k, value)
