"""How far links turn in a step, of mechanisms that contacts may hit.

Where joints hold what is hit, impulses act along their rows at the time of the impact, and what is moved on from there
goes straight.  Links that turn far in a step are elsewhere by then: of 191 random linkages that were thrown, those that
gained more than 1 % of their energy all turned by .2 rad and more in some step.
"""

from __future__ import annotations

import numpy as np

from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.mechanisms.held import HeldVelocities
from sim.solvers.mechanisms.rows import body_name

MOST = 0.15
"""Turn in a step [rad]: above it, advice is due."""


def turning_warning(solver: Solver, state: State, dt: float) -> str:
    """What to say of a step of dt [s] that led to a state; "" where nothing that joints hold, and contacts may hit,
    turns far in it."""
    held: HeldVelocities | None = getattr(solver, "held", None)
    if held is None or not held.batches:
        return ""
    model, (_, of_body) = solver.model, held.of_movers
    host = model.device.numpy
    turns = np.linalg.norm(host(state.body_qd)[:, 3:].astype(np.float64), axis=1) * solver.effective_dt(dt)
    turns[host(of_body) < 0] = 0.0
    if not turns.max(initial=0.0) > MOST:
        return ""
    body = int(turns.argmax())
    name = body_name(model, body)
    return (
        f"{name!r} turns by {turns[body]:.2g} rad in a step of {dt:.3g} s: where it or what is joined to it is hit,"
        f" energy may be gained, and derivatives be off; take {int(np.ceil(turns[body] / MOST))} times as many substeps"
    )
