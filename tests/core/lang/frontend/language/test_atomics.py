"""Compare-and-swap and the bitwise atomics, by the interpreter and as LLVM code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch

import sim
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.builtins import atomic_and, atomic_cas, atomic_or, atomic_xor, tid
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.types import array_type, float32, float64, int32, int64, uint32, uint64, vector

INTEGERS = [int32, int64, uint32, uint64]


def run(python: Any, n: int, *arrays: np.ndarray, kinds: list[Any]) -> list[list[np.ndarray]]:
    """The arrays after a launch, by every back end."""
    func = trace_kernel(python, [array_type(k) for k in kinds])
    out = []
    for backend in BACKENDS:
        copies = [a.copy() for a in arrays]
        launch(backend, func, [n], copies)
        out.append(copies)
    return out


@pytest.mark.parametrize("kind", [*INTEGERS, float32, float64], ids=str)
def test_compare_and_swap(kind: Any) -> None:
    def k(x, old):
        i = tid()
        old[i] = atomic_cas(x, i, kind(2), kind(9))

    x = np.array([1, 2, 3, 2], kind.np)
    for after, old in run(k, 4, x, np.zeros(4, kind.np), kinds=[kind, kind]):
        assert after.tolist() == [1, 9, 3, 9] and (old == x).all()


def test_compare_and_swap_takes_turns() -> None:
    """Every thread draws a ticket: the old values are all different."""

    def k(x, tickets):
        i = tid()
        seen = x[0]
        got = atomic_cas(x, 0, seen, seen + 1)
        while got != seen:
            seen = got
            got = atomic_cas(x, 0, seen, seen + 1)
        tickets[i] = got

    for x, tickets in run(k, 7, np.zeros(1, np.int32), np.zeros(7, np.int32), kinds=[int32, int32]):
        assert x[0] == 7 and sorted(tickets) == list(range(7))


def test_components_are_swapped_each_by_itself() -> None:
    vec2 = vector(2, float32)

    def k(x):
        atomic_cas(x, 0, vec2(1.0, 2.0), vec2(7.0, 8.0))

    for (x,) in run(k, 1, np.array([[1.0, 3.0]], np.float32), kinds=[vec2]):
        assert x.tolist() == [[7.0, 3.0]]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("atomic", "meaning"),
    [(atomic_and, np.bitwise_and), (atomic_or, np.bitwise_or), (atomic_xor, np.bitwise_xor)],
    ids=["and", "or", "xor"],
)
def test_bits(kind: Any, atomic: Any, meaning: Any) -> None:
    def k(x, bits, old):
        i = tid()
        old[i] = atomic(x, 0, bits[i])

    bits = np.array([0b1011, 0b1110, 0b0110], kind.np)
    start = kind.np.type(0b1010)
    steps = [start, meaning(start, bits[0]), meaning(meaning(start, bits[0]), bits[1])]
    for x, _, old in run(k, 3, np.array([start]), bits, np.zeros(3, kind.np), kinds=[kind] * 3):
        assert x[0] == meaning(steps[2], bits[2]) and old.tolist() == [int(s) for s in steps]


def test_what_does_not_fit_is_told() -> None:
    def floats(x):
        atomic_and(x, 0, 1.0)

    def one_value(x):
        atomic_cas(x, 0, 1.0)

    with pytest.raises(KernelError, match="atomic_and is not defined for elements of type float32; it takes integers"):
        trace_kernel(floats, [array_type(float32)])
    with pytest.raises(KernelError, match="atomic_cas on .* takes 1 index and a value to compare with and a value"):
        trace_kernel(one_value, [array_type(float32)])


def test_the_gradient_of_a_swap_is_refused_and_its_tangent_follows_the_winner() -> None:
    @sim.kernel
    def swap(x: sim.array(dtype=float), y: sim.array(dtype=float)):
        i = sim.tid()
        sim.atomic_cas(y, i, 0.0, x[i])

    x = sim.array([3.0, 4.0], dtype=float, requires_grad=True)
    y = sim.array([0.0, 1.0], dtype=float, requires_grad=True)
    with pytest.raises(sim.GradientError, match="atomic_cas on 'y' carries a gradient"), sim.Tape() as tape:
        sim.launch(swap, dim=2, inputs=[x, y])
        tape.backward(grads={y: sim.ones(2, dtype=float)})
