"""A kernel with its arguments, or a Python function with its inputs, as one thing to run again on changed inputs.

It works on copies of the memory (shared as the originals share it): whoever asks for a derivative keeps the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.references import IndexedReference, Reference
from sim.core.lang.types import ArrayType, Homogeneous, HostStruct, Scalar
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array, indexedarray, make_array
from sim.core.runtime.launch.binding import as_dims, bind
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.memory.buffer import Buffer, duplicate, refill

Argument = Any
"""What a kernel or a Python function takes: an array, a struct, a number, ..."""
Differentiable = Kernel | Callable[..., Any]
"""A kernel, or a Python function that launches some and returns arrays."""
Dim = int | Sequence[int] | None
"""As `dim` of `launch`; None for Python functions."""
Number = int | str
"""Which input or output of a function: its position, or the name of a field of a struct (`s.x`)."""


@dataclass(eq=False)
class Program:
    """Something to differentiate.

    inputs:  (number among the inputs, array) that may be varied, copies of the originals.
    names:   name of each of them, by number.
    execute: runs it on the copies and returns (name, array) of the outputs, always the same number of them.
    output_numbers: numbers of the outputs as the caller counts them (None: in order).
    """

    inputs: list[tuple[Number, array]]
    names: dict[Number, str]
    execute: Callable[[], list[tuple[str, array]]]
    output_numbers: list[Number] | None = None
    _start: dict[Buffer, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.inputs:
            raise GradientError("there is nothing to differentiate by: no input is a floating-point array")

    def keep(self, buffers: Sequence[Buffer]) -> None:
        """Remember the content of memory as the one to start from."""
        self._start.update((b, duplicate(b)) for b in buffers)

    def run(self) -> list[array]:
        """Run from the start content; the outputs."""
        return [a for _, a in self.named()]

    def named(self) -> list[tuple[str, array]]:
        """Run from the start content; (name, array) of the outputs."""
        self._restart()
        return self.execute()

    def _restart(self) -> None:
        for buffer, content in self._start.items():
            refill(buffer, content)

    def at(self, steps: Mapping[Number, np.ndarray]) -> list[array]:
        """Run with some inputs changed by `steps` (number of the input -> change of its components, flat)."""
        self._restart()
        with recording.paused():
            for i, a in self.inputs:
                if i in steps:
                    host = np.array(a.device.numpy(a))
                    host += steps[i].reshape(host.shape).astype(host.dtype)
                    a.device.write(a, host)
            return [a for _, a in self.execute()]


def program_of(function: Differentiable, dim: Dim, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> Program:
    """The program of a kernel or a Python function."""
    if isinstance(function, Kernel):
        if dim is None:
            raise GradientError(f"kernel '{function.name}' needs dim=, as `launch` does")
        call = bind(function, as_dims(dim), [*inputs, *outputs], len(inputs), None)
        return program_of_call(call, len(inputs))
    if not callable(function):
        raise GradientError(f"{function!r} is neither a kernel nor a function")
    if dim is not None and not inputs:
        raise GradientError("a Python function takes its arguments as inputs=[...]; dim= is for kernels")
    copies = Copies(any(isinstance(a, array) and a.requires_grad for a in inputs))
    mine = [copies.of(a) for a in inputs]
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    chosen: list[tuple[Number, array]] = [(k, a) for k, a in enumerate(mine) if plain_float(a) and a.requires_grad]
    labels: dict[Number, str] = {k: names[k] if k < len(names) else f"inputs[{k}]" for k in range(len(mine))}
    made = Program(chosen, labels, lambda: outputs_of(function(*mine)))
    made.keep(copies.buffers)
    return made


def program_of_call(call: Call, n_inputs: int | None = None) -> Program:
    """The program of one launch.  Everything that it reads is an input, everything that it writes an output."""
    copies = Copies(False)
    args = [copies.of(a) for a in call.args]
    mine = Call(call.spec, call.dims, args, call.device)
    names, signature = call.spec.names, call.spec.signature
    position = {
        first: place
        for place, (_, kind, first, _) in enumerate(signature)
        if isinstance(kind, (ArrayType, IndexedReference, Reference))
    }
    number: dict[int, Number] = {k: position.get(k, name) for k, name in enumerate(names)}
    read = [k for k in sorted(call.spec.reads) if plain_float(args[k])]
    written = [k for k in sorted(call.spec.writes) if plain_float(args[k])]

    def execute() -> list[tuple[str, array]]:
        recorder = recording.current()
        if recorder is not None:
            recorder.launch(mine)
        else:
            mine.run()
        return [(names[k], args[k]) for k in written]

    shift = 0 if n_inputs is None else n_inputs
    numbers = [n if isinstance(n, str) else n - shift for n in (number[k] for k in written)]
    made = Program([(number[k], args[k]) for k in read], {number[k]: names[k] for k in read}, execute, numbers)
    made.keep(copies.buffers)
    return made


class Copies:
    """Copies of arrays, of which views of one buffer stay views of one buffer.

    as_given: whether `requires_grad` is copied; else every floating-point array gets it.
    """

    def __init__(self, as_given: bool) -> None:
        self._as_given = as_given
        self._of: dict[Buffer, Buffer] = {}

    @property
    def buffers(self) -> list[Buffer]:
        return list(self._of.values())

    def of(self, value: Argument) -> Argument:
        """The copy of an array, of a struct with arrays; anything else as it is."""
        if isinstance(value, HostStruct):
            return HostStruct(value._sim_struct_, **{k: self.of(getattr(value, k)) for k in value._sim_struct_.fields})
        if isinstance(value, indexedarray):
            return indexedarray(self.of(value.data), [self.of(a) for a in value.where])
        if not isinstance(value, array):
            return value
        buffer = self._of.get(value.buffer)
        if buffer is None:
            buffer = self._of[value.buffer] = duplicate(value.buffer)
        made = make_array(buffer, value.offset, value.shape, value.strides, value.dtype)
        if value.requires_grad or (not self._as_given and plain_float(made)):
            made.requires_grad = True
        return made


def plain_float(a: object) -> bool:
    """Whether it is an array of floating-point scalars, vectors, ... (not of structs)."""
    kind = a.dtype if isinstance(a, array) else None
    scalar = kind if isinstance(kind, Scalar) else kind.dtype if isinstance(kind, Homogeneous) else None
    return scalar is not None and scalar.is_float


def outputs_of(result: object) -> list[tuple[str, array]]:
    """(name, array) of every array that a function has returned, alone, in a tuple, list or dictionary."""
    if isinstance(result, array):
        return [("result", result)]
    parts = (
        result.items()
        if isinstance(result, Mapping)
        else enumerate(result)
        if isinstance(result, (tuple, list))
        else ()
    )
    found = [
        (str(key) if isinstance(result, Mapping) else f"result[{key}]", a) for key, a in parts if isinstance(a, array)
    ]
    if not found:
        raise GradientError(
            f"the function returned {type(result).__name__}",
            hint="return the arrays that it computes: one, a tuple or a dictionary",
        )
    return found
