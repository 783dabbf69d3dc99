"""Writing CUDA C++ text: types, constants, names, and one rule per primitive of the op table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.lang.ir.table import OPS
from sim.core.lang.types import Scalar, Type, bool_, float16, float32

_TYPES = {
    "bool": "bool", "float16": "sim_half", "float32": "float", "float64": "double",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
}  # fmt: skip
_NOT_FINITE = {
    32: ("__int_as_float(0x7f800000)", "__int_as_float(0x7fffffff)"),
    64: ("__longlong_as_double(0x7ff0000000000000LL)", "__longlong_as_double(0x7fffffffffffffffLL)"),
}
_WORDS = frozenset(
    """alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default delete do
    double else enum explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not nullptr operator or private protected public register return short signed sizeof static struct switch
    template this throw true try typedef
    typename union unsigned using virtual void volatile while xor dim error""".split()
)


def cuda_type(kind: Type) -> str:
    """The C++ type of a scalar."""
    return _TYPES[kind.name]


def identifier(name: str) -> str:
    """A member name for a name of the user."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return plain + "_" if plain in _WORDS or plain[0].isdigit() else plain


def literal(value: Any, kind: Scalar) -> str:
    """A constant; the shortest decimals that give the same bits."""
    if kind is bool_:
        return "true" if value else "false"
    if kind is float16:
        return f"sim_half({literal(kind.np.type(value), float32)})"
    if kind.is_float:
        exact = kind.np.type(value)
        if not np.isfinite(exact):
            infinite, nan = _NOT_FINITE[kind.bits]
            return nan if np.isnan(exact) else f"(-{infinite})" if exact < 0 else infinite
        text = repr(exact.item()) if kind.bits == 64 else str(exact)
        text = text if "." in text or "e" in text else text + ".0"
        text += "f" if kind.bits == 32 else ""
        return f"({text})" if text.startswith("-") else text
    if kind.kind == "i" and value == -(2 ** (kind.bits - 1)) and kind.bits >= 32:
        return f"({value + 1}{'LL' if kind.bits == 64 else ''} - 1)"
    if kind.bits < 32:  # no suffix makes a short one
        return f"({cuda_type(kind)}){value}"
    suffix = {("i", 64): "LL", ("u", 64): "ULL", ("u", 32): "u"}.get((kind.kind, kind.bits), "")
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def arithmetic(name: str, kind: Scalar, args: Sequence[str]) -> str:
    """One row of the table on operands of type `kind`, as an expression."""
    texts = OPS[name].cuda
    text = texts[min(0 if kind.is_float else 2 if kind is bool_ else 1, len(texts) - 1)]
    if kind is float16 and name != "select":  # computed in single precision, then rounded
        made = arithmetic(name, float32, [f"float({a})" for a in args])
        return made if OPS[name].result == "bool" else f"sim_half({made})"
    t, narrow = cuda_type(kind), not kind.is_float and kind is not bool_ and kind.bits < 32
    return text.format(
        *args,
        f="f" if kind.bits <= 32 else "",
        t=t,
        u="unsigned long long" if kind.bits == 64 else "unsigned",
        low=f"({t})" if narrow else "",
        last=kind.bits - 1,
    )


def cast(a: str, source: Scalar, target: Scalar) -> str:
    """A conversion: floats to integers truncate and saturate, a NaN becomes 0; to bool: not equal to zero."""
    if target is bool_:
        return f"({a} != 0)"
    if source is float16 and target is not float16:
        return cast(f"float({a})", float32, target)
    if target is float16 and source is not float16:
        return f"sim_half({cast(a, source, float32)})"
    if source.is_float and target.is_int:
        info = np.iinfo(target.np)
        above = literal(2.0 ** (target.bits - (target.kind == "i")), source)
        low, high = (f"({cuda_type(target)}){literal(v, target)}" for v in (int(info.min), int(info.max)))
        return f"sim_to_int({a}, {low}, {high}, {above})"
    return f"({cuda_type(target)}){a}"
