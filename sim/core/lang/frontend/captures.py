"""What a trace has read of Python: names, attributes and containers that may hold something else at the next launch.

Python looks names up when a function runs, a kernel when it is traced.  So that both mean the same, a trace keeps what
it has read of user code, and a launch compares: where something has changed, the kernel is traced anew.  What our own
code reads of itself is not kept: nothing there is assigned twice.
"""

from __future__ import annotations

import ast
import dis
import operator
import sys
import types as python_types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from sim.core.lang.frontend.function import Function, rules
from sim.core.lang.frontend.source import MISSING, own_module
from sim.core.lang.ir.core import Op
from sim.core.lang.memoize import compiling
from sim.core.lang.types import Composite, HostNumber, HostStruct, Type

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_ROWS = (list, tuple, dict, HostStruct)
_BLOCKS = (set, Composite, np.ndarray)
_CHANGING = (list, dict, HostStruct, *_BLOCKS)


class Captures:
    """The reads of one trace, and of the traces that it has taken over."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self._cells: dict[int, tuple[Any, Any]] = {}
        self._attributes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._contents: dict[int, tuple[Any, Any]] = {}
        self._rules: dict[Function, tuple[Any, Any]] = {}
        self.rules_version = rules.version
        self._quick: list[tuple[dict[str, Any], str, Any]] | None = (
            None  # the names that have a value; None: to be collected
        )
        self._more = False  # whether there is anything else to look at
        self.own: dict[tuple[str, str], Any] = {}
        """What functions of ours have read of modules: the name of the module, that of the value, and the value."""
        self._loose = False
        """Whether a function of ours has looked into something that may change, and is not bound to it."""
        self.foreign: int | None = None
        """Of a kernel that was known without a trace: how many functions of ours had derivatives of users then."""
        self.live = True
        """Must `changed` be asked while no function gets another derivative?  Not if a kernel uses `sim` alone."""

    # -- while tracing
    def name(self, function: Function, name: str, value: Any) -> None:
        """A name outside of a function had this value (`MISSING`: none)."""
        # what sim itself reads is never assigned twice; watching it would cost every launch
        if own_module(function.__module__):
            if function.scope.cell(name) is None:
                self._own(function.__module__, name, value)
            return
        if isinstance(value, python_types.ModuleType) and own_module(value.__name__):
            return
        cell = function.scope.cell(name)
        if cell is not None:
            self._cells[id(cell)] = (cell, value)
        else:
            space = function.python.__globals__
            self._names[id(space), name] = (space, name, space.get(name, MISSING))
        self.content(value)

    def attribute(self, function: Function, owner: Any, name: str, value: Any) -> None:
        """An attribute of an object of Python, as a function reads it, had this value."""
        if own_module(function.__module__):
            if isinstance(owner, python_types.ModuleType):
                self._own(owner.__name__, name, value)
            elif isinstance(owner, type) and not isinstance(owner, Type):
                self._own(owner.__module__, f"{owner.__qualname__}.{name}", value)
            elif not isinstance(owner, (Type, Function, *_PLAIN)):
                self._loose |= not function.scope.holds(owner)
            return
        if isinstance(owner, python_types.ModuleType):
            if own_module(owner.__name__):
                return
            self._names[id(vars(owner)), name] = (vars(owner), name, vars(owner).get(name, MISSING))
        elif not isinstance(owner, (Type, Function)):
            self._attributes[id(owner), name] = (owner, name, value)
        self.content(value)

    def _own(self, module: str, name: str, value: Any) -> None:
        self._loose |= isinstance(value, _CHANGING)
        if value is not MISSING:
            self.own[module, name] = value

    def expression(self, function: Function, node: ast.expr, space: Mapping[str, Any]) -> None:
        """The names that an expression mentions, and the attributes of what they name; `space`: those not captured."""
        # what the attributes belong to is known only by evaluating the names below them, without running the expression
        found: dict[int, Any] = {}
        for part in reversed(list(ast.walk(node))):  # names before their attributes
            if isinstance(part, ast.Name) and part.id not in space:
                found[id(part)] = function.scope.find(part.id)
                self.name(function, part.id, found[id(part)])
            elif isinstance(part, ast.Attribute) and found.get(id(part.value), MISSING) is not MISSING:
                owner = found[id(part.value)]
                found[id(part)] = getattr(owner, part.attr, MISSING)
                self.attribute(function, owner, part.attr, found[id(part)])

    def content(self, x: Any) -> None:
        """What is inside of a container that can be changed in place, and of the containers in it."""
        if id(x) in self._contents or not isinstance(x, (*_ROWS, *_BLOCKS)):
            return
        items = _items(x)
        if not isinstance(x, tuple):
            self._contents[id(x)] = (x, items)
        if isinstance(x, _ROWS):
            for item in items:
                self.content(item)

    def rule(self, function: Function) -> None:
        """A function was called, with the derivatives in closed form that it has now."""
        self._rules[function] = (function.adjoint, function.separator)

    def include(self, other: Captures) -> None:
        """Everything that another trace has read."""
        for mine, theirs in zip(self._parts(), other._parts(), strict=True):
            mine.update(theirs)
        self.rules_version = min(self.rules_version, other.rules_version)
        self.own.update(other.own)
        self._loose |= other._loose

    def _parts(self) -> tuple[dict[Any, Any], ...]:
        return self._names, self._cells, self._attributes, self._contents, self._rules

    @classmethod
    def of_known(cls) -> Captures:
        """Of a kernel that need not be traced, because it is made of functions of ours alone (`all_own`)."""
        made = cls()
        made.foreign = rules.foreign
        return made

    @property
    def all_own(self) -> bool:
        """Whether the trace has read nothing but functions of this package, of which no user has changed one, and what
        is bound to them."""
        read = self._loose or any(self._parts()[:-1])
        return not (read or rules.foreign) and all(own_module(function.__module__) for function in self._rules)

    # -- at launches
    @property
    def watches(self) -> bool:
        """Whether there is anything that user code can change."""
        return self.foreign is not None or any(self._parts())

    def changed(self) -> bool:
        """Whether a name, an attribute, a container or a derivative is not what it was.

        Numbers and texts are compared by value.
        Asked at every launch, hence as quick as can be while nothing has changed.
        """
        # most kernels read a few module names and nothing else: one dictionary look-up and one `is` for each
        try:
            for space, name, value in self._quick or ():
                if space[name] is not value:
                    return self._differs()
        except KeyError:
            return True
        if self._more or self._quick is None or rules.version != self.rules_version:
            return self._changed_elsewhere()
        return False

    def _changed_elsewhere(self) -> bool:
        if self._quick is None:
            self._quick = [entry for entry in self._names.values() if entry[2] is not MISSING]
            self._more = len(self._quick) < len(self._names) or any((self._cells, self._attributes, self._contents))
            self.live = self._more or bool(self._quick)
        if any(space.get(name, MISSING) is not value for space, name, value in self._names.values()):
            return self._differs()
        if any(_inside(cell) is not value for cell, value in self._cells.values()):
            return self._differs()
        if any(getattr(owner, name, MISSING) is not value for owner, name, value in self._attributes.values()):
            return self._differs()
        return any(not _holds(x, items) for x, items in self._contents.values()) or self._has_other_rules()

    def _differs(self) -> bool:
        """As `changed`, where an object is another one: equal numbers are remembered as the new objects."""
        now: tuple[tuple[dict[Any, Any], Callable[..., Any]], ...] = (
            (self._names, lambda space, name: space.get(name, MISSING)),
            (self._cells, _inside),
            (self._attributes, lambda owner, name: getattr(owner, name, MISSING)),
        )
        for entries, read in now:
            for key, (*where, value) in list(entries.items()):
                found = read(*where)
                if not _alike(found, value):
                    return True
                entries[key] = (*where, found)  # from here on the quick comparison by identity holds again
        self._quick = None
        return any(not _holds(x, items) for x, items in self._contents.values()) or self._has_other_rules()

    def _has_other_rules(self) -> bool:
        version = rules.version
        if version == self.rules_version:
            return False
        if self.foreign is not None and rules.foreign != self.foreign:
            return True
        if any((f.adjoint, f.separator) != known for f, known in self._rules.items()):
            return True
        self.rules_version = version
        return False


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is assigned yet
        return MISSING


def _items(x: Any) -> Any:
    """What a container holds now."""
    if isinstance(x, HostStruct):
        return tuple(vars(x).values())
    if isinstance(x, dict):
        return (*x.keys(), *x.values())
    if isinstance(x, (list, tuple)):
        return tuple(x)
    if isinstance(x, set):
        return x.copy()
    data = x.data if isinstance(x, Composite) else x
    return data.shape, data.dtype, data.tobytes()


def _holds(x: Any, items: Any) -> bool:
    """Whether a container holds the same as when `_items` was asked."""
    now = _items(x)
    if isinstance(x, _BLOCKS):
        return bool(now == items)
    return len(now) == len(items) and (all(map(operator.is_, now, items)) or all(map(_alike, now, items)))


def _alike(a: Any, b: Any) -> bool:
    """Whether two objects mean the same to a trace: the same object, or equal numbers, texts and containers of them."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return repr(a) == repr(b)  # tells -0.0 from 0.0, and a NaN is like itself
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    if isinstance(a, HostNumber):
        return a.type is b.type and repr(a) == repr(b)
    if isinstance(a, Composite):
        return a.type is b.type and a.data.tobytes() == b.data.tobytes()
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return False


class Traced(Protocol):
    """What a trace has made."""

    @property
    def captures(self) -> Captures: ...


T = TypeVar("T", bound=Traced)


def remembered(known: dict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """What was made for this key, as long as nothing that it has captured changes; else `make()`."""
    with compiling:
        found = known.get(key)
        if found is None or found.captures.changed():
            found = known[key] = make()
        return found


def same_calls(a: list[Op], b: list[Op]) -> bool:
    """Whether two lists of operations call the same functions by the same derivatives."""
    calls = [[op.callee for op in ops if op.name in ("call", "rule")] for ops in (a, b)]
    return len(calls[0]) == len(calls[1]) and all(map(operator.is_, *calls))


# ------------------------------------------------------------------------------------------------ closures
def in_closure(f: Callable[..., Any]) -> tuple[str, ...]:
    """What the local names hold that a function captures."""
    return told_apart(_held(cell) for cell in f.__closure__ or ())


def told_apart(values: Iterable[Any]) -> tuple[str, ...]:
    """Values as a key; an object that may change counts as itself."""
    return tuple(_told_apart(x) for x in values)


def _told_apart(x: Any) -> str:
    if type(x) is tuple:
        return f"({', '.join(map(_told_apart, x))},)"
    return repr(x) if type(x) in (bool, int, float, str) else f"object {id(x)}"


def _held(cell: python_types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # assigned later
        return MISSING


def assigned_once(f: Callable[..., Any]) -> bool:
    """Whether the local names that a function captures are assigned once by what defines it, as far as its text says.

    Else one of several definitions could come to see another value than the others.  To be asked while that runs.
    """
    frame: python_types.FrameType | None = sys._getframe(1)
    while frame is not None and f.__code__ not in frame.f_code.co_consts:
        frame = frame.f_back
    if frame is None:
        return False
    outer = frame.f_code
    given = outer.co_varnames[: outer.co_argcount + outer.co_kwonlyargcount]
    stored = [i.argval for code in _codes(outer) for i in dis.get_instructions(code) if i.opname in _STORES]
    return all(stored.count(name) + (name in given) <= 1 for name in f.__code__.co_freevars)


_STORES = ("STORE_DEREF", "DELETE_DEREF")


def _codes(code: python_types.CodeType) -> Iterator[python_types.CodeType]:
    """The code of a function and of all that are defined in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, python_types.CodeType):
            yield from _codes(inner)
