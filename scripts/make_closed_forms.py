"""Writes benchmarks/closed_forms.md: bodies, joints, contacts and rods beside closed forms, values and derivatives.  It
is shown by docs/physics.md, and asked for by tests/solvers/bodies/test_closed_forms.py.

    python scripts/make_closed_forms.py             # all, two minutes
    python scripts/make_closed_forms.py R2 D1       # some; the others stay as they are
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tools.closed_forms import CASES, Case, Figure  # noqa: E402

TARGET = ROOT / "benchmarks" / "closed_forms.md"
HEAD = "| case | quantity | exact | found | off by |\n|---|---|---|---|---|\n"


def rows(case: Case, figures: list[Figure]) -> str:
    """Lines of the table; what the case is stands in the first."""
    out = []
    for k, figure in enumerate(figures):
        about = f"**{case.key}** {case.about} ({case.settings})" if k == 0 else ""
        out.append(f"| {about} | {figure.name} | {figure.exact:.7g} | {figure.found:.7g} | {figure.error:.0e} |\n")
    return "".join(out)


def written(text: str) -> dict[str, str]:
    """Case -> its lines in a table."""
    found: dict[str, str] = {}
    key = ""
    for line in text.splitlines(keepends=True)[2:]:
        key = line.split("**")[1] if "**" in line else key
        found[key] = found.get(key, "") + line
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    chosen = parser.parse_args().cases or list(CASES)
    table = written(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    for key in chosen:
        table[key] = rows(CASES[key], CASES[key].measure())
        print(table[key], end="", flush=True)
        TARGET.write_text(HEAD + "".join(table[name] for name in CASES if name in table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
