"""Rollouts: many steps of a solver as one differentiable operation."""

from sim.rollout.growth import AdjointGrowth as AdjointGrowth
from sim.rollout.growth import ChaoticGradientWarning as ChaoticGradientWarning
from sim.rollout.rollout import rollout as rollout
from sim.rollout.strategies import Checkpointed as Checkpointed
from sim.rollout.strategies import StoreAll as StoreAll
from sim.rollout.trajectory import NonFiniteState as NonFiniteState
from sim.rollout.trajectory import Trajectory as Trajectory
