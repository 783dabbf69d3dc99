"""What is sought: names, bounds, transforms."""
