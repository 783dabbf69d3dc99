"""YAML with positions, and quantities with units."""

from pathlib import Path

import pytest

from sim.schema.errors import SceneError, SourceText
from sim.schema.units import UnitError, parse_unit, to_si
from sim.schema.yaml_marks import read_yaml


def read(text, problems=None):
    return read_yaml(SourceText("x.yaml", text, Path(".")), [] if problems is None else problems)


@pytest.mark.parametrize(("text", "value"), [
    ("1e-9", 1e-9), ("1E5", 1e5), ("-.5", -0.5), ("3.", 3.0), ("12", 12), ("0x1F", 31), ("0o17", 15), ("017", 17),
    ("1_000", "1_000"), ("12:30:00", "12:30:00"), ("2026-11-20", "2026-11-20"), ("on", "on"), ("yes", "yes"),
    ("No", "No"), ("true", True), ("False", False), ("null", None), ("~", None), ("'1e-9'", "1e-9"), ('"true"', "true"),
    ("1e", "1e"), ("5 mm", "5 mm"), ("=", "="), (".inf", float("inf")), ("-.INF", float("-inf")),
])  # fmt: skip
def test_scalars(text, value):
    found = read(f"a: {text}").value["a"].value
    assert found == value and type(found) is type(value)


def test_positions_of_keys_values_and_list_items():
    root = read("# comment\na:\n  b: [1, µ, {c: 5}]\n  'd': x\n")
    items = root.value["a"].value["b"].value
    assert [str(item.mark) for item in items] == ["x.yaml:3:7", "x.yaml:3:10", "x.yaml:3:13"]
    assert str(items[2].value["c"].mark) == "x.yaml:3:17"
    assert str(root.value["a"].value["d"].key_mark) == "x.yaml:4:3"
    assert str(root.value["a"].value["d"].mark) == "x.yaml:4:8"


def test_anchors_and_merges_keep_the_place_of_their_content():
    root = read("a: &one {x: 1, y: 2}\nb: &two\n  y: 3\nc: *one\nd: {<<: [*one, *two], z: 4}\ne: {x: 9, <<: *one}\n")
    assert root.plain == {"a": {"x": 1, "y": 2}, "b": {"y": 3}, "c": {"x": 1, "y": 2}, "d": {"x": 1, "y": 2, "z": 4},
                          "e": {"x": 9, "y": 2}}  # fmt: skip
    assert str(root.value["d"].value["y"].mark) == "x.yaml:1:19"
    assert str(root.value["c"].key_mark) == "x.yaml:4:1"
    assert str(root.value["c"].value["x"].mark) == "x.yaml:1:13"


def test_every_duplicate_key_is_found():
    problems = []
    root = read("a: 1\nb: {c: 1, c: 2}\na: 3\nm: &m {}\nn:\n  <<: *m\n  <<: *m\n", problems)
    assert [(p.mark.line, p.mark.column, p.path) for p in problems] == [(2, 11, "b.c"), (3, 1, "a"), (7, 3, "n.<<")]
    assert root.value["a"].value == 1


@pytest.mark.parametrize(("text", "fragment"), [
    ("a: !!float 3", "tag"), ("a: !mine {b: 1}", "tag"), ("!!str a: 3", "tag"), ("a: *b", "unknown anchor"),
    ("a: &b [*b]", "unknown anchor"), ("a: 1\n---\nb: 1", "second document"), ("a: [1", "not YAML"),
    ("a: b: c", "not YAML"),
    ("[1, 2]: 3", "not a plain word"), ("a: {<<: 3}", "`<<` of something"), ("a: \x07", "not YAML"),
    ("a: " + "[" * 100 + "]" * 100, "levels deep"),
    ("\n".join(["a0: &a0 [1, 1]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]),
     "once its aliases are written out"),
])  # fmt: skip
def test_refused(text, fragment):
    with pytest.raises(SceneError) as caught:
        read(text)
    assert fragment in str(caught.value)


def test_a_problem_shows_line_and_caret_behind_tabs():
    with pytest.raises(SceneError) as caught:
        read("a: [1,\t*b]")
    assert str(caught.value).splitlines()[:3] == ["x.yaml:1:8: unknown anchor `*b`", "    a: [1,\t*b]", "          \t^"]


@pytest.mark.parametrize(("text", "unit", "value"), [
    ("5 mm", "m", 0.005), ("13 cm", "m", 0.13), ("5mm", "m", 0.005), ("0.5 µm", "m", 5e-7), ("52 g", "kg", 0.052),
    ("1070 kg/m^3", "kg/m^3", 1070.0), ("1 g/cm^3", "kg/m^3", 1000.0), ("180 deg", "rad", 3.141592653589793),
    ("10 us", "s", 1e-5), ("5 %", "", 0.05), ("200 MB", "B", 2e8), ("1 KiB", "B", 1024.0), ("3 1/s", "Hz", 3.0),
    ("2 mm/N", "m/N", 0.002), ("33 1/(N m)", "1/(N m)", 33.0), ("33 1/(N*mm)", "1/(N m)", 33000.0), ("1e5", "Pa", 1e5),
    ("9.81 m s^-2", "m/s^2", 9.81), ("1 N/m^2", "Pa", 1.0), ("36 km/h", "m/s", 10.0), (" -2.5e1 Hz ", "Hz", -25.0),
    ("5", "m", 5.0), ("1 N m", "N m", 1.0), ("7 (kg)/(m^2)", "kg/m^2", 7.0),
])  # fmt: skip
def test_quantities(text, unit, value):
    assert to_si(text, unit) == value


@pytest.mark.parametrize(("text", "unit", "what", "hint"), [
    ("5 mm", "kg", "is a length, expected a mass [kg]", "write it in kg, g"), ("5 %", "m", "is a plain number", "m, "),
    ("5 deg", "", "is an angle, expected a number", ""), ("5 mmm", "m", "unknown unit `mmm`", "did you mean `mm`?"),
    ("5 furlong", "m", "unknown unit `furlong`", "these are known: m, km, dm, cm, mm, um, in, kg,"),
    ("1 1/N m", "m/N", "two ways", "1/(N m)"), ("5 kg/", "kg", "nothing follows", ""), ("5 (kg", "kg", "is open", ""),
    ("5 kg)", "kg", "unexpected `)`", "kg/m^3"), ("oops", "m", "is not a length [m]", "a number and a unit"),
    ("1.2.3", "m", "is not a unit", ""), ("1e999 m", "m", "too large", ""),
    ("5 kg^2", "kg", "a quantity in kg^2", "kg"),
    ("1 1/s", "rad/s", "is a frequency, expected an angular velocity", "rad/s"),
])  # fmt: skip
def test_wrong_quantities(text, unit, what, hint):
    with pytest.raises(UnitError) as caught:
        to_si(text, unit)
    assert what in caught.value.what and hint in caught.value.hint


def test_every_decimal_with_a_unit_is_the_nearest_double():
    for number in range(1, 2000):
        assert to_si(f"{number} mm", "m") == float(f"{number}e-3")
        assert to_si(f"{number / 10} us", "s") == float(f"{number}e-7")


def test_dimensions_multiply():
    assert parse_unit("N")[1] == parse_unit("kg m/s^2")[1]
    assert parse_unit("Pa")[1] == parse_unit("N/m^2")[1]
    assert parse_unit("1/(N m)")[1] == tuple(-power for power in parse_unit("N m")[1])
