"""Branches beside the springs of a constraint: stiffness that relaxes, and stiffness that yields.

Every row s(x) that C pulls back to 0 and that damping acts on may have branches in parallel, each a spring of r_k times
its stiffness in series with something that gives way, so that the spring sees s - q_k:

    E = (s^2 + sum_k r_k (s - q_k)^2) / (2 alpha)

In a scene, `branches: [{stiffness: 0.25, time: 30 ms}, {stiffness: 0.1, yield: 0.01}]` among the keys of a constraint;
each number may be sought. r_k is `stiffness`, and what gives way is

* with `time`, a dashpot: dq/dt = (s - q) / tau. All of them together are a Prony series (generalised Maxwell model): at
  a strain that is held, the stiffness is 1 + sum_k r_k exp(-t / tau_k) times the lasting one (J. C. Simo, T. J. R.
  Hughes, "Computational Inelasticity", 1998, ch. 10);
* with `yield`, a slider: |s - q| never exceeds the yield strain y, and q follows where it would. That is a Jenkin
  element, several of them Iwan's model of internal friction (W. D. Iwan, "A Distributed-Element Model for Hysteresis
  and Its Steady-State Dynamic Response", 1966). At the amplitude a > y of s it dissipates 4 r y (a - y) / alpha in a
  cycle, whatever the frequency: of a mass on a spring, the damping ratio 2 r y (a - y) / (pi a^2), which rises while a
  swing decays down to a = 2 y. |s - q| is the norm of all rows that have branches: in a solid, von Mises' criterion.
  In an element that bends, its mean, bending (by the strain at its faces) and twist yield each by itself.

A yield strain is one of the material: where a compliance c becomes alpha by the mesh, that with the energy density
strain^2 / (2 c) (of an edge of cloth, its elongation over its length); else it has the unit of C.

With share_k = r_k / (1 + sum r) that is, up to what does not depend on x, the energy of the rows s - sum share_k q_k
with alpha / (1 + sum r): branches cost a step their evolution, and the projection no more than a load.

q follows a strain that grows evenly over the step, from s(x) to s(x + dt v): second order in dt. For a dashpot the
solution is exact (R. L. Taylor, K. S. Pister, G. L. Goudreau, "Thermomechanical Analysis of Viscoelastic Solids",
1970), for a slider it is the radial return. In float32 q comes within about 1e-7 tau / dt of its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from sim.constraints.base import Constraint, ConstraintError, ConstraintParameter, MaterialLaw
from sim.core.lang.embedding import embed, traced
from sim.core.lang.frontend.builtins import sqrt, static, tanh
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.ir.core import Func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float32

STIFFNESS = ConstraintParameter(
    "stiffness", "float", "", "stiffness of the branch over the lasting one", bounds="[0, inf)"
)
GIVES_WAY = {
    "time": ConstraintParameter("time", "float", "s", "relaxation time, of a branch that relaxes", bounds="(0, inf)"),
    "yield": ConstraintParameter(
        "yield", "float", "", "strain that a branch which yields never exceeds (friction)", bounds="(0, inf)"
    ),
}
"""By which key of a branch it relaxes or yields."""
_SUFFIX = {"time": "relaxing", "yield": "yielding"}


def may_branch(c: Constraint) -> bool:
    """Has this constraint rows that may have branches?  Those that are elastic and that damping acts on."""
    return c.internal and not c.unilateral and not c.internal_variables and bool(_branching(c))


def _branching(c: Constraint) -> tuple[int, ...]:
    return tuple(r for r in range(c.rows) if c.elastic[r] and c.damped[r])


@dataclass(frozen=True, eq=False)
class BranchedLaw(MaterialLaw):
    """The law of a constraint with branches: its own values, or its compliance; then two of each branch.

    function: the own law, or that of a compliance; size: that of the own law, or the factor of the compliance.
    """

    own: Constraint = field(kw_only=True)

    def traced(self, real: Scalar) -> Func:
        count = len(self.values) - self.branches
        return traced(_law(self, real), [(real,) * count, (real,) * self.branches, real], real)

    @property
    def branches(self) -> int:
        """Number of the values that are of branches."""
        return sum(name.startswith("branches.") for name in self.values)


@dataclass(eq=False)
class BranchedConstraint(Constraint):
    """`own` with branches; `gives`: the key of `GIVES_WAY` of each.  Made by `branched`.

    Parameters of C: those of `own`; `inner`, q of each branch, row by row; share and time or yield strain of each;
    scale: strain of this constraint over that in which yield strains are given.
    """

    anticipates: ClassVar[bool] = True

    own: Constraint = field(kw_only=True)
    gives: tuple[str, ...] = field(kw_only=True)

    @property
    def has_moduli(self) -> bool:
        return self.own.has_moduli

    @property
    def measured(self) -> tuple[str, ...]:
        return self.own.measured

    def argument_types(self, real: Scalar) -> list[Any]:
        points, *own = self.own.argument_types(real)
        each = (real,) * len(self.gives)
        return [points, tuple(own), self.parameters["inner"].type(real), each, each, real]

    @property
    def branching(self) -> tuple[int, ...]:
        """The rows that have branches."""
        return _branching(self.own)

    def evolution_types(self, real: Scalar) -> list[Any]:
        points, *parameters = self.argument_types(real)
        return [points, points, *parameters, real]

    def traced(self, real: Scalar = float32) -> Func:
        return traced(_functions(self, real)[0], self.argument_types(real), real)

    @property
    def stores_energy(self) -> bool:
        return True

    def stored(self, real: Scalar) -> Func:
        return traced(_functions(self, real)[1], self.argument_types(real), real)

    def evolved(self, real: Scalar) -> Func:
        return traced(_functions(self, real)[2], self.evolution_types(real), real)

    def __hash__(self) -> int:
        return id(self)


@memoize
def branched(c: Constraint, gives: tuple[str, ...]) -> BranchedConstraint:
    """The constraint with branches that give way by these keys of `GIVES_WAY`.  Raises ConstraintError."""
    if not may_branch(c):
        raise ConstraintError(
            f"constraint '{c.name}' has no rows that may have branches: none is elastic, damped and without internal "
            "variables; use `stvk`, `deviatoric`, `distance` or another of this kind"
        )
    count, numbers = len(gives), range(len(gives))
    ways = {f"{key}_{k}": replace(GIVES_WAY[key], name=f"{key}_{k}") for k, key in enumerate(gives)}
    shares = {f"share_{k}": ConstraintParameter(f"share_{k}", "float") for k in numbers}
    inner = ConstraintParameter("inner", "row", length=count * len(_branching(c)))
    scale = ConstraintParameter("scale", "float")
    values = {"compliance": ConstraintParameter("compliance", "float")} if c.law is None else c.law.values
    branches = {
        f"branches.{k}.{key}": parameter
        for k in numbers
        for key, parameter in (("stiffness", STIFFNESS), (gives[k], GIVES_WAY[gives[k]]))
    }
    function, kind = (compliance_of_element, "") if c.law is None else (c.law.function, c.law.kind)
    settings = {f.name: getattr(c, f.name) for f in fields(Constraint)}
    settings |= {
        "name": "_".join((c.name, *(_SUFFIX[key] for key in gives))),
        "parameters": {**c.parameters, "inner": inner, **shares, **ways, "scale": scale},
        "law": BranchedLaw(function, {**values, **branches}, (*c.derived, *shares, *ways), kind, own=c),
        "internal_variables": ("inner",),
    }
    return BranchedConstraint(**settings, own=c, gives=gives)


@func
def compliance_of_element(compliance, factor):
    """alpha of a constraint without a material law."""
    return compliance * factor


# ------------------------------------------------------------------------------------------ in the language


@memoize
def _law(law: BranchedLaw, real: Scalar) -> Function:
    """(own values, values of the branches, size) -> alpha of the rows, own derived parameters, shares, ways."""
    c, count = law.own, law.branches // 2
    branching, derived, alike = _branching(c), len(c.derived), c.law is None
    types = [real] * (len(law.values) - law.branches + 1)
    own_law = embed(lambda: traced(law.function, types, real), f"law_of_{c.name}")

    @func
    def law_with_branches(own, branches, size):
        total = 1.0 + sum([branches[2 * k] for k in static(range(count))])
        found = own_law(own, size)
        alphas = [found[0] if alike else found[r] for r in static(range(c.rows))]
        alphas = [alphas[r] / total if r in branching else alphas[r] for r in static(range(c.rows))]
        others = [found[c.rows + i] for i in static(range(derived))]
        shares = [branches[2 * k] / total for k in static(range(count))]
        return alphas + others + shares + [branches[2 * k + 1] for k in static(range(count))]

    return law_with_branches


@memoize
def _functions(c: BranchedConstraint, real: Scalar) -> tuple[Function, Function, Function]:
    """C, what the branches hold beside it, and their evolution law; see `Constraint`."""
    branching, gives, n = _branching(c.own), c.gives, c.rows
    m, count = len(branching), len(gives)
    slots = tuple(branching.index(r) if r in branching else None for r in range(n))
    row = c.parameters["inner"].type(real)
    own_rows = embed(lambda: c.own.traced(real), f"{c.own.name}_at")

    @func
    def mean(inner, shares, i):
        """sum of share q, of row i of those with branches."""
        return sum([shares[k] * inner[k * m + i] for k in static(range(count))])

    @func
    def rows_with_branches(x, own, inner, shares, ways, scale):
        C = own_rows(x, own)
        return [C[r] if slots[r] is None else C[r] - mean(inner, shares, slots[r]) for r in static(range(n))]

    @func
    def held(inner, shares, i):
        """sum of share q^2 minus (sum of share q)^2, of row i of those with branches."""
        squares = sum([shares[k] * inner[k * m + i] * inner[k * m + i] for k in static(range(count))])
        return squares - mean(inner, shares, i) * mean(inner, shares, i)

    @func
    def held_beside(x, own, inner, shares, ways, scale):
        return [real(0.0) if slots[r] is None else held(inner, shares, slots[r]) for r in static(range(n))]

    @func
    def evolution(x, ahead, own, inner, shares, ways, scale, dt):
        before, after = own_rows(x, own), own_rows(ahead, own)
        q = row()
        for k in static(range(count)):
            elastic = [after[branching[i]] - inner[k * m + i] for i in static(range(m))]
            if gives[k] == "time":
                gain, late = relaxed(dt / ways[k])
                for i in static(range(m)):
                    growth = after[branching[i]] - before[branching[i]]
                    q[k * m + i] = inner[k * m + i] + gain * (elastic[i] - growth) + late * growth
            else:
                slipped = slip(sum([e * e for e in elastic]), ways[k] * scale)
                for i in static(range(m)):
                    q[k * m + i] = inner[k * m + i] + slipped * elastic[i]
        return q

    return rows_with_branches, held_beside, evolution


@func
def relaxed(z):
    """1 - exp(-z), and the part of the growth of a strain in a step of z times tau that q has followed: 1 - that / z.

    By the hyperbolic tangent: without cancellation for short steps.
    """
    t = tanh(0.5 * z)
    gain = 2.0 * t / (1.0 + t)
    return gain, 1.0 - gain / z


@func
def slip(square, limit):
    """By which part of a strain, whose square is given, a slider moves: so far that the limit is left."""
    part = 0.0 * limit
    if square > limit * limit:
        part = 1.0 - limit / sqrt(square)
    return part
