"""Is a gradient right?  Reverse mode, forward mode and differences, along random directions, in one table.

With random weights w over all outputs and a random direction v of one input, three numbers have to agree: <J^T w, v> of
the adjoint, <w, J v> of the tangent, and the difference quotient of <w, f>.  Where they do not, single components are
compared until one that is off is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.backends.interp import evaluate
from sim.core.lang.analysis.activity import is_float
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import SimError, entry_point
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracer import closed_form
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import Composite, HostStruct, bool_, float64, int32
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.derivatives.forward import Forward
from sim.core.runtime.derivatives.program import Program, program_of, program_of_call
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.tape.tape import Tape


class GradcheckError(SimError, AssertionError):
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
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    show_summary: bool = False,
    directions: int = 2,
    max_inputs_per_var: int = 64,
    seed: int = 0,
) -> GradientReport:
    """Compares the gradient of a kernel, a Python function or the kernels of a tape with differences.

    function: a kernel (with `dim`, `inputs`, `outputs` as for `launch`), a Python function of `inputs` that returns
    arrays, a
        `Tape` (each of its kernels is checked on what its arrays hold now), or a function of the language for host values
        (`float` is double here): its custom gradient, if it has one, against the derivative of its body.
    eps: step of the differences, relative to the size of the values (None: tried for the best); atol, rtol: tolerances
        (None: by precision).  directions: random directions per input.  max_inputs_per_var: how many components are
        looked at to find the one that is off.
    Everything happens on copies.  Raises GradcheckError if a gradient is off, unless `raise_exception` is False.
    """
    if isinstance(function, Tape):
        return gradcheck_tape(function, eps, atol, rtol, raise_exception, show_summary=show_summary, seed=seed)
    if isinstance(function, Function):
        return _finish(
            [_check_language(function, inputs, rtol, seed)],
            f"custom gradient of {function.name}",
            raise_exception,
            show_summary,
        )
    program = program_of(function, dim, inputs, outputs)
    title = f"gradient of {getattr(function, 'name', getattr(function, '__name__', 'the function'))}"
    return _finish(
        [_check(program, title, eps, atol, rtol, directions, max_inputs_per_var, seed)],
        title,
        raise_exception,
        show_summary,
    )


@entry_point
def gradcheck_tape(
    tape: Tape,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    blacklist_kernels: Collection[Any] = (),
    whitelist_kernels: Collection[Any] = (),
    show_summary: bool = False,
    seed: int = 0,
) -> GradientReport:
    """Checks each kernel that a tape has recorded, once, on what its arrays hold now.  Kernels by themselves or by
    name."""
    skip, only = ({getattr(k, "name", k) for k in chosen} for chosen in (blacklist_kernels, whitelist_kernels))
    calls: dict[Any, Call] = {}
    for call in tape.launches:
        name = call.spec.kernel.name
        if name not in skip and (not only or name in only):
            calls.setdefault(call.spec, call)
    reports = []
    for spec, call in calls.items():
        program = program_of_call(call)
        reports.append(_check(program, spec.kernel.name, eps, atol, rtol, 1, 64, seed, prefix=f"{spec.kernel.name}: "))
    return _finish(reports, "gradients of the kernels of a tape", raise_exception, show_summary)


def _finish(reports: list[GradientReport], title: str, raise_exception: bool, show: bool) -> GradientReport:
    report = GradientReport(title, [row for r in reports for row in r.rows])
    if show:
        print(report)
    if raise_exception and not report:
        raise GradcheckError(str(report))
    return report


# ------------------------------------------------------------------------------------------------ one program
def _check(
    program: Program,
    title: str,
    eps: float | None,
    atol: float | None,
    rtol: float | None,
    directions: int,
    components: int,
    seed: int,
    prefix: str = "",
) -> GradientReport:
    rng = np.random.default_rng(seed)
    with Tape() as tape:
        results = program.run()
    weights = [rng.normal(size=_host(r).shape) for r in results]
    gradients = {i: np.zeros(_host(a).shape) for i, a in program.inputs}
    if tape.records:
        tape.backward(
            grads={
                r: array(w.astype(_host(r).dtype), dtype=r.dtype, device=r.device)
                for r, w in zip(results, weights, strict=True)
            }
        )
        gradients = {i: _host(a.grad).astype(np.float64) for i, a in program.inputs}  # type: ignore[arg-type]
        tape.zero()

    def value(steps: dict) -> float:
        return float(
            sum(np.sum(_host(r).astype(np.float64) * w) for r, w in zip(program.at(steps), weights, strict=True))
        )

    rows = []
    for i, a in program.inputs:
        exact = np.finfo(_host(a).dtype).eps
        relative = rtol if rtol is not None else 300.0 * exact**0.5 / 2.0 if exact > 1e-10 else 1e-6
        for k in range(directions):
            v = rng.normal(size=_host(a).shape)
            name = prefix + program.names[i] + (f" #{k + 1}" if directions > 1 else "")
            rows.append(
                _row(program, i, a, v, gradients[i], weights, value, name, eps, atol, relative, components, rng)
            )
    return GradientReport(title, rows)


def _row(
    program: Program,
    i: Any,
    a: array,
    v: np.ndarray,
    gradient: np.ndarray,
    weights: list[np.ndarray],
    value: Callable[[dict], float],
    name: str,
    eps: float | None,
    atol: float | None,
    rtol: float,
    components: int,
    rng: np.random.Generator,
) -> GradientRow:
    adjoint = float(np.sum(gradient * v))
    tangent = _tangent(program, a, v, weights)
    size = float(np.max(np.abs(_host(a)), initial=0.0)) or 1.0
    precision = float(np.finfo(_host(a).dtype).eps)
    difference, noise = _difference(lambda h: value({i: h * v}), size, precision, eps)
    # What a sum of so many terms can be known to: their size matters, not that of a sum in which they cancel.
    scale = float(np.sum(np.abs(gradient * v)))
    allowed = (
        (atol if atol is not None else 10.0 * precision * max(scale, 1.0))
        + rtol * max(abs(difference), 1e-2 * scale)
        + 3.0 * noise
    )
    exactly = (atol or 0.0) + 1e-2 * rtol * scale + 1e4 * precision * scale
    ok = abs(adjoint - difference) <= allowed and abs(adjoint - tangent) <= exactly
    ok = ok and all(map(np.isfinite, (adjoint, tangent, difference)))
    where = "" if ok else _worst(program, i, a, gradient, weights, value, size, precision, eps, components, rng)
    return GradientRow(name, adjoint, tangent, difference, noise, ok, where)


def _check_language(function: Function, inputs: Sequence[Any], rtol: float | None, seed: int) -> GradientReport:
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
        moved = evaluate(
            callee, *[x + next(moves) if is_float(p) else x for x, p in zip(flat, callee.params, strict=True)]
        )
        return float(
            sum(
                w * y
                for w, y in zip(
                    weights, (y for y, v in zip(moved, callee.body.yields, strict=True) if is_float(v)), strict=True
                )
            )
        )

    rows, floats = [], [p for p in callee.params if is_float(p)]
    precision = max((float(np.finfo(p.type.np).eps) for p in floats), default=1e-16)  # type: ignore[attr-defined]
    relative = rtol if rtol is not None else 1e-6 if precision < 1e-10 else 1e-2
    for k, p in enumerate(floats):
        unit = np.eye(len(floats))[k]
        difference, noise = _difference(lambda h, unit=unit: value(h * unit), 1.0, precision, None)  # type: ignore[misc]
        allowed = relative * (1.0 + abs(difference)) + 3.0 * noise
        ok = abs(given[k] - difference) <= allowed and abs(given[k] - derived[k]) <= allowed
        rows.append(GradientRow(p.name, float(given[k]), float(derived[k]), difference, noise, bool(ok)))
    return GradientReport(function.name, rows)


def _double(value: Any) -> Any:
    if isinstance(value, (Composite, HostStruct)):
        return value.type if isinstance(value, Composite) else value._sim_struct_
    return bool_ if isinstance(value, bool) else int32 if isinstance(value, int) else float64


def _leaves(value: Any, kind: Any) -> list[Any]:
    if isinstance(value, HostStruct):
        return [x for key, part in kind.fields.items() for x in _leaves(getattr(value, key), part)]
    return list(value.data.ravel()) if isinstance(value, Composite) else [kind.np.type(value)]


def _tangent(program: Program, a: array, v: np.ndarray, weights: list[np.ndarray]) -> float:
    with recording.paused(), Forward({a: v}) as forward:
        results = program.run()
        return float(
            sum(np.sum(_host(forward.tangent(r)).astype(np.float64) * w) for r, w in zip(results, weights, strict=True))
        )


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


def _worst(
    program: Program,
    i: Any,
    a: array,
    gradient: np.ndarray,
    weights: list[np.ndarray],
    value: Callable[[dict], float],
    size: float,
    precision: float,
    eps: float | None,
    components: int,
    rng: np.random.Generator,
) -> str:
    """The component whose derivatives differ most, of the first `components` (or as many random ones of a large
    array)."""
    shape = gradient.shape
    chosen = (
        range(gradient.size) if gradient.size <= components else rng.choice(gradient.size, components, replace=False)
    )
    worst, found = -1.0, ""
    for c in chosen:
        unit = np.zeros(gradient.size)
        unit[c] = 1.0
        reverse = float(gradient.ravel()[c])
        tangent = _tangent(program, a, unit.reshape(shape), weights)
        difference, _ = _difference(lambda h, unit=unit: value({i: h * unit}), size, precision, eps)  # type: ignore[misc]
        numbers = (reverse, tangent, difference)
        off = max(numbers) - min(numbers) if all(map(np.isfinite, numbers)) else np.inf
        if off > worst:
            index = tuple(int(n) for n in np.unravel_index(int(c), shape))
            worst, found = off, f"{list(index)}: {reverse:.6g}, {tangent:.6g}, {difference:.6g}"
    return found


def _host(a: array) -> np.ndarray:
    return a.device.numpy(a)
