"""What is known: takes, measures, what is expected."""
