"""Writes docs/gradients.md: what is differentiable, with the error of its derivative, measured against differences in
float64.

    python scripts/make_gradient_table.py [--check]

--check: measure nothing; exit 1 if the rows of the file, or whether they have a derivative, are not what the registries
say. The arguments at which functions and constraints are measured are those of the tests.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tools.adjoints import gradient_rows as rows  # noqa: E402
from tools.library.traced import calling, directional, flat_args, is_real  # noqa: E402

from sim.constraints import REGISTRY  # noqa: E402
from sim.core.lang import types as t  # noqa: E402
from sim.core.lang.frontend.tracer import trace_function  # noqa: E402
from sim.core.lang.ir.builder import Builder  # noqa: E402
from sim.core.lang.ir.core import Block, Func, Value  # noqa: E402
from sim.core.lang.ir.table import OPS, ZERO, OpDef  # noqa: E402
from sim.core.lang.library import LIBRARY, RANDOM  # noqa: E402

TARGET = ROOT / "docs/gradients.md"
HEAD = """<!-- written by scripts/make_gradient_table.py -->
# Gradients: what is differentiable

All of the kernel language, every constraint and every solver is differentiable in reverse mode; what has no derivative
is an error that names the place, or has a derivative of zero. Look here for three things: [what memory may
do](#memory), what is *zero* or *refused*, and the remarks at special points, such as `length` at zero. Second
derivatives come from forward over reverse mode (`sim.autograd.hvp`). Whether the gradient of a *motion* is of use is
another question ([limits](limits.md)).

*yes*: reverse mode is right; *zero*: the derivative is zero (almost) everywhere, and that is what you get; *refused*:
an error that names the place.  The error is that of a derivative along a random direction against differences of fourth
order in float64, relative to the larger of 1 and the derivative, rounded up to a power of ten; much of it is the error
of the differences.
"""


_EQUAL = "at equal values: docs/decisions/08, where second derivatives are an error"
_AT_ZERO = "zero at zero; compositions that are smooth there lose their derivative: "
NOTES = {
    "eig3": _EQUAL,
    "length": _AT_ZERO + "use length_sq or norm_pseudo_huber",
    "normalize": _AT_ZERO + "use smooth_normalize",
    "polar3": "to every order, at equal values too",
    "quat_from_axis_angle": "of a rotation vector that may be zero: quat_from_rotation_vector",
    "quat_to_axis_angle": _AT_ZERO + "for axis times angle use quat_to_rotation_vector",
    "svd2": _EQUAL,
    "svd3": _EQUAL,
}
"""What is to be known of library functions at special points."""


@dataclass
class Row:
    """One line of a table; `measure` gives the relative error, and is None where there is nothing to measure."""

    name: str
    status: str
    measure: Callable[[], float] | None = None
    note: str = ""


# --------------------------------------------------------------------------------------------- primitives and library
def primitive(row: OpDef) -> Func:
    """A primitive as a function of float64 numbers."""
    kinds = row.operand_types(t.float64)
    block = Block([Value(kind) for kind in kinds])
    with Builder(block) as b:
        block.yields = [b.emit(row.name, *block.params, type=t.float64)]
    return Func(row.name, block)


def error_of(exact: float, differences: float) -> float:
    return abs(exact - differences) / max(1.0, abs(exact), abs(differences))


def primitive_error(row: OpDef) -> float:
    rng = np.random.default_rng(1)
    low, high = row.domain
    margin = 0.02 * (high - low)
    worst = 0.0
    for _ in range(20):
        args = [
            bool(rng.integers(2)) if row.name == "select" and k == 0 else rng.uniform(low + margin, high - margin)
            for k in range(row.arity)
        ]
        worst = max(worst, error_of(*directional(primitive(row), args, rng, 1e-4)))
    return worst


def primitives() -> Iterator[Row]:
    for name, row in sorted(OPS.items()):
        if row.vjp is ZERO:
            yield Row(name, "zero")
        elif row.vjp is None:
            yield Row(name, "refused")
        else:
            yield Row(
                name,
                "yes",
                None if name == "cast" else lambda row=row: primitive_error(row),
                "between floating types" if name == "cast" else "",
            )


def traced(name: str) -> Func:
    kinds = [kind.of(t.float64) for kind in rows.KINDS[name]]
    return trace_function(calling(LIBRARY[name], len(kinds)), kinds, real=t.float64)


def library_error(name: str) -> float:
    rng = np.random.default_rng(1)
    function = traced(name)
    return max(
        error_of(*directional(function, flat_args([kind.sample(rng) for kind in rows.KINDS[name]]), rng, 1e-4))
        for _ in range(4)
    )


def library() -> Iterator[Row]:
    for name in sorted(LIBRARY):
        if name in rows.INTEGERS:
            yield Row(name, "zero", note="integers")
            continue
        if name not in rows.KINDS:
            yield Row(name, "yes", note="changes its argument")
            continue
        if not rows.KINDS[name]:
            yield Row(name, "zero", note="a constant")
            continue
        function = traced(name)
        floats = any(is_real(p.type) for p in function.params) and any(is_real(y.type) for y in function.body.yields)
        if not floats or name in rows.STEPS:
            yield Row(name, "zero", note="integers" if not floats else "a step function")
        else:
            yield Row(name, "yes", lambda name=name: library_error(name), NOTES.get(name, ""))
    for name in sorted(RANDOM):
        yield Row(name, "zero", note="what is drawn is a constant")


# ------------------------------------------------------------------------------------------------ the tables
def tables() -> dict[str, list[Row]]:
    named = {name: c for name, c in REGISTRY.items() if c.function.__module__.startswith("sim.constraints")}
    named = {name: c for name, c in named.items() if not c.frames and ".joints." not in c.function.__module__}
    return {
        "Primitives": list(primitives()),
        "Library": list(library()),
        "Memory": [
            Row(
                name,
                case.status,
                None if case.status != "yes" else (lambda case=case: rows.program_error(case)),
                case.note,
            )
            for name, case in rows.MEMORY.items()
        ],
        "Constraints: one XPBD projection": [
            Row(name, "yes", lambda name=name: rows.constraint_error(name)) for name in sorted(named)
        ],
        "Solvers and rollouts": [
            Row(name, "yes", lambda case=case: rows.rollout_error(case), case.note)
            for name, case in rows.ROLLOUTS.items()
        ],
    }


def bound(error: float) -> str:
    """The error, rounded up to a power of ten."""
    return f"1e{max(math.ceil(math.log10(max(error, 1e-16))), -15)}"


def line(row: Row, error: str) -> str:
    return f"| {row.name} | {row.status} | {error} | {row.note} |"


def text() -> str:
    out = [HEAD]
    found = tables()
    for title in (*list(found)[2:], *list(found)[:2]):  # what is asked for first stands first: primitives last
        content = found[title]
        out += [f"\n## {title}\n", "| name | derivative | error below | |", "|---|---|---|---|"]
        for row in content:
            out.append(line(row, "" if row.measure is None else bound(row.measure())))
            print(out[-1])
    return "\n".join(out) + "\n"


def stale(found: str) -> list[str]:
    """Rows that the file lacks, or has and should not have."""
    have = {tuple(cell.strip() for cell in row.split("|")[1:3]) for row in found.splitlines() if row.startswith("| ")}
    want = {(row.name, row.status) for content in tables().values() for row in content} | {("name", "derivative")}
    return sorted(f"{name}: {status}" for name, status in have ^ want)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        problems = stale(TARGET.read_text(encoding="utf-8"))
        print("\n".join(problems))
        return 1 if problems else 0
    TARGET.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
