"""The standard linear solid: stiffness that relaxes."""

from __future__ import annotations

from sim.constraints.base import ConstraintParameter, constraint
from sim.constraints.tetrahedron import (
    DEVIATORIC,
    POISSON,
    REST,
    THIRD,
    YOUNG,
    deformation,
    gradients,
    lame,
    shape_change,
)
from sim.core.lang.frontend.builtins import exp
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.types import vec3

RELAXING = ConstraintParameter(
    "relaxing", "float", "", "stiffness that relaxes, over the lasting one", bounds="[0, inf)"
)
TIME = ConstraintParameter("time", "float", "s", "relaxation time", bounds="(0, inf)")


@constraint(points=4, rows=6, units={**REST, "time": "s"}, damped=(False, *DEVIATORIC))
def viscoelastic(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float):
    """Standard linear solid: as `stvk`, and beside it a spring in series with a dashpot that resists changes of shape.

    With the viscous strain q (its deviator in the basis of the rows: `normal`, the third component unused, and `shear`)
    and mu' = relaxing mu the energy is V (mu E:E + lambda/2 (tr E)^2 + mu' |dev E - q|^2); up to a constant that is the
    energy of the rows dev E - share q, share = relaxing / (1 + relaxing).  The material is stiffer by 1 + relaxing when
    it is loaded faster than `time`, creeps when it is loaded longer, and damps most at omega = 1 / time, by
    tan delta = 2 zeta of about relaxing / 2.  Rubber needs this: its damping ratio hardly changes with frequency.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    trace = 0.5 * (dot(f0, f0) + dot(f1, f1) + dot(f2, f2) - 3.0)
    rows = lasting(shape_change(f0, f1, f2), normal, shear, share)
    return trace * THIRD, rows[0], rows[1], rows[2], rows[3], rows[4]


viscoelastic.rest(gradients)


@viscoelastic.material(YOUNG, POISSON, RELAXING, TIME, derived=("share", "time"))
def viscoelastic_material(young: float, poisson: float, relaxing: float, time: float, volume: float):
    """alpha of the rows, share and time; E and nu are those of slow loading."""
    mu, la = lame(young, poisson)
    shape = 1.0 / (2.0 * mu * (1.0 + relaxing) * volume)
    return 1.0 / ((2.0 * mu + 3.0 * la) * volume), shape, shape, shape, shape, shape, relaxing / (1.0 + relaxing), time


@viscoelastic.evolves("normal", "shear")
def viscoelastic_evolution(
    x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float, dt: float
):
    """dq/dt = (dev E - q) / time, exactly for a strain that stays."""
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return relaxed(shape_change(f0, f1, f2), normal, shear, 1.0 - exp(-dt / time))


@viscoelastic.stores
def viscoelastic_storage(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float):
    """share (1 - share) |q|^2, row by row: mu' |dev E - q|^2 and mu |dev E|^2 less that of dev E - share q."""
    held = stored(normal, shear, share)
    return 0.0 * share, held[0], held[1], held[2], held[3], held[4]


@constraint(points=4, rows=5, units={**REST, "time": "s"})
def viscoelastic_shape(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float):
    """The part of `viscoelastic` that resists changes of shape;
    together with `cell_volume` a solid that does not lock."""
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return lasting(shape_change(f0, f1, f2), normal, shear, share)


viscoelastic_shape.rest(gradients)


@viscoelastic_shape.material(YOUNG, POISSON, RELAXING, TIME, derived=("share", "time"))
def viscoelastic_shape_material(young: float, poisson: float, relaxing: float, time: float, volume: float):
    """alpha of the rows, share and time; E and nu are those of slow loading."""
    mu, _ = lame(young, poisson)
    shape = 1.0 / (2.0 * mu * (1.0 + relaxing) * volume)
    return shape, shape, shape, shape, shape, relaxing / (1.0 + relaxing), time


@viscoelastic_shape.evolves("normal", "shear")
def viscoelastic_shape_evolution(
    x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float, dt: float
):
    """As in `viscoelastic`."""
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return relaxed(shape_change(f0, f1, f2), normal, shear, 1.0 - exp(-dt / time))


@viscoelastic_shape.stores
def viscoelastic_shape_storage(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float):
    """As in `viscoelastic`."""
    return stored(normal, shear, share)


@func
def stored(normal, shear, share):
    """share (1 - share) q^2 of each row."""
    part = share * (1.0 - share)
    return (
        part * normal[0] * normal[0],
        part * normal[1] * normal[1],
        part * shear[0] * shear[0],
        part * shear[1] * shear[1],
        part * shear[2] * shear[2],
    )


@func
def lasting(s, normal, shear, share):
    """The rows dev E - share q."""
    return (
        s[0] - share * normal[0],
        s[1] - share * normal[1],
        s[2] - share * shear[0],
        s[3] - share * shear[1],
        s[4] - share * shear[2],
    )


@func
def relaxed(s, normal, shear, gain):
    """q + gain (dev E - q), as the components of `normal` and `shear`."""
    return (
        normal[0] + gain * (s[0] - normal[0]),
        normal[1] + gain * (s[1] - normal[1]),
        normal[2],
        shear[0] + gain * (s[2] - shear[0]),
        shear[1] + gain * (s[3] - shear[1]),
        shear[2] + gain * (s[4] - shear[2]),
    )
