"""The order of lines of straight code: what a line needs comes just before it, so that few registers wait."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAME = re.compile(r"%[A-Za-z_][\w.]*|%\w+")


def named(line: str) -> list[str]:
    """The values in a line."""
    return _NAME.findall(line)


def in_order(lines: Sequence[str], roots: Iterable[str]) -> list[str]:
    """The lines that some roots need, values by name or whole lines, one root after the other; others are left out.

    Lines are in single assignment form and without jumps.
    """
    maker = {line.split(" = ", 1)[0].strip(): line for line in lines if " = " in line}
    out: list[str] = []
    done: set[str] = set()

    def need(name: str) -> None:
        line = maker.get(name)
        if line is None or name in done:
            return
        done.add(name)
        for operand in named(line.split(" = ", 1)[1]):
            need(operand)
        out.append(line)

    for root in roots:
        if root in maker:
            need(root)
            continue
        for operand in named(root):
            need(operand)
        out.append(root)
    return out
