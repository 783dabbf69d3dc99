"""Arguments that come in another form than the kernel declares.

Where a kernel declares a number and gets an array of one element, it reads that: so a scalar argument, or a scalar
field of a struct argument, can carry a gradient, that of the array.  And an array that is seen through indices comes as
the array and the indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.core.lang.types import ArrayType, Struct, Type, array_type, as_type


class Reference(Type):
    """An argument of type `value` that is passed as an array of one element."""

    def __init__(self, value: Type) -> None:
        self.value = value
        self.name = f"reference[{value.name}]"

    @property
    def array(self) -> ArrayType:
        """What the kernel really gets."""
        return array_type(self.value, 1)


class IndexedArrayType(ArrayType):
    """What a kernel declares for an array of which it sees chosen elements, or for a whole one."""

    indexed = True

    def __init__(self, dtype: Any, ndim: int) -> None:
        super().__init__(dtype, ndim)
        self.name = f"indexed{self.name}"


class IndexedReference(Type):
    """An argument that is passed as an array, and an array of indices for each dimension where `chosen` is true."""

    def __init__(self, array: ArrayType, chosen: tuple[bool, ...]) -> None:
        self.array, self.chosen = array, chosen
        self.name = f"indexed{array.name}({', '.join('indices' if c else ':' for c in chosen)})"


class RowReference(Type):
    """An argument that is what stands in an array at so many first indices, which are passed too."""

    def __init__(self, array: ArrayType, indices: int) -> None:
        self.array, self.indices = array, indices
        self.name = f"{array.name}[{', '.join(['int'] * indices)}]"


class StructOfReferences(Type):
    """A struct argument some of whose fields are passed in another form: `fields` says which."""

    def __init__(self, struct: Struct, fields: Mapping[str, Type]) -> None:
        self.struct, self.fields = struct, dict(fields)
        self.name = (
            f"{struct.name}({', '.join(f'{k}: {t.name}' for k, t in fields.items() if t is not struct.fields[k])})"
        )


_interned: dict[tuple[Any, ...], Any] = {}


def reference(value: Type) -> Reference:
    """The one type of references to values of this type."""
    made: Reference = _interned.setdefault((value,), Reference(value))
    return made


def indexed_array_type(dtype: Any, ndim: int = 1) -> IndexedArrayType:
    """The one type of arrays of these that are seen through indices."""
    plain = array_type(dtype, ndim)
    if not isinstance(plain, ArrayType):  # left open, or not supported
        return plain
    made: IndexedArrayType = _interned.setdefault(("indexed", plain), IndexedArrayType(plain.dtype, plain.ndim))
    return made


def indexed_reference(array: ArrayType, chosen: tuple[bool, ...]) -> IndexedReference:
    """The one type of such an argument."""
    made: IndexedReference = _interned.setdefault((array, chosen), IndexedReference(array, chosen))
    return made


def struct_of_references(struct: Struct, fields: Mapping[str, Type]) -> StructOfReferences:
    """The one type of this struct with these field types."""
    made: StructOfReferences = _interned.setdefault((struct, *fields.values()), StructOfReferences(struct, fields))
    return made


class ref:  # noqa: N801 as Warp spells it
    """`def grow(x: sim.ref[float]): x += 1.0`: a parameter that a function of the language changes for its caller.

    The argument is a variable, a component, a field of a struct, or an element of an array.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __class_getitem__(cls, value: Any) -> ref:
        return cls(value)

    @property
    def dtype(self) -> Type:
        """The type of what is referred to."""
        return as_type(self.value)

    value_type = dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ref) and other.dtype is self.dtype

    def __hash__(self) -> int:
        return hash((ref, self.dtype))

    def __repr__(self) -> str:
        return f"ref[{self.dtype}]"


def row_reference(array: ArrayType, indices: int) -> RowReference:
    """The type, the same object each time."""
    made: RowReference = _interned.setdefault((array, indices), RowReference(array, indices))
    return made
