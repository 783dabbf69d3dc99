"""What may be wrong with steps of joints: how far they come apart, and what grows from step to step."""
