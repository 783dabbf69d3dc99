"""Objects that kernels know by a number: where `mesh.id` is an argument, launches pass the arrays of that mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.core.lang.errors import GradientError
from sim.core.lang.frontend.tracing.hidden import HandleKind
from sim.core.lang.types import ArrayType
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.launch.kernel import Specialisation
from sim.core.runtime.launch.structures import all_structures, structure_at


def hidden_arguments(spec: Specialisation, args: FlatArguments) -> Sequence[Any]:
    """What a launch passes for the parameters that its callers do not see; an object of number 0 has nothing in it."""
    found: list[Any] = []
    for source, kind, part in spec.hidden:
        number = int(args[source])
        target = structure_at(number)
        if number and getattr(target, "handle_kind", None) is not kind:
            what = f"that of a {type(target).__name__}" if target is not None else "no id of anything that lives"
            raise LaunchError(
                f"'{spec.names[source]}' of kernel '{spec.kernel.name}' is {number}, {what}; expected the"
                f" `id` of a {kind.name}, which you keep as long as you launch with it"
            )
        nothing = None if isinstance(kind.parts[part], ArrayType) else 0
        found.append(getattr(target, part) if target is not None else nothing)
    return found


def refuse_gradients_by_address(spec: Specialisation) -> None:
    """Raises GradientError where a recorded kernel loads handles, and an object of that kind has arrays with a
    gradient: what is read by address has no derivative."""
    kinds: tuple[HandleKind, ...] = spec.by_address
    for kind in kinds:
        for target in all_structures():
            if getattr(target, "handle_kind", None) is kind and any(a.requires_grad for a in target.memory):
                raise GradientError(
                    f"kernel '{spec.kernel.name}' loads the id of a {kind.name}, and there is one whose arrays have a"
                    " gradient, which cannot go through a loaded id",
                    hint=f"pass the id of the {kind.name} as an argument, or make its arrays without requires_grad",
                )
