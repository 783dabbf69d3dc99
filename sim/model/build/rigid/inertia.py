"""Where mass and inertia of bodies come from: given by the user, from the section and density of a rod, or
from shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.model.build import checks
from sim.model.derived.arrays import ArrayFactory, per_element
from sim.model.derived.body_kernels import body_derivations
from sim.model.derived.derivation import Column, Derivation, Picked, broadcast
from sim.model.groups import BodyGroup
from sim.model.materials import FINITE, Materials


class Inertia(Protocol):
    """Mass, centre of mass and inertia of the bodies of a group, as material values."""

    def masses(self, count: int) -> np.ndarray:
        """(count,) [kg], as they are now."""

    def copied(self, worlds: int) -> Inertia:
        """Of all worlds, one world after the other."""

    def derive(
        self, group: BodyGroup, arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
    ) -> list[Derivation]:
        """Adds the values to the materials; what follows from them."""


@dataclass(eq=False)
class GivenInertia:
    """mass (.,), com (., 3), inertia (., 3) of principal moments or (., 6) as xx yy zz xy xz yz about the centre of
    mass: one for all, one for each world or one for each body."""

    mass: np.ndarray
    com: np.ndarray
    inertia: np.ndarray

    def masses(self, count: int) -> np.ndarray:
        """See `Inertia`."""
        return per_element(self.mass, count)

    def copied(self, worlds: int) -> GivenInertia:
        """See `Inertia`."""
        return replace(self, **{name: np.concatenate([values] * worlds) for name, values in vars(self).items()})

    def derive(
        self, group: BodyGroup, arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
    ) -> list[Derivation]:
        """See `Inertia`."""
        count, everyone, rows = group.count, np.arange(group.count), group.bodies
        mass, com, inertia = (
            materials.add(f"{group.name}.{key}", value, FINITE if key == "mass" else "")
            for key, value in vars(self).items()
        )
        kernel = body_derivations(make.real).inertia[self.inertia.shape[1]]
        inputs = [Picked.of(inertia, everyone, count), Column(rows, int)]
        return [
            broadcast(make, mass, count, everyone, rows, arrays["body_mass"]),
            broadcast(make, com, count, everyone, rows, arrays["body_com"]),
            Derivation(kernel, count, inputs, [arrays["body_inertia"]]),
        ]


@dataclass(eq=False)
class OfShapes:
    """None of its own: that of the shapes of a body."""

    def masses(self, count: int) -> np.ndarray:
        """See `Inertia`."""
        return np.zeros(count)

    def copied(self, worlds: int) -> OfShapes:
        """See `Inertia`."""
        return self

    def derive(
        self, group: BodyGroup, arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
    ) -> list[Derivation]:
        """See `Inertia`."""
        return []


@dataclass(eq=False)
class RoundSegments:
    """Segments of a round rod: density [kg/m^3] and radius [m], (1,) or one for each world, lengths (n,) [m].

    A segment is a cylinder along its first axis, its origin in the middle.
    """

    density: np.ndarray
    radius: np.ndarray
    lengths: np.ndarray

    def masses(self, count: int) -> np.ndarray:
        """See `Inertia`."""
        density, radius = (per_element(values, count) for values in (self.density, self.radius))
        return np.asarray(density * np.pi * radius**2 * self.lengths)

    def copied(self, worlds: int) -> RoundSegments:
        """See `Inertia`."""
        return RoundSegments(*(np.concatenate([values] * worlds) for values in vars(self).values()))

    def derive(
        self, group: BodyGroup, arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
    ) -> list[Derivation]:
        """See `Inertia`."""
        paths = {key: f"{group.name}.{key}" for key in ("density", "radius")}
        density, radius = (
            materials[path] if path in materials else materials.add(path, getattr(self, key), "(0, inf)")
            for key, path in paths.items()
        )
        count, everyone = group.count, np.arange(group.count)
        picked = [Picked.of(value, everyone, count) for value in (density, radius)]
        inputs = [*picked, Column(self.lengths, make.real), Column(group.bodies, int)]
        outputs = [arrays["body_mass"], arrays["body_inertia"]]
        kernel = body_derivations(make.real).cylinder
        return [Derivation(kernel, count, inputs, outputs)]


def positive(name: str, value: object) -> np.ndarray:
    """A positive number as (1,)."""
    return np.array([checks.number(name, value, positive=True)])
