"""What the tracer does with Python's syntax: expressions, assignments, calls, branches and loops, on traced values."""
