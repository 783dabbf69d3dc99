"""Solvers: each steps a model from one state to the next."""

from sim.solvers.base import SOLVERS as SOLVERS
from sim.solvers.base import Solver as Solver
from sim.solvers.base import SolverError as SolverError
from sim.solvers.newton import SolverNewton as SolverNewton
from sim.solvers.semi_implicit import SolverSemiImplicit as SolverSemiImplicit
from sim.solvers.steplength import step_warnings as step_warnings
from sim.solvers.xpbd import SolverXPBD as SolverXPBD
