"""Solvers: each steps a model from one state to the next."""

from sim.solvers.base import SOLVERS as SOLVERS
from sim.solvers.base import Solver as Solver
from sim.solvers.base import SolverError as SolverError
from sim.solvers.contacts.watch import ContactCount as ContactCount
from sim.solvers.contacts.watch import ContactWatch as ContactWatch
from sim.solvers.contacts.watch import Touched as Touched
from sim.solvers.contacts.watch import inside_at_start as inside_at_start
from sim.solvers.mechanisms.joint_errors import JointErrors as JointErrors
from sim.solvers.mechanisms.joint_errors import joint_errors as joint_errors
from sim.solvers.mechanisms.joint_errors import start_warning as start_warning
from sim.solvers.newton import SolverNewton as SolverNewton
from sim.solvers.residual import StepResidual as StepResidual
from sim.solvers.residual import step_residuals as step_residuals
from sim.solvers.semi_implicit import SolverSemiImplicit as SolverSemiImplicit
from sim.solvers.stability import growing as growing
from sim.solvers.stability import growth_warning as growth_warning
from sim.solvers.stability import refuse_growing as refuse_growing
from sim.solvers.steplength import NumericsWarning as NumericsWarning
from sim.solvers.steplength import leave_to_others as leave_to_others
from sim.solvers.steplength import residual_warning as residual_warning
from sim.solvers.steplength import resolved_step as resolved_step
from sim.solvers.steplength import rounding_warning as rounding_warning
from sim.solvers.steplength import step_warnings as step_warnings
from sim.solvers.steplength import warn_of_steps as warn_of_steps
from sim.solvers.xpbd import SolverXPBD as SolverXPBD
