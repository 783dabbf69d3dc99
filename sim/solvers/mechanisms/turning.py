"""How far links turn in a step, of mechanisms that contacts may hit.

Where joints hold what is hit, impulses act along their rows at the time of the impact, and what is moved on from there
goes straight.  Links that turn far in a step are elsewhere by then: of 191 random linkages that were thrown, those that
gained more than 1 % of their energy all turned by .2 rad and more in some step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.integrators.step_kernels import make_turns
from sim.solvers.mechanisms.rows import body_name

MOST = 0.15
"""Turn in a step [rad]: above it, advice is due."""


@dataclass(eq=False)
class FurthestTurns:
    """The furthest that bodies have turned in a step since `begin`.

    of_body: the mechanism of each, -1 of none; angle: (bodies,) [rad], empty where contacts hit no mechanism.
    """

    model: Model
    of_body: array
    looks: bool

    def __post_init__(self) -> None:
        count = self.model.body_count if self.looks else 0
        self.angle = zeros(count, self.model.dtype, self.model.device, requires_grad=False)

    def begin(self) -> None:
        """Forgets what has been."""
        if self.looks:
            self.angle.zero_()

    def note(self, body_qd: array, dt: float) -> None:
        """Looks at a step of dt [s] that has ended with these velocities."""
        if self.looks:
            with recording.paused():
                launch(make_turns(self.model.dtype), self.angle.size, [self.of_body, body_qd, dt], [self.angle])

    def warning(self, dt: float) -> str:
        """What to say of steps of dt [s]; "" where nothing has turned far in any of them.  Waits for the device."""
        angle = self.angle.numpy()
        if not angle.max(initial=0.0) > MOST:
            return ""
        body = int(angle.argmax())
        return (
            f"{body_name(self.model, body)!r} turns by {angle[body]:.2g} rad in a step of {dt:.3g} s: where it or what"
            " is joined to it is hit, energy may be gained, and derivatives be off; take"
            f" {ceil(angle[body] / MOST)} times as many substeps"
        )
