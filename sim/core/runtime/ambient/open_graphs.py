"""The graphs that capture what happens, as devices and streams know them, which graphs are made of."""

from __future__ import annotations

from typing import Any

from sim.core.runtime.ambient.stacks import OpenStack

somewhere: list[None] = []
opened = OpenStack[Any](somewhere)
"""The graphs; only the innermost captures what happens.  None: capture is suspended."""


def captures_on(device: object) -> bool:
    """Whether what happens now is captured, by a graph of this device or by one of no device in particular."""
    entries = opened.entries
    return bool(entries) and entries[-1] is not None and entries[-1].device in (None, device)
