"""Every shipped scene, spoilt: what comes of it is a problem, or an error with a place; never anything else."""

import os
import shutil

import pytest
from tools.fuzz.scenes import Spoilt
from tools.places import ROOT

SCENES = sorted((ROOT / "scenes").glob("*.yaml"))
ASKED = os.environ.get("SIM_FUZZ_SCENES", "")
"""`cloth:17`, one that went wrong before; or a seed from which to go on, for others than those of every day."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the files that scenes name."""
    out = tmp_path_factory.mktemp("spoilt")
    for name in ("assets", "data"):
        shutil.copytree(ROOT / "scenes" / name, out / name)
    return out


def wrong_ones(scene, seeds, folder):
    made = (Spoilt.make(scene, seed) for seed in seeds)
    return [f"{spoilt}\n    {wrong}" for spoilt in made if (wrong := spoilt.wrong(folder))]


@pytest.mark.parametrize("scene", SCENES, ids=lambda path: path.stem)
def test_some_edits(scene, folder):
    name, _, seed = ASKED.partition(":")
    assert wrong_ones(scene, [int(seed)] if seed and name == scene.stem else range(12), folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda path: path.stem)
def test_many_edits(scene, folder):
    first = int(ASKED) if ASKED.isdigit() else 12
    print(f"{scene.stem}: seeds {first} to {first + 299}")
    assert wrong_ones(scene, range(first, first + 300), folder) == []


def test_a_seed_spoils_as_before_and_says_where():
    a, b = (Spoilt.make(SCENES[0], 3) for _ in range(2))
    assert a.text == b.text and str(a).startswith(f"SIM_FUZZ_SCENES={SCENES[0].stem}:3: ")


def test_what_is_not_spoilt_is_well(folder):
    chain = next(path for path in SCENES if path.stem == "chain")
    assert Spoilt("chain", 0, (), chain.read_text(encoding="utf-8")).wrong(folder) == ""
