"""The command `simopt` in a process of its own."""

import os
import subprocess
import sys
from typing import Any

from tools.places import ROOT


def command(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Starts it with these arguments; what it prints is piped."""
    return subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
