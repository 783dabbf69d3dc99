"""Constraints are declared once, as C(x) of points; everything else follows from that (D10).

    @constraint(points=2)
    def distance(x, rest: float):
        '''Distance of two points minus its rest value.  C [m].'''
        return sim.length(x[0] - x[1]) - rest

A constraint sees points, not particles.  Its gradient, projection, energy and force are derived by the compiler
(`projection.py`), its key in a scene is its name, and the tests iterate over `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from sim.core.lang.errors import SimError, did_you_mean
from sim.core.lang.frontend import trace_function
from sim.core.lang.function import Function, local_annotations
from sim.core.lang.ir import Func
from sim.core.lang.source import caller_locals
from sim.core.lang.tangent import Gradient, vjp_rule
from sim.core.lang.types import Scalar, Type, float32, vector

Factor = Callable[[np.ndarray, np.ndarray], np.ndarray]


class ConstraintError(SimError):
    """A constraint that cannot be used as declared."""


@dataclass(frozen=True)
class ConstraintParameter:
    """A parameter of C.  `kind` is "float" (the model's precision) or "vec3"."""

    name: str
    kind: str
    unit: str = ""
    doc: str = ""
    default: float | None = None

    def type(self, real: Scalar) -> Type:
        return real if self.kind == "float" else vector(3, real)


@dataclass(eq=False)
class Constraint:
    """A constraint type.

    points:     number of points that C takes, as the tuple of vec3 `x`.
    rows:       number of values of C; several are solved together as one block.
    internal:   C refers to the points only, so that its forces add up to nothing.
    unilateral: C >= 0 is wanted instead of C = 0.
    factors:    kind of object -> (length, area) -> compliance per element of a material with compliance 1.
    """

    name: str
    points: int
    function: Function
    parameters: dict[str, ConstraintParameter]
    rows: int = 1
    internal: bool = True
    unilateral: bool = False
    doc: str = ""
    factors: dict[str, Factor] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    measure: Function | None = None

    def factor(self, kind: str) -> Callable[[Factor], Factor]:
        """Decorator: how a material compliance becomes the compliance of one element on objects of this kind."""

        def wrap(f: Factor) -> Factor:
            self.factors[kind] = f
            return f

        return wrap

    def rest(self, function: Callable[..., Any]) -> Function:
        """Decorator: a function of the language that measures the parameters of C, in order, on the rest shape."""
        self.measure = Function(function)
        return self.measure

    @property
    def measured(self) -> tuple[str, ...]:
        """Parameters that are measured on the rest shape where they are not given.

        `rest` is, where it has as many components as C has rows: another one cannot be the value of C.
        """
        if self.measure is not None:
            return tuple(self.parameters)
        size = {"float": 1, "vec3": 3}[self.parameters["rest"].kind] if "rest" in self.parameters else 0
        return ("rest",) if size == self.rows else ()

    def argument_types(self, real: Scalar) -> list[Any]:
        return [(vector(3, real),) * self.points, *(p.type(real) for p in self.parameters.values())]

    def traced(self, real: Scalar = float32) -> Func:
        """C as a pure function of the components of its points, then of its parameters.  Yields `rows` values."""
        return _traced(self, real)

    def gradient(self, real: Scalar = float32) -> Gradient:
        """The vector-Jacobian product of C with respect to its points."""
        return _gradient(self, real)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<constraint {self.name}>"


@cache
def _traced(c: Constraint, real: Scalar) -> Func:
    func = trace_function(c.function, c.argument_types(real), real=real)
    if len(func.body.yields) != c.rows:
        raise ConstraintError(
            f"constraint '{c.name}' returns {len(func.body.yields)} values and declares rows={c.rows}; "
            f"write @constraint(points={c.points}, rows={len(func.body.yields)})"
        )
    return func


@cache
def _gradient(c: Constraint, real: Scalar) -> Gradient:
    return vjp_rule(_traced(c, real), range(3 * c.points))


REGISTRY: dict[str, Constraint] = {}
"""Every declared constraint by name."""


def constraint(
    points: int, rows: int = 1, internal: bool = True, unilateral: bool = False, name: str | None = None, units: dict[str, str] | None = None
) -> Callable[[Callable[..., Any]], Constraint]:
    """Declare a constraint: decorates C(x, parameters...), a function of the kernel language.

    x is a tuple of `points` vec3; a parameter annotated `float` takes the precision of the model, `sim.vec3` too.
    A parameter called `rest` that is not given is measured: C of the rest shape with rest = 0; another one takes its
    default in Python, if it has one.
    units: unit of each parameter, for messages and the documentation.
    """
    if points < 1 or not 1 <= rows <= 6:
        raise ConstraintError(f"a constraint has at least one point and one to six rows, not {points} and {rows}")
    caller = caller_locals()

    def wrap(python: Callable[..., Any]) -> Constraint:
        function = Function(python, name, local_annotations(python, caller))
        described = function.parameters(float32)[1:]
        parameters = {}
        for p in described:
            kind = "float" if p.type in (None, float32) else "vec3" if p.type is vector(3, float32) else ""
            if not kind:
                raise ConstraintError(f"parameter '{p.name}' of constraint '{function.name}' is {p.type}; expected float or sim.vec3")
            default = float(p.default) if isinstance(p.default, int | float) else None
            parameters[p.name] = ConstraintParameter(p.name, kind, (units or {}).get(p.name, ""), default=default)
        # While tracing, every parameter takes the precision of the model: `float` means it, vectors are left open.
        precise = {p: float if q.kind == "float" else Any for p, q in parameters.items()}
        function = Function(python, name, precise)
        made = Constraint(function.name, points, function, parameters, rows, internal, unilateral, python.__doc__ or "", units=units or {})
        REGISTRY[made.name] = made
        return made

    return wrap


def find_constraint(given: Any, known: Iterable[str] | None = None) -> Constraint:
    """The constraint itself, or the registered one of that name."""
    if isinstance(given, Constraint):
        return given
    if given in REGISTRY:
        return REGISTRY[given]
    raise ConstraintError(f"there is no constraint '{given}'{did_you_mean(str(given), known or REGISTRY)}; registered are {', '.join(sorted(REGISTRY))}")
