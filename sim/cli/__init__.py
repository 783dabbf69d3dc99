"""The command `simopt`: run | view | export | check | gradcheck | convert | schema | info | show-ir.

Exit status: 0 all well; 1 an expectation not met, a gradient off, or a run that broke down; 2 bad input, nothing
written; 130 interrupted, state saved; 141 nobody read the output to its end.
"""

import gc

_searches = gc.isenabled()
gc.disable()  # Python would look for garbage again and again among what is imported, which stays

from sim.cli.command import main as main
from sim.cli.verbs.show_ir import STAGES as STAGES

if _searches:
    gc.enable()
