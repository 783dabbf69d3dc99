"""The rooms of the code: their order from the ground up, and the list of them in docs/architecture.md.

A room is a package, or a module that stands in a package beside rooms.  What is said of it is the first sentence of its
docstring, so that the list stays true.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- rooms: written by scripts/make_docs.py -->", "<!-- /rooms -->"

# What stands in a room imports from it and from rooms before it in this list, never from one behind it.
LAYERS = """
    core._began core.lang.errors core.lang.warp_errors core.config core.lang.constants core.lang.memoize core.lang.types
    core.lang.references core.lang.ir core.lang.analysis
    core.lang.frontend.source core.lang.frontend.elsewhere core.lang.frontend.function core.lang.frontend.custom
    core.lang.frontend.captures core.lang.frontend.traced core.lang.frontend.chosen_arrays
    core.lang.frontend.local_arrays core.lang.frontend.lower_bounds core.lang.frontend.pointers
    core.lang.frontend.tracing core.lang.frontend
    core.lang.library core.lang.autodiff
    core.lang.instrument core.lang core.backends
    core.runtime.ambient.stacks core.runtime.memory core.runtime.compiled core.runtime.ambient
    core.runtime.devices core.runtime.arrays core.runtime.launch core.runtime.debug core.runtime.tape
    core.runtime.derivatives core.runtime.interop core.runtime core.spatial
    core.optim core.modules core display files schema geometry
    constraints.stencils constraints.base constraints.tetrahedron constraints.cloth
    constraints.particles constraints.projection constraints.slots constraints.contact constraints model
    solvers.air solvers.batch solvers.fingerprint solvers.integrators.step_kernels solvers.integrators.implicit
    solvers.bodies solvers.joints solvers.near solvers.touching solvers.self_contact solvers.blame solvers.base
    solvers.integrators solvers.mechanisms solvers.newton solvers.direct solvers.xpbd solvers.contacts solvers rollout
    io.recording io.readers io
    identify.parameters identify.data identify.losses identify.losses.terms identify.search identify.evaluate
    identify.problem identify.assess identify.numerics identify.report identify.run identify.many identify
    scene.schema.keys scene.schema scene.validate scene.build scene.scene scene.load scene.convert scene.urdf scene
    cli.terminal cli.verbs.base cli.many cli.verbs cli.begin cli.assess cli
""".split()


def layer(module: str) -> int:
    """The place of a module (`sim.core.lang.ir.ops`) in `LAYERS`: that of the longest entry which it is or is in."""
    short = module.removeprefix("sim").removeprefix(".")
    fits = [k for k, room in enumerate(LAYERS) if short == room or short.startswith(room + ".")]
    return max(fits, key=lambda k: len(LAYERS[k])) if fits else len(LAYERS)


def first_sentence(path: Path) -> str:
    """Of the docstring of a module; "" where it has none."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
    # a point behind a capital letter is that of an initial
    sentence = re.split(r"(?<=[^A-Z][.?])(?<!\bSt\.)(?<!\beq\.)\s", " ".join(paragraph.split()))[0]
    return sentence if not sentence or sentence[-1] in ".?" else sentence + "."


def rooms() -> str:
    """Every room in order, with its modules, as Markdown."""
    out = []
    for room in LAYERS:
        path = ROOT / "sim" / room.replace(".", "/")
        if not path.is_dir():
            out.append(f"* **`{room.replace('.', '/')}.py`** {first_sentence(path.with_suffix('.py'))}")
            continue
        modules = [p for p in sorted(path.glob("*.py")) if f"{room}.{p.stem}" not in LAYERS and p.stem[0] != "_"]
        said = first_sentence(path / "__init__.py")
        if modules or said:
            out.append(f"* **`{room.replace('.', '/')}/`** {said}")
            out += [f"    * `{p.stem}` {first_sentence(p)}" for p in modules]
    return "\n".join(out)


def architecture() -> str:
    """docs/architecture.md with the list of rooms as it is today."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{rooms()}\n{END}{rest.split(END)[1]}"
