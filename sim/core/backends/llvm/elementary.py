"""Elementary functions in single precision as arithmetic: in lanes as in single threads, and the same bits everywhere.

A call of the C library takes one number, saves all vector registers around it, and its last bits are the library's.
"""

from __future__ import annotations

import math

from sim.core.backends.llvm.writer import Writer, literal
from sim.core.lang.types import Scalar, bool_, float32

_COEFFICIENTS = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_TAN_PI_8 = 0.41421356
_LARGE = 2.0**125


class ElementaryWriter(Writer):
    """Writes primitives, with functions of its own instead of calls."""

    @staticmethod
    def is_inline(name: str, kind: Scalar) -> bool:
        """Is a function of the C library arithmetic here?"""
        return name == "atan2" and kind is float32

    def arithmetic(self, name: str, kind: Scalar, args: list[str]) -> str:
        """One row of the table on operands of type `kind`."""
        return self.atan2(*args) if self.is_inline(name, kind) else super().arithmetic(name, kind, args)

    def atan2(self, y: str, x: str) -> str:
        """atan2 of float32, within 3 units in the last place; of zeros, infinities and NaN as in C99, Annex F.

        The polynomial for atan up to tan(pi / 8), and the reduction to it, are those of S. L. Moshier's Cephes library
        (`atanf`); there is one division, by the larger argument or by both.
        """
        t, b = self.type(float32), self.type(bool_)

        def number(value: float) -> str:
            return self.number(float32, literal(value, float32))

        def do(how: str, left: str, right: str) -> str:
            return self.let(f"f{how} {t} {left}, {right}")

        def choose(test: str, left: str, right: str, yes: str, no: str) -> str:
            return self.let(f"select {b} {self.let(f'fcmp {test} {t} {left}, {right}')}, {t} {yes}, {t} {no}")

        rise, run = (self.intrinsic("fabs", float32, a) for a in (y, x))
        big, small = choose("ogt", rise, run, rise, run), choose("ogt", rise, run, run, rise)
        infinite = [self.let(f"fcmp oeq {t} {a}, {number(math.inf)}") for a in (big, small)]
        both = self.let(f"and {b} {infinite[0]}, {infinite[1]}")
        big, small = (self.let(f"select {b} {both}, {t} {number(1.0)}, {t} {a}") for a in (big, small))
        scale = choose("ogt", big, number(_LARGE), number(0.25), number(1.0))  # their sum is in range
        big, small = do("mul", big, scale), do("mul", small, scale)
        upper = small, do("mul", big, number(_TAN_PI_8))
        above = choose("ogt", *upper, do("sub", small, big), small)
        below = choose("ogt", *upper, do("add", small, big), big)
        r = do("div", above, choose("oeq", below, number(0.0), number(1.0), below))
        z, p = do("mul", r, r), number(_COEFFICIENTS[0])
        for c in _COEFFICIENTS[1:]:
            p = do("add", do("mul", p, z), number(c))
        angle = do("add", do("mul", do("mul", p, z), r), r)
        angle = choose("ogt", *upper, do("add", angle, number(math.pi / 4)), angle)
        angle = choose("ogt", rise, run, do("sub", number(math.pi / 2), angle), angle)
        side = self.intrinsic("copysign", float32, number(1.0), x)
        angle = choose("olt", side, number(0.0), do("sub", number(math.pi), angle), angle)
        return self.intrinsic("copysign", float32, angle, y)
