"""Expressions: syntax trees to traced values."""

from __future__ import annotations

import ast
import builtins as python_builtins
import types as python_types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sim.core.lang import types as language_types
from sim.core.lang.errors import KernelError, did_you_mean
from sim.core.lang.frontend.builtins import NAMES, Builtin, fit_or_error
from sim.core.lang.frontend.components import Components
from sim.core.lang.frontend.construct import construct
from sim.core.lang.frontend.constructors import zeros
from sim.core.lang.frontend.context import FLAGS, VALUE, Frame
from sim.core.lang.frontend.elsewhere import NUMPY, PYTHON, instead
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.operators import BINARY, binary, compare, unary
from sim.core.lang.frontend.source import MISSING
from sim.core.lang.frontend.traced import Place, Undefined, describe, is_number, is_traced
from sim.core.lang.ir.core import Block, Op, Value
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import (
    Type,
    bool_,
    int32,
)

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


class Expressions(Components):
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
        self.captures.name(function, name, x)
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
            raise self.error(
                node, "the right side of `and` or `or` changes a variable", "do that on a line of its own, before"
            )
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

    # -- attributes
    def on_attribute(self, node: ast.Attribute) -> Any:
        base = self.lazy(node.value)
        self.at(node)
        return self.attribute(base, node.attr, node)

    # -- subscripts
    def on_subscript(self, node: ast.Subscript) -> Any:
        base = self.lazy(node.value)
        keys = self.keys(node.slice)
        self.at(node)
        return self.item(base, keys, node)

    def keys(self, node: ast.expr) -> tuple:
        """The indices between brackets."""
        return tuple(self.eval(e) for e in node.elts) if isinstance(node, ast.Tuple) else (self.eval(node),)

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
        shown = (
            f"{module}.{name}"
            if module and name and module not in ("builtins", self.frame.function.python.__module__)
            else name or describe(x)
        )
        if (
            module.split(".")[0] == "numpy"
            or type(x).__module__ == "numpy"
            or type(getattr(x, "__self__", None)).__module__.startswith("numpy")
        ):
            known = instead(NUMPY, name) or _as_ours(name) or "write it with functions of the language"
            raise self.error(
                node, f"`{module or 'numpy'}.{name}` is a NumPy function: it cannot run inside of a kernel", known
            )
        if module.startswith("sim.core.runtime") and name == "zeros":
            return zeros
        if module.startswith("sim.core.runtime") and name in ("ones", "full", "empty"):
            raise self.error(
                node,
                f"`sim.{name}` makes an array: it cannot run inside of a kernel",
                "for a few numbers write sim.zeros(shape=3, dtype=float), and fill it; pass a larger array as an"
                " argument",
            )
        own = instead({**NUMPY, **PYTHON}, name) if module in ("math", "builtins") else ""
        if isinstance(x, python_types.FunctionType):
            hint = "decorate it with @sim.func"
        else:
            hint = (
                own
                or _as_ours(name)
                or "call it outside, and pass the result as an argument" + (did_you_mean(name, NAMES) if name else "")
            )
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
            return target(
                *(self.real if a is float else a for a in args),
                **{k: self.real if v is float else v for k, v in kwargs.items()},
            )
        except (TypeError, ValueError) as problem:
            raise self.error(node, f"{target.__name__}(...): {problem}") from None

    def call(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """A call of a function of the language: traced in place, or kept as a call if its derivative is in closed
        form."""
        function, values = self._chosen(function, args, kwargs, node)
        self.captures.rule(function)
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

    def _chosen(
        self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> tuple[Function, dict[str, Any]]:
        """The definition that these arguments fit, the last one first, and the arguments by name."""
        if function.earlier is None:
            return function, self.bind(function, args, kwargs, node)
        candidate: Function | None = function
        while candidate is not None:
            try:
                return candidate, self.bind(candidate, args, kwargs, node)
            except KernelError:
                candidate = candidate.earlier
        given = ", ".join([*map(describe, args), *(f"{key}={describe(x)}" for key, x in kwargs.items())])
        raise self.error(
            node, f"no definition of `{function.name}` takes ({given})", "it is defined more than once, for other types"
        )

    def bind(self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], node: ast.AST) -> dict[str, Any]:
        """Arguments by parameter name, converted to the annotated types."""
        parameters = function.parameters(self.real)
        names = [p.name for p in parameters]
        if len(args) > len(parameters):
            hint = (
                f"; it returns its results: write ... = {function.name}({', '.join(names)})"
                if function.internal
                else ""
            )
            raise self.error(
                node,
                f"`{function.name}` takes {_arguments(len(parameters))}, got {len(args)}",
                f"its parameters: {', '.join(names) or 'none'}{hint}",
            )
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in names:
                raise self.error(
                    node,
                    f"`{function.name}` has no parameter '{key}'{did_you_mean(key, names)}",
                    f"its parameters: {', '.join(names) or 'none'}",
                )
            if key in given:
                raise self.error(node, f"`{function.name}` got '{key}' twice")
            given[key] = value
        out = {}
        for p in parameters:
            if p.name not in given and p.required:
                raise self.error(
                    node, f"`{function.name}` needs a value for '{p.name}'", f"its parameters: {', '.join(names)}"
                )
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
            raise self.error(
                frame.function.source.node,
                f"`{frame.function.name}` does not return a value on every path",
                "add a `return` at the end",
            )
        return result

    # -- provided by the layers above
    def statements(self, body: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any) -> None:
        raise NotImplementedError

    def call_op(self, function: Function, values: dict[str, Any], node: ast.AST) -> Any:
        raise NotImplementedError


def _as_ours(name: str) -> str:
    """What to write, if the language has a function of this name."""
    return (
        ""
        if name not in NAMES
        else f"write {name}(...)"
        if hasattr(python_builtins, name)
        else f"write sim.{name}(...)"
    )


def _arguments(n: int) -> str:
    return f"{n} argument{'s' if n != 1 else ''}"


def harmless(block: Block) -> bool:
    """Whether operations may run although the program would not have got there: arithmetic only, and no index that may
    be refused."""
    return all((op.name in OPS and op.name != "in_bounds") or op.name in ("const", "tid", "shape") for op in block.ops)


_EXPRESSIONS: dict[type, Callable[[Expressions, Any], Any]] = {
    ast.Name: Expressions.on_name,
    ast.Constant: Expressions.on_constant,
    ast.Tuple: Expressions.on_tuple,
    ast.List: Expressions.on_tuple,
    ast.BinOp: Expressions.on_binary,
    ast.UnaryOp: Expressions.on_unary,
    ast.Compare: Expressions.on_compare,
    ast.BoolOp: Expressions.on_logic,
    ast.IfExp: Expressions.on_ternary,
    ast.Attribute: Expressions.on_attribute,
    ast.Subscript: Expressions.on_subscript,
    ast.Call: Expressions.on_call,
    ast.ListComp: Expressions.on_comprehension,
}
