"""Value arguments that lie in memory: where a kernel declares a number and gets an array of one element, it reads that.

So a scalar argument, or a scalar field of a struct argument, can carry a gradient: that of the array.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.core.lang.types import ArrayType, Struct, Type, array_type


class Reference(Type):
    """An argument of type `value` that is passed as an array of one element."""

    def __init__(self, value: Type) -> None:
        self.value = value
        self.name = f"reference[{value.name}]"

    @property
    def array(self) -> ArrayType:
        """What the kernel really gets."""
        return array_type(self.value, 1)


class StructOfReferences(Type):
    """A struct argument some of whose fields are passed as arrays of one element: `fields` says which."""

    def __init__(self, struct: Struct, fields: Mapping[str, Type]) -> None:
        self.struct, self.fields = struct, dict(fields)
        self.name = (
            f"{struct.name}({', '.join(f'{k}: {t.name}' for k, t in fields.items() if t is not struct.fields[k])})"
        )


_interned: dict[tuple[Type, ...], Type] = {}


def reference(value: Type) -> Reference:
    """The one type of references to values of this type."""
    made = _interned.setdefault((value,), Reference(value))
    assert isinstance(made, Reference)
    return made


def struct_of_references(struct: Struct, fields: Mapping[str, Type]) -> StructOfReferences:
    """The one type of this struct with these field types."""
    made = _interned.setdefault((struct, *fields.values()), StructOfReferences(struct, fields))
    assert isinstance(made, StructOfReferences)
    return made
