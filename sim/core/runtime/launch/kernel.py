"""Kernels: Python functions that are compiled for the types of their arguments when they are first launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, overload

from sim.core.lang.analysis.activity import reached_arrays
from sim.core.lang.autodiff.to_be_recorded import to_be_recorded
from sim.core.lang.errors import entry_point
from sim.core.lang.frontend.captures import Captures, same_calls
from sim.core.lang.frontend.function import Function, local_annotations
from sim.core.lang.frontend.source import KernelParameter, caller_locals
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.frontend.tracing.hidden import HiddenParameter
from sim.core.lang.ir.core import Func, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.printer import to_text
from sim.core.lang.ir.store_forwarding import assume_disjoint, settle_updates
from sim.core.lang.ir.verifier import verify
from sim.core.lang.memoize import compiling
from sim.core.lang.types import ArrayType, Scalar, Type, float32
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.launch.adjoints import Differentiated
from sim.core.runtime.launch.aliases import Aliases, overlaps
from sim.core.runtime.memory.elements import differentiable

VARIANTS = 8
"""Specialisations that stay for one choice of argument types: captured values may come back, as a flag that a user
switches on and off, and tracing takes milliseconds."""


@dataclass(eq=False)
class Specialisation:
    """A kernel for one choice of argument types: its IR, and on demand its adjoints.

    captures: what it has read of Python; once that has `changed`, launches take another one, and tapes keep the one
        that they recorded.
    source: functions with a derivative in closed form are still calls, so that the adjoint uses that derivative.
    """

    kernel: Kernel
    types: tuple[Type, ...]
    source: Func
    forward: Compiled
    captures: Captures
    reads: frozenset[int] = field(init=False)  # numbers of the array parameters that are read
    writes: frozenset[int] = field(init=False)  # of those that are written
    written: tuple[int, ...] = field(init=False)  # the same in order
    arrays: tuple[int, ...] = field(init=False)  # of all array parameters
    hidden: tuple[HiddenParameter, ...] = field(init=False)  # parameters that callers do not see, behind all others
    _reals: tuple[int, ...] = field(init=False)  # of those whose elements can have a gradient
    _differentiated: dict[tuple[frozenset[int], Aliases], Differentiated] = field(default_factory=dict)
    _reached: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {k: p.type for k, p in enumerate(self.func.params) if isinstance(p.type, ArrayType)}
        self.arrays = tuple(kinds)
        self.hidden = self.source.attrs["hidden"]
        self.reads, self.writes = self.forward.reads, self.forward.writes
        self.written = tuple(sorted(self.writes))
        self._reals = tuple(k for k, kind in kinds.items() if kind.dtype is not None and differentiable(kind.dtype))

    @property
    def func(self) -> Func:
        return self.forward.func

    def active(self, args: FlatArguments) -> tuple[int, ...]:
        """Numbers of the arguments that are arrays with a gradient."""
        return tuple([k for k in self._reals if (a := args[k]) is not None and a.buffer.requires_grad])

    def aliases(self, args: FlatArguments) -> Aliases:
        """Groups of array arguments that overlap in memory, one of them written."""
        given, buffers = [], set()
        for k in self.arrays:
            a = args[k]
            if a is not None:
                given.append(k)
                buffers.add(a.buffer)
        return () if len(buffers) == len(given) else overlaps(args, given, self.writes)

    def differentiated(self, active: frozenset[int], aliases: Aliases) -> Differentiated:
        """This kernel with gradients of `active`; those in a group of `aliases` overlap.  Raises GradientError."""
        found = self._differentiated.get((active, aliases))
        if found is None:
            with compiling:
                found = self._differentiated.get((active, aliases))
                if found is None:
                    found = Differentiated(to_be_recorded(self.source, active, aliases), self.writes.union(*aliases))
                    self._differentiated[active, aliases] = found
        return found

    def reached(self, sources: frozenset[int]) -> frozenset[int]:
        """Numbers of the arrays that are written with values that depend on the arrays `sources`, in this launch."""
        found = self._reached.get(sources)
        if found is None:
            params, number = self.func.params, {p: k for k, p in enumerate(self.func.params)}
            arrays = reached_arrays(self.func, {params[k] for k in sources})
            found = frozenset(number[array] for array in arrays)
            self._reached[sources] = found
        return found


class Kernel:
    """A kernel.  Made by `@kernel`; run by `launch`."""

    def __init__(
        self,
        python: Callable[..., Any],
        name: str | None = None,
        annotations: dict[str, Any] | None = None,
        real: Scalar = float32,
    ) -> None:
        self.function = Function(python, name, annotations)
        self.name = self.__name__ = self.function.name
        self.__doc__ = python.__doc__
        self.__module__ = python.__module__
        self.real = real
        self.exclusive: frozenset[str] = frozenset()
        """Names of parameters; a promise: no two threads of one launch touch the same element of these arrays, nor does
        one by two different indices; and no two arrays of such a launch overlap."""
        self.race_free = False
        """A promise: results do not depend on the order of threads, although they may touch the same elements."""
        self.specialisations: dict[tuple[Type, ...], Specialisation] = {}
        self._earlier: dict[tuple[Type, ...], list[Specialisation]] = {}
        self.bindings: dict[tuple[object, ...], Specialisation] = {}

    @property
    def parameters(self) -> list[KernelParameter]:
        """Name, type (None: generic) and default of each argument."""
        return self.function.parameters(self.real)

    @property
    def outdated(self) -> bool:
        """Whether what it has captured is something else since it was traced last."""
        return any(spec.captures.changed() for spec in self.specialisations.values())

    def specialise(self, types: tuple[Type, ...]) -> Specialisation:
        """The kernel for these types, traced and verified on first use, again when what it has captured changes."""
        with compiling:
            found = self.specialisations.get(types)
            if found is None or found.captures.changed():
                earlier = self._earlier.setdefault(types, []) if found is not None else []
                back = next((s for s in earlier if not s.captures.changed()), None)
                found = self.specialisations[types] = back or self._trace(types, earlier)
                self._earlier[types] = earlier
            return found

    def _trace(self, types: tuple[Type, ...], earlier: list[Specialisation]) -> Specialisation:
        """A new specialisation; or one of the `earlier` ones, where what has changed makes no difference."""
        source = assume_disjoint(
            dce(trace_kernel(self.function, types, name=self.name, real=self.real)), self.exclusive
        )
        # What has changed may make no difference: the same code keeps the same specialisation, and what was compiled.
        text, ops = to_text(source), list(walk(source.body))
        for known in earlier:
            if to_text(known.source) == text and same_calls(list(walk(known.source.body)), ops):
                known.captures = source.captures
                return known
        func = verify(settle_updates(dce(inline(source))))
        made = Specialisation(self, types, source, Compiled(func, source), source.captures)
        earlier.insert(0, made)
        del earlier[VARIANTS:]
        return made

    @entry_point
    def __call__(self, *args: Any, **named: Any) -> Any:
        raise LaunchError(
            f"kernel '{self.name}' cannot be called; use sim.launch({self.name}, dim=..., inputs=[...], outputs=[...])"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@overload
def kernel(python: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(python: None = None, *, name: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
@entry_point
def kernel(python: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
    """`@kernel`: a function of the kernel language that runs once per thread of a launch.

    Compiled when first launched, for the types of its arguments; its adjoint only when a gradient asks for it.
    """
    unknown = set(options) - {"enable_backward", "module"}
    if unknown:
        raise TypeError(f"@kernel takes no option '{unknown.pop()}'")
    caller = caller_locals(2)

    @entry_point
    def wrap(f: Callable[..., Any]) -> Kernel:
        return Kernel(f, name, local_annotations(f, caller))

    return wrap if python is None else wrap(python)
