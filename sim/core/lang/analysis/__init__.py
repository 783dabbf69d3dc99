"""What is true of a program, without changing it."""
