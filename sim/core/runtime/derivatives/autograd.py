"""Derivatives of kernels and of Python functions that launch them: Jacobians, forward mode, second order.

A *function* here is a kernel (then `dim`, `inputs` and `outputs` are those of `launch`), or a Python function that
takes the inputs and returns an array or several.  What it returns are its outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from sim.core.lang.errors import GradientError, entry_point
from sim.core.runtime.arrays.array import array
from sim.core.runtime.debug.nonfinite import NonFiniteError, detect_nonfinite
from sim.core.runtime.derivatives.forward import Forward
from sim.core.runtime.derivatives.gradcheck import (
    GradcheckError,
    GradientReport,
    GradientRow,
    gradcheck,
    gradcheck_tape,
)
from sim.core.runtime.derivatives.jacobians import JacobianMatrix, jacobian, jacobian_fd, jacobian_plot
from sim.core.runtime.derivatives.program import Argument, Differentiable, Dim, outputs_of
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.memory.buffer import Buffer, duplicate, refill
from sim.core.runtime.memory.gradient_owners import GradientOwners
from sim.core.runtime.tape.probes import GradientNorms, gradient_norms
from sim.core.runtime.tape.seeds import Weights
from sim.core.runtime.tape.tape import Tape

__all__ = [
    "Forward",
    "GradcheckError",
    "GradientNorms",
    "GradientReport",
    "GradientRow",
    "JacobianMatrix",
    "NonFiniteError",
    "detect_nonfinite",
    "gradcheck",
    "gradcheck_tape",
    "gradient_norms",
    "hvp",
    "jacobian",
    "jacobian_fd",
    "jacobian_plot",
    "jvp",
]


# ------------------------------------------------------------------------------------------------ forward mode, twice
@entry_point
def jvp(
    function: Differentiable,
    inputs: Sequence[Argument],
    tangents: Sequence[Weights | None],
    dim: Dim = None,
    outputs: Sequence[Argument] = (),
) -> tuple[list[array], list[array]]:
    """The Jacobian-vector product: runs the function, and says how its outputs change when the inputs do.

    tangents: for each input an array like it, host data of its shape, or None for zero.
    Returns the outputs, and the tangent of each.  Nothing needs `requires_grad`; an open tape records as usual.
    """
    _same_length("tangents", tangents, inputs)
    moves = {a: move for a, move in zip(inputs, tangents, strict=True) if move is not None}
    with Forward(moves) as forward:
        results = _run(function, dim, inputs, outputs)
        return results, [forward.tangent(a) for a in results]


@entry_point
def hvp(
    function: Differentiable,
    inputs: Sequence[Argument],
    vectors: Sequence[Weights | None],
    dim: Dim = None,
    outputs: Sequence[Argument] = (),
) -> list[array | None]:
    """The product of the Hessian of a loss with a vector: the derivative of the gradient along `vectors`.

    function: gives one array with one element, the loss (for a kernel: `outputs`).  vectors: as `tangents` of `jvp`.
    Returns one array per input that requires a gradient (None for the others).  Forward mode over the reverse sweep:
    exact, through loops, in-place updates and whole rollouts, at about four times the cost of a gradient.  Gradients
    that the arrays hold stay as they are.
    """
    _same_length("vectors", vectors, inputs)
    moves = {a: v for a, v in zip(inputs, vectors, strict=True) if v is not None}
    wanted = [a if isinstance(a, array) and a.requires_grad else None for a in inputs]
    if not any(a is not None for a in wanted):
        raise GradientError("hvp: no input requires a gradient", hint="make the inputs with requires_grad=True")
    with Forward(moves) as forward:
        with Tape() as tape:
            results = _run(function, dim, inputs, outputs)
        if len(results) != 1:
            raise GradientError(f"hvp takes a function with one output, the loss; this one has {len(results)}")
        with _own_gradients(tape):
            tape.backward(results[0])
            return [None if a is None else _copy(forward.tangent(a.grad)) for a in wanted]


def _copy(a: array) -> array:
    made: array = array(np.array(a.device.numpy(a)), dtype=a.dtype, device=a.device)
    return made


def _same_length(name: str, given: Sequence[object], inputs: Sequence[object]) -> None:
    if len(given) != len(inputs):
        raise GradientError(
            f"{len(given)} {name} for {len(inputs)} inputs", hint="give one for each input; None stands for zero"
        )


def _run(function: Differentiable, dim: Dim, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> list[array]:
    if isinstance(function, Kernel):
        launch(function, dim, inputs, outputs)
        return [a for a in outputs if isinstance(a, array)]
    return [a for _, a in outputs_of(function(*inputs))]


@contextmanager
def _own_gradients(tape: Tape) -> Iterator[None]:
    """Inside, the gradients of all arrays on the tape start from zero; afterwards they are what they were."""
    before: dict[Buffer, tuple[Buffer, GradientOwners | None]] = {}
    for buffer in tape.buffers():
        if buffer.gradient is not None:
            owners = buffer.gradient.owners
            before[buffer] = duplicate(buffer.gradient), owners and owners.copy()
    tape.zero()
    try:
        yield
    finally:
        for buffer in tape.buffers():
            if buffer.gradient is not None and buffer in before:
                content, buffer.gradient.owners = before[buffer]
                refill(buffer.gradient, content)
            else:
                buffer.drop_gradient()
