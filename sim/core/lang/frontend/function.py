"""`@func`: a function of the kernel language.  It is parsed at its first use, and traced anew for every call."""

from __future__ import annotations

import ast
import contextlib
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sim.core.lang.errors import KernelError, entry_point
from sim.core.lang.frontend.source import (
    FunctionSource,
    KernelParameter,
    Position,
    Scope,
    annotation_span,
    caller_locals,
    is_static,
    own_module,
    remember_lines,
    resolve_annotations,
    result_type,
    signature,
    values_of_static,
)
from sim.core.lang.memoize import compiling
from sim.core.lang.references import ref
from sim.core.lang.types import Scalar, float32, host

_INTERNAL = ("sim.core.lang.library", "sim.core.spatial")


def key_of(python: Callable[..., Any]) -> str:
    """Where a function is defined, in one word: `make__locals__k`."""
    return re.sub(r"\W", "", python.__qualname__.replace(".", "__"))


class _Rules:
    """version: grows whenever a function gets another derivative in closed form.

    foreign: how many functions of this package have got one from a user.
    """

    version = foreign = 0

    def changed(self, function: Function, rule: Function) -> None:
        """A function has got another derivative, or another way to tell results apart."""
        function.traces.clear()
        self.version += 1
        self.foreign += own_module(function.__module__) and not own_module(rule.__module__)


rules = _Rules()


class Function:
    """A function of the language.  Parameters without a type (or `Any`) take whatever they are given.

    `adjoint`: the function that gives its derivative in closed form (see `vjp`), or None.
    `transformers`: change its syntax tree, one after the other, before it is traced.
    `internal`: it belongs to the library, so messages and line numbers point at whoever calls it.
    """

    def __init__(
        self,
        python: Callable[..., Any],
        name: str | None = None,
        annotations: dict[str, Any] | None = None,
        transformers: Sequence[ast.NodeTransformer] = (),
    ) -> None:
        self.python, self.transformers = python, tuple(transformers)
        self.name = self.__name__ = name or python.__name__
        self.__doc__ = python.__doc__
        self.__module__ = python.__module__
        self.__wrapped__ = python
        self.adjoint: Function | None = None
        self.separator: Function | None = None
        self.earlier: Function | None = None  # of this name with other argument types: see `func`
        self.synonyms: Mapping[str, str] = {}  # other names of parameters
        self.takes: Mapping[str, str] = {}  # what parameters without a type have to be: see `tracing/argument_forms`
        self.outputs = 0  # variables that a call may name behind the arguments, instead of taking results
        self.internal = (python.__module__ or "").startswith(_INTERNAL)
        self.traces: dict[Any, Any] = {}  # by argument types: see `captures.remembered`
        self._annotations = annotations
        self._parameters: dict[Scalar, list[KernelParameter]] = {}
        self._results: dict[Scalar, Any] = {}
        self.statics: Mapping[Position, Any] = {}  # values of `static(...)` by where it stands
        if not own_module(self.__module__):
            remember_lines(python)
            if not self.transformers:  # which may put a `static(...)` into several places
                self._evaluate_statics()

    def _evaluate_statics(self) -> None:
        """Most functions have none, and are parsed at their first use only."""
        code = self.python.__code__
        if "static" in code.co_names or any(is_static(self.scope.find(n)) for n in (*code.co_names, *code.co_freevars)):
            with contextlib.suppress(KernelError):  # said again by whoever uses it
                self.statics = values_of_static(self.source, self.scope, code)

    @property
    def key(self) -> str:
        """A name for this function alone: where it is defined, in one word, or the name that it was given."""
        return key_of(self.python) if self.name == self.python.__name__ else self.name

    @property
    def func(self) -> Callable[..., Any]:
        """The function of Python."""
        return self.python

    @cached_property
    def source(self) -> FunctionSource:
        found = FunctionSource(self.python)
        for transformer in self.transformers:
            found.node = ast.fix_missing_locations(transformer.visit(found.node))
        return found

    @cached_property
    def scope(self) -> Scope:
        return Scope(self.python)

    def parameters(self, real: Scalar = float32) -> list[KernelParameter]:
        """Names, types and defaults; the annotation `float` means `real`."""
        found = self._parameters.get(real)
        if found is None:
            with compiling:
                found = self._parameters[real] = signature(self.python, real, self._annotations)
        return found

    def annotated_result(self, real: Scalar) -> Any:
        """The type that the annotation of the result means, of several a tuple; None where any will do."""
        if "return" not in self.python.__annotations__:
            return None
        found: Any = self._results.get(real, self)
        if found is self:
            known = resolve_annotations(self.python) if self._annotations is None else self._annotations
            found = self._results[real] = result_type(known["return"], real)
        return found

    def vjp(self, g: Callable[..., Any]) -> Function:
        """Decorator: g is the derivative of this function in closed form, used instead of differentiating the body.

        g takes the arguments of this function, then its result (or results), then the cotangent of each floating
        result, and returns one cotangent per floating argument, in order (a tuple if there are several):

            @func
            def length(v): ...

            @length.vjp
            def length_vjp(v, result, ct): return v * (ct / result)
        """
        return self.differentiate_by(g if isinstance(g, Function) else Function(g))

    def differentiate_by(self, rule: Function) -> Function:
        """Makes `rule` the derivative in closed form.  Kernels that call this function are traced anew."""
        self.adjoint = rule
        rules.changed(self, rule)
        return rule

    def separated(self, g: Callable[..., Any]) -> Function:
        """Decorator: g moves results that coincide apart, by about the root of the rounding error, and returns all.

        For a function whose results are not unique where some of them coincide (singular vectors of equal values).
        Reverse mode goes on with g's where a kernel combines them: derivatives of what is unique are limits there.
        """
        self.separator = g if isinstance(g, Function) else Function(g)
        rules.changed(self, self.separator)
        return self.separator

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if host.evaluator is None:
            raise TypeError(
                f"`{self.name}` is a function of the kernel language: call it inside of a kernel or another such"
                " function"
            )
        return host.evaluator.call(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<function {self.name} of the kernel language>"


@typing.overload
def func(f: Callable[..., Any]) -> Function: ...
@typing.overload
def func(
    f: None = None, *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Callable[[Callable[..., Any]], Function]: ...
@entry_point
def func(
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    module: Any = None,
    inline: bool | None = None,
) -> Any:
    """Decorator `@func` or `@func(name=...)`: makes a Python function callable inside of kernels.

    Defined again in the same place with other argument types, a function is an overload: a call takes the definition
    that fits its arguments best, where numbers without a type keep their own if they can, and a parameter with a type
    fits better than one without; of several the last.  `module` is accepted as in Warp: a function is compiled with
    the kernels that call it.  So is `inline`, where True and False are hints: every call is traced in place.
    """
    if inline is not None and not isinstance(inline, bool):
        raise TypeError(f"inline must be a bool or None, not {inline!r}")
    caller = caller_locals(2)

    @entry_point
    def wrap(f: Callable[..., Any]) -> Function:
        made = Function(f, name, local_annotations(f, caller))
        before = (f.__globals__ if caller is None else caller).get(f.__name__)
        if (
            isinstance(before, Function)
            and before.python.__qualname__ == f.__qualname__
            and before.__module__ == f.__module__
        ):
            made.earlier = before if _arguments(before.python) != _arguments(f) else before.earlier
            if made.earlier is before and _values(before.python) == _values(f):
                raise KernelError(
                    f"two definitions of `{f.__name__}` differ only by a parameter's being a ref: no call could tell",
                    annotation_span(f, f.__code__.co_varnames[0]),
                    "give one of them another name",
                )
        return made

    return wrap(f) if f is not None else wrap


def _arguments(python: Callable[..., Any]) -> list[tuple[str, str]]:
    return [(key, str(ty)) for key, ty in python.__annotations__.items() if key != "return"]


def _values(python: Callable[..., Any]) -> list[tuple[str, str]]:
    """The same without telling references from values, also where annotations are postponed, texts."""
    given = [(k, str(ty.value if isinstance(ty, ref) else ty)) for k, ty in python.__annotations__.items()]
    return [(key, re.sub(r"^(\w+\.)*ref\[(.*)\]$", r"\2", ty)) for key, ty in given if key != "return"]


def local_annotations(python: Callable[..., Any], caller: Any) -> dict[str, Any] | None:
    """Annotations, evaluated now if they are strings and may name something local to the place of definition."""
    postponed = any(isinstance(v, str) for v in getattr(python, "__annotations__", {}).values())
    return resolve_annotations(python, caller) if postponed and caller else None
