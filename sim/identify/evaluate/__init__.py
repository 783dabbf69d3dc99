"""The loss of a problem at a point: parameters written to the model, rollouts, terms, and the way back."""
