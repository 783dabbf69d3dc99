"""What is counted of contacts, and of what they are about to do otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.constraints.contact.diagnostics.switches import CLOSING, CONE, NEAR, THRESHOLD, TOGETHER

SWITCHES = {
    "opens or closes": CLOSING,
    "sticks or slips": CONE,
    "rests or rebounds": THRESHOLD,
    "hits with others": TOGETHER,
}
"""What a contact can be about to do otherwise, and its bit."""


@dataclass
class Deepest:
    """The deepest that a contact was found at the end of a step.

    depth [m], 0 where none ever was inside; contact: label of who added it; on: what it is a contact of; time [s].
    """

    depth: float = 0.0
    contact: str = ""
    on: str = ""
    time: float = 0.0

    def __str__(self) -> str:
        return f"{self.depth:.3g} m at {self.time:.4g} s: {self.contact} and {self.on}" if self.depth else "none"


@dataclass
class ContactCount:
    """Contacts of many steps: how many pushed, summed over steps, and of these how many were within a relative 1e-6 of
    a switch, in all and by kind (`SWITCHES`); the worst penetration; by label how often any pushed, slipped, and hit
    faster than what rests."""

    pushing: int = 0
    switching: int = 0
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SWITCHES, 0))
    worst: Deepest = field(default_factory=Deepest)
    used: dict[str, list[int]] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """A sentence for people; empty where nothing switches."""
        if not self.switching:
            return ""
        kinds = ", ".join(f"{name}: {count}" for name, count in self.kinds.items() if count)
        return (
            f"{_spaced(self.switching)} of {_spaced(self.pushing)} contacts that push, summed over steps, switch within"
            f" {NEAR:g} ({kinds}): the gradient is one-sided there, that of what they do now"
        )


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")
