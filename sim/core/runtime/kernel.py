"""Kernels: Python functions that are compiled for the types of their arguments when they are first launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, overload

import numpy as np

from sim.core.backends.base import Executable
from sim.core.lang.analysis import varied_values, written_from
from sim.core.lang.captures import Captures, same_calls
from sim.core.lang.errors import SimError, entry_point
from sim.core.lang.frontend import trace_kernel
from sim.core.lang.function import Function, local_annotations
from sim.core.lang.ir import Func, to_text, verify, walk
from sim.core.lang.kernel_adjoint import KernelAdjoint, KernelNeeds, kernel_adjoint, kernel_needs
from sim.core.lang.memoize import compiling
from sim.core.lang.passes import WRITES, dce, inline, promise_exclusive, settle_updates
from sim.core.lang.references import Reference, StructOfReferences, reference, struct_of_references
from sim.core.lang.source import Parameter, caller_locals
from sim.core.lang.types import (
    ArrayType,
    Composite,
    Homogeneous,
    Scalar,
    Struct,
    StructValue,
    Type,
    array_type,
    bool_,
    float32,
    from_numpy,
    int32,
)
from sim.core.runtime.array import array
from sim.core.runtime.buffer import Buffer
from sim.core.runtime.claims import span_of
from sim.core.runtime.device import Device
from sim.core.runtime.interop import differentiable


class LaunchError(SimError, TypeError):
    """A launch whose arguments do not fit the kernel: names the argument and the cure."""


VARIANTS = 8
"""Specialisations that are kept for one choice of argument types, for captured values that come back."""
Aliases = tuple[frozenset[int], ...]
Traits = tuple[int, ...]
"""What is known of each array parameter in order, as bits: `sim.core.runtime.buffer.traits_of`."""


@dataclass(eq=False)
class Compiled:
    """A function of the IR and its executables, by device and by what is known of the arrays.

    source: the same with functions whose derivative is in closed form still called, where it has any.  layout: see `blocks`.
    """

    func: Func
    source: Func | None = None
    layout: Any = None
    executables: dict[tuple[Device, Traits, bool], Executable] = field(default_factory=dict)

    def executable(self, device: Device, traits: Traits, check: bool) -> Executable:
        found = self.executables.get((device, traits, check))
        return found or self._compile(device, traits, check)

    def _compile(self, device: Device, traits: Traits, check: bool) -> Executable:
        with compiling:
            found = self.executables.get((device, traits, check))
            if found is None:
                numbers = [k for k, p in enumerate(self.func.params) if isinstance(p.type, ArrayType)]
                by_number = list(zip(numbers, traits, strict=True))
                known = {
                    "packed": frozenset(k for k, bits in by_number if bits & 1), "tight": frozenset(k for k, bits in by_number if bits & 2),
                    "narrow": {k: bits >> 2 for k, bits in by_number if bits >> 2},
                }
                func = Func(self.func.name, self.func.body, self.func.span, self.func.dims, {**self.func.attrs, **known})
                found = self.executables[device, traits, check] = device.backend.compile(func, check)
            return found


@dataclass(eq=False)
class Specialisation:
    """A kernel for one choice of argument types: its IR, and on demand its adjoints.

    captures: what it has read of Python; once that has `changed`, launches take another one, and tapes keep the one that they recorded.
    source: functions with a derivative in closed form are still calls, so that the adjoint uses that derivative.
    """

    kernel: Kernel
    types: tuple[Type, ...]
    source: Func
    forward: Compiled
    writes: frozenset[int]
    reads: frozenset[int]
    captures: Captures
    written: tuple[int, ...] = ()
    arrays: tuple[int, ...] = field(init=False)
    _reals: tuple[int, ...] = field(init=False)
    _differentiated: dict[tuple[frozenset[int], Aliases], Differentiated] = field(default_factory=dict)
    _reached: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {k: p.type for k, p in enumerate(self.func.params) if isinstance(p.type, ArrayType)}
        self.arrays = tuple(kinds)
        self._reals = tuple(k for k, kind in kinds.items() if kind.dtype is not None and differentiable(kind.dtype))

    @property
    def func(self) -> Func:
        return self.forward.func

    def active(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Numbers of the arguments that are arrays with a gradient."""
        return tuple([k for k in self._reals if (a := args[k]) is not None and a.buffer.requires_grad])

    def aliases(self, args: Sequence[Any]) -> Aliases:
        """Groups of array arguments that overlap in memory, one of them written."""
        given, buffers = [], set()
        for k in self.arrays:
            a = args[k]
            if a is not None:
                given.append(k)
                buffers.add(a.buffer)
        return () if len(buffers) == len(given) else self._overlaps(args, given)

    def _overlaps(self, args: Sequence[Any], given: Sequence[int]) -> Aliases:
        groups: list[frozenset[int]] = []
        by_buffer: dict[Buffer, list[int]] = {}
        for k in given:
            by_buffer.setdefault(args[k].buffer, []).append(k)
        for numbers in by_buffer.values():
            if len(numbers) < 2 or not any(k in self.writes for k in numbers):
                continue
            joined: list[set[int]] = []
            for k in numbers:
                low, high = span_of(args[k])
                touching = [g for g in joined if any(span_of(args[j])[0] < high and low < span_of(args[j])[1] for j in g)]
                merged = {k}.union(*touching)
                joined = [g for g in joined if g not in touching] + [merged]
            groups += [frozenset(g) for g in joined if len(g) > 1 and any(k in self.writes for k in g)]
        return tuple(sorted(groups, key=min))

    def differentiated(self, active: frozenset[int], aliases: Aliases) -> Differentiated:
        """This kernel with gradients of the parameters `active`, where those in one group of `aliases` overlap.  Raises GradientError."""
        found = self._differentiated.get((active, aliases))
        if found is None:
            with compiling:
                found = self._differentiated.get((active, aliases))
                if found is None:
                    found = Differentiated(kernel_needs(self.source, active, aliases), self.writes.union(*aliases))
                    self._differentiated[active, aliases] = found
        return found

    def reached(self, sources: frozenset[int]) -> frozenset[int]:
        """Numbers of the arrays that are written with values that depend on the arrays `sources`, in this launch."""
        found = self._reached.get(sources)
        if found is None:
            params, number = self.func.params, {p: k for k, p in enumerate(self.func.params)}
            found, size = frozenset(), -1
            while size != len(found):
                size = len(found)
                values = varied_values(self.func, {params[k] for k in sources | found})
                found = frozenset(number[array] for array, _ in written_from(self.func, values))
            self._reached[sources] = found
        return found


@dataclass(eq=False)
class Differentiated:
    """What the adjoint of a kernel looks at, and the adjoints, by which arrays are recorded.

    candidates: numbers of arrays that the launch overwrites and whose loads, all outside of loops, the adjoint needs: they could be
    recorded.  race_checks: filled by `sim.core.runtime.races`.
    """

    needs: KernelNeeds
    overwritten: InitVar[frozenset[int]]
    candidates: frozenset[int] = field(init=False)
    race_checks: Any = None
    looked_for_races: bool = False
    _adjoints: dict[frozenset[int], AdjointPair] = field(default_factory=dict)

    def __post_init__(self, overwritten: frozenset[int]) -> None:
        needs = self.needs
        self.candidates = frozenset(k for k, sites in needs.sites.items() if k in overwritten and k not in needs.in_loop and sites)

    def adjoint(self, record: frozenset[int]) -> AdjointPair:
        """The adjoint for which the loads of the arrays `record` are recorded."""
        return self._adjoints.get(record) or self._make(record)

    def _make(self, record: frozenset[int]) -> AdjointPair:
        with compiling:
            found = self._adjoints.get(record)
            if found is None:
                plan = kernel_adjoint(self.needs, record)
                forward = Compiled(settle_updates(dce(inline(plan.forward))), plan.forward) if plan.forward is not None else None
                found = self._adjoints[record] = AdjointPair(plan, Compiled(settle_updates(plan.func), plan.source), forward)
            return found


@dataclass(eq=False)
class AdjointPair:
    """An adjoint and, if it needs records, the forward variant that writes them."""

    plan: KernelAdjoint
    adjoint: Compiled
    forward: Compiled | None


class Kernel:
    """A kernel.  Made by `@kernel`; run by `launch`."""

    def __init__(self, python: Callable[..., Any], name: str | None = None, annotations: dict[str, Any] | None = None, real: Scalar = float32) -> None:
        self.function = Function(python, name, annotations)
        self.name = self.__name__ = self.function.name
        self.__doc__ = python.__doc__
        self.__module__ = python.__module__
        self.real = real
        self.exclusive: frozenset[str] = frozenset()
        """Names of parameters; a promise: no two threads of one launch touch the same element of these arrays, nor does one by
        two different indices; and no two arrays of such a launch overlap."""
        self.race_free = False
        """A promise: the results do not depend on the order of the threads, although they may touch the same elements."""
        self.specialisations: dict[tuple[Type, ...], Specialisation] = {}
        self._earlier: dict[tuple[Type, ...], list[Specialisation]] = {}
        self.bindings: dict[tuple, Specialisation] = {}

    @property
    def parameters(self) -> list[Parameter]:
        """Name, type (None: generic) and default of each argument."""
        return self.function.parameters(self.real)

    @property
    def outdated(self) -> bool:
        """Whether what it has captured is something else since it was traced last."""
        return any(spec.captures.changed() for spec in self.specialisations.values())

    def specialise(self, types: tuple[Type, ...]) -> Specialisation:
        """The kernel for these argument types, traced and verified when first asked for, and again when what it has captured changes."""
        with compiling:
            found = self.specialisations.get(types)
            if found is None or found.captures.changed():
                earlier = self._earlier.setdefault(types, []) if found is not None else []
                back = next((s for s in earlier if not s.captures.changed()), None)
                found = self.specialisations[types] = back or self._trace(types, earlier)
                self._earlier[types] = earlier
            return found

    def _trace(self, types: tuple[Type, ...], earlier: list[Specialisation]) -> Specialisation:
        """A new specialisation; or one of the `earlier` ones, where what has changed makes no difference."""
        source = promise_exclusive(dce(trace_kernel(self.function, types, name=self.name, real=self.real)), self.exclusive)
        text, ops = to_text(source), list(walk(source.body))
        for known in earlier:
            if to_text(known.source) == text and same_calls(list(walk(known.source.body)), ops):
                known.captures = source.captures
                return known
        func = verify(settle_updates(dce(inline(source))))
        number = {p: k for k, p in enumerate(func.params)}
        ops = [op for op in walk(func.body) if op.name in ("load", *WRITES)]
        writes = frozenset(number[op.operands[0]] for op in ops if op.name in WRITES)
        reads = frozenset(number[op.operands[0]] for op in ops if op.name in ("load", "atomic"))
        made = Specialisation(self, types, source, Compiled(func, source), writes, reads, source.captures, tuple(sorted(writes)))
        earlier.insert(0, made)
        del earlier[VARIANTS:]
        return made

    @entry_point
    def __call__(self, *args: Any, **named: Any) -> Any:
        raise LaunchError(f"kernel '{self.name}' cannot be called; use sim.launch({self.name}, dim=..., inputs=[...], outputs=[...])")

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@overload
def kernel(python: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(python: None = None, *, name: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
@entry_point
def kernel(python: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
    """`@kernel`: a function of the kernel language that runs once per thread of a launch.

    Compiled when first launched, for the types of its arguments; its adjoint only when a gradient asks for it.
    """
    unknown = set(options) - {"enable_backward", "module"}
    if unknown:
        raise TypeError(f"@kernel takes no option '{unknown.pop()}'")
    caller = caller_locals(2)

    @entry_point
    def wrap(f: Callable[..., Any]) -> Kernel:
        return Kernel(f, name, local_annotations(f, caller))

    return wrap if python is None else wrap(python)


# ------------------------------------------------------------------------------------------------ arguments
def argument_type(kernel: Kernel, position: int, value: Any, label: str) -> Type:
    """The type that an argument has in the specialisation; raises LaunchError where it does not fit the annotation."""
    parameter = kernel.parameters[position]
    wanted = parameter.type
    where = f"{label} ('{parameter.name}') of kernel '{kernel.name}'"
    if isinstance(value, array):
        have: Type = array_type(value.dtype, value.ndim)
        if wanted is None:
            return have
        if not isinstance(wanted, ArrayType):
            return _referenced(wanted, value, where)
        if wanted.ndim != value.ndim:
            raise LaunchError(f"{where} has {value.ndim} dimensions; expected {wanted.ndim} ({wanted})")
        if wanted.dtype is not None and wanted.dtype is not value.dtype:
            raise LaunchError(f"{where} has elements of type {value.dtype}; expected {wanted.dtype}")
        return have
    if isinstance(wanted, ArrayType):
        if value is None:
            if wanted.dtype is None:
                raise LaunchError(f"{where} is None, and its element type cannot be guessed; annotate the kernel's parameter")
            return wanted
        if isinstance(value, np.ndarray):
            element = wanted.dtype.name.split("<")[0] if wanted.dtype else value.dtype
            raise LaunchError(f"{where} is a NumPy array; pass sim.array(a, dtype=sim.{element}, copy=False), which is zero-copy")
        raise LaunchError(f"{where} is a {type(value).__name__}; expected {wanted}{_how_to_share(value)}")
    if isinstance(value, np.ndarray) and value.ndim and not isinstance(wanted, Homogeneous):
        raise LaunchError(f"{where} is a NumPy array; pass sim.array(a), or a scalar")
    if wanted is not None:
        if isinstance(wanted, Struct) and not (isinstance(value, StructValue) and value._sim_struct_ is wanted):
            raise LaunchError(f"{where} is a {type(value).__name__}; expected struct {wanted}: make one with {wanted.name}()")
        return _struct_type(wanted, value, where) if isinstance(wanted, Struct) else wanted
    return _type_of_value(value, kernel, where)


def _referenced(wanted: Type, value: array, where: str) -> Type:
    """The type of an array that is given where a value is declared: its one element is that value."""
    if value.size != 1 or value.dtype is not wanted:
        raise LaunchError(
            f"{where} is an array of shape {value.shape} of {value.dtype}; expected a value of type {wanted}, "
            "or an array of one such element, which can carry a gradient"
        )
    return reference(wanted)


def _struct_type(kind: Struct, value: StructValue, where: str) -> Type:
    """The type of a struct argument: the struct, or the struct with the fields that are given as arrays of one element."""
    fields: dict[str, Type] = {}
    for key, field_type in kind.fields.items():
        part = getattr(value, key)
        fields[key] = field_type
        if isinstance(field_type, Struct) and isinstance(part, StructValue):
            fields[key] = _struct_type(field_type, part, f"field '{key}' of {where}")
        elif isinstance(part, array) and not isinstance(field_type, ArrayType):
            fields[key] = _referenced(field_type, part, f"field '{key}' of {where}")
    return kind if all(fields[key] is kind.fields[key] for key in fields) else struct_of_references(kind, fields)


def _type_of_value(value: Any, kernel: Kernel, where: str) -> Type:
    if isinstance(value, Composite):
        return value.type
    if isinstance(value, StructValue):
        return _struct_type(value._sim_struct_, value, where)
    if isinstance(value, np.generic):  # before the numbers of Python: np.float64 is a float too
        return from_numpy(value.dtype)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int32
    if isinstance(value, float):
        return kernel.real
    raise LaunchError(f"{where} is a {type(value).__name__}, which a kernel cannot take{_how_to_share(value)}")


def _how_to_share(value: Any) -> str:
    """What to do with an array of another library."""
    if not hasattr(value, "__dlpack__"):
        return ""
    return "; pass sim.from_torch(t), or for gradients call the launches through sim.torch_function" if type(value).__module__.startswith("torch") else (
        "; pass sim.from_dlpack(a), which is zero-copy"
    )


def flatten_argument(kind: Type, value: Any, where: str) -> list[Any]:
    """The values of the flat parameters that one argument becomes: arrays (or None) and Python numbers."""
    if isinstance(kind, ArrayType):
        return [value]
    if isinstance(kind, Reference):
        return [value.flatten()]
    if isinstance(kind, Scalar):
        try:
            if value is None or isinstance(value, (str, bytes)) or (kind.is_int and not hasattr(value, "__index__")):
                raise TypeError  # NumPy would make a NaN of None, and read the text
            if isinstance(value, kind.np.type):
                return [value]
            with np.errstate(over="ignore"):
                made = kind.np.type(value)
            if kind.is_float and np.isinf(made) and not np.isinf(value):
                raise OverflowError
            return [made]
        except (TypeError, ValueError, OverflowError):
            raise LaunchError(f"{where} is {value!r}; expected {kind}") from None
    if isinstance(kind, Homogeneous):
        data = value.data if isinstance(value, Composite) else np.asarray(value)
        if data.size != len(kind.leaves) or data.dtype == object:
            raise LaunchError(f"{where} has {data.size} components; expected {kind}")
        return [kind.dtype.np.type(x) for x in data.ravel()]
    assert isinstance(kind, (Struct, StructOfReferences))
    flat: list[Any] = []
    for key, field_type in kind.fields.items():
        part = getattr(value, key)
        if isinstance(field_type, ArrayType):
            _check_field(field_type, part, f"field '{key}' of {where}")
        flat += flatten_argument(field_type, part, f"field '{key}' of {where}")
    return flat


def _check_field(wanted: ArrayType, value: Any, where: str) -> None:
    if value is None:
        return
    if not isinstance(value, array):
        raise LaunchError(f"{where} is a {type(value).__name__}; expected {wanted}")
    if value.dtype is not wanted.dtype or value.ndim != wanted.ndim:
        raise LaunchError(f"{where} is {array_type(value.dtype, value.ndim)}; expected {wanted}")


def scalar_format(kind: Scalar) -> str:
    """struct format of one 8-byte slot that holds this scalar in its low bytes."""
    codes = {("f", 32): "f4x", ("f", 64): "d", ("b", 8): "?7x"}
    widths = {8: "b7x", 16: "h6x", 32: "i4x", 64: "q"}
    if (kind.kind, kind.bits) in codes:
        return codes[kind.kind, kind.bits]
    code = widths[kind.bits]
    return code.upper()[0] + code[1:] if kind.kind == "u" else code
