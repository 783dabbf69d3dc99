"""What contacts did in steps that are watched: which push and slip, how deep, and how near they were to a switch."""
