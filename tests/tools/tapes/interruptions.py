"""Where an interruption by a trace function is one that could happen."""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType, FrameType

WORDLESS = {"SWAP", "COPY", "NOP", "PRECALL", "CACHE", "PUSH_NULL"}


def leaves_with(frame: FrameType) -> bool:
    """Whether the line that begins is the end of a `with`: the call of `__exit__`.

    CPython looks for signals after calls and as loops turn back, and not between the last instruction of the body and
    this call; a trace function is called there.  What it raises would leave a lock taken that Ctrl-C never leaves.
    """
    return frame.f_lasti in _ends(frame.f_code)


@cache
def _ends(code: CodeType) -> frozenset[int]:
    """Places of the instructions from which `__exit__(None, None, None)` is called."""
    found, run = set(), []
    for step in dis.get_instructions(code):
        none = step.opname == "LOAD_CONST" and step.argval is None
        if none or (run and step.opname in WORDLESS) or step.opname in ("SWAP", "NOP"):
            run.append((step.offset, none))
            continue
        if step.opname == "CALL" and sum(one for _, one in run) == 3:
            found |= {offset for offset, _ in run}
        run = []
    return frozenset(found)
