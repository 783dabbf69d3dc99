"""What calls outside of kernels go to: the language cannot evaluate, so whoever has an interpreter provides one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class HostEvaluator(Protocol):
    """Calls functions of the language for values of the host."""

    def call(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of a function, builtin or type of the language."""

    def named(self, name: str, *args: Any, out: Any = None) -> Any:
        """The result of the function of this name: what operators between host values are.

        Of arrays: element by element, into a new array or into `out`.
        """


class _Host:
    evaluator: HostEvaluator | None = None


host = _Host()


def provide_host(evaluator: HostEvaluator) -> None:
    """From here on, calls outside of kernels go to `evaluator`."""
    host.evaluator = evaluator


def operation(name: str, *args: Any, out: Any = None) -> Any:
    """`name(*args)` on the host, by the rules of the language."""
    if host.evaluator is None:
        raise TypeError(f"`{name}` of host values takes an interpreter: import sim")
    return host.evaluator.named(name, *args, out=out)
