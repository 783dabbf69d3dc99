"""What is said of contacts in steps that are watched: nothing of the steps is changed."""
