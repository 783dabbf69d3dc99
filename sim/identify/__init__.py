"""Identification: parameters and their transforms, losses, the problem, its search, and what a result is worth."""

from sim.identify.assess.criteria import Fit as Fit
from sim.identify.assess.criteria import criteria as criteria
from sim.identify.assess.criteria import fit_of as fit_of
from sim.identify.assess.design import Design as Design
from sim.identify.assess.design import design as design
from sim.identify.assess.estimate import estimate as estimate
from sim.identify.assess.folds import Folds as Folds
from sim.identify.assess.folds import cross_validate as cross_validate
from sim.identify.assess.likelihood import ProfileLikelihood as ProfileLikelihood
from sim.identify.assess.likelihood import profile_likelihood as profile_likelihood
from sim.identify.assess.rehearsal import Rehearsal as Rehearsal
from sim.identify.assess.rehearsal import rehearse as rehearse
from sim.identify.assess.uncertainty import Uncertainty as Uncertainty
from sim.identify.many.ensemble import Ensemble as Ensemble
from sim.identify.many.ensemble import Member as Member
from sim.identify.many.ensemble import ensemble as ensemble
from sim.identify.problem import Problem as Problem
from sim.identify.run import Outcome as Outcome
from sim.identify.run import Watcher as Watcher
from sim.identify.run import run_problem as run_problem
