"""Arrays: made, viewed, copied, filled."""
