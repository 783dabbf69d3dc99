"""docs/reference/python.md lists what a class has, wherever in the code it comes from, and nothing twice."""

import re

import pytest
from python_reference import python_reference


@pytest.fixture(scope="module")
def entries() -> dict[str, list[str]]:
    """Name of what is imported -> names of its members."""
    parts = re.split(r"^### sim\.(\S+)$", python_reference(), flags=re.M)[1:]
    return {name: re.findall(r"^\* `(\w+)", text, re.M) for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("ModelBuilder", ["finalize", "add_chain", "add_body", "add_joint_revolute", "add_self_contact"]),
        ("array", ["assign", "numpy", "list"]),
        ("SolverXPBD", ["step"]),
    ],
)
def test_what_a_class_has_of_its_parts_is_there(entries, name, members):
    assert [m for m in members if m not in entries[name]] == []
    assert len(entries[name]) == len(set(entries[name]))


def test_what_a_class_has_of_another_entry_stands_there(entries):
    assert entries["array1d"] == []
