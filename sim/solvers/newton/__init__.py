"""Newton's method: implicit steps solved to a tolerance, with an implicit gradient."""

from sim.solvers.newton.rest import NoStateAtRest as NoStateAtRest
from sim.solvers.newton.rest import RestSolver as RestSolver
from sim.solvers.newton.solver import SolverNewton as SolverNewton
