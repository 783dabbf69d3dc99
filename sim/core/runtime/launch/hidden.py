"""Objects that kernels know by a number: where `mesh.id` is an argument, launches pass the arrays of that mesh."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

from sim.core.lang.frontend.tracing.hidden import HandleKind
from sim.core.lang.types import ArrayType
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.launch.kernel import Specialisation


class Handled(Protocol):
    """An object with a handle: its attributes are the parts of `handle_kind`."""

    @property
    def handle_kind(self) -> HandleKind: ...


_objects: WeakValueDictionary[int, Handled] = WeakValueDictionary()
_free = count(1 << 40, 64)
"""Numbers that nobody writes by accident."""


def new_handle(target: Handled) -> int:
    """A number by which kernels know the object, as long as it lives."""
    number = next(_free)
    _objects[number] = target
    return number


def hidden_arguments(spec: Specialisation, args: FlatArguments) -> Sequence[Any]:
    """What a launch passes for the parameters that its callers do not see; an object of number 0 has nothing in it."""
    found: list[Any] = []
    for source, kind, part in spec.hidden:
        number = int(args[source])
        target = _objects.get(number)
        if number and (target is None or target.handle_kind is not kind):
            what = f"that of a {target.handle_kind.name}" if target is not None else "no id of anything that lives"
            raise LaunchError(
                f"'{spec.func.params[source].name}' of kernel '{spec.kernel.name}' is {number}, {what}; expected the"
                f" `id` of a {kind.name}, which you keep as long as you launch with it"
            )
        nothing = None if isinstance(kind.parts[part], ArrayType) else 0
        found.append(getattr(target, part) if target is not None else nothing)
    return found
