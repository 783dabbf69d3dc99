"""Identification: parameters and their transforms, losses, the problem, and the loop that searches."""

from sim.identify.many.ensemble import Ensemble as Ensemble
from sim.identify.many.ensemble import ensemble as ensemble
