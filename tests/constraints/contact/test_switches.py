"""Contacts about to switch, where the gradient is one-sided: counted where they were made so, and nowhere else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients, mass_point

import sim
from sim.cli import main
from sim.solvers import ContactCount, ContactWatch

DT = 1 / 64


def watched(model: sim.Model, steps: int, dt: float = DT, **options: object) -> tuple[ContactCount, np.ndarray]:
    """What the contacts of a rollout did, in all and step by step."""
    watch = ContactWatch(sim.SolverXPBD(model, **options))
    a, b, codes = model.state(), model.state(), []
    for _ in range(steps):
        codes.append(watch.step(a, b, dt))
        a, b = b, a
    return watch.count, np.array(codes)


def pushed(across: float, mu: float, down: float = 8.0) -> sim.Model:
    """A block at rest, with gravity at an angle."""
    model = mass_point([0, 0, 0], [0, 0, 0], mu, 0.0)
    model.gravity.assign(np.array([[across, -down, 0.0]]))
    return model


def kinds(count: ContactCount) -> dict[str, int]:
    return {name: found for name, found in count.kinds.items() if found}


def test_what_touches_at_the_end_of_a_step_is_counted() -> None:
    """Once as the step ends, and once as the next begins; not where the contact is a 1e-5 of a step away."""
    falling = [mass_point([0, h, 0], [0, -1, 0], 0.0, 1.0, 0.0) for h in (0.5, 0.5 + 1e-5 * DT, 0.51)]
    at, beside, away = (watched(model, 40)[0] for model in falling)
    assert kinds(at) == {"opens or closes": 2} and "2 of 2 contacts" in at.message and "one-sided" in at.message
    assert beside.pushing == away.pushing == 1 and not beside.switching + away.switching
    assert not away.message


def test_a_gradient_at_a_switch_is_that_to_one_side() -> None:
    """How far a ball has come back, by where it began: -1 where it has hit in this step, 1 where it has not yet."""
    end, of = gradients(mass_point([0, 0.5, 0], [0, -1, 0], 0.0, 1.0, 0.0), 32, DT, coordinate("particle_q", 0, 1))
    assert end.particle_q.numpy()[0, 1] == 0.0
    assert of["particles.position"][0, 1] == pytest.approx(1.0)  # open


def test_the_edge_of_the_cone_is_counted() -> None:
    at, inside, beyond = (watched(pushed(2.0, mu), 4) for mu in (0.25, 0.2501, 0.2499))
    assert kinds(at[0]) == {"sticks or slips": 4} and at[0].pushing == 4
    assert not inside[0].switching and (inside[1] == 1).all() and inside[0].used["floor"] == [4, 0, 0]
    assert not beyond[0].switching and (beyond[1] == 2).all()


@pytest.mark.parametrize("speed, found", [(1.0, 1), (2.0, 1), (1.5, 0), (2.5, 0), (0.5, 0)])
def test_the_speed_at_which_impacts_begin_to_rebound_is_counted(speed: float, found: int) -> None:
    """At twice what gravity gives in a step, and at twice that."""
    gravity, begin = 8.0, 2 * 8.0 * DT
    # it is in contact after half a step, as fast as asked for
    start = speed * begin - 0.5 * gravity * DT - 0.5 * gravity * DT
    height = 0.5 * DT * speed * begin - 0.5 * gravity * (0.5 * DT) ** 2
    count, codes = watched(mass_point([0, height, 0], [0, -start, 0], 0.0, 0.5, gravity), 1)
    assert count.pushing == 1 and kinds(count) == ({"rests or rebounds": 1} if found else {})
    assert codes[0, 0] == {0.5: 1, 1.0: 1, 1.5: 5, 2.0: 5}.get(speed, 9) or found


def corner(velocity: tuple[float, float, float]) -> sim.Model:
    """A particle that flies into the corner of a floor and a wall."""
    made = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    p = made.add_particle([0.505, 0.505, 0], velocity, 1.0)
    for label, normal in (("floor", [0, 1, 0]), ("wall", [1, 0, 0])):
        place = {"point": [0, 0, 0], "normal": normal, "thickness": 0.0}
        made.add_constraints("contact_plane", [[p]], 0.0, label=label, friction=0.0, restitution=1.0, **place)
    return made.finalize(dtype=sim.float64, requires_grad=True)


def test_impacts_at_the_same_time_are_counted() -> None:
    together, after = watched(corner((-1.0, -1.0, 0.0)), 40)[0], watched(corner((-1.0, -1.001, 0.0)), 40)[0]
    assert kinds(together) == {"hits with others": 2} and together.pushing == 2
    assert after.pushing == 2 and not after.switching


def test_a_watched_step_is_the_step() -> None:
    """The same bits; with contacts that are not rough as well, which are looked at by another kernel."""
    model = mass_point([0, 0.1, 0], [3, -2, 0], 0.2, 0.5)
    solver = sim.SolverXPBD(model, iterations=2)
    end = sim.rollout(solver, model.state(), 60, DT).final
    watch, a, b = ContactWatch(solver), model.state(), model.state()
    for _ in range(60):
        watch.step(a, b, DT)
        a, b = b, a
    np.testing.assert_array_equal(a.particle_q.numpy(), end.particle_q.numpy())
    np.testing.assert_array_equal(a.particle_qd.numpy(), end.particle_qd.numpy())


@pytest.mark.parametrize("mu", [None, 0.3])
def test_the_worst_penetration_has_a_name_and_a_time(mu: float | None) -> None:
    """A soft plane gives way by m g / k at rest, and by more where something falls on it, which is no impact."""
    made = sim.ModelBuilder(gravity=(0.0, -8.0, 0.0))
    made.add_particle([0, 0.02, 0], [0, 0, 0], 2.0)
    made.add_ground_plane(compliance=1e-3, label="mat", cfg=sim.ModelBuilder.ShapeConfig(mu=mu))
    count, codes = watched(made.finalize(dtype=sim.float64), 64)
    assert 2.0 * 8.0 * 1e-3 < count.worst.depth < 0.06 and count.worst.contact == "mat"
    assert count.worst.time == pytest.approx(DT * (1 + np.argmax(codes > 0)), abs=0.15) and codes.max() == 1
    assert count.used["mat"][0] == np.count_nonzero(codes)


SCENE = """\
format: 2
name: edge
time: {duration: 0.25, fps: 16, substeps: 4}
world: {gravity: [2, -8, 0]}
objects:
  block: {particles: {positions: [[0, 0, 0]], mass: 1}}
shapes:
  table: {plane: {normal: [0, 1, 0]}, friction: 0.25}
markers:
  all: {on: block, where: {all: true}}
parameters:
  friction: {of: shapes.table.friction, bounds: [0, 1]}
loss:
  - {reach: {marker: all, point: [0.1, 0, 0], at: last, scale: 100 mm}}
optimize: {lbfgs: {iterations: 1}}
"""


def test_the_command_and_the_report_say_so(tmp_path, capsys) -> None:
    """At the edge of the cone the gradient is that of sticking, the difference to one side; one that sticks has none,
    and the reason is told."""
    scene = tmp_path / "edge.yaml"
    scene.write_text(SCENE)
    assert main(["gradcheck", str(scene), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    row = found["rows"][0]
    assert found["contacts"]["main"]["kinds"]["sticks or slips"] == row["at_switch"] == 16
    assert row["gradient"] == 0.0 and row["sides"][0] > 0.01 and row["sides"][1] == 0.0 and row["ok"]
    main(["gradcheck", str(scene)])
    said = " ".join(capsys.readouterr().out.split())
    assert "16 of 16 contacts that push" in said and "friction straddles a switch" in said
    main(["run", str(scene), "--out", str(tmp_path / "run"), "--dtype", "float64"])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["contacts"]["main"]["switching"] == 16
    assert any("experiment `main`: 16 of 16 contacts" in note for note in result["notes"])
    assert any(
        "`friction` has no effect: of the contacts of `table` none ever slips" in note for note in result["notes"]
    )
