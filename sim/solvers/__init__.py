"""Solvers: each steps a model from one state to the next."""

from sim.solvers.xpbd import SolverError as SolverError
from sim.solvers.xpbd import SolverXPBD as SolverXPBD
