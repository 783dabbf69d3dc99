"""Mathematical constants, with Warp's names.  In kernels they are weak numbers: they take the precision around them."""

import math
from typing import Any

E = e = math.e
HALF_PI = half_pi = math.pi / 2.0
INF = inf = math.inf
LN10 = ln10 = math.log(10.0)
LN2 = ln2 = math.log(2.0)
LOG10E = log10e = math.log10(math.e)
LOG2E = log2e = math.log2(math.e)
NAN = nan = math.nan
PHI = phi = (1.0 + math.sqrt(5.0)) / 2.0
PI = pi = math.pi
TAU = tau = 2.0 * math.pi


def constant(value: Any) -> Any:
    """The value itself: numbers and host vectors that a kernel names are constants in it anyway."""
    return value
