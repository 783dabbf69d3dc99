"""Parameters: what they are bound to, their bounds and transforms."""
