"""What type checkers see of the package is what there is."""

import ast

import pytest
from tools.places import ROOT
from type_stub import type_stub

import sim.core as core


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "sim" / "py.typed").is_file()


def test_the_stub_has_every_name_of_the_core():
    found = set()
    for node in ast.parse(type_stub()).body:
        match node:
            case ast.ImportFrom():
                found |= {alias.asname for alias in node.names}
            case ast.ClassDef() | ast.FunctionDef():
                found.add(node.name)
            case ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
    assert set(core.__all__) <= found
    assert {name for name in found if not name.startswith("_")} <= set(core.__all__)


@pytest.mark.parametrize("annotation", ["array[core.vec3]", "array2d[float]"])
def test_annotations_are_those_of_the_language(annotation):
    assert "array" in str(eval(f"core.{annotation}"))
    assert isinstance(eval(f"core.{annotation}"), core.types.Type)


def test_the_typed_program_runs():
    program = {"__name__": "typed_program"}
    path = ROOT / "tests" / "programs" / "typed_program.py"
    exec(compile(path.read_text(), str(path), "exec"), program)
    assert program["run"]() > 0
