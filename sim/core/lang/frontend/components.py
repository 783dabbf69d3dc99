"""Parts of values: `x.name`, `x[i]`, copies with one part replaced, and what a loop goes through."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sim.core.lang.errors import did_you_mean
from sim.core.lang.frontend.builtins import NAMES, fit_or_error
from sim.core.lang.frontend.construct import fit_field
from sim.core.lang.frontend.context import Context
from sim.core.lang.frontend.elsewhere import NUMPY, WARP, instead
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Fields,
    Members,
    Parts,
    Place,
    Range,
    describe,
    is_number,
    is_traced,
    type_of,
    whole,
)
from sim.core.lang.ir.core import Value
from sim.core.lang.types import (
    Homogeneous,
    Matrix,
    Quaternion,
    Scalar,
    Struct,
    Transformation,
    Type,
    Vector,
    quaternion,
    vector,
)

_XYZW = "xyzw"


class Components(Context):
    """Reads and replaces parts of traced values; elements of arrays stay places until they are needed."""

    def items(self, x: Any, node: ast.AST) -> list[Any]:
        """What a loop over a tuple, vector, matrix (rows) or constant range goes through."""
        if isinstance(x, range):
            return list(x)
        if isinstance(x, tuple):
            return list(x)
        if isinstance(x, Range):
            bounds = [whole(k) for k in (x.start, x.stop, x.step)]
            if None not in bounds:
                return list(range(*bounds))  # type: ignore[arg-type]
            raise self.error(node, "this range has to be constant", "use a `for` loop")
        if isinstance(x, Parts):
            return [self.item(x, (k,), node) for k in range(len(x.type))]
        if isinstance(x, ArrayRef):
            raise self.error(node, "a loop over an array", "loop over its indices: `for i in range(len(a))`")
        raise self.error(node, f"{describe(x)} cannot be looped over", "write `for i in range(n)`")

    def attribute(self, x: Any, name: str, node: ast.AST) -> Any:
        """`x.name`."""
        if isinstance(x, (Parts, Place)) and isinstance(x.type, Homogeneous):
            part = _named_part(x.type, name)
            if part is not None:
                return self.part(x, *part)
        if isinstance(x, Place) and isinstance(x.type, Struct) and name in x.type.fields:
            low, _ = x.type.field_leaves(name)
            return Place(x.array, x.index, x.type.fields[name], x.first + low)
        if isinstance(x, Fields) and name in x.values:
            return self.field(x, name, node)
        if isinstance(x, ArrayRef):
            return self._array_attribute(x, name, node)
        if isinstance(x, (Value, Parts, Place)) or is_number(x):
            return self._value_attribute(x, name, node)
        if isinstance(x, Fields):
            raise self.error(
                node,
                f"struct {x.type} has no field '{name}'{did_you_mean(name, x.values)}",
                f"it has {', '.join(x.values)}",
            )
        if isinstance(x, Type) and name == "dtype" and isinstance(x, Scalar):
            return x
        try:
            found = getattr(x, name)
        except AttributeError:
            hint = instead(WARP, name) if isinstance(x, ModuleType) and own_module(x.__name__) else ""
            raise self.error(
                node, f"{describe(x)} has no attribute '{name}'{'' if hint else did_you_mean(name, dir(x))}", hint
            ) from None
        self.captures.attribute(self.frame.function, x, name, found)
        return self.static(found, name, node)

    def field(self, x: Fields, name: str, node: ast.AST) -> Any:
        value = x.values[name]
        if value is None:
            raise self.error(node, f"the array '{name}' of this {x.type} was not set")
        return value

    def _array_attribute(self, x: ArrayRef, name: str, node: ast.AST) -> Any:
        if name == "shape":
            return tuple(self.b.shape(x.array, k) for k in range(len(x.index), len(x.index) + x.ndim))
        if name == "ndim":
            return x.ndim
        if name == "dtype":
            return x.dtype
        if name == "size":
            size = self.b.shape(x.array, len(x.index))
            for k in range(len(x.index) + 1, len(x.index) + x.ndim):
                size = self.b.emit("mul", size, self.b.shape(x.array, k))
            return size
        raise self.error(
            node,
            f"an array has no attribute '{name}' in a kernel{did_you_mean(name, ('shape', 'ndim', 'dtype', 'size'))}",
        )

    def _value_attribute(self, x: Any, name: str, node: ast.AST) -> Any:
        kind = type_of(x, self.real)
        if name == "dtype" and isinstance(kind, (Scalar, Homogeneous)):
            return kind if isinstance(kind, Scalar) else kind.dtype
        if name == "shape" and isinstance(kind, Homogeneous):
            return kind.shape
        known: Sequence[str] = ()
        if isinstance(kind, (Vector, Quaternion)):
            known = _XYZW[: kind.length]
        elif isinstance(kind, Transformation):
            known = ("p", "q")
        elif isinstance(kind, Struct):
            known = list(kind.fields)
        ours = instead(NUMPY, name) or (f"write sim.{name}(...)" if name in NAMES else "")
        hint = "; ".join([*([f"it has {', '.join(known)}"] if known else []), *([ours] if ours else [])])
        raise self.error(node, f"{kind} has no component '{name}'{did_you_mean(name, known)}", hint)

    def part(self, x: Parts | Place, kind: Type, first: int) -> Any:
        """Leaves `first ..` of a composite, as a value of type `kind`."""
        if isinstance(x, Place):
            if x.offset is None:
                return Place(x.array, x.index, kind, x.first + first)
            return Place(x.array, x.index, kind, x.first, self._leaf(x.offset, first), x.extent)
        return x.leaves[first] if isinstance(kind, Scalar) else self.compose(kind, iter(x.leaves[first:]))

    def item(self, x: Any, keys: tuple, node: ast.AST) -> Any:
        """`x[keys]`."""
        for key in keys:
            if not isinstance(x, dict) and isinstance(key, tuple):
                raise self.error(node, "an index is a tuple", "write a[i, j]")
            x = self._one_item(x, key, node)
        return x

    def _one_item(self, x: Any, key: Any, node: ast.AST) -> Any:
        if isinstance(x, ArrayRef):
            index = (*x.index, self.array_index(x, key, node))
            if len(index) < x.array.type.ndim:  # type: ignore[attr-defined]
                return ArrayRef(x.array, index)
            return Place(x.array, index, x.dtype)
        if isinstance(x, (Parts, Place)) and isinstance(x.type, Homogeneous):
            return self._component(x, key, node)
        k = whole(key)
        if isinstance(x, tuple) and k is not None:
            return x[self._position(k, len(x), node, x.what if isinstance(x, Members) else "")]
        if isinstance(x, tuple) and x and isinstance(key, Value):
            return self._choose_item(x, key, node)
        if is_traced(x) or isinstance(x, Place) or is_number(x) or isinstance(key, Value):
            raise self.error(
                node, f"{describe(x)} cannot be indexed", "too many indices?" if isinstance(type_of(x), Scalar) else ""
            )
        try:
            return self.static(x[key], "[...]", node)
        except Exception as problem:
            raise self.error(node, f"{describe(x)}[{key!r}]: {type(problem).__name__}: {problem}") from None

    def array_index(self, x: ArrayRef, key: Any, node: ast.AST) -> Value:
        k = whole(key)
        if k is not None and k < 0:
            name = x.array.name or "a"
            raise self.error(
                node, f"negative array index {k}", f"count from the end with `{name}.shape[{len(x.index)}] - {-k}`"
            )
        if is_number(key) and not isinstance(key, (bool, float)):
            return self.as_value(key, None, node)
        if isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int:
            return key
        raise self.error(
            node,
            f"an array index is an integer, not {describe(key)}",
            "write int(...)" if type_of(key, self.real) else "",
        )

    def _position(self, k: int, size: int, node: ast.AST, what: str = "") -> int:
        if not -size <= k < size:
            raise self.error(node, f"index {k} is outside of 0 .. {size - 1}{': ' if what else ''}{what}")
        return k % size

    def _component(self, x: Parts | Place, key: Any, node: ast.AST) -> Any:
        """Component of a vector, row of a matrix; with an index of the run: a place with a run-time leaf, or a
        choice."""
        kind = x.type
        assert isinstance(kind, Homogeneous)
        stride = kind.cols if isinstance(kind, Matrix) else 1
        inner: Type = vector(kind.cols, kind.dtype) if isinstance(kind, Matrix) else kind.dtype
        count = kind.rows if isinstance(kind, Matrix) else len(kind.leaves)
        k = whole(key)
        if k is not None:
            return self.part(x, inner, self._position(k, count, node) * stride)
        if not (isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int):
            raise self.error(
                node,
                f"a component index is an integer, not {describe(key)}",
                "write int(...)" if type_of(key, self.real) else "",
            )
        if isinstance(x, Place):
            key = self.b.emit("in_bounds", key, count)
            offset = self.b.emit("mul", key, stride) if stride > 1 else key
            if x.offset is not None:
                return Place(x.array, x.index, inner, x.first, self.b.emit("add", x.offset, offset), x.extent)
            return Place(x.array, x.index, inner, x.first, offset, len(kind.leaves))
        rows = [self.part(x, inner, r * stride) for r in range(count)]
        return self._choose_item(tuple(rows), key, node)

    def _choose_item(self, items: tuple, key: Value, node: ast.AST) -> Any:
        """items[key] with an index of the run: a chain of choices.  Outside of 0 .. n - 1, negative ones too, it is the
        last item."""
        kinds = {type_of(i, self.real) for i in items}
        kind = kinds.pop()
        if kinds or not isinstance(kind, (Scalar, Homogeneous)):
            raise self.error(node, "an index of the run into a tuple needs items of one type")
        rows = [self.fit(i, kind) for i in items]
        columns = [[row] if isinstance(row, Value) else list(row.leaves) for row in rows]
        key = self.b.emit("in_bounds", key, len(items))
        out = columns[-1]
        for k in range(len(rows) - 2, -1, -1):
            chosen = self.b.emit("eq", key, k)
            out = [self.b.emit("select", chosen, v, w) for v, w in zip(columns[k], out, strict=True)]
        return self.compose(kind, iter(out))

    def replace(self, x: Any, key: tuple[str, Any], value: Any, node: ast.AST) -> Any:
        """A copy of a local vector, matrix or struct with one component changed."""
        how, what = key
        if isinstance(x, Fields) and how == "attribute":
            if what not in x.values:
                self.attribute(x, what, node)
            return Fields(x.type, {**x.values, what: fit_field(self, x.type, what, value, node)})
        if not isinstance(x, Parts):
            raise self.error(node, f"a component of {describe(x)} cannot be assigned to")
        if how == "attribute":
            found = _named_part(x.type, what)
            if found is None:
                self.attribute(x, what, node)
            assert found is not None
            return self._with_leaves(x, found[0], found[1], value, node)
        return self._replace_item(x, what, value, node)

    def _with_leaves(self, x: Parts, kind: Type, first: int, value: Any, node: ast.AST) -> Parts:
        new = fit_or_error(self, self.load(value), kind, f"a component of {x.type}", node)
        leaves = [new] if isinstance(new, Value) else list(new.leaves)
        return Parts(x.type, (*x.leaves[:first], *leaves, *x.leaves[first + len(leaves) :]))

    def _replace_item(self, x: Parts, keys: tuple, value: Any, node: ast.AST) -> Parts:
        key, rest = keys[0], keys[1:]
        if rest:  # m[i, j] = ...: row i with its component j replaced
            row = self.item(x, (key,), node)
            if not isinstance(row, Parts):
                raise self.error(node, f"{x.type} has one index")
            return self._replace_item(x, (key,), self._replace_item(row, rest, value, node), node)
        old = self._component(x, key, node)
        kind = type_of(old)
        assert kind is not None
        stride = x.type.cols if isinstance(x.type, Matrix) else 1
        count = len(x.leaves) // stride
        k = whole(key)
        if k is not None:
            return self._with_leaves(x, kind, self._position(k, count, node) * stride, value, node)
        new = fit_or_error(self, self.load(value), kind, f"a component of {x.type}", node)
        parts = [new] if isinstance(new, Value) else list(new.leaves)
        leaves = []
        key = self.b.emit("in_bounds", key, count)
        for r in range(count):
            here = self.b.emit("eq", key, r)
            leaves += [self.b.emit("select", here, parts[c], x.leaves[r * stride + c]) for c in range(stride)]
        return Parts(x.type, tuple(leaves))


def _named_part(kind: Homogeneous, name: str) -> tuple[Type, int] | None:
    """Type and first leaf of `.x`, `.y`, ... of a vector or quaternion, `.p`, `.q` of a transform."""
    if isinstance(kind, (Vector, Quaternion)) and len(name) == 1 and name in _XYZW[: kind.length]:
        return kind.dtype, _XYZW.index(name)
    if isinstance(kind, Transformation) and name in ("p", "q"):
        return (vector(3, kind.dtype), 0) if name == "p" else (quaternion(kind.dtype), 3)
    return None
