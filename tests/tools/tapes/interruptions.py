"""Where an interruption by a trace function is one that could happen."""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType, FrameType

WORDLESS = {"SWAP", "COPY", "NOP", "PRECALL", "CACHE", "PUSH_NULL"}


def out_of_reach(frame: FrameType) -> bool:
    """Whether the line that begins is the end of a `with`, the call of `__exit__`, or a loop that turns back.

    CPython looks for signals after calls and as loops turn back, and not between the last instruction of the body and
    this call; a trace function is called there.  What it raises would leave a lock taken that Ctrl-C never leaves.
    From 3.12 on what a trace function raises where a comprehension turns back is not seen by a `finally` around it, as
    what a signal raises there is.
    """
    return frame.f_lasti in _ends(frame.f_code)


@cache
def _ends(code: CodeType) -> frozenset[int]:
    """Places of the instructions from which `__exit__(None, None, None)` is called, and of those that turn back."""
    found, run = set(), []
    for step in dis.get_instructions(code):
        none = step.opname == "LOAD_CONST" and step.argval is None
        if none or (run and step.opname in WORDLESS) or step.opname in ("SWAP", "NOP", "PUSH_NULL"):
            run.append((step.offset, none))
            continue
        if step.opname == "JUMP_BACKWARD":
            found.add(step.offset)
        if step.opname == "CALL" and sum(one for _, one in run) == 3:
            found |= {offset for offset, _ in run}
        run = []
    return frozenset(found)
