"""From a scene to a model, a solver and a problem."""
