"""Several starts: the winner is the one that ends lowest, not the one that begins lowest."""

import json

import numpy as np
import pytest
from tools.scenes.problems import SHEET, write_scene, write_target

from sim.cli import main
from sim.core.optim import LBFGS
from sim.identify.search.loop import NonFinite
from sim.identify.search.starts import choose_start


def valleys(x):
    """A wide valley that ends at 1 near x = -2, and a deep one that ends at 0 at x = 2 behind a hill."""
    a, b = 1.0 + 0.05 * (x[0] + 2) ** 2, 8.0 * (x[0] - 2) ** 2
    low = np.array([a, b]).argmin()
    slope = (0.1 * (x[0] + 2), 16.0 * (x[0] - 2))[low]
    return float((a, b)[low]), np.array([slope])


def tournament(function, starts, **options):
    return choose_start(
        function, [np.array([s], float) for s in starts], (np.full(1, -9.0), np.full(1, 9.0)), LBFGS, "plain", **options
    )


def test_one_that_begins_low_and_stays_there_does_not_win():
    found = tournament(valleys, [-2.1, 2.36, -5.0, 2.38])
    assert found.index in (1, 3) and found.x[0] == pytest.approx(2, abs=1e-3)
    assert found.losses == pytest.approx([valleys(np.array([s]))[0] for s in (-2.1, 2.36, -5.0, 2.38)])
    assert found.losses[0] < found.losses[found.index] and found.reached[found.index] == min(found.reached)


def test_broken_starts_are_left_out():
    def function(x):
        if x[0] > 2.5:
            raise FloatingPointError("too fast")
        return valleys(x)

    found = tournament(function, [3.0, -1.0, 2.4])
    assert found.index == 2 and np.isnan(found.losses[0]) and np.isnan(found.reached[0])
    with pytest.raises(NonFinite, match="none of the 2 starts.*too fast"):
        tournament(function, [3.0, 4.0])


def test_it_may_be_stopped():
    asked = []

    def function(x):
        asked.append(x)
        return valleys(x)

    found = tournament(function, [-3.0, 3.0, 1.9], should_stop=lambda: len(asked) >= 3)
    assert found.index == 2 and found.x[0] == 1.9 and found.evaluations == 3
    nothing = tournament(function, [-3.0, 3.0], should_stop=lambda: True)
    assert nothing.x[0] == -3.0 and nothing.evaluations == 0


def test_evaluations_are_counted_once():
    asked = []

    def function(x):
        asked.append(x)
        return valleys(x)

    assert tournament(function, [-3.0, 3.0, 1.5, 0.0, 4.0]).evaluations == len(asked)


def test_in_a_run(tmp_path, capsys):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    scene = write_scene(tmp_path, SHEET + "  starts: 4\n  seed: 3\n")
    assert main(["run", str(scene), "--out", str(tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    starts = result["starts"]
    assert len(starts["losses"]) == 4 and starts["evaluations"] >= 4
    assert (
        result["loss"]["initial"] == starts["losses"][0] > result["loss"]["final"]
    )  # of the scene's own start, not of the winner
    assert result["parameters"]["stretch"]["final"] == pytest.approx(0.02, rel=0.01)
    assert "of 4 starts" in capsys.readouterr().out
