"""What every transform makes of a small program, as text in `golden/`: a change of a pass shows as a diff there.

SIM_GOLDEN=write writes the texts anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.adjoints.differences import numbers_of, tbr_of, traced

import sim
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.forward import jvp, kernel_tangent
from sim.core.lang.autodiff.kernel_adjoint import KernelAdjoint, kernel_adjoint
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.instrument.races import address_check, exact_check
from sim.core.lang.ir.core import Func
from sim.core.lang.ir.printer import to_text
from sim.core.lang.types import float64, int32

FOLDER = Path(__file__).parent / "golden"
f64 = sim.float64


# ------------------------------------------------------------------------------------------------ functions
@sim.func
def product(x: f64, y: f64):
    return sim.sin(x) * y if x > 0.0 else y


@sim.func
def power(x: f64, n: int):
    """Every trip looks at what it carries: the reverse sweep needs checkpoints."""
    p = 1.0
    for _ in range(n):
        p = p * sim.sin(p + x)
    return p


@sim.func
def grown(x: f64, limit: f64):
    while x < limit:
        x = x * x
    return x


def of_function(function: sim.Function, *types) -> Func:
    return trace_function(function, types)


# ------------------------------------------------------------------------------------------------ kernels
@sim.kernel
def row_sums(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    total = 0.0
    for k in range(n):
        total = total + x[i, k] * x[i, k]
    y[i] = total


@sim.kernel
def in_place(x: sim.array[f64], y: sim.array[f64]):
    """The adjoint looks at a value of x that the launch overwrites."""
    i = sim.tid()
    x[i] = x[i] * x[i]
    y[i] = sim.sin(x[i])


@sim.kernel
def listed(count: sim.array[int], x: sim.array[f64], y: sim.array[f64], n: int):
    """Which element an atomic chose is known to the launch alone."""
    i = sim.tid()
    for _ in range(n):
        y[sim.atomic_add(count, 0, 1)] += x[i] * x[i]


@sim.kernel
def recurrence(x: sim.array2d[f64], n: int):
    """Where it stores does not depend on what it stores: the program run backwards says what to take back."""
    i = sim.tid()
    for k in range(n):
        x[i, k + 1] = x[i, k] * x[i, k + 1]


@sim.kernel
def jumps(x: sim.array[f64], at: sim.array[int], n: int):
    """Where it stores depends on what it has stored: the places have to be kept too."""
    for _ in range(n):
        k = at[0]
        x[k] = x[k] * x[k]
        at[0] = (k + 1) % 3


@sim.kernel
def largest(x: sim.array[f64], y: sim.array[f64]):
    sim.atomic_max(y, 0, x[sim.tid()])


@sim.kernel
def neighbours(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i + 1]
    x[i] = y[i]


def adjoint(kernel: sim.Kernel, *active: str, record: tuple[str, ...] = ()) -> KernelAdjoint:
    func = traced(kernel)
    return kernel_adjoint(tbr_of(func, active), numbers_of(func, record))


CASES: dict[str, Callable[[], Func | None]] = {
    "reverse_branch": lambda: vjp(of_function(product, float64, float64)),
    "reverse_for": lambda: vjp(of_function(power, float64, int32)),
    "reverse_while": lambda: vjp(of_function(grown, float64, float64)),
    "forward_branch": lambda: jvp(of_function(product, float64, float64)),
    "forward_for": lambda: jvp(of_function(power, float64, int32)),
    "forward_kernel": lambda: kernel_tangent(traced(largest), [0, 1]).func,
    "kernel_adjoint_loop": lambda: adjoint(row_sums, "x", "y").func,
    "kernel_adjoint_extreme": lambda: adjoint(largest, "x", "y").func,
    "kernel_adjoint_cached": lambda: adjoint(in_place, "x", "y", record=("x",)).func,
    "recording_kernel_cached": lambda: adjoint(in_place, "x", "y", record=("x",)).recording,
    "kernel_adjoint_returned": lambda: adjoint(listed, "x", "y").func,
    "recording_kernel_returned": lambda: adjoint(listed, "x", "y").recording,
    "replay_run_backwards": lambda: adjoint(recurrence, "x").func,
    "recording_kernel_run_backwards": lambda: adjoint(recurrence, "x").recording,
    "replay_undo_log": lambda: adjoint(jumps, "x").func,
    "recording_kernel_undo_log": lambda: adjoint(jumps, "x").recording,
    "races_exact": lambda: exact_check(traced(neighbours), {0}, {0}).func,
    "races_addresses": lambda: getattr(address_check(traced(neighbours), {0}, {0}), "func", None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_transform_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLOTS", 4)
    func = CASES[name]()
    assert func is not None
    path, text = FOLDER / f"{name}.ir", to_text(func) + "\n"
    if os.environ.get("SIM_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{name} has changed; look at the diff after SIM_GOLDEN=write"


def test_every_text_is_of_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*")} == set(CASES)
