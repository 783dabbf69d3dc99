"""What is checked when all of a scene is known."""
