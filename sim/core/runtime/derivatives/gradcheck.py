"""Is a gradient right?  Reverse mode, forward mode and differences, along random directions, in one table.

With random weights w over all outputs and a random direction v of one input, three numbers have to agree: <J^T w, v> of
the adjoint, <w, J v> of the tangent, and the difference quotient of <w, f>.  Where they do not, single components are
compared until one that is off is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.backends.interp import evaluate
from sim.core.lang.analysis.activity import is_float
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import NotSupportedError, SimError, entry_point
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracer import closed_form
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import Composite, HostStruct, bool_, float64, int32
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.derivatives.forward import Forward
from sim.core.runtime.derivatives.program import (
    Argument,
    Differentiable,
    Dim,
    Number,
    Program,
    program_of,
    program_of_call,
)
from sim.core.runtime.devices.device import DeviceLike
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.tape.tape import Tape


class GradcheckError(SimError, AssertionError, ValueError):
    """A gradient that differences do not confirm.  The message is the table."""


@dataclass(frozen=True)
class GradientRow:
    """One input, along one direction: the derivative of the weighted outputs three times.

    noise: how far the difference quotients of neighbouring steps are apart: what they are worth.
    where: the component (index into the data of the array, and its three derivatives) that is most off, if any is.
    """

    name: str
    adjoint: float
    tangent: float
    difference: float
    noise: float
    ok: bool
    where: str = ""


@dataclass(frozen=True)
class GradientReport:
    """What `gradcheck` found.  True if everything agrees."""

    title: str
    rows: list[GradientRow] = field(default_factory=list)

    def __bool__(self) -> bool:
        return all(row.ok for row in self.rows)

    def __str__(self) -> str:
        width = max([len(row.name) for row in self.rows] + [5])
        lines = [self.title, f"{'input':{width}}  {'adjoint':>14}  {'tangent':>14}  {'difference':>14}  {'noise':>8}"]
        for row in self.rows:
            verdict = "" if row.ok else f"  <- off{', most at ' + row.where if row.where else ''}"
            lines.append(
                f"{row.name:{width}}  {row.adjoint:14.7g}  {row.tangent:14.7g}  {row.difference:14.7g} "
                f" {row.noise:8.1e}{verdict}"
            )
        return "\n".join(lines)


@entry_point
def gradcheck(
    function: Tape | Function | Differentiable,
    dim: Dim = None,
    inputs: Sequence[Argument] = (),
    outputs: Sequence[Argument] = (),
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    input_output_mask: Sequence[tuple[Number, Number]] | None = None,
    device: DeviceLike = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = 64,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = False,
    restore_inputs: bool = True,
    directions: int = 2,
    seed: int = 0,
) -> GradientReport:
    """Compares the gradient of a kernel, a Python function or the kernels of a tape with differences.

    function: a kernel (with `dim`, `inputs`, `outputs` as for `launch`), a Python function of `inputs` that returns
        arrays, a `Tape` (each of its kernels is checked on what its arrays hold now), or a function of the language for
        host values (`float` is double here): its custom gradient, if it has one, against the derivative of its body.
    eps: step of the differences, relative to the size of the values (None: tried for the best); atol, rtol: tolerances
        (None: by precision).  directions: random directions per input.
    max_inputs_per_var: how many components are looked at to find the one that is off.
    input_output_mask, device, max_blocks, block_dim, max_outputs_per_var and restore_inputs are taken for Warp's
        programs: all pairs are checked.  Errors are not plotted (NotSupportedError): see `sim.autograd.jacobian_plot`.
    Everything happens on copies.  Raises GradcheckError if a gradient is off, unless `raise_exception` is False.
    """
    _no_plots(plot_relative_error or plot_absolute_error)
    if isinstance(function, Tape):
        return gradcheck_tape(function, eps, atol, rtol, raise_exception, show_summary=show_summary, seed=seed)
    if isinstance(function, Function):
        title, found = f"custom gradient of {function.name}", _check_language(function, inputs, rtol, seed)
    else:
        title = f"gradient of {getattr(function, 'name', getattr(function, '__name__', 'the function'))}"
        settings = _Settings(eps, atol, rtol, directions, max_inputs_per_var, seed)
        found = _GradientCheck(program_of(function, dim, inputs, outputs), settings).rows()
    return _finish(GradientReport(title, found), raise_exception, show_summary)


@entry_point
def gradcheck_tape(
    tape: Tape,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Sequence[tuple[Number, Number]]] | None = None,
    blacklist_kernels: Collection[Any] | None = None,
    whitelist_kernels: Collection[Any] | None = None,
    max_inputs_per_var: int = 64,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = False,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
    seed: int = 0,
) -> GradientReport:
    """Checks each kernel on a tape once, on what its arrays hold now.  Kernels by themselves or by name.

    skip_to_launch_index: without the launches before.  The other arguments are taken for Warp's programs.
    """
    _no_plots(plot_relative_error or plot_absolute_error)
    skip, only = ({getattr(k, "name", k) for k in chosen or ()} for chosen in (blacklist_kernels, whitelist_kernels))
    calls: dict[Any, Call] = {}
    for call in tape.launches[skip_to_launch_index:]:
        name = call.spec.kernel.name
        if name not in skip and (not only or name in only):
            calls.setdefault(call.spec, call)
    settings, rows = _Settings(eps, atol, rtol, 1, max_inputs_per_var, seed), list[GradientRow]()
    for spec, call in calls.items():
        rows += _GradientCheck(program_of_call(call), settings).rows(f"{spec.kernel.name}: ")
    return _finish(GradientReport("gradients of the kernels of a tape", rows), raise_exception, show_summary)


def _no_plots(asked: bool) -> None:
    """What is compared are slopes along directions: there is no matrix of errors that a plot could show."""
    if asked:
        raise NotSupportedError(
            "plots of errors are not supported: use sim.autograd.jacobian_plot of jacobian(...) and jacobian_fd(...)"
        )


def _finish(report: GradientReport, raise_exception: bool, show: bool) -> GradientReport:
    if show:
        print(report)
    if raise_exception and not report:
        raise GradcheckError(str(report))
    return report


# ------------------------------------------------------------------------------------------------ one program
@dataclass(frozen=True)
class _Settings:
    """See `gradcheck`."""

    eps: float | None
    atol: float | None
    rtol: float | None
    directions: int
    components: int
    seed: int


@dataclass
class _Input:
    """An input: its gradient of the weighted outputs (reverse mode), size of values, relative precision.

    coarsest: the precision of the outputs.
    """

    number: Number
    array: array
    gradient: np.ndarray
    coarsest: float

    def __post_init__(self) -> None:
        self.size = float(np.max(np.abs(_host(self.array)), initial=0.0)) or 1.0
        self.precision = max(float(np.finfo(_host(self.array).dtype).eps), self.coarsest)


@dataclass
class _GradientCheck:
    """A program whose outputs get random weights, so that it has one gradient."""

    program: Program
    settings: _Settings

    def __post_init__(self) -> None:
        program, self.rng = self.program, np.random.default_rng(self.settings.seed)
        with Tape() as tape:
            results = program.run()
        self.weights = [self.rng.normal(size=_host(r).shape) for r in results]
        gradients = {i: np.zeros(_host(a).shape) for i, a in program.inputs}
        if tape.records:
            seeds = zip(results, self.weights, strict=True)
            tape.backward(grads={r: array(w.astype(_host(r).dtype), dtype=r.dtype, device=r.device) for r, w in seeds})
            gradients = {i: _host(a.grad).astype(np.float64) for i, a in program.inputs if a.grad is not None}
            tape.zero()
        coarsest = max((float(np.finfo(_host(r).dtype).eps) for r in results), default=0.0)
        self.inputs = [_Input(i, a, gradients[i], coarsest) for i, a in program.inputs]

    def rows(self, prefix: str = "") -> list[GradientRow]:
        """Each input, along each direction."""
        rows, count = [], self.settings.directions
        for x in self.inputs:
            for k in range(count):
                v = self.rng.normal(size=x.gradient.shape)
                name = prefix + self.program.names[x.number] + (f" #{k + 1}" if count > 1 else "")
                rows.append(self._row(x, v, name))
        return rows

    def _row(self, x: _Input, v: np.ndarray, name: str) -> GradientRow:
        atol, rtol = self.settings.atol, self.settings.rtol
        adjoint = float(np.sum(x.gradient * v))
        tangent = self._tangent(x, v)
        difference, noise = self._difference(x, v)
        # What a sum of so many terms can be known to: their size matters, not that of a sum in which they cancel.
        scale = float(np.sum(np.abs(x.gradient * v)))
        if rtol is None:
            rtol = 300.0 * x.precision**0.5 / 2.0 if x.precision > 1e-10 else 1e-6
        allowed = (
            (atol if atol is not None else 10.0 * x.precision * max(scale, 1.0))
            + rtol * max(abs(difference), 1e-2 * scale)
            + 3.0 * noise
        )
        exactly = (atol or 0.0) + 1e-2 * rtol * scale + 1e4 * x.precision * scale
        ok = abs(adjoint - difference) <= allowed and abs(adjoint - tangent) <= exactly
        ok = ok and all(map(np.isfinite, (adjoint, tangent, difference)))
        return GradientRow(name, adjoint, tangent, difference, noise, ok, "" if ok else self._worst(x))

    def _value(self, steps: dict[Number, np.ndarray]) -> float:
        """The weighted sum of the outputs, with some inputs changed."""
        return self._weighted(self.program.at(steps))

    def _tangent(self, x: _Input, v: np.ndarray) -> float:
        with recording.paused(), Forward({x.array: v}) as forward:
            return self._weighted([forward.tangent(r) for r in self.program.run()])

    def _difference(self, x: _Input, v: np.ndarray) -> tuple[float, float]:
        return _difference(lambda h: self._value({x.number: h * v}), x.size, x.precision, self.settings.eps)

    def _weighted(self, results: list[array]) -> float:
        return float(sum(np.sum(_host(r).astype(np.float64) * w) for r, w in zip(results, self.weights, strict=True)))

    def _worst(self, x: _Input) -> str:
        """The component whose derivatives differ most, of all or, of a large array, of random ones."""
        size = x.gradient.size
        some = self.settings.components if self.settings.components > 0 else size
        worst, found = -1.0, ""
        for c in range(size) if size <= some else self.rng.choice(size, some, replace=False):
            unit = np.zeros(x.gradient.shape)
            unit.flat[c] = 1.0
            numbers = float(x.gradient.ravel()[c]), self._tangent(x, unit), self._difference(x, unit)[0]
            off = max(numbers) - min(numbers) if all(map(np.isfinite, numbers)) else np.inf
            if off > worst:
                index = [int(n) for n in np.unravel_index(int(c), x.gradient.shape)]
                worst, found = off, f"{index}: " + ", ".join(f"{number:.6g}" for number in numbers)
        return found


# ------------------------------------------------------------------------------------------------ of the language
def _check_language(function: Function, inputs: Sequence[Argument], rtol: float | None, seed: int) -> list[GradientRow]:
    """The column `adjoint` has the closed form of a function, `tangent` what its body derives to."""
    kinds = [_double(x) for x in inputs]
    form = closed_form(function, kinds, float64)
    callee = inline(form.callee)
    flat = [x for value, kind in zip(inputs, kinds, strict=True) for x in _leaves(value, kind)]
    results = evaluate(callee, *flat)
    rng = np.random.default_rng(seed)
    weights = [rng.normal() for v in callee.body.yields if is_float(v)]
    derived = evaluate(inline(vjp(form.callee)), *flat, *weights)
    given = evaluate(inline(form.vjp()), *flat, *results, *weights) if function.adjoint is not None else derived

    def value(steps: np.ndarray) -> float:
        moves = iter(steps)
        moved = [x + next(moves) if is_float(p) else x for x, p in zip(flat, callee.params, strict=True)]
        outputs = zip(evaluate(callee, *moved), callee.body.yields, strict=True)
        reals = (y for y, v in outputs if is_float(v))
        return float(sum(w * y for w, y in zip(weights, reals, strict=True)))

    rows, floats = [], [p for p in callee.params if is_float(p)]
    precision = max((float(np.finfo(p.type.np).eps) for p in floats), default=1e-16)  # type: ignore[attr-defined]
    relative = rtol if rtol is not None else 1e-6 if precision < 1e-10 else 1e-2
    for k, p in enumerate(floats):
        unit = np.eye(len(floats))[k]
        difference, noise = _difference(lambda h, unit=unit: value(h * unit), 1.0, precision, None)  # type: ignore[misc]
        allowed = relative * (1.0 + abs(difference)) + 3.0 * noise
        ok = abs(given[k] - difference) <= allowed and abs(given[k] - derived[k]) <= allowed
        rows.append(GradientRow(p.name, float(given[k]), float(derived[k]), difference, noise, bool(ok)))
    return rows


def _double(value: Any) -> Any:
    if isinstance(value, (Composite, HostStruct)):
        return value.type if isinstance(value, Composite) else value._sim_struct_
    return bool_ if isinstance(value, bool) else int32 if isinstance(value, int) else float64


def _leaves(value: Any, kind: Any) -> list[Any]:
    if isinstance(value, HostStruct):
        return [x for key, part in kind.fields.items() for x in _leaves(getattr(value, key), part)]
    return list(value.data.ravel()) if isinstance(value, Composite) else [kind.np.type(value)]


def _difference(
    value: Callable[[float], float], size: float, precision: float, eps: float | None
) -> tuple[float, float]:
    """Central difference and its uncertainty: the step whose two neighbours agree with it best."""
    best = precision ** (1.0 / 3.0)
    steps = [eps * size] if eps is not None else [best * size * f for f in (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)]
    quotients = [(value(h) - value(-h)) / (2.0 * h) for h in steps]
    if len(steps) == 1:
        return quotients[0], 0.0
    spread = [abs(p - q) for p, q in zip(quotients, quotients[1:], strict=False)]
    k = int(np.argmin([max(p, q) for p, q in zip(spread, spread[1:], strict=False)]))
    return quotients[k + 1], max(spread[k], spread[k + 1])


def _host(a: array) -> np.ndarray:
    return a.device.numpy(a)
