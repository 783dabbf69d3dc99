"""Constraints are declared once, as C(x) of points; everything else follows from that.

    @constraint(points=2)
    def distance(x, rest: float):
        '''Distance of two points minus its rest value.  C [m].'''
        return sim.length(x[0] - x[1]) - rest

A constraint sees points, not particles.  Its gradient, projection, energy and force are derived by the compiler
(`projection.py`), its key in a scene is its name, and the tests iterate over `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sim.constraints.stencils import Stencil
from sim.core.lang.autodiff.forward import Gradient
from sim.core.lang.embedding import gradient_of, traced
from sim.core.lang.errors import SimError, did_you_mean, entry_point
from sim.core.lang.frontend.function import Function, local_annotations
from sim.core.lang.frontend.source import annotation_span, caller_locals
from sim.core.lang.frontend.traced import Members
from sim.core.lang.ir.core import Func
from sim.core.lang.types import Scalar, Type, float32, transformation, vector

Factor = Callable[[np.ndarray, np.ndarray], np.ndarray]
MOST_ROWS = 9
"""Rows are solved together by elimination, whose cost grows with their cube."""


class ConstraintError(SimError):
    """A constraint that cannot be used as declared."""


@dataclass(frozen=True)
class ConstraintParameter:
    """A parameter of C, or of its material law.  `kind` is "float" (the model's precision), "vec3", or "row": a vector
    of `length` entries.

    bounds: the interval that its values lie in, as text, "" for any number.
    """

    name: str
    kind: str
    unit: str = ""
    doc: str = ""
    default: float | None = None
    bounds: str = ""
    length: int = 3

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one value."""
        return () if self.kind == "float" else (self.length,)

    def type(self, real: Scalar) -> Type:
        return real if self.kind == "float" else vector(self.length, real)


@dataclass(frozen=True, eq=False)
class MaterialLaw:
    """How material values become the compliances of one element, and those parameters of C that depend on them.

    function: (values..., size) -> compliance of every row, then the `derived` parameters of C, in the language, so that
    gradients pass; size: of the rest shape of an element, a volume [m^3] for tetrahedra, an area [m^2] for triangles.
    kind: of the objects that it is for, "soft" or "cloth".
    """

    function: Function
    values: dict[str, ConstraintParameter]
    derived: tuple[str, ...] = ()
    kind: str = "soft"

    def traced(self, real: Scalar) -> Func:
        """`function` as a pure function of the values, in order, and the size."""
        return traced(self.function, [real] * (len(self.values) + 1), real)


@dataclass(eq=False)
class Constraint:
    """A constraint type.

    points:     number of points that C takes, as the tuple of vec3 `x`.
    rows:       number of values of C; several are solved together as one block.
    internal:   C refers to the points only, so that its forces add up to nothing.
    unilateral: C >= 0 is wanted instead of C = 0.
    factors:    kind of object -> (length, area) -> compliance per element of a material with compliance 1.
    elastic:    for each row whether C pulls it back to 0.  A row that is not elastic only resists motion.
    damped:     for each row whether it resists motion: by damping / compliance times dC/dt.
    law:        instead of a compliance, users give the values of a material law.
    internal_variables: parameters that a step changes, such as viscous strains: part of the state of each element, 0 in
                the beginning (J. C. Simo, T. J. R. Hughes, "Computational Inelasticity", 1998).
    evolution:  their law: (points, parameters, dt) -> internal variables after a step of dt, from positions and
                internal variables at its start.
    storage:    (points, parameters) -> for each row what the internal variables hold beside C: the energy of a row is
                (C^2 + that) / (2 alpha).  None: nothing.
    stencil:    on which elements of an object a material with it acts; None: those of so many points.
    added_by:   what adds it, where it is no material by itself.
    on_element: kind of element -> the constraints that stand for this one on solids of such elements, all with the
                values of its law; the first of them has one constraint for each element.
    frames:     (0, 1) where the points are two frames, of bodies or the world: C then takes one transform x, the second
                frame as the first sees it, `x.p` and `x.q`.  (0,): C takes the second point as the first, a frame,
                sees it, one vec3 x.
    driven:     C is pulled by a stiffness and a damping that may be zero, parameters `target_ke` and `target_kd`,
                the latter relative to a velocity `target_vel`, instead of resisting with a compliance, which is 1.
    from_start: do its rigid rows push along the gradients at the start of a step, where the solver does not say?
    meeting:    are its points to be one?  Then the forces of a row on bodies act at one place.
    limited:    the parameter that holds the largest force [N] or torque [N m] of a row, "" where there is none.
    reach:      of a contact for each point the parameter that says how far outside of it its surface is, "" for 0;
                empty for all.
    place:      of a contact, where two sides are that touch: of the arguments of C, in what C has its points in; None:
                at its points.
    angular:    the first of the rows that are of angles, behind those of lengths; None where all are of one kind.
    chosen:     of a contact the parameter that is zero where a step has chosen nothing, so that it is open; "" where C
                alone says that.
    unit:       is the gradient of the one row by every point of length 1, wherever C has a gradient?  Then a projection
                need not compute that length, and its adjoint not the derivative of it.
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
    elastic: tuple[bool, ...] = (True,)
    damped: tuple[bool, ...] = (True,)
    law: MaterialLaw | None = None
    internal_variables: tuple[str, ...] = ()
    evolution: Function | None = None
    storage: Function | None = None
    stencil: Stencil | None = None
    added_by: str = ""
    on_element: dict[str, tuple[Constraint, ...]] = field(default_factory=dict)
    frames: tuple[int, ...] = ()
    driven: bool = False
    limited: str = ""
    from_start: bool = False
    meeting: bool = False
    reach: tuple[str, ...] = ()
    angular: int | None = None
    unit: bool = False
    chosen: str = ""
    place: Function | None = None

    anticipates: ClassVar[bool] = False
    """Does the evolution law also take, after the points, where their velocities bring them in the step?"""

    @property
    def of_joint(self) -> bool:
        """Is it part of a joint of bodies?"""
        return self.added_by.startswith("add_joint")

    @property
    def holds_joint(self) -> bool:
        """Does it hold a joint together, whatever moves along the joint?"""
        return self.of_joint and not (self.driven or self.limited or self.unilateral)

    @property
    def dry(self) -> bool:
        """Are its rows those of dry friction, which stop what moves if they can?"""
        return bool(self.limited) and not any(self.elastic)

    def factor(self, kind: str) -> Callable[[Factor], Factor]:
        """Decorator: how a material compliance becomes the compliance of one element on objects of this kind."""

        def wrap(f: Factor) -> Factor:
            self.factors[kind] = f
            return f

        return wrap

    def rest(self, function: Function | Callable[..., Any]) -> Function:
        """Decorator: a function of the language that measures the parameters of C, in order, on the rest shape."""
        self.measure = function if isinstance(function, Function) else Function(function)
        return self.measure

    def material(
        self, *values: ConstraintParameter, derived: tuple[str, ...] = (), kind: str = "soft"
    ) -> Callable[[Callable[..., Any]], Function]:
        """Decorator: the material law of this constraint, a function of the language; see `MaterialLaw`."""

        def wrap(function: Callable[..., Any]) -> Function:
            self.law = MaterialLaw(Function(function), {value.name: value for value in values}, derived, kind)
            return self.law.function

        return wrap

    def evolves(self, *names: str) -> Callable[[Callable[..., Any]], Function]:
        """Decorator: these parameters of C are internal variables, which this function of the language evolves."""

        def wrap(function: Callable[..., Any]) -> Function:
            self.internal_variables = names
            self.evolution = Function(function, None, {**self._precise, "dt": float})
            return self.evolution

        return wrap

    def stores(self, function: Callable[..., Any]) -> Function:
        """Decorator: what the internal variables hold beside C, a function of the language; see `storage`."""
        self.storage = Function(function, None, self._precise)
        return self.storage

    @property
    def _precise(self) -> dict[str, Any]:
        """Annotations of the parameters: vectors are left open, so that they take the precision of the model."""
        return {name: float if parameter.kind == "float" else Any for name, parameter in self.parameters.items()}

    def touched_at(self, function: Callable[..., Any]) -> Function:
        """Decorator: where two sides of a contact touch, a function of the language; see `place`."""
        self.place = Function(function, None, self._precise)
        return self.place

    def remember(self, *names: str) -> Callable[[Callable[..., Any]], Function]:
        """`evolves`, by the name that it had in version 0.1."""
        return self.evolves(*names)

    @property
    def derived(self) -> tuple[str, ...]:
        """Parameters of C that follow from material values."""
        return self.law.derived if self.law is not None else ()

    @property
    def has_moduli(self) -> bool:
        """Is its material given by moduli, and C a strain?  Else by a compliance."""
        return self.law is not None

    @property
    def placed(self) -> tuple[str, ...]:
        """Parameters of C that the stencil gives."""
        return self.stencil.gives if self.stencil is not None else ()

    def active(self, damped: bool) -> tuple[int, ...]:
        """The rows that do anything in a set with or without damping."""
        return tuple(r for r in range(self.rows) if self.elastic[r] or (damped and self.damped[r]))

    def rows_of(self, key: str) -> range:
        """The rows that a compliance is of: `linear_compliance` of lengths, `angular_compliance` of angles."""
        if key == "linear_compliance":
            return range(self.angular or self.rows)
        return range(self.angular or 0, self.rows) if key == "angular_compliance" else range(self.rows)

    @property
    def vectors(self) -> tuple[range, ...]:
        """Rows that have one compliance, together: components of vectors, whose axes are nobody's choice; one by one
        where a law gives each row its own."""
        if self.law is not None:
            return tuple(range(r, r + 1) for r in range(self.rows))
        parts = (self.rows_of(key) for key in ("linear_compliance", "angular_compliance"))
        return tuple(parts) if self.angular else (range(self.rows),)

    @property
    def measured(self) -> tuple[str, ...]:
        """Parameters that are measured on the rest shape where they are not given.

        `rest` is, where it has as many components as C has rows: another one cannot be the value of C.
        """
        if self.measure is not None:
            other = (*self.derived, *self.internal_variables, *self.placed)
            return tuple(name for name in self.parameters if name not in other)
        if "rest" not in self.parameters or "rest" in self.placed:
            return ()
        size = int(np.prod(self.parameters["rest"].shape))
        return ("rest",) if size == self.rows else ()

    def point_types(self, real: Scalar) -> Any:
        """Of what C takes first: a tuple of vec3, or a transform or vec3 where it is what a frame sees."""
        if self.frames:
            return vector(3, real) if self.frames == (0,) else transformation(real)
        return Members(
            (vector(3, real),) * self.points, f"this constraint has {self.points} point{'s' if self.points > 1 else ''}"
        )

    def argument_types(self, real: Scalar) -> list[Any]:
        return [self.point_types(real), *(p.type(real) for p in self.parameters.values())]

    def evolution_types(self, real: Scalar) -> list[Any]:
        """Of the arguments of `evolution`."""
        points = self.point_types(real) if self.frames else (vector(3, real),) * self.points
        return [points, *(p.type(real) for p in self.parameters.values()), real]

    def evolved(self, real: Scalar) -> Func:
        """The evolution law as a pure function of components."""
        assert self.evolution is not None
        return traced(self.evolution, self.evolution_types(real), real)

    def placed_at(self, real: Scalar) -> Func:
        """`place` as a pure function of the components of the points, then of the parameters."""
        assert self.place is not None
        return traced(self.place, self.argument_types(real), real)

    @property
    def stores_energy(self) -> bool:
        """Do the internal variables hold energy beside C?"""
        return self.storage is not None

    def stored(self, real: Scalar) -> Func:
        """`storage` as a pure function of the components of the points, then of the parameters."""
        assert self.storage is not None
        return traced(self.storage, self.argument_types(real), real)

    @entry_point
    def traced(self, real: Scalar = float32) -> Func:
        """C as a pure function of the components of its points, then of its parameters.  Yields `rows` values."""
        func = traced(self.function, self.argument_types(real), real)
        if len(func.body.yields) != self.rows:
            raise ConstraintError(
                f"constraint '{self.name}' returns {len(func.body.yields)} values and declares rows={self.rows}; "
                f"write @constraint(points={self.points}, rows={len(func.body.yields)})"
            )
        return func

    def gradient(self, real: Scalar = float32) -> Gradient:
        """The vector-Jacobian product of C with respect to its points."""
        return gradient_of(self.traced(real), 7 if self.frames == (0, 1) else 3 if self.frames else 3 * self.points)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<constraint {self.name}>"


REGISTRY: dict[str, Constraint] = {}
"""Every declared constraint by name."""


@entry_point
def constraint(
    points: int,
    rows: int = 1,
    internal: bool = True,
    unilateral: bool = False,
    name: str | None = None,
    units: dict[str, str] | None = None,
    elastic: Sequence[bool] | None = None,
    damped: Sequence[bool] | None = None,
    stencil: Stencil | None = None,
    added_by: str = "",
    frames: Sequence[int] = (),
    driven: bool = False,
    limited: str = "",
    from_start: bool = False,
    meeting: bool = False,
    reach: Sequence[str] = (),
    angular: int | None = None,
    unit: bool = False,
    chosen: str = "",
) -> Callable[[Callable[..., Any]], Constraint]:
    """Declare a constraint: decorates C(x, parameters...), a function of the kernel language.

    x is a tuple of `points` vec3, or a transform (see `frames`); a parameter annotated `float` takes the
    precision of the model, `sim.vec3` too.  A parameter called `rest` that is not given is measured: C of the rest
    shape with rest = 0; another one takes its default in Python, if it has one.
    units: unit of each parameter, for messages and the documentation.
    elastic, damped: for each row, whether C pulls it back and whether damping acts on it; both by default.
    stencil, added_by, frames, driven, limited, from_start, meeting, reach, angular, unit, chosen: see `Constraint`.
    """
    if points < 1 or not 1 <= rows <= MOST_ROWS:
        raise ConstraintError(
            f"a constraint has at least one point and one to {MOST_ROWS} rows, not {points} and {rows}"
        )
    if tuple(frames) not in ((), (0,), (0, 1)) or (frames and points != 2):
        raise ConstraintError("a constraint has two points that are frames, frames=(0, 1), the first of two, or none")
    acts = [tuple(given) if given is not None else (True,) * rows for given in (elastic, damped)]
    if any(len(given) != rows for given in acts):
        raise ConstraintError(f"elastic and damped say something about each of the {rows} rows")
    if unit and (rows > 1 or frames):
        raise ConstraintError("unit gradients are those of a constraint with one row, by its points")
    caller = caller_locals(2)

    @entry_point
    def wrap(python: Callable[..., Any]) -> Constraint:
        function = Function(python, name, local_annotations(python, caller))
        described = function.parameters(float32)[1:]
        parameters = {}
        for p in described:
            kind = "float" if p.type in (None, float32) else "vec3" if p.type is vector(3, float32) else ""
            if not kind:
                where = annotation_span(python, p.name)
                what = f"parameter '{p.name}' of constraint '{function.name}' is {p.type}; expected float or sim.vec3"
                raise ConstraintError(f"{where}: {what}\n{where.excerpt()}")
            default = float(p.default) if isinstance(p.default, int | float) else None
            parameters[p.name] = ConstraintParameter(p.name, kind, (units or {}).get(p.name, ""), default=default)
        # While tracing, every parameter takes the precision of the model: `float` means it, vectors are left open.
        precise = {p: float if q.kind == "float" else Any for p, q in parameters.items()}
        function = Function(python, name, precise)
        made = Constraint(
            function.name,
            points,
            function,
            parameters,
            rows,
            internal,
            unilateral,
            python.__doc__ or "",
            units=units or {},
            elastic=acts[0],
            damped=acts[1],
            stencil=stencil,
            added_by=added_by,
            frames=tuple(frames),
            driven=driven,
            limited=limited,
            from_start=from_start,
            meeting=meeting,
            reach=tuple(reach),
            angular=angular,
            unit=unit,
            chosen=chosen,
        )
        REGISTRY[made.name] = made
        return made

    return wrap


def find_constraint(given: Any, known: Iterable[str] | None = None) -> Constraint:
    """The constraint itself, or the registered one of that name."""
    if isinstance(given, Constraint):
        return given
    if given in REGISTRY:
        return REGISTRY[given]
    raise ConstraintError(
        f"there is no constraint '{given}'{did_you_mean(str(given), known or REGISTRY)}; registered are"
        f" {', '.join(sorted(REGISTRY))}"
    )
