"""The adjoints of a specialisation: one for every choice of arrays with gradients, and of loads that are cached."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, Protocol, TypeVar

from sim.core.lang.autodiff.kernel_adjoint import KernelAdjoint, kernel_adjoint
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.store_forwarding import settle_updates
from sim.core.lang.memoize import compiling
from sim.core.runtime.compiled.compiled import Compiled

CallT = TypeVar("CallT", contravariant=True)


class LaunchCheck(Protocol[CallT]):
    """What a launch has to pass before it is recorded.  CallT: a `Call`."""

    def refuse(self, call: CallT) -> None:
        """Raises GradientError where the launch does not pass."""


@dataclass(eq=False)
class AdjointPair:
    """An adjoint and, if it caches, replays, or reads what atomics in loops returned, the forward variant that stores
    what it needs for that (Enzyme: augmented primal)."""

    plan: KernelAdjoint
    adjoint: Compiled
    forward: Compiled | None


@dataclass(eq=False)
class Differentiated:
    """What the adjoint of a kernel looks at, and the adjoints, by the arrays whose loads are cached.

    candidates: numbers of arrays that the launch overwrites and whose loads, all outside of loops, the adjoint needs:
        these could be cached per thread instead of saving the array.
    race_check: None until somebody has asked for it.
    """

    tbr: ToBeRecorded
    overwritten: InitVar[frozenset[int]]
    candidates: frozenset[int] = field(init=False)
    race_check: LaunchCheck[Any] | None = None
    _adjoints: dict[frozenset[int], AdjointPair] = field(default_factory=dict)

    def __post_init__(self, overwritten: frozenset[int]) -> None:
        tbr = self.tbr
        self.candidates = frozenset(
            k for k, sites in tbr.cacheable.items() if k in overwritten and k not in tbr.in_loops and sites
        )

    def adjoint(self, cached: frozenset[int]) -> AdjointPair:
        """The adjoint for which the loads of the arrays `cached` are cached."""
        return self._adjoints.get(cached) or self._make(cached)

    def _make(self, cached: frozenset[int]) -> AdjointPair:
        with compiling:
            found = self._adjoints.get(cached)
            if found is None:
                plan = kernel_adjoint(self.tbr, cached)
                forward = None
                if plan.recording is not None:
                    forward = Compiled(settle_updates(dce(inline(plan.recording))), plan.recording)
                adjoint = Compiled(settle_updates(plan.func), plan.source)
                found = self._adjoints[cached] = AdjointPair(plan, adjoint, forward)
            return found
