"""What has to hold before a change lands, part by part, with the Python that runs this, on any system.

    python .ci/checks.py [lint] [types] [tests]

`.ci/run` is all of it on one machine, `.github/workflows/ci.yml` on many.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("sim", "tests", "scripts", "benchmarks", "docs/tour.py", "docs/gallery", ".ci/checks.py")
TYPED = ("docs/tour.py", "scripts/research_example.py", "scripts/optimize_scene.py", "tests/programs/typed_program.py")
"""Programs of users: with what they import, as they see it."""
PARTS = {
    "lint": (("ruff", "check", *CODE), ("ruff", "format", "--check", *CODE)),
    "types": (("mypy", "sim"), ("mypy", *TYPED)),
    "tests": (("pytest", "-q", "-n", "2"),),
}


def main() -> int:
    """Runs the parts in order, and returns the exit status of the first command that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parts = parser.parse_args().parts or list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}: {', '.join(PARTS)}")
    for command in (command for part in parts for command in PARTS[part]):
        print("+", *command, flush=True)
        status = subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
