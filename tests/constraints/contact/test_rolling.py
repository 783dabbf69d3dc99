"""A ball on a plane: sliding, rolling, and the moment at which it changes."""

from __future__ import annotations

import pytest
from contact_worlds import ball, coordinate, gradients

ALONG = coordinate("body_q", 0, 0)


@pytest.mark.parametrize("friction, acceleration", [(0.3, 2.39658), (0.05, 2.89430)])
def test_down_a_slope_it_rolls_where_friction_suffices(friction: float, acceleration: float) -> None:
    """20 degrees: rolls if mu >= 2/7 tan = .10399."""
    end, _ = gradients(ball(friction, 20.0, 0.0), 960, 1 / 960, ALONG)
    assert end.body_qd.numpy()[0, 0] == pytest.approx(acceleration, rel=1e-3)


def test_a_billiard_ball_begins_to_roll() -> None:
    """From 2 m/s with mu = .2 at 5/7 of its speed; derivatives of where it is after 0.6 s."""
    end, of = gradients(ball(0.2, 0.0, 2.0), 576, 1 / 960, ALONG)
    v = end.body_qd.numpy()[0]
    assert v[0] == pytest.approx(1.428571, abs=1e-5) and v[5] == pytest.approx(-14.28571, abs=1e-4)
    assert of["floor.friction"][0] == pytest.approx(-0.41607, rel=2e-3)
    assert of["ball.velocity"][0, 0] == pytest.approx(0.51179, rel=2e-3)
