"""What launches ask of a kernel beside its code, on disk: kernels of ours need not be traced in every process.

Under a key (`identity.py`) lie rows of numbers and names, never IR: what is asked of the IR itself is traced and
differentiated after all, and is then compared by a digest with what was known of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from sim.core.backends import cache
from sim.core.lang.errors import SimError
from sim.core.lang.ir.core import Func, walk
from sim.core.lang.ir.printer import to_text
from sim.core.runtime.compiled.identity import sources

T = TypeVar("T")
Facts = dict[str, Any]
"""Values of cached properties by their names."""


def facts_of(x: object, names: Sequence[str]) -> Facts:
    """The values of these properties, which `know` gives to another object of the class."""
    return {name: getattr(x, name) for name in names}


def know(x: object, facts: Facts) -> None:
    """Gives an object the values of cached properties, which it then need not compute."""
    vars(x).update(facts)


def recall(key: str) -> Any:
    """What is known under a key, else None."""
    raw = cache.load(key, cache.KNOWN) if key else None
    if raw is None:
        return None
    try:
        return pickle.loads(raw)
    except Exception:  # a type that this process has not made yet, another version: as if it were not there
        return None


def remember(key: str, facts: Any) -> None:
    """Keeps what is known under a key; nothing under none, or once sources have changed that it may be made of."""
    if key and sources() is not None:
        cache.save(key, pickle.dumps(facts), cache.KNOWN)


def known(key: str, make: Callable[[], T]) -> T:
    """What is known under a key, else what `make` gives, from now on."""
    found: T | None = recall(key)
    if found is None:
        found = make()
        remember(key, found)
    return found


def part_of(key: str, *parts: object) -> str:
    """The key of what belongs to that of another key: "" where that has none."""
    return cache.cache_key(key, *map(str, parts)) if key else ""


def digest_of(func: Func) -> str:
    """Stands for the code of a function of ours: the same in every process."""
    promised = f"{sorted(func.attrs.get('exclusive', ()))} {func.attrs.get('alike', False)}"
    return sha256(f"{promised}\n{to_text(func)}".encode()).hexdigest()


def has_effects_by_rule(func: Func) -> bool:
    """Whether it writes by functions in closed form: their text is not the same in every process."""
    return any(op.name == "rule" or op.by_rule is not None for op in walk(func.body))


class SourceChanged(SimError):
    """The sources of this package have been written to while it runs, and a kernel is no more what it was."""
