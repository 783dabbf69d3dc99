"""The adjoints of a specialisation: one for every choice of arrays with gradients, and of loads that are cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from sim.core.lang.autodiff.kernel_adjoint import AdjointPlan, KernelAdjoint, kernel_adjoint
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.collector import uncollected
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.store_forwarding import settle_updates
from sim.core.lang.memoize import compiling
from sim.core.runtime.compiled.compiled import Code, Compiled
from sim.core.runtime.compiled.known import facts_of, know, known, part_of, recall, remember

CallT = TypeVar("CallT", contravariant=True)


class LaunchCheck(Protocol[CallT]):
    """What a launch has to pass before it is recorded.  CallT: a `Call`."""

    def refuse(self, call: CallT) -> None:
        """Raises GradientError where the launch does not pass."""


@dataclass(eq=False)
class AdjointPair:
    """An adjoint and, if it caches, replays, or reads what atomics in loops returned, the forward variant that stores
    what it needs for that (Enzyme: augmented primal).  begun: its code may have been begun with."""

    plan: AdjointPlan
    adjoint: Compiled
    forward: Compiled | None
    begun: bool = False


class Differentiated:
    """What the adjoint of a kernel looks at, and the adjoints, by the arrays whose loads are cached.

    analyse: makes the analysis.  overwritten: numbers of the arrays that the launch writes, or that overlap with such.
    key: under which all of this is known in other processes; "": under none.
    race_check: None until somebody has asked for it.
    """

    FACTS = ("candidates", "detached", "replayed", "must_cache", "returning", "cached_bytes")

    def __init__(self, analyse: Callable[[], ToBeRecorded], overwritten: frozenset[int], key: str = "") -> None:
        self._analyse, self._overwritten, self.key = analyse, overwritten, key
        self.race_check: LaunchCheck[Any] | None = None
        self._adjoints: dict[frozenset[int], AdjointPair] = {}
        know(self, known(key, lambda: facts_of(self, self.FACTS)))

    @cached_property
    def tbr(self) -> ToBeRecorded:
        """The analysis."""
        with compiling:
            return self._analyse()

    @cached_property
    def candidates(self) -> frozenset[int]:
        """Numbers of arrays that the launch overwrites and whose loads, all outside of loops, the adjoint needs: these
        could be cached per thread instead of saving the array."""
        tbr = self.tbr
        found = (k for k, sites in tbr.cacheable.items() if k in self._overwritten and k not in tbr.in_loops and sites)
        return frozenset(found)

    @cached_property
    def cached_bytes(self) -> int:
        """Bytes per thread of caches for `candidates`."""
        return self.tbr.bytes_per_thread(self.candidates)

    @cached_property
    def detached(self) -> frozenset[int]:
        """See `ToBeRecorded`, as for those that follow."""
        return self.tbr.detached

    @cached_property
    def replayed(self) -> frozenset[int]:
        return self.tbr.replayed

    @cached_property
    def must_cache(self) -> frozenset[int]:
        return self.tbr.must_cache

    @cached_property
    def returning(self) -> frozenset[int]:
        return self.tbr.returning

    @property
    def runs_as_it_is(self) -> bool:
        """Whether no adjoint has been made yet, and none will want another forward variant than the kernel itself."""
        return not (self._adjoints or self.candidates or self.must_cache or self.replayed or self.returning)

    def adjoint(self, cached: frozenset[int]) -> AdjointPair:
        """The adjoint for which the loads of the arrays `cached` are cached."""
        return self._adjoints.get(cached) or self._make(cached)

    def _make(self, cached: frozenset[int]) -> AdjointPair:
        with compiling:
            found = self._adjoints.get(cached)
            if found is None:
                with uncollected():
                    found = self._adjoints[cached] = self._pair(cached)
            return found

    def _pair(self, cached: frozenset[int]) -> AdjointPair:
        key = part_of(self.key, "adjoint", sorted(cached))
        of_adjoint, of_forward = part_of(key, "its code"), part_of(key, "forward")
        derivation = _Derivation(self, cached)
        facts = recall(key)
        if facts is not None:
            plan, mine, others = facts
            forward = Compiled.of_known(others, derivation.forward, of_forward) if others is not None else None
            return AdjointPair(plan, Compiled.of_known(mine, derivation.adjoint, of_adjoint), forward)
        made = derivation.made
        forward = Compiled(*derivation.forward(), of_forward) if made.recording is not None else None
        pair = AdjointPair(made.plan, Compiled(*derivation.adjoint(), of_adjoint), forward)
        if key:
            remember(key, (pair.plan, pair.adjoint.facts(), None if forward is None else forward.facts()))
        return pair


@dataclass(eq=False)
class _Derivation:
    """An adjoint in the making: when its code is asked for, which where it is known may be never."""

    of: Differentiated
    cached: frozenset[int]

    @cached_property
    def made(self) -> KernelAdjoint:
        return kernel_adjoint(self.of.tbr, self.cached)

    def adjoint(self) -> Code:
        return settle_updates(self.made.func), self.made.source

    def forward(self) -> Code:
        recording = self.made.recording
        assert recording is not None
        return settle_updates(dce(inline(recording))), recording
