"""Errors for people: a place, what is wrong, and what to do instead."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Span:
    """A place in a source file.  `line` counts from 1, `col` from 1; `text` is the whole source line."""

    file: str
    line: int
    col: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    def excerpt(self) -> str:
        """The source line with a caret under the column."""
        return f"    {self.text.rstrip()}\n    {' ' * (self.col - 1)}^" if self.text else ""


class SimError(Exception):
    """Base of every error that this project raises on purpose."""


class ValueMismatch(SimError, TypeError, ValueError):
    """Numbers that do not make a value of a type, or fit a part of it: other kinds, or another count of them."""


class ArrayError(SimError, ValueError, TypeError, RuntimeError):
    """Arrays, shapes or types of elements that do not fit what is asked of them, or each other."""


class ArrayIndexError(SimError, IndexError, RuntimeError):
    """An index that an array does not have, outside of kernels."""


class NotSupportedError(SimError, NotImplementedError):
    """A part of Warp that this package does not have, and what to do instead."""


class RefusedName:
    """A name that is not supported: a file may import it beside what it does use, and its use is what is refused."""

    def __init__(self, name: str, why: str) -> None:
        self._name, self._why = name, why
        self.__name__ = name.rpartition(".")[2]

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"{self._name} is not supported: {self._why}")

    @property
    def _sim_type_(self) -> NoReturn:
        self._refuse()

    def __getitem__(self, item: Any) -> RefusedName:
        """As an annotation, `array[bfloat16]`: refused where it is used."""
        return RefusedName(self._name, self._why)

    __call__ = __setitem__ = __iter__ = __enter__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name[0] == "_":
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self._name}: not supported>"


_PACKAGE = str(Path(__file__).parents[2]) + os.sep


def hide_internals(problem: BaseException) -> None:
    """Takes the frames of this package out of an error's traceback: it ends at the user's call.

    With them goes all that they hold: an error that is kept, as a notebook does, keeps no kernels and arrays alive.
    Not with SIM_FULL_TRACEBACKS=1.
    For `except SimError as problem: hide_internals(problem); raise`, which leaves out the present frame too.
    """
    if os.environ.get("SIM_FULL_TRACEBACKS", "0") not in ("", "0"):
        return
    kept, at = [], problem.__traceback__
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept.append(at)
        at = at.tb_next
    for entry in reversed(kept):
        at = TracebackType(at, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    problem.__traceback__ = at
    if problem.__suppress_context__:  # what `raise ... from None` does not show
        problem.__context__ = None


def depth_of_user() -> int:
    """The `stacklevel` of a warning by the caller of this that is to show the user's line, outside of this package."""
    frame, depth = sys._getframe(1), 1
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def entry_point(function: F) -> F:
    """Decorator for what users call: errors of ours that leave it show no frames of this package."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SimError as problem:
            hide_internals(problem)
            raise

    return call  # type: ignore[return-value]


class KernelError(SimError, RuntimeError, TypeError, ValueError):
    """A kernel that the language refuses.  The message has the place, the line with a caret, what, and what to do
    instead.  (As in Warp, programs may catch a wrong type as a TypeError, and a wrong value as a ValueError.)"""

    def __init__(self, what: str, span: Span | None = None, hint: str = "") -> None:
        self.what, self.span, self.hint = what, span, hint
        parts = [f"{span}: {what}" if span else what]
        if span and span.text:
            parts.append(span.excerpt())
        if hint:
            parts.append(f"    {hint}")
        super().__init__("\n".join(parts))


class UnknownName(KernelError, KeyError):
    """A name that is defined nowhere."""

    __str__ = Exception.__str__  # that of KeyError quotes


class UnknownAttribute(KernelError, AttributeError):
    """A component, field or attribute that a value, struct or module does not have."""


class GradientError(KernelError):
    """A derivative that cannot be given: raised instead of returning a wrong or a silently zero gradient."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` or an empty string."""
    near = difflib.get_close_matches(name, [str(k) for k in known], 1)
    return f" (did you mean '{near[0]}'?)" if near else ""
