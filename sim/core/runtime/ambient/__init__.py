"""What is open in a thread: recorders, observers, profiles, the number of threads."""
