"""When this process began to read the package: `sim/core/__init__.py` imports this before anything else."""

import time

BEGAN: int = time.time_ns()
"""Hardly any text of the package was read before, and none two seconds before; nanoseconds since 1970."""
