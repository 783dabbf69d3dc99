"""A function of the IR that is compiled on demand, for a device and for what is known of the arrays of a launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

from sim.core.backends.base import LANES, Backend, Executable
from sim.core.lang.analysis.thread_locality import late_updates
from sim.core.lang.collector import uncollected
from sim.core.lang.ir.core import Func, Op, element_leaves, walk
from sim.core.lang.memoize import compiling
from sim.core.lang.types import ArrayType
from sim.core.runtime.compiled.argument_packing import ArgumentPacking, LayoutFlags, forms_of
from sim.core.runtime.compiled.known import (
    Facts,
    SourceChanged,
    digest_of,
    facts_of,
    know,
    part_of,
    recall,
    remember,
)


class CompilesKernels(Protocol):
    """What a compiled function asks of a device."""

    identity: object
    """No other device has it."""

    @property
    def backend(self) -> Backend: ...


Variant = tuple[object, LayoutFlags, bool, bool]
"""Of a function: the device, what is known of its arrays, whether indices are checked, whether threads are few."""
Code = tuple[Func, Func | None]
"""A function, and the same with functions whose derivative is in closed form still called, where it has any."""


class Compiled:
    """A function of the IR and its executables.

    source: the same with functions whose derivative is in closed form still called, where it has any.
    key: under which its executables are known in other processes; "": under none.
    """

    FACTS = ("name", "names", "forms", "reads", "writes", "divisible_ops", "by_address", "bytes_per_thread", "digest")
    """All that a launch asks of it where its executable is known."""

    def __init__(self, func: Func, source: Func | None = None, key: str = "") -> None:
        self._begin(lambda: (func, source), key)

    @classmethod
    def of_known(cls, facts: Facts, make: Callable[[], Code], key: str) -> Compiled:
        """One whose facts are known, and whose IR is made only when somebody asks for it."""
        made = cls.__new__(cls)
        know(made, facts)
        made._begin(make, key)
        return made

    def _begin(self, make: Callable[[], Code], key: str) -> None:
        self._make, self.key = make, key
        self._code: Code | None = None
        self._executables: dict[Variant, Executable] = {}
        self._begun: dict[Variant, Callable[[], Executable]] = {}

    def facts(self) -> Facts:
        """What `of_known` takes."""
        return facts_of(self, self.FACTS)

    def _made(self) -> Code:
        if self._code is None:
            with compiling:
                code = self._code or self._make()
                expected = vars(self).get("digest")
                if expected is not None and digest_of(code[0]) != expected:
                    raise SourceChanged(
                        f"'{self.name}' is not what it was when it was launched: files of this package have changed"
                        " since; start again"
                    )
                self._code = code
        return self._code

    @property
    def func(self) -> Func:
        return self._made()[0]

    @property
    def source(self) -> Func | None:
        return self._made()[1]

    @cached_property
    def digest(self) -> str:
        """Stands for its code."""
        return digest_of(self.func)

    @cached_property
    def name(self) -> str:
        return self.func.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of its parameters."""
        return tuple(p.name for p in self.func.params)

    @cached_property
    def forms(self) -> tuple[str | int, ...]:
        """Of its parameters: of an array its dimensions, else the struct format of the number."""
        return forms_of(self.func)

    @cached_property
    def packing(self) -> ArgumentPacking:
        """How arguments become the block that an executable reads."""
        return ArgumentPacking(self.name, self.names, self.forms)

    @cached_property
    def reads(self) -> frozenset[int]:
        """Numbers of the array parameters that it loads from."""
        return self._accessed(lambda op: op.name in ("load", "atomic"))

    @cached_property
    def writes(self) -> frozenset[int]:
        """Numbers of the array parameters that it writes to."""
        return self._accessed(lambda op: op.row.writes)

    def _accessed(self, does: Callable[[Op], bool]) -> frozenset[int]:
        number = {p: k for k, p in enumerate(self.func.params)}
        return frozenset(number[op.operands[0]] for op in walk(self.func.body) if does(op))

    @cached_property
    def divisible_ops(self) -> int:
        """Operations of one thread, loops counted once; 0 where a launch must not be divided among threads of the CPU:
        its threads meet in memory or in what they print, so that their order shows."""
        ops = list(walk(self.func.body))
        ordered = any(op.name in ("atomic", "print", "assert", "store_at") for op in ops)
        if ordered or self.func.attrs.get("serial") or late_updates(self.func):
            return 0
        return max(len(ops), 1)

    @cached_property
    def by_address(self) -> bool:
        """Whether it reads or writes memory by its address, which no analysis sees."""
        return any(op.name in ("load_at", "store_at") for op in walk(self.func.body))

    @cached_property
    def bytes_per_thread(self) -> int:
        """Bytes that the loads and stores of one thread name; loops count once."""
        total = 0
        for op in walk(self.func.body):
            if op.row.memory:
                leaves = element_leaves(op.operands[0])
                moved = sum(leaves[k].scalar.size for k in op.leaves[: 1 if op.dynamic else None])
                total += moved * (2 if op.name in ("accum", "atomic") else 1)
        return total

    def executable(self, device: CompilesKernels, layout_flags: LayoutFlags, check: bool, threads: int) -> Executable:
        """The code for arrays of which `layout_flags` are known; check: with a test of every index; threads: how many
        a launch has."""
        found = self._executables.get((device.identity, layout_flags, check, threads < LANES))
        return found or self._compile(device, layout_flags, check, threads < LANES)

    def begin(
        self, device: CompilesKernels, layout_flags: LayoutFlags, check: bool, threads: int, soon: bool = False
    ) -> None:
        """Begins with what somebody is going to ask `executable` for, if that can be done beside other work.

        soon: before what is not.
        """
        few = threads < LANES
        variant = device.identity, layout_flags, check, few
        if variant in self._executables or variant in self._begun or (few and not device.backend.few_apart):
            return
        with compiling:
            found = self._again(device, variant)
            if found is not None:
                self._executables[variant] = found
                return
            with uncollected():
                begun = device.backend.begin(self._for(layout_flags, few), check, soon)
            if begun is not None:
                self._begun[variant] = begun

    def _compile(self, device: CompilesKernels, layout_flags: LayoutFlags, check: bool, few: bool) -> Executable:
        variant = device.identity, layout_flags, check, few
        with compiling:
            if few and not device.backend.few_apart:
                return self._executables.setdefault(variant, self.executable(device, layout_flags, check, LANES))
            found = self._executables.get(variant)
            if found is None:
                begun = self._begun.pop(variant, None)
                found = self._again(device, variant) if begun is None else None
                if found is None:
                    with uncollected():
                        made = begun or partial(device.backend.compile, self._for(layout_flags, few), check)
                        found = made()
                    if key := self._kept_under(device, variant):
                        remember(key, found.record)
                self._executables[variant] = found
            return found

    def _kept_under(self, device: CompilesKernels, variant: Variant) -> str:
        """The key of what is known of an executable in other processes; "": nothing is."""
        about = device.backend.kept_as if self.key else ""
        return part_of(self.key, about, *variant[1:]) if about else ""

    def _again(self, device: CompilesKernels, variant: Variant) -> Executable | None:
        """The executable as another process, or an earlier one, has made it."""
        record = recall(self._kept_under(device, variant))
        return None if record is None else device.backend.again(record)

    def _for(self, layout_flags: LayoutFlags, few: bool) -> Func:
        """The function with what is known of the arrays of a launch."""
        func = self.func
        arrays = [k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType)]
        flags = list(zip(arrays, layout_flags, strict=True))
        known = {
            "packed": frozenset(k for k, bits in flags if bits & 1),
            "tight": frozenset(k for k, bits in flags if bits & 2),
            "narrow": {k: bits >> 2 for k, bits in flags if bits >> 2},
            "few": few,
        }
        return Func(func.name, func.body, func.span, func.dims, {**func.attrs, **known})
