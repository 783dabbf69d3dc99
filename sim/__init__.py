"""sim: differentiable physics in Python.  The public API; the README and docs/ say where to start."""

from importlib import import_module as _import_module
from typing import Any as _Any

from sim.constraints import Constraint as Constraint
from sim.constraints import ConstraintError as ConstraintError
from sim.constraints import constraint as constraint
from sim.core import *
from sim.core import __version__ as __version__
from sim.core import _missing
from sim.core import types as types
from sim.display import painter as _painter
from sim.model import Control as Control
from sim.model import Group as Group
from sim.model import Model as Model
from sim.model import ModelBuilder as ModelBuilder
from sim.model import ModelError as ModelError
from sim.model import State as State
from sim.model import eval_fk as eval_fk
from sim.model import eval_ik as eval_ik
from sim.rollout import AdjointGrowth as AdjointGrowth
from sim.rollout import ChaoticGradientWarning as ChaoticGradientWarning
from sim.rollout import Checkpointed as Checkpointed
from sim.rollout import NonFiniteState as NonFiniteState
from sim.rollout import StoreAll as StoreAll
from sim.rollout import Trajectory as Trajectory
from sim.rollout import rollout as rollout
from sim.solvers import LeapfrogStart as LeapfrogStart
from sim.solvers import NumericsWarning as NumericsWarning
from sim.solvers import SolverError as SolverError
from sim.solvers import SolverNewton as SolverNewton
from sim.solvers import SolverSemiImplicit as SolverSemiImplicit
from sim.solvers import SolverXPBD as SolverXPBD
from sim.solvers import joint_errors as joint_errors
from sim.solvers import step_residuals as step_residuals

_OF_SCENES = {"Scene", "SceneError", "load_scene"}
_OF_NUMERICS = {"convergence", "numerical_error"}


def __getattr__(name: str) -> _Any:
    """Scenes bring reports, players and files along, a fifth of an import that kernels can do without: loaded when
    first asked for."""
    if name in _OF_SCENES:
        return getattr(_import_module("sim.scene"), name)
    if name in _OF_NUMERICS:
        return getattr(_import_module("sim.identify.numerics"), name)
    if name in ("scene", "identify", "io", "_src"):
        return _import_module(f"sim.{name}")
    if name in types.REFUSED_ANNOTATIONS:
        return types.REFUSED_ANNOTATIONS[name]
    raise _missing("sim", name, __dir__())


# The player comes with the first trajectory that a notebook shows.
_painter.trajectory = lambda of: _import_module("sim.identify.report.notebook").trajectory_html(of)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_SCENES, *_OF_NUMERICS})
