"""Writing LLVM text: types, constants, fresh names, and one rule per primitive of the op table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from sim.core.lang.ir.table import OPS, Instruction, Intrinsic, Libm, Special
from sim.core.lang.types import Scalar, Type, bool_, float16, float32


def llvm_type(kind: Type) -> str:
    """The SSA type of a scalar (a bool is an i1)."""
    assert isinstance(kind, Scalar)
    if kind.is_float:
        return {16: "half", 32: "float", 64: "double"}[kind.bits]
    return "i1" if kind is bool_ else f"i{kind.bits}"


def memory_type(kind: Type) -> str:
    """The type of a scalar in memory (a bool is a byte)."""
    return "i8" if kind is bool_ else llvm_type(kind)


def literal(value: Any, kind: Scalar) -> str:
    """A constant; floats by the bits of a double, which is exact for narrower ones (halves have bits of their own)."""
    if kind is float16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', kind.np.type(value)))[0]:04X}"
    if kind.is_float:
        return f"0x{struct.unpack('<Q', struct.pack('<d', kind.np.type(value)))[0]:016X}"
    return ("true" if value else "false") if kind is bool_ else str(value)


def _entry_of(kind: Scalar, choices: Sequence[str]) -> str:
    """The entry for floats, signed or unsigned integers (bools count as unsigned), or the only one."""
    return choices[0 if kind.is_float or len(choices) == 1 else 1 if kind.kind == "i" else 2]


class Writer:
    """Lines of one function body, and the functions that they need declared."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.count = 0
        self.here = "entry"
        """The basic block that is being written."""
        self.lanes = 1
        """Values that the rules of primitives work on at once: a scalar, or a vector of this length."""

    def type(self, kind: Type) -> str:
        """The type of a value of this scalar type."""
        return llvm_type(kind) if self.lanes == 1 else f"<{self.lanes} x {llvm_type(kind)}>"

    def number(self, kind: Scalar, text: str) -> str:
        """A constant in every lane."""
        return text if self.lanes == 1 else f"splat ({llvm_type(kind)} {text})"

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def let(self, right: str) -> str:
        """A new value with this right-hand side."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {right}")
        return name

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.here = label

    def reserve(self) -> int:
        """Room for phis that are known when the loop body is; filled by `lines[place] = ...`."""
        self.lines.append("")
        return len(self.lines) - 1

    def call(self, result: str, symbol: str, operands: Sequence[tuple[str, str]], attributes: str = "") -> str:
        """A call of a declared function."""
        self.declared[symbol] = f"declare {result} @{symbol}({', '.join(t for t, _ in operands)}){attributes}"
        text = f"call {result} @{symbol}({', '.join(f'{t} {v}' for t, v in operands)})"
        if result != "void":
            return self.let(text)
        self.put(text)
        return ""

    def intrinsic(self, name: str, kind: Scalar, *operands: str) -> str:
        t = self.type(kind)
        return self.call(t, f"llvm.{name}.{self.suffix(kind)}", [(t, o) for o in operands])

    def suffix(self, kind: Scalar) -> str:
        """How names of intrinsics end."""
        one = f"f{kind.bits}" if kind.is_float else llvm_type(kind)
        return one if self.lanes == 1 else f"v{self.lanes}{one}"

    def arithmetic(self, name: str, kind: Scalar, args: list[str]) -> str:
        """One row of the table on operands of type `kind`; halves are computed in single precision, then rounded."""
        if kind is float16 and name != "select":
            made = self.arithmetic(name, float32, [self.cast(a, float16, float32) for a in args])
            return made if OPS[name].result == "bool" else self.cast(made, float32, float16)
        t, how = self.type(kind), OPS[name].llvm
        if isinstance(how, Intrinsic):
            return self.intrinsic(_entry_of(kind, how.names), kind, *args)
        if isinstance(how, Libm):
            symbol = how.name + ("f" if kind.bits == 32 else "")
            return self.call(t, symbol, [(t, a) for a in args], " nounwind willreturn memory(none)")
        if isinstance(how, Instruction):
            text = _entry_of(kind, (how.float, how.signed, how.unsigned))
            if "{" not in text:
                return self.let(f"{text} {t} {', '.join(args)}")
            constants = {"zero": self.number(kind, "0"), "ones": self.number(kind, "true" if kind is bool_ else "-1")}
            return self.let(text.format(*args, t=t, b=self.type(bool_), **constants))
        return SPECIAL[name](self, kind, args)

    def from_end(self, kind: Scalar, args: list[str]) -> str:
        """An index; a negative one counts from the end."""
        if kind.kind == "u":
            return args[0]
        t, (index, count) = self.type(kind), args
        negative = self.let(f"icmp slt {t} {index}, {self.number(kind, '0')}")
        counted = self.let(f"add {t} {index}, {count}")
        return self.let(f"select {self.type(bool_)} {negative}, {t} {counted}, {t} {index}")

    def same(self, kind: Scalar, args: list[str]) -> str:
        return args[0]

    def absolute(self, kind: Scalar, args: list[str]) -> str:
        """Of the smallest integer: itself (`false`: that is no undefined value)."""
        if kind.is_float:
            return self.intrinsic("fabs", kind, *args)
        t = self.type(kind)
        return self.call(t, f"llvm.abs.{self.suffix(kind)}", [(t, args[0]), ("i1", "false")])

    def shift(self, name: str, kind: Scalar, args: list[str]) -> str:
        """By a count modulo the width: more would be undefined."""
        t = self.type(kind)
        count = self.let(f"and {t} {args[1]}, {self.number(kind, str(kind.bits - 1))}")
        return self.let(f"{name} {t} {args[0]}, {count}")

    def divisor(self, kind: Scalar, b: str) -> tuple[str, str, str]:
        """A divisor that no hardware traps at, 1 instead of 0 and -1; whether it is 0, and whether it is -1."""
        t, b1 = self.type(kind), self.type(bool_)
        trap = zero = self.let(f"icmp eq {t} {b}, {self.number(kind, '0')}")
        minus = ""
        if kind.kind == "i":  # the smallest integer by -1 is out of range
            minus = self.let(f"icmp eq {t} {b}, {self.number(kind, '-1')}")
            trap = self.let(f"or {b1} {zero}, {minus}")
        return self.let(f"select {b1} {trap}, {t} {self.number(kind, '1')}, {t} {b}"), zero, minus

    def divide(self, kind: Scalar, args: list[str]) -> str:
        """Integers: by zero gives 0; the smallest one by -1 wraps."""
        t, b1, (a, b) = self.type(kind), self.type(bool_), args
        if kind.is_float:
            return self.let(f"fdiv {t} {a}, {b}")
        signed, zeros = kind.kind == "i", self.number(kind, "0")
        safe, zero, minus = self.divisor(kind, b)
        q = self.let(f"{'sdiv' if signed else 'udiv'} {t} {a}, {safe}")
        if signed:
            negated = self.let(f"sub {t} {zeros}, {a}")
            q = self.let(f"select {b1} {minus}, {t} {negated}, {t} {q}")
        return self.let(f"select {b1} {zero}, {t} {zeros}, {t} {q}")

    def remainder(self, kind: Scalar, args: list[str]) -> str:
        """Integers: by 1, -1 and (by definition) 0 it is 0."""
        t, (a, b) = self.type(kind), args
        if kind.is_float:
            return self.let(f"frem {t} {a}, {b}")
        return self.let(f"{'srem' if kind.kind == 'i' else 'urem'} {t} {a}, {self.divisor(kind, b)[0]}")

    def sign_bits(self, kind: Scalar, args: list[str]) -> str:
        """Of scalars by one comparison of a vector, which LLVM makes the operands for."""
        if self.lanes > 1:
            bits = [self.let(f"lshr {self.type(kind)} {a}, {self.number(kind, str(kind.bits - 1))}") for a in args]
            made = bits[0]
            for k, bit in enumerate(bits[1:], 1):
                made = self.let(
                    f"or {self.type(kind)} {made}, {self.shift('shl', kind, [bit, self.number(kind, str(k))])}"
                )
            return made
        vector = "poison"
        for k, a in enumerate(args):
            vector = self.let(
                f"insertelement <8 x i1> {vector}, i1 {self.let(f'icmp slt {self.type(kind)} {a}, 0')}, i32 {k}"
            )
        byte = self.let(f"bitcast <8 x i1> {vector} to i8")
        return byte if kind.bits == 8 else self.let(f"zext i8 {byte} to {self.type(kind)}")

    def cast(self, a: str, source: Scalar, target: Scalar) -> str:
        if float16 in (source, target) and float32 not in (source, target) and bool_ is not target:
            if source is target:
                return a
            return self.cast(self.cast(a, source, float32), float32, target)  # hardware has no other conversions
        s, t = self.type(source), self.type(target)
        signed = "s" if source.kind == "i" else "u"
        if s == t:
            return a
        if target is bool_:
            none = self.number(source, "0.0" if source.is_float else "0")
            return self.let(f"fcmp une {s} {a}, {none}" if source.is_float else f"icmp ne {s} {a}, {none}")
        if source.is_float and target.is_float:
            return self.let(f"{'fptrunc' if source.bits > target.bits else 'fpext'} {s} {a} to {t}")
        if source.is_float:
            name = f"llvm.fpto{'s' if target.kind == 'i' else 'u'}i.sat.{self.suffix(target)}.{self.suffix(source)}"
            return self.call(t, name, [(s, a)])
        if target.is_float:
            return self.let(f"{signed}itofp {s} {a} to {t}")
        narrower = source is not bool_ and source.bits > target.bits
        return self.let(f"{'trunc' if narrower else 'sext' if signed == 's' else 'zext'} {s} {a} to {t}")

    def reinterpret(self, a: str, source: Scalar, target: Scalar) -> str:
        s, t = self.type(source), self.type(target)
        return a if s == t else self.let(f"bitcast {s} {a} to {t}")


SPECIAL: dict[str, Callable[[Writer, Scalar, list[str]], str]] = {
    "div": Writer.divide,
    "mod": Writer.remainder,
    "abs": Writer.absolute,
    "shl": lambda w, kind, args: w.shift("shl", kind, args),
    "shr": lambda w, kind, args: w.shift("ashr" if kind.kind == "i" else "lshr", kind, args),
    "from_end": Writer.from_end,
    "in_bounds": Writer.same,
    "sign_bits": Writer.sign_bits,
}
"""Rules of the rows that no single instruction does; casts, which have two types, are `Writer.cast`."""

if missing := {r.name for r in OPS.values() if isinstance(r.llvm, Special) and r.result != "free"} - set(SPECIAL):
    raise NotImplementedError(f"the LLVM back end has no rules for the primitives {sorted(missing)}")
