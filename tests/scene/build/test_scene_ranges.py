"""A search stays among the numbers that a scene may hold, also where nobody gives bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.identify.assess.misfit import misfits
from sim.identify.report.notes import notes_on

SOUGHT = "{of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}"


def built(folder: Path, sought: str) -> sim.identify.Problem:
    assert SOUGHT in SHEET
    write_target(folder, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 1e-4})
    return sim.load_scene(write_scene(folder, SHEET.replace(SOUGHT, sought))).build()


@pytest.mark.parametrize(
    ("sought", "low", "high"),
    [
        ("{of: objects.sheet.cloth.material.distance.compliance}", 0.0, np.inf),
        ("{of: {objects.sheet.cloth.material.distance.compliance: -2}}", -np.inf, 0.0),
        ("{of: objects.sheet.cloth.material.distance.compliance, bounds: [0.01, null]}", 0.01, np.inf),
        ("{of: objects.sheet.cloth.material.distance.compliance, bounds: [null, 3]}", 0.0, 3.0),
        ("{of: objects.sheet.cloth.material.distance.compliance, transform: log}", 0.0, np.inf),
        ("{of: objects.sheet.cloth.density, start: 0.2}", 0.2e-6, np.inf),  # 0 itself it may not have
        ("{of: objects.sheet.position.0}", -np.inf, np.inf),
    ],
)
def test_open_ends_lie_where_the_numbers_end(tmp_path: Path, sought: str, low: float, high: float) -> None:
    (parameter,) = built(tmp_path, sought).sought
    assert parameter.transform.lower == pytest.approx(low) and parameter.transform.upper == pytest.approx(high)


def test_a_start_at_such_an_end_stays_there(tmp_path: Path) -> None:
    """Of bounds that somebody gives a search begins beside."""
    problem = built(tmp_path, "{of: objects.sheet.cloth.material.distance.compliance, start: 0}")
    assert problem.physical()["stretch"] == 0.0
    assert not any("starts on its" in note for note in problem.description.notes)


def test_what_is_stiffer_than_rigid_is_not_found(tmp_path: Path) -> None:
    """The recording is 50 mm higher than what does not stretch at all."""
    problem = built(tmp_path, "{of: objects.sheet.cloth.material.distance.compliance}")
    target = problem.experiments[0].targets["corners"].positions
    target += np.array([0.0, 0.05, 0.0])
    found = problem.optimize()
    assert found.parameters["stretch"] == 0.0
    told = notes_on(problem, found, None, misfits(problem, problem.simulate(found.search.x)), 30, "runs/one")
    assert any("`stretch` ended on its lower bound, 0, beyond which it means nothing" in note for note in told)
