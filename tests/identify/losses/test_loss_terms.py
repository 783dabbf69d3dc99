"""The registries of loss terms, measures and export formats: what a scene and the command take from them."""

import pytest

from sim.identify.data.measures import MEASURE_SPECS, measure_lines
from sim.identify.losses.terms import LOSS, TERMS
from sim.identify.losses.terms.base import Penalty, TrajectoryTerm
from sim.io.formats import FORMATS, FORMATS_HELP

LINES = {line.name: line for line in LOSS.lines}


def test_the_order_of_keys_is_that_of_resolved_scenes():
    """A run is resumed where its scene's text is the same: keys keep their places."""
    wanted = "match compare at norm angle reach slow experiments prior value factor smooth sd custom weight"
    assert list(LINES) == wanted.split() and LOSS.one_of == (tuple(TERMS),)


def test_a_key_of_several_terms_belongs_to_all_of_them():
    assert LINES["sd"].only_with == ("prior", "smooth") and "with `smooth`" in LINES["sd"].doc
    simulated = tuple(key for key, term in TERMS.items() if issubclass(term, TrajectoryTerm))
    assert LINES["experiments"].only_with == simulated == ("match", "angle", "reach", "slow", "custom")


@pytest.mark.parametrize("key", TERMS)
def test_a_term_is_a_file(key):
    term = TERMS[key]
    assert term.__module__ == f"sim.identify.losses.terms.{key}" and key in {line.name for line in term.lines}
    assert issubclass(term, TrajectoryTerm) != issubclass(term, Penalty)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_a_file(name):
    assert type(FORMATS[name]).__module__ == f"sim.io.formats.{name}" and type(FORMATS[name]).__doc__


def test_what_the_command_says_of_formats():
    assert FORMATS_HELP == (
        "glb: animated 3-D file; usd: animated scene for Blender, Houdini, Omniverse (.usda);"
        " csv: markers, poses of bodies; mp4: a film (needs the extra [video])"
    )


def test_keys_of_measures_belong_to_their_kinds():
    assert {name: spec.keys for name, spec in MEASURE_SPECS.items() if spec.keys} == {
        "settled": ["last"],
        "rotation": ["last", "about"],
    }
    assert [line.name for line in measure_lines()] == ["last", "about"] and MEASURE_SPECS["settled"].is_level
