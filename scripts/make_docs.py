"""Writes docs/reference/ and scenes/scene.schema.json from the registries of the code.

    python scripts/make_docs.py [--check]

--check: write nothing; exit 1 if a file is not what it would be.
"""

import argparse
import inspect
import sys
from pathlib import Path

from sim.constraints import REGISTRY
from sim.core.lang.builtins import NAMES
from sim.core.lang.ir import OPS, ZERO
from sim.core.lang.library import LIBRARY, RANDOM
from sim.io import to_json
from sim.model import MODEL_FIELDS, STATE_FIELDS
from sim.scene.json_schema import json_schema, scene_reference
from sim.scene.materials import registered_materials

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- written by scripts/make_docs.py -->\n"


def first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return (lines[0] if lines else "").replace("|", "\\|")


def language() -> str:
    rows = ["# The kernel language\n", "## Primitives\n", "| name | meaning | operands | derivative |", "|---|---|---|---|"]
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    for name, row in sorted(OPS.items()):
        gradient = "zero" if row.vjp is ZERO else "yes" if row.vjp else "error"
        meaning = row.doc.replace("|", "\\|")
        rows.append(f"| `{name}` | {meaning} | {', '.join(kinds[k] for k in row.accepts)} | {gradient} |")
    rows += ["\n## Built in\n", "| name | what it does |", "|---|---|"]
    own = {n: b for n, b in NAMES.items() if n not in LIBRARY and n not in RANDOM and n not in OPS}
    rows += [f"| `{n}` | {first_line(b.__doc__)} |" for n, b in sorted(own.items())]
    rows += ["\n## Library\n", "Written in the language, for float32 and float64.\n", "| function | what it is |", "|---|---|"]
    for name, f in sorted((LIBRARY | RANDOM).items()):
        python = getattr(f, "python", None)
        arguments = ", ".join(inspect.signature(python).parameters) if python else "..."
        rows.append(f"| `{name}({arguments})` | {first_line(f.__doc__)} |")
    return "\n".join(rows) + "\n"


def constraints() -> str:
    rows = ["# Constraints\n", "Each is a key of `material` in a scene or in `ModelBuilder`.\n"]
    rows += ["| name | points | rows | parameters | what it is |", "|---|---|---|---|---|"]
    for name, c in sorted(REGISTRY.items()):
        parameters = ", ".join(f"`{p.name}`{f' [{p.unit}]' if p.unit else ''}" for p in c.parameters.values())
        kind = " (C >= 0)" if c.unilateral else ""
        rows.append(f"| `{name}` | {c.points} | {c.rows} | {parameters} | {first_line(c.doc)}{kind} |")
    return "\n".join(rows) + "\n"


def fields() -> str:
    rows = []
    for title, table in (("Model", MODEL_FIELDS), ("State", STATE_FIELDS)):
        rows += [f"# {title}\n", "| array | shape | type | unit | meaning |", "|---|---|---|---|---|"]
        for f in table:
            shape = ", ".join(str(n) for n in f.shape)
            rows.append(f"| `{f.name}` | ({shape}) | {f.kind} | {f.unit} | {f.doc.replace('|', chr(92) + '|')} |")
        rows.append("")
    return "\n".join(rows)


def documents() -> dict[Path, str]:
    return {
        ROOT / "docs/reference/language.md": NOTE + language(),
        ROOT / "docs/reference/constraints.md": NOTE + constraints(),
        ROOT / "docs/reference/arrays.md": NOTE + fields(),
        ROOT / "docs/reference/scene.md": scene_reference(registered_materials()),
        ROOT / "scenes/scene.schema.json": to_json(json_schema(registered_materials()), indent=2) + "\n",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'stale' if options.check else 'written'}: {path.relative_to(ROOT)}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(documents()[path])
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
