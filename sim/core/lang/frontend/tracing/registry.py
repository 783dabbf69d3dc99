"""Functions that the compiler itself provides, and the registry of all names that the language knows.

A `Builtin` is called while tracing: `handler(t, node, args, kwargs)` gets the traced arguments (a lazy one: their
syntax) and returns a traced value.  `NAMES` maps what Python calls `abs`, `min`, `math.sin`, ... to the language; the
library adds its own functions with `register`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import Keywords, Positional
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.types import Type, host

Handler = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class Builtin:
    """A function of the language with a handler at trace time.

    lazy: the handler gets syntax trees instead of values.
    host: what calling it outside of a kernel does, where that is not what it does inside.
    """

    def __init__(
        self, name: str, handler: Handler, doc: str = "", lazy: bool = False, host: Callable[..., Any] | None = None
    ) -> None:
        self.name = self.key = self.__name__ = name
        self.handler, self.lazy, self.host = handler, lazy, host
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.host is not None:
            return self.host(*args, **kwargs)
        if host.evaluator is not None and not self.lazy:
            return host.evaluator.call(self, args, kwargs)
        raise TypeError(f"`{self.name}` is a function of the kernel language: call it inside of a kernel")

    def __repr__(self) -> str:
        return f"<builtin {self.name} of the kernel language>"


NAMES: dict[str, Builtin | Function] = {}
"""Every function of the language by name."""


def register(functions: Mapping[str, Builtin | Function]) -> None:
    """Adds functions to the names that Python's own (`abs`, `math.sin`, ...) stand for; later ones win."""
    NAMES.update(functions)


def builtin(name: str, lazy: bool = False, host: Callable[..., Any] | None = None) -> Callable[[Handler], Builtin]:
    """Decorator: makes a handler a `Builtin` of this name and registers it; the docstring is the user's."""

    def wrap(handler: Handler) -> Builtin:
        made = NAMES[name] = Builtin(name, handler, handler.__doc__ or "", lazy, host)
        return made

    return wrap


_OF_ONE = "abs sqrt cbrt exp log log2 log10 sin cos tan atan sinh cosh tanh erf erfc floor ceil trunc rint neg pos"
_OF_TWO = "add sub mul div div_approx mod floordiv bit_and bit_or bit_xor lshift rshift min max expect_eq expect_neq"
_PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_ONE.split(), ("x",)),
    **dict.fromkeys(_OF_TWO.split(), ("a", "b")),
    **dict.fromkeys(("invert", "unot", "len"), ("a",)),
    **dict.fromkeys(("pow", "copysign"), ("x", "y")),
    "atan2": ("y", "x"),
    "where": ("cond", "value_if_true", "value_if_false"),
}
_OF_ATOMICS = ("arr", "i", "j", "k", "l", "compare", "value")


def argument_node(node: ast.Call, place: int, name: str) -> ast.expr | None:
    """The syntax of an argument, by its place or by its name; None where it is not given."""
    if place < len(node.args):
        return node.args[place]
    return next((k.value for k in node.keywords if k.arg == name), None)


def _names_of_atomic(given: int, kwargs: Keywords) -> tuple[str, ...]:
    """The names behind the `given` first arguments: as many indices as are named, then what is stored."""
    array, indices, values = _OF_ATOMICS[given:1], _OF_ATOMICS[max(given, 1) : 5], _OF_ATOMICS[5:]
    count = sum(key in kwargs for key in indices)
    return (*array, *indices[:count], *(key for key in values if key in kwargs))


def in_order(name: str, args: Positional, kwargs: Keywords) -> tuple[Positional, Keywords]:
    """Arguments of a builtin whose parameters have names, with those given by name put behind the others."""
    if name.startswith("atomic_"):
        names = _names_of_atomic(len(args), kwargs)
    else:
        names = _PARAMETERS.get(name, ())[len(args) :]
    if len(kwargs) > len(names) or set(kwargs) != set(names[: len(kwargs)]):
        return args, kwargs
    return (*args, *(kwargs[key] for key in names[: len(kwargs)])), {}


ADVANCE: dict[Type, Builtin] = {}
"""Types whose values a `for` goes through: `advance(query, index)` changes both variables, and says whether it did."""


@dataclass(frozen=True)
class Refusal:
    """Why a function cannot run inside of a kernel ("makes an array"), and what to do instead."""

    what: str
    hint: str


HOST_FUNCTIONS: dict[Callable[..., Any], Builtin | Refusal] = {}
"""What functions of the runtime mean inside of a kernel."""


def in_kernels(meaning: Builtin | Refusal) -> Callable[[F], F]:
    """Decorator of a function that runs outside of kernels: what its name means inside of one."""

    def declare(function: F) -> F:
        HOST_FUNCTIONS[function] = meaning
        return function

    return declare


def takes(
    t: Context, node: ast.AST, name: str, args: Positional, kwargs: Keywords, low: int, high: int | None = None
) -> None:
    if kwargs:
        raise t.error(node, f"{name} takes no argument '{next(iter(kwargs))}'")
    high = low if high is None else high
    if not low <= len(args) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise t.error(node, f"{name} takes {count} argument{'s' if count != '1' else ''}, got {len(args)}")
