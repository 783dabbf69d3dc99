"""The kernels of the project in the form in which a tape launches them: forward, with records, and their adjoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from sim.constraints import REGISTRY, Constraint
from sim.constraints.damping.branches import branched
from sim.constraints.damping.evolution import make_evolution
from sim.constraints.projection import make_projection
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.projection import make_slot_projection
from sim.constraints.warm_start import make_softness, make_warm_start
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import Func, emit
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import SCALARS, ArrayType, Scalar, array_type, bool_, float16, has_float
from sim.core.runtime.launch.kernel import Kernel
from sim.model.derived.coordinates import kinematic_kernels
from sim.model.energy import make_energy, make_force
from sim.solvers.air import drag_kernels
from sim.solvers.bodies import body_kernels
from sim.solvers.integrators.leapfrog import leapfrog_kernels
from sim.solvers.integrators.step_kernels import step_kernels
from sim.solvers.joints import joint_kernels
from tools.backends.kernels import kernel
from tools.backends.operands import CASES
from tools.cuda.on_cpu import Batch, renamed
from tools.library.cases import ALL, FUNCTIONS, IDS, as_kernel, sample
from tools.library.rows import REAL
from tools.library.traced import calling, flat_args, is_real


@dataclass(frozen=True)
class Variant:
    """A function of the IR; role: "forward", "recording" or "adjoint"; colored: its launches promise exclusive
    arrays."""

    func: Func
    role: str
    colored: bool


def contiguous(func: Func, name: str) -> Func:
    """The function as it is compiled for arrays that are packed in memory."""
    packed = frozenset(k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType))
    return Func(name, func.body, func.span, func.dims, {**func.attrs, "packed": packed})


def variants(
    kernel: Kernel, name: str, together: tuple[str, ...] = (), passive: tuple[str, ...] = ()
) -> Iterator[Variant]:
    """A kernel and its adjoint.  together: parameters that are one array at a launch; passive: arrays without
    gradient."""
    spec = kernel.specialise(tuple(p.type for p in kernel.parameters))  # type: ignore[misc]
    params = spec.func.params
    colored = bool(kernel.exclusive)
    yield Variant(contiguous(spec.func, name), "forward", colored)
    active = frozenset(
        k
        for k, p in enumerate(params)
        if isinstance(p.type, ArrayType) and has_float(p.type.dtype) and p.name not in passive
    )
    group = frozenset(k for k, p in enumerate(params) if p.name in together)
    aliases = (group,) if len(group) > 1 else ()
    made = spec.differentiated(active, aliases)
    pair = made.adjoint(made.candidates)
    if pair.forward is not None:
        yield Variant(contiguous(pair.forward.func, f"{name}_recording"), "recording", colored)
    yield Variant(contiguous(pair.adjoint.func, f"{name}_adjoint"), "adjoint", colored)


LARGE = (
    "project_neo_hookean_first_own", "project_stvk_next_own", "project_viscoelastic_first_own",
    "project_deviatoric_first_own",
    "project_cell_volume_next_own", "push_neo_hookean", "softness_deviatoric",
    "project_contact_point_triangle_next_own", "project_contact_edge_edge_first_own",
    "warm_start_bounded_cell_volume", "force_stvk", "energy_stvk", "flow_",
)  # fmt: skip
"""Kernels that stand for those of solids, which are large: every constraint once, and every kind of kernel once."""


BRANCHED = ("contact_point_triangle", "contact_edge_edge", "contact_ball_triangle", "contact_capsule_edge")
"""Constraints with a branch for every part of a triangle or edge that may be the nearest."""


def is_large(c: Constraint) -> bool:
    """Constraints of many rows, points or branches."""
    return c.rows > 3 or c.points > 4 or c.name in BRANCHED


ON_BODIES = (("distance", "pa"), ("revolute", "ab"), ("drive_angle", "wa"), ("friction_angle", "ab"))
"""Constraints on bodies that stand for the others: several rows, rows of frames, of stiffness, with a limit."""


def slot_variants(c: Constraint, real: Scalar, kinds: str) -> list[Variant]:
    """The projection of a constraint on bodies, with all that it may have, and with little."""
    out: list[Variant] = []
    for first in (True, False):
        kernel = partial(make_slot_projection, c, Slots(kinds), real, first, not first, not first, first)
        label = f"project_{c.name}_{kinds}_{'first' if first else 'next'}"
        out += _lazily(kernel, label, (), ("x_ref",))
    return out


@cache
def solver_variants(real: Scalar) -> list[Variant]:
    """The kernels of the constraints of the project, and those that solvers share; of solids one of each kind."""
    out: list[Variant] = []
    for c in REGISTRY.values():
        if not c.function.__module__.startswith("sim.constraints"):
            continue
        if c.frames or c.added_by.startswith("add_joint"):
            continue
        made: dict[str, Callable[[], Iterator[Variant]]] = {}
        for first in (True, False):
            for own in (True, False):
                label = f"project_{c.name}_{'first' if first else 'next'}_{'own' if own else 'shared'}"
                kernel = partial(make_projection, c, real, first, not first, False, own)
                made[label] = partial(_lazily, kernel, label, ("particle", "x_out"), ("x_ref",))
        label = f"project_{c.name}_averaged"
        made[label] = partial(_lazily, partial(make_projection, c, real, False, True, True), label, (), ("x_ref",))
        if not c.unilateral:
            made[f"warm_start_{c.name}"] = partial(
                _lazily,
                partial(make_warm_start, c, Slots.of_particles(c.points), real, True, True, True),
                f"warm_start_{c.name}",
            )
            if c.law is not None:
                label = f"warm_start_bounded_{c.name}"
                made[label] = partial(
                    _lazily,
                    partial(make_warm_start, c, Slots.of_particles(c.points), real, False, True, False, True),
                    label,
                    passive=("sharing",),
                )
                made[f"softness_{c.name}"] = partial(
                    _lazily, partial(make_softness, c, real, True), f"softness_{c.name}"
                )
            made[f"force_{c.name}"] = partial(_lazily, partial(make_force, c, real), f"force_{c.name}")
            made[f"energy_{c.name}"] = partial(_lazily, partial(make_energy, c, real), f"energy_{c.name}")
        for m in c.internal_variables:
            evolution = partial(make_evolution, c, Slots.of_particles(c.points), real, m)
            made[f"evolve_{c.name}_{m}"] = partial(_lazily, evolution, f"evolve_{c.name}_{m}")
        for label, of in made.items():
            if not is_large(c) or label.startswith(LARGE):
                out += of()
    for name, kinds in ON_BODIES:
        out += slot_variants(REGISTRY[name], real, kinds)
    movers = *body_kernels(real), *joint_kernels(real), *kinematic_kernels(real), *leapfrog_kernels(real)
    for kernel in movers:
        out += variants(kernel, kernel.name, (), ("clock", "clock_out"))
    rheology = branched(REGISTRY["distance"], ("time", "yield"))
    out += _lazily(partial(make_evolution, rheology, Slots.of_particles(2), real, "inner"), f"evolve_{rheology.name}")
    for kernel in {k.name: k for ahead in (False, True) for k in drag_kernels(real, ahead)}.values():
        out += variants(kernel, kernel.name, (), ())
    for kernel in vars(step_kernels(real, True)).values():
        out += variants(kernel, kernel.name, (), ("clock", "clock_out"))
    return out


def _lazily(
    kernel: Callable[[], Kernel], name: str, together: tuple[str, ...] = (), passive: tuple[str, ...] = ()
) -> Iterator[Variant]:
    return variants(kernel(), name, together, passive)


def row_kernel(name: str, kind: Scalar) -> Func:
    out = bool_ if OPS[name].result == "bool" else kind
    types = [array_type(bool_ if name == "select" and k == 0 else kind) for k in range(OPS[name].arity)]

    def fill(b, y, *operands):
        i = b.tid(0)
        b.store(y, [i], [0], [emit(name, *[b.load(x, [i], [0])[0] for x in operands])])

    return renamed(kernel([array_type(out), *types], fill), f"{name}_{kind}")


def cast_kernel(source: Scalar, name: str = "cast") -> Func:
    """name: or "reinterpret", to the types of the same size."""
    targets = [s for s in SCALARS if name == "cast" or (s.size == source.size and s is not bool_)]

    def fill(b, x, *outs):
        i = b.tid(0)
        value = b.load(x, [i], [0])[0]
        for y in outs:
            b.store(y, [i], [0], [emit(name, value, type=y.type.dtype)])

    return renamed(kernel([array_type(source), *map(array_type, targets)], fill), f"{name}_{source}")


@cache
def rows() -> Batch:
    return Batch(
        [*(row_kernel(*case) for case in CASES), *map(cast_kernel, SCALARS), cast_kernel(float16, "reinterpret")]
    )


CHUNKS = 6


def library_functions(dtype: type, chunk: int) -> dict[str, tuple[Func, list]]:
    """Value and adjoint of a sixth of the library, with sample arguments."""
    out = {}
    for k in range(chunk, len(ALL), CHUNKS):
        name, row = ALL[k]
        value = trace_function(
            calling(FUNCTIONS[name], len(row.kinds)), [q.of(REAL[dtype]) for q in row.kinds], REAL[dtype]
        )
        outputs = sum(is_real(v.type) for v in value.body.yields)
        cases = [
            [*flat_args(sample(row, dtype, seed)), *np.random.default_rng(seed).normal(size=outputs)]
            for seed in range(4)
        ]
        for label, function in (("value", inline(value)), ("adjoint", inline(vjp(value)))):
            out[f"{label}_{k}_{IDS[k]}"] = renamed(as_kernel(function), f"{label}_{k}"), cases, function
    return out
