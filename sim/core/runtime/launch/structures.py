"""Structures that kernels read by address (`peek`): memory that a launch looks at beside its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from sim.core.lang.errors import GradientError
from sim.core.lang.types import uint64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.devices.base_device import Device
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.launch.kernel import Specialisation


class Structure(Protocol):
    """What has an address that kernels are given."""

    device: Device

    @property
    def memory(self) -> Sequence[array]:
        """All arrays that a kernel may read through it."""


_structures: WeakValueDictionary[int, Structure] = WeakValueDictionary()


def add_structure(address: int, structure: Structure) -> None:
    """From here on launches that are given this address are known to read the structure."""
    _structures[address] = structure


def structure_at(address: int) -> Structure | None:
    """The structure of this address, if it lives."""
    return _structures.get(address)


def all_structures() -> list[Structure]:
    """All that live."""
    return list(_structures.values())


def check_addresses(spec: Specialisation, args: FlatArguments, device: Device) -> None:
    """Raises LaunchError for a number that is no address of a structure on this device: a kernel would read there."""
    for k in spec.addresses:
        structure = _structures.get(int(args[k]))
        if structure is None or structure.device is not device:
            lies = "no id, or that of one that is gone" if structure is None else f"one on {structure.device}"
            raise LaunchError(
                f"'{spec.names[k]}' of kernel '{spec.kernel.name}' is {int(args[k])}, which is {lies};"
                f" expected the `id` of a HashGrid or Bvh on {device}, which you keep as long as you launch with it"
            )


def structure_memory(call: Call) -> list[array]:
    """What a launch may read by address: of the structures that it is given, or of all where it loads addresses."""
    given = [int(a) for a, p in zip(call.args, call.spec.func.params, strict=False) if p.type is uint64]
    known = list(_structures.values()) if call.spec.loads_addresses else [_structures.get(a) for a in given]
    return [a for structure in known if structure is not None for a in structure.memory if a.size]


def refuse_elsewhere(call: Call, what: str) -> None:
    """Raises GradientError for a launch on another device than the CPU that reads structures: `what` is done on the
    CPU, on copies of the arguments, and addresses stay those of the device."""
    if call.spec.peeks and not call.device.is_cpu:
        raise GradientError(
            f"launch of '{call.spec.kernel.name}' reads a structure on {call.device}: {what} on the CPU, which cannot",
            hint="let every thread write to elements of its own, as out[tid()], or add with atomic_add",
        )
