"""Loops of rigid joints that are solved directly: what is held twice is refused, what is not is solved."""

import numpy as np
import pytest

import sim
from sim.solvers.base import SolverError


def four_bar(worlds=1, **last):
    """A linkage in a plane, of hinges: 20 rows hold 17 of the 18 motions of its three links."""
    builder, places = sim.ModelBuilder(), np.array([(0, 0, 0), (0.3, 1, 0), (1.3, 1.2, 0), (1.5, 0, 0)])
    links = [
        builder.add_body(tuple((a + b) / 2), 1.0, (0.01, 0.1, 0.1), label=f"link{k}")
        for k, (a, b) in enumerate(zip(places, places[1:], strict=False))
    ]
    for k, (parent, child) in enumerate([(-1, links[0]), (links[0], links[1]), (links[1], links[2]), (-1, links[2])]):
        given = last if k == 3 else {}
        frames = builder.joint_frames(parent, child, places[k])
        builder.add_joint_revolute(parent, child, *frames, axis=(0, 0, 1), label=f"hinge{k}", **given)
    return (builder.replicate(worlds) if worlds > 1 else builder).finalize(dtype=sim.float64)


HINGES = [f"hinge{k}" for k in range(4)]


@pytest.mark.parametrize("worlds", [1, 2])
def test_rows_that_follow_from_others_are_refused(worlds):
    model = four_bar(worlds)
    said = "'hinge0', 'hinge1', 'hinge2', 'hinge3' are in a loop, and 3 of their 20 rows follow"
    with pytest.raises(SolverError, match=said):
        sim.SolverXPBD(model, direct=HINGES)
    sim.SolverXPBD(model, direct=HINGES[:3])  # a chain
    sim.SolverXPBD(model)


@pytest.mark.parametrize("soft", [{"compliance": 1e-8}, {"linear_compliance": 1e-8, "angular_compliance": 1e-6}])
def test_one_that_gives_way_opens_the_loop(soft):
    sim.SolverXPBD(four_bar(**soft), direct=HINGES)


def test_a_loop_that_holds_nothing_twice_is_solved():
    """Three ball joints and a slider between two bodies and the world; the bodies still turn."""
    builder = sim.ModelBuilder()
    a = builder.add_body((0.5, 0, 0), 1.0, (0.01, 0.1, 0.1))
    b = builder.add_body((1.5, 0.5, 0), 1.0, (0.01, 0.1, 0.1))
    builder.add_joint_ball(-1, a, *builder.joint_frames(-1, a, (0, 0, 0)), label="start")
    builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (1, 0, 0)), label="middle")
    builder.add_joint_ball(-1, b, *builder.joint_frames(-1, b, (2, 1, 0.3)), label="end")
    sim.SolverXPBD(builder.finalize(), direct=["start", "middle", "end"])
