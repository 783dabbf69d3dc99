"""Freedom from races, proved without running: all accesses to an array are sums, or each is to a place of its thread.

Indices are compared as affine forms of the thread index (as in the dependence tests of loop parallelisers: Banerjee,
"Dependence Analysis", 1997): `x[3 * tid() + k]` with k from 0 to 2 belongs to the thread, with k up to 3 it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.ir.core import Func, Op, Value, split_memory, walk
from sim.core.lang.types import Scalar

LARGE = 2**16
"""Factors of a thread index from which 32 bits may not hold the multiples of a launch."""


def potential_races(kernel: Func, groups: Mapping[Value, int], tbr: ToBeRecorded) -> frozenset[int]:
    """Numbers of the parameters whose accesses matter to the gradient and are not known to be free of races.

    Arrays with a gradient matter, and written arrays that the adjoint is live in.
    """
    accesses: dict[int, list[Op]] = {}
    for op in walk(kernel.body):
        if op.row.memory:
            accesses.setdefault(groups[op.operands[0]], []).append(op)
    number = {p: k for k, p in enumerate(tbr.kernel.params)}
    read = {
        number[op.operands[0]]
        for op in walk(tbr.kernel.body)
        if op.name == "load" and any(r in tbr.needed for r in op.results)
    } - tbr.must_cache
    found: set[int] = set()
    known = _uniform(kernel)
    for group, ops in accesses.items():
        members = {k for k, p in enumerate(kernel.params) if groups.get(p) == group}
        if not members & (read | set(tbr.active)) or not any(op.row.writes for op in ops):
            continue
        promised = all(kernel.params[k].name in kernel.attrs.get("exclusive", ()) for k in members)
        if (
            not promised
            and not all(op.name in ("accum", "atomic") for op in ops)
            and not _is_injective(ops, kernel.dims, known)
        ):
            found |= members
    return frozenset(found)


@dataclass(frozen=True)
class AffineIndex:
    """A sum of symbols (axes of `tid`, scalar parameters, extents of arrays) times integers, and a bounded constant."""

    terms: dict[object, int]
    low: int
    high: int

    @property
    def not_negative(self) -> bool:
        """Whether it is made of axes of `tid` and extents, which are not negative, alone."""
        return self.low >= 0 and all(isinstance(s, tuple) and f > 0 for s, f in self.terms.items())

    def scaled(self, factor: int) -> AffineIndex:
        ends = sorted((self.low * factor, self.high * factor))
        return AffineIndex({s: f * factor for s, f in self.terms.items() if factor}, *ends)

    def plus(self, other: AffineIndex) -> AffineIndex:
        total = {s: self.terms.get(s, 0) + other.terms.get(s, 0) for s in (*self.terms, *other.terms)}
        return AffineIndex({s: f for s, f in total.items() if f}, self.low + other.low, self.high + other.high)


def affine_index(v: Value, known: Mapping[Value, AffineIndex]) -> AffineIndex | None:
    """An index as such a sum, if it is one.  `known`: scalar parameters, and counters of loops of constant length."""
    if v in known:
        return known[v]
    if v.op is None:
        return None
    if isinstance(v.const, int):
        return AffineIndex({}, v.const, v.const)
    name, operands = v.op.name, v.op.operands
    if name == "tid":
        return AffineIndex({("tid", v.op.axis): 1}, 0, 0)
    if name == "shape":
        return AffineIndex({("shape", operands[0], v.op.axis): 1}, 0, 0)
    if name == "cast" and operands[0].type.is_int and v.type.is_int and v.type.bits >= operands[0].type.bits:  # type: ignore[attr-defined]
        return affine_index(operands[0], known)
    if name == "from_end":  # of a function, whose caller gives it an index that is not negative
        index = affine_index(operands[0], known)
        return index if index is not None and index.not_negative else None
    if name not in ("add", "sub", "mul", "neg"):
        return None
    parts = [part for x in operands if (part := affine_index(x, known)) is not None]
    if len(parts) < len(operands):
        return None
    if name == "neg":
        return parts[0].scaled(-1)
    left, right = parts
    if name != "mul":
        return left.plus(right if name == "add" else right.scaled(-1))
    constant = next((part for part in parts if not part.terms and part.low == part.high), None)
    return None if constant is None else (right if constant is left else left).scaled(constant.low)


def _uniform(kernel: Func) -> dict[Value, AffineIndex]:
    """The scalar parameters, which all threads share, and the counters of loops of constant length."""
    known = {p: AffineIndex({p: 1}, 0, 0) for p in kernel.params if isinstance(p.type, Scalar) and p.type.is_int}
    for op in walk(kernel.body):
        if op.name == "for" and isinstance(op.operands[0].const, int):
            known[op.regions[0].params[0]] = AffineIndex({}, 0, max(op.operands[0].const - 1, 0))
    return known


def _is_injective(ops: Sequence[Op], dims: int, known: Mapping[Value, AffineIndex]) -> bool:
    """Does every access go to a place of its thread alone?

    So it is if for each axis of the launch there is an index which is, in all accesses, the same multiple of that axis,
    plus the same further terms, plus constants that differ by less than the factor.  With a large factor multiples
    wrap, and may coincide again.
    """
    if len({op.operands[0] for op in ops}) > 1:  # several names of one memory
        return False
    return _are_apart([_place(op, known) for op in ops], dims)


def _place(op: Op, known: Mapping[Value, AffineIndex]) -> list[AffineIndex | None]:
    return [affine_index(v, known) for v in split_memory(op)[1]]


def _are_apart(places: Sequence[Sequence[AffineIndex | None]], dims: int) -> bool:
    """Are all these places of the thread alone?"""
    columns = list(zip(*places, strict=True))

    def holds(column: Sequence[AffineIndex | None], axis: int) -> bool:
        forms = [form for form in column if form is not None]
        if len(forms) < len(column) or any(form.terms != forms[0].terms for form in forms):
            return False
        tids = [s for s in forms[0].terms if isinstance(s, tuple) and s[0] == "tid"]
        window = max(form.high for form in forms) - min(form.low for form in forms)
        return tids == [("tid", axis)] and window < abs(forms[0].terms["tid", axis]) < LARGE

    return all(any(holds(column, axis) for column in columns) for axis in (range(dims) if dims > 1 else (-1,)))
