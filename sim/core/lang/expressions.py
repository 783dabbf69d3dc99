"""Expressions: syntax trees to traced values."""

from __future__ import annotations

import ast
import builtins as python_builtins
import types as python_types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sim.core.lang import types as language_types
from sim.core.lang.builtins import NAMES, Builtin, fit_or_error
from sim.core.lang.construct import construct, fit_field
from sim.core.lang.context import FLAGS, VALUE, Context, Frame
from sim.core.lang.errors import did_you_mean
from sim.core.lang.function import Function
from sim.core.lang.ir import OPS, Block, Op, Value
from sim.core.lang.operators import BINARY, binary, compare, unary
from sim.core.lang.source import MISSING
from sim.core.lang.traced import ArrayRef, Fields, Parts, Place, Range, Undefined, describe, is_number, is_traced, type_of, whole
from sim.core.lang.types import (
    Homogeneous,
    Matrix,
    Quaternion,
    Scalar,
    Struct,
    Transformation,
    Type,
    Vector,
    bool_,
    int32,
    leaves_of,
    quaternion,
    vector,
)

_XYZW = "xyzw"
_DEEPEST = 48
_PYTHON_TYPES: dict[Any, Type] = {int: int32, bool: bool_}
_TYPE_MAKERS = (language_types.vector, language_types.matrix, language_types.quaternion, language_types.transformation)
_RENAMED = {"asin": "asin_unclamped", "acos": "acos_unclamped"}  # until the library registers its clamped ones
REFUSED_EXPRESSIONS: dict[type, tuple[str, str]] = {
    ast.Lambda: ("lambda", "write a function with @sim.func"),
    ast.Dict: ("a dictionary", "use a @sim.struct, or constants outside of the kernel"),
    ast.Set: ("a set", "use a tuple"),
    ast.DictComp: ("a dictionary comprehension", "use a loop"),
    ast.SetComp: ("a set comprehension", "use a loop"),
    ast.GeneratorExp: ("a generator expression", "use a loop"),
    ast.JoinedStr: ("an f-string", 'write print("x =", x)'),
    ast.NamedExpr: ("an assignment inside of an expression (:=)", "assign on a line of its own"),
    ast.Starred: ("a starred expression", "write the items one by one"),
    ast.Await: ("await", "kernels run in parallel by themselves"),
    ast.Yield: ("yield", "return values, or write them to an array"),
    ast.YieldFrom: ("yield from", "return values, or write them to an array"),
    ast.Slice: ("a slice", "use a loop, or slice the array before the launch"),
}


class Expressions(Context):
    """Evaluates expressions.  `lazy` leaves array elements as places; `eval` loads them."""

    def eval(self, node: ast.expr) -> Any:
        return self.load(self.lazy(node))

    def lazy(self, node: ast.expr) -> Any:
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            what, hint = REFUSED_EXPRESSIONS.get(type(node), (type(node).__name__, ""))
            raise self.error(node, f"{what} cannot be used in a kernel", hint)
        return method(self, node)

    # -- names
    def on_name(self, node: ast.Name) -> Any:
        x = self.env.get(node.id, MISSING)
        if x is MISSING:
            return self.outside(node.id, node)
        if isinstance(x, Undefined):
            raise self.error(node, f"`{node.id}` {x.why}", "give it a value before, on every path")
        return x

    def outside(self, name: str, node: ast.AST) -> Any:
        """A name of the closure, the module or Python."""
        function = self.frame.function
        if name in function.python.__code__.co_varnames:
            raise self.error(node, f"`{name}` is used before it has a value", "assign it first")
        x = function.scope.find(name)
        if x is MISSING:
            near = did_you_mean(name, [*(k for k in self.env if not k.startswith("$")), *function.scope.names()])
            hint = f"the language has it as sim.{name}" if name in NAMES else ""
            raise self.error(node, f"`{name}` is not defined{near}", hint)
        return self.static(x, name, node)

    # -- simple nodes
    def on_constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (bool, int, float, str)) or node.value is None:
            return node.value
        raise self.error(node, f"a constant of type {type(node.value).__name__} cannot be used in a kernel")

    def on_tuple(self, node: ast.Tuple | ast.List) -> tuple:
        return tuple(self.eval(e) for e in node.elts)

    def on_binary(self, node: ast.BinOp) -> Any:
        op, sign = BINARY[type(node.op)]
        return self.binary(op, sign, self.eval(node.left), self.eval(node.right), node)

    def binary(self, op: str, sign: str, a: Any, b: Any, node: ast.AST) -> Any:
        self.at(node)
        return binary(self, op, sign, a, b, node)

    def on_unary(self, node: ast.UnaryOp) -> Any:
        return unary(self, node.op, self.eval(node.operand), node)

    def on_compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        out: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            self.at(node)
            out = self.both(out, compare(self, op, left, right, node))
            left = right
        return out

    def both(self, a: Any, b: Any) -> Any:
        """a and b, of conditions already evaluated."""
        if isinstance(a, Value) and isinstance(b, Value):
            return self.b.emit("and", a, b)
        known, other = (b, a) if isinstance(a, Value) else (a, b)
        return other if known else False

    def on_logic(self, node: ast.BoolOp) -> Any:
        conjunction = isinstance(node.op, ast.And)
        left = self.logical(self.eval(node.values[0]), node.values[0])
        for right in node.values[1:]:
            left = self.short(conjunction, left, partial(self._test, right), node)
        return left

    def _test(self, node: ast.expr) -> Any:
        return self.logical(self.eval(node), node)

    def short(self, conjunction: bool, left: Any, right: Callable[[], Any], node: ast.AST) -> Any:
        """`left and right()` (or `or`), where the right side must not be evaluated if the left decides."""
        if not isinstance(left, Value):
            return right() if bool(left) is conjunction else left
        found: list[Any] = []
        before = dict(self.env)
        block = self.b.region((), lambda: found.append(right()))
        if any(self.env.get(name) is not value for name, value in before.items()):
            raise self.error(node, "the right side of `and` or `or` changes a variable", "do that on a line of its own, before")
        known = found[0]
        if not isinstance(known, Value):
            return left if known is conjunction else known
        if harmless(block):
            self.b.blocks[-1].ops.extend(block.ops)
            return self.b.emit("and" if conjunction else "or", left, known)
        block.yields = [known]
        other = self.b.region((), lambda: [self.b.const(not conjunction, bool_)])
        regions = [block, other] if conjunction else [other, block]
        return self.b.append(Op("if", [left], [Value(bool_)], {}, regions)).results[0]

    def on_ternary(self, node: ast.IfExp) -> Any:
        return self.choose(node.test, node.body, node.orelse, node)

    def on_comprehension(self, node: ast.ListComp) -> tuple:
        """Over constants only: unrolled into a tuple."""
        generator = node.generators[0]
        if len(node.generators) > 1:
            raise self.error(node, "a list comprehension with several `for`", "use loops")
        items = self.items(self.eval(generator.iter), generator.iter)
        names = [n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)]
        kept = {name: self.env.get(name, MISSING) for name in names}
        out = []
        for item in items:
            self.assign(generator.target, item)
            tests = [self.logical(self.eval(test), test) for test in generator.ifs]
            if any(isinstance(c, Value) for c in tests):
                raise self.error(node, "a condition in a list comprehension has to be constant", "use a loop")
            if all(tests):
                out.append(self.eval(node.elt))
        for name, value in kept.items():
            if value is MISSING:
                self.env.pop(name, None)
            else:
                self.env[name] = value
        return tuple(out)

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

    # -- attributes
    def on_attribute(self, node: ast.Attribute) -> Any:
        base = self.lazy(node.value)
        self.at(node)
        return self.attribute(base, node.attr, node)

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
            raise self.error(node, f"struct {x.type} has no field '{name}'{did_you_mean(name, x.values)}", f"it has {', '.join(x.values)}")
        if isinstance(x, Type) and name == "dtype" and isinstance(x, Scalar):
            return x
        try:
            return self.static(getattr(x, name), name, node)
        except AttributeError:
            raise self.error(node, f"{describe(x)} has no attribute '{name}'{did_you_mean(name, dir(x))}") from None

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
        raise self.error(node, f"an array has no attribute '{name}' in a kernel{did_you_mean(name, ('shape', 'ndim', 'dtype', 'size'))}")

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
        hint = f"it has {', '.join(known)}" if known else f"write sim.{name}(...)" if name in NAMES else ""
        raise self.error(node, f"{kind} has no component '{name}'{did_you_mean(name, known)}", hint)

    def part(self, x: Parts | Place, kind: Type, first: int) -> Any:
        """Leaves `first ..` of a composite, as a value of type `kind`."""
        count = len(leaves_of(kind))
        if isinstance(x, Place):
            if x.offset is None:
                return Place(x.array, x.index, kind, x.first + first)
            return Place(x.array, x.index, kind, x.first, self._leaf(x.offset, first), x.extent)
        return self.compose(kind, iter(x.leaves[first : first + count]))

    # -- subscripts
    def on_subscript(self, node: ast.Subscript) -> Any:
        base = self.lazy(node.value)
        keys = self.keys(node.slice)
        self.at(node)
        return self.item(base, keys, node)

    def keys(self, node: ast.expr) -> tuple:
        """The indices between brackets."""
        return tuple(self.eval(e) for e in node.elts) if isinstance(node, ast.Tuple) else (self.eval(node),)

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
            return x[self._position(k, len(x), node)]
        if isinstance(x, tuple) and x and isinstance(key, Value):
            return self._choose_item(x, key, node)
        if is_traced(x) or isinstance(x, Place) or is_number(x) or isinstance(key, Value):
            raise self.error(node, f"{describe(x)} cannot be indexed", "too many indices?" if isinstance(type_of(x), Scalar) else "")
        try:
            return self.static(x[key], "[...]", node)
        except Exception as problem:
            raise self.error(node, f"{describe(x)}[{key!r}]: {type(problem).__name__}: {problem}") from None

    def array_index(self, x: ArrayRef, key: Any, node: ast.AST) -> Value:
        k = whole(key)
        if k is not None and k < 0:
            name = x.array.name or "a"
            raise self.error(node, f"negative array index {k}", f"count from the end with `{name}.shape[{len(x.index)}] - {-k}`")
        if is_number(key) and not isinstance(key, (bool, float)):
            return self.as_value(key, None, node)
        if isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int:
            return key
        raise self.error(node, f"an array index is an integer, not {describe(key)}", "write int(...)" if type_of(key, self.real) else "")

    def _position(self, k: int, size: int, node: ast.AST) -> int:
        if not -size <= k < size:
            raise self.error(node, f"index {k} is outside of 0 .. {size - 1}")
        return k % size

    def _component(self, x: Parts | Place, key: Any, node: ast.AST) -> Any:
        """Component of a vector, row of a matrix; with an index of the run: a place with a run-time leaf, or a choice."""
        kind = x.type
        assert isinstance(kind, Homogeneous)
        stride = kind.cols if isinstance(kind, Matrix) else 1
        inner: Type = vector(kind.cols, kind.dtype) if isinstance(kind, Matrix) else kind.dtype
        count = kind.rows if isinstance(kind, Matrix) else len(kind.leaves)
        k = whole(key)
        if k is not None:
            return self.part(x, inner, self._position(k, count, node) * stride)
        if not (isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int):
            raise self.error(node, f"a component index is an integer, not {describe(key)}", "write int(...)" if type_of(key, self.real) else "")
        if isinstance(x, Place):
            offset = self.b.emit("mul", key, stride) if stride > 1 else key
            if x.offset is not None:
                return Place(x.array, x.index, inner, x.first, self.b.emit("add", x.offset, offset), x.extent)
            return Place(x.array, x.index, inner, x.first, offset, len(kind.leaves))
        rows = [self.part(x, inner, r * stride) for r in range(count)]
        return self._choose_item(tuple(rows), key, node)

    def _choose_item(self, items: tuple, key: Value, node: ast.AST) -> Any:
        """items[key] with an index of the run: a chain of choices (the last one beyond the end)."""
        kinds = {type_of(i, self.real) for i in items}
        kind = kinds.pop()
        if kinds or not isinstance(kind, (Scalar, Homogeneous)):
            raise self.error(node, "an index of the run into a tuple needs items of one type")
        rows = [self.fit(i, kind) for i in items]
        columns = [[row] if isinstance(row, Value) else list(row.leaves) for row in rows]
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
        for r in range(count):
            here = self.b.emit("eq", key, r)
            leaves += [self.b.emit("select", here, parts[c], x.leaves[r * stride + c]) for c in range(stride)]
        return Parts(x.type, tuple(leaves))

    # -- calls
    def on_call(self, node: ast.Call) -> Any:
        callee = self.lazy(node.func)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error(node, "** in a call cannot be used in a kernel", "write the arguments one by one")
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self.error(arg, "* in a call cannot be used in a kernel", "write the arguments one by one")
        target = self.callee(callee, node)
        if isinstance(target, Builtin) and target.lazy:
            self.at(node)
            return target.handler(self, node, list(node.args), {k.arg: k.value for k in node.keywords})
        args = tuple(self.eval(a) for a in node.args)
        kwargs = {str(k.arg): self.eval(k.value) for k in node.keywords}
        self.at(node)
        return self.apply(target, args, kwargs, node)

    def callee(self, x: Any, node: ast.Call) -> Any:
        """What a call calls: a function of the language, a builtin, a type, or a maker of types."""
        if isinstance(x, (Function, Builtin, Type)) or x in _TYPE_MAKERS:
            return x
        if x is float:
            return self.real
        if isinstance(x, type) and x in _PYTHON_TYPES:
            return _PYTHON_TYPES[x]
        if is_traced(x) or isinstance(x, (Place, tuple)) or is_number(x) or x is None:
            raise self.error(node, f"{describe(x)} cannot be called")
        name = getattr(x, "__name__", "")
        module = getattr(x, "__module__", None) or ""
        if module == "math" or getattr(python_builtins, name, None) is x:
            found = NAMES.get(name) or NAMES.get(_RENAMED.get(name, ""))
            if found is not None:
                return found
        shown = f"{module}.{name}" if module and name and module not in ("builtins", self.frame.function.python.__module__) else name or describe(x)
        if module.split(".")[0] == "numpy" or type(x).__module__ == "numpy":
            known = f"write sim.{name}(...)" if name in NAMES else "write it with functions of the language"
            raise self.error(node, f"`numpy.{name}` is a NumPy function: it cannot run inside of a kernel", known)
        if isinstance(x, python_types.FunctionType):
            hint = "decorate it with @sim.func"
        elif name in NAMES:
            hint = f"write sim.{name}(...)"
        else:
            hint = "call it outside, and pass the result as an argument" + (did_you_mean(name, NAMES) if name else "")
        raise self.error(node, f"`{shown}` is a Python function, not one of the kernel language", hint)

    def apply(self, target: Any, args: tuple, kwargs: dict[str, Any], node: ast.AST) -> Any:
        """A call with evaluated arguments."""
        if isinstance(target, Builtin):
            return target.handler(self, node, args, kwargs)
        if isinstance(target, Type):
            return construct(self, target, args, kwargs, node)
        if isinstance(target, Function):
            return self.call(target, args, kwargs, node)
        try:
            return target(*(self.real if a is float else a for a in args), **{k: self.real if v is float else v for k, v in kwargs.items()})
        except (TypeError, ValueError) as problem:
            raise self.error(node, f"{target.__name__}(...): {problem}") from None

    def call(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """A call of a function of the language: traced in place, or kept as a call if its derivative is in closed form."""
        values = self.bind(function, args, kwargs, node)
        if function.adjoint is not None:
            return self.call_op(function, values, node)
        key = (function, *map(describe, values.values()))
        if len(self.frames) > _DEEPEST or any(frame.key == key for frame in self.frames):
            raise self.error(node, f"`{function.name}` calls itself", "kernels cannot recurse: use a loop")
        frame = Frame(function, node, key)
        frame.env.update(values)
        self.frames.append(frame)
        try:
            return self.body(frame)
        finally:
            self.frames.pop()
            self.at(node)

    def bind(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], node: ast.AST) -> dict[str, Any]:
        """Arguments by parameter name, converted to the annotated types."""
        parameters = function.parameters(self.real)
        names = [p.name for p in parameters]
        if len(args) > len(parameters):
            raise self.error(node, f"`{function.name}` takes {_arguments(len(parameters))}, got {len(args)}",
                             f"its parameters: {', '.join(names) or 'none'}")
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in names:
                raise self.error(node, f"`{function.name}` has no parameter '{key}'{did_you_mean(key, names)}",
                                 f"its parameters: {', '.join(names) or 'none'}")
            if key in given:
                raise self.error(node, f"`{function.name}` got '{key}' twice")
            given[key] = value
        out = {}
        for p in parameters:
            if p.name not in given and p.required:
                raise self.error(node, f"`{function.name}` needs a value for '{p.name}'", f"its parameters: {', '.join(names)}")
            value = given[p.name] if p.name in given else self.static(p.default, p.name, node)
            value = self.load(value)
            if p.type is not None:
                value = fit_or_error(self, value, p.type, f"argument '{p.name}' of `{function.name}`", node)
            out[p.name] = value
        return out

    def body(self, frame: Frame) -> Any:
        """Traces the body of the innermost frame; its result."""
        self.statements(frame.function.source.node.body)
        result, returned = frame.env[VALUE], frame.env[FLAGS[0]]
        if isinstance(result, Undefined):
            return None
        if returned is not True and result is not None:
            raise self.error(frame.function.source.node, f"`{frame.function.name}` does not return a value on every path",
                             "add a `return` at the end")
        return result

    # -- provided by the layers above
    def statements(self, body: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any) -> None:
        raise NotImplementedError

    def call_op(self, function: Function, values: dict[str, Any], node: ast.AST) -> Any:
        raise NotImplementedError


def _arguments(n: int) -> str:
    return f"{n} argument{'s' if n != 1 else ''}"


def _named_part(kind: Homogeneous, name: str) -> tuple[Type, int] | None:
    """Type and first leaf of `.x`, `.y`, ... of a vector or quaternion, `.p`, `.q` of a transform."""
    if isinstance(kind, (Vector, Quaternion)) and len(name) == 1 and name in _XYZW[: kind.length]:
        return kind.dtype, _XYZW.index(name)
    if isinstance(kind, Transformation) and name in ("p", "q"):
        return (vector(3, kind.dtype), 0) if name == "p" else (quaternion(kind.dtype), 3)
    return None


def harmless(block: Block) -> bool:
    """Whether operations may run although the program would not have got there: arithmetic only."""
    return all(op.name in OPS or op.name in ("const", "tid", "shape") for op in block.ops)


_EXPRESSIONS: dict[type, Callable[[Expressions, Any], Any]] = {
    ast.Name: Expressions.on_name, ast.Constant: Expressions.on_constant, ast.Tuple: Expressions.on_tuple, ast.List: Expressions.on_tuple,
    ast.BinOp: Expressions.on_binary, ast.UnaryOp: Expressions.on_unary, ast.Compare: Expressions.on_compare,
    ast.BoolOp: Expressions.on_logic, ast.IfExp: Expressions.on_ternary, ast.Attribute: Expressions.on_attribute,
    ast.Subscript: Expressions.on_subscript, ast.Call: Expressions.on_call, ast.ListComp: Expressions.on_comprehension,
}
