"""Writes docs/reference/, docs/physics.md, the rooms of docs/architecture.md, scenes/scene.schema.json and the names
for type checkers, sim/core/__init__.pyi, from the registries of the code, docs/llms.txt from the pages of the site, and
the pages of the gallery from its examples; what these print stays what it was when `scripts/make_gallery.py` ran them.

    python scripts/make_docs.py [--check]

--check: write nothing; exit 1 if a file is not what it would be.
"""

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from gallery import examples, overview, page, printed_on
from llms import llms
from material_tables import tables
from python_reference import python_reference
from rooms import architecture
from type_stub import type_stub

from sim.constraints import REGISTRY, ConstraintParameter
from sim.constraints.damping import branches
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.library import LIBRARY, RANDOM
from sim.io import to_json
from sim.model import MODEL_FIELDS, STATE_FIELDS
from sim.scene.schema.json_schema import json_schema
from sim.scene.schema.keys.materials import registered_materials
from sim.scene.schema.reference import scene_reference
from sim.solvers import air

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- written by scripts/make_docs.py -->\n"


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split()).replace("|", "\\|")


LANGUAGE = """# The kernel language

A kernel is a Python function that is compiled when it is first launched, and then runs once for each thread. Its
arguments have types; its variables get theirs from what they are given. Names and conventions are those of NVIDIA Warp
([what differs](../warp.md)); [the tour](../tour.md) begins with kernels, tapes and gradients.

```python
import sim


@sim.func
def stretch(a: sim.vec3, b: sim.vec3, rest: float):
    return sim.length(b - a) - rest


@sim.kernel
def energies(x: sim.array[sim.vec3], stiffness: float, out: sim.array[float]):
    i = sim.tid()  # the number of this thread
    if i + 1 < x.shape[0]:
        out[i] = 0.5 * stiffness * stretch(x[i], x[i + 1], 1.0) ** 2.0


x = sim.array([[0, 0, 0], [1.5, 0, 0], [2, 0, 0]], dtype=sim.vec3)
out = sim.zeros(3, dtype=float)
sim.launch(energies, dim=3, inputs=[x, 100.0], outputs=[out])
```

Kernels have `if`, `for`, `while`, `break`, `continue`, `return`, tuples, structs (`@sim.struct`), `assert` and `print`;
there are no exceptions and no recursion. Nothing is converted silently: `1.0 * i` for a whole
number i is an error with its line, `1.0 * float(i)` is not. What a kernel may not do is an error with the place, the
line and what to do instead.

## Indices

An index counts from 0. One that is known when the kernel is compiled may be negative in vectors, matrices, tuples and
local arrays, where it counts from the end; for arrays it is refused. One of the run is never taken from the end:
outside of 0 .. n - 1 it is a mistake, which nobody looks for unless asked to (a vector, matrix, tuple or local array
then gives its last component and keeps what it has, an array touches other memory). `sim.set_check_bounds(True)`, or
`SIM_CHECK_BOUNDS=1`, makes it an error that names index, line and thread, in adjoints too.

## What a kernel captures

Names, attributes and containers from outside of a kernel, and of the functions that it calls, have the value that they
have at the launch, as in Python: where one of them has changed, or a function got another derivative (`@sim.func_grad`,
`f.vjp`), the launch compiles the kernel anew (the last 8 variants are kept). A tape goes back through the code that it
recorded. Recorded launches (`record_cmd=True`) and captured graphs keep the code that they captured; `graph.stale` says
whether it is old. Annotations and defaults are those of the definition, and `sim.static(...)` is evaluated where the
function is defined, once. Errors show the user's frames only; `SIM_FULL_TRACEBACKS=1` shows all.
"""


_PRIMITIVES = "What the compiler knows by itself; the library below is written in the language.\n"


def language() -> str:
    rows = [
        LANGUAGE,
        "## Primitives\n",
        _PRIMITIVES,
        "| name | meaning | operands | derivative |",
        "|---|---|---|---|",
    ]
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    for name, row in sorted(OPS.items()):
        gradient = "zero" if row.vjp is ZERO else "yes" if row.vjp else "error"
        meaning = row.doc.replace("|", "\\|")
        rows.append(f"| `{name}` | {meaning} | {', '.join(kinds[k] for k in row.accepts)} | {gradient} |")
    rows += ["\n## Built in\n", "| name | what it does |", "|---|---|"]
    own = {n: b for n, b in NAMES.items() if n not in LIBRARY and n not in RANDOM and n not in OPS}
    rows += [f"| `{n}` | {first_paragraph(b.__doc__)} |" for n, b in sorted(own.items())]
    rows += [
        "\n## Library\n",
        "Written in the language, for float32 and float64.\n",
        "| function | what it is |",
        "|---|---|",
    ]
    for name, f in sorted((LIBRARY | RANDOM).items()):
        python = getattr(f, "python", None)
        arguments = ", ".join(inspect.signature(python).parameters) if python else "..."
        rows.append(f"| `{name}({arguments})` | {first_paragraph(f.__doc__)} |")
    return "\n".join(rows) + "\n"


PHYSICS = """# Physics

What a step of the solvers computes, what it leaves over, what that costs an identified value, what is promised of
contacts, and how bodies, joints and rods compare with closed forms. In a hurry: [which solver, step and
element](decisions/19-defaults.md) to take, then the [constraint](reference/constraints.md) of your material.

## A step

`SolverXPBD` takes steps of dt by extended position-based dynamics (M. Macklin, M. Mueller, N. Chentanez, "XPBD", MIG
2016), many small ones rather than many iterations (M. Macklin and others, "Small Steps in Physics Simulation", SCA
2019). Points move freely to x + dt v + dt^2 (g + f / m); then every constraint C moves its points by W J^T d_lambda, J
its gradient, W their inverse masses, with

    ((1 + gamma) J W J^T + alpha / dt^2) d_lambda = -(C + alpha lambda / dt^2 + gamma J (x - x_before))
    gamma = damping / dt

(equations 18 and 26 there; `damping` [s] is beta times alpha: the ratio of viscous to elastic force, independent of
mesh and step). C with several rows is solved as one block. Constraints are projected colour by colour
(`order="colored"`: Gauss-Seidel) or all at once (`order="jacobi"`: each mass is split among the constraints on it).
Velocities are (x - x_before) / dt.

`start="zero"` begins each step with lambda = 0, as published. `start="elastic"` begins with the forces at the start of
the step, as far as they are stable: what is at rest then stays at rest exactly, and the statics of solids do not depend
on the step.

### Several constraints at once: `direct`

`direct=["rope", "wire"]` names chains and trees (objects, joints, rods, by their labels) whose constraints are solved
together instead of one by one, after the others: one Newton step for all of their rows, by an LU factorisation of the
blocks of J W D^T + alpha / dt^2 in an order without fill, at a cost linear in their number. A cantilever of 20 segments
that sags by .43 of its length is at rest within 1e-12 of the discrete equilibrium after 60 steps of a second; ten links
hold a ball of 100 times their mass to rounding, where one sweep lets them be 1.54 times as long (10 substeps of 60 Hz).
Loops are solved too, at the cost of some fill; nets are refused. Contacts, limits and what has a largest force stay
with the others. What a direct solve does not cure is a taut chain of light links: its links swing across at
omega = (12 T / (m l))^(1/2), for a tension T and links of mass m and length l, and steps have to be clearly shorter
than 2 / omega.

### The step itself damps

The step itself damps: XPBD is implicit Euler, and a mode of angular frequency omega loses the factor (1 + (omega
dt)^2)^(-1/2) in every step, an amplitude exp(-t ln(1 + (omega dt)^2) / (2 dt)), and swings at arctan(omega dt) / dt.
For short steps that is a damping ratio of omega dt / 2, as if the material had the damping time dt besides its own:
together omega (dt + damping) / 2. A `damping` that is sought comes out too small by about dt, and one below dt cannot
be told. Measured with a mass on a spring (dt omega = 0.05, 0.2, 1): ratios 0.0250, 0.0989, 0.4037 and frequencies
0.9992, 0.9870, 0.7854 of the true one, those of the formulas to six digits, whatever the number of iterations and
`start`. Halving the step halves it; more iterations do not. A slow mode hardly sees it: 1 Hz with steps of 1 ms has the
ratio 0.003.

`integrator="bdf2"` loses -ln |z| in every step, z the larger root of (3 / 2 - i omega dt) z^2 - 2 z + 1 / 2 = 0: a
damping ratio of (omega dt)^3 / 4 for short steps, as if of the damping time dt (omega dt)^2 / 2
(`Solver.damping_time`). It is of second order for chains, rods, sheets and solids, with damping, branches and air, once
sweeps have converged: what one sweep leaves of damping forces is of first order, six leave nothing to see. A pendulum
with five steps in 1/60 s keeps its period to 0.005 % and .9993 of its energy over 100 periods. `viscoelastic` materials
evolve to first order; their branches do to second.

Beside a parameter that is a damping (`damping`, and the times, yield strains and stiffnesses of branches) `simopt run`
prints what the integrator adds to it: its damping time, what share of the one found that is, and its damping ratio at
the frequency of the motion, where the spectrum of the kinetic energy has its peak (`own_damping` of the parameter in
result.json; `sim.identify.numerics.own_damping`). A mass on a spring of 8 Hz and 4.03 ms, identified with steps of 1
ms, is found with 3.04 ms, and 0.999 ms (33 %), ratio 0.025 beside it; with BDF2 it is found within 1 %.

### Precision

Steps add up displacements (docs/decisions/18-displacements.md), so that float32 gives what float64 gives, down to steps
that a warning names (`sim.solvers.resolved_step`). By how much it is off, over the size of a quantity, the worst of
each case (`python benchmarks/precision.py`; `SolverNewton` works in float64 alone):

{precision}

### What a step leaves undone

What a step leaves undone shows in r = C + alpha lambda / dt^2 + gamma J (x - x_before), which is 0 after enough
iterations. `sim.step_residuals(solver, state, dt)` gives it after a step, by kind of constraint: *force*, sqrt(sum
r^2 / alpha) over sqrt(sum (alpha lambda / dt^2)^2 / alpha), by which a material at rest is too soft, and *strain*, r
over the size of an element. `sim.rollout` warns (`sim.NumericsWarning`, once for a solver and a dt) where the force
is above 10 % and the strain above 0.2 %. A hanging sheet of springs (10 x 10 cells, dt = 1/600 s, one iteration):
force 0.0018, 0.018, 0.18, 1.8 and 18 at compliances of 1, 0.1, 0.01, 0.001 and 0.0001 m/N: it is proportional to dt^2
/ alpha.

### The numerical error of a value

What that means for an identified value is told by a run: the residuals of the loss are evaluated once more with half
the step, twice the iterations and half the edge length, and moved back to their optimum by the Jacobian of the
standard errors (Gauss-Newton; `sim.numerical_error`). The change is extrapolated by the order of the cause
(Richardson): twice for the step (4 / 3 for a second-order integrator), 3 / 2 for iterations, 4 / 3 for the mesh. A
sheet identified from a twin with steps of a quarter, with eight iterations, or with a mesh twice as fine is off by
what is told within a factor of two. `simopt check --converge` makes the table, `optimize.numerics: []` or `simopt run
--no-numerics` leaves it out.

### Other solvers

`SolverSemiImplicit` takes the same constraints as forces -J^T (C + damping dC/dt) / alpha, explicitly: the cross-check.

`SolverNewton` solves the equations that XPBD solves approximately,

    M (x - x~) = J(x)^T lambda,   C(x) + alpha lambda / dt^2 + gamma J(x) (x - x_before) = 0,

x~ being the points moved freely, by Newton's method until the last correction is `tolerance` of the way that points go
in the step. What is identified with it does not depend on iterations or on the order of constraints, and statics do
not depend on the step; its dissipation is that of its `integrator`, above. Multipliers of positive compliance are
eliminated, those of rigid constraints and contacts without compliance (by active set) are unknowns. The gradient of a
step is one linear solve with the matrix of the solution, without any of the iterations (a third of the time of the step
and about two states of memory: `benchmarks/implicit.py`); a step that has not converged has none. Sheets that fold
about a ball, strips that buckle, and bodies that begin flat, reflected or at random converge too, a crumpled sheet in
some sixty iterations; `bend`, which jumps where a hinge folds over, need not. It is for reference:
some thousand points, on the CPU, in float64. XPBD at steps at which it leaves nothing over agrees to 1e-3 of the size
of every scene in `scenes/` (even then each of its projections acts along the gradient of its own iteration).

`simopt run --reference`, or the key `reference` of a scene, simulates what a run has found once more, with
`SolverNewton` (and the integrator of the run) or the solver that the key names: `reference` in result.json, and a
note, say how loss, measures and points differ, and what the reference would find of each parameter: its residuals are
moved back to their optimum as for the numerical error above. What differs belongs to the numerics, not to the material.
A stiff sheet, identified at 12.5 ms a step with one sweep from a twin of `SolverNewton` with a bending compliance of
10, has 8.07 for XPBD, and is told 9.997 (`tests/identify/assess/test_reference.py`).

## What an identified value costs

One value is sought, from a twin that a converged solver has stepped (`python benchmarks/truth.py`): what is found over
what is true, minus 1, by the step h; *lost*: no value near the truth makes markers move as they should. Below, the
longest step from which on all are within 1 % and 0.1 %, sweeps (Newton: linear systems) of a simulated second, and
milliseconds of processor for a simulated second with its gradient, which `relative` compares with the first line that
reaches the goal. What follows from it: `docs/decisions/19-defaults.md`.

{truth}

## What is promised of contacts

**Exact for the steps.** A gradient through contacts is the derivative of the simulated steps, exact almost everywhere:
all geometry, the time of an impact within its step, the cone of friction and the masses are differentiated, and lists
of pairs are complete, so that nothing that could push is left out of it.

**Convergent to the motion.** It converges to the derivative of the motion, with the first power of the step, where
impacts are transversal, not grazing. For that

* impacts that follow each other within a step keep their own times (where they may rebound), and joints answer an
  impact within it;
* an impact acts along its direction and at its arms as it happens, not as the step ends, for what turns and for curved
  surfaces too;
* what rests, slides or rolls on other contacts is pressed and rubbed by them as before an impact until that, and as
  after it from there on;
* friction turns round within the step in which what slides comes to a stop and goes back, also that of joints;
* particles and balls that leave a face over an edge are held up until they do.

Rows C1 to C9 below show both, and tests of balls that hit off their centres, smooth or rough and spinning, of falling
and hinged rods, pendulums that meet a wall aslant, and Newton's cradle. [What is off, and by how
much](limits.md#impacts), is a list of its own.

**Not promised** is that a gradient over many chaotic impacts is of use. It is right to the last digit, and foretells
the loss for changes that no optimiser takes: the report says how much it grew, and up to which time it is of use;
`simopt gradcheck` takes it again at neighbouring points, and says how it scatters.

**At a switch** of contacts there is no derivative. Nothing is smoothed: the value is that to one side, of what the
contact does then:

| switch | where | the gradient is that of |
|---|---|---|
| opens or closes | C and lambda are zero, or an impact falls on the beginning of a step | open; inside from the start |
| sticks or slips | the multiplier of friction is as long as mu lambda_n | sticking |
| rests or rebounds | the approach is 2 g h, where a rebound begins, or twice that, where it is in full | the slower |
| hits with others | two impacts of one mover at the same time | the order of the sweeps |

A run counts the contacts within a relative 1e-6 of a switch, summed over the steps of each experiment with the values
that were found: `contacts` of result.json, the report and the terminal say how many of those that push, of which kind,
and the worst penetration with its contact and time. Closing is measured by how far C comes in the predicted step (and
by the rounding of positions, which in float32 is more), sticking by mu lambda_n, thresholds by the speed that they are
at, and simultaneous impacts by the step. `simopt gradcheck` counts the same, and how many contacts do at one end of a
difference what they do not at the other: such a difference straddles a kink, and says less. At a switch it shows the
differences to both sides, and takes the gradient for right if it is one of them. Where the loss does not depend on a
friction or restitution at all, the report says why: nothing touches, nothing slips, or nothing hits faster than what
rests. Without gravity a tenth of how the last step changed the velocity of one of both takes the place of 2 g h.

Pairs of surfaces that collide with themselves are counted like that, too. In the player the
contacts of what was found can be switched on: their places, redder the deeper they are, and normal and friction forces.

Every second toss of a real cube (ContactNets, 214 of them; `python benchmarks/contactnets.py`): the median, over the
tosses, of how far its centre is from the recorded one [mm], on average over a toss, at 592 steps a second:

{contactnets}

## Bodies, joints, contacts and rods beside closed forms

Values in SI units and their derivatives, those of the tape, beside what is exact: where the case does not say, see
`tests/tools/closed_forms` (`python scripts/make_closed_forms.py` writes the table, a test keeps it). Rods are off by
the squares of their segments' lengths, pendulums and free bodies by the square of the step, what is elastic by the
step's own damping.

Rods at rest have come to rest step by step. The direct solve sees stresses that are there already, tension or twist,
explicitly: its steps are to be no longer than 2 / sqrt(3), if the rod stretches, or 2, if not, over the highest angular
frequency that these alone would give. For segments of mass m and length l under a tension T that is sqrt(12 T / (m l)),
for particles on a string 2 sqrt(T / (m l)). In float32 a step is to be shorter than some 500 over the highest angular
frequency of the rod: rounding hides compliances that are less than 1e-6 of h^2 J W J^T.

{closed_forms}

# Constraints

What objects are made of: every constraint with its function C, its units, and where it comes from. Each is a key of
`material` in a scene and in `ModelBuilder`. Compliances are *material* values; the map from them to the alpha of one
constraint is part of the gradient. What `damping` acts on is said where it is not all of C.

## Solids

Solids are made of tetrahedra with the deformation gradient F = sum_a (x_a - x_0) g_a^T, the g_a measured at rest, and
of materials given by Young's modulus E and Poisson's ratio nu: mu = E / (2 (1 + nu)), lambda = E nu / ((1 + nu)(1 - 2
nu)). V is the volume at rest. For small strains all of them are linear elasticity. Their damping acts on changes of
shape alone, as in rubber: with the damping time tau the viscous stress is 2 mu tau times the rate of the deviatoric
strain, and a mode of angular frequency omega has the damping ratio omega tau / 2, up to the part of its energy that
changes the volume. Linear tetrahedra are too stiff in bending, the more the nearer nu is to 0.5: an E that is found on
a coarse lattice is that of the mesh. `deviatoric` (or `viscoelastic_shape`) with `cell_volume` is the pair that does
not lock; at nu = 0.499 it needs three iterations or short steps.

Take `neo_hookean` first: bodies of it that were crushed to a fifth, flattened, folded or reflected come back to their
shape, and those whose points were put at random places of their box mostly do: 89 of 100 (`python
benchmarks/recovery.py`: blocks of 2 x 2 x 2 cells, nu = 0.3, edges within 1 %). What does not has no inverted
tetrahedron and is at rest: it winds twice around a line of inner edges, passing through itself (the dihedral angles
around an edge add up to 720 degrees), which is a minimum of the energy of any law of tetrahedra; shorter steps, more
iterations or time do not help. None of 20 blocks of 3 x 3 x 3 cells stayed so at nu = 0.3, but nearly all random starts
do at nu = 0.45. The pair (of 20 blocks 11 kept inverted tetrahedra), `stvk` (which never comes back from inversion) and
`element: hexahedra` or `quadratic` are for bodies that stay in shape.

`start: elastic` refuses steps that are too long for the `damping` of a solid: they would gain energy. The message says
how many times as many substeps or iterations it takes.

## Elements that bend

With `element: hexahedra` (cells of a lattice) or `element: quadratic` (tetrahedra of a lattice or a file, with points
in the middles of their edges) a solid takes `stvk` or `neo_hookean`, and each element has several constraints with the
values of that one law: of its mean strain, and of orthogonal modes in which its strain varies. Linear fields are exact,
rigid motions are free of force, and Young's modulus is that of the material. The E [1e5 Pa] that gives the beam of
`scenes/beam.yaml` a drop of 6.40 mm, with n cells across, in the linear statics of the constraints
(`python benchmarks/elements.py`; `distorted`: inner points moved by up to a fifth of a cell):

{elements}

A quadratic tetrahedron has three times the points of a linear one, which lie closer, and its constraints overlap more:
it is meant for converged steps and for meshes from files. With one sweep of projections it needs far shorter steps than
the other elements. Hexahedra have eight colours, and take longer steps than
tetrahedra of the same lattice: prefer them on lattices, with three cells across or more. Damping acts on all of their
bending and twisting.
"""

SHEETS = """
## Sheets

Cloth has springs (`distance`, `shear`, `bend`: cheap; what they mean as a material depends on the mesh) or a material
whose values do not: `membrane_stvk`, `membrane_neo_hookean` or `fabric` in its plane, `plate` or `fabric_bend` for
bending. Springs of compliance c [m/N] on a mesh from a file are a membrane whose E times thickness is 1.0 / c to
1.2 / c, with nu between 0.2 and 0.32: the row of `distance` below.

From mesh to mesh: a strip of 30 cm with `membrane_stvk` and `plate`, held at one end, droops and hangs, recorded on a
grid of 16 cells and identified on equilateral triangles of 8 (`SolverNewton`, the same step). From what is found the
truth is -5.1 % away in E (told as numerical error by the mesh: -6.3 %) and +2.0 % in B (told: -4.1 %). Where a sheet
bends within two cells, B is far off, and told to be: cells of 3.8 cm and B = 3e-4 N m, which bends a sheet of
0.2 kg/m^2 within 5 cm, gave a B from which the truth is -27 % away (told: -36 %).

What is found on a mesh over what was given: the energy of bent sheets, and the droop of a narrow strip that is held by
two rows of points, over those of a plate with B = 1 / compliance; and the moduli of membranes (per thickness), given
E = 1 and nu = 0.3.

"""


def source_of(function: Callable[..., object]) -> str:
    """The source of a Python function, without decorators and docstring."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:]
    return f"```python\n{ast.unparse(tree)}\n```"


def described(p: ConstraintParameter) -> str:
    return f"`{p.name}`" + (f" [{p.unit}]" if p.unit else "") + (f" {p.doc}" if p.doc else "")


def listed(rows: Sequence[bool]) -> str:
    """The rows that are true, in words."""
    numbers = [str(k) for k, true in enumerate(rows) if true]
    return f"row{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}" if numbers else "no row"


def benchmark(name: str) -> str:
    """What a benchmark has written."""
    return (ROOT / "benchmarks" / f"{name}.md").read_text().strip()


def physics() -> tuple[str, str]:
    """The page on steps, and that on constraints."""
    text = PHYSICS
    for name in ("elements", "precision", "truth", "closed_forms", "contactnets"):
        text = text.replace(f"{{{name}}}", benchmark(name))
    begin = text.index("# Constraints\n")
    return text[:begin].rstrip() + "\n", constraints(text[begin:])


def constraints(head: str) -> str:
    """What is said of all constraints, `head` first, then each by itself."""
    rows = [head + SHEETS + tables() + "\n"]
    for name, c in sorted(REGISTRY.items()):
        rows += [f"## {name}\n", inspect.cleandoc(c.doc), "", source_of(c.function.python)]
        facts = [f"{c.points} point{'s' if c.points > 1 else ''}, {c.rows} row{'s' if c.rows > 1 else ''}"]
        facts += ["C >= 0 is wanted"] if c.unilateral else []
        facts += ["refers to the world, not only to its points"] if not c.internal else []
        facts += [f"damping acts on {listed(c.damped)}"] if not all(c.damped) else []
        facts += [f"no elasticity in {listed([not e for e in c.elastic])}"] if not all(c.elastic) else []
        rows += [
            "",
            "; ".join(facts)
            + ".  Parameters of C: "
            + (", ".join(described(p) for p in c.parameters.values()) or "none")
            + ".",
            "",
        ]
        if c.measured:
            rows += [f"Measured on the rest shape unless given: {', '.join(f'`{p}`' for p in c.measured)}.", ""]
        if c.evolution is not None:
            rows += [
                (
                    f"Internal variables, part of the state: {', '.join(f'`{p}`' for p in c.internal_variables)}."
                    f" {first_paragraph(c.evolution.python.__doc__)}"
                ),
                "",
            ]
        if c.law is not None:
            rows += [
                "Material: "
                + ", ".join(described(p) for p in c.law.values.values())
                + ". From them "
                + first_paragraph(c.law.function.python.__doc__),
                "",
                source_of(c.law.function.python),
                "",
            ]
        for kind, factor in sorted(c.factors.items()):
            rows += [f"On `{kind}`: " + " ".join((factor.__doc__ or "").split()), ""]
    for title, module in (("Branches", branches), ("Air", air)):
        rows += [f"## {title}", "", inspect.getdoc(module) or "", ""]
    return "\n".join(rows).rstrip() + "\n"


FIELDS = """# Arrays of models and states

What `builder.finalize()` makes is a `Model`, what `model.state()` gives is a `State`: their arrays, for kernels and
losses of your own. Units are in the tables; `real` is the precision of the model, `vec3` three of it. Values of
materials are not among them: `model["sheet.distance.compliance"]`, by path.
"""


def fields() -> str:
    rows = [FIELDS]
    for title, table in (("Model", MODEL_FIELDS), ("State", STATE_FIELDS)):
        rows += [f"## {title}\n", "| array | shape | type | unit | meaning |", "|---|---|---|---|---|"]
        for f in table:
            shape = ", ".join(str(n) for n in f.shape)
            rows.append(f"| `{f.name}` | ({shape}) | {f.kind} | {f.unit} | {f.doc.replace('|', chr(92) + '|')} |")
        rows.append("")
    return "\n".join(rows)


def as_printed(path: Path) -> str:
    """The page of an example, with what it printed when the page was made."""
    there = path.with_suffix(".md")
    return page(path, printed_on(there.read_text(encoding="utf-8")) if there.exists() else [])


def documents() -> dict[Path, str]:
    steps, materials = physics()
    made = {
        ROOT / "sim/core/__init__.pyi": type_stub(),
        ROOT / "docs/architecture.md": architecture(),
        ROOT / "docs/reference/language.md": NOTE + language(),
        ROOT / "docs/physics.md": NOTE + steps,
        ROOT / "docs/reference/constraints.md": NOTE + materials,
        ROOT / "docs/reference/arrays.md": NOTE + fields(),
        ROOT / "docs/reference/python.md": NOTE + python_reference(),
        ROOT / "docs/reference/scene.md": scene_reference(registered_materials()),
        **{path.with_suffix(".md"): as_printed(path) for path in examples()},
        ROOT / "docs/gallery/index.md": overview(),
        ROOT / "scenes/scene.schema.json": to_json(json_schema(registered_materials()), indent=2) + "\n",
    }
    return {**made, ROOT / "docs/llms.txt": llms(made)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'stale' if options.check else 'written'}: {path.relative_to(ROOT)}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(documents()[path])
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
