"""Files as other programs write them, and a checker of our own."""
