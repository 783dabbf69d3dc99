"""From the arguments of a launch to a `Call`: checked, flattened, and with the specialisation for their types.

Checking takes longer than a launch may.  So a kernel remembers the specialisation by what is quickly seen of the
arguments (`Kernel.bindings`); only what is new there is looked at in full.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from sim.core.lang.frontend.function import rules
from sim.core.lang.ir.core import walk
from sim.core.lang.references import Reference
from sim.core.lang.types import SCALARS, ArrayType, Homogeneous, HostStruct, Struct, unset_value
from sim.core.runtime.arrays.array import array, indexedarray
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.devices.device import Device, DeviceLike, get_device
from sim.core.runtime.launch.arguments import Argument, argument_type, flatten_argument, shared_argument
from sim.core.runtime.launch.calls import Call, thread_count
from sim.core.runtime.launch.hidden import hidden_arguments
from sim.core.runtime.launch.kernel import Kernel, Specialisation, is_generic
from sim.core.runtime.launch.structures import check_addresses


def as_dims(dim: Any) -> tuple[int, ...]:
    """Launch dimensions from an int or a sequence of up to four; of none, as in Warp, one thread."""
    if type(dim) is int and dim >= 0:
        return (dim,)
    if isinstance(dim, (int, np.integer)):
        dims: tuple[int, ...] = (int(dim),)
    else:
        try:
            dims = tuple(operator.index(d) for d in dim)
        except TypeError:
            raise LaunchError(f"dim is {dim!r}; expected an integer or up to four of them") from None
    if len(dims) > 4 or any(d < 0 for d in dims):
        raise LaunchError(f"dim is {dim!r}; expected at most 4 dimensions, of non-negative integers")
    return dims or (1,)


def argument_label(position: int, n_inputs: int) -> str:
    return f"inputs[{position}]" if position < n_inputs else f"outputs[{position - n_inputs}]"


_SCALAR_KINDS = frozenset((int, float, bool, type(None), *(kind.np.type for kind in SCALARS)))
"""Kinds of arguments that say all of the type that they have in a specialisation."""


@cache
def _of_arrays(kind: Struct) -> bool:
    """Whether every field is an array, or a struct of arrays, so that the struct becomes one parameter per array."""
    fields = kind.fields.values()
    return bool(fields) and all(isinstance(f, ArrayType) or (isinstance(f, Struct) and _of_arrays(f)) for f in fields)


def bind(
    kernel: Kernel, dims: tuple[int, ...], args: list[Argument], n_inputs: int, device: DeviceLike, later: bool = False
) -> Call:
    """Check the arguments, and find the specialisation for their types.  later: None may be set until it runs."""
    target = get_device(device)
    key: list[object] = []
    flat: list[Any] = args
    plain = together = True
    for a in args:
        kind = type(a)
        if kind is array:
            key.append(a.dtype)
            key.append(a.ndim)
            if a.buffer.device is not target:
                together = False
        elif kind in _SCALAR_KINDS:
            key.append(kind)
        else:
            key, flat, plain = _flat_and_seen(args)
            together = False
            break
    spec = kernel.bindings.get(tuple(key)) if plain else None
    if spec is None:
        spec, slow = _bind_slowly(kernel, args, n_inputs)
        if any(a is None for a in slow):
            if later or not thread_count(dims):
                plain = False  # not looked at: the next launch with these types is
            else:
                check_missing(spec, slow)
        # an array that had to take another form would be handed over as it is the next time
        pairs = zip(flat, slow, strict=False)
        as_given = len(flat) == len(slow) and all(not isinstance(a, array) or a is b for a, b in pairs)
        if plain and as_given and not any(isinstance(kind, Reference) for kind in spec.types):
            kernel.bindings[tuple(key)] = spec
        flat = slow
    else:
        captures = spec.captures
        if (captures.live or captures.rules_version != rules.version) and captures.changed():
            spec = kernel.bindings[tuple(key)] = kernel.specialise(spec.types)
    if spec.not_negative and any(flat[k] < 0 for k in spec.not_negative):
        return bind(kernel.of_any_integers(), dims, args, n_inputs, device, later)
    if not spec.dims == len(dims) == 1 or dims[0] > _LARGEST_EXTENT:
        if len(dims) > spec.dims:
            return bind(kernel.in_launches_of(len(dims)), dims, args, n_inputs, device, later)
        dims += (1,) * (spec.dims - len(dims))
        named = device is not None
        check_dims(spec, dims, target if together else _common_device(kernel, flat, target, named))
    if spec.hidden:
        flat, together = [*flat, *hidden_arguments(spec, flat)], False
    if not together:
        target = _common_device(kernel, flat, target, device is not None)
    if spec.addresses:
        check_addresses(spec, flat, target)
    return Call(spec, dims, flat, target)


def _flat_and_seen(args: Sequence[Argument]) -> tuple[list[object], list[Any], bool]:
    """What is quickly seen of arguments, with structs of arrays among them; these taken apart; and whether that says
    all of their types."""
    key: list[object] = []
    flat: list[Any] = []
    plain = True
    for a in args:
        kind = type(a)
        if kind is HostStruct and _of_arrays(a._sim_struct_):
            plain = _see_fields(a, key, flat) and plain
        elif isinstance(a, array):
            key += a.dtype, a.ndim
            flat.append(a)
        else:
            key.append(kind)
            flat.append(a)
            if kind not in _SCALAR_KINDS:
                plain = False
    return key, flat, plain


@cache
def _parts_of(kind: Struct) -> tuple[Callable[[HostStruct], tuple[Any, ...]], int]:
    """What takes a struct of arrays apart: into its type, those of structs in it, so many in all, and the arrays."""
    types, arrays = ["_sim_struct_"], list[str]()

    def add(kind: Struct, path: str) -> None:
        for name, field in kind.fields.items():
            if isinstance(field, Struct):
                types.append(f"{path}{name}._sim_struct_")
                add(field, f"{path}{name}.")
            else:
                arrays.append(path + name)

    add(kind, "")
    return operator.attrgetter(*types, *arrays), len(types)


def _see_fields(value: HostStruct, key: list[object], flat: list[Any]) -> bool:
    """Adds what is quickly seen of a struct of arrays to `key`, and its arrays to `flat`; whether that says all."""
    parts_of, count = _parts_of(value._sim_struct_)
    parts = parts_of(value)
    key += parts[:count]
    plain = True
    for part in parts[count:]:
        if isinstance(part, array):
            key.append(part.dtype)
            key.append(part.ndim)
        else:
            key.append(type(part))
            plain = plain and not isinstance(part, indexedarray)
    flat += parts[count:]
    return plain


def unset(kernel: Kernel, device: DeviceLike) -> Call:
    """A call of no threads: arguments are zero, arrays missing, until they are set.  Raises LaunchError."""
    generic = next((p.name for p in kernel.parameters if is_generic(p.type)), None)
    if generic is not None:
        raise LaunchError(
            f"kernel '{kernel.name}' takes the type of '{generic}' from its argument: record it with"
            " sim.launch(..., record_cmd=True), or take an overload"
        )
    kinds = [p.type for p in kernel.parameters if p.type is not None]
    args = [k(*(0,) * len(k.leaves)) if isinstance(k, Homogeneous) else unset_value(k) for k in kinds]
    spec, flat = _bind_slowly(kernel, args, len(args))
    return Call(spec, (0,) * spec.dims, [*flat, *(None,) * len(spec.hidden)], get_device(device))


def _common_device(kernel: Kernel, flat: FlatArguments, target: Device, named: bool) -> Device:
    """Where the arrays of a launch lie: all on `target` if that was `named`, else on the device of the first."""
    devices = [a.buffer.device for a in flat if isinstance(a, array)]
    if devices and not named:
        target = devices[0]
    for device in devices:
        if device is not target:
            raise LaunchError(
                f"an argument of kernel '{kernel.name}' lies on {device}, the launch is on {target}; use"
                f" a.to('{target}')"
            )
    return target


_LARGEST_EXTENT = 2**31
"""What the int32 of `tid()` counts; a launch on a GPU has fewer threads in all."""


def fitted(spec: Specialisation, dims: tuple[int, ...], device: Device) -> tuple[Specialisation, tuple[int, ...]]:
    """The specialisation for a launch of these dimensions, with an extent for each index that it asks for.

    As in Warp, a kernel that asks for fewer indices than there are dimensions gets the first ones, once for each
    thread, and extents that are not given are 1.  Raises LaunchError.
    """
    if len(dims) > spec.dims:
        spec = spec.kernel.in_launches_of(len(dims)).specialise(spec.types)
    dims += (1,) * (spec.dims - len(dims))
    check_dims(spec, dims, device)
    return spec, dims


def suited(spec: Specialisation, flat: FlatArguments) -> Specialisation:
    """The specialisation for arguments some of which have changed: integers may be negative now."""
    if any(flat[k] < 0 for k in spec.not_negative):
        return spec.kernel.of_any_integers().specialise(spec.types)
    return spec


def check_dims(spec: Specialisation, dims: tuple[int, ...], device: Device) -> None:
    threads = thread_count(dims)
    if max(dims) > _LARGEST_EXTENT and threads:
        asked = {op.attrs["axis"] for op in walk(spec.forward.func.body) if op.name == "tid"}
        axis = next((k for k, n in enumerate(dims) if n > _LARGEST_EXTENT and asked & {k, -1}), None)
        if axis is not None:
            raise LaunchError(
                f"dim={dims}: kernel '{spec.kernel.name}' asks for tid() in dimension {axis}, whose extent {dims[axis]}"
                " is more than 2^31: an index is an int32; launch it in two dimensions"
            )
    if threads >= _LARGEST_EXTENT and not device.is_cpu:
        raise LaunchError(f"dim={dims} is {threads} threads; a launch on a GPU has less than 2^31")


def check_missing(spec: Specialisation, flat: FlatArguments) -> None:
    """Raises LaunchError where every thread would read or write an array that is None: there is no memory.

    Under a condition a kernel may name it; with `set_check_bounds(True)` using it there is an error with its line.
    """
    if not any(flat[k] is None for k in spec.always_used):
        return
    missing = {p: p.name for p, value in zip(spec.func.params, flat, strict=False) if value is None}
    for op in spec.forward.func.body.ops:
        if op.row.memory and op.operands[0] in missing:
            place = f", {op.span}" if op.span else ""
            raise LaunchError(
                f"argument '{missing[op.operands[0]]}' of kernel '{spec.kernel.name}' is None, and every thread uses"
                f" its elements{place}; pass an array"
            )


def _bind_slowly(kernel: Kernel, args: Sequence[Argument], n_inputs: int) -> tuple[Specialisation, list[Any]]:
    parameters = kernel.parameters
    if len(args) > len(parameters):
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(parameters)} arguments ({', '.join(p.name for p in parameters)}), got"
            f" {len(args)}"
        )
    if len(args) < len(parameters):
        missing = ", ".join(f"'{p.name}'" for p in parameters[len(args) :])
        unused = (
            ""
            if all(p.required for p in parameters[len(args) :])
            else "; the defaults of a kernel's parameters are not used: pass every argument"
        )
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(parameters)} arguments, got {len(args)}: {missing} is missing from"
            f" inputs or outputs{unused}"
        )
    args = [shared_argument(kernel, k, a, argument_label(k, n_inputs)) for k, a in enumerate(args)]
    types = tuple(argument_type(kernel, k, a, argument_label(k, n_inputs)) for k, a in enumerate(args))
    flat: list[Any] = []
    for k, (kind, a) in enumerate(zip(types, args, strict=True)):
        flat += flatten_argument(
            kind, a, f"{argument_label(k, n_inputs)} ('{parameters[k].name}') of kernel '{kernel.name}'"
        )
    return kernel.specialise(types), flat
