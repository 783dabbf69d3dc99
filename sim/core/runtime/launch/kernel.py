"""Kernels: Python functions that are compiled for the types of their arguments when they are first launched."""

from __future__ import annotations

import ast
import copy
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from sim.core.backends.base import LANES
from sim.core.backends.cache import cache_key
from sim.core.lang.analysis.activity import reached_arrays
from sim.core.lang.autodiff.to_be_recorded import to_be_recorded
from sim.core.lang.collector import uncollected
from sim.core.lang.errors import KernelError, NotSupportedError, entry_point
from sim.core.lang.frontend.captures import Captures, assigned_once, in_closure, same_calls, told_apart
from sim.core.lang.frontend.function import Function, key_of, local_annotations
from sim.core.lang.frontend.source import KernelParameter, annotated_type, caller_locals
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.frontend.tracing.hidden import HandleKind, HiddenParameter
from sim.core.lang.ir.core import Func, Value, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.printer import to_text
from sim.core.lang.ir.store_forwarding import assume_disjoint, settle_updates
from sim.core.lang.ir.verifier import verify
from sim.core.lang.memoize import compiling
from sim.core.lang.references import Reference, StructOfReferences
from sim.core.lang.types import ArrayType, Scalar, Struct, Type, array_type, float32, is_array, uint64
from sim.core.runtime.compiled.argument_packing import FlatArguments, LaunchError, layout_flags_of
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.compiled.identity import digest_of_values, identity, values_now
from sim.core.runtime.compiled.known import facts_of, has_effects_by_rule, know, known, part_of, recall, remember
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.adjoints import Differentiated
from sim.core.runtime.launch.aliases import Aliases, overlaps
from sim.core.runtime.launch.module import Module, get_module
from sim.core.runtime.memory.elements import differentiable

VARIANTS = 8
"""Specialisations that stay for one choice of argument types: captured values may come back, as a flag that a user
switches on and off, and tracing takes milliseconds."""


class Specialisation:
    """A kernel for one choice of argument types: its IR, and on demand its adjoints.

    captures: what it has read of Python; once that has `changed`, launches take another one, and tapes keep the one
        that they recorded.
    key: under which it is known in other processes; "": under none.
    """

    FACTS = (
        *("arrays", "dims", "layout", "hidden", "by_address", "not_negative", "peeks", "addresses", "loads_addresses"),
        "always_used",
    )
    """All that launches ask of it beside what they ask of `forward`."""

    def __init__(self, kernel: Kernel, types: tuple[Type, ...], forward: Compiled, captures: Captures) -> None:
        self.kernel, self.types, self.forward, self.captures = kernel, types, forward, captures
        self.reads, self.writes, self.key = forward.reads, forward.writes, forward.key
        self.written = tuple(sorted(self.writes))
        self._differentiated: dict[tuple[frozenset[int], Aliases], Differentiated] = {}
        self._reached: dict[frozenset[int], frozenset[int]] = {}

    @property
    def func(self) -> Func:
        return self.forward.func

    @property
    def source(self) -> Func:
        """Functions with a derivative in closed form are still calls, so that the adjoint uses that derivative."""
        return self.forward.source or self.forward.func

    @property
    def names(self) -> tuple[str, ...]:
        """Of its parameters, that of a struct with one for each leaf."""
        return self.forward.names

    @cached_property
    def dims(self) -> int:
        """Of its launches."""
        return self.func.dims

    @cached_property
    def layout(self) -> tuple[tuple[str, int, int], ...]:
        """Of each argument its name, the number of its first parameter, and how many it has."""
        return tuple((name, first, count) for name, _, first, count in self.source.attrs["signature"])

    @cached_property
    def signature(self) -> list[tuple[str, Type, int, int]]:
        """The same with the types, behind the names."""
        return [(name, kind, first, n) for (name, first, n), kind in zip(self.layout, self.types, strict=True)]

    @cached_property
    def hidden(self) -> tuple[HiddenParameter, ...]:
        """Parameters that callers do not see, behind all others."""
        found: tuple[HiddenParameter, ...] = self.source.attrs["hidden"]
        return found

    @cached_property
    def by_address(self) -> tuple[HandleKind, ...]:
        """Kinds of objects that it knows by an address of the run."""
        found: tuple[HandleKind, ...] = self.source.attrs["by_address"]
        return found

    @cached_property
    def not_negative(self) -> tuple[int, ...]:
        """Numbers of the integers that it relies on not to be negative."""
        found: tuple[int, ...] = self.source.attrs["not_negative"]
        return found

    @cached_property
    def arrays(self) -> tuple[tuple[int, bool], ...]:
        """Numbers of the array parameters; whether the elements of each can have a gradient."""
        kinds = ((k, p.type) for k, p in enumerate(self.func.params) if isinstance(p.type, ArrayType))
        return tuple((k, kind.dtype is not Any and differentiable(kind.dtype)) for k, kind in kinds)

    @cached_property
    def always_used(self) -> frozenset[int]:
        """Numbers of the array parameters of which every thread reads or writes elements."""
        number = {p: k for k, p in enumerate(self.func.params)}
        return frozenset(number[op.operands[0]] for op in self.func.body.ops if op.row.memory)

    @cached_property
    def peeks(self) -> bool:
        """Whether it reads structures by address."""
        return any(op.name == "peek" for op in walk(self.func.body))

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Numbers of the parameters that are addresses of structures."""
        found = {number_of_base(op.operands[0], self.func) for op in walk(self.func.body) if op.name == "peek"}
        return tuple(sorted(k for k in found if k is not None))

    @cached_property
    def loads_addresses(self) -> bool:
        """Whether addresses of structures may come from its arrays."""
        return any(op.row.loads and any(r.type is uint64 for r in op.results) for op in walk(self.func.body))

    @cached_property
    def _reals(self) -> tuple[int, ...]:
        return tuple(k for k, real in self.arrays if real)

    def reals(self, args: FlatArguments) -> tuple[int, ...]:
        """Numbers of the arguments that are arrays which can have a gradient."""
        return tuple([k for k in self._reals if args[k] is not None])

    def active(self, args: FlatArguments) -> tuple[int, ...]:
        """Numbers of the arguments that are arrays with a gradient."""
        return tuple([k for k in self._reals if (a := args[k]) is not None and a.buffer.requires_grad])

    def aliases(self, args: FlatArguments) -> Aliases:
        """Groups of array arguments that overlap in memory, one of them written."""
        given, buffers = [], set()
        for k, _ in self.arrays:
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
                    key = part_of(self.key, "differentiated", sorted(active), list(map(sorted, aliases)))
                    found = Differentiated(
                        lambda: to_be_recorded(self.source, active, aliases), self.writes.union(*aliases), key
                    )
                    self._differentiated[active, aliases] = found
        return found

    def reached(self, sources: frozenset[int]) -> frozenset[int]:
        """Numbers of the arrays that are written with values that depend on the arrays `sources`, in this launch."""
        found = self._reached.get(sources)
        if found is None:
            found = known(part_of(self.key, "reached", sorted(sources)), lambda: self._reached_from(sources))
            self._reached[sources] = found
        return found

    def _reached_from(self, sources: frozenset[int]) -> frozenset[int]:
        params, number = self.func.params, {p: k for k, p in enumerate(self.func.params)}
        return frozenset(number[array] for array in reached_arrays(self.func, {params[k] for k in sources}))


def number_of_base(address: Value, func: Func) -> int | None:
    """Of an address that is a parameter, or so many bytes behind it: the number of the parameter."""
    while address.op is not None and address.op.name == "add" and address.op.operands[1].const is not None:
        address = address.op.operands[0]
    return next((k for k, p in enumerate(func.params) if p is address), None)


class Kernel:
    """A kernel.  Made by `@kernel`; run by `launch`.

    func: the Python function.  key: its name among the kernels of `module`; by default made of the qualified name.
    options: its own ("enable_backward", "launch_bounds", ...), which count before those of its module.
    code_transformers: of `ast`; change the syntax tree of the function, one after the other, before it is traced.
    annotations: types of the parameters, where they are not those of the function.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: Module | None = None,
        options: Mapping[str, Any] | None = None,
        code_transformers: Sequence[ast.NodeTransformer] | None = None,
        *,
        annotations: dict[str, Any] | None = None,
        real: Scalar = float32,
    ) -> None:
        self.func = self.__wrapped__ = func
        self.function = Function(func, key, annotations, code_transformers or ())
        self.name = self.__name__ = self.function.name
        self.__qualname__, self.__doc__, self.__module__ = func.__qualname__, func.__doc__, func.__module__
        self.key = key or key_of(func)
        self.module = get_module(func.__module__) if module is None else module
        self.options = dict(options or {})
        self.real = real
        self.exclusive: frozenset[str] = frozenset()
        """Names of parameters; a promise: no two threads of one launch touch the same element of these arrays, nor does
        one by two different indices; and no two arrays of such a launch overlap."""
        self.race_free = False
        """A promise: results do not depend on the order of threads, although they may touch the same elements."""
        self.alike = False
        """A promise: threads side by side mostly take the same branches.  Then a body for eight of them is worth having
        however much of it is in branches."""
        self.specialisations: dict[tuple[Type, ...], Specialisation] = {}
        self._earlier: dict[tuple[Type, ...], list[Specialisation]] = {}
        self.bindings: dict[tuple[object, ...], Specialisation] = {}
        self.generic_parent: Kernel | None = None
        """Of an overload: the generic kernel."""
        self._overloads: dict[str, Kernel] = {}
        self._dims = 1
        self._of_dims: dict[int, Kernel] = {}
        self._may_be_negative: Kernel | None = None
        self.module.register_kernel(self.key, self)

    @property
    def parameters(self) -> list[KernelParameter]:
        """Name, type (None: generic) and default of each argument."""
        return self.function.parameters(self.real)

    @property
    def is_generic(self) -> bool:
        """Whether the type of a parameter comes from the argument."""
        return any(is_generic(p.type) for p in self.parameters)

    @property
    def enable_backward(self) -> bool:
        """Whether a tape may differentiate it: its own option, else that of its module."""
        return bool(self.options.get("enable_backward", self.module.options["enable_backward"]))

    @property
    def overloads(self) -> dict[str, Kernel]:
        """Of a generic kernel: those made by `overload`, and one for the types of each launch, by their types."""
        if self.is_generic:
            for types in list(self.specialisations):
                if not any(isinstance(kind, (Reference, StructOfReferences)) for kind in types):
                    self.add_overload(types)
        return self._overloads

    def add_overload(self, arg_types: Sequence[Any]) -> Kernel:
        """This generic kernel for given types of its arguments: a launch converts to them.  Raises KernelError."""
        if not self.is_generic:
            raise KernelError(f"kernel '{self.name}' is not generic: it has no overloads", hint="launch it as it is")
        parameters = self.parameters
        if len(arg_types) != len(parameters):
            raise KernelError(f"kernel '{self.name}' takes {len(parameters)} arguments, got {len(arg_types)} types")
        kinds = {}
        for p, given in zip(parameters, arg_types, strict=True):
            spec = given if isinstance(given, Type) or not is_array(given) else array_type(given.dtype, given.ndim)
            kinds[p.name] = annotated_type(spec, self.real)
            if not _instance_of(kinds[p.name], p.type):
                raise KernelError(
                    f"an overload of kernel '{self.name}': argument '{p.name}' is {p.type or 'generic'}, got {spec!r}",
                    hint="name a type of values or of arrays",
                )
        signature = ", ".join(map(str, kinds.values()))
        if signature not in self._overloads:
            made = copy.copy(self)  # shares what has been traced: one specialisation for one choice of types
            made.function = Function(self.func, self.function.name, kinds, self.function.transformers)
            made.function.statics = self.function.statics
            made.generic_parent, made._overloads, made._of_dims, made.bindings = self, {}, {}, {}
            made._may_be_negative = None
            self._overloads[signature] = made
        return self._overloads[signature]

    def in_launches_of(self, dims: int) -> Kernel:
        """This kernel in launches of several dimensions, where `i = tid()` is the first index."""
        made = self._of_dims.get(dims)
        if made is None:
            made = self._of_dims[dims] = copy.copy(self)
            made._of_dims, made._may_be_negative = {}, None
            if self._may_be_negative is self:
                made._may_be_negative = made
            made._dims, made.specialisations, made._earlier, made.bindings = dims, {}, {}, {}
        made.exclusive, made.race_free, made.alike = self.exclusive, self.race_free, self.alike
        return made

    def of_any_integers(self) -> Kernel:
        """This kernel for launches in which integers that indices are made of may be negative."""
        made = self._may_be_negative
        if made is None:
            made = self._may_be_negative = copy.copy(self)
            made._of_dims, made._may_be_negative = {}, made
            made.specialisations, made._earlier, made.bindings = {}, {}, {}
        made.exclusive, made.race_free, made.alike = self.exclusive, self.race_free, self.alike
        return made

    def compile(self, device: Device) -> None:
        """Compiles it, or its overloads, for packed arrays on a device.  Raises KernelError."""
        if self.is_generic:
            for made in list(self._overloads.values()):
                made.compile(device)
            return
        spec = self.specialise(tuple(p.type for p in self.parameters if p.type is not None))
        for threads in (1, LANES):
            spec.forward.executable(device, (layout_flags_of(True, False, ()),) * len(spec.arrays), False, threads)

    def content(self) -> str:
        """What it computes, as text: the IR for the types that are declared, or that it was launched with."""
        try:
            kinds = [p.type for p in self.parameters]
        except NotSupportedError as problem:
            return str(problem)
        texts = [ast.unparse(self.function.source.node), *map(_layout, kinds), repr(sorted(self.options.items()))]
        if not any(map(is_generic, kinds)):
            try:
                self.specialise(tuple(kind for kind in kinds if kind is not None))
            except (KernelError, NotSupportedError) as problem:
                texts.append(str(getattr(problem, "what", problem)))
        return "\n".join([*texts, *sorted(to_text(spec.func) for spec in self.specialisations.values())])

    def unload(self) -> None:
        """Forgets what was traced and compiled; tapes and graphs keep what they have recorded."""
        for traced in (self.specialisations, self._earlier, self.bindings):
            traced.clear()
        for made in (*self._overloads.values(), *self._of_dims.values()):
            made.unload()
        if self._may_be_negative is not self:
            self._may_be_negative = None

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
                with uncollected():
                    found = self.specialisations[types] = back or self._trace(types, earlier)
                self._earlier[types] = earlier
            return found

    def _trace(self, types: tuple[Type, ...], earlier: list[Specialisation]) -> Specialisation:
        """A new specialisation; or one of the `earlier` ones, where what has changed makes no difference."""
        parts = identity(
            self.function, types, self.name, self.real.name, self._dims, sorted(self.exclusive), self.alike
        )
        key = cache_key(*parts) if parts is not None else ""
        facts = recall(key)
        if facts is not None and digest_of_values(values_now(facts[2])) == facts[3]:
            forward = Compiled.of_known(facts[0], lambda: self._traced(types), part_of(key, facts[3]))
            made = Specialisation(self, types, forward, Captures.of_known())
            know(made, facts[1])
            return made
        func, source = self._traced(types)
        # What has changed may make no difference: the same code keeps the same specialisation, and what was compiled.
        if earlier:
            text, ops = to_text(source), list(walk(source.body))
        for other in earlier:
            if to_text(other.source) == text and same_calls(list(walk(other.source.body)), ops):
                other.captures = source.captures
                return other
        read = digest_of_values(source.captures.own) if source.captures.all_own else None
        keeps = key and read is not None and not has_effects_by_rule(source)
        made = Specialisation(self, types, Compiled(func, source, part_of(key, read) if keeps else ""), source.captures)
        if made.key and not made.hidden and not made.by_address:
            remember(key, (made.forward.facts(), facts_of(made, made.FACTS), list(source.captures.own), read))
        earlier.insert(0, made)
        del earlier[VARIANTS:]
        return made

    def _traced(self, types: tuple[Type, ...]) -> tuple[Func, Func]:
        """The kernel for these types, verified, and with functions whose derivative is in closed form as calls."""
        source = assume_disjoint(
            dce(trace_kernel(self.function, types, self.name, self.real, self._dims, self._may_be_negative is self)),
            self.exclusive,
        )
        source.attrs["alike"] = self.alike
        return verify(settle_updates(dce(inline(source)))), source

    @entry_point
    def __call__(self, *args: Any, **named: Any) -> Any:
        raise LaunchError(
            f"kernel '{self.name}' cannot be called; use sim.launch({self.name}, dim=..., inputs=[...], outputs=[...])"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


def is_generic(kind: Type | None) -> bool:
    """Whether a parameter of this type takes the type of its argument."""
    return kind is None or (isinstance(kind, ArrayType) and kind.dtype is Any)


def _layout(kind: Type | None) -> str:
    """A type as text, that of structs with their fields."""
    inner = kind.dtype if isinstance(kind, ArrayType) else kind
    return f"{kind} {inner.np}" if isinstance(inner, Struct) else str(kind)


def _instance_of(kind: Type | None, template: Type | None) -> bool:
    """Whether a type is one of those that a parameter takes, and generic no more."""
    if is_generic(kind):
        return False
    if isinstance(template, ArrayType) and template.dtype is Any:
        return isinstance(kind, ArrayType) and kind.ndim == template.ndim
    return template is None or kind is template


@typing.overload
def kernel(f: Callable[..., Any]) -> Kernel: ...
@typing.overload
def kernel(
    f: None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    launch_bounds: tuple[int, ...] | int | None = None,
    module: Module | str | None = None,
    module_options: Mapping[str, Any] | None = None,
    **hints: Any,
) -> Callable[[Callable[..., Any]], Kernel]: ...
@entry_point
def kernel(
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    launch_bounds: tuple[int, ...] | int | None = None,
    module: Module | str | None = None,
    module_options: Mapping[str, Any] | None = None,
    **hints: Any,
) -> Any:
    """`@kernel`: a function of the kernel language that runs once per thread of a launch.

    Compiled when first launched, for the types of its arguments; its adjoint only when a gradient asks for it.

    enable_backward: False: a tape runs it without recording, and refuses a gradient that would go through what it has
        written (None: as the module says).
    module: the `Module` or its name, None for that of the Python module; "unique": one of its own, and a definition
        with the same text, and the same values of what it captures, is the same kernel.  `module_options` are the
        options of that.
    launch_bounds, and the hints cuda_max_registers, enable_cuda_smem_spilling, cluster_dim and grid_stride: as in Warp
        for its compiler of GPUs; kept in `options`.
    """
    unknown = set(hints) - _HINTS
    if unknown:
        raise TypeError(f"@kernel takes no option '{unknown.pop()}'")
    if module_options is not None and not isinstance(module_options, Mapping):
        raise TypeError(
            f"@kernel: module_options must be a dict, not {module_options!r}, a {type(module_options).__name__}"
        )
    if module_options is not None and module != "unique":
        raise ValueError(
            '@kernel: module_options asks for module="unique"; sim.set_module_options is for a whole module'
        )
    if name is not None and not (name.isidentifier() and name.isascii()):
        raise ValueError(f"@kernel: name={name!r} is no valid C++ identifier, as which Warp uses it; write letters, _")
    options = {"enable_backward": enable_backward, "launch_bounds": launch_bounds, **hints}
    own = {key: value for key, value in options.items() if value is not None and (key, value) != _DEFAULT}
    caller = caller_locals(2)

    @entry_point
    def wrap(f: Callable[..., Any]) -> Kernel:
        annotations = local_annotations(f, caller)
        if module == "unique":
            return _unique(f, name, dict(module_options or {}), own, annotations)
        home = get_module(module) if isinstance(module, str) else module
        return Kernel(f, name, home, own, annotations=annotations)

    return wrap if f is None else wrap(f)


_HINTS = {"cuda_max_registers", "enable_cuda_smem_spilling", "cluster_dim", "grid_stride"}
_DEFAULT = ("enable_cuda_smem_spilling", False)
"""A hint that says what holds without it."""
_uniques: dict[Any, Kernel] = {}
_closures: weakref.WeakValueDictionary[Any, Kernel] = weakref.WeakValueDictionary()
"""The same for those that capture local names, as long as somebody has them."""


def _unique(
    f: Callable[..., Any],
    name: str | None,
    module_options: dict[str, Any],
    options: dict[str, Any],
    annotations: dict[str, Any] | None,
) -> Kernel:
    """A kernel in a module of its own; the one that is there where it was defined before with the same text."""
    module = Module(f.__module__)
    module.set_options(module_options)
    made = Kernel(f, name, module, options, annotations=annotations)
    text = ast.unparse(made.function.source.node)
    types = (*(p.type for p in made.parameters), told_apart([f.__annotations__.get("return")]))
    settings = repr((sorted(module.options.items()), sorted(options.items())))
    told = in_closure(f)
    statics = told_apart(made.function.statics.values())
    key = (id(f.__globals__), f.__qualname__, name, text, types, settings, told, statics)
    module.name = f"{made.key}_{sha256(repr(key).encode()).hexdigest()[:8]}"
    if not f.__closure__:
        return _uniques.setdefault(key, made)
    found = _closures.get(key)
    if found is not None and in_closure(found.func) == told:
        return found
    if assigned_once(f):
        _closures[key] = made
    return made
