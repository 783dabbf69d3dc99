"""The structure of the code: imports run one way, no cycles, no own modules imported inside functions, files of a
size."""

import ast
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from rooms import LAYERS, layer
from tools.places import ROOT

LIMIT = 700
"""Lines of a file."""
FOLDER = 17
"""Modules of a folder, its `__init__` among them."""


def modules() -> dict[str, Path]:
    out = {}
    for path in sorted((ROOT / "sim").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        out[name.removesuffix(".__init__")] = path
    return out


MODULES = modules()


def imports(name: str, path: Path) -> list[tuple[str, ast.AST, bool]]:
    """(module of ours, node, at top level) for every import of a file."""
    tree = ast.parse(path.read_text())
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    top = {id(n) for n in tree.body}
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            names = [f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names]
        found += [(n, node, id(node) in top) for n in names if n in MODULES and n != name]
    return found


def test_every_room_is_listed_and_every_listed_room_is_there():
    assert [room for room in LAYERS if f"sim.{room}" not in MODULES] == []
    assert [name for name in MODULES if name != "sim" and layer(name) == len(LAYERS)] == []


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_one_way(name):
    for target, node, _ in imports(name, MODULES[name]):
        assert layer(target) <= layer(name), f"{name} (line {node.lineno}) imports {target}, which is a later layer"


@pytest.mark.parametrize("name", MODULES)
def test_no_own_module_is_imported_inside_a_function(name):
    for target, node, at_top in imports(name, MODULES[name]):
        assert at_top, f"{name} imports {target} in line {node.lineno}, inside of something"


def test_no_import_cycles():
    graph = {name: {t for t, _, _ in imports(name, path)} for name, path in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> None:
        assert name not in chain, "import cycle: " + " -> ".join([*chain[chain.index(name) :], name])
        if name in done:
            return
        for target in graph[name]:
            visit(target, [*chain, name])
        done.add(name)

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "sim").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_files_are_of_a_size(path):
    assert len(path.read_text().splitlines()) <= LIMIT


def test_folders_are_of_a_size():
    folders = {path.parent for top in ("sim", "tests") for path in (ROOT / top).rglob("*.py")}
    modules = {folder: len(list(folder.glob("*.py"))) for folder in folders}
    assert {str(folder.relative_to(ROOT)): n for folder, n in modules.items() if n > FOLDER} == {}


def test_no_class_name_stands_twice():
    places: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_name_of_a_test_file_stands_twice():
    """pytest imports them by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_test_file_is_in_a_folder_that_pytest_leaves_out(pytestconfig):
    left_out = pytestconfig.getini("norecursedirs")
    folders = {part for path in (ROOT / "tests").rglob("test_*.py") for part in path.relative_to(ROOT).parts[:-1]}
    assert [name for name in sorted(folders) if any(fnmatch(name, pattern) for pattern in left_out)] == []


def test_each_module_of_the_autodiff_has_a_test_file_of_its_own():
    modules = (ROOT / "sim/core/lang/autodiff").glob("[a-z]*.py")
    folder = ROOT / "tests/core/lang/autodiff"
    assert [p.stem for p in modules if not (folder / f"test_{p.stem}.py").exists()] == []


@pytest.mark.parametrize(
    "module",
    ["sim", "sim.core", "sim.core.lang", "sim.constraints", "sim.model", "sim.solvers", "sim.rollout", "sim.scene"],
)
def test_each_part_can_be_imported_alone_and_brings_nothing_slow(module):
    code = (
        f"import sys, {module}; print([m for m in ('llvmlite', 'trimesh', 'rich', 'yaml', 'pydantic', 'torch', 'cuda')"
        " if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_a_first_rollout_brings_nothing_slow():
    """`numpy.ma` comes with `np.unique` of nothing but the values."""
    code = """
import sys, sim
builder = sim.ModelBuilder()
builder.add_cloth_grid(pos=(0, 0, 0), dim_x=4, dim_y=4, cell_x=0.1, cell_y=0.1, density=0.2, fix_top=True,
                       material={"distance": {"compliance": 0.01}, "bend": {"compliance": 1e3}})
builder.add_ground_plane()
body = builder.add_body(xform=sim.transform((0, 5, 0), sim.quat_identity()))
builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.2)
model = builder.finalize(requires_grad=True)
sim.rollout(sim.SolverXPBD(model), model.state(), steps=3, dt=0.001)
print([name for name in ("numpy.ma", "yaml", "rich", "pydantic", "sim.io", "sim.identify") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_core_knows_nothing_of_physics():
    for name, path in MODULES.items():
        if name.startswith("sim.core"):
            assert all(target.startswith("sim.core") for target, _, _ in imports(name, path)), name


def test_generated_documents_are_up_to_date():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "scripts/make_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_table_of_gradients_is_that_of_the_registries():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "scripts/make_gradient_table.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.returncode == 0, found.stdout + found.stderr
