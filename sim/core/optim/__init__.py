"""Optimisers without physics: `Adam`, `SGD` update arrays; `LBFGS`, `GaussNewton`, `Descent` minimise functions."""

from sim.core.optim import linear as linear
from sim.core.optim.adam import SGD as SGD
from sim.core.optim.adam import Adam as Adam
from sim.core.optim.descent import Descent as Descent
from sim.core.optim.gauss_newton import GaussNewton as GaussNewton
from sim.core.optim.lbfgs import LBFGS as LBFGS
from sim.core.optim.lbfgs import MinimizeResult as MinimizeResult
from sim.core.optim.minimizer import Minimizer as Minimizer
from sim.core.optim.minimizer import Step as Step
