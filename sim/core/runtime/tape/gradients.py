"""The gradients of a tape, by array or by struct."""

from __future__ import annotations

from typing import Any

from sim.core.lang.types import ArrayType, HostStruct, Struct
from sim.core.runtime.arrays.array import array


class Gradients(dict[array, array]):
    """Gradient by array; `gradients[struct]` has the gradients in place of the arrays, and other fields as they are."""

    def __missing__(self, key: Any) -> Any:
        if not isinstance(key, HostStruct):
            raise KeyError(key)
        kind: Struct = key._sim_struct_
        made = kind()
        for name, field in kind.fields.items():
            part = getattr(key, name)
            if isinstance(field, Struct):
                part = self[part]
            elif isinstance(field, ArrayType):
                part = None if part is None else part.grad
            setattr(made, name, part)
        return made
