"""What follows from material values: launches on the tape, so that gradients flow back to them."""
