"""Jacobians of kernels and Python functions, by reverse mode and by differences, and their picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError, SimError, did_you_mean, entry_point
from sim.core.runtime.arrays.array import array
from sim.core.runtime.derivatives.program import Argument, Differentiable, Dim, Number, Program, program_of
from sim.core.runtime.devices.device import DeviceLike
from sim.core.runtime.memory.elements import element
from sim.core.runtime.tape.tape import Tape


class JacobianMatrix(np.ndarray):
    """A NumPy matrix, of (components of an output, of an input).  `element`: the shape of an element of the input."""

    element: tuple[int, ...] = ()

    def numpy(self) -> np.ndarray:
        """As Warp's array of it has it: (components of an output, elements of the input, *shape of an element)."""
        return self.view(np.ndarray).reshape(len(self), -1, *self.element)


class JacobianError(GradientError, ValueError):
    """A Jacobian that cannot be given, or is not there."""


Jacobians = dict[tuple[Number, Number], JacobianMatrix]
Mask = Sequence[tuple[Number, Number]]
"""(input, output), each by its number or name: the pairs that are asked for."""


@entry_point
def jacobian(
    function: Differentiable,
    dim: Dim = None,
    inputs: Sequence[Argument] = (),
    outputs: Sequence[Argument] = (),
    input_output_mask: Mask | None = None,
    device: DeviceLike = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> Jacobians:
    """Jacobians by reverse mode: {(number of the input, number of the output): (components of output, of input)}.

    For a kernel they count `inputs` and `outputs` as given; an input that it overwrites is an output too, counted from
    the back (-1: the last input), and a field of a struct goes by its name ("s.x").  Works on copies of the arrays.
    input_output_mask: only these pairs.  max_outputs_per_var: only so many rows of each, the others are NaN (0 or
    less: all).
    plot_jacobians: show them (`jacobian_plot`).  The other arguments are taken for Warp's programs.
    """
    program = program_of(function, dim, inputs, outputs)
    with Tape() as tape:
        results = program.named()
    if tape.skipped:
        raise JacobianError(
            f"Kernel must have backward pass enabled to compute Jacobians: '{min(tape.skipped)}' has"
            " enable_backward=False",
            hint="switch enable_backward on for that kernel or its module, or use jacobian_fd",
        )
    wanted = _Wanted(program, results, input_output_mask)
    out: Jacobians = {}
    for j, result in wanted.outputs:
        count = _limited(_count(result), max_outputs_per_var)
        rows = {i: np.zeros((_count(result), _count(a))) for i, a in program.inputs if wanted.has(i, j)}
        for matrix in rows.values():
            matrix[count:] = np.nan
        for c in range(count if rows else 0):
            weights = np.zeros(_count(result), _host(result).dtype)
            weights[c] = 1.0
            seed = array(weights.reshape(_host(result).shape), dtype=result.dtype, device=result.device)
            if tape.records:
                tape.backward(grads={result: seed})
                for i, a in program.inputs:
                    if i in rows:
                        rows[i][c] = _host(a.grad).ravel()
                tape.zero()
        out.update({(i, j): _of_input(matrix, program, i) for i, matrix in rows.items()})
    if plot_jacobians:
        jacobian_plot(out, function, inputs)
    return out


@entry_point
def jacobian_fd(
    function: Differentiable,
    dim: Dim = None,
    inputs: Sequence[Argument] = (),
    outputs: Sequence[Argument] = (),
    input_output_mask: Mask | None = None,
    device: DeviceLike = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> Jacobians:
    """As `jacobian`, by central differences of `eps`; only `max_inputs_per_var` columns of each (0 or less: all), the
    others are NaN."""
    program = program_of(function, dim, inputs, outputs)
    wanted = _Wanted(program, program.named(), input_output_mask)
    out: Jacobians = {}
    for i, a in program.inputs:
        if not any(wanted.has(i, j) for j, _ in wanted.outputs):
            continue
        matrices = [_of_input(np.full((_count(r), _count(a)), np.nan), program, i) for _, r in wanted.outputs]
        for c in range(_limited(_count(a), max_inputs_per_var)):
            step = np.zeros(_count(a))
            step[c] = eps
            ends = [[_host(r).astype(np.float64).ravel() for r in program.at({i: sign * step})] for sign in (1.0, -1.0)]
            for matrix, plus, minus in zip(matrices, *ends, strict=True):
                matrix[:, c] = (plus - minus) / (2.0 * eps)
        out.update({(i, j): m for (j, _), m in zip(wanted.outputs, matrices, strict=True) if wanted.has(i, j)})
    if plot_jacobians:
        jacobian_plot(out, function, inputs)
    return out


def _of_input(matrix: np.ndarray, program: Program, number: Number) -> JacobianMatrix:
    made = matrix.view(JacobianMatrix)
    made.element = element(dict(program.inputs)[number].dtype)[1]
    return made


class _Wanted:
    """Which pairs of an input and an output are asked for.  outputs: with their numbers, as the caller counts them."""

    def __init__(self, program: Program, results: Sequence[tuple[str, array]], mask: Mask | None) -> None:
        numbers = list(program.output_numbers or range(len(results)))
        self.outputs = list(zip(numbers, [a for _, a in results], strict=True))
        self._pairs = None
        if mask is not None:
            takes = {program.names[i]: i for i, _ in program.inputs} | {i: i for i, _ in program.inputs}
            gives = {name: j for j, (name, _) in zip(numbers, results, strict=True)} | {j: j for j in numbers}
            self._pairs = {(_found("input", takes, i), _found("output", gives, j)) for i, j in mask}

    def has(self, i: Number, j: Number) -> bool:
        return self._pairs is None or (i, j) in self._pairs


def _found(kind: str, known: Mapping[Number, Number], name: Number) -> Number:
    if name not in known:
        near = did_you_mean(str(name), map(str, known))
        raise JacobianError(
            f"there is no {kind} {name!r} with a gradient{near}; there are {', '.join(map(str, known))}"
        )
    return known[name]


def _limited(count: int, most: int) -> int:
    return count if most <= 0 else min(count, most)


def _host(a: array) -> np.ndarray:
    return a.device.numpy(a)


def _count(a: array) -> int:
    return _host(a).size


def jacobian_plot(
    jacobians: Mapping[tuple[Number, Number], np.ndarray],
    kernel: Differentiable | None = None,
    inputs: Sequence[Argument] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Jacobians as one picture of matplotlib: a row of it for each output, a column for each input.

    kernel: names the picture where `title` does not.  scale_colors_per_submatrix: a scale of colours for each.
    log_scale: the sizes of the entries, by their logarithms.  Returns the figure.  Raises SimError without matplotlib.
    """
    try:
        pyplot = import_module("matplotlib.pyplot")
        colors = import_module("matplotlib.colors")
    except ImportError:
        raise SimError("matplotlib is not installed; install it with `pip install matplotlib`") from None
    if not jacobians:
        raise GradientError("jacobian_plot: there are no Jacobians")
    takes = sorted({i for i, _ in jacobians}, key=str)
    gives = sorted({j for _, j in jacobians}, key=str)
    figure, axes = pyplot.subplots(len(gives), len(takes), squeeze=False, layout="constrained")
    shown = {pair: np.abs(matrix) if log_scale else np.asarray(matrix) for pair, matrix in jacobians.items()}
    for r, j in enumerate(gives):
        for c, i in enumerate(takes):
            place = axes[r][c]
            if (i, j) not in shown:
                place.axis("off")
                continue
            scope = [shown[i, j]] if scale_colors_per_submatrix else list(shown.values())
            largest = max((float(np.abs(m).max()) for m in scope if m.size), default=0.0) or 1.0
            norm = colors.LogNorm(1e-12 * largest, largest) if log_scale else colors.Normalize(-largest, largest)
            image = place.imshow(shown[i, j], cmap=colormap, norm=norm, aspect="auto")
            place.set_xlabel(f"input {i}")
            place.set_ylabel(f"output {j}")
            if show_colorbar and (scale_colors_per_submatrix or (r, c) == (0, len(takes) - 1)):
                figure.colorbar(image, ax=place if scale_colors_per_submatrix else axes)
    name = getattr(kernel, "name", getattr(kernel, "__name__", ""))
    figure.suptitle(title or f"Jacobian of {name}" if title or name else "Jacobian")
    if show_plot:
        pyplot.show()
    return figure
