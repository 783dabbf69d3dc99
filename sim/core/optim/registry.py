"""The minimisers that users can choose by name."""

from __future__ import annotations

from sim.core.optim import descent, gauss_newton, lbfgs

MINIMIZERS = {spec.name: spec for spec in (lbfgs.SPEC, descent.SPEC, gauss_newton.SPEC)}
"""By name, in the order in which they are documented."""
