"""Standard errors where the derivative at the optimum is that of a narrow place, as where two corners hit together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sim
from sim.identify.assess import wider
from sim.identify.assess.estimate import standard_errors
from sim.identify.assess.uncertainty import Uncertainty, assess
from sim.identify.assess.wider import FURTHEST, held_against_wider
from sim.identify.losses.jacobian import linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.secants import changes_within, has_switches
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import ParameterSpace, Transform
from sim.identify.run import run_problem

FRAMES = 200
SCENES = Path(__file__).parents[3] / "scenes"


@dataclass
class Narrow:
    """Places that change with `e` as steep times as much within `width` of the optimum at 0 as elsewhere, and with `mu`
    evenly.  breaks: the side on which the simulation breaks down; grips: from which `e` on nothing changes."""

    steep: float = 27.0
    width: float = 1e-3
    breaks: float = 0.0
    highest: float = np.inf
    grips: float = np.inf
    asked: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sought = [Parameter(name, np.zeros(()), [], Transform()) for name in ("e", "mu")]
        self.space = ParameterSpace({p.name: p.transform for p in self.sought}, {p.name: p.start for p in self.sought})
        self.model, self.fitted, self.experiments, self.terms = SimpleNamespace(dtype=sim.float64), [], [], []
        self.bounds = np.full(2, -np.inf), np.array([self.highest, np.inf])
        self.noise = np.random.default_rng(3).normal(size=(FRAMES, 1, 3))

    def reaches(self, i, experiment) -> bool:
        return True

    def simulate(self, x, experiments=None):
        self.asked.append(np.array(x))
        if self.breaks * x[0] > 2e-4:
            raise FloatingPointError("it breaks down")
        return {}

    def residuals(self, x, simulations) -> list[Residuals]:
        x = np.minimum(x, [self.grips, np.inf])
        e = x[0] + (self.steep - 1.0) * np.clip(x[0], -self.width, self.width)
        moved = 5.0 * np.stack([np.full((FRAMES, 1), e), np.full((FRAMES, 1), x[1]), np.zeros((FRAMES, 1))], axis=-1)
        ones = np.ones((FRAMES, 1))
        return [Residuals("match", "main", self.noise + moved, ones, np.arange(FRAMES), -ones.astype(int), "tip")]


def known(problem: Narrow) -> tuple[Uncertainty, Uncertainty]:
    """By the derivatives, and held against wider stretches."""
    before = assess(problem, linearise(problem, np.zeros(2)))
    problem.asked.clear()
    return before, held_against_wider(problem, before)


def test_a_narrow_place_does_not_make_a_value_well_known() -> None:
    before, after = known(Narrow())
    even, _ = known(Narrow(steep=1.0))
    assert before.errors["e"] == pytest.approx(even.errors["e"] / 27.0, rel=1e-2)
    share = 1.0 + 26.0 * 1e-3 / FURTHEST  # the narrow place is a part of the stretch
    assert after.errors["e"] == pytest.approx(even.errors["e"] / share, rel=1e-2)
    assert after.errors["mu"] == before.errors["mu"]
    assert np.array_equal(after.by_noise["e"], before.by_noise["e"])
    assert after.deviations[0] == pytest.approx(before.deviations[0] * after.errors["e"] / before.errors["e"])
    assert np.array_equal(after.deviations, before.deviations * after.widened)
    (note,) = set(after.notes) - set(before.notes)
    assert note.startswith("`e`: within 0.05 of its coordinate, recordings change 18 times less") and "--starts" in note
    # a numerical error goes by the same slope: by the steep one it were as much too small
    assert after.linearised.matrix[0, 0] == pytest.approx(before.linearised.matrix[0, 0] / 18.0**2, rel=0.05)


def test_what_changes_evenly_keeps_its_error() -> None:
    problem = Narrow(steep=1.0)
    before, after = known(problem)
    assert after.errors == before.errors and after.notes == before.notes
    assert after.rollouts == before.rollouts + 4 == before.rollouts + len(problem.asked)
    assert max(np.abs(x).max() for x in problem.asked) <= FURTHEST


def test_sides_that_are_no_use_are_left_out() -> None:
    """Beyond a bound, or where the simulation breaks down; and nothing is said where no side is left."""
    for problem in (Narrow(highest=1e-3), Narrow(breaks=1.0)):
        before, after = known(problem)
        assert after.errors["e"] > 15.0 * before.errors["e"]
    problem = Narrow(highest=1e-3, breaks=-1.0)
    before, after = known(problem)
    assert not changes_within(problem, before.linearised, 0, FURTHEST)
    assert after.errors == before.errors


@pytest.mark.parametrize("grips", [1e-4, 1e-3])
def test_a_side_where_nothing_changes_any_more_has_the_word(grips: float) -> None:
    """A friction from which on something sticks is known from below alone: the truth may be anywhere above."""
    before, after = known(Narrow(steep=1.0, grips=grips))
    assert after.errors["e"] == pytest.approx(before.errors["e"] * FURTHEST / grips)
    assert after.errors["mu"] == before.errors["mu"]
    (note,) = set(after.notes) - set(before.notes)
    assert "towards larger values, within 0.05" in note and "it is hardly smaller" in note


@pytest.mark.parametrize(("floor", "wanted"), [(True, True), (False, False)])
def test_contacts_may_switch(floor: bool, wanted: bool) -> None:
    builder = sim.ModelBuilder()
    builder.add_particle((0, 1, 0))
    if floor:
        builder.add_ground_plane(0.0)
    assert has_switches(SimpleNamespace(model=builder.finalize())) is wanted


@pytest.mark.parametrize("friction", [None, 0.1])
def test_dry_friction_of_joints_may_switch(friction: float | None) -> None:
    builder = sim.ModelBuilder()
    body = builder.add_body(mass=1.0, inertia=np.eye(3))
    builder.add_joint_revolute(-1, body, axis=(0, 0, 1), friction=friction, target_ke=1.0)
    assert has_switches(SimpleNamespace(model=builder.finalize())) is (friction is not None)


@pytest.mark.parametrize("floor", [True, False])
def test_an_estimate_looks_where_things_touch(floor: bool) -> None:
    builder = sim.ModelBuilder()
    builder.add_particle((0, 1, 0))
    if floor:
        builder.add_ground_plane(0.0)
    problem = Narrow()
    problem.model = builder.finalize(dtype=sim.float64)
    found = linearise(problem, np.zeros(2))
    errors, derivatives = standard_errors(problem, found).errors["e"], assess(problem, found).errors["e"]
    assert errors > 15.0 * derivatives if floor else errors == derivatives


@pytest.mark.parametrize(("scene", "touches"), [("slide", True), ("chain", False)])
def test_a_run_looks_where_things_touch(scene: str, touches: bool, tmp_path, monkeypatch) -> None:
    """Were a hundredth told within the stretch, errors would be ten times as large."""

    def a_tenth(problem, found, i, reach) -> dict[int, list[np.ndarray]]:
        return {side: [0.1 * side * reach * jacobian[..., i] for jacobian in found.jacobians] for side in (-1, 1)}

    monkeypatch.setattr(wider, "changes_within", a_tenth)
    notes = run_problem(sim.load_scene(SCENES / f"{scene}.yaml").build(), tmp_path / "run", iterations=1).result[
        "notes"
    ]
    assert any("10 times less than the derivative" in note for note in notes) is touches


class Steep(Narrow):
    """Both steep within their widths, and what they do nearly alike, there and beside."""

    def residuals(self, x, simulations) -> list[Residuals]:
        e, mu = x + (self.steep - 1.0) * np.clip(x, -self.width, self.width)
        moved = 5.0 * np.stack([np.full((FRAMES, 1), e + mu), np.full((FRAMES, 1), 0.1 * (e - mu)),
                                np.zeros((FRAMES, 1))], axis=-1)  # fmt: skip
        ones = np.ones((FRAMES, 1))
        return [Residuals("match", "main", self.noise + moved, ones, np.arange(FRAMES), -ones.astype(int), "tip")]


def test_what_makes_up_for_each_other_is_counted_once() -> None:
    """Each of them is told 18 times less beside the narrow place; errors of the two together are, too, and no more.

    A friction of .5 of a dragged rope had an error of 3.6, its compliance one of seven times its value: what jumps had
    made alike was multiplied by what they had made steep."""
    even, _ = known(Steep(steep=1.0))
    before, after = known(Steep())
    share = 1.0 + 26.0 * 1e-3 / FURTHEST
    for name in ("e", "mu"):
        assert before.errors[name] == pytest.approx(even.errors[name] / 27.0, rel=1e-2)
        assert after.errors[name] == pytest.approx(even.errors[name] / share, rel=1e-2)
    alike = Jumping(width=1.0)  # no narrow place: jumps that both have, at the same time
    alike.jump, alike.common = 1e-3, True
    true, _ = known(Steep(steep=1.0))
    before, after = known(alike)
    assert before.linearised.matrix[0, 0] > 10.0 * even.linearised.matrix[0, 0]
    for name in ("e", "mu"):
        assert after.errors[name] == pytest.approx(max(before.errors[name], true.errors[name]), rel=0.1)


class Jumping(Narrow):
    """Places that change with `e` and `mu` alike, but for a tenth, and jump by little from one value to the next: the
    differences that derivatives are see another jump for each of the two."""

    jump: float = 1e-4
    common: bool = False

    def residuals(self, x, simulations) -> list[Residuals]:
        phase = np.arange(FRAMES)[:, None]
        shared = 0.0 if self.common else 1.0
        e, mu = (x[k] + self.jump * np.sin(1e7 * x[k] + (1.7 + shared * k) * phase) for k in (0, 1))
        moved = 5.0 * np.stack([e + mu, 0.1 * (e - mu), np.zeros((FRAMES, 1))], axis=-1)
        ones = np.ones((FRAMES, 1))
        return [Residuals("match", "main", self.noise + moved, ones, np.arange(FRAMES), -ones.astype(int), "tip")]


def test_jumps_do_not_tell_two_parameters_apart() -> None:
    """By each of them alone recordings change as the derivatives say, and only the secants show that they do the
    same."""
    smooth, rough = Jumping(), Jumping()
    smooth.jump = 0.0
    true, _ = known(smooth)
    before, after = known(rough)
    assert before.errors["e"] < 0.4 * true.errors["e"] and abs(before.correlation[0, 1]) < 0.8
    for name in ("e", "mu"):
        assert after.errors[name] == pytest.approx(true.errors[name], rel=0.05)
        assert np.array_equal(after.by_noise[name], before.by_noise[name])
    assert after.correlation[0, 1] == pytest.approx(true.correlation[0, 1], abs=1e-3)
    assert after.deviations == pytest.approx(before.deviations * after.widened)
    assert sum("tell the parameters apart less" in note for note in after.notes) == 1
    # what follows from derivatives goes by the secants, too
    moved = np.linalg.solve(after.linearised.matrix, after.linearised.descent)
    expected = np.linalg.solve(true.linearised.matrix, true.linearised.descent)
    assert moved == pytest.approx(expected, rel=0.2, abs=0.05 * true.deviations.max())
