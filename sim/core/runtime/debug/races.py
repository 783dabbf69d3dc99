"""A launch whose result depends on the order of its threads is refused when it is recorded.

Kernels that touch only what belongs to the thread, or only add, are known to be free of races.  Others are run once in
a sandbox (`sim/core/lang/instrument/races.py`).  A verdict holds as long as all that it depends on stays the same:
sizes, the integer arguments, and the content of the index arrays, known by their buffers' counters of changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from weakref import ref

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.instrument.gradient_looks import with_looks
from sim.core.lang.instrument.race_freedom import potential_races
from sim.core.lang.instrument.races import RaceCheck, address_check, exact_check
from sim.core.lang.instrument.shadow_memory import ADD, KINDS, READ, REPORT
from sim.core.lang.ir.core import Func
from sim.core.lang.ir.store_forwarding import alias_groups
from sim.core.runtime.arrays.array import array
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.compiled.known import known, part_of, recall, remember
from sim.core.runtime.launch.adjoints import Differentiated
from sim.core.runtime.launch.aliases import Aliases
from sim.core.runtime.launch.calls import Call, thread_count
from sim.core.runtime.launch.faults import raise_fault
from sim.core.runtime.launch.kernel import Specialisation
from sim.core.runtime.launch.sandbox import host_argument, on_cpu, run_sandboxed, sandboxed_arguments
from sim.core.runtime.launch.structures import refuse_elsewhere, structure_memory
from sim.core.runtime.memory.buffer import Buffer, ByteRange
from sim.core.runtime.memory.spans import extent_of

REMEMBERED = 1024
"""Verdicts that are remembered for a kernel, the latest ones: a launch per colour has a verdict of its own."""


class CheckFacts(NamedTuple):
    """What a launch asks of a `RaceCheck` beside its code."""

    watched: tuple[int, ...]
    unit: int
    used: frozenset[int]
    exact: bool


@dataclass(eq=False)
class _CompiledCheck:
    """A check, compiled, and the launches that have passed it.

    make: gives the check itself, which other processes may have made: then it is asked for by a report alone.
    """

    make: Callable[[], RaceCheck]
    facts: CheckFacts
    compiled: Compiled
    passed: dict[tuple[object, ...], None] = field(default_factory=dict)

    def verdict_key(self, call: Call) -> tuple[object, ...]:
        """All that the verdict depends on."""
        key: list[object] = [call.dims]
        for k, a in enumerate(call.args):
            if isinstance(a, array):
                key.append((a.shape, a.strides, a.offset))
                if k in self.facts.used:
                    key.append(_content(a.buffer))
            elif k in self.facts.used:
                key.append(a)
        if call.spec.peeks:
            key += [_content(a.buffer) for a in structure_memory(call)]
        return tuple(key)

    def passes(self, call: Call) -> np.ndarray | None:
        """None if the launch is free of races, else the report."""
        key = self.verdict_key(call)
        if key in self.passed:
            return None
        report = _run(call, self.facts, self.compiled)
        if report[0]:
            return report
        self.passed[key] = None
        if len(self.passed) > REMEMBERED:
            self.passed.pop(list(self.passed)[0], None)  # a list at once: other threads add to it
        return None


class _NoCheck:
    """Of a kernel that is known to be free of races."""

    def refuse(self, call: Call) -> None:
        """See `LaunchCheck`."""


@dataclass(eq=False)
class _Checks:
    """The checks of one specialisation for one choice of gradients and overlaps.

    addresses: of the places alone, whichever way branches go: it costs less, and most launches pass; None where places
        depend on values.
    exact: of what threads really touch, made when it is first needed.
    """

    addresses: _CompiledCheck | None
    func: Callable[[], Func]
    watched: frozenset[int]
    active: frozenset[int]
    key: str
    exact: _CompiledCheck | None = None

    def refuse(self, call: Call) -> None:
        """See `LaunchCheck`."""
        if thread_count(call.dims) < 2:
            return
        refuse_elsewhere(call, "whether its threads touch what others write is found out")
        if self.addresses is not None and self.addresses.passes(call) is None:
            return
        if self.exact is None:
            key = part_of(self.key, "exact check", sorted(self.active))
            self.exact = _compiled(key, lambda: exact_check(self.func(), self.watched, self.active))
            assert self.exact is not None
        report = self.exact.passes(call)
        if report is not None:
            raise _found(call, self.exact.make(), report)


def _compiled(key: str, make: Callable[[], RaceCheck | None]) -> _CompiledCheck | None:
    """The check that is known under a key, else the one that `make` gives; None where there is none."""

    @cache
    def made() -> RaceCheck:
        check = make()
        assert check is not None, "there was such a check in another process"
        return check

    found = recall(key)
    if found is None:
        check = make()
        if check is None:
            remember(key, ())
            return None
        facts = CheckFacts(check.watched, check.unit, check.used, check.exact)
        compiled = Compiled(check.func, None, part_of(key, "its code"))
        if key:
            remember(key, (facts, compiled.facts()))
        return _CompiledCheck(lambda: check, facts, compiled)
    if not found:
        return None
    facts, of_code = found
    compiled = Compiled.of_known(of_code, lambda: (made().func, None), part_of(key, "its code"))
    return _CompiledCheck(made, facts, compiled)


def refuse_races(call: Call, active: frozenset[int], aliases: Aliases, made: Differentiated) -> None:
    """Raises GradientError if threads of this launch touch what others write, where that matters to the gradient.

    Looked at when a launch is recorded, on the CPU: for another device on copies.  What a captured graph does with
    other content of the arrays later is not.
    """
    if made.race_check is None:
        made.race_check = _check_of(call.spec, active, aliases, made)
    made.race_check.refuse(call)


def _check_of(
    spec: Specialisation, active: frozenset[int], aliases: Aliases, made: Differentiated
) -> _Checks | _NoCheck:
    if spec.kernel.race_free:
        return _NoCheck()

    @cache
    def func() -> Func:
        """What is checked; other processes may know the verdict on it."""
        return with_looks(spec.source, alias_groups(spec.source, aliases)) or spec.func

    def found() -> frozenset[int]:
        """Numbers of the arrays in which threads may meet."""
        return potential_races(func(), alias_groups(func(), aliases), made.tbr)

    watched = known(part_of(made.key, "races"), found)
    if not watched:
        return _NoCheck()
    key = part_of(made.key, "address check", sorted(active))
    addresses = _compiled(key, lambda: address_check(func(), watched, active))
    return _Checks(addresses, func, watched, active, made.key)


def _content(buffer: Buffer) -> tuple[object, ...]:
    """Stands for the present content of a buffer: equal again only if that is the same."""
    if buffer.shared:  # others may write there, unseen
        return ref(buffer), hash(buffer.device.numpy(ByteRange(buffer)).tobytes())
    return ref(buffer), buffer.version, buffer.epoch


def _run(call: Call, check: CheckFacts, compiled: Compiled) -> np.ndarray:
    """Run the check on copies of what the kernel writes: the report, all ones where an index was outside."""
    call = on_cpu(call)
    places, cells = _shadow_layout(call, check, compiled)
    layout, shadow = np.array(places, np.int64), np.zeros((KINDS, cells + 1), np.int32)
    report = np.zeros(REPORT, np.int32)
    args = sandboxed_arguments(call, call.spec.writes & check.used)
    args += [host_argument(layout), host_argument(shadow), host_argument(report)]
    executable, fault = run_sandboxed(compiled, call, args, check=True)
    if fault[0]:
        _refuse_bad_index(call)
        if check.exact:
            raise_fault(compiled, executable, fault, call.dims)
        report[:] = 1
    return report


def _shadow_layout(call: Call, check: CheckFacts, compiled: Compiled) -> tuple[list[int], int]:
    """Where the watched arrays lie in shadow memory (the cell of the first element, and strides in cells), and how many
    cells there are.  Arrays that overlap share the cells of the bytes that they share."""
    begin: dict[Buffer, tuple[int, int]] = {}
    cells = 0
    watched = [call.args[k] for k in check.watched if call.args[k] is not None]
    for buffer in {a.buffer for a in watched}:
        extents = [extent_of(a) for a in watched if a.buffer is buffer]
        low, high = min(e[0] for e in extents), max(e[1] for e in extents)
        begin[buffer], cells = (cells, low), cells + (high - low) // check.unit + 1
    places: list[int] = []
    for k in check.watched:
        a, ndim = call.args[k], compiled.forms[k]
        assert isinstance(ndim, int), "only arrays are watched"
        if a is None:
            places += [0] * (1 + ndim)
            continue
        first, low = begin[a.buffer]
        places += [first + (a.offset - low) // check.unit, *(stride // check.unit for stride in a.strides)]
    return places, cells


def _refuse_bad_index(call: Call) -> None:
    """Raises KernelFault, in the words of the kernel itself, if it touches what is outside of its arrays."""
    forward = call.spec.forward
    executable, fault = run_sandboxed(forward, call, sandboxed_arguments(call, call.spec.writes), check=True)
    if fault[0]:
        raise_fault(forward, executable, fault, call.dims)


def _found(call: Call, check: RaceCheck, report: np.ndarray) -> GradientError:
    op = check.sites[int(report[0]) - 1]
    look = next((o for o in check.sites if "looks" in o.attrs and o.operands[0] is op.operands[0]), None)
    if look is not None:
        return GradientError(
            f"launch of '{call.spec.kernel.name}': the gradient function of `{look.attrs['looks']}` looks at"
            f" adjoint[{op.operands[0].name}] where another thread stores to '{op.operands[0].name}' or reads it, as"
            f" thread {int(report[1])} does: the gradient depends on the order of the threads",
            look.span,
            "look at the elements that the thread itself stores",
        )
    does = {"load": "reads", "store": "writes"}.get(op.name, "adds to")
    did = {READ: "read", ADD: "added to"}.get(int(report[3]), "written")
    other = f"thread {int(report[2])} has" if report[2] >= 0 else "other threads have"
    return GradientError(
        f"launch of '{call.spec.kernel.name}': thread {int(report[1])} {does} an element of '{op.operands[0].name}'"
        f" that {other} {did}: the result depends on the order of the threads, and has no gradient",
        op.span,
        "write to another array, add with atomic_add, or launch threads that share nothing one after another",
    )
