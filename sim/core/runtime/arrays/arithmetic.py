"""Operators between arrays: `a + b`, `2.0 * a`, `-a`, `a *= b`: the function of the language, for each element.

Of arrays and values that are the same for every element, as `sim.map` takes them: broadcast, recorded by tapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.types import Composite, HostNumber, operation, scalar_of


def _operand(x: Any, beside: Any) -> Any:
    """An operand; a number of Python takes the type of the elements beside it, as a literal in a kernel does."""
    if not isinstance(x, (int, float)) or isinstance(x, (bool, np.generic)):
        return x
    scalar = scalar_of(beside.dtype)
    return scalar(x) if scalar is not None and (scalar.is_float or (scalar.is_int and isinstance(x, int))) else x


def _is_operand(x: Any) -> bool:
    return isinstance(x, (ArrayOperators, bool, int, float, np.generic, HostNumber, Composite))


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    def forward(self: Any, other: Any) -> Any:
        return operation(name, self, _operand(other, self)) if _is_operand(other) else NotImplemented

    def backward(self: Any, other: Any) -> Any:
        return operation(name, _operand(other, self), self) if _is_operand(other) else NotImplemented

    def in_place(self: Any, other: Any) -> Any:
        return operation(name, self, _operand(other, self), out=self) if _is_operand(other) else NotImplemented

    return forward, backward, in_place


class ArrayOperators:
    """Arithmetic of arrays, element by element."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("sub")
    __mul__, __rmul__, __imul__ = _binary("mul")
    __truediv__, __rtruediv__, __itruediv__ = _binary("div")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floordiv")
    __mod__, __rmod__, __imod__ = _binary("mod")
    __pow__, __rpow__, __ipow__ = _binary("pow")

    def __neg__(self) -> Any:
        return operation("neg", self)

    def __pos__(self) -> Any:
        return operation("pos", self)
